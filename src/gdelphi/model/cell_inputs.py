"""What the cell network is shown of target days, from the stack and the counts before them."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray, IntArray, VectorArray
from gdelphi.stack.fitted import (
    CountForecasters,
    StackAnswers,
)
from gdelphi.stack.usual import by_day

LEAST_VARIANCE: Final = 0.05  # rows squared: of cells where next to nothing is expected
LOWEST, HIGHEST = -3.0, 6.0  # deviations that a surprise is held within
SEASON: Final = "season"  # columns of that name are there for some sets of days only: not shown
OF_ALL: Final = 2.0  # times the mean of all streams: it varies less than one stream


class CellInputs(NamedTuple):
    """Of target days."""

    columns: VectorArray
    """[day, stream, root, column]"""
    surprises: VectorArray
    """of the days before each, yesterday last, [day, stream, day before, 2 roots]"""
    base: FloatArray
    """logits that are added to, [day, stream, root, output]; NaN where undefined"""
    stack: FloatArray
    """those of the stack, the same"""


def cell_inputs(
    counts: CountForecasters,
    days: Sequence[date],
    answers: StackAnswers,
    week: FloatArray | None,
    *,
    before: int,
) -> CellInputs:
    """Of these target days, in their order, with the stack's answers for them, [target, day,
    stream, root], those for the weeks that begin with them, [target, day, horizon, stream, root],
    if there are any, and the surprises of so many days before each."""
    roots = counts.panel.roots
    positions = np.array([(day - roots.days[0]).days for day in days])
    wanted = positions[:, None] - np.arange(before, 0, -1)
    seen = np.unique(np.concatenate([np.maximum(wanted, 1).ravel(), positions]))
    cells, expected = counts.cells_of(seen)
    # The last row is for days before the second: of the first day nothing is expected.
    surprises = np.zeros((len(seen) + 1, len(roots.streams), len(roots.codes)), np.float32)
    known = seen < len(roots.days)  # the day after the last is a target alone
    surprises[:-1][known] = _surprises(counts, seen[known], expected[known])
    shown = [not name.startswith(SEASON) for name in cells.names]
    tables = cells.values[np.searchsorted(seen, positions)][..., shown]
    of_all = OF_ALL * np.broadcast_to(surprises.mean(axis=1, keepdims=True), surprises.shape)
    both = np.concatenate([surprises, of_all], axis=2)
    windows = both[np.where(wanted > 0, np.searchsorted(seen, wanted), -1)]
    simple, intensity, base, stack = (np.moveaxis(logits, 0, -1) for logits in answers)
    shown_logits = [simple, intensity, base]
    if week is not None:
        further = outputs_last(week)[..., len(TARGETS) :]  # tomorrow comes first
        base, stack = (np.concatenate([each, further], axis=3) for each in (base, stack))
        shown_logits.append(further)
    # Single precision from the start: of many days these are hundreds of megabytes.
    columns = np.concatenate([tables, *shown_logits], 3, dtype=np.float32, casting="same_kind")
    return CellInputs(
        np.nan_to_num(columns, copy=False),
        windows.swapaxes(1, 2),
        base,
        stack,
    )


def outputs_last(week: FloatArray) -> FloatArray:
    """[target, day, horizon, stream, root] as [day, stream, root, output]; outputs are the targets
    of tomorrow, then those of the day after, and so on."""
    moved = np.moveaxis(week, (0, 2), (4, 3))
    return np.ascontiguousarray(moved).reshape(*moved.shape[:3], -1)


def by_horizon(outputs: FloatArray) -> FloatArray:
    """[stream, root, output] as [target, horizon, stream, root]."""
    split = outputs.reshape(*outputs.shape[:2], -1, len(TARGETS))
    return np.ascontiguousarray(np.moveaxis(split, (3, 2), (0, 1)))


def _surprises(counts: CountForecasters, days: IntArray, expected: FloatArray) -> FloatArray:
    """Rows beyond the expected ones in standard deviations, both [day, stream, root], on days at
    these positions; none on a day that is missing."""
    roots = counts.panel.roots
    variance = expected + expected**2 / counts.fit.intensity.shapes + LEAST_VARIANCE
    beyond = by_day(roots.counts[:, days]) - expected
    surprises = np.clip(beyond / np.sqrt(variance), LOWEST, HIGHEST)
    return np.where(roots.present[days][:, None, None], surprises, 0.0)
