"""Comparing forecasters: any of them, on the same days and cells, against the outcomes.

Forecasters are handed the whole history and an origin, and are trusted to look no further, because
cutting the history anew for each origin would make them derive everything again each time. That
they deserve the trust is tested by `leaks`, which puts garbage in place of all that follows an
origin and wants the same forecasts to the last bit.

All are scored on the same cells. A forecaster that is silent (NaN) where there is an outcome is
refused, since it could choose the cells that suit it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, get_args

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    BoolArray,
    FloatArray,
    Forecast,
    Forecaster,
    History,
)
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import days_until, outcomes
from gdelphi.scores.probabilities import (
    Bootstrap,
    Skill,
    brier,
    log_score,
    skill,
)
from gdelphi.stack.linear import Combination, ask

ACTIVE = (0.05, 0.95)  # training rates of cells where a forecast has something to say

CellChoice = Literal["all", "active"]
ByTarget = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class JudgedForecasts:
    """Probabilities of forecasters, and outcomes, on the same days."""

    streams: tuple[str, ...]
    codes: tuple[str, ...]
    days: tuple[date, ...]
    """target days, present ones only"""
    horizon: int
    probabilities: Mapping[str, ByTarget]
    """forecaster -> target -> [day, stream, code]"""
    outcomes: ByTarget
    """target -> [day, stream, code], NaN where undefined"""
    training_rates: ByTarget | None = None
    """target -> [stream, code], NaN where never defined; None if no training days were given"""

    @property
    def forecasters(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.probabilities)


@dataclass(frozen=True)
class ScoreLine:
    """One forecaster on one target."""

    forecaster: str
    target: str
    cells: int
    brier: float
    log_score: float
    skill: Skill
    """of the Brier score"""
    log_skill: Skill
    """of the log score"""


def compare(
    forecasters: Sequence[Forecaster],
    history: History,
    days: Iterable[date],
    horizon: int = 1,
    *,
    training_days: Iterable[date] | None = None,
) -> JudgedForecasts:
    """The probabilities of each forecaster for each target day, from `horizon` days before, and the
    outcomes.

    Days that are not present are left out. `training_days` tell which cells are active. A member of
    a stack that is compared too is asked once.
    """
    names = [forecaster.name for forecaster in forecasters]
    if len(set(names)) != len(names):
        raise ForecastError(f"two forecasters of one name among {', '.join(names)}")
    _check_members(forecasters)
    present = {day for day, there in zip(history.days, history.present, strict=True) if there}
    target_days = tuple(sorted(present.intersection(days)))
    if not target_days:
        raise ForecastError("none of the days to judge is present")
    probabilities: dict[str, list[ByTarget]] = {name: [] for name in names}
    outcome_of_days = []
    for day in target_days:
        origin = day - timedelta(days=horizon)
        outcome = outcomes(history, origin, horizon)
        outcome_of_days.append(outcome)
        answers = ask(forecasters, history, origin, horizon)
        for name in names:
            _check(name, answers[name], history, origin, horizon)
            probabilities[name].append(_by_target(name, answers[name], outcome))
    return JudgedForecasts(
        streams=history.streams,
        codes=history.codes,
        days=target_days,
        horizon=horizon,
        probabilities={name: _stacked(of_days) for name, of_days in probabilities.items()},
        outcomes=_stacked(outcome_of_days),
        training_rates=(
            None if training_days is None else training_rates(history, training_days, horizon)
        ),
    )


def training_rates(history: History, days: Iterable[date], horizon: int = 1) -> ByTarget:
    """How often each target came true on some target days, [stream, code]; NaN if never defined."""
    of_days = [outcomes(history, day - timedelta(days=horizon), horizon) for day in days]
    if not of_days:
        raise ForecastError("no training days to take rates from")
    rates = {}
    for target, values in _stacked(of_days).items():
        known = (~np.isnan(values)).sum(axis=0)
        total = np.nansum(values, axis=0)
        rates[target] = np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0)
    return rates


def score_table(
    judged: JudgedForecasts,
    reference: str = "stack",
    cells: CellChoice = "all",
    *,
    streams: Sequence[str] | None = None,
    codes: Sequence[str] | None = None,
    bootstrap: Bootstrap | None = None,
) -> list[ScoreLine]:
    """Scores of all forecasters on each target, with skill against one of them.

    `streams` and `codes` narrow it down: claims are made per stream and per class of events.
    """
    if reference not in judged.probabilities:
        raise ForecastError(
            f"no forecaster {reference!r} to compare with; there are "
            f"{', '.join(judged.forecasters)}"
        )
    if cells not in get_args(CellChoice):
        raise ForecastError(f"no cells {cells!r}; there are {' and '.join(get_args(CellChoice))}")
    lines = []
    for target in TARGETS:
        chosen = np.outer(_mask(judged.streams, streams), _mask(judged.codes, codes))
        if cells == "active":
            chosen &= active_cells(judged, target)
        outcome = np.where(chosen, judged.outcomes[target], np.nan)
        reference_probabilities = judged.probabilities[reference][target]
        reference_brier = brier(reference_probabilities, outcome)
        reference_log = log_score(reference_probabilities, outcome)
        for name, probabilities in judged.probabilities.items():
            square = brier(probabilities[target], outcome)
            log = log_score(probabilities[target], outcome)
            lines.append(
                ScoreLine(
                    forecaster=name,
                    target=target,
                    cells=int((~np.isnan(outcome)).sum()),
                    brier=mean_of_known(square),
                    log_score=mean_of_known(log),
                    skill=skill(square, reference_brier, bootstrap),
                    log_skill=skill(log, reference_log, bootstrap),
                )
            )
    return lines


def active_cells(judged: JudgedForecasts, target: str) -> BoolArray:
    """Cells whose training rate lies between .05 and .95, [stream, code]."""
    if judged.training_rates is None:
        raise ForecastError("active cells are told by training days: give them to compare()")
    rates = judged.training_rates[target]
    return (rates >= ACTIVE[0]) & (rates <= ACTIVE[1])


def leaks(
    forecaster: Forecaster, history: History, origin: date, horizon: int = 1, seed: int = 0
) -> bool:
    """Whether its forecasts change when all days after the origin are replaced by garbage."""
    honest = forecaster.forecast(history, origin, horizon)
    garbled = forecaster.forecast(garble(history, origin, seed), origin, horizon)
    return not all(_same(one, other) for one, other in zip(honest, garbled, strict=True))


def garble(history: History, origin: date, seed: int = 0) -> Profiles:
    """The same history up to the origin and random numbers after it."""
    generator = np.random.default_rng(seed)
    after = slice(days_until(history, origin), None)
    counts, weights = history.counts.copy(), history.weights.copy()
    volume, present = history.volume.copy(), history.present.copy()
    counts[:, after] = generator.integers(1000, size=counts[:, after].shape)
    weights[:, after] = generator.exponential(1e6, size=weights[:, after].shape)
    volume[:, after] = generator.integers(10**6, size=volume[:, after].shape)
    present[after] = generator.random(present[after].shape) < 0.5
    return Profiles(history.streams, history.days, history.codes, counts, weights, volume, present)


# --- inside ---------------------------------------------------------------------------------------


def _check_members(forecasters: Sequence[Forecaster]) -> None:
    """Refuse a stack with a member that has the name of another forecaster: who is of one name is
    asked once."""
    known = {forecaster.name: forecaster for forecaster in forecasters}
    combinations = [one for one in forecasters if isinstance(one, Combination)]
    for combination in combinations:
        for member in combination.members:
            if known.setdefault(member.name, member) != member:
                raise ForecastError(
                    f"{combination.name} has a member {member.name}, and so is another forecaster "
                    "called: give it another name"
                )


def _check(
    name: str, forecasts: Sequence[Forecast], history: History, origin: date, horizon: int
) -> None:
    """Refuse forecasts that are not of the history's streams, and of what was asked for."""
    where = f"{name} at {origin}"
    if tuple(forecast.stream for forecast in forecasts) != history.streams:
        raise ForecastError(f"{where}: its forecasts are not those of the history's streams")
    for forecast in forecasts:
        about = (forecast.origin, forecast.horizon, forecast.codes)
        if about != (origin, horizon, history.codes):
            raise ForecastError(f"{where}: a forecast of another day, horizon or basis")


def _by_target(name: str, forecasts: Sequence[Forecast], outcome: ByTarget) -> ByTarget:
    """Probabilities, target -> [stream, code]; one that is missing where there is an outcome is
    refused."""
    probabilities = {}
    for target in TARGETS:
        values = np.stack([forecast.probability(target) for forecast in forecasts])
        if (np.isnan(values) & ~np.isnan(outcome[target])).any():
            raise ForecastError(
                f"{name} at {forecasts[0].origin}: it says nothing of some {target} that has an "
                "outcome"
            )
        probabilities[target] = values
    return probabilities


def _stacked(answers: Sequence[ByTarget]) -> ByTarget:
    return {target: np.stack([answer[target] for answer in answers]) for target in TARGETS}


def _mask(names: tuple[str, ...], chosen: Sequence[str] | None) -> BoolArray:
    """Which names are chosen, [name]; without a choice all are."""
    strange = set(chosen or ()) - set(names)
    if strange:
        raise ForecastError(f"not among what was judged: {', '.join(sorted(strange))}")
    return np.array([chosen is None or name in chosen for name in names], dtype=np.bool_)


def mean_of_known(scores: FloatArray) -> float:
    """The mean of what is a number; not-a-number if nothing is."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


def _same(one: Forecast, other: Forecast) -> bool:
    names = (*TARGETS, "share_samples", "share_weights")
    return one.stream == other.stream and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names
    )
