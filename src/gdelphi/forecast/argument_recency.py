"""Recency kernels over observed arguments: what the past says of a value, as it stands on a day.

A component is a distribution of values made from past days alone: for each scope (the event itself,
the codes above it, the whole stream) and each half-life h the weights of past rows, halved with
every half-life of age,

    p(value | cell)  =  S(cell, value) / sum_v S(cell, v),
    S(cell, value)   =  sum over its rows up to the origin of  weight * 0.5^((origin - day) / h);

and the day on which the event was last seen. The sums S are those of `argument_sums.py`; the levels
of a kind share them.

A scope without any past rows takes the distribution of the next wider one with the same half-life,
and at last the uniform one over all values that have been seen in any stream: so every component is
a distribution always, and mixtures of them need no special cases. What no row had up to the origin
is one outcome, "somebody else".
"""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    Level,
)
from gdelphi.forecast.argument_sums import HALF_LIVES, DecayedSums, KindSums, Scope
from gdelphi.forecast.arguments import ArgumentHistory, ArgumentKind
from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.profiles import standard_events

EVIDENCE: Final = 2
"""position of the half-life by which it is told how much a cell has to go by"""
SCOPES: Final[dict[Level, tuple[Scope, ...]]] = {
    "root": ("root", "stream"),
    "base": ("base", "root", "stream"),
    "full": ("full", "base", "root", "stream"),
}
"""From the event itself to the widest."""
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


class RecencyIndex:
    """All components of one kind and level, as they stand at an origin that moves on."""

    def __init__(
        self,
        history: ArgumentHistory,
        kind: ArgumentKind,
        level: Level,
        sums: KindSums | None = None,
    ) -> None:
        """`sums` are those of the kind, which indexes of other levels may share: whichever moves
        on takes the others with it."""
        self.history, self.kind, self.level = history, kind, level
        self._shared = sums or KindSums(history, kind, SCOPES[level])
        self.observed, self.seen = self._shared.observed, self._shared.seen
        self.codes = standard_events(level)
        self._scopes = [self._shared.scopes[scope] for scope in SCOPES[level]]
        self._finest = self._scopes[0]

    @property
    def origin(self) -> int:
        """Position of the last day that has been taken in; -1: none."""
        return self._shared.origin

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
        self._shared.advance(origin)

    def evidence(self, cells: IntArray) -> FloatArray:
        """How much weight the recent past of cells has, [cell]."""
        weights: FloatArray = self._finest.totals[cells, EVIDENCE]
        return weights

    def outcomes(self, day: int) -> ArgumentOutcomes:
        """What a day brought, with the components as they stood at the origin."""
        rows = slice(*self._shared.starts[day : day + 2])
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
            at, pair = cells[cell], sums.pair[rows].astype(np.int64)
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
    def _add(
        named: FloatArray, sums: DecayedSums, cells: IntArray, given: FloatArray
    ) -> FloatArray:
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
