"""The countries of the simulated world: who is there, who borders on whom, who are rivals.

Real countries with their real borders (from countryinfo), in clusters, so that neighbours exist
however few are asked for.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdelphi.common.errors import ConfigError
from gdelphi.gdelt.borders import bordering, country_facts
from gdelphi.gdelt.cameo import (
    Country,
    countries,
    country_by_fips,
)

# FIPS codes, cluster by cluster; further countries follow in the order of the crosswalk.
CLUSTERS = (  # noqa: SIM905 - readable as words
    "KE UG TZ ET SO SU CG RW UP RS PL BO RO HU TU SY IZ IR IS LE JO EG IN PK BG CH NP FR GM SP "
    "BE NL IT SZ AU NI NG CM GH ML BR AR CI PE BL CO VE EC MX GT US CA TH BM LA VM CB MY ID JA "
    "KS SF ZI MZ ZA AO WA GR BU SR AL MK AM AJ GG KZ UZ AF"
).split()


@dataclass(frozen=True)
class Place:
    """A country as the simulation needs it."""

    country: Country
    capital: str
    latitude: float
    longitude: float
    provinces: tuple[str, ...]

    @property
    def fips(self) -> str:
        assert self.country.fips  # noqa: S101 - only countries with a code are places
        return self.country.fips


@dataclass(frozen=True)
class Map:
    """Places and their relations; `rivals` are pairs of indices."""

    places: tuple[Place, ...]
    neighbours: tuple[tuple[int, ...], ...]
    rivals: tuple[tuple[int, int], ...]

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(place.fips for place in self.places)

    def rivals_of(self, index: int) -> list[tuple[int, int]]:
        """(number of the pair, the other's index) for each rival of a country."""
        return [
            (number, b if a == index else a)
            for number, (a, b) in enumerate(self.rivals)
            if index in (a, b)
        ]


def _place(fips: str) -> Place | None:
    country = country_by_fips(fips)
    if country is None or country.iso3 is None or country.cameo is None:
        return None
    try:
        info = country_facts(country.iso3)
        latitude, longitude = (float(value) for value in info.capital_latlng())
        capital, provinces = info.capital(), tuple(info.provinces() or ())[:12]
    except (KeyError, TypeError, ValueError):
        return None
    if not capital:
        return None
    return Place(country, capital, latitude, longitude, provinces or (capital,))


@cache
def all_places() -> tuple[Place, ...]:
    """Every country that is known well enough, the clusters first."""
    rest = [c.fips for c in countries() if c.kind == "country" and c.fips not in CLUSTERS]
    places = [_place(fips) for fips in [*CLUSTERS, *(fips for fips in rest if fips)]]
    return tuple(place for place in places if place is not None)


def make_map(streams: int, seed: int) -> Map:
    """The first countries of the list, their borders, and rivals drawn by the seed."""
    if streams > len(all_places()):
        raise ConfigError(f"a world has at most {len(all_places())} streams, not {streams}")
    places = all_places()[:streams]
    by_iso = {place.country.iso3: index for index, place in enumerate(places)}
    neighbours = []
    for index, place in enumerate(places):
        assert place.country.iso3  # noqa: S101
        borders = [by_iso[iso] for iso in bordering(place.country.iso3) if iso in by_iso]
        neighbours.append(tuple(sorted(borders)) or (_nearest(places, index),))
    circle = np.random.default_rng([seed, 1]).permutation(streams)
    pairs = {
        (min(a, b), max(a, b))
        for a, b in zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True)
        if a != b
    }
    return Map(places, tuple(neighbours), tuple(sorted(pairs)))


def _nearest(places: tuple[Place, ...], index: int) -> int:
    here = places[index]
    away = [
        (other.latitude - here.latitude) ** 2 + (other.longitude - here.longitude) ** 2
        for other in places
    ]
    away[index] = float("inf")
    return int(np.argmin(away))
