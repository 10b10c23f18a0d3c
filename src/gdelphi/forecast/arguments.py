"""Arguments: who acted, on whom and in which region, as observed in the store's rows.

For each kind of argument (actor 1, actor 2, region) one table of weights by stream, day, event and
value, as plain columns of whole numbers sorted by day. Chosen: the store grouped once and kept in
memory (20 bytes a row, about half as many rows as events), so that a forecast of arguments and its
judgement over a year of days need no further query. Not chosen: the clouds, which know nothing of
regions and would have to be opened day by day.

An actor is the canonical key of its codes, as in a cloud; the blank key is a value of its own,
"nobody named". A region is the first-level code of the place of action (FIPS country and two
characters). Where that is only the country, FIPS's "general" region 00, damaged, or of another
country, the region is unknown: the blank value.

Weights are the cloud weights; rows without any (no mentions) are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS, WORLD, BoolArray, IntArray, Level
from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.measures.clouds import Coded, coded
from gdelphi.measures.phrases import (
    actor,
    actor_key_sql,
    canonical,
)
from gdelphi.measures.profiles import standard_events
from gdelphi.store.connection import Connection, Store
from gdelphi.store.sums import UNITS, WEIGHT_UNITS

ArgumentKind = Literal["actor1", "actor2", "region"]
KINDS: Final[tuple[ArgumentKind, ...]] = ("actor1", "actor2", "region")
UNKNOWN_REGION: Final = ""
NOBODY: Final = ""
ROWS_AT_ONCE = 1_000_000  # rows of the store that one query may group

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


def level_of(code: str) -> Level:
    """The level of a standard event; 141 is a base code, though rows may have no finer one."""
    for level in LEVELS:
        if code in standard_events(level):
            return level
    raise ArgumentsError(f"no standard event {code!r}: CAMEO codes are text, as 14, 141 or 1411")


# --- from the store -------------------------------------------------------------------------------


def read_arguments(
    source: Settings | Connection,
    streams: Sequence[str],
    *,
    since: date | None = None,
    until: date | None = None,
) -> ArgumentHistory:
    """The arguments in a store from one day to another; rows of later days are not looked at.

    `WORLD` is the stream of all rows. Rows on a day that no loaded file speaks for are left out, as
    in profiles.
    """
    if isinstance(source, Settings):
        with Store(source).reading() as connection:
            return read_arguments(connection, streams, since=since, until=until)
    if not streams or len(set(streams)) != len(streams):
        raise ArgumentsError(f"streams to read arguments of: each once, not {list(streams)}")
    days = _days(source, since, until)
    events = _Vocabulary()
    observed = {
        kind: _observed(source, kind, tuple(streams), days=days, events=events) for kind in KINDS
    }
    names = _region_names(source, observed["region"].values, days)
    triples = (event.split("|", 2) for event in events.place)
    return ArgumentHistory(
        streams=tuple(streams),
        days=days,
        events=tuple((root, base, full) for root, base, full in triples),
        observed=observed,
        region_names=names,
    )


def _days(connection: Connection, since: date | None, until: date | None) -> tuple[date, ...]:
    loaded = connection.rows("SELECT min(NewsDay), max(NewsDay) FROM days WHERE loaded > 0")[0]
    first, last = since or loaded[0], until or loaded[1]
    if first is None or last is None:
        raise ArgumentsError(f"{connection.name} has no days: `gdelphi ingest` brings some")
    if first > last:
        raise ArgumentsError(f"no days between {first} and {last}: ask for others")
    return tuple(first + timedelta(days=number) for number in range((last - first).days + 1))


REGION_SQL: Final = """CASE WHEN
        regexp_full_match(upper(trim(ActionGeo_ADM1Code)), '[A-Z]{2}[A-Z0-9]{2}')
        AND upper(trim(ActionGeo_ADM1Code))[:2] = ActionGeo_CountryCode
        AND upper(trim(ActionGeo_ADM1Code))[3:] <> '00'
    THEN upper(trim(ActionGeo_ADM1Code)) ELSE '' END"""
"""SQL for the region of a row of `events`; '' where it is unknown"""

_VALUES: Final[Mapping[ArgumentKind, str]] = {
    "actor1": actor_key_sql(1),
    "actor2": actor_key_sql(2),
    "region": REGION_SQL,
}
_SPOKEN_FOR: Final = "NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0)"

_ROWS = """
    SELECT NewsDay - ?::DATE AS day, {stream} AS stream, {value} AS value,
        concat_ws('|', coalesce(EventRootCode, ''), coalesce(EventBaseCode, ''),
            coalesce(EventCode, '')) AS event,
        {weight} AS units
    FROM events WHERE NewsDay BETWEEN ? AND ? AND {spoken} {condition} GROUP BY ALL
    ORDER BY ALL"""

# The middle of "Kisumu, Nyanza, Kenya", which may itself have commas; of a place that is a region,
# as in "Texas, United States", the first part.
_NAMES = f"""
    WITH named AS (
        SELECT {REGION_SQL} AS region, NewsDay - ?::DATE AS day,
            string_split(ActionGeo_FullName, ', ') AS parts, ActionGeo_Type AS type
        FROM events WHERE NewsDay BETWEEN ? AND ? AND {_SPOKEN_FOR}
    ), cut AS (
        SELECT region, day, trim(rtrim(CASE
            WHEN len(parts) > 2 THEN array_to_string(parts[2:len(parts) - 1], ', ')
            WHEN len(parts) = 2 AND type IN (2, 5) THEN parts[1] ELSE '' END, '*')) AS name
        FROM named WHERE region <> ''
    )
    SELECT region, day, name, count(*) AS rows FROM cut WHERE name <> '' GROUP BY ALL"""


class _Vocabulary:
    """Values by the order in which they were met."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def places(self, column: Coded) -> IntArray:
        known = [self.place.setdefault(key, len(self.place)) for key in column.keys]
        return np.array(known, dtype=np.int64)[column.places] if known else column.places


def _observed(
    connection: Connection,
    kind: ArgumentKind,
    streams: tuple[str, ...],
    *,
    days: tuple[date, ...],
    events: _Vocabulary,
) -> ObservedArguments:
    """One kind of argument, from the store: day, stream, event, value and weight of each row."""
    values = _Vocabulary()
    parts = [np.zeros((5, 0), dtype=np.int64)]
    for table in _tables(connection, _VALUES[kind], streams, days):
        value = coded(table.column("value"))
        if kind != "region":
            value = Coded(tuple(canonical(key) for key in value.keys), value.places)
        stream = coded(table.column("stream"))
        columns = (
            table.column("day").to_numpy().astype(np.int64),
            np.array([streams.index(key) for key in stream.keys], dtype=np.int64)[stream.places],
            events.places(coded(table.column("event"))),
            values.places(value),
        )
        parts.append(_summed(columns, table.column("units").to_numpy()))
    return _in_order(tuple(values.place), np.concatenate(parts, axis=1))


def _in_order(values: tuple[str, ...], columns: IntArray) -> ObservedArguments:
    """Columns [5, n] sorted by day, with values sorted too, so that ties by position are ties by
    value, whatever was met first."""
    order = sorted(range(len(values)), key=values.__getitem__)
    moved = np.empty(len(values), dtype=np.int64)
    moved[order] = np.arange(len(values))
    day, stream, event, value, units = columns
    weight = (units / UNITS).astype(np.float32)
    kept = np.flatnonzero(weight > 0)
    value = moved[value]
    kept = kept[np.lexsort((value[kept], event[kept], stream[kept], day[kept]))]
    sorted_values = tuple(values[at] for at in order)
    stream, day, event, value = (
        column[kept].astype(np.int32) for column in (stream, day, event, value)
    )
    return ObservedArguments(sorted_values, stream, day, event, value, weight[kept])


def _summed(columns: tuple[IntArray, ...], units: IntArray) -> IntArray:
    """The columns with each combination once and the sum of its units, [5, n]."""
    sizes = tuple(int(column.max()) + 1 for column in columns)
    keys = np.ravel_multi_index(columns, sizes)  # one number to sort by: quicker than four
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.add.reduceat(units[order], starts)
    return np.stack([*np.unravel_index(keys[order][starts], sizes), sums]).astype(np.int64)


def _tables(
    connection: Connection, value: str, streams: tuple[str, ...], days: tuple[date, ...]
) -> Iterator[pa.Table]:
    countries = [stream for stream in streams if stream != WORLD]
    queries: list[tuple[str, str, list[object]]] = []
    if countries:
        condition = "AND list_contains(?, ActionGeo_CountryCode)"
        queries.append(("ActionGeo_CountryCode", condition, [countries]))
    if WORLD in streams:
        queries.append((f"'{WORLD}'", "", []))
    for first, last in _stretches(connection, days):
        for stream, condition, parameters in queries:
            sql = _ROWS.format(
                stream=stream, value=value, weight=WEIGHT_UNITS, condition=condition,
                spoken=_SPOKEN_FOR,
            )  # fmt: skip
            table = connection.arrow(sql, [days[0], first, last, *parameters])
            if table.num_rows:
                yield table


def _stretches(connection: Connection, days: tuple[date, ...]) -> Iterator[tuple[date, date]]:
    """First and last days of stretches that hold about as many rows as one query may group."""
    first = last = None
    total = 0
    for day, rows in connection.rows(
        "SELECT NewsDay, sum(rows)::BIGINT FROM file_days WHERE NewsDay BETWEEN ? AND ? "
        "GROUP BY ALL ORDER BY NewsDay",
        [days[0], days[-1]],
    ):
        if first is not None and last is not None and total + rows > ROWS_AT_ONCE:
            yield first, last
            first, total = None, 0
        first, last, total = first or day, day, total + rows
    if first is not None and last is not None:
        yield first, last


def _region_names(
    connection: Connection, regions: tuple[str, ...], days: tuple[date, ...]
) -> RegionNames:
    place = {region: at for at, region in enumerate(regions)}
    rows = [
        (place[region], name, day, count)
        for region, day, name, count in connection.rows(_NAMES, [days[0], days[0], days[-1]])
        if region in place
    ]
    names = tuple(sorted({name for _, name, _, _ in rows}))
    at = {name: number for number, name in enumerate(names)}
    columns = np.array(
        sorted((region, at[name], day, count) for region, name, day, count in rows), dtype=np.int32
    ).reshape(-1, 4)
    return RegionNames(names, *columns.T)
