"""Which countries share a border, from countryinfo."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from countryinfo import CountryInfo

from gdelphi.common.types import BoolArray
from gdelphi.gdelt.cameo import country_by_fips


@cache
def country_facts(iso3: str) -> Any:
    """What countryinfo has on a country: capital, provinces, borders."""
    return CountryInfo(iso3)


def bordering(iso3: str) -> tuple[str, ...]:
    """The countries (ISO 3166 alpha-3) that a country borders on; none where nothing is known."""
    try:
        return tuple(country_facts(iso3).borders())
    except LookupError:  # countryinfo does not know it
        return ()


def shared_borders(streams: Sequence[str]) -> BoolArray:
    """Whether two streams, countries by their FIPS codes, share a border; [stream, stream].

    WORLD and codes that no table has border on nobody.
    """
    known = [country_by_fips(stream) for stream in streams]
    codes = [country.iso3 if country else None for country in known]
    shared = np.zeros((len(codes), len(codes)), dtype=np.bool_)
    for number, code in enumerate(codes):
        if code:
            around = bordering(code)
            shared[number] = [other in around and other != code for other in codes]
    return shared
