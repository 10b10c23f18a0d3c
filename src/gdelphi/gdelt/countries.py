"""Names of streams: countries by their FIPS 10-4 codes, and the world."""

from gdelphi.common.types import WORLD
from gdelphi.gdelt.cameo import country_by_fips


def stream_name(stream: str) -> str:
    """What a stream is called: Kenya, the world, or `country XX` where no table has the code."""
    if stream == WORLD:
        return "the world"
    country = country_by_fips(stream)
    return country.name if country else f"country {stream}"
