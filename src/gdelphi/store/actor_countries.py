"""The country of an actor, also where its column is blank and the actor's code tells it.

In GDELT the code of an actor begins with its country: ROUGOV is a government of ROU. For some
countries the column beside it is blank: the table of codes calls Romania ROM, and so ROU finds
none there (1,471 actors of one week of 2025, all of Romania's). The first three letters are
believed if they are a country's by CAMEO or ISO and no other column of the actor has them: SHN is
Saint Helena, or the Shinto religion. The rows stay as they came; who acts is asked for through the
SQL below wherever sentences, arguments and counts between countries are made.
"""

from functools import cache
from typing import Final

from gdelphi.gdelt.cameo import countries

_OTHER_COLUMNS: Final = ("KnownGroupCode", "EthnicCode", "Religion1Code", "Type1Code")
"""what the code of an actor without a country begins with"""


def actor_country_sql(number: int) -> str:
    """SQL for the CAMEO country of actor 1 or 2 of a row of `events`; NULL if nothing tells it."""
    return f"coalesce(Actor{number}CountryCode, {told_country_sql(number)})"


def told_country_sql(number: int) -> str:
    """SQL for the country that the code tells where the column is blank; NULL elsewhere."""
    letters, known = f"Actor{number}Code[:3]", _countries_by_letters()
    elsewhere = " AND ".join(
        f"{letters} IS DISTINCT FROM upper(Actor{number}{column})" for column in _OTHER_COLUMNS
    )
    return (
        f"CASE WHEN Actor{number}CountryCode IS NULL AND Actor{number}Code IS NOT NULL "
        f"AND {elsewhere} THEN map({list(known)}, {list(known.values())})[{letters}] END"
    )


@cache
def _countries_by_letters() -> dict[str, str]:
    """CAMEO codes by themselves and by ISO codes, of countries that have places."""
    placed = [country for country in countries() if country.cameo and country.fips]
    by_iso = {country.iso3: country.cameo for country in placed if country.iso3}
    by_cameo = {country.cameo: country.cameo for country in placed}
    return {code: str(cameo) for code, cameo in sorted((by_iso | by_cameo).items()) if code}


BLANK_COUNTRIES: Final = " UNION ALL ".join(
    f"SELECT GLOBALEVENTID, NewsDay, FileId, {number} AS actor, Actor{number}Code AS code, "
    f"{told_country_sql(number)} AS told FROM events WHERE told IS NOT NULL"
    for number in (1, 2)
)
"""SQL for the actors whose country is told by their code alone"""
