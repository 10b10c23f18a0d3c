"""Profiles: each stream's days over the standard events.

One dense array per quantity, [stream, day, code], over consecutive calendar days. Days that are
missing are in it, marked by `present`, so that ages and weekdays come from positions and an empty
day (present, all zeros) cannot be taken for a missing one.

Weights are the cloud weights: ln(1 + mentions), halved for events outside an article's lead. They
are added up in whole numbers of 1e-9, half weights as the unit: sums of floating-point numbers
depend on the order in which threads deliver them, and a headline decided by the last bit would
differ from run to run.

At level `full` the standard events are all codes that a row can carry, three digits or four, so
that the rows of a day fall into exactly one each; `141` there means "141 and no finer". Rows with a
code outside the official table count in the volume alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import Settings
from gdelphi.common.types import (
    WORLD,
    BoolArray,
    FloatArray,
    IntArray,
    Level,
)
from gdelphi.gdelt.cameo import event_codes, root_codes
from gdelphi.measures.clouds import Coded, coded
from gdelphi.measures.past import PresentDays, present_days_of
from gdelphi.measures.targets import days_until, shares_of
from gdelphi.store.connection import (
    Connection,
    Store,
)
from gdelphi.store.sums import UNITS

DAYS_AT_ONCE = 92  # read in one query: bounds the rows held as Python values

_COLUMNS: Final[dict[Level, str]] = {
    "root": "EventRootCode",
    "base": "EventBaseCode",
    "full": "EventCode",
}


@dataclass(frozen=True, eq=False)
class Profiles:
    """The days of some streams over the standard events of one level. Compared by identity."""

    streams: tuple[str, ...]
    days: tuple[date, ...]
    """consecutive"""
    codes: tuple[str, ...]
    """sorted, so that "ties by code" is "ties by position" """
    counts: IntArray
    """[stream, day, code]"""
    weights: FloatArray
    """[stream, day, code]"""
    volume: IntArray
    """[stream, day], all rows"""
    present: BoolArray
    """[day]"""

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def shares(self) -> FloatArray:
        """Weights over their sum for each stream and day; 0 where the day is empty."""
        return shares_of(self.weights)

    @cached_property
    def present_days(self) -> PresentDays:
        """The days that are present, and what each was: computed once, for all forecasters."""
        return present_days_of(self)

    def until(self, day: date) -> "Profiles":
        """The same up to a day, without copying."""
        size = days_until(self, day)
        if size == 0:
            raise GdelphiError(f"profiles begin on {self.days[0]}, after {day}")
        return replace(
            self,
            days=self.days[:size],
            counts=self.counts[:, :size],
            weights=self.weights[:, :size],
            volume=self.volume[:, :size],
            present=self.present[:size],
        )


def standard_events(level: Level) -> tuple[str, ...]:
    """The codes of a level, sorted: 20 roots, 146 bases, or all 290 that a row can carry."""
    if level == "root":
        return root_codes()
    wanted = ("base",) if level == "base" else ("base", "full")
    return tuple(sorted(code for code, event in event_codes().items() if event.level in wanted))


# --- from the store -------------------------------------------------------------------------------


def read_profiles(
    source: Settings | Connection,
    level: Level = "root",
    streams: Sequence[str] | None = None,
    *,
    since: date | None = None,
    until: date | None = None,
) -> Profiles:
    """The profiles in a store, of all days that it has or of a window.

    Without `streams` all countries, the largest by rows in the window first; `WORLD`, the stream of
    all rows with or without a country, is read when named. Rows on a day that no loaded file speaks
    for (strays of a backfile) are left out, so that a missing day is zero throughout.
    """
    if isinstance(source, Settings):
        with Store(source).reading() as connection:
            return read_profiles(connection, level, streams, since=since, until=until)
    days = _days(source, since, until)
    chosen = tuple(streams) if streams is not None else _largest_first(source, days)
    loaded = {day for (day,) in source.rows("SELECT NewsDay FROM days WHERE loaded > 0")}
    present = np.array([day in loaded for day in days], dtype=np.bool_)
    codes = standard_events(level)
    place = {code: number for number, code in enumerate(codes)}
    volume = np.zeros((len(chosen), len(days)), dtype=np.int64)
    counts = np.zeros((*volume.shape, len(codes)), dtype=np.int64)
    units = np.zeros_like(counts)
    for sums in _sums(source, _COLUMNS[level], chosen, days):
        np.add.at(volume, (sums.stream, sums.day), sums.rows)
        code = np.array([place.get(key, -1) for key in sums.code.keys])[sums.code.places]
        known = code >= 0
        cell = (sums.stream[known], sums.day[known], code[known])
        counts[cell] = sums.rows[known]
        units[cell] = sums.units[known]
    for values in (counts, units, volume):
        values[:, ~present] = 0
    return Profiles(chosen, days, codes, counts, units / UNITS, volume, present)


def _days(connection: Connection, since: date | None, until: date | None) -> tuple[date, ...]:
    first, last = connection.rows("SELECT min(NewsDay), max(NewsDay) FROM days WHERE loaded > 0")[0]
    first, last = since or first, until or last
    if first is None or last is None:
        raise GdelphiError(f"{connection.name} has no days: `gdelphi ingest` brings some")
    if first > last:
        raise GdelphiError(f"no days between {first} and {last}")
    return tuple(first + timedelta(days=number) for number in range((last - first).days + 1))


def _largest_first(connection: Connection, days: tuple[date, ...]) -> tuple[str, ...]:
    rows = connection.rows(
        "SELECT Stream FROM day_sums WHERE NewsDay BETWEEN ? AND ? AND Stream IS NOT NULL "
        "GROUP BY ALL ORDER BY sum(rows) DESC, 1",
        [days[0], days[-1]],
    )
    return tuple(stream for (stream,) in rows)


_SUMS = """
    SELECT {stream} AS stream, NewsDay - ?::DATE AS day, {code} AS code,
        sum(rows)::BIGINT AS rows, sum(weight_units)::BIGINT AS units
    FROM day_sums WHERE NewsDay BETWEEN ? AND ? {condition} GROUP BY ALL"""


class _Sums(NamedTuple):
    """A query's rows as columns; streams and days by position."""

    stream: IntArray
    day: IntArray
    code: Coded
    rows: IntArray
    units: IntArray


def _sums(
    connection: Connection, column: str, streams: tuple[str, ...], days: tuple[date, ...]
) -> Iterator[_Sums]:
    """Rows and weights by stream, day and code, a stretch of days at a time."""
    place = {stream: number for number, stream in enumerate(streams)}
    countries = [stream for stream in streams if stream != WORLD]
    queries: list[tuple[str, str, list[object]]] = []
    if countries:
        queries.append(("Stream", "AND list_contains(?, Stream)", [countries]))
    if WORLD in place:
        queries.append((f"'{WORLD}'", "", []))
    for start in range(0, len(days), DAYS_AT_ONCE):
        stretch = days[start : start + DAYS_AT_ONCE]
        for stream, condition, parameters in queries:
            sql = _SUMS.format(stream=stream, code=column, condition=condition)
            table = connection.arrow(sql, [days[0], stretch[0], stretch[-1], *parameters])
            if table.num_rows:
                named = coded(table.column("stream"))
                yield _Sums(
                    np.array([place[key] for key in named.keys])[named.places],
                    table.column("day").to_numpy(),
                    coded(table.column("code")),
                    table.column("rows").to_numpy(),
                    table.column("units").to_numpy(),
                )


def _check(profiles: Profiles) -> None:
    """Shapes and orders that everything else relies on."""
    shape = (len(profiles.streams), len(profiles.days), len(profiles.codes))
    wanted = {
        "counts": shape,
        "weights": shape,
        "volume": shape[:2],
        "present": shape[1:2],
    }
    for name, expected in wanted.items():
        if getattr(profiles, name).shape != expected:
            shape_given = getattr(profiles, name).shape
            raise GdelphiError(f"profiles: {name} has shape {shape_given}, not {expected}")
    if not profiles.days:
        raise GdelphiError("profiles: no days")
    if any(later - day != timedelta(days=1) for day, later in pairwise(profiles.days)):
        raise GdelphiError("profiles: days must follow each other; mark missing ones in present")
    if any(code >= later for code, later in pairwise(profiles.codes)):
        raise GdelphiError("profiles: codes must be sorted and each there once")
    if len(set(profiles.streams)) != len(profiles.streams):
        raise GdelphiError("profiles: a stream is named twice")
    if profiles.weights.size and not 0 <= profiles.weights.min() <= profiles.weights.max() < np.inf:
        raise GdelphiError("profiles: weights must be finite and not negative")
