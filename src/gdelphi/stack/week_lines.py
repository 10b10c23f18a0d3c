"""Regressions for the week ahead, over what is known at its origin without a network.

For each of days 2 to 7 after an origin, and each target, one logistic regression over

    the stack's logit for tomorrow, the logits of the baselines at the origin, volumes,
    a score of the expected rows of that day, and of tomorrow, the weekday of that day;

*within the week* is one over

    logit(1 - prod(1 - p_h)) of the seven days, and how often it came true in past weeks,
    by exponential means of two half-lives.

A few coefficients for each horizon, shared by all streams and roots. Trees and lines for each root,
which earn their place for tomorrow, do not beyond it (docs/LOG.md). Whether conflict escalates is a
regression on expected rows against those of the last weeks. The *simple stack* of a horizon, which
the week is measured against, is the same regression over baselines, volumes and weekday alone.

A score is a number from expected rows alone that rises with the chance of a target: the logit of
*occurs* by the negative binomial; for a headline the log of the root's expected weight over that of
the fifth largest; for a surge the log of its expected share over the threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import AHEAD, TARGETS, BoolArray, FloatArray, History, IntArray
from gdelphi.measures.targets import HEADLINES, headline_of, occurs_of, shares_of
from gdelphi.stack.count_targets import zero_mass
from gdelphi.stack.linear import expit, logit
from gdelphi.stack.logistic import LinearModel
from gdelphi.stack.usual import place_of

HORIZONS: Final = AHEAD + 1  # the seven days, and the week
WITHIN: Final = AHEAD  # place of the week behind its days
RATE_HALF_LIVES: Final = (30.0, 365.0)  # days, of how often past weeks had it
RATE_DAYS: Final = 1000  # that are looked back on for it
RATE_PRIOR: Final = 2.0  # weeks that the rate over all streams counts for
LITTLE: Final = 1e-4
WEEKDAYS: Final = 7
EXPECTING: Final = 3  # last columns of a day's regression: stack for tomorrow, scores of both days


# --- past weeks -----------------------------------------------------------------------------------


class PastWeeks:
    """What happened within the weeks of a history, by their last day. Weeks with a missing day do
    not count."""

    def __init__(self, history: History) -> None:
        weights = np.moveaxis(history.weights, 0, 1)
        self.complete: BoolArray = ~_largest_of_week(~history.present)
        self.complete[: AHEAD - 1] = False
        self.occurs: BoolArray = _largest_of_week(occurs_of(np.moveaxis(history.counts, 0, 1)))
        self.headline: BoolArray = _largest_of_week(headline_of(weights))
        self.share: FloatArray = _largest_of_week(shares_of(weights))
        """the largest within the week, [day, stream, root]"""

    def rates(self, origin: int, threshold: FloatArray) -> FloatArray:
        """How often each target came true within the weeks up to an origin at a position, by
        exponential means, as logits [half-life, target, stream, root]. Surges are those above the
        threshold of the origin [stream, root], NaN where there is none."""
        ends = np.arange(max(origin + 1 - RATE_DAYS, 0), origin + 1)
        ends = ends[self.complete[ends]]
        happened = np.stack(
            [self.occurs[ends], self.headline[ends], self.share[ends] > threshold]
        ).astype(np.float32)
        cells = len(ends) * happened.shape[2]
        pooled = (happened.sum(axis=(1, 2), dtype=np.float64) + 0.5) / (cells + 1)  # [target, root]
        prior = RATE_PRIOR * pooled[:, None]
        rates = []
        for half_life in RATE_HALF_LIVES:
            weights = np.exp2((ends - origin) / half_life)
            hits = np.einsum("d,tdsr->tsr", weights.astype(np.float32), happened)
            rates.append((hits + prior) / (weights.sum() + RATE_PRIOR))
        logits = logit(np.stack(rates))
        logits[:, TARGETS.index("surge"), np.isnan(threshold)] = np.nan
        return logits


def _largest_of_week(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The largest of the values [day, ...] of each day and the six before it, as far as there
    are any."""
    largest = values.copy()
    for before in range(1, AHEAD):
        largest[before:] = np.maximum(largest[before:], values[:-before])
    return largest


# --- what the regressions are shown ---------------------------------------------------------------


class OriginInputs(NamedTuple):
    """What is known at origins: the origin is the second axis of the first four, else the first."""

    stack: FloatArray
    """the stack's logits for tomorrow, [target, origin, stream, root]"""
    members: FloatArray
    """those of the baselines, [target, origin, stream, root, member]"""
    rates: FloatArray
    """logits, [target, origin, stream, root, half-life]"""
    scores: FloatArray
    """[target, origin, day, stream, root]"""
    weekdays: IntArray
    """of the days after the origin, Monday 0, [origin, day]"""
    volume: FloatArray
    """as the simple stack is shown it, [origin, stream, column]"""
    conflict: "ConflictInputs"


class ConflictInputs(NamedTuple):
    """Rows of material conflict of a stream, each [origin, stream]."""

    base: FloatArray
    """in a mean week of the last four; NaN where escalation is not asked about"""
    last_week: FloatArray
    expected: FloatArray
    """within the coming week"""


def week_scores(
    expected: FloatArray, shapes: FloatArray, row_weight: FloatArray, thresholds: FloatArray
) -> FloatArray:
    """Scores of the targets, [target, origin, day, stream, root], from expected rows [origin, day,
    stream, root], shapes [stream, root], the mean weight of a row [root] and thresholds of surges
    [origin, stream, root]."""
    weights = expected * row_weight + LITTLE
    size = weights.shape[-1]
    # The border of the headlines: between the fifth and the sixth largest.
    ranked = np.sort(weights, axis=-1)
    border = ranked[..., max(size - HEADLINES - 1, 0) : size - HEADLINES + 1].mean(
        axis=-1, keepdims=True
    )
    shares = weights / weights.sum(axis=-1, keepdims=True)
    return np.stack(
        [
            logit(1 - zero_mass(expected, shapes)),
            np.log(weights) - np.log(border),
            np.log(shares + LITTLE) - np.log(thresholds + LITTLE)[:, None],
        ]
    )


def day_features(inputs: OriginInputs, target: int, day: int, *, expects: bool) -> FloatArray:
    """The columns of the regression for a target on a day at a place from 0 (tomorrow) on, [origin,
    stream, root, column]; without `expects` those of the simple one."""
    weekday = np.eye(WEEKDAYS)[inputs.weekdays[:, day]][:, None, None]
    shown = inputs.members[target]
    volume = inputs.volume[:, :, None]
    columns = [
        shown,
        np.broadcast_to(weekday, (*shown.shape[:3], WEEKDAYS)),
        np.broadcast_to(volume, (*shown.shape[:3], volume.shape[3])),
    ]
    if expects:
        scores = inputs.scores[target]
        columns += [
            each[..., None] for each in (inputs.stack[target], scores[:, day], scores[:, 0])
        ]
    return np.concatenate(columns, axis=3)


def within_features(inputs: OriginInputs, target: int, days: FloatArray) -> FloatArray:
    """The columns for the week, from the logits of its days [origin, day, stream, root]."""
    any_day = logit(1 - np.prod(1 - expit(days), axis=1))
    return np.concatenate([any_day[..., None], inputs.rates[target]], axis=3)


def escalation_features(inputs: ConflictInputs, *, expects: bool) -> FloatArray:
    """[origin, stream, column]"""
    base = np.log(inputs.base + LITTLE)
    columns = [base, np.log1p(inputs.last_week) - base]
    if expects:
        columns.append(np.log(inputs.expected + LITTLE) - base)
    return np.stack(columns, axis=2)


# --- what was fitted ------------------------------------------------------------------------------


class WeekLines(NamedTuple):
    """Regressions of the week."""

    days: Mapping[str, Sequence[LinearModel]]
    """target -> those of days 2 to 7"""
    within: Mapping[str, LinearModel]
    escalation: LinearModel

    def logits(self, inputs: OriginInputs, *, expects: bool, tomorrow: FloatArray) -> FloatArray:
        """[target, origin, horizon, stream, root], with the given logits for tomorrow, [target,
        origin, stream, root]."""
        found = []
        for number, target in enumerate(TARGETS):
            days = [tomorrow[number]]
            for day, line in enumerate(self.days[target], start=1):
                days.append(_applied(line, day_features(inputs, number, day, expects=expects)))
            stacked = np.stack(days, axis=1)
            week = _applied(self.within[target], within_features(inputs, number, stacked))
            found.append(np.concatenate([stacked, week[:, None]], axis=1))
        return np.stack(found)

    def escalations(self, inputs: ConflictInputs, *, expects: bool) -> FloatArray:
        """Probabilities, [origin, stream]; NaN where not asked about."""
        said = expit(_applied(self.escalation, escalation_features(inputs, expects=expects)))
        return np.where(np.isnan(inputs.base), np.nan, said)


def _applied(line: LinearModel, columns: FloatArray) -> FloatArray:
    # Cell by cell: the result for one must not depend on how many others there are.
    logits: FloatArray = (columns * line.values).sum(axis=-1) + line.intercept
    return logits


@dataclass(frozen=True, eq=False)
class WeekFit:
    """What was fitted of the week, on the days of fitting of its stack."""

    lines: WeekLines
    simple: WeekLines
    """without expected rows and the stack"""
    days: IntArray
    """ordinals of the days after the origins of fitting, increasing"""
    logits: npt.NDArray[np.float16]
    """of the week's answers at these, from parts that did not see them, [target, origin, horizon,
    stream, root]"""

    def at(self, origin: date) -> FloatArray | None:
        """[target, horizon, stream, root] at an origin of fitting; None if it is none."""
        place = place_of(origin + timedelta(days=1), self.days)
        return None if place is None else self.logits[:, place].astype(np.float64)
