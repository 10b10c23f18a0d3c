"""Fitting the week: regressions over answers out of fold, for each horizon and target.

The stack's answers for the days of fitting come from fits that did not see them, and so do the
expected rows, each week by the intensity of its fold. A regression has some twenty coefficients for
tens of thousands of cells: it needs no folds of its own. No outcome after the last day of fitting
is looked at.

Where expected rows mislead, as in a single stream whose level shifts, they would do harm for a week
where trees and lines mend tomorrow. So for each target and day they are let in only if the
regression with them, fitted on the training days, is better on validation A and B by two standard
errors.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.threads import at_once
from gdelphi.common.types import AHEAD, TARGETS, BoolArray, FloatArray
from gdelphi.measures.week_targets import WeekOutcomes, week_outcomes
from gdelphi.stack.fitted import STACK, CountForecasters, StackFit
from gdelphi.stack.linear import SIMPLE
from gdelphi.stack.logistic import LinearModel, regress_around
from gdelphi.stack.week import origin_inputs
from gdelphi.stack.week_lines import (
    EXPECTING,
    OriginInputs,
    PastWeeks,
    WeekFit,
    WeekLines,
    day_features,
    escalation_features,
    within_features,
)

RIDGE: Final = 1.0
TRAIN_FOLDS: Final = 2  # the first ones; validation A and B follow
ERRORS: Final = 2.0  # standard errors by which expected rows must be of use
MOST_CELLS: Final = 300_000  # that a regression learns from
SEED: Final = 0


def fit_week(counts: CountForecasters, expected: FloatArray, members: FloatArray) -> WeekFit:
    """From a fitted stack, the rows that are expected of the weeks that begin with its days of
    fitting, [day, day of the week, stream, root], and the logits of the baselines for these days,
    [target, day, stream, root, member]."""
    fit: StackFit = counts.fit
    known = fit.out_of_fold
    origins = [date.fromordinal(int(day)) - timedelta(days=1) for day in known.days]
    roots = counts.panel.roots
    stack, simple = (known.logits[name].astype(np.float64) for name in (STACK, SIMPLE))
    inputs = origin_inputs(counts, PastWeeks(roots), origins, stack, members, expected)
    seen = roots.until(date.fromordinal(int(known.days[-1])))
    came = [week_outcomes(seen, origin) for origin in origins]
    early = known.folds < TRAIN_FOLDS
    kinds = [(stack, True), (simple, False)]
    jobs = [
        partial(_fit_target, inputs, came, tomorrow[number], early, number=number, expects=expects)
        for tomorrow, expects in kinds
        for number in range(len(TARGETS))
    ]
    found = iter(at_once(jobs))
    lines, plain = (
        WeekLines(
            *_by_target([next(found) for _ in TARGETS]),
            _escalation(inputs, came, early, expects=expects),
        )
        for _, expects in kinds
    )
    logits = lines.logits(inputs, expects=True, tomorrow=stack)
    return WeekFit(lines, plain, known.days, logits.astype(np.float16))


class _TargetLines(NamedTuple):
    """Regressions of one target."""

    days: list[LinearModel]
    within: LinearModel


def _fit_target(
    inputs: OriginInputs,
    came: Sequence[WeekOutcomes],
    tomorrow: FloatArray,
    early: BoolArray,
    *,
    number: int,
    expects: bool,
) -> _TargetLines:
    """Those of the target of this number, from the logits for tomorrow, [origin, stream, root];
    with expected rows where they are of use; `early` are the origins of training days."""
    said, days = [tomorrow], []
    for day in range(1, AHEAD):
        columns = day_features(inputs, number, day, expects=expects)
        outcome = np.stack([each.daily[number, day] for each in came])
        line = _regress_with(columns, outcome, early, more=EXPECTING if expects else 0)
        days.append(line)
        said.append(columns @ line.values + line.intercept)
    columns = within_features(inputs, number, np.stack(said, axis=1))
    return _TargetLines(days, _regress(columns, np.stack([each.within[number] for each in came])))


def _by_target(
    lines: Sequence[_TargetLines],
) -> tuple[dict[str, list[LinearModel]], dict[str, LinearModel]]:
    named = dict(zip(TARGETS, lines, strict=True))
    return {name: each.days for name, each in named.items()}, {
        name: each.within for name, each in named.items()
    }


def _escalation(
    inputs: OriginInputs, came: Sequence[WeekOutcomes], early: BoolArray, *, expects: bool
) -> LinearModel:
    escalated = np.stack([each.escalation for each in came])
    columns = escalation_features(inputs.conflict, expects=expects)
    return _regress_with(columns, escalated, early, more=int(expects))


def _regress_with(
    columns: FloatArray, outcome: FloatArray, early: BoolArray, *, more: int
) -> LinearModel:
    """A regression over columns [origin, ..., column], the last few of which count only if they
    are of use on the origins that are not early."""
    whole = _regress(columns, outcome)
    if not more or early.all() or not early.any():
        return whole
    plain = columns[..., :-more]
    of_days = [
        _daily_loss(_regress(some[early], outcome[early]), some[~early], outcome[~early])
        for some in (columns, plain)
    ]
    gains = of_days[1] - of_days[0]
    gains = gains[~np.isnan(gains)]
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    if len(gains) and gains.mean() > ERRORS * error:
        return whole
    line = _regress(plain, outcome)
    return LinearModel(np.append(line.values, np.zeros(more)), line.intercept)


def _daily_loss(line: LinearModel, columns: FloatArray, outcome: FloatArray) -> FloatArray:
    """Mean log loss of each origin over the cells that are known; NaN without any."""
    logits = columns @ line.values + line.intercept
    known = ~(np.isnan(logits) | np.isnan(outcome))
    logits, came = np.where(known, logits, 0.0), np.where(known, outcome, 0.0)
    losses = np.where(known, np.logaddexp(0.0, logits) - came * logits, 0.0)
    cells = tuple(range(1, losses.ndim))
    total, number = losses.sum(axis=cells), known.sum(axis=cells)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _regress(columns: FloatArray, outcome: FloatArray) -> LinearModel:
    """On the cells that are known, or some of them drawn evenly."""
    matrix, flat = columns.reshape(-1, columns.shape[-1]), outcome.ravel()
    known = np.flatnonzero(~(np.isnan(flat) | np.isnan(matrix).any(axis=1)))
    if len(known) > MOST_CELLS:
        known = np.random.default_rng(SEED).permutation(known)[:MOST_CELLS]
    start = LinearModel(np.zeros(matrix.shape[1]), 0.0)
    return regress_around(matrix[known], flat[known], start, ridge=RIDGE)
