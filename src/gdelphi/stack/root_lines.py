"""Per-root logistic regression on the table of cells, added to a given logit.

    logit = start + x . (shared + own_r) + a + a_r

The line of a root is held to the one that all roots share, which is held to the start: where there
is little to learn from, the answer stays at the start. Columns are standardised and held within a
few deviations, so that one strange day cannot carry a forecast away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.stack.logistic import minimise_log_loss

SHARED_RIDGE: Final = 300.0
OWN_RIDGE: Final = 3000.0
FURTHEST: Final = 6.0  # deviations
TOLERANCE: Final = 1e-8  # of the mean log loss
AT_ONCE: Final = 65_536  # rows: bounds the memory

CellRows = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RootLines:
    """Lines of one target."""

    mean: FloatArray
    """[column]"""
    deviation: FloatArray
    """[column]"""
    values: FloatArray
    """[root, column + 2]: of the standardised columns, of the start, and what is added"""

    def added(self, table: CellRows, start: FloatArray, root: IntArray) -> FloatArray:
        """What the lines add to the start of each row, [row]."""
        total = np.zeros(len(table))
        for begin in range(0, len(table), AT_ONCE):
            rows = slice(begin, begin + AT_ONCE)
            design = _design(table[rows], self.mean, self.deviation, start[rows])
            # Row by row: the result for one must not depend on how many others there are.
            total[rows] = (design * self.values[root[rows]]).sum(axis=1)
        return total


def fit_root_lines(
    table: CellRows, outcome: FloatArray, start: FloatArray, root: IntArray, *, roots: int
) -> RootLines:
    """Lines fitted on rows of a table, of which outcome, start and root are known."""
    columns = table.shape[1]
    values = np.zeros((roots, columns + 2))
    if len(np.unique(outcome)) < 2:  # nothing to learn, or no row at all
        return RootLines(np.zeros(columns), np.ones(columns), values)
    mean = table.mean(axis=0, dtype=np.float64)
    squares = np.zeros(columns)
    for begin in range(0, len(table), AT_ONCE):
        squares += ((table[begin : begin + AT_ONCE] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / len(table))
    deviation = np.where(deviation > 1e-6, deviation, 1.0)

    def parts() -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        for begin in range(0, len(table), AT_ONCE):
            rows = slice(begin, begin + AT_ONCE)
            design = _design(table[rows], mean, deviation, start[rows])
            yield design, outcome[rows], start[rows]

    pull = np.append(np.full(columns + 1, SHARED_RIDGE), 0.0)
    shared = minimise_log_loss(parts, pull, np.zeros(columns + 2), tolerance=TOLERANCE)
    pull = np.append(np.full(columns + 1, OWN_RIDGE), OWN_RIDGE / 100)
    for number in range(roots):
        own = root == number
        values[number] = shared
        if own.any():
            design = _design(table[own], mean, deviation, start[own])
            part = [(design, outcome[own], start[own] + design @ shared)]
            values[number] += minimise_log_loss(
                part.copy, pull, np.zeros(columns + 2), tolerance=TOLERANCE
            )
    return RootLines(mean, deviation, values)


def _design(
    table: CellRows, mean: FloatArray, deviation: FloatArray, start: FloatArray
) -> FloatArray:
    scaled = np.clip((table - mean) / deviation, -FURTHEST, FURTHEST)
    return np.column_stack([scaled, start, np.ones(len(table))])
