"""Calibration: what `gdelphi calibrate` does.

What a model publishes, and who does what to whom, is fitted once on validation B and kept beside
the model, with a mark of the weights that it was fitted to.
"""

import json
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from gdelphi.common.checksums import remove_file
from gdelphi.common.files import file_digest, write_json_atomically, write_text_atomically
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.types import AHEAD, LEVELS, Level, Measure
from gdelphi.forecast.archive import ARGUMENTS_FILE, EXPECTED_FILE, FUTURES_FILE
from gdelphi.forecast.argument_months import read_arguments
from gdelphi.forecast.conflict_risk import (
    SURGE,
    ConflictFit,
    conflict_places,
    fit_theta,
    keep_conflict_fit,
)
from gdelphi.forecast.decoded_day import (
    CHOICE_DAYS,
    ExpectedDayChoice,
    choose_shown,
    keep_expected_choice,
)
from gdelphi.forecast.future_choice import FutureChoice, FutureWay
from gdelphi.forecast.naming import NamingChoice
from gdelphi.forecast.naming_choice import choose_names, spread_days
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import FINE_EXAMPLES, Predictor
from gdelphi.forecast.publisher import PublishedChoice
from gdelphi.forecast.reconstruct import Reconstructor, fit_reconstructor
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.ot.energy import sliced_energy_score
from gdelphi.stack.linear import expit

CALIBRATED_FILE: Final = "calibrated.json"
CONFLICT_DAYS: Final = 24  # of validation B on which kinds of conflict are joined
FUTURES_DAYS: Final = 12  # of validation B on which moved and recombined futures are compared
ARGUMENT_DAYS: Final = 1095  # looked back on for who does what to whom


@dataclass(frozen=True)
class CalibrationResult:
    """What `gdelphi calibrate` did."""

    folder: Path
    since: date
    until: date
    """of validation B"""
    choices: tuple[tuple[Level, str, PublishedChoice], ...]
    """level, target, how it came to be published as it is"""
    futures: FutureChoice
    """how futures are made"""
    names: NamingChoice | None = None
    """how futures are named; None: by their origin, without a choice"""
    expected: ExpectedDayChoice | None = None
    """whose expected day is shown; None: the mean of futures, as there is no decoder"""
    conflict: ConflictFit | None = None
    """how kinds of conflict are joined to one number; None: the model says nothing of the week"""


def calibrate(
    predictor: Predictor, on_step: OnStep = silent, *, namer: Path | None = None
) -> CalibrationResult:
    """Fit what is published, and who does what to whom, on validation B, and choose there how
    futures are made and what their atoms are named by. Without a given namer one that lies
    among the models is tried. All of it is kept in the model's folder."""
    choices = []
    for level in LEVELS:
        on_step(f"fitting what is published of level {level}")
        fitted = predictor.calibrate(level)
        choices += [(level, target, choice) for target, choice in fitted.choices.items()]
    on_step("fitting who does what to whom")
    days = predictor.target_days("validation_b")
    since = _looked_back_on(predictor, days[-1])
    history = read_arguments(predictor.settings, predictor.streams, since=since, until=days[-1])
    fit_reconstructor(history, days[-FINE_EXAMPLES:]).save(predictor.folder / ARGUMENTS_FILE)
    futures = choose_futures(predictor, on_step)
    predictor.moves_atoms = futures.way == "moved"
    names = choose_names(predictor, on_step, namer=namer)
    expected = choose_expected_day(predictor, on_step)
    conflict = fit_conflict(predictor, on_step)
    write_text_atomically(predictor.folder / CALIBRATED_FILE, _mark(predictor.folder))
    return CalibrationResult(
        predictor.folder, days[0], days[-1], tuple(choices), futures, names, expected, conflict
    )


def fit_conflict(predictor: Predictor, on_step: OnStep = silent) -> ConflictFit | None:
    """Fit how kinds of conflict are joined on weeks of validation B, and keep it beside the model;
    None: the model says nothing of the week."""
    fit = None
    if predictor.week_stack is not None:
        days = spread_days(predictor.target_days("validation_b"), CONFLICT_DAYS)
        on_step(f"joining kinds of conflict on {len(days)} weeks")
        history, places = (
            predictor.history("root"),
            conflict_places(predictor.history("root").codes),
        )
        said, came = [], []
        for day in days:
            origin = day - timedelta(days=1)
            if origin + timedelta(days=AHEAD) > predictor.sequences.splits.validation_b[1]:
                continue  # its week ends among the days that forecasts are judged on
            surges = week_outcomes(history, origin).within[SURGE][:, places]
            asked = ~np.isnan(surges).all(axis=1)
            said.append(expit(predictor.direct_week(origin)[SURGE, AHEAD])[:, places][asked])
            came.append((np.nansum(surges, axis=1) > 0).astype(np.float64)[asked])
        if said:
            fit = fit_theta(np.concatenate(said), np.concatenate(came))
    keep_conflict_fit(predictor.folder, fit)
    predictor.conflict_theta = None if fit is None else fit.theta
    return fit


def choose_expected_day(predictor: Predictor, on_step: OnStep) -> ExpectedDayChoice | None:
    """Compare the decoder with its start on validation B, and keep the better beside the model."""
    if predictor.decoder is None:
        remove_file(predictor.folder / EXPECTED_FILE)
        return None
    days = spread_days(predictor.target_days("validation_b"), CHOICE_DAYS)
    on_step(f"comparing the decoder of the expected day with its start on {len(days)} days")
    ends = [predictor.sampler.position(day - timedelta(days=1)) for day in days]
    choice = choose_shown(predictor.decoder, ends)
    keep_expected_choice(predictor.folder, choice)
    predictor.shows_decoder = choice.shown == "decoder"
    return choice


def choose_futures(
    predictor: Predictor, on_step: OnStep, *, days: int = FUTURES_DAYS
) -> FutureChoice:
    """Compare moved with recombined futures on validation B, and keep the better way."""
    chosen = spread_days(predictor.target_days("validation_b"), days)
    scores: list[tuple[float, ...]] = []
    for number, day in enumerate(chosen, start=1):
        on_step(f"comparing moved futures with recombined ones, day {number} of {len(chosen)}")
        origin = day - timedelta(days=1)
        end = predictor.sampler.position(origin)
        forecasts = predictor.forecasts_at(origin, ("root",))
        for place in range(len(predictor.streams)):
            outcome = predictor.pack.atoms(end + 1, place)
            if len(outcome.weights):
                both = (forecasts.futures(place, moved=moved) for moved in (True, False))
                scores.append(tuple(_energy(futures, outcome) for futures in both))
    values = np.array(scores).reshape(-1, 2)
    values = values[~np.isnan(values).any(axis=1)]
    means = values.mean(axis=0) if len(values) else np.full(2, np.nan)
    way: FutureWay = "moved" if means[0] < means[1] else "recombined"
    choice = FutureChoice(way, float(means[0]), float(means[1]), len(chosen), len(values))
    write_json_atomically(predictor.folder / FUTURES_FILE, asdict(choice))
    return choice


def _energy(futures: StreamFutures, outcome: Measure) -> float:
    """Fair energy score of futures with their weights; NaN if fewer than two have atoms."""
    exists = futures.exists
    weights = futures.reweighted.weights[exists]
    if exists.sum() < 2 or weights.sum() <= 0:
        return float("nan")
    members = []
    for number in np.flatnonzero(exists):
        atoms = futures.weights[number] > 0
        mass = futures.weights[number][atoms].astype(np.float64)
        members.append(Measure(futures.points[number][atoms], mass / mass.sum()))
    return float(sliced_energy_score(members, outcome, weights=weights / weights.sum(), fair=True))


def _looked_back_on(predictor: Predictor, origin: date) -> date:
    """The first day that an origin looks back on for who does what to whom: the first of a month,
    so that the origins of a month look back on the same days."""
    first = (origin - timedelta(days=ARGUMENT_DAYS)).replace(day=1)
    return max(predictor.pack.first_day, first)


def _mark(folder: Path) -> str:
    """The text of calibrated.json: a model that is trained again in its folder has another."""
    weights = file_digest(folder / "model.safetensors")
    return json.dumps({"model.safetensors": weights}) + "\n"


def is_calibrated(predictor: Predictor) -> bool:
    """Whether all that is published was fitted with the weights that are there."""
    path = predictor.folder / CALIBRATED_FILE
    arguments = predictor.folder / ARGUMENTS_FILE
    if not (predictor.calibrated() and path.exists() and arguments.exists()):
        return False
    return path.read_text(encoding="utf-8") == _mark(predictor.folder)


def ensure_calibrated(predictor: Predictor, on_step: OnStep = silent) -> None:
    """Calibrate a model that has not been, always with the usual futures: what is published must
    not depend on who asks first."""
    if not is_calibrated(predictor):
        on_step("this model has not been calibrated yet: doing it now")
        calibrate(Predictor(predictor.settings, predictor.folder), on_step)


def reconstructor(predictor: Predictor, origin: date) -> Reconstructor:
    """Who does what to whom, from the days up to an origin. All days that the pack has are read at
    once, and kept for other origins."""
    since, kept = _looked_back_on(predictor, origin), predictor.argument_history
    if kept is None or kept.days[0] != since or kept.days[-1] < origin:
        last = predictor.pack.first_day + timedelta(days=predictor.pack.facts.days - 1)
        kept = predictor.argument_history = read_arguments(
            predictor.settings, predictor.streams, since=since, until=max(origin, last)
        )
    return Reconstructor.load(predictor.folder / ARGUMENTS_FILE, kept.until(origin))
