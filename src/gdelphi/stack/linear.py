"""The pooled logistic stack: one logistic regression per target over its members' probabilities.

Features of a cell: the logit of every member's probability, the weekday of the target day, the last
day's volume against the stream's usual one, and how large the stream is. Pooled over all streams
and codes: a regression for each cell would have a few hundred days to learn from and lose more by
noise than it gains by fit. Features are standardised for fitting, so that one mild ridge suits all
of them; the coefficients are kept in the features' own units, where those of the members can be
read as weights.

A stack is fitted on forecasts that were made at each origin with the days up to it, and does not
change after. A target that cannot be fitted (never defined, or always the same outcome) is the mean
of the members' logits. Shares are not regressed: their samples are those of the recency bootstrap.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    Forecaster,
    History,
    make_forecast,
)
from gdelphi.measures.past import past_of
from gdelphi.measures.targets import outcomes
from gdelphi.stack.baselines import RecencyBootstrap, all_baselines
from gdelphi.stack.logistic import LinearModel, regress_around

LOGIT_LIMIT = 1e-6  # members' probabilities are held this far from 0 and 1
VOLUME_DAYS = 30  # present days that a stream's usual volume is taken from
RIDGE = 1.0  # beside many thousand cells, a mild pull
NEGATIVE_SLACK = 1e-3  # of a member's weight that counts as none
LEVEL_RIDGE = 1e6  # levels drift: that of earlier days is worse than none
INTERCEPT = "intercept"
SIMPLE = "simple stack"
"""what the stack of baselines is called beside a stack of more"""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

Coefficients = Mapping[str, Mapping[str, float]]
"""target -> feature -> value, in the features' own units"""


Answers = Mapping[str, Sequence[Forecast]]
"""forecaster -> its forecasts, one for each stream"""


@runtime_checkable
class Combination(Protocol):
    """A forecaster whose forecasts are a function of those of others."""

    @property
    def name(self) -> str: ...
    @property
    def members(self) -> Sequence[Forecaster]: ...
    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]: ...
    def combine(self, history: History, answers: Answers) -> list[Forecast]:
        """Its forecasts, from those of its members."""


def ask(
    forecasters: Sequence[Forecaster], history: History, origin: date, horizon: int = 1
) -> dict[str, list[Forecast]]:
    """The forecasts at an origin of forecasters, and of the members of those that are combinations.

    Each is asked once, however many combinations it is a member of; a combination is computed from
    the answers. Forecasters of one name are one forecaster.
    """
    answers: dict[str, list[Forecast]] = {}

    def add(forecaster: Forecaster) -> None:
        if forecaster.name in answers:
            return
        if isinstance(forecaster, Combination):
            for member in forecaster.members:
                add(member)
            answers[forecaster.name] = forecaster.combine(history, answers)
        else:
            answers[forecaster.name] = forecaster.forecast(history, origin, horizon)

    for forecaster in forecasters:
        add(forecaster)
    return answers


class StackExample(NamedTuple):
    """A day that a stack learns from: its members' answers about it, and the outcomes."""

    day: date
    features: Mapping[str, FloatArray]
    """target -> the regression's rows, [stream * code, feature]"""
    outcomes: Mapping[str, FloatArray]
    """target -> [stream, code]; NaN where undefined"""


@dataclass(frozen=True, eq=False)
class Stack:
    """The combination of its members. `fit` returns the fitted stack."""

    members: Sequence[Forecaster]
    fitted: Coefficients | None = None
    name: str = "stack"
    plain: bool = False
    """the members' logits are its only features, and its level is held; for members that know of
    weekdays and volumes already"""

    def features(self) -> tuple[str, ...]:
        """Names of the features, in the order of the regression's columns."""
        members = tuple(f"logit {member.name}" for member in self.members)
        if self.plain:
            return members
        weekdays = (f"weekday {name}" for name in WEEKDAYS)
        return (*members, *weekdays, "log relative volume", "log usual volume")

    # Fitting.

    def fit(self, history: History, days: Iterable[date], horizon: int = 1) -> "Stack":
        """The stack fitted on forecasts for these target days, less those that are not present."""
        return self.fit_examples(self.examples(history, days, horizon))

    def examples(
        self, history: History, days: Iterable[date], horizon: int = 1
    ) -> list["StackExample"]:
        """An example of each of these target days that is present."""
        found = (self.example(history, day, horizon) for day in days)
        return [example for example in found if example is not None]

    def example(self, history: History, day: date, horizon: int = 1) -> "StackExample | None":
        """The example of a target day; None if it is not present."""
        outcome = outcomes(history, day - timedelta(days=horizon), horizon)
        if np.isnan(outcome["occurs"]).all():
            return None
        return self.example_at(history, day, horizon)

    def example_at(self, history: History, day: date, horizon: int = 1) -> "StackExample":
        """The same of a day whose outcomes may not be known yet."""
        origin = day - timedelta(days=horizon)
        answers = ask(self.members, history, origin, horizon)
        outcome = outcomes(history, origin, horizon)
        return StackExample(day, self._matrices(history, answers), outcome)

    def fit_examples(
        self, examples: Sequence["StackExample"], like: Coefficients | None = None
    ) -> "Stack":
        """The stack fitted on examples of its members; quicker with coefficients like its own."""
        if not examples:
            raise ForecastError(f"{self.name}: none of the days to fit on is present")
        fitted = {}
        for target in TARGETS:
            guess = self._linear_model(like[target]) if like else None
            matrix, answer = _known_cells(examples, target)
            if len(np.unique(answer)) < 2:  # nothing to learn: the mean of the members' logits
                values = np.zeros(len(self.features()))
                values[: len(self.members)] = 1 / len(self.members)
                fitted[target] = self._named(values, 0.0)
            else:
                nothing = LinearModel(np.zeros(matrix.shape[1]), 0.0)
                line = regress_around(matrix, answer, nothing, ridge=RIDGE, guess=guess)
                fitted[target] = self._named(*line)
        return replace(self, fitted=fitted)

    def fit_around(
        self,
        examples: Sequence["StackExample"],
        start: Coefficients,
        ridges: Mapping[str, float | None],
    ) -> "Stack":
        """The stack of the targets that a ridge is given for, fitted on examples and held to the
        coefficients of the start, without a ridge entirely; those not named there are 0.

        No member has a negative weight, unless the start gives it one at least as negative: of
        members that say nearly the same one would count against the other.
        """
        fitted = {}
        for target, ridge in ridges.items():
            line = self._linear_model(start[target])
            if ridge is not None:
                line = self._fit_held(*_known_cells(examples, target), line, ridge)
            fitted[target] = self._named(*line)
        return replace(self, fitted=fitted)

    def _fit_held(
        self, matrix: FloatArray, answer: FloatArray, start: LinearModel, ridge: float
    ) -> LinearModel:
        """A regression around a start; members that would count against themselves are left out
        one after the other, the most negative first."""
        level_ridge = LEVEL_RIDGE if self.plain else 0.0
        kept = np.arange(matrix.shape[1])
        while True:
            line = regress_around(
                matrix[:, kept], answer, LinearModel(start.values[kept], start.intercept),
                ridge=ridge, level_ridge=level_ridge,
            )  # fmt: skip
            values = np.zeros(matrix.shape[1])
            values[kept] = line.values
            allowed = np.minimum(start.values, 0.0) - NEGATIVE_SLACK
            against = np.where(np.arange(len(values)) < len(self.members), values - allowed, 0.0)
            if against.min() >= 0:
                return LinearModel(values, line.intercept)
            kept = kept[kept != int(np.argmin(against))]

    # Forecasting.

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        return self.combine(history, ask(self.members, history, origin, horizon))

    def combine(self, history: History, answers: Answers) -> list[Forecast]:
        """The same from the answers of its members."""
        fitted = self.coefficients()
        matrices = self._matrices(history, answers)
        shape = (len(history.streams), len(history.codes))
        occurs, headline, surge = (
            self._apply(fitted[target], matrices[target]).reshape(shape) for target in TARGETS
        )
        return [
            make_forecast(
                Forecast(
                    self.name, stream, drawn.origin, drawn.horizon, history.codes, occurs[number],
                    headline[number], surge[number], drawn.share_samples, drawn.share_weights,
                )
            )
            for number, (stream, drawn) in enumerate(
                zip(history.streams, self._recency(history, answers), strict=True)
            )
        ]  # fmt: skip

    def answer(self, example: "StackExample", target: str) -> FloatArray:
        """Probabilities of the fitted stack on an example's day, [stream * code]."""
        return self._apply(self.coefficients()[target], example.features[target])

    def contributions(self, history: History, answers: Answers) -> dict[str, FloatArray]:
        """What each feature adds to the logit of each cell, target -> [stream, code, feature]; the
        intercept is the rest."""
        fitted = self.coefficients()
        matrices = self._matrices(history, answers)
        shape = (len(history.streams), len(history.codes), -1)
        values = {
            target: np.array([fitted[target][name] for name in self.features()])
            for target in TARGETS
        }
        return {target: (matrices[target] * values[target]).reshape(shape) for target in TARGETS}

    # Coefficients.

    def coefficients(self) -> dict[str, dict[str, float]]:
        """What was fitted: target -> feature -> value, the intercept among them."""
        if self.fitted is None:
            raise ForecastError(f"{self.name} is not fitted: use the stack that fit() returns")
        return {target: dict(values) for target, values in self.fitted.items()}

    def save(self, path: Path) -> None:
        """Write the coefficients as JSON."""
        content = {
            "name": self.name,
            "members": [member.name for member in self.members],
            "coefficients": self.coefficients(),
        }
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path, members: Sequence[Forecaster]) -> "Stack":
        """A saved stack over the same members, given anew in the same order."""
        content = json.loads(path.read_text(encoding="utf-8"))
        names = [member.name for member in members]
        if content["members"] != names:
            raise ForecastError(f"{path} combines {content['members']}, not {names}")
        stack = cls(members, content["coefficients"], content["name"])
        wanted = {INTERCEPT, *stack.features()}
        for target in TARGETS:
            if set(content["coefficients"].get(target, ())) != wanted:
                raise ForecastError(f"{path} has other features for {target}: fit it again")
        return stack

    def _recency(self, history: History, answers: Answers) -> Sequence[Forecast]:
        """The recency bootstrap's forecasts, whose shares the stack hands on; it is asked if it is
        no member."""
        for member in self.members:
            if isinstance(member, RecencyBootstrap):
                return answers[member.name]
        first = answers[self.members[0].name][0]
        return RecencyBootstrap().forecast(history, first.origin, first.horizon)

    def _matrices(self, history: History, answers: Answers) -> dict[str, FloatArray]:
        """The regression's rows for each target, [stream * code, feature]."""
        first = answers[self.members[0].name][0]
        volume = np.repeat(volume_features(history, first.origin), len(history.codes), axis=0)
        weekday = np.zeros((len(volume), len(WEEKDAYS)))
        weekday[:, first.target_day.weekday()] = 1.0
        matrices = {}
        for target in TARGETS:
            logits = [
                logit(np.concatenate([one.probability(target) for one in answers[member.name]]))
                for member in self.members
            ]
            columns = logits if self.plain else [*logits, weekday, volume]
            matrices[target] = np.column_stack(columns)
        return matrices

    def _linear_model(self, coefficients: Mapping[str, float]) -> LinearModel:
        values = np.array([coefficients.get(name, 0.0) for name in self.features()])
        return LinearModel(values, coefficients[INTERCEPT])

    def _named(self, values: FloatArray, intercept: float) -> dict[str, float]:
        named = dict(zip(self.features(), values.tolist(), strict=True))
        return {INTERCEPT: intercept, **named}

    def _apply(self, fitted: Mapping[str, float], matrix: FloatArray) -> FloatArray:
        values = np.array([fitted[name] for name in self.features()])
        # Cell by cell: the result for one must not depend on how many others there are.
        return expit((matrix * values).sum(axis=1) + fitted[INTERCEPT])


class ExampleMaker(NamedTuple):
    """Makes examples, one for a day: work that processes can share."""

    stack: Stack
    history: History

    def do(self, day: date) -> StackExample | None:
        return self.stack.example(self.history, day)


def _known_cells(examples: Sequence[StackExample], target: str) -> tuple[FloatArray, FloatArray]:
    """Rows of the regression and their outcomes, without those that are undefined."""
    matrix = np.concatenate([example.features[target] for example in examples])
    answer = np.concatenate([example.outcomes[target].ravel() for example in examples])
    known = ~(np.isnan(answer) | np.isnan(matrix).any(axis=1))
    return matrix[known], answer[known]


def default_stack() -> Stack:
    """The stack of all baselines, not fitted yet: the bar that skill is measured against."""
    return Stack(all_baselines())


def logit(probabilities: FloatArray) -> FloatArray:
    """ln(p / (1 - p)), p held LOGIT_LIMIT away from 0 and 1."""
    held = np.clip(probabilities, LOGIT_LIMIT, 1 - LOGIT_LIMIT)
    odds: FloatArray = np.log(held / (1 - held))
    return odds


def expit(logits: FloatArray) -> FloatArray:
    """The inverse of logit, for any finite logit without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * logits))


def volume_features(history: History, origin: date) -> FloatArray:
    """The last present day's volume over the usual one, and the usual one, both as ln; [stream, 2].

    Usual is the mean of the last 30 present days. One row is added to each volume, for empty days.
    """
    volume = past_of(history, origin).volume
    usual = volume[:, -VOLUME_DAYS:].mean(axis=1) + 1
    return np.column_stack([np.log((volume[:, -1] + 1) / usual), np.log(usual)])
