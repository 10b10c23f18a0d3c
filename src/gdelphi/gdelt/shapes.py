"""Where countries lie: Natural Earth's outlines by FIPS code, from tables/outlines.tsv.

Apart from `cameo.py` and its fingerprint: nothing that is learned depends on what is drawn.
docs/make_outlines.py makes the table.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, NamedTuple

from gdelphi.gdelt.cameo import parse_table

FILE: Final = "outlines.tsv"


class Shape(NamedTuple):
    """A place: the centre of its largest part, and its rings, none for what is too small.

    Rings are (longitude, latitude) in degrees, and closed without repeating the first point.
    """

    longitude: float
    latitude: float
    rings: tuple[tuple[tuple[float, float], ...], ...]


@cache
def shapes() -> Mapping[str, Shape]:
    """All places by FIPS code."""
    text = (resources.files("gdelphi.gdelt") / "tables" / FILE).read_text(encoding="utf-8")
    by_code = {}
    for fips, longitude, latitude, rings in parse_table(text, source=FILE).rows:
        parsed = (
            tuple((float(x), float(y)) for x, y in (point.split(",") for point in ring.split(" ")))
            for ring in (rings.split(";") if rings else ())
        )
        by_code[str(fips)] = Shape(float(str(longitude)), float(str(latitude)), tuple(parsed))
    return MappingProxyType(by_code)
