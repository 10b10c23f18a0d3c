"""Outlines of countries: where places lie, known from any atlas."""

import pytest

from gdelphi.gdelt.cameo import countries
from gdelphi.gdelt.shapes import Shape, shapes

NOWHERE = {"AY", "NM", "OS", "OC", "UF", "UU", "YI", "RB"}  # off the map, or no place of its own


def holds(shape: Shape, longitude: float, latitude: float) -> bool:
    """Whether a point lies in a country: a ray to the east crosses its rings an odd number."""
    crossings = 0
    for ring in shape.rings:
        for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
            if (y1 > latitude) != (y2 > latitude):
                crossings += longitude < x1 + (latitude - y1) / (y2 - y1) * (x2 - x1)
    return crossings % 2 == 1


@pytest.mark.parametrize(
    ("fips", "longitude", "latitude"),
    [
        ("KE", 36.8, -1.3),
        ("UP", 34.1, 45.2),  # Crimea, as FIPS and GDELT have it
        ("SO", 44.1, 9.6),  # Hargeisa
        ("CY", 33.4, 35.25),
        ("KV", 21.0, 42.6),
        ("WE", 35.2, 31.9),
        ("FG", -53.0, 4.0),
        ("SV", 16.0, 78.5),
        ("RS", 177.5, 64.7),  # both sides of the 180th meridian
        ("RS", -173.0, 65.5),
        ("FJ", 178.0, -17.8),
    ],
)
def test_a_place_lies_in_one_country(fips: str, longitude: float, latitude: float) -> None:
    assert [code for code, shape in shapes().items() if holds(shape, longitude, latitude)] == [fips]


def test_countries_have_a_place_and_points_are_on_the_globe() -> None:
    places = {country.fips for country in countries() if country.kind == "country" and country.fips}
    assert places - shapes().keys() <= NOWHERE
    assert shapes().keys() <= {country.fips for country in countries()}
    for shape in shapes().values():
        for x, y in [(shape.longitude, shape.latitude), *(p for r in shape.rings for p in r)]:
            assert -180 <= x <= 180
            assert -90 <= y <= 90


def test_no_ring_crosses_the_map() -> None:
    for fips, shape in shapes().items():
        for ring in shape.rings:
            steps = zip(ring, ring[1:] + ring[:1], strict=True)
            assert max(abs(a[0] - b[0]) for a, b in steps) < 60, fips
