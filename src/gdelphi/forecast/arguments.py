"""Arguments: who acted, on whom and in which region, as observed in the store's rows.

For each kind of argument (actor 1, actor 2, region) one table of weights by stream, day, event and
value, as plain columns of whole numbers sorted by day (`argument_months.py` reads them). Chosen:
the store grouped once and kept in memory (20 bytes a row, about half as many rows as events), so
that a forecast of arguments and its judgement over a year of days need no further query. Not
chosen: the clouds, which know nothing of regions and would have to be opened day by day.

An actor is the canonical key of its codes, as in a cloud; the blank key is a value of its own,
"nobody named". A region is the first-level code of the place of action (FIPS country and two
characters). Where that is only the country, FIPS's "general" region 00, damaged, or of another
country, the region is unknown: the blank value.

Weights are the cloud weights; rows without any (no mentions) are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import LEVELS, WORLD, BoolArray, IntArray, Level
from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.measures.phrases import (
    actor,
)
from gdelphi.measures.profiles import standard_events

ArgumentKind = Literal["actor1", "actor2", "region"]
KINDS: Final[tuple[ArgumentKind, ...]] = ("actor1", "actor2", "region")
UNKNOWN_REGION: Final = ""
NOBODY: Final = ""
REGION_SQL: Final = """CASE WHEN
        regexp_full_match(upper(trim(ActionGeo_ADM1Code)), '[A-Z]{2}[A-Z0-9]{2}')
        AND upper(trim(ActionGeo_ADM1Code))[:2] = ActionGeo_CountryCode
        AND upper(trim(ActionGeo_ADM1Code))[3:] <> '00'
    THEN upper(trim(ActionGeo_ADM1Code)) ELSE '' END"""
"""SQL for the region of a row of `events`; '' where it is unknown"""

Places = npt.NDArray[np.int32]


class ObservedArguments(NamedTuple):
    """What was observed of one kind; columns [n], each combination once, sorted by day."""

    values: tuple[str, ...]
    """sorted"""
    stream: Places
    day: Places
    event: Places
    """position in the history's events"""
    value: Places
    weight: npt.NDArray[np.float32]

    def select(self, rows: BoolArray) -> "ObservedArguments":
        """Some of the rows."""
        _, stream, day, event, value, weight = self
        return ObservedArguments(
            self.values, stream[rows], day[rows], event[rows], value[rows], weight[rows]
        )


class RegionNames(NamedTuple):
    """How regions were called: rows by region, name and day; columns [n], sorted by region."""

    names: tuple[str, ...]
    region: Places
    name: Places
    day: Places
    rows: Places


@dataclass(frozen=True, eq=False)
class ArgumentHistory:
    """The observed arguments of some streams on consecutive days."""

    streams: tuple[str, ...]
    days: tuple[date, ...]
    events: tuple[tuple[str, str, str], ...]
    """root, base and full code as rows have them; codes outside the official table occur"""
    observed: Mapping[ArgumentKind, ObservedArguments]
    region_names: RegionNames

    def day(self, day: date) -> int:
        """The position of a day; it may lie outside."""
        return (day - self.days[0]).days

    def stream(self, stream: str) -> int:
        """The position of a stream."""
        if stream not in self.streams:
            raise ArgumentsError(
                f"stream {stream!r} was not read; there are {', '.join(self.streams)}"
            )
        return self.streams.index(stream)

    def until(self, day: date) -> "ArgumentHistory":
        """The same without later days, and without what no row of positive weight has by then: as
        if it had been read up to that day only."""
        size = self.day(day) + 1
        observed = {kind: one.select(one.day < size) for kind, one in self.observed.items()}
        events = _met(len(self.events), *(one.event for one in observed.values()))
        values = {kind: _met(len(one.values), one.value) for kind, one in observed.items()}
        named, regions = self.region_names, values["region"]
        known = np.zeros(len(self.observed["region"].values), dtype=np.bool_)
        known[regions] = True
        kept = (named.day < size) & known[named.region]
        names = _met(len(named.names), named.name[kept])
        return replace(
            self,
            days=self.days[:size],
            events=tuple(self.events[number] for number in events),
            observed={
                kind: one._replace(
                    values=tuple(one.values[number] for number in values[kind]),
                    event=_places(events, one.event),
                    value=_places(values[kind], one.value),
                )
                for kind, one in observed.items()
            },
            region_names=RegionNames(
                tuple(named.names[number] for number in names),
                _places(regions, named.region[kept]),
                _places(names, named.name[kept]),
                named.day[kept],
                named.rows[kept],
            ),
        )

    @cached_property
    def codes(self) -> Mapping[Level, IntArray]:
        """For each level the standard event of every event as its position, -1 if it has none."""
        codes = {}
        for number, level in enumerate(LEVELS):
            place = {code: at for at, code in enumerate(standard_events(level))}
            codes[level] = np.array(
                [place.get(event[number], -1) for event in self.events], dtype=np.int64
            )
        return codes

    def words(self, kind: ArgumentKind, value: str, stream: str, until: date) -> str:
        """How a value reads; a region's name is the one it had most often up to a day."""
        if kind != "region":
            return actor(value).text if value != NOBODY else "nobody named"
        if value == UNKNOWN_REGION:
            return "unknown region"
        country = country_by_fips(value[:2])
        place = country.name if country else value[:2]
        name = self._region_name(value, self.day(until))
        if name is None:
            return f"region {value} of {place}"
        return f"{name}, {place}" if stream == WORLD else name

    def _region_name(self, value: str, until: int) -> str | None:
        at = self._region_place.get(value)
        if at is None:
            return None
        named = self.region_names
        first, last = self._region_starts[at : at + 2]
        known = named.day[first:last] <= until
        if not known.any():
            return None
        names = named.name[first:last][known]
        rows = np.bincount(names, weights=named.rows[first:last][known])
        return named.names[int(rows.argmax())]

    @cached_property
    def _region_starts(self) -> IntArray:
        """Where the names of a region begin, [region + 1]."""
        regions = np.arange(len(self.observed["region"].values) + 1, dtype=np.int32)
        return np.searchsorted(self.region_names.region, regions)

    @cached_property
    def _region_place(self) -> Mapping[str, int]:
        return {value: at for at, value in enumerate(self.observed["region"].values)}


def _met(size: int, *columns: Places) -> Places:
    """The numbers below a size that occur, in their order."""
    met = np.zeros(size, dtype=np.bool_)
    for column in columns:
        met[column] = True
    return np.flatnonzero(met).astype(np.int32)


def _places(kept: Places, numbers: Places) -> Places:
    """Where numbers, all of them kept, stand among those that are kept."""
    if not len(kept):
        return numbers
    place = np.zeros(int(kept[-1]) + 1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place[numbers]


def level_of(code: str) -> Level:
    """The level of a standard event; 141 is a base code, though rows may have no finer one."""
    for level in LEVELS:
        if code in standard_events(level):
            return level
    raise ArgumentsError(f"no standard event {code!r}: CAMEO codes are text, as 14, 141 or 1411")
