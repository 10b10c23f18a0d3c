"""Grouping: from rows of the store to who did what to whom, where and on which day.

Rows come as tables of some days, none twice, and are grouped by day, stream, event and value. What
has been gathered of some days can be written down as plain arrays and taken up again
(`argument_months.py` keeps months so); weights are whole units until the end, so neither the order
nor the portions in which days come make a difference.
"""

import json
from collections.abc import Mapping
from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gdelphi.common.types import WORLD, IntArray
from gdelphi.forecast.arguments import (
    KINDS,
    UNKNOWN_REGION,
    ArgumentHistory,
    ArgumentKind,
    ObservedArguments,
    RegionNames,
)
from gdelphi.measures.clouds import Coded, coded
from gdelphi.measures.phrases import canonical
from gdelphi.store.sums import UNITS

Arrays = Mapping[str, npt.NDArray[np.generic]]
"""whole numbers by the name of their column, and texts as the bytes of JSON"""
_OBSERVED: Final = ("day", "stream", "event", "value", "units")
_NAMED: Final = ("region", "name", "day", "rows")


class _Vocabulary:
    """Values by the order in which they were met."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def places(self, column: Coded) -> IntArray:
        known = self.of(column.keys)
        return known[column.places] if len(known) else column.places

    def of(self, keys: tuple[str, ...]) -> IntArray:
        """The positions of values, which are added if they are new."""
        known = [self.place.setdefault(key, len(self.place)) for key in keys]
        return np.array(known, dtype=np.int64)


class GatheredArguments:
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

    # --- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """All of it, sorted: whoever takes it up need hardly sort again."""
        events = tuple(sorted(self._events.place))
        kept: dict[str, npt.NDArray[np.generic]] = {"events": _as_bytes(events)}
        for kind in KINDS:
            values = tuple(sorted(self._values[kind].place))
            kept[f"{kind}.values"] = _as_bytes(values)
            columns = self._sorted(kind, events, values)
            kept |= {
                f"{kind}.{name}": _small(column)
                for name, column in zip(_OBSERVED, columns, strict=True)
            }
        kept["names"] = _as_bytes(tuple(self._names.place))
        regions = _moved(
            tuple(self._values["region"].place), tuple(sorted(self._values["region"].place))
        )
        region, *rest = np.concatenate(self._named, axis=1)
        named = (regions[region] if len(regions) else region, *rest)
        return kept | {
            f"named.{name}": _small(column) for name, column in zip(_NAMED, named, strict=True)
        }

    def take(self, kept: Arrays, shift: int) -> None:
        """What was gathered elsewhere, of days of which none has been read here; its day 0 is the
        day `shift` here."""
        events = self._events.of(_texts(kept["events"]))
        for kind in KINDS:
            values = self._values[kind].of(_texts(kept[f"{kind}.values"]))
            day, stream, event, value, units = (_wide(kept[f"{kind}.{name}"]) for name in _OBSERVED)
            self._observed[kind].append(
                np.stack([day + shift, stream, _at(events, event), _at(values, value), units])
            )
            if kind == "region":
                names = self._names.of(_texts(kept["names"]))
                region, name, day, rows = (_wide(kept[f"named.{column}"]) for column in _NAMED)
                self._named.append(
                    np.stack([_at(values, region), _at(names, name), day + shift, rows])
                )

    def _sorted(
        self, kind: ArgumentKind, events: tuple[str, ...], values: tuple[str, ...]
    ) -> IntArray:
        """The columns of a kind by sorted events and values, in the order of days, [5, n]."""
        day, stream, event, value, units = np.concatenate(self._observed[kind], axis=1)
        event = _at(_moved(tuple(self._events.place), events), event)
        value = _at(_moved(tuple(self._values[kind].place), values), value)
        if not len(day):
            return np.zeros((5, 0), np.int64)
        # Stable: what months bring is sorted already, and this kind of sort makes use of it.
        order = np.argsort(_keys((day, stream, event, value)), kind="stable")
        return np.stack([day, stream, event, value, units])[:, order]

    # --- the history ------------------------------------------------------------------------------

    def history(self, days: tuple[date, ...]) -> ArgumentHistory:
        events = tuple(sorted(self._events.place))
        observed = {}
        for kind in KINDS:
            values = tuple(sorted(self._values[kind].place))
            observed[kind] = _observed(values, self._sorted(kind, events, values))
        triples = (event.split("|", 2) for event in events)
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


def _observed(values: tuple[str, ...], columns: IntArray) -> ObservedArguments:
    """What was observed of a kind, from sorted columns [5, n]; what weighs nothing is left out."""
    weight = (columns[4] / UNITS).astype(np.float32)
    kept = weight > 0
    day, stream, event, value = (column[kept].astype(np.int32) for column in columns[:4])
    return ObservedArguments(values, stream, day, event, value, weight[kept])


def _moved(met: tuple[str, ...], order: tuple[str, ...]) -> IntArray:
    """Where each text of one order stands in another; -1: nowhere."""
    place = {text: number for number, text in enumerate(order)}
    return np.array([place.get(text, -1) for text in met], dtype=np.int64)


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


def _at(places: IntArray, numbers: IntArray) -> IntArray:
    """Places by number; there may be neither."""
    return places[numbers] if len(numbers) else numbers


def _small(column: IntArray) -> npt.NDArray[np.generic]:
    """Whole numbers of 0 and more in as few bytes as they take."""
    return column.astype(np.min_scalar_type(int(column.max(initial=0))))


def _wide(column: npt.NDArray[np.generic]) -> IntArray:
    return column.astype(np.int64)


def _as_bytes(texts: tuple[str, ...]) -> npt.NDArray[np.generic]:
    return np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)


def _texts(content: npt.NDArray[np.generic]) -> tuple[str, ...]:
    return tuple(json.loads(content.tobytes()))
