"""Makes the outlines of the report's map: python docs/make_outlines.py ATLAS ISO_CODES

ATLAS is the unpacked npm package world-atlas (`npm pack world-atlas`), which has Natural Earth's
countries as TopoJSON. ISO_CODES is the file that leads from its numeric codes to alpha-3 ones,
iso_3166-1.json of the Debian package iso-codes.

A country has the outline of scale 1:110m, where it has one there; smaller ones have only a point,
the centre of their largest island at 1:10m. They are keyed by FIPS 10-4 codes, the codes of GDELT's
places, and cut as these are: what Natural Earth draws apart and FIPS has as one is joined along
the border that both share, and parts that have a FIPS code of their own are taken out.
"""

import json
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gdelphi.gdelt.cameo import countries

OUT: Final = Path(__file__).parents[1] / "src/gdelphi/gdelt/tables/outlines.tsv"
STEP: Final = 0.05  # degrees, about a seventh of a pixel of the map
NAMED: Final = {  # what has no ISO code, by Natural Earth's name
    "Kosovo": "KV", "Somaliland": "SO", "N. Cyprus": "CY", "Akrotiri": "AX", "Dhekelia": "DX",
    "Coral Sea Is.": "CR", "Spratly Is.": "PG", "Clipperton I.": "IP",
}  # fmt: skip
LEFT_OUT: Final = frozenset({"AY"})  # Antarctica, beyond the map
# Parts that Natural Earth draws within a country (its name) and FIPS has elsewhere: their centres.
PARTS: Final = {
    "UP": ("Russia", (34.2, 45.3)),  # Crimea
    "FG": ("France", (-53.0, 4.0)),
    "GP": ("France", (-61.68, 16.15)),
    "MB": ("France", (-61.0, 14.65)),
    "RE": ("France", (55.5, -21.1)),
    "MF": ("France", (45.15, -12.82)),
    "SV": ("Norway", (16.0, 78.5)),
    "JN": ("Norway", (-8.4, 71.0)),
    "BV": ("Norway", (3.4, -54.4)),
    "KT": ("Indian Ocean Ter.", (105.65, -10.5)),
    "CK": ("Indian Ocean Ter.", (96.85, -12.17)),
    "WE": ("Palestine", (35.3, 32.0)),
    "GZ": ("Palestine", (34.35, 31.4)),
    "TL": ("New Zealand", (-171.2, -9.35)),
    "NT": ("Netherlands", (-68.3, 12.2)),  # Bonaire
}
NEAR: Final = 0.1  # degrees: an atoll is a ring of islets around its centre

Point = tuple[float, float]
Ring = list[Point]
ArcRing = list[int]
"""numbers of arcs; ~number is the arc backwards"""


class Atlas:
    """A TopoJSON file: countries are rings of arcs, and neighbours share those of their border."""

    def __init__(self, path: Path, iso3: dict[str, str]) -> None:
        topology = json.loads(path.read_text(encoding="utf-8"))
        scale, start = topology["transform"]["scale"], topology["transform"]["translate"]
        self.arcs: list[Ring] = []
        for deltas in topology["arcs"]:
            x = y = 0
            arc = []
            for dx, dy in deltas:
                x, y = x + dx, y + dy
                arc.append((x * scale[0] + start[0], y * scale[1] + start[1]))
            self.arcs.append(arc)
        fips = {country.iso3: country.fips for country in countries() if country.iso3}
        self.rings: dict[str, list[ArcRing]] = defaultdict(list)
        for geometry in topology["objects"]["countries"]["geometries"]:
            name = geometry["properties"]["name"]
            code = NAMED.get(name) or fips.get(iso3.get(geometry.get("id", "")))
            for ring in _arc_rings(geometry):
                owner = part_of(name, self.line(ring)) or code
                if owner and owner not in LEFT_OUT:
                    self.rings[owner].append(ring)

    def line(self, ring: ArcRing) -> Ring:
        """The points of a ring, the first one again at the end."""
        points: Ring = []
        for number in ring:
            arc = self.arcs[number] if number >= 0 else self.arcs[~number][::-1]
            points += arc[1:] if points else arc
        return points

    def outline(self, code: str) -> list[Ring]:
        """The rings of a country, without the borders between its own parts."""
        own = [number for ring in self.rings[code] for number in ring]
        shared = {number for number in own if ~number in own}
        if not shared:
            return [self.line(ring) for ring in self.rings[code]]
        left = [number for number in own if number not in shared]
        joined = []
        while left:
            ring = [left.pop(0)]
            while (points := self.line(ring))[0] != points[-1]:
                ends = points[-1]
                onward = next(number for number in left if self.line([number])[0] == ends)
                left.remove(onward)
                ring.append(onward)
            joined.append(points)
        return joined


def _arc_rings(geometry: dict[str, Any]) -> list[ArcRing]:
    arcs = geometry.get("arcs", [])
    polygons = {"Polygon": [arcs], "MultiPolygon": arcs}.get(geometry["type"], [])
    return [ring for polygon in polygons for ring in polygon]


def part_of(name: str, ring: Ring) -> str | None:
    """The code of PARTS that a ring of a country stands for, if any."""
    for code, (country, (x, y)) in PARTS.items():
        if country == name:
            centre = area_and_centre(ring)[1]
            near = abs(centre[0] - x) < NEAR and abs(centre[1] - y) < NEAR
            if near or holds(ring, (x, y)):
                return code
    return None


def holds(ring: Ring, spot: Point) -> bool:
    """Whether a point lies within a ring: a ray to the east crosses it an odd number of times."""
    inside = False
    for (x1, y1), (x2, y2) in pairwise(ring):
        if (y1 > spot[1]) != (y2 > spot[1]):
            inside ^= spot[0] < x1 + (spot[1] - y1) / (y2 - y1) * (x2 - x1)
    return inside


def cut(ring: Ring) -> list[Ring]:
    """A ring that crosses the 180th meridian as two, one on each side."""
    if all(abs(a[0] - b[0]) <= 180 for a, b in pairwise(ring)):
        return [ring]
    unrolled = [ring[0]]
    for x, y in ring[1:]:
        turns = round((unrolled[-1][0] - x) / 360)
        unrolled.append((x + 360 * turns, y))
    middle = 180.0 if max(x for x, _ in unrolled) > 180 else -180.0
    sides = (_side(unrolled, middle, sign) for sign in (1, -1))
    return [
        [(x - 360 * round((min(p[0] for p in side) + max(p[0] for p in side)) / 720), y)
         for x, y in side]
        for side in sides if side
    ]  # fmt: skip


def _side(ring: Ring, middle: float, sign: int) -> Ring:
    """The part of a ring on one side of a meridian (Sutherland and Hodgman, 1974)."""
    kept: Ring = []
    for (x1, y1), (x2, y2) in pairwise(ring):
        before, after = sign * (x1 - middle), sign * (x2 - middle)
        if before * after < 0:
            kept.append((middle, y1 + (middle - x1) / (x2 - x1) * (y2 - y1)))
        if after >= 0:
            kept.append((x2, y2))
    return [*kept, kept[0]] if kept else []


def rounded(ring: Ring) -> Ring:
    """On the grid of STEP, without points that fall together; closed by itself."""
    grid = [(round(round(x / STEP) * STEP, 2), round(round(y / STEP) * STEP, 2)) for x, y in ring]
    points = [after for before, after in pairwise(grid) if after != before]
    return points if len(points) > 2 else []


def area_and_centre(ring: Ring) -> tuple[float, Point]:
    """Square degrees within a ring, and its centre of mass."""
    doubled = [a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)]
    total = sum(doubled)
    if abs(total) < 1e-9:
        return 0.0, ring[0]
    x, y = (
        sum((a[k] + b[k]) * d for (a, b), d in zip(pairwise(ring), doubled, strict=True))
        for k in (0, 1)
    )
    return abs(total) / 2, (x / (3 * total), y / (3 * total))


def main(atlas: Path, iso_codes: Path) -> None:
    """Write the table."""
    listed = json.loads(iso_codes.read_text(encoding="utf-8"))["3166-1"]
    iso3 = {entry["numeric"]: entry["alpha_3"] for entry in listed}
    coarse = Atlas(atlas / "countries-110m.json", iso3)
    fine = Atlas(atlas / "countries-10m.json", iso3)
    lines = ["fips\tlongitude\tlatitude\trings"]
    for code in sorted({*coarse.rings, *fine.rings}):
        source = coarse if code in coarse.rings else fine
        rings = [part for ring in source.outline(code) for part in cut(ring)]
        _, (x, y) = max(area_and_centre(ring) for ring in rings)
        kept = [points for ring in rings if (points := rounded(ring))] if source is coarse else []
        text = ";".join(" ".join(f"{a:g},{b:g}" for a, b in points) for points in kept)
        lines.append(f"{code}\t{x:.2f}\t{y:.2f}\t{text}")
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
