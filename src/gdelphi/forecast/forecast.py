"""Issuing forecasts: what `gdelphi calibrate` and `gdelphi forecast` do.

    origin and streams -> the model's desk -> predictions -> reconstructed events -> files

What is published is fitted once and kept beside the model; a forecast whose recipe has been made
before is not made again, but found.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal

import numpy as np

from gdelphi import __version__
from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.types import LEVELS, Forecast, Level
from gdelphi.forecast.archive import (
    ARGUMENTS_FILE,
    ForecastStore,
    Recipe,
    StoredForecast,
)
from gdelphi.forecast.archive import forecasts_folder as forecasts_folder
from gdelphi.forecast.archive import model_fingerprint as model_fingerprint
from gdelphi.forecast.arguments import (
    KINDS,
    ArgumentHistory,
    read_arguments,
)
from gdelphi.forecast.naming import ChosenNames
from gdelphi.forecast.naming_choice import choose_names
from gdelphi.forecast.origin import (
    ForecastOrigin,
    check_stream,
    choose_streams,
    resolve_origin,
)
from gdelphi.forecast.precedents import evidence_for
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import FINE_TUNING, Predictor
from gdelphi.forecast.publisher import Choice
from gdelphi.forecast.reconstruct import Reconstructor, fit
from gdelphi.forecast.tables import (
    Reconstructed,
    named_of,
    tables_of,
)
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.descriptors import atom_rule
from gdelphi.measures.packing import OnPacked
from gdelphi.model.sampler import FURTHEST
from gdelphi.store.connection import Connection, Store

HORIZONS: Final = range(1, FURTHEST + 1)
CALIBRATED_FILE: Final = "calibrated.json"
ARGUMENT_DAYS: Final = 1095  # looked back on for who does what to whom
EVENTS: Final = 5  # likeliest headlines of each level whose arguments are reconstructed


# --- what is published ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibrated:
    """What `gdelphi calibrate` did."""

    folder: Path
    since: date
    until: date
    """of validation B"""
    choices: tuple[tuple[Level, str, Choice], ...]
    """level, target, how it came to be published as it is"""
    names: ChosenNames | None = None
    """how futures are named; None: by their origin, without a choice"""


def calibrate(
    desk: Predictor, on_step: OnStep = silent, *, namer: Path | None = None
) -> Calibrated:
    """Fit what is published, and who does what to whom, on validation B, and choose there what
    futures are named by. Without a given namer one that lies among the models is tried."""
    choices = []
    for level in LEVELS:
        on_step(f"fitting what is published of level {level}")
        fitted = desk.calibrate(level)
        choices += [(level, target, choice) for target, choice in fitted.choices.items()]
    on_step("fitting who does what to whom")
    days = desk.target_days("validation_b")
    fit(_arguments(desk, days[-1]), days[-FINE_TUNING:]).save(desk.folder / ARGUMENTS_FILE)
    names = choose_names(desk, on_step, namer=namer)
    (desk.folder / CALIBRATED_FILE).write_text(_mark(desk.folder), encoding="utf-8")
    return Calibrated(desk.folder, days[0], days[-1], tuple(choices), names)


def _arguments(desk: Predictor, until: date) -> ArgumentHistory:
    since = max(desk.pack.first_day, until - timedelta(days=ARGUMENT_DAYS))
    return read_arguments(desk.settings, desk.streams, since=since, until=until)


def _mark(folder: Path) -> str:
    """What was calibrated: a model that is trained again in its folder is another."""
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    return json.dumps({"model.safetensors": weights}) + "\n"


def is_calibrated(desk: Predictor) -> bool:
    """Whether all that is published was fitted with the weights that are there."""
    path = desk.folder / CALIBRATED_FILE
    there = desk.calibrated() and path.exists() and (desk.folder / ARGUMENTS_FILE).exists()
    return there and path.read_text(encoding="utf-8") == _mark(desk.folder)


def ensure_calibrated(desk: Predictor, on_step: OnStep = silent, *, horizon: int = 1) -> None:
    """Calibrate a model that has not been, always with the usual futures: what is published must
    not depend on who asks first. Beyond tomorrow it is done for a horizon when first asked for."""
    if not is_calibrated(desk):
        on_step("this model has not been calibrated yet: doing it now")
        for path in desk.folder.glob("published-*-[2-9].json"):
            path.unlink()  # fitted to other weights
        calibrate(Predictor(desk.settings, desk.folder), on_step)
    if not desk.calibrated(horizon):
        for level in LEVELS:
            on_step(f"fitting what is published of level {level}, {horizon} days ahead")
            desk.calibrate(level, horizon)


def reconstructor(desk: Predictor, origin: date) -> Reconstructor:
    """Who does what to whom, from the days up to an origin."""
    return Reconstructor.load(desk.folder / ARGUMENTS_FILE, _arguments(desk, origin))


# --- forecasts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForecastRequest:
    """What is asked for."""

    model: Path
    origin: date | Literal["latest"] = "latest"
    streams: str = "all"
    horizon: int = 1
    futures: int = 100
    seed: int = 0
    allow_partial: bool = False
    as_of: date | None = None
    out: Path | None = None
    """folder of forecasts; None: beside the store"""


@dataclass(frozen=True)
class ForecastResult:
    """What `gdelphi forecast` did."""

    forecast: StoredForecast
    made: bool
    """false: it was there"""


def forecast(
    settings: Settings,
    request: ForecastRequest,
    *,
    on_step: OnStep = silent,
    on_packed: OnPacked | None = None,
) -> ForecastResult:
    """Make a forecast and keep it, unless it is there."""
    _check_horizon(request.horizon)
    at = resolve_origin(
        settings, request.origin, as_of=request.as_of, allow_partial=request.allow_partial
    )
    on_step("opening the model and the measures")
    desk = Predictor(
        settings, request.model, number=request.futures, seed=request.seed, on_packed=on_packed
    )
    streams = choose_streams(desk, request.streams, at.origin)
    desk.sampler.position(at.origin)  # an origin outside the measures is refused before all work
    ensure_calibrated(desk, on_step, horizon=request.horizon)
    store = ForecastStore(request.out or forecasts_folder(settings))
    recipe = recipe_of(desk, at, streams, horizon=request.horizon)
    known = store.find(recipe)
    if known is not None:
        return ForecastResult(known, made=False)
    on_step(f"forecasting {at.origin + timedelta(days=request.horizon)}")
    predictions = desk.predict(at.origin, streams, horizon=request.horizon, partial=at.partial)
    on_step("finding who does what to whom")
    fitted = reconstructor(desk, at.origin)
    tables = tables_of(predictions, _reconstructed(desk, predictions, fitted))
    kept = store.put(recipe, tables, fitted_until=fitted.fitted[1], named=named_of(predictions))
    return ForecastResult(kept, made=True)


def _check_horizon(horizon: int) -> None:
    if horizon not in HORIZONS:
        raise ForecastError(f"horizon {horizon} is not between {HORIZONS[0]} and {HORIZONS[-1]}")


def recipe_of(
    desk: Predictor, at: ForecastOrigin, streams: tuple[str, ...], *, horizon: int = 1
) -> Recipe:
    """All that decides a forecast."""
    return Recipe(
        origin=at.origin,
        horizon=horizon,
        streams=streams,
        partial=at.partial,
        data=data_fingerprint(desk, at.origin),
        model=model_fingerprint(desk.folder, horizon),
        futures=desk.sampler.number,
        seed=desk.sampler.seed,
        gdelphi=__version__,
    )


def data_fingerprint(desk: Predictor, origin: date) -> str:
    """Of the days up to an origin, and how they are described.

    Each day's file says what it was made from, and a desk does not open while one is behind the
    store; so those marks stand for the days' rows, and thousands of files need not be read.
    """
    clouds = Clouds(measures_folder(desk.settings)).files.made_from()
    known = [[day.isoformat(), clouds[day]] for day in sorted(clouds) if day <= origin]
    rule = atom_rule(desk.settings.measures)
    said = json.dumps([known, desk.pack.facts.space, repr(rule)])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _reconstructed(
    desk: Predictor, predictions: Sequence[Prediction], fitted: Reconstructor
) -> list[Reconstructed]:
    """The likeliest headlines of each level with their arguments and evidence."""
    found: list[Reconstructed] = []
    for prediction in predictions:
        likely = [
            Reconstructed(
                level, fitted.arguments(prediction.stream, code, prediction.origin, level=level)
            )
            for level in LEVELS
            for code in _headlines(prediction.level(level))
        ]
        with Store(desk.settings).reading() as connection:  # briefly: readers keep writers out
            found += [_with_evidence(connection, each) for each in likely]
    return found


def _headlines(said: Forecast) -> list[str]:
    """The likeliest headlines, ties by code."""
    return [said.codes[place] for place in np.argsort(-said.headline, kind="stable")[:EVENTS]]


def _with_evidence(connection: Connection, event: Reconstructed) -> Reconstructed:
    said = event.arguments
    likely = {
        kind: {each.value: each.probability for each in said.candidates(kind)} for kind in KINDS
    }
    evidence = evidence_for(
        connection, said.stream, said.code, said.origin, likely=likely, level=event.level
    )
    return event._replace(arguments=replace(said, evidence=evidence))


# --- in three lines of Python ---------------------------------------------------------------------


class LoadedModel:
    """A model at work on a store, for use from Python; see `gdelphi.load`."""

    def __init__(self, desk: Predictor) -> None:
        self.desk = desk

    @property
    def streams(self) -> tuple[str, ...]:
        """What it can be asked about."""
        return self.desk.streams

    def forecast(
        self,
        stream: str,
        origin: date | str = "latest",
        *,
        horizon: int = 1,
        allow_partial: bool = False,
    ) -> Prediction:
        """What is published about a stream's day after an origin: a day, its ISO form, or the
        last complete one."""
        check_stream(self.desk, stream)
        _check_horizon(horizon)
        at = resolve_origin(self.desk.settings, _origin(origin), allow_partial=allow_partial)
        ensure_calibrated(self.desk, horizon=horizon)
        made = self.desk.predict(at.origin, [stream], horizon=horizon, partial=at.partial)
        return made[0]


def _origin(given: date | str) -> date | Literal["latest"]:
    if isinstance(given, date) or given == "latest":
        return given  # type: ignore[return-value]
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ForecastError(
            f"origin {given!r} is neither a day like 2014-06-01 nor latest"
        ) from None


def load_model(
    folder: Path | str, store: Path | str | None = None, config: Path | str | None = None
) -> LoadedModel:
    """A trained model and the store that it forecasts from; calibrated, if it was not."""
    settings = load_settings(
        Path(config) if config else None, {"store": Path(store) if store else None}
    ).settings
    desk = Predictor(settings, Path(folder))
    ensure_calibrated(desk)
    return LoadedModel(desk)
