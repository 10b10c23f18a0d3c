"""Gathering clouds from the store: the days that are new or have changed, and no others.

One query brings the rows of a stretch of days, grouped by their codes, as Arrow; the rest is
whole-column arithmetic on dictionary positions, so a day of 50,000 rows takes a fraction of a
second. Not chosen: one query for each stream and day, or a Python object for each row.

A day is made again when its fingerprint changes: that of its source files and of what the store
took from them. Fingerprints of all days take an aggregate over all rows, so they are kept beside
the clouds together with the store's version, which is read from the ledger alone: rows come and go
only in a transaction that enters a file as loaded. Whoever opens a model compares the versions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import text_digest
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD, BoolArray, IntArray
from gdelphi.common.workers import have_workers, share
from gdelphi.measures.clouds import (
    Cloud,
    Coded,
    DayFacts,
    Numbers,
    cloud_without_points,
    coded,
    measures_folder,
    write_day,
)
from gdelphi.measures.day_files import DayFolder, keep_json
from gdelphi.measures.phrases import actor_key_sql, canonical
from gdelphi.store.connection import Connection, Store
from gdelphi.store.sums import MENTIONS, TOLD, WEIGHT_UNITS

ROWS_AT_ONCE = 400_000  # rows of the store that one query may bring
DAYS_AT_ONCE = 64  # of a stretch that a process of this machine makes
DAYS_SHARED = 256  # from so many on, processes of this machine share the days
TONE_UNITS: Final = 10**6
GOLDSTEIN_UNITS: Final = 10
DESCRIBING: Final = ("gdelphi.measures.embed", "gdelphi.measures.descriptor_files")
"""what the same processes do next: they are started once"""

OnDay = Callable[[int, int, int], None]
"""days done, days to do, rows gathered"""


@dataclass(frozen=True)
class Gathered:
    """What a run did."""

    built: int
    """days"""
    had: int
    """days that were there and up to date"""
    removed: int
    """days whose files the store no longer has"""
    rows: int
    points: int
    seconds: float


def gather(
    settings: Settings,
    *,
    since: date | None = None,
    until: date | None = None,
    force: bool = False,
    on_day: OnDay | None = None,
) -> Gathered:
    """Make the clouds of all days in the window that lack them or have changed in the store."""
    began = perf_counter()
    files = DayFolder(measures_folder(settings) / "clouds")
    rows = points = done = 0
    with Store(settings).reading(alone=True) as connection, files.updating() as manifest:
        there = _measured_days(connection, settings)
        removed = manifest.keep_only(facts.day for facts in there)
        wanted = [
            facts for facts in there if (since or facts.day) <= facts.day <= (until or facts.day)
        ]
        stale = [
            facts for facts in wanted if force or manifest.known.get(facts.day) != facts.fingerprint
        ]
        made: Iterator[Iterable[_Written]]
        if have_workers():
            stretches = list(_stretches(connection, stale))
            made = share(_Work(settings), stretches, portion=1, processes=1)
        elif len(stale) >= DAYS_SHARED:
            stretches = list(_stretches(connection, stale, DAYS_AT_ONCE))
            made = share(_Work(settings), stretches, portion=1, preload=DESCRIBING)
        else:  # day by day, with all cores at work for DuckDB
            made = (
                _write_days(connection, files, stretch) for stretch in _stretches(connection, stale)
            )
        for written in made:
            for facts, its_rows, its_points in written:
                manifest.known[facts.day] = facts.fingerprint
                rows, points, done = rows + its_rows, points + its_points, done + 1
                if on_day:
                    on_day(done, len(stale), rows)
            manifest.save()
    seconds = perf_counter() - began
    return Gathered(done, len(wanted) - done, removed, rows, points, seconds)


_Written = tuple[DayFacts, int, int]
"""a day, its rows and its points"""


def _write_days(
    connection: Connection, files: DayFolder, stretch: list[DayFacts]
) -> Iterator[_Written]:
    for facts, clouds in _clouds(connection, stretch):
        write_day(files, facts, clouds)
        rows = sum(cloud.volume for cloud in clouds if cloud.stream == WORLD)
        yield facts, rows, sum(len(cloud) for cloud in clouds)


@dataclass(frozen=True)
class _Work:
    """What a worker needs to make the clouds of a stretch of days."""

    settings: Settings

    def do(self, item: list[DayFacts]) -> list[_Written]:
        files = DayFolder(measures_folder(self.settings) / "clouds")
        with Store(self.settings).reading(alone=True) as connection:
            return list(_write_days(connection, files, item))


def stale_days(settings: Settings) -> list[date]:
    """The days to be measured whose clouds are not there or not up to date."""
    made = DayFolder(measures_folder(settings) / "clouds").made_from()
    with Store(settings).reading() as connection:
        there = _measured_days(connection, settings)
    return [facts.day for facts in there if made.get(facts.day) != facts.fingerprint]


def day_fingerprints(settings: Settings) -> dict[date, str]:
    """A mark of each day's rows and files: another one where a file was late or was replaced."""
    with Store(settings).reading() as connection:
        days = _days(connection, measures_folder(settings))
    return {facts.day: facts.fingerprint for facts in days}


def measured_fingerprints(settings: Settings) -> dict[date, str]:
    """The same of the days that are to be measured (`measures.since`)."""
    since = settings.measures.since or date.min
    return {day: mark for day, mark in day_fingerprints(settings).items() if day >= since}


def cloud_on(settings: Settings, stream: str, day: date) -> Cloud:
    """One cloud straight from the store, whatever has been gathered before."""
    with Store(settings).reading() as connection:
        rows = connection.rows(_DAYS.format(condition="WHERE NewsDay = ?"), [day])
        facts = next((facts for facts in map(DayFacts._make, rows) if facts.day == day), None)
        if facts is None:
            days = [facts.day for facts in _days(connection, measures_folder(settings))]
            known = f"{days[0]} to {days[-1]}" if days else "none"
            raise MeasuresError(
                f"{settings.store} does not have {day} (days: {known}): `gdelphi status` says why"
            )
        for _, clouds in _clouds(connection, [facts]):
            for cloud in clouds:
                if cloud.stream == stream:
                    return cloud
    return cloud_without_points(stream, facts)


# --- which days -----------------------------------------------------------------------------------

# Everything that decides a day's rows: the files that speak for it and what became of them, and
# which rows of which files stand on it. Counts of the files alone do not tell: a backfile has rows
# on days beyond its month, and when a file changes, rows of others come and go as its duplicates.
# Sums of ids and of their squares stand for the ids: they do not depend on the order of rows.
# Actors whose country is told by their code alone are counted: clouds of earlier versions lack it.
_DAYS = f"""
    WITH spoken AS (
        SELECT unnest(generate_series(first_day, last_day, INTERVAL 1 DAY))::DATE AS day,
            status, layout, concat_ws('|', archive, name, status, md5, stamp) AS statement
        FROM ledger WHERE kind <> 'reduced' AND first_day IS NOT NULL AND last_day IS NOT NULL
    ), brought AS (
        SELECT NewsDay AS day, FileId, concat_ws('|', rows, ids, squared_ids, told) AS ids
        FROM file_days LEFT JOIN (
            SELECT FileId, NewsDay, sum(rows) AS told FROM odd_codes WHERE kind = '{TOLD}'
            GROUP BY ALL
        ) USING (FileId, NewsDay) {{condition}}
    ), held AS (
        SELECT day, string_agg(concat_ws('|', archive, name, md5, ids), '\n'
            ORDER BY archive, name) AS rows
        FROM brought JOIN ledger ON file_id = FileId GROUP BY day
    ), days AS (
        SELECT day, string_agg(statement, '\n' ORDER BY statement) AS files,
            count_if(status <> 'loaded') > 0 AS partial,
            coalesce(bool_or(layout = 'backfile'), false) AS backfile
        FROM spoken GROUP BY day HAVING count_if(status = 'loaded') > 0
    )
    SELECT day, md5(concat_ws('\n', files, rows)), partial, backfile
    FROM days LEFT JOIN held USING (day) ORDER BY day"""


# Equal versions, equal rows: every transaction that changes `events` (a file comes in, its earlier
# version is taken back, duplicates come or go with it) ends in `ledger.note_loaded`, which adds 1
# to the file's tries and sets loaded_at; a loaded file stays loaded, and its tries never fall. The
# rest is what `_DAYS` reads from the ledger itself.
_VERSION = """
    SELECT concat_ws('|', (SELECT count(*) FROM migrations), count(*), bit_xor(file), sum(file))
    FROM (
        SELECT hash(row(file_id, archive, name, kind, first_day, last_day, status, layout, md5,
            stamp, loaded_at, if(status = 'loaded', tries, 0))) AS file
        FROM ledger
    )"""


def _days(connection: Connection, folder: Path) -> list[DayFacts]:
    """The days that a loaded file speaks for; from what is kept in the folder of measures if the
    store has not changed since."""

    def aggregate() -> list[list[Any]]:
        facts = map(DayFacts._make, connection.rows(_DAYS.format(condition="")))
        return [[day.isoformat(), *rest] for day, *rest in facts]

    with connection.transaction():
        version = connection.value(_VERSION)
        rows = keep_json(folder / "days.json", text_digest(f"{version}{_DAYS}"), aggregate)
    return [DayFacts(date.fromisoformat(day), *rest) for day, *rest in rows]


def _measured_days(connection: Connection, settings: Settings) -> list[DayFacts]:
    """Those of them that are to be measured."""
    since = settings.measures.since or date.min
    days = _days(connection, measures_folder(settings))
    return [facts for facts in days if facts.day >= since]


def _stretches(
    connection: Connection, stale: list[DayFacts], most: int | None = None
) -> Iterator[list[DayFacts]]:
    """The days in runs that bring about as many rows as one query may, of so many days at most."""
    if not stale:
        return
    sizes: dict[date, int] = dict(
        connection.rows(
            "SELECT NewsDay, sum(rows)::BIGINT FROM file_days WHERE NewsDay BETWEEN ? AND ? "
            "GROUP BY NewsDay",
            [stale[0].day, stale[-1].day],
        )
    )
    run: list[DayFacts] = []
    total = 0
    for facts in stale:
        size = sizes.get(facts.day, 0)
        if run and (total + size > ROWS_AT_ONCE or len(run) == most):
            yield run
            run, total = [], 0
        run.append(facts)
        total += size
    yield run


# --- the clouds of a stretch of days --------------------------------------------------------------


def _within(column: str, bound: int) -> str:
    """SQL for a column's value within its scale; 0 where there is none."""
    return f"least(greatest(coalesce({column}, 0), -{bound}), {bound})"


# One row that is out of bounds must not keep all others from being gathered.
_ROWS = f"""
    SELECT NewsDay AS day, ActionGeo_CountryCode AS stream, {actor_key_sql(1)} AS actor1,
        coalesce(EventCode, '') AS code, {actor_key_sql(2)} AS actor2,
        {WEIGHT_UNITS} AS units,
        count(*) AS rows, sum({MENTIONS})::BIGINT AS mentions,
        sum(round({GOLDSTEIN_UNITS} * {_within("GoldsteinScale", 10)})::BIGINT)::BIGINT
            AS goldstein,
        sum(round({TONE_UNITS} * {_within("AvgTone", 100)})::BIGINT)::BIGINT AS tone,
        coalesce(max(QuadClass) FILTER (QuadClass BETWEEN 1 AND 4), 0)::BIGINT AS quad
    FROM events WHERE NewsDay BETWEEN ? AND ? AND NewsDay IN (SELECT unnest(?::DATE[]))
    GROUP BY ALL"""


class Grouped(NamedTuple):
    """Rows of the store, grouped by some of their codes or not at all; each column [n].

    Sums are whole numbers: units, rows, mentions, tenths of Goldstein, millionths of tone.
    """

    stream: Coded
    actor1: Coded
    code: Coded
    actor2: Coded
    units: IntArray
    rows: IntArray
    mentions: IntArray
    goldstein: IntArray
    tone: IntArray
    quad: IntArray


def _clouds(
    connection: Connection, stretch: list[DayFacts]
) -> Iterator[tuple[DayFacts, list[Cloud]]]:
    wanted = [facts.day for facts in stretch]  # days that are up to date may lie between them
    table = connection.arrow(_ROWS, [wanted[0], wanted[-1], wanted]).sort_by("day")
    days = table.column("day").to_numpy().astype("datetime64[D]")
    for facts in stretch:
        day = np.datetime64(facts.day)
        first, last = np.searchsorted(days, day, "left"), np.searchsorted(days, day, "right")
        yield facts, clouds_of(facts, _grouped(table.slice(first, last - first)))


def _grouped(table: pa.Table) -> Grouped:
    columns: list[Any] = [coded(table.column(name)) for name in Grouped._fields[:4]]
    columns += [table.column(name).to_numpy().astype(np.int64) for name in Grouped._fields[4:]]
    return Grouped._make(columns)


def clouds_of(facts: DayFacts, grouped: Grouped) -> list[Cloud]:
    """The clouds of all streams in the rows of one day, and of the world, sorted by stream.

    Neither the order of the rows nor how they were grouped before makes a difference.
    """
    grouped = grouped._replace(
        stream=_in_order(grouped.stream),
        actor1=_in_order(_canonical(grouped.actor1)),
        code=_in_order(grouped.code),
        actor2=_in_order(_canonical(grouped.actor2)),
    )
    known = np.array([stream not in ("", WORLD) for stream in grouped.stream.keys], dtype=np.bool_)
    streams = _merge(grouped, grouped.stream.places, known[grouped.stream.places])
    world = _merge(grouped, np.zeros_like(grouped.stream.places), None)
    clouds = [
        _cloud(facts, grouped.stream.keys[place], grouped, streams.part(place))
        for place in np.flatnonzero(known).tolist()
    ]
    clouds.append(_cloud(facts, WORLD, grouped, world))
    return [cloud for cloud in sorted(clouds, key=lambda cloud: cloud.stream) if len(cloud)]


def _canonical(slot: Coded) -> Coded:
    return Coded(tuple(canonical(key) for key in slot.keys), slot.places)


def _in_order(slot: Coded) -> Coded:
    """The same by sorted, distinct values, so that positions compare like the values."""
    keys = sorted(set(slot.keys))
    place = {key: number for number, key in enumerate(keys)}
    moved = np.array([place[key] for key in slot.keys], dtype=np.int64)
    return Coded(tuple(keys), moved[slot.places] if keys else slot.places)


class _Merged(NamedTuple):
    """Points sorted by group, the heaviest first; positions of the slots and sums, each [n]."""

    group: IntArray
    slots: tuple[IntArray, IntArray, IntArray]
    sums: tuple[IntArray, ...]

    def part(self, group: int) -> "_Merged":
        first, last = np.searchsorted(self.group, [group, group + 1])
        rows = slice(first, last)
        slots = (self.slots[0][rows], self.slots[1][rows], self.slots[2][rows])
        return _Merged(self.group[rows], slots, tuple(values[rows] for values in self.sums))


def _merge(grouped: Grouped, group: IntArray, chosen: BoolArray | None) -> _Merged:
    """One point for each distinct phrase of a group, with the sums of its rows."""
    slots = (grouped.actor1, grouped.code, grouped.actor2)
    key = group
    for slot in slots:
        key = key * max(len(slot.keys), 1) + slot.places
    where = np.arange(len(key)) if chosen is None else np.flatnonzero(chosen)
    where = where[np.argsort(key[where], kind="stable")]
    ordered = key[where]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)) if len(ordered) else where
    sums = [
        np.add.reduceat(values[where], starts) if len(starts) else values[:0]
        for values in grouped[4:9]
    ]
    quad = np.maximum.reduceat(grouped.quad[where], starts) if len(starts) else grouped.quad[:0]
    first = where[starts]
    # Ties of weight keep the order of the codes: the sort is stable.
    heaviest = np.lexsort((-sums[0], group[first]))
    return _Merged(
        group[first][heaviest],
        (
            slots[0].places[first][heaviest],
            slots[1].places[first][heaviest],
            slots[2].places[first][heaviest],
        ),
        tuple(values[heaviest] for values in (*sums, quad)),
    )


def _cloud(facts: DayFacts, stream: str, grouped: Grouped, merged: _Merged) -> Cloud:
    units, rows, mentions, goldstein, tone, quad = merged.sums
    many = np.maximum(rows, 1)
    keys: Sequence[Coded] = (grouped.actor1, grouped.code, grouped.actor2)
    slots = [Coded(slot.keys, places) for slot, places in zip(keys, merged.slots, strict=True)]
    return Cloud(
        stream,
        facts.day,
        True,
        facts.partial,
        facts.backfile,
        slots[0],
        slots[1],
        slots[2],
        Numbers(
            units,
            rows,
            mentions,
            goldstein / (many * GOLDSTEIN_UNITS),
            tone / (many * TONE_UNITS),
            quad,
        ),
    )
