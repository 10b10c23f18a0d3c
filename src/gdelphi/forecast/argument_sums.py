"""Decayed sums over observed arguments: how much weight each value has in each cell on a day.

    S(cell, value)  =  sum over its rows up to the origin of  weight * 0.5^((origin - day) / h)

S of the next day is S * 0.5^(1 / h) plus that day's rows. Sums are kept for all pairs of cell and
value at once and carried on from day to day, so that a backtest reads each row once and a single
origin costs one pass over the rows before it. Not chosen: prefix sums by day (exact for any window,
but a table of days times pairs).

A kind of argument has four scopes (full, base and root codes, the stream), which its levels share.
Rows are told apart by stream, event and value once; the pairs of a scope are made from these
combinations, of which there are far fewer than rows. Rows are added in the order of their days,
whatever the scope, so a sum has the same bits whoever asks for it.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import BoolArray, FloatArray, IntArray
from gdelphi.forecast.arguments import (
    UNKNOWN_REGION,
    ArgumentHistory,
    ArgumentKind,
    ObservedArguments,
)
from gdelphi.measures.profiles import standard_events

Scope = Literal["full", "base", "root", "stream"]

HALF_LIVES: Final = (7.0, 30.0, 90.0, 365.0, np.inf)
"""in days; the last is all days alike"""
FORGOTTEN = 1e-280  # weight below which ratios lose their digits: a cell of decades ago is empty


class _Combinations(NamedTuple):
    """The combinations of stream, event and value that rows have."""

    of_row: IntArray
    """[row]"""
    first: IntArray
    """the first row of each, [combination]"""


def _combinations(observed: ObservedArguments, events: int) -> _Combinations:
    size = max(len(observed.values), 1)
    keys = observed.stream.astype(np.int64) * max(events, 1) + observed.event
    keys *= size
    keys += observed.value
    # By hashing, in the order in which they are met: sorting millions of rows takes five times as
    # long.
    of_row = pa.array(keys).dictionary_encode().indices.to_numpy()
    highest = np.maximum.accumulate(of_row) if len(of_row) else of_row
    return _Combinations(of_row, np.flatnonzero(np.diff(highest, prepend=-1)))


class DecayedSums:
    """Decayed weights of the pairs of cell and value of one scope.

    Pairs are sorted by cell, so those of a cell are one stretch, from start[cell] to
    start[cell + 1]. Only pairs that some row of the whole history has exist: far fewer than cells
    times values.
    """

    def __init__(
        self, observed: ObservedArguments, rows: _Combinations, cell: IntArray, cells: int
    ) -> None:
        """`cell` of each combination; those with -1 take no part."""
        known = np.flatnonzero(cell >= 0)
        size = max(len(observed.values), 1)
        first_rows = rows.first[known]
        keys, places = np.unique(
            cell[known] * size + observed.value[first_rows], return_inverse=True
        )
        pairs = np.full(len(cell), -1, dtype=np.int32)
        pairs[known] = places
        self.pair = pairs[rows.of_row] if len(rows.of_row) else pairs[:0]
        """of each row"""
        self.whole = len(known) == len(cell)
        """whether all rows take part"""
        self.first = np.full(len(keys), len(self.pair), dtype=np.int64)
        """the first row of each pair"""
        np.minimum.at(self.first, places, first_rows)
        self.cell, self.value = keys // size, keys % size
        self.start = np.searchsorted(self.cell, np.arange(cells + 1))
        """where the pairs of a cell begin, [cell + 1]"""
        self.sums = np.zeros((len(keys), len(HALF_LIVES)))
        self.totals = np.zeros((cells, len(HALF_LIVES)))
        self.last_day = np.full(cells, -1, dtype=np.int64)
        self.pair_day = np.full(len(keys), -1, dtype=np.int64)
        self.pair_weight = np.zeros(len(keys))
        self.last_total = np.zeros(cells)

    def decay(self, days: int) -> None:
        """Move on by some days without rows."""
        factors = 0.5 ** (days / np.array(HALF_LIVES))
        self.sums *= factors
        self.totals *= factors
        self.totals[self.totals < FORGOTTEN] = 0.0

    def add(self, rows: slice, day: IntArray, weight: FloatArray, decayed: FloatArray) -> None:
        """Rows of some days, which everything older has been decayed to; `decayed` are their
        weights by half-life, [half-life, row]."""
        pair = self.pair[rows]
        if not self.whole:
            known = pair >= 0
            pair, day, weight, decayed = pair[known], day[known], weight[known], decayed[:, known]
        cell = self.cell[pair]
        for number, values in enumerate(decayed):
            self.sums[:, number] += np.bincount(pair, values, len(self.sums))
            self.totals[:, number] += np.bincount(cell, values, len(self.totals))
        # The last day of each cell; where that is a new one, its weights begin at 0 again.
        np.maximum.at(self.last_day, cell, day)
        latest = day == self.last_day[cell]
        pair, cell, weight = pair[latest], cell[latest], weight[latest]
        self.pair_weight[pair] = 0
        np.add.at(self.pair_weight, pair, weight)
        self.pair_day[pair] = day[latest]
        self.last_total[cell] = 0
        np.add.at(self.last_total, cell, weight)

    def known(self, cell: int) -> IntArray:
        """The pairs of a cell that have been seen.

        Later ones would add nothing but zeros; yet the last bit of a product depends on its shape.
        """
        first, last = self.start[cell : cell + 2]
        pairs: IntArray = first + np.flatnonzero(self.sums[first:last, -1] > 0)
        return pairs

    def kernel(self, pairs: IntArray, cells: IntArray | int) -> FloatArray:
        """The probabilities of pairs in their cells, [pair, half-life]; 0 in an empty cell."""
        total = self.totals[cells]
        probabilities: FloatArray = self.sums[pairs] / np.where(total > 0, total, 1.0)
        return probabilities

    def last(self, pairs: IntArray, cells: IntArray | int) -> FloatArray:
        """The same for the last day on which the cell was seen, [pair]."""
        total = self.last_total[cells]
        latest = self.pair_day[pairs] == self.last_day[cells]
        weight = np.where(latest, self.pair_weight[pairs], 0.0)
        probabilities: FloatArray = weight / np.where(total > 0, total, 1.0)
        return probabilities


class KindSums:
    """The sums of one kind of argument in some scopes, as they stand at an origin that moves on."""

    def __init__(
        self, history: ArgumentHistory, kind: ArgumentKind, scopes: Iterable[Scope]
    ) -> None:
        self.history = history
        self.origin = -1
        observed = history.observed[kind]
        if kind == "region":  # forecast and judged where a region is named
            blank = [at for at, value in enumerate(observed.values) if value == UNKNOWN_REGION]
            observed = observed.select(~np.isin(observed.value, blank))
        self.observed = observed
        self.starts = np.searchsorted(observed.day, np.arange(len(history.days) + 1))
        """where the rows of a day begin, [day + 1]"""
        rows = _combinations(observed, len(history.events))
        self.scopes = {scope: self._sums(scope, rows) for scope in dict.fromkeys(scopes)}
        self.seen: BoolArray = np.zeros(len(observed.values), dtype=np.bool_)
        """whether any row up to the origin has a value"""

    def _sums(self, scope: Scope, rows: _Combinations) -> DecayedSums:
        stream = self.observed.stream[rows.first].astype(np.int64)
        streams = len(self.history.streams)
        if scope == "stream":
            return DecayedSums(self.observed, rows, stream, streams)
        size = len(standard_events(scope))
        code = self.history.codes[scope][self.observed.event[rows.first]]
        cell = np.where(code >= 0, stream * size + code, -1)
        return DecayedSums(self.observed, rows, cell, streams * size)

    def advance(self, origin: int) -> None:
        """Take in all days up to an origin, given as a position; it cannot go back."""
        if origin < self.origin:
            raise ArgumentsError("an index of arguments cannot go back in time: make a new one")
        if origin == self.origin:
            return
        days = min(origin, len(self.history.days) - 1)
        rows = slice(self.starts[min(self.origin + 1, days + 1)], self.starts[days + 1])
        weight = self.observed.weight[rows].astype(np.float64)
        day = self.observed.day[rows].astype(np.int64)
        ages = origin - np.arange(days + 1)
        decayed = np.stack([weight * (0.5 ** (ages / life))[day] for life in HALF_LIVES])
        for sums in self.scopes.values():
            sums.decay(origin - self.origin)
            sums.add(rows, day, weight, decayed)
        self.seen[self.observed.value[rows]] = True
        self.origin = origin
