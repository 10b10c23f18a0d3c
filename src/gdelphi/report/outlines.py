"""Outlines of countries for the report's map, as SVG path data by FIPS code, the code of a stream.

The outlines are Natural Earth's at 1:110m (gdelt/tables/outlines.tsv); the Natural Earth projection
is a polynomial that is computed here. Not plotly: its maps fetch outlines from the network. Not a
plate carrée: it makes the north, where little is reported, the largest part of the page. Places
too small for an outline at this scale are dots.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from gdelphi.gdelt.shapes import Shape, shapes

WIDTH: Final = 960.0
SOUTH, NORTH = -56.5, 84.0
SMALLEST: Final = 0.6
"""square pixels; a smaller island is not drawn, unless it is all there is of a country"""

_LEADING_ZERO = re.compile(r"(?<!\d)0\.")
Pixel = tuple[int, int]  # tenths of a pixel, so that differences are exact


class Outline(NamedTuple):
    """A country on the map: a path, or a dot where there is no outline."""

    path: str
    dot: tuple[float, float] | None
    box: tuple[float, float, float, float]
    """left, top, right and bottom of its largest part: far islands do not count"""


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


@cache
def outlines() -> Mapping[str, Outline]:
    """All places on the map by FIPS code."""
    drawn = {}
    for fips, shape in shapes().items():
        path = _path(shape)
        x, y = place(shape.longitude, shape.latitude)
        dot = None if path else (round(x, 1), round(y, 1))
        if path or 0 < y < HEIGHT:
            drawn[fips] = Outline(path, dot, _box(shape, (x, y)))
    return MappingProxyType(drawn)


def _box(shape: Shape, dot: tuple[float, float]) -> tuple[float, float, float, float]:
    rings = [ring for ring in map(_pixels, shape.rings) if len(ring) > 2]
    if not rings:
        return (*dot, *dot)
    largest = max(rings, key=_area)
    xs, ys = ([pixel[axis] / 10 for pixel in largest] for axis in (0, 1))
    return min(xs), min(ys), max(xs), max(ys)


def _path(shape: Shape) -> str:
    """SVG path data of the rings that are large enough, or else of the largest."""
    rings = [ring for ring in map(_pixels, shape.rings) if len(ring) > 2]
    large = [ring for ring in rings if _area(ring) >= SMALLEST]
    return "".join(_draw(ring) for ring in large or sorted(rings, key=_area)[-1:])


def _pixels(ring: Iterable[tuple[float, float]]) -> list[Pixel]:
    """A ring in tenths of a pixel, without points that fall together."""
    pixels: list[Pixel] = []
    for longitude, latitude in ring:
        x, y = place(longitude, latitude)
        pixel = round(x * 10), round(y * 10)
        if not pixels or pixel != pixels[-1]:
            pixels.append(pixel)
    return pixels[:-1] if len(pixels) > 1 and pixels[0] == pixels[-1] else pixels


def _area(ring: list[Pixel]) -> float:
    """Square pixels inside a ring (the shoelace formula)."""
    ahead = ring[1:] + ring[:1]
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, ahead, strict=True))) / 200


def _draw(ring: list[Pixel]) -> str:
    """SVG path data of a ring: relative lines, which are half as long as absolute ones."""
    start = f"M{ring[0][0] / 10:g} {ring[0][1] / 10:g}l"
    steps = (f"{(b[0] - a[0]) / 10:g} {(b[1] - a[1]) / 10:g}" for a, b in pairwise(ring))
    return _LEADING_ZERO.sub(".", (start + " ".join(steps)).replace(" -", "-")) + "z"
