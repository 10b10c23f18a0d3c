"""Clouds: a stream's day as a weighted set of distinct phrases, kept as Parquet, a file a day.

A file holds the clouds of all streams of one news day. It stores codes, not texts and not vectors:
the actors' keys and the event code say which phrase a point is, so a better wording, another
encoder or another space needs no new clouds, and 10,000 points take a few hundred kilobytes. Each
slot is dictionary-encoded; vectors are made for the dictionary and gathered.

Weights are kept in whole units (1e-9 of a cloud weight), so that sums do not depend on the order of
rows. A day is one of four things for a stream, never refused and never NaN:

    missing   the store has no file for the day: nothing is known
    empty     the day is known, and nothing was reported from this stream
    small     fewer distinct phrases than a descriptor has atoms at least
    full      the rest
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.common.types import FloatArray, IntArray
from gdelphi.measures.day_files import (
    DayFolder,
    footer_of,
    read_footer,
    read_table,
    unreadable,
)

DayState = Literal["missing", "empty", "small", "full"]

SMALL: Final = 3  # distinct phrases: a day with fewer is small
SLOTS: Final = ("actor1", "code", "actor2")
FILES_AT_HAND = 64  # day files kept open by a reader

_KINDS: Final = {
    "units": np.int64,
    "rows": np.int64,
    "mentions": np.int64,
    "goldstein": np.float64,
    "tone": np.float64,
    "quad": np.int64,
}


class Coded(NamedTuple):
    """A column of text by its distinct values."""

    keys: tuple[str, ...]
    places: IntArray
    """[n], positions in keys"""

    def values(self) -> list[str]:
        return [self.keys[place] for place in self.places]

    def at(self, rows: slice | IntArray) -> "Coded":
        return Coded(self.keys, self.places[rows])


class Numbers(NamedTuple):
    """The statistics of the points of a cloud, each [n]."""

    units: IntArray
    """cloud weight in whole units"""
    rows: IntArray
    mentions: IntArray
    goldstein: FloatArray
    """mean over rows"""
    tone: FloatArray
    """mean over rows"""
    quad: IntArray
    """quad class, 1 to 4; 0 where the rows have none"""

    def at(self, rows: slice | IntArray) -> "Numbers":
        return self.from_columns(lambda name: getattr(self, name)[rows])

    @classmethod
    def from_columns(cls, column: Callable[[str], Any]) -> "Numbers":
        """Numbers from a function that gives each column by its name."""
        return cls(*(column(name) for name in cls._fields))


class SetStatistics(NamedTuple):
    """The statistics of a cloud as a whole."""

    volume: int
    """rows"""
    phrases: int
    mentions: int
    entropy: float
    """of the weights, in nats"""
    quad_shares: tuple[float, float, float, float]
    goldstein: float
    """mean, by weight"""
    tone: float
    """mean, by weight"""


NOTHING: Final = SetStatistics(0, 0, 0, 0.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Cloud:
    """One stream's day. Points are sorted by weight, the heaviest first."""

    stream: str
    day: date
    known: bool
    """false: the day is missing"""
    partial: bool
    """some of the day's files are missing at the source, or were refused"""
    backfile: bool
    """rows stand on the day of the event, not on the day when they became known"""
    actor1: Coded
    code: Coded
    actor2: Coded
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers.units)

    @property
    def state(self) -> DayState:
        if not self.known:
            return "missing"
        if len(self) == 0:
            return "empty"
        return "small" if len(self) < SMALL else "full"

    @property
    def volume(self) -> int:
        """Rows of the day."""
        return int(self.numbers.rows.sum())

    @cached_property
    def weights(self) -> FloatArray:
        """[n], summing to 1 unless there are no points."""
        return shares_of_units(self.numbers.units)

    @property
    def statistics(self) -> SetStatistics:
        return statistics_of(self.numbers)

    def phrase_columns(self) -> tuple[list[str], list[str], list[str]]:
        """Actor 1, event code and actor 2 of the points, as keys."""
        return self.actor1.values(), self.code.values(), self.actor2.values()

    def phrases(self) -> Iterator[tuple[str, str, str]]:
        """The same, point by point."""
        return zip(*self.phrase_columns(), strict=True)


def shares_of_units(units: IntArray) -> FloatArray:
    """Units over their sum. Rows without any weight (no mentions) share alike if all are so."""
    total = int(units.sum())
    if total == 0:
        return np.full(len(units), 1 / max(len(units), 1))
    return units / total


def statistics_of(numbers: Numbers) -> SetStatistics:
    """The set statistics of a cloud's points."""
    if len(numbers.units) == 0:
        return NOTHING
    weights = shares_of_units(numbers.units)
    heavy = weights[weights > 0]
    quads = np.bincount(numbers.quad, weights=weights, minlength=5)[1:5]
    return SetStatistics(
        volume=int(numbers.rows.sum()),
        phrases=len(weights),
        mentions=int(numbers.mentions.sum()),
        entropy=max(0.0, float(-(heavy * np.log(heavy)).sum())),
        quad_shares=(float(quads[0]), float(quads[1]), float(quads[2]), float(quads[3])),
        goldstein=float(weights @ numbers.goldstein),
        tone=float(weights @ numbers.tone),
    )


# --- a day's file ---------------------------------------------------------------------------------


class DayFacts(NamedTuple):
    """What a day's file says about the day itself."""

    day: date
    fingerprint: str
    """of the source files that the day was made from"""
    partial: bool
    backfile: bool


@dataclass(frozen=True, eq=False)
class DayClouds:
    """All clouds of one day. Streams lie one after the other; the points are read when needed."""

    path: Path
    facts: DayFacts
    streams: Mapping[str, tuple[int, int]]
    """first row and number of points"""
    statistics: Mapping[str, SetStatistics]

    @cached_property
    def _columns(self) -> tuple[tuple[Coded, Coded, Coded], Numbers]:
        table = read_table(self.path)
        if footer_of(table.schema, self.path).get("fingerprint") != self.facts.fingerprint:
            raise MeasuresError(f"{self.path} was made again since it was opened: open it again")
        try:
            slots = [coded(table.column(name)) for name in SLOTS]
            numbers = Numbers.from_columns(lambda name: table.column(name).to_numpy())
        except KeyError as error:
            raise unreadable(self.path, error) from None
        return (slots[0], slots[1], slots[2]), numbers

    def dictionaries(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The distinct keys of actor 1, event code and actor 2 over all streams."""
        actor1, code, actor2 = self._columns[0]
        return actor1.keys, code.keys, actor2.keys

    def cloud(self, stream: str) -> Cloud:
        """The cloud of a stream; one without points if nothing was reported from it."""
        start, size = self.streams.get(stream, (0, 0))
        if size == 0:
            return cloud_without_points(stream, self.facts)
        rows = slice(start, start + size)
        (actor1, code, actor2), numbers = self._columns
        return Cloud(
            stream,
            self.facts.day,
            True,
            self.facts.partial,
            self.facts.backfile,
            actor1.at(rows),
            code.at(rows),
            actor2.at(rows),
            numbers.at(rows),
        )


def coded(column: pa.ChunkedArray) -> Coded:
    """A text column by its distinct values; NULL is ""."""
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = pc.fill_null(array, "").dictionary_encode()
    return Coded(
        tuple(array.dictionary.to_pylist()), array.indices.to_numpy().astype(np.int64, copy=False)
    )


def cloud_without_points(stream: str, facts: DayFacts, *, known: bool = True) -> Cloud:
    """A stream's day on which nothing was reported, or of which nothing is known."""
    none = Coded((), np.zeros(0, dtype=np.int64))
    numbers = Numbers.from_columns(lambda name: np.zeros(0, _KINDS[name]))
    return Cloud(stream, facts.day, known, facts.partial, facts.backfile, none, none, none, numbers)


def write_day(folder: DayFolder, facts: DayFacts, clouds: list[Cloud]) -> None:
    """Write a day's clouds; they must share their dictionaries."""
    index: dict[str, Any] = {}
    start = 0
    for cloud in clouds:
        index[cloud.stream] = [start, len(cloud), *cloud.statistics]
        start += len(cloud)
    footer = {name: getattr(facts, name) for name in ("fingerprint", "partial", "backfile")}
    folder.write(facts.day, _table(clouds), footer | {"streams": index})


def _table(clouds: list[Cloud]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for slot in SLOTS:
        parts: list[Coded] = [getattr(cloud, slot) for cloud in clouds]
        keys = parts[0].keys if parts else ()
        places = np.concatenate([np.zeros(0, np.int64), *(part.places for part in parts)])
        columns[slot] = pa.DictionaryArray.from_arrays(
            pa.array(places, pa.int32()), pa.array(keys, pa.string())
        )
    for name, kind in _KINDS.items():
        values = [np.zeros(0, kind), *(getattr(cloud.numbers, name) for cloud in clouds)]
        columns[name] = pa.array(np.concatenate(values))
    return pa.table(columns)


def read_day(path: Path) -> DayClouds:
    """Open a day's file; its points are read when they are asked for."""
    footer = read_footer(path)
    try:
        facts = DayFacts(
            date.fromisoformat(footer["day"]),
            footer["fingerprint"],
            footer["partial"],
            footer["backfile"],
        )
        places = {stream: (row[0], row[1]) for stream, row in footer["streams"].items()}
        statistics = {stream: _statistics(row[2:]) for stream, row in footer["streams"].items()}
    except (KeyError, TypeError, AttributeError) as error:  # a day file, but not of clouds
        raise unreadable(path, error) from None
    return DayClouds(path, facts, places, statistics)


def _statistics(row: list[Any]) -> SetStatistics:
    return SetStatistics._make(row)._replace(quad_shares=tuple(row[4]))


# --- a folder of days -----------------------------------------------------------------------------


def measures_folder(settings: Settings) -> Path:
    """Where a store's measures lie."""
    return settings.measures.folder or settings.store.with_suffix(".measures")


class Clouds:
    """All clouds of a store, read lazily."""

    def __init__(self, folder: Path) -> None:
        self.files = DayFolder(folder / "clouds")
        self._open = lru_cache(maxsize=FILES_AT_HAND)(read_day)

    @cached_property
    def days(self) -> tuple[date, ...]:
        """The days that are known, in their order; a day between them that is not is missing."""
        return self.files.days()

    def on(self, day: date) -> DayClouds | None:
        """All clouds of a day; None if it is missing."""
        path = self.files.path(day)
        return self._open(path) if path.exists() else None

    def cloud(self, stream: str, day: date) -> Cloud:
        """A stream's day, whatever it is."""
        clouds = self.on(day)
        if clouds is None:
            facts = DayFacts(day, "", False, False)
            return cloud_without_points(stream, facts, known=False)
        return clouds.cloud(stream)
