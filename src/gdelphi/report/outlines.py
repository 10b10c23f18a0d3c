"""Outlines of countries for the report's map, as SVG path data keyed by ISO 3166 alpha-3 code.

The outlines are countryinfo's (about 10,000 points for the world); the Natural Earth projection is
a polynomial that is computed here. Not plotly: its maps fetch outlines from the network. Not a
plate carrée: it makes the north, where little is reported, the largest part of the page.

countryinfo lacks a few countries, or parts of them, amid others. Coarse outlines of these stand in
`ROUGH`; they reach into their neighbours and are drawn first, so that the neighbours' own
borders cut them to shape. Small islands without an outline are dots at their capital.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from countryinfo import all_countries

WIDTH: Final = 960.0
SOUTH, NORTH = -56.5, 84.0
LEFT_OUT: Final = frozenset({"ATA"})
SMALLEST: Final = 0.6
"""square pixels; a smaller island is not drawn, unless it is all there is of a country"""

# (longitude, latitude); only coasts, and borders between two of these, need care
ROUGH: Final[Mapping[str, tuple[tuple[float, float], ...]]] = MappingProxyType(
    {
        "HUN": (
            *((15.9, 46.7), (16.4, 48.0), (17.2, 48.3), (19.5, 48.5), (21.5, 48.7), (23.2, 48.2)),
            *((22.3, 47.2), (21.3, 46.2), (20.26, 46.13), (18.83, 45.91), (17.4, 45.6)),
        ),
        "SRB": (
            *((18.83, 45.91), (20.26, 46.13), (21.3, 46.2), (22.2, 45.2), (23.2, 44.2), (23.2, 43)),
            *((22.4, 42.0), (21.2, 41.9), (20.3, 42.85), (19.2, 43.5), (18.9, 44.6)),
        ),
        "MNE": ((19.2, 43.6), (20.34, 42.9), (20.0, 42.3), (19.37, 41.87), (18.45, 42.45)),
        "MMR": (
            *((92.37, 20.67), (92.1, 21.9), (93.0, 24.2), (94.6, 26.5), (97.0, 28.5), (98.8, 27.8)),
            *((99.2, 24.0), (101.3, 21.8), (100.0, 20.2), (97.6, 18.6), (98.9, 16.2), (99.4, 13.0)),
            *((99.3, 11.0), (98.55, 9.93), (98.46, 10.68), (98.76, 11.44), (98.43, 12.03)),
            *((98.51, 13.12), (98.10, 13.64), (97.78, 14.84), (97.60, 16.10), (97.16, 16.93)),
            *((96.51, 16.43), (95.37, 15.71), (94.81, 15.80), (94.19, 16.04), (94.53, 17.28)),
            *((94.32, 18.21), (93.54, 19.37), (93.66, 19.73), (93.08, 19.86)),
        ),
        "SOM": (  # its north, which countryinfo's outline leaves out
            *((43.25, 11.47), (43.47, 11.28), (43.67, 10.86), (44.12, 10.45), (44.61, 10.44)),
            *((45.56, 10.70), (46.65, 10.82), (47.53, 11.13), (48.38, 11.38), (48.95, 11.41)),
            *((48.94, 9.97), (48.94, 9.45), (48.49, 8.84), (47.5, 7.8), (46.9, 7.8), (43.5, 8.9)),
            *((42.4, 10.3), (42.6, 10.9)),
        ),
        "JAM": (
            *((-77.57, 18.49), (-76.90, 18.40), (-76.20, 17.89), (-77.21, 17.70), (-77.77, 17.86)),
            *((-78.34, 18.23), (-78.22, 18.45), (-77.80, 18.52)),
        ),
    }
)

_LEADING_ZERO = re.compile(r"(?<!\d)0\.")
Pixel = tuple[int, int]  # tenths of a pixel, so that differences are exact


class Outline(NamedTuple):
    """A country on the map: a path, or a dot where there is no outline."""

    iso3: str
    name: str
    path: str
    dot: tuple[float, float] | None


def natural_earth(longitude: float, latitude: float) -> tuple[float, float]:
    """The Natural Earth projection: polynomials of Šavrič, Jenny, Patterson and others, 2011."""
    lam, phi = math.radians(longitude), math.radians(latitude)
    square = phi * phi
    tenth = square**5
    x = lam * (
        0.870700
        - 0.131979 * square
        - 0.013791 * square**2
        + 0.003971 * tenth
        - 0.001529 * tenth * square
    )
    y = phi * (
        1.007226
        + 0.015085 * square
        - 0.044475 * square**3
        + 0.028874 * square**4
        - 0.005916 * tenth
    )
    return x, y


SCALE: Final = WIDTH / (2 * natural_earth(180.0, 0.0)[0])
TOP: Final = natural_earth(0.0, NORTH)[1]
HEIGHT: Final = round((TOP - natural_earth(0.0, SOUTH)[1]) * SCALE, 1)


def place(longitude: float, latitude: float) -> tuple[float, float]:
    """Pixels of a point on the map of WIDTH x HEIGHT."""
    x, y = natural_earth(longitude, latitude)
    return WIDTH / 2 + x * SCALE, (TOP - y) * SCALE


def _pixels(ring: Iterable[Any]) -> list[Pixel]:
    """A ring in tenths of a pixel, without points that fall together."""
    found: list[Pixel] = []
    for longitude, latitude, *_ in ring:
        x, y = place(float(longitude), float(latitude))
        pixel = round(x * 10), round(y * 10)
        if not found or pixel != found[-1]:
            found.append(pixel)
    return found[:-1] if len(found) > 1 and found[0] == found[-1] else found


def _area(ring: list[Pixel]) -> float:
    """Square pixels inside a ring (the shoelace formula)."""
    ahead = ring[1:] + ring[:1]
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, ahead, strict=True))) / 200


def _draw(ring: list[Pixel]) -> str:
    """SVG path data of a ring: relative lines, which are half as long as absolute ones."""
    start = f"M{ring[0][0] / 10:g} {ring[0][1] / 10:g}l"
    steps = (f"{(b[0] - a[0]) / 10:g} {(b[1] - a[1]) / 10:g}" for a, b in pairwise(ring))
    return _LEADING_ZERO.sub(".", (start + " ".join(steps)).replace(" -", "-")) + "z"


def _rings(geometry: Mapping[str, Any]) -> Iterator[list[Any]]:
    """All rings of a polygon or of several."""
    kind, coordinates = geometry.get("type"), geometry.get("coordinates") or []
    polygons = {"Polygon": [coordinates], "MultiPolygon": coordinates}.get(str(kind), [])
    for polygon in polygons:
        yield from polygon


def _path(rings: Iterable[Iterable[Any]]) -> str:
    drawn = [ring for ring in map(_pixels, rings) if len(ring) > 2]
    worth = [ring for ring in drawn if _area(ring) >= SMALLEST]
    return "".join(_draw(ring) for ring in worth or sorted(drawn, key=_area)[-1:])


def _own_rings(geojson: Mapping[str, Any] | None) -> list[list[Any]]:
    features = (geojson or {}).get("features") or []
    return [ring for feature in features for ring in _rings(feature.get("geometry") or {})]


def _dot(position: Any) -> tuple[float, float] | None:
    """The pixel of a capital, where its position is known."""
    try:
        latitude, longitude = (float(value) for value in position)
    except (TypeError, ValueError):
        return None
    x, y = place(longitude, latitude)
    return (round(x, 1), round(y, 1)) if 0 < y < HEIGHT else None


@cache
def outlines() -> Mapping[str, Outline]:
    """All countries by ISO 3166 code, in the order in which they are to be drawn."""
    found = {iso3: Outline(iso3, "", "", None) for iso3 in ROUGH}  # first, so beneath the others
    for country in all_countries():
        iso3, name = country.iso(3), country.name()
        if not iso3 or iso3 in LEFT_OUT or (iso3 in found and found[iso3].name):
            continue
        rough = [ROUGH[iso3]] if iso3 in ROUGH else []
        path = _path([*rough, *_own_rings(country.geo_json())])
        dot = None if path else _dot(country.capital_latlng() or country.latlng())
        if path or dot:
            found[iso3] = Outline(iso3, str(name).title(), path, dot)
    return MappingProxyType(found)
