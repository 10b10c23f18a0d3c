"""The count panel: rows of every stream's days, by fine code, by actors, and all over the world.

Root profiles say how much of what happened in a country. Three things that announce a day are not
in them: rare codes, what the country's people did elsewhere, and who acted on whom. All are counts
of rows, over the same consecutive days as the profiles.

    fine     rows in the country, by the finest code, [stream, day, code]
    pairs    rows anywhere between actors of two streams, [day, stream, stream, quad class]
    acted    rows anywhere with an actor of the country, by root, [stream, day, root]
    world    rows anywhere, by root, [day, root]

Counts above 65,535 are kept as that: they serve as multiples of the usual, which are capped long
before. The stream WORLD has no actors of its own: it acted wherever anybody did.
"""

from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.measures.profiles import DAYS_AT_ONCE, Profiles, read_profiles, standard_events
from gdelphi.store.actor_countries import actor_country_sql
from gdelphi.store.connection import Connection, Store

QUAD_CLASSES: Final = 4
MOST: Final = 65_535

CountArray = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class CountPanel:
    """Counts of rows over the days of root profiles. Compared by identity."""

    roots: Profiles
    fine: CountArray
    """[stream, day, code], codes as in `standard_events("full")`"""
    pairs: CountArray
    """[day, stream, stream, quad class], the same either way; 0 on the diagonal"""
    acted: CountArray
    """[stream, day, root]"""
    world: npt.NDArray[np.int64]
    """[day, root]"""

    @property
    def fine_codes(self) -> tuple[str, ...]:
        return standard_events("full")

    def until(self, day: date) -> "CountPanel":
        """The same up to a day, without copying."""
        roots = self.roots.until(day)
        size = len(roots.days)
        return replace(
            self,
            roots=roots,
            fine=self.fine[:, :size],
            pairs=self.pairs[:size],
            acted=self.acted[:, :size],
            world=self.world[:size],
        )


def read_count_panel(source: Settings | Connection, roots: Profiles) -> CountPanel:
    """The counts of the days and streams of root profiles, from the store."""
    if isinstance(source, Settings):
        with Store(source).reading() as connection:
            return read_count_panel(connection, roots)
    streams, first, last = roots.streams, roots.days[0], roots.days[-1]
    finest = read_profiles(source, "full", streams, since=first, until=last)
    size, days, codes = roots.counts.shape
    pairs = np.zeros((days, size, size, QUAD_CLASSES), np.int64)
    acted = np.zeros((size, days, codes), np.int64)
    world = np.zeros((days, codes), np.int64)
    root_place = {code: number for number, code in enumerate(roots.codes)}
    place = _places_by_actor(streams)
    for begin in range(0, days, DAYS_AT_ONCE):
        window = [first, roots.days[begin], roots.days[min(begin + DAYS_AT_ONCE, days) - 1]]
        for day, code, number in source.rows(_WORLD, window):
            if code in root_place:
                world[day, root_place[code]] += number
        for day, one, other, quad, number in source.rows(_PAIRS, [*window, list(place)]):
            if quad in range(1, QUAD_CLASSES + 1) and place[one] != place[other]:
                pairs[day, place[one], place[other], quad - 1] += number
                pairs[day, place[other], place[one], quad - 1] += number
        for day, actor, code, number in source.rows(_ACTED, [*window, list(place)]):
            if code in root_place:
                acted[place[actor], day, root_place[code]] += number
    if WORLD in streams:
        acted[streams.index(WORLD)] = world
    for values in (pairs, world):
        values[~roots.present] = 0
    acted[:, ~roots.present] = 0
    return CountPanel(roots, _small(finest.counts), _small(pairs), _small(acted), world)


def _places_by_actor(streams: tuple[str, ...]) -> dict[str, int]:
    """The position of a stream by the code that its country has as an actor."""
    place: dict[str, int] = {}
    for number, stream in enumerate(streams):
        country = country_by_fips(stream)
        if country and country.cameo:
            place.setdefault(country.cameo, number)
    return place


def _small(counts: npt.NDArray[Any]) -> CountArray:
    small = np.empty(counts.shape, np.uint16)
    np.minimum(counts, MOST, out=small, casting="unsafe")  # without a copy of eight bytes each
    return small


_WINDOW: Final = "NewsDay BETWEEN ? AND ?"

_WORLD: Final = f"""
SELECT NewsDay - ?::DATE, EventRootCode, sum(rows)::BIGINT FROM day_sums WHERE {_WINDOW}
GROUP BY ALL
"""

_PAIRS: Final = f"""
WITH known AS (
    SELECT NewsDay - ?::DATE AS day, {actor_country_sql(1)} AS one, {actor_country_sql(2)} AS other,
        QuadClass
    FROM events WHERE {_WINDOW}
), wanted AS (SELECT unnest(?::VARCHAR[]) AS actor)
SELECT day, one, other, QuadClass, count(*) FROM known
WHERE one IN (FROM wanted) AND other IN (FROM wanted) AND one <> other
GROUP BY ALL
"""

# A row counts once for a country, also where both of its actors are of that country.
_ACTED: Final = f"""
WITH actors AS (
    SELECT NewsDay - ?::DATE AS day, EventRootCode AS root,
        list_distinct([{actor_country_sql(1)}, {actor_country_sql(2)}]) AS actors
    FROM events WHERE {_WINDOW}
), wanted AS (SELECT unnest(?::VARCHAR[]) AS actor),
each AS (SELECT day, root, unnest(actors) AS actor FROM actors)
SELECT day, actor, root, count(*) FROM each WHERE actor IN (FROM wanted) GROUP BY ALL
"""
