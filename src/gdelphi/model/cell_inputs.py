"""What the cell network is shown of target days, from the stack and the counts before them."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray, VectorArray
from gdelphi.stack.fitted import (
    CountForecasters,
    StackAnswers,
)

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
    surprises = np.zeros((len(roots.days), len(roots.streams), len(roots.codes)), np.float32)
    tables: list[VectorArray] = []
    # One pass from the first day to the last: tables and expected rows are made in blocks of days.
    of_targets = set(positions.tolist())
    for position in sorted({*np.maximum(wanted, 1).ravel().tolist(), *of_targets}):
        if position < len(roots.days):
            surprises[position] = _surprises(counts, position)
        if position in of_targets:
            table = counts.table(days[len(tables)])
            shown = [not name.startswith(SEASON) for name in table.names]
            tables.append(table.values[..., shown])
    of_all = OF_ALL * np.broadcast_to(surprises.mean(axis=1, keepdims=True), surprises.shape)
    both = np.concatenate([surprises, of_all], axis=2)
    windows = both[np.maximum(wanted, 0)]  # of the first day nothing is expected, nor before it
    simple, intensity, base, stack = (np.moveaxis(logits, 0, -1) for logits in answers)
    shown_logits = [simple, intensity, base]
    if week is not None:
        further = outputs_last(week)[..., len(TARGETS) :]  # tomorrow comes first
        base, stack = (np.concatenate([each, further], axis=3) for each in (base, stack))
        shown_logits.append(further)
    columns = np.concatenate([np.concatenate(tables), *shown_logits], axis=3)
    return CellInputs(
        np.nan_to_num(columns.astype(np.float32)),
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


def _surprises(counts: CountForecasters, position: int) -> FloatArray:
    """Rows beyond the expected ones in standard deviations, [stream, root]; none on a day that is
    missing."""
    roots = counts.panel.roots
    expected = counts.expected_rows(roots.days[position])
    if not roots.present[position]:
        return np.zeros_like(expected)
    variance = expected + expected**2 / counts.fit.intensity.shapes + LEAST_VARIANCE
    surprises: FloatArray = (roots.counts[:, position] - expected) / np.sqrt(variance)
    return np.clip(surprises, LOWEST, HIGHEST)
