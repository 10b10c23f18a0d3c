"""Reading arguments, and keeping those of past months, so that a forecast reads no row twice.

A forecast looks back on three years to find who does what to whom: with 50 million rows a year that
would be 150 million rows each time. So the groups of every whole calendar month are kept beside the
measures, `arguments/<streams>/2026-10.npz`; only days of months that are not whole in the window
(at its beginning, and that of its last day) are read from the store.

A month is made again when the mark of any of its days changes (that of the day's files and rows, by
which clouds are made again too), when other streams are asked for, or when the file is damaged. It
is written whole or not at all, and nothing but a copy: whoever may not write goes without it.
Chosen over sums in the store, which each file would have to renew in its own transaction, and which
a month of 15-minute files would renew 2,976 times.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa

from gdelphi.common.checksums import is_damaged
from gdelphi.common.errors import ArgumentsError
from gdelphi.common.files import atomic_write, remove_folder, remove_left_over, text_digest
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.forecast.argument_groups import Arrays, GatheredArguments
from gdelphi.forecast.arguments import REGION_SQL, ArgumentHistory
from gdelphi.measures.cloud_update import day_fingerprints
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.phrases import actor_key_sql
from gdelphi.store.connection import Connection, Store
from gdelphi.store.sums import ROW_UNITS

ROWS_AT_ONCE = 1_000_000  # rows of the store that one query may group
FORMAT: Final = 1
MOST_FOLDERS: Final = 3  # sets of streams whose months are kept

_ROWS: Final = f"""
    SELECT NewsDay - ?::DATE AS day, ActionGeo_CountryCode AS country,
        concat_ws('|', coalesce(EventRootCode, ''), coalesce(EventBaseCode, ''),
            coalesce(EventCode, '')) AS event,
        {actor_key_sql(1)} AS actor1, {actor_key_sql(2)} AS actor2, {REGION_SQL} AS region,
        ActionGeo_FullName AS place, ActionGeo_Type AS type, {ROW_UNITS} AS units
    FROM events
    WHERE NewsDay BETWEEN ? AND ? AND NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0)"""


def read_arguments(
    source: Settings | Connection,
    streams: Sequence[str],
    *,
    since: date | None = None,
    until: date | None = None,
) -> ArgumentHistory:
    """The arguments in a store from one day to another; rows of later days are not looked at.

    `WORLD` is the stream of all rows. Rows on a day that no loaded file speaks for are left out, as
    in profiles. Given settings, whole months are taken from what is kept, and kept; given a
    connection, all is read from the store.
    """
    if not streams or len(set(streams)) != len(streams):
        raise ArgumentsError(f"streams to read arguments of: each once, not {list(streams)}")
    if not isinstance(source, Settings):
        days = _days(source, since, until)
        gathered = _gather(source, tuple(streams), days[0], days[-1])
        return gathered.history(days)
    marks = day_fingerprints(source)
    with Store(source).reading() as connection:
        days = _days(connection, since, until)
        gathered = GatheredArguments(tuple(streams))
        months = ArgumentMonths(measures_folder(source), connection, gathered.streams, marks)
        for span in _spans(days):
            shift = (span.first - days[0]).days
            gathered.take(months.of(span) if span.whole else months.read(span), shift)
    return gathered.history(days)


def _days(connection: Connection, since: date | None, until: date | None) -> tuple[date, ...]:
    loaded = connection.rows("SELECT min(NewsDay), max(NewsDay) FROM days WHERE loaded > 0")[0]
    first, last = since or loaded[0], until or loaded[1]
    if first is None or last is None:
        raise ArgumentsError(f"{connection.name} has no days: `gdelphi ingest` brings some")
    if first > last:
        raise ArgumentsError(f"no days between {first} and {last}: ask for others")
    return tuple(first + timedelta(days=number) for number in range((last - first).days + 1))


# --- months that are kept -------------------------------------------------------------------------


class _Span(NamedTuple):
    """The days of a calendar month that are asked for."""

    first: date
    last: date

    @property
    def whole(self) -> bool:
        """All days of its month."""
        return self.first.day == 1 and (self.last + timedelta(days=1)).day == 1


def _spans(days: Sequence[date]) -> Iterator[_Span]:
    for _, group in groupby(days, key=lambda day: (day.year, day.month)):
        month = list(group)
        yield _Span(month[0], month[-1])


class ArgumentMonths:
    """The months of some streams that are kept in a folder of measures."""

    def __init__(
        self,
        measures: Path,
        connection: Connection,
        streams: tuple[str, ...],
        marks: Mapping[date, str],
    ) -> None:
        """`marks` are those of all days that a loaded file speaks for."""
        self._connection, self._streams, self._marks = connection, streams, marks
        self._root = measures / "arguments"
        self.folder = self._root / text_digest(repr((FORMAT, _ROWS, streams)))
        with suppress(OSError):  # used now: the folders of others go before it
            os.utime(self.folder)

    def path(self, month: date) -> Path:
        """The file of a month, named by its first day."""
        return self.folder / f"{month:%Y-%m}.npz"

    def of(self, span: _Span) -> Arrays:
        """A whole month, from its file if that is of the same rows, else anew and kept."""
        path, mark = self.path(span.first), self._mark(span)
        with suppress(OSError, ValueError, KeyError, BadZipFile, EOFError):
            if path.exists() and not is_damaged(path):
                with np.load(path) as kept:
                    if kept["mark"].tobytes().decode() == mark:
                        return dict(kept)
        made = self.read(span)
        with suppress(OSError):  # somebody may look at a folder that only others may write
            self._write(path, {**made, "mark": np.frombuffer(mark.encode(), np.uint8)})
        return made

    def read(self, span: _Span) -> Arrays:
        """Some days of a month from the store."""
        return _gather(self._connection, self._streams, span.first, span.last).arrays()

    def _mark(self, span: _Span) -> str:
        days = (span.first + timedelta(n) for n in range((span.last - span.first).days + 1))
        return text_digest(repr([(day.isoformat(), self._marks.get(day)) for day in days]))

    def _write(self, path: Path, content: Arrays) -> None:
        new = not self.folder.exists()
        with atomic_write(path) as part, part.open("wb") as file:
            np.savez(file, allow_pickle=False, **content)
        remove_left_over(self.folder)
        if new:  # of other streams: the least used go
            others = [one for one in self._root.glob("[!.]*") if one != self.folder]
            others.sort(key=lambda one: one.stat().st_mtime_ns, reverse=True)
            for folder in others[MOST_FOLDERS - 1 :]:
                remove_folder(folder)


# --- from the store -------------------------------------------------------------------------------


def _gather(
    connection: Connection, streams: tuple[str, ...], first: date, last: date
) -> GatheredArguments:
    """What the rows of some days say; day 0 is the first."""
    gathered = GatheredArguments(streams)
    for table in _tables(connection, streams, first, last):
        gathered.add(table)
    return gathered


def _tables(
    connection: Connection, streams: tuple[str, ...], first: date, last: date
) -> Iterator[pa.Table]:
    """The rows of the store, days by days. They are grouped here: DuckDB takes five times as long
    to group by texts of this length as to read them."""
    sql, parameters = _ROWS, list[object]()
    if WORLD not in streams:
        sql, parameters = f"{sql} AND list_contains(?, ActionGeo_CountryCode)", [list(streams)]
    for begin, end in _stretches(connection, first, last):
        table = connection.arrow(sql, [first, begin, end, *parameters])
        if table.num_rows:
            yield table


def _stretches(connection: Connection, since: date, until: date) -> Iterator[tuple[date, date]]:
    """First and last days of stretches that hold about as many rows as are read at once."""
    first = last = None
    total = 0
    for day, rows in connection.rows(
        "SELECT NewsDay, sum(rows)::BIGINT FROM file_days WHERE NewsDay BETWEEN ? AND ? "
        "GROUP BY ALL ORDER BY NewsDay",
        [since, until],
    ):
        if first is not None and last is not None and total + rows > ROWS_AT_ONCE:
            yield first, last
            first, total = None, 0
        first, last, total = first or day, day, total + rows
    if first is not None and last is not None:
        yield first, last
