"""The pooled logistic stack: one logistic regression per target over what its members say.

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
from typing import NamedTuple

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
from gdelphi.forecast.baselines import RecencyBootstrap, all_baselines
from gdelphi.forecast.logistic import LinearModel, regress_around
from gdelphi.measures.past import past_of
from gdelphi.measures.profiles import outcomes

LOGIT_LIMIT = 1e-6  # members' probabilities are held this far from 0 and 1
VOLUME_DAYS = 30  # present days that a stream's usual volume is taken from
RIDGE = 1.0  # beside many thousand cells, a mild pull
INTERCEPT = "intercept"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

Coefficients = Mapping[str, Mapping[str, float]]
"""target -> feature -> value, in the features' own units"""


class StackExample(NamedTuple):
    """A day to learn from."""

    day: date
    said: Mapping[str, FloatArray]
    """target -> the regression's rows, [stream * code, feature]"""
    came: Mapping[str, FloatArray]
    """target -> [stream, code]; NaN where undefined"""


@dataclass(frozen=True, eq=False)
class Stack:
    """The combination of its members. `fit` returns the fitted stack."""

    members: Sequence[Forecaster]
    fitted: Coefficients | None = None
    name: str = "stack"

    def features(self) -> tuple[str, ...]:
        """Names of the features, in the order of the regression's columns."""
        members = (f"logit {member.name}" for member in self.members)
        weekdays = (f"weekday {name}" for name in WEEKDAYS)
        return (*members, *weekdays, "log relative volume", "log usual volume")

    def fit(self, history: History, days: Iterable[date], horizon: int = 1) -> "Stack":
        """The stack fitted on forecasts for these target days, less those that are not present."""
        return self.fit_lessons(self.lessons(history, days, horizon))

    def lessons(
        self, history: History, days: Iterable[date], horizon: int = 1
    ) -> list["StackExample"]:
        """What the members said of each of these target days that is present, and what came."""
        found = []
        for day in days:
            origin = day - timedelta(days=horizon)
            came = outcomes(history, origin, horizon)
            if not np.isnan(came["occurs"]).all():
                said = self._matrices(history, origin, self._ask(history, origin, horizon))
                found.append(StackExample(day, said, came))
        return found

    def fit_lessons(
        self, lessons: Sequence["StackExample"], like: Coefficients | None = None
    ) -> "Stack":
        """The stack fitted on lessons of its members; quicker with coefficients like its own."""
        if not lessons:
            raise ForecastError(f"{self.name}: none of the days to fit on is present")
        fitted = {}
        for target in TARGETS:
            guess = self._line(like[target]) if like else None
            fitted[target] = self._regress(*_cells(lessons, target), guess)
        return replace(self, fitted=fitted)

    def fit_around(
        self,
        lessons: Sequence["StackExample"],
        start: Coefficients,
        ridges: Mapping[str, float | None],
    ) -> "Stack":
        """The stack of the targets that a ridge is given for, fitted on lessons and held to
        coefficients, without a ridge entirely; those that are not named there are 0."""
        fitted = {}
        for target, ridge in ridges.items():
            line = self._line(start[target])
            if ridge is not None:
                line = regress_around(*_cells(lessons, target), line, ridge=ridge)
            fitted[target] = self._named(*line)
        return replace(self, fitted=fitted)

    def answer(self, lesson: "StackExample", target: str) -> FloatArray:
        """What the fitted stack says on a lesson's day, [stream * code]."""
        return self._apply(self.coefficients()[target], lesson.said[target])

    def coefficients(self) -> dict[str, dict[str, float]]:
        """What was fitted: target -> feature -> value, the intercept among them."""
        if self.fitted is None:
            raise ForecastError(f"{self.name} is not fitted: use the stack that fit() returns")
        return {target: dict(values) for target, values in self.fitted.items()}

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        fitted = self.coefficients()
        said = self._ask(history, origin, horizon)
        matrices = self._matrices(history, origin, said)
        shape = (len(history.streams), len(history.codes))
        occurs, headline, surge = (
            self._apply(fitted[target], matrices[target]).reshape(shape) for target in TARGETS
        )
        return [
            make_forecast(
                Forecast(
                    self.name, stream, origin, horizon, history.codes, occurs[number],
                    headline[number], surge[number], drawn.share_samples, drawn.share_weights,
                )
            )
            for number, (stream, drawn) in enumerate(
                zip(history.streams, self._shares(history, said), strict=True)
            )
        ]  # fmt: skip

    def contributions(
        self, history: History, origin: date, horizon: int = 1
    ) -> dict[str, FloatArray]:
        """What each feature adds to the logit of each cell, target -> [stream, code, feature]; the
        intercept is the rest."""
        fitted = self.coefficients()
        matrices = self._matrices(history, origin, self._ask(history, origin, horizon))
        shape = (len(history.streams), len(history.codes), -1)
        values = {
            target: np.array([fitted[target][name] for name in self.features()])
            for target in TARGETS
        }
        return {target: (matrices[target] * values[target]).reshape(shape) for target in TARGETS}

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

    # --- inside ---

    def _ask(self, history: History, origin: date, horizon: int) -> list[list[Forecast]]:
        return [member.forecast(history, origin, horizon) for member in self.members]

    def _shares(self, history: History, said: list[list[Forecast]]) -> list[Forecast]:
        """The recency bootstrap's forecasts, whether or not it is a member."""
        for member, forecasts in zip(self.members, said, strict=True):
            if isinstance(member, RecencyBootstrap):
                return forecasts
        origin, horizon = said[0][0].origin, said[0][0].horizon
        return RecencyBootstrap().forecast(history, origin, horizon)

    def _matrices(
        self, history: History, origin: date, said: list[list[Forecast]]
    ) -> dict[str, FloatArray]:
        """The regression's rows for each target, [stream * code, feature]."""
        target_day = said[0][0].target_day
        volume = np.repeat(_volume_features(history, origin), len(history.codes), axis=0)
        weekday = np.zeros((len(volume), len(WEEKDAYS)))
        weekday[:, target_day.weekday()] = 1.0
        matrices = {}
        for target in TARGETS:
            logits = [
                logit(np.concatenate([forecast.probability(target) for forecast in forecasts]))
                for forecasts in said
            ]
            matrices[target] = np.column_stack([*logits, weekday, volume])
        return matrices

    def _line(self, coefficients: Mapping[str, float]) -> LinearModel:
        values = np.array([coefficients.get(name, 0.0) for name in self.features()])
        return LinearModel(values, coefficients[INTERCEPT])

    def _regress(
        self, matrix: FloatArray, answer: FloatArray, guess: LinearModel | None
    ) -> dict[str, float]:
        if len(np.unique(answer)) < 2:
            members = len(self.members)
            values = np.zeros(len(self.features()))
            values[:members] = 1 / members
            return self._named(values, 0.0)
        nothing = LinearModel(np.zeros(matrix.shape[1]), 0.0)
        return self._named(*regress_around(matrix, answer, nothing, ridge=RIDGE, guess=guess))

    def _named(self, values: FloatArray, intercept: float) -> dict[str, float]:
        named = dict(zip(self.features(), values.tolist(), strict=True))
        return {INTERCEPT: intercept, **named}

    def _apply(self, fitted: Mapping[str, float], matrix: FloatArray) -> FloatArray:
        values = np.array([fitted[name] for name in self.features()])
        # Cell by cell: the result for one must not depend on how many others there are.
        return expit((matrix * values).sum(axis=1) + fitted[INTERCEPT])


def _cells(lessons: Sequence[StackExample], target: str) -> tuple[FloatArray, FloatArray]:
    """Rows of the regression and what came, without those that are undefined."""
    matrix = np.concatenate([lesson.said[target] for lesson in lessons])
    answer = np.concatenate([lesson.came[target].ravel() for lesson in lessons])
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


def _volume_features(history: History, origin: date) -> FloatArray:
    """The last present day's volume over the usual one, and the usual one, both as ln; [stream, 2].

    Usual is the mean of the last 30 present days. One row is added to each volume, for empty days.
    """
    volume = past_of(history, origin).volume
    usual = volume[:, -VOLUME_DAYS:].mean(axis=1) + 1
    return np.column_stack([np.log((volume[:, -1] + 1) / usual), np.log(usual)])
