"""What each part of a regression of the week adds to its logit: for explanations.

The columns are those of `week_lines.py`, gathered under the names that a reader knows. What they
add sums up to the regression's logit.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import AHEAD, TARGETS, FloatArray, History
from gdelphi.stack.linear import INTERCEPT, expit
from gdelphi.stack.logistic import LinearModel
from gdelphi.stack.week import WeekStack
from gdelphi.stack.week_lines import (
    EXPECTING,
    RATE_HALF_LIVES,
    WEEKDAYS,
    day_features,
    within_features,
)

WEEKDAY: Final = "day of the week"
VOLUME: Final = "volume of news"
TOMORROW: Final = "stack, tomorrow"
EXPECTED: Final = "reports expected that day"
EXPECTED_TOMORROW: Final = "reports expected tomorrow"
ANY_DAY: Final = "any of the days, if independent"
PAST_WEEKS: Final = "past weeks, half-life {days:.0f} days"


class LinePart(NamedTuple):
    """A part of a regression's logit."""

    name: str
    probability: float | None
    """of a part that is one"""
    adds: float


def line_parts(
    stack: WeekStack,
    history: History,
    origin: date,
    cell: tuple[int, int],
    target: str,
    horizon: int,
) -> list[LinePart]:
    """Of the regression for a target at a cell (places of stream and root), of day 2 to 7 or, at
    horizon 0, within the week."""
    number = TARGETS.index(target)
    inputs, lines = stack.inputs(history, origin), stack.fit.lines
    if horizon == 0:
        days = lines.logits(inputs, expects=True, tomorrow=inputs.stack)[number][:, :AHEAD]
        columns = within_features(inputs, number, days)[0][cell]
        names = [ANY_DAY, *(PAST_WEEKS.format(days=days) for days in RATE_HALF_LIVES)]
        return _parts(names, columns, lines.within[target], probabilities=len(names))
    members = [member.name for member in stack.counts.fit.simple.members]
    columns = day_features(inputs, number, horizon - 1, expects=True)[0][cell]
    volume = len(columns) - len(members) - WEEKDAYS - EXPECTING
    names = [
        *members, *[WEEKDAY] * WEEKDAYS, *[VOLUME] * volume,
        TOMORROW, EXPECTED, EXPECTED_TOMORROW,
    ]  # fmt: skip
    line = lines.days[target][horizon - 2]
    return _parts(names, columns, line, probabilities=len(members), more=(TOMORROW,))


def _parts(
    names: Sequence[str],
    columns: FloatArray,
    line: LinearModel,
    *,
    probabilities: int,
    more: Sequence[str] = (),
) -> list[LinePart]:
    """Columns of one name together, the largest part first and the intercept last; the first ones,
    and those named in `more`, are logits of probabilities."""
    added: dict[str, float] = {}
    shown: dict[str, float] = {}
    for place, (name, value) in enumerate(zip(names, columns * line.values, strict=True)):
        added[name] = added.get(name, 0.0) + float(value)
        if place < probabilities or name in more:
            shown[name] = float(expit(np.asarray(columns[place])))
    order = sorted(added, key=lambda name: -abs(added[name]))
    parts = [LinePart(name, shown.get(name), added[name]) for name in order]
    return [*parts, LinePart(INTERCEPT, None, float(line.intercept))]
