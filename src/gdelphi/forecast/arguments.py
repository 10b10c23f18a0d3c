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
from dataclasses import dataclass, replace
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
from gdelphi.store.sums import ROW_UNITS, UNITS

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

    def until(self, day: date) -> "ArgumentHistory":
        """The same without later days, and without what no row of positive weight has by then: as
        if it had been read up to that day only."""
        size = self.day(day) + 1
        observed = {kind: one.select(one.day < size) for kind, one in self.observed.items()}
        events = np.unique(np.concatenate([one.event for one in observed.values()]))
        values = {kind: np.unique(one.value) for kind, one in observed.items()}
        named, regions = self.region_names, values["region"]
        kept = (named.day < size) & np.isin(named.region, regions)
        names = np.unique(named.name[kept])
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


def _places(kept: Places, numbers: Places) -> Places:
    """Where numbers stand among those that are kept."""
    return np.searchsorted(kept, numbers).astype(np.int32)


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
    gathered = _Gathered(tuple(streams))
    for table in _tables(source, gathered.streams, days):
        gathered.add(table)
    return gathered.history(days)


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

_ROWS: Final = f"""
    SELECT NewsDay - ?::DATE AS day, ActionGeo_CountryCode AS country,
        concat_ws('|', coalesce(EventRootCode, ''), coalesce(EventBaseCode, ''),
            coalesce(EventCode, '')) AS event,
        {actor_key_sql(1)} AS actor1, {actor_key_sql(2)} AS actor2, {REGION_SQL} AS region,
        ActionGeo_FullName AS place, ActionGeo_Type AS type, {ROW_UNITS} AS units
    FROM events
    WHERE NewsDay BETWEEN ? AND ? AND NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0)"""


def _tables(
    connection: Connection, streams: tuple[str, ...], days: tuple[date, ...]
) -> Iterator[pa.Table]:
    """The rows of the store, days by days. They are grouped here: DuckDB takes five times as long
    to group by texts of this length as to read them."""
    sql, parameters = _ROWS, list[object]()
    if WORLD not in streams:
        sql, parameters = f"{sql} AND list_contains(?, ActionGeo_CountryCode)", [list(streams)]
    for first, last in _stretches(connection, days):
        table = connection.arrow(sql, [days[0], first, last, *parameters])
        if table.num_rows:
            yield table


def _stretches(connection: Connection, days: tuple[date, ...]) -> Iterator[tuple[date, date]]:
    """First and last days of stretches that hold about as many rows as are read at once."""
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


# --- grouping -------------------------------------------------------------------------------------


class _Vocabulary:
    """Values by the order in which they were met."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def places(self, column: Coded) -> IntArray:
        known = [self.place.setdefault(key, len(self.place)) for key in column.keys]
        return np.array(known, dtype=np.int64)[column.places] if known else column.places


class _Gathered:
    """What has been read so far."""

    def __init__(self, streams: tuple[str, ...]) -> None:
        self.streams = streams
        self._events = _Vocabulary()
        self._values = {kind: _Vocabulary() for kind in KINDS}
        self._observed = {kind: [np.zeros((5, 0), np.int64)] for kind in KINDS}
        self._names = _Vocabulary()
        self._named = [np.zeros((4, 0), np.int64)]

    def add(self, table: pa.Table) -> None:
        """Rows of days of which none has been read before."""
        day = table.column("day").to_numpy().astype(np.int64)
        units = table.column("units").to_numpy()
        event = self._events.places(coded(table.column("event")))
        country = coded(table.column("country"))
        place = {stream: number for number, stream in enumerate(self.streams)}
        stream = np.array([place.get(key, -1) for key in country.keys], np.int64)[country.places]
        followed = stream >= 0
        for kind in KINDS:
            value = coded(table.column(kind))
            if kind != "region":
                value = Coded(tuple(canonical(key) for key in value.keys), value.places)
            columns = (day, stream, event, self._values[kind].places(value))
            own = tuple(column[followed] for column in columns)
            self._observed[kind].append(_summed(own, units[followed]))
            if WORLD in place:
                every = (day, np.full_like(stream, place[WORLD]), *columns[2:])
                self._observed[kind].append(_summed(every, units))
            if kind == "region":
                self._add_names(table, day, columns[3])

    def _add_names(self, table: pa.Table, day: IntArray, region: IntArray) -> None:
        full = coded(table.column("place"))
        type_ = table.column("type").fill_null(0).to_numpy().astype(np.int64)
        sizes = (len(full.keys), int(type_.max()) + 1)
        kinds, places = np.unique(
            np.ravel_multi_index((full.places, type_), sizes), return_inverse=True
        )
        texts = tuple(
            region_name(full.keys[number], int(kind))
            for number, kind in zip(*np.unravel_index(kinds, sizes), strict=True)
        )
        name = self._names.places(Coded(texts, places))
        blank = self._values["region"].place.get(UNKNOWN_REGION, -1)
        told = (region != blank) & (name != self._names.place.get("", -1))
        columns = tuple(column[told] for column in (region, name, day))
        self._named.append(_summed(columns, np.ones(int(told.sum()), np.int64)))

    def history(self, days: tuple[date, ...]) -> ArgumentHistory:
        observed = {
            kind: _in_order(
                tuple(self._values[kind].place),
                tuple(self._events.place),
                np.concatenate(self._observed[kind], axis=1),
            )
            for kind in KINDS
        }
        triples = (event.split("|", 2) for event in sorted(self._events.place))
        return ArgumentHistory(
            streams=self.streams,
            days=days,
            events=tuple((root, base, full) for root, base, full in triples),
            observed=observed,
            region_names=self._region_names(observed["region"].values),
        ).until(days[-1])

    def _region_names(self, regions: tuple[str, ...]) -> RegionNames:
        """How the regions were called, both in the order of their texts."""
        region, name, day, rows = np.concatenate(self._named, axis=1)
        met_regions, met_names = tuple(self._values["region"].place), tuple(self._names.place)
        names = tuple(sorted(met_names[number] for number in np.unique(name)))
        columns = np.stack(
            [_moved(met_regions, regions)[region], _moved(met_names, names)[name], day, rows]
        )
        columns = columns[:, np.lexsort(columns[2::-1])]
        return RegionNames(names, *columns.astype(np.int32))


def region_name(place: str, kind: int) -> str:
    """The region's name in a place's: the middle of "Kisumu, Nyanza, Kenya", which may itself have
    commas; of a place that is a region (kind 2 or 5), as in "Texas, United States", the first part;
    else none."""
    first, *middle = place.split(", ")[:-1] or [""]
    name = ", ".join(middle) or (first if kind in (2, 5) and not middle else "")
    return name.rstrip("*").strip(" ")


def _moved(met: tuple[str, ...], order: tuple[str, ...]) -> IntArray:
    """Where each text of one order stands in another; -1: nowhere."""
    place = {text: number for number, text in enumerate(order)}
    return np.array([place.get(text, -1) for text in met], dtype=np.int64)


def _in_order(
    values: tuple[str, ...], events: tuple[str, ...], columns: IntArray
) -> ObservedArguments:
    """Columns [5, n] sorted by day, with values and events sorted too: what is said is the same
    whatever was met first."""
    sorted_values = tuple(sorted(values))
    day, stream, event, value, units = columns
    weight = (units / UNITS).astype(np.float32)
    kept = np.flatnonzero(weight > 0)
    event, value = (
        _moved(events, tuple(sorted(events)))[event],
        _moved(values, sorted_values)[value],
    )
    columns = np.stack([day, stream, event, value])[:, kept]
    order = np.argsort(_keys(tuple(columns))) if len(kept) else kept
    day, stream, event, value = columns[:, order].astype(np.int32)
    return ObservedArguments(sorted_values, stream, day, event, value, weight[kept[order]])


def _summed(columns: tuple[IntArray, ...], units: IntArray) -> IntArray:
    """The columns with each combination once and the sum of its units, [column + 1, n]."""
    if not len(units):
        return np.zeros((len(columns) + 1, 0), np.int64)
    keys = _keys(columns)
    order = np.argsort(keys)
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.add.reduceat(units[order], starts)
    return np.stack([*(column[order[starts]] for column in columns), sums])


def _keys(columns: tuple[IntArray, ...]) -> IntArray:
    """A number for each combination, in their order: one to sort by is quicker than several."""
    return np.ravel_multi_index(columns, tuple(int(column.max()) + 1 for column in columns))
