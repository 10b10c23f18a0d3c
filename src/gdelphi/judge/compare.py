"""The judge: any forecasters, on the same days and cells, against what came.

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
from typing import Literal

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
from gdelphi.measures.profiles import (
    Profiles,
    days_until,
    outcomes,
)
from gdelphi.scores.probabilities import (
    Bootstrap,
    Skill,
    brier,
    log_score,
    skill,
)

ACTIVE = (0.05, 0.95)  # training rates of cells where a forecast has something to say

CellChoice = Literal["all", "active"]
ByTarget = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Judged:
    """What was said and what came, on the same days."""

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
) -> Judged:
    """Let each forecaster forecast each target day from `horizon` days before.

    Days that are not present are left out. `training_days` tell which cells are active.
    """
    names = [forecaster.name for forecaster in forecasters]
    if len(set(names)) != len(names):
        raise ForecastError(f"two forecasters of one name among {', '.join(names)}")
    judged = _present(history, days)
    if not judged:
        raise ForecastError("none of the days to judge is present")
    origins = [day - timedelta(days=horizon) for day in judged]
    came = [outcomes(history, origin, horizon) for origin in origins]
    answers: dict[str, list[ByTarget]] = {name: [] for name in names}
    for origin, outcome in zip(origins, came, strict=True):  # outside: members share an origin
        for forecaster in forecasters:
            answer = _answer(forecaster, history, origin, horizon, outcome)
            answers[forecaster.name].append(answer)
    said = {name: _stacked(each) for name, each in answers.items()}
    rates = None if training_days is None else training_rates(history, training_days, horizon)
    return Judged(history.streams, history.codes, judged, horizon, said, _stacked(came), rates)


def training_rates(history: History, days: Iterable[date], horizon: int = 1) -> ByTarget:
    """How often each target came true on some target days, [stream, code]; NaN if never defined."""
    came = [outcomes(history, day - timedelta(days=horizon), horizon) for day in days]
    if not came:
        raise ForecastError("no training days to take rates from")
    rates = {}
    for target, values in _stacked(came).items():
        known = (~np.isnan(values)).sum(axis=0)
        total = np.nansum(values, axis=0)
        rates[target] = np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0)
    return rates


def score_table(
    judged: Judged,
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
    lines = []
    for target in TARGETS:
        chosen = _chosen(judged, target, cells) & _within(judged, streams, codes)
        came = np.where(chosen, judged.outcomes[target], np.nan)
        bar = judged.probabilities[reference][target]
        for name, said in judged.probabilities.items():
            square, log = brier(said[target], came), log_score(said[target], came)
            lines.append(
                ScoreLine(
                    forecaster=name,
                    target=target,
                    cells=int((~np.isnan(came)).sum()),
                    brier=_mean(square),
                    log_score=_mean(log),
                    skill=skill(square, brier(bar, came), bootstrap),
                    log_skill=skill(log, log_score(bar, came), bootstrap),
                )
            )
    return lines


def active_cells(judged: Judged, target: str) -> BoolArray:
    """Cells whose training rate lies between .05 and .95, [stream, code]."""
    if judged.training_rates is None:
        raise ForecastError("active cells are told by training days: give them to run()")
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


def _present(history: History, days: Iterable[date]) -> tuple[date, ...]:
    known = {day for day, there in zip(history.days, history.present, strict=True) if there}
    return tuple(sorted(known.intersection(days)))


def _answer(
    forecaster: Forecaster, history: History, origin: date, horizon: int, came: ByTarget
) -> ByTarget:
    """One forecaster at one origin, target -> [stream, code], checked against the history."""
    forecasts = forecaster.forecast(history, origin, horizon)
    where = f"{forecaster.name} at {origin}"
    if tuple(forecast.stream for forecast in forecasts) != history.streams:
        raise ForecastError(f"{where}: its forecasts are not those of the history's streams")
    for forecast in forecasts:
        about = (forecast.origin, forecast.horizon, forecast.codes)
        if about != (origin, horizon, history.codes):
            raise ForecastError(f"{where}: a forecast of another day, horizon or basis")
    answer = {}
    for target in TARGETS:
        answer[target] = np.stack([forecast.probability(target) for forecast in forecasts])
        if (np.isnan(answer[target]) & ~np.isnan(came[target])).any():
            raise ForecastError(f"{where}: it says nothing of some {target} that has an outcome")
    return answer


def _stacked(answers: Sequence[ByTarget]) -> ByTarget:
    return {target: np.stack([answer[target] for answer in answers]) for target in TARGETS}


def _chosen(judged: Judged, target: str, cells: CellChoice) -> BoolArray:
    if cells == "active":
        return active_cells(judged, target)
    if cells == "all":
        return np.ones((len(judged.streams), len(judged.codes)), dtype=np.bool_)
    raise ForecastError(f"no cells {cells!r}; there are all and active")


def _within(
    judged: Judged, streams: Sequence[str] | None, codes: Sequence[str] | None
) -> BoolArray:
    return np.outer(_among(judged.streams, streams), _among(judged.codes, codes))


def _among(names: tuple[str, ...], chosen: Sequence[str] | None) -> BoolArray:
    strange = set(chosen or ()) - set(names)
    if strange:
        raise ForecastError(f"not among what was judged: {', '.join(sorted(strange))}")
    return np.array([chosen is None or name in chosen for name in names], dtype=np.bool_)


def _mean(scores: FloatArray) -> float:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


def _same(one: Forecast, other: Forecast) -> bool:
    names = (*TARGETS, "share_samples", "share_weights")
    return one.stream == other.stream and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names
    )
