"""Recency kernels over observed arguments: what the past says of a value, as it stands on a day.

A component is a distribution of values made from past days alone: for each scope (the event itself,
the codes above it, the whole stream) and each half-life h the weights of past rows, halved with
every half-life of age,

    p(value | cell)  =  S(cell, value) / sum_v S(cell, v),
    S(cell, value)   =  sum over its rows up to the origin of  weight * 0.5^((origin - day) / h);

and the day on which the event was last seen. S of the next day is S * 0.5^(1 / h) plus that day's
rows. Sums are kept for all pairs of cell
and value at once and carried on from day to day, so that a backtest reads each row once and a
single origin costs one pass over the rows before it. Not chosen: prefix sums by day (exact for any
window, but a table of days times pairs).

A scope without any past rows takes the distribution of the next wider one with the same half-life,
and at last the uniform one over all values that have been seen in any stream: so every component is
a distribution always, and mixtures of them need no special cases. What no row had up to the origin
is one outcome, "somebody else".
"""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    Level,
)
from gdelphi.forecast.arguments import (
    UNKNOWN_REGION,
    ArgumentHistory,
    ArgumentKind,
    ObservedArguments,
)
from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.profiles import standard_events

Scope = Literal["full", "base", "root", "stream"]

HALF_LIVES: Final = (7.0, 30.0, 90.0, 365.0, np.inf)
"""in days; the last is all days alike"""
EVIDENCE: Final = 2
"""position of the half-life by which it is told how much a cell has to go by"""
SCOPES: Final[dict[Level, tuple[Scope, ...]]] = {
    "root": ("root", "stream"),
    "base": ("base", "root", "stream"),
    "full": ("full", "base", "root", "stream"),
}
"""From the event itself to the widest."""
FORGOTTEN = 1e-280  # weight below which ratios lose their digits: a cell of decades ago is empty
LAST_SEEN: Final = "last seen"
ANYONE: Final = "anyone"
SOMEBODY_ELSE: Final = "somebody else"


def component_names(level: Level) -> tuple[str, ...]:
    """The names of a level's components, in their order."""
    kernels = [f"{scope} {_life(life)}" for scope in SCOPES[level] for life in HALF_LIVES]
    return (*kernels, LAST_SEEN, ANYONE, SOMEBODY_ELSE)


def frequency_component(level: Level) -> str:
    """The component that takes all days alike of the event itself."""
    return f"{SCOPES[level][0]} {_life(HALF_LIVES[-1])}"


def _life(half_life: float) -> str:
    return "always" if np.isinf(half_life) else f"{half_life:g}"


class ArgumentOutcomes(NamedTuple):
    """What a day brought: a row for each cell (stream and event) and value; columns [n]."""

    cell: IntArray
    value: IntArray
    share: FloatArray
    """of the weight of its cell"""
    evidence: FloatArray
    """how much the cell had to go by"""
    components: FloatArray
    """[n, component], the probability that each component gave to the value"""


class Mixture(NamedTuple):
    """A mixture of components over the values of some cells.

    The probability of a value that has been seen is `named + anyone`, that of one that has not 0;
    what is missing to 1 is somebody else's.
    """

    named: FloatArray
    """[cell, value], by the kernels"""
    anyone: FloatArray
    """[cell], for each value that has been seen in any stream"""

    def at(self, cell: int) -> "Mixture":
        """One of the cells."""
        return Mixture(self.named[cell : cell + 1], self.anyone[cell : cell + 1])

    def probability(self, cell: int, value: int) -> float:
        """Of a value that has been seen."""
        return float(self.named[cell, value] + self.anyone[cell])

    def top(self, most: int) -> list[IntArray]:
        """For each cell its likeliest values, as far as the kernels name any; ties by value."""
        size = min(most, self.named.shape[1])
        if size == 0:
            return [np.zeros(0, dtype=np.int64) for _ in self.named]
        # Sorting only what reaches the size-th largest: there are thousands of values, of which a
        # cell names a few.
        bounds = np.partition(self.named, -size, axis=1)[:, -size]
        largest = []
        for row, bound in zip(self.named, bounds, strict=True):
            values = np.flatnonzero((row >= bound) & (row > 0))
            largest.append(values[np.argsort(-row[values], kind="stable")][:most])
        return largest


class _Sums:
    """Decayed weights of the pairs of cell and value of one scope.

    Pairs are sorted by cell, so those of a cell are one stretch, from start[cell] to
    start[cell + 1]. Only pairs that some row of the whole history has exist: far fewer than cells
    times values.
    """

    def __init__(self, observed: ObservedArguments, cell: IntArray, cells: int) -> None:
        """`cell` of each row; rows with -1 take no part."""
        known = np.flatnonzero(cell >= 0)
        size = max(len(observed.values), 1)
        keys, first, places = np.unique(
            cell[known] * size + observed.value[known], return_index=True, return_inverse=True
        )
        self.pair = np.full(len(cell), -1, dtype=np.int64)
        """of each row"""
        self.pair[known] = places
        self.first = known[first]
        """a row of each pair"""
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

    def add(self, rows: slice, weight: FloatArray, *, day: IntArray, until: int) -> None:
        """Rows of days up to `until`, which everything older has been decayed to."""
        known = self.pair[rows] >= 0
        pair, weight, day = self.pair[rows][known], weight[known], day[known]
        cell = self.cell[pair]
        for number, life in enumerate(HALF_LIVES):
            decayed = weight * 0.5 ** ((until - day) / life)
            self.sums[:, number] += np.bincount(pair, decayed, len(self.sums))
            self.totals[:, number] += np.bincount(cell, decayed, len(self.totals))
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


class RecencyIndex:
    """All components of one kind and level, as they stand at an origin that moves on."""

    def __init__(self, history: ArgumentHistory, kind: ArgumentKind, level: Level) -> None:
        self.history, self.kind, self.level = history, kind, level
        self.origin = -1
        observed = history.observed[kind]
        if kind == "region":  # forecast and judged where a region is named
            blank = [at for at, value in enumerate(observed.values) if value == UNKNOWN_REGION]
            observed = observed.select(~np.isin(observed.value, blank))
        self.observed = observed
        self.codes = standard_events(level)
        self._starts = np.searchsorted(observed.day, np.arange(len(history.days) + 1))
        self._scopes = [self._sums(scope) for scope in SCOPES[level]]
        self._finest = self._scopes[0]
        self.seen: BoolArray = np.zeros(len(observed.values), dtype=np.bool_)

    def _sums(self, scope: Scope) -> _Sums:
        stream = self.observed.stream.astype(np.int64)
        streams = len(self.history.streams)
        if scope == "stream":
            return _Sums(self.observed, stream, streams)
        size = len(standard_events(scope))
        code = self.history.codes[scope][self.observed.event]
        return _Sums(self.observed, np.where(code >= 0, stream * size + code, -1), streams * size)

    @cached_property
    def _wider(self) -> list[IntArray]:
        """For each scope the cell that each of the finest cells lies in, [cell]."""
        cells = np.arange(len(self.history.streams) * len(self.codes))
        stream, code = np.divmod(cells, len(self.codes))
        wider = [cells]
        for scope in SCOPES[self.level][1:]:
            if scope == "stream":
                wider.append(stream)
                continue
            place = {code: at for at, code in enumerate(standard_events(scope))}
            events = [event_codes()[code] for code in self.codes]
            parents = [
                event.root if scope == "root" else event.base or event.code for event in events
            ]
            above = np.array([place[parent] for parent in parents], dtype=np.int64)
            wider.append(stream * len(place) + above[code])
        return wider

    @cached_property
    def place(self) -> dict[str, int]:
        """The positions of values."""
        return {value: at for at, value in enumerate(self.observed.values)}

    def cells(self, stream: int) -> IntArray:
        """The numbers of a stream's cells, [code]."""
        return stream * len(self.codes) + np.arange(len(self.codes))

    def code(self, code: str) -> int:
        """The position of a standard event."""
        if code not in self.codes:
            raise ArgumentsError(f"no standard event {code!r} at level {self.level}")
        return self.codes.index(code)

    def advance(self, origin: int) -> None:
        """Take in all days up to an origin, given as a position; it cannot go back."""
        if origin < self.origin:
            raise ArgumentsError("an index of arguments cannot go back in time: make a new one")
        if origin == self.origin:
            return
        days = min(origin, len(self.history.days) - 1)
        rows = slice(self._starts[min(self.origin + 1, days + 1)], self._starts[days + 1])
        weight = self.observed.weight[rows].astype(np.float64)
        day = self.observed.day[rows].astype(np.int64)
        for sums in self._scopes:
            sums.decay(origin - self.origin)
            sums.add(rows, weight, day=day, until=origin)
        self.seen[self.observed.value[rows]] = True
        self.origin = origin

    def evidence(self, cells: IntArray) -> FloatArray:
        """How much weight the recent past of cells has, [cell]."""
        weights: FloatArray = self._finest.totals[cells, EVIDENCE]
        return weights

    def outcomes(self, day: int) -> ArgumentOutcomes:
        """What a day brought, with the components as they stood at the origin."""
        rows = slice(self._starts[day], self._starts[day + 1])
        pair, weight = self._finest.pair[rows], self.observed.weight[rows].astype(np.float64)
        pairs, places = np.unique(pair[pair >= 0], return_inverse=True)
        weights: FloatArray = np.bincount(places, weight[pair >= 0], len(pairs)).astype(np.float64)
        cell, value = self._finest.cell[pairs], self._finest.value[pairs]
        share = weights / np.bincount(cell, weights)[cell] if len(cell) else weights
        components = self._components(self._finest.first[pairs], cell, value)
        return ArgumentOutcomes(cell, value, share, self.evidence(cell), components)

    def _components(self, rows: IntArray, cell: IntArray, value: IntArray) -> FloatArray:
        """The components' probabilities of values in cells, of which a row each is given,
        [row, component]. From the widest scope to the finest, so that one without any past takes
        the distribution of the next wider."""
        seen = self.seen[value]
        uniform = seen / max(int(self.seen.sum()), 1)
        kernels: list[FloatArray] = []
        last = uniform
        wider = np.repeat(uniform[:, None], len(HALF_LIVES), axis=1)
        for sums, cells in zip(reversed(self._scopes), reversed(self._wider), strict=True):
            at, pair = cells[cell], sums.pair[rows]
            known = pair >= 0
            wider = np.where(sums.totals[at] > 0, sums.kernel(pair, at) * known[:, None], wider)
            last = np.where(sums.last_total[at] > 0, sums.last(pair, at) * known, last)
            kernels.insert(0, wider)
        return np.column_stack([*kernels, last, uniform, (~seen).astype(np.float64)])

    def mixture(self, cells: IntArray, shares: FloatArray) -> Mixture:
        """The mixture over all values for some cells; `shares` [cell, component]."""
        count = len(HALF_LIVES)
        named = np.zeros((len(cells), len(self.observed.values)))
        # The same fallback as of components, the other way round: the shares of kernels that have
        # nothing to go by are handed on to the next wider scope, at last to anyone.
        left = np.zeros((len(cells), count + 1))
        left[:, count] = shares[:, -3]  # of what was last seen
        for number, sums in enumerate(self._scopes):
            left[:, :count] += shares[:, number * count : (number + 1) * count]
            left = self._add(named, sums, self._wider[number][cells], left)
        anyone = shares[:, -2] + left.sum(axis=1)
        return Mixture(named, anyone / max(int(self.seen.sum()), 1))

    @staticmethod
    def _add(named: FloatArray, sums: _Sums, cells: IntArray, given: FloatArray) -> FloatArray:
        """Add a scope's part to the mixture, and return the shares that it has no use for: those of
        kernels without any past rows."""
        empty = np.column_stack([sums.totals[cells] <= 0, sums.last_total[cells] <= 0])
        used = np.where(empty, 0.0, given)
        for cell in np.unique(cells).tolist():  # a wide scope is that of many cells
            pairs, rows = sums.known(cell), cells == cell
            kernels = np.column_stack([sums.kernel(pairs, cell), sums.last(pairs, cell)])
            named[np.ix_(rows, sums.value[pairs])] += used[rows] @ kernels.T
        return np.where(empty, given, 0.0)


def outcomes_by_day(
    index: RecencyIndex, days: Sequence[date]
) -> Iterator[tuple[date, ArgumentOutcomes]]:
    """Target days in their order with what they brought, each seen from the day before."""
    for day in sorted(set(days)):
        at = index.history.day(day)
        if 0 < at < len(index.history.days):
            index.advance(at - 1)
            outcomes = index.outcomes(at)
            if len(outcomes.cell):
                yield day, outcomes
