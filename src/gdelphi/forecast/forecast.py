"""Forecasting: what `gdelphi forecast` does.

    origin and streams -> predictor -> predictions -> reconstructed events -> files

A forecast whose recipe (data, model, streams, seed) has been made before is not made again, but
found.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from gdelphi import __version__
from gdelphi.common.errors import ForecastError, GdelphiError
from gdelphi.common.files import text_digest
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.common.types import AHEAD, LEVELS, Forecast
from gdelphi.common.workers import have_workers, share
from gdelphi.forecast.again import issued_before, today_then
from gdelphi.forecast.archive import (
    ForecastArchive,
    NamingInfo,
    Recipe,
    StoredForecast,
    forecasts_folder,
    model_fingerprint,
)
from gdelphi.forecast.arguments import KINDS
from gdelphi.forecast.calibrate import ensure_calibrated, reconstructor
from gdelphi.forecast.origin import (
    ForecastOrigin,
    choose_streams,
    resolve_origin,
)
from gdelphi.forecast.precedents import PastEvent, choose_precedents, past_reports
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.reconstruct import Reconstructor
from gdelphi.forecast.tables import (
    ReconstructedEvent,
    naming_info,
    prediction_tables,
)
from gdelphi.forecast.week_tables import week_tables
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.descriptors import atom_rule
from gdelphi.measures.packing import OnPacked
from gdelphi.measures.past_measures import with_past_measures
from gdelphi.stack.fit import FEWEST_DAYS
from gdelphi.store.connection import Store, at_one_state

HORIZONS: Final = range(1, AHEAD + 1)
STREAMS_AT_ONCE: Final = 10  # whose past reports are looked for together
EVENTS: Final = 5  # likeliest headlines of each level whose arguments are reconstructed


@dataclass(frozen=True)
class ForecastRequest:
    """What is asked for."""

    model: Path
    origin: date | Literal["latest"] = "latest"
    streams: str = "all"
    horizon: int | None = None
    """days ahead: 1 is tomorrow alone, more is the whole week; None: what the model speaks of"""
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


@dataclass(frozen=True)
class NewForecast:
    """A forecast that is not in the archive yet."""

    recipe: Recipe
    tables: Mapping[str, pa.Table] | None = None
    """None: it is there already"""
    fitted_until: date | None = None
    named: NamingInfo | None = None
    snapshot: str | None = None
    """of the lake that it was made from"""


def forecast(
    settings: Settings,
    request: ForecastRequest,
    *,
    predictor: Predictor | None = None,
    on_step: OnStep = silent,
    on_packed: OnPacked | None = None,
) -> ForecastResult:
    """Make a forecast and keep it in the archive, unless it is there; either way it is returned.

    Who makes several gives the predictor, which `open_predictor` returns: opening one takes longer
    than a forecast.
    """
    at = _resolve(settings, request)
    if predictor is None:
        predictor = open_predictor(settings, request, on_step=on_step, on_packed=on_packed)
    new = _make(settings, request, at, predictor, on_step)
    return _keep(settings, request, new)


def forecasts(
    settings: Settings,
    request: ForecastRequest,
    origins: Sequence[date],
    predictor: Predictor,
    on_step: OnStep = silent,
) -> Iterator[ForecastResult | GdelphiError]:
    """The same from each of some origins, in their order; where there is none, the reason. Shared
    with workers, if there are any: they make forecasts, and this process alone keeps them."""
    work = _OriginWork(settings, request, predictor)
    if have_workers():
        ensure_calibrated(predictor, on_step)  # which is kept beside the model
        made = share(work, origins, portion=1, processes=1)
    else:
        made = map(work.do, origins)
    for new in made:
        yield new if isinstance(new, GdelphiError) else _keep(settings, request, new)


class _OriginWork:
    """What a worker does with an origin. The model is opened where the work is done."""

    def __init__(
        self, settings: Settings, request: ForecastRequest, predictor: Predictor | None = None
    ) -> None:
        self.settings, self.request = settings, request
        self._predictor = predictor

    def __getstate__(self) -> dict[str, Any]:
        out = self.request.out
        whole = replace(
            self.request, model=self.request.model.absolute(), out=out and out.absolute()
        )
        return {**self.__dict__, "_predictor": None, "request": whole}

    def do(self, item: date) -> NewForecast | GdelphiError:
        request = replace(self.request, origin=item)
        try:
            if self._predictor is None:
                self._predictor = open_predictor(self.settings, request)
            at = _resolve(self.settings, request)
            return _make(self.settings, request, at, self._predictor, silent)
        except GdelphiError as error:
            return error


def _resolve(settings: Settings, request: ForecastRequest) -> ForecastOrigin:
    if request.horizon is not None:
        check_horizon(request.horizon)
    as_of = request.as_of
    if as_of is None and settings.store_as_of:
        as_of = today_then(settings, request.origin)
    return resolve_origin(
        settings, request.origin, as_of=as_of, allow_partial=request.allow_partial
    )


def _make(
    settings: Settings,
    request: ForecastRequest,
    at: ForecastOrigin,
    predictor: Predictor,
    on_step: OnStep,
) -> NewForecast:
    """What a forecast says; without tables if it has been said already."""
    streams = choose_streams(predictor, request.streams, at.origin)
    predictor.sampler.position(at.origin)  # an origin outside the measures: refused before all work
    ensure_calibrated(predictor, on_step)
    week = predictor.week_stack is not None if request.horizon is None else request.horizon > 1
    if week and predictor.week_stack is None:
        raise ForecastError(
            f"the model in {predictor.folder} speaks of tomorrow only: train one on at least "
            f"{FEWEST_DAYS} days for the week, or ask with --horizon 1"
        )
    archive = ForecastArchive(request.out or forecasts_folder(settings))
    recipe = recipe_of(predictor, at, streams, week=week)
    if archive.find(recipe) is not None:
        return NewForecast(recipe)
    what = "the week from " if week else ""
    on_step(f"forecasting {what}{at.origin + timedelta(days=1)}")
    predictions = predictor.predict(at.origin, streams, partial=at.partial, week=week)
    on_step("finding who does what to whom")
    fitted = reconstructor(predictor, at.origin)
    tables = prediction_tables(predictions, _likely_events(predictor, predictions, fitted))
    tables |= week_tables(predictions, predictor.pack)
    return NewForecast(
        recipe, tables, fitted.fitted[1], naming_info(predictions), predictor.settings.store_as_of
    )


def _keep(settings: Settings, request: ForecastRequest, new: NewForecast) -> ForecastResult:
    """Into the archive with it, unless it is there."""
    archive = ForecastArchive(request.out or forecasts_folder(settings))
    if new.tables is None or new.fitted_until is None:
        stored = archive.find(new.recipe)
        if stored is None:
            raise ForecastError(
                f"{archive.path(new.recipe.origin, new.recipe.id)} has been removed"
            )
        return ForecastResult(stored, made=False)
    stored = archive.put(
        new.recipe,
        new.tables,
        fitted_until=new.fitted_until,
        named=new.named,
        snapshot=new.snapshot,
        issued_at=issued_before(settings, new.recipe.origin, new.recipe.id)
        if settings.store_as_of
        else None,
    )
    return ForecastResult(stored, made=True)


def open_predictor(
    settings: Settings,
    request: ForecastRequest,
    *,
    on_step: OnStep = silent,
    on_packed: OnPacked | None = None,
) -> Predictor:
    """The model of a request, at work on the store."""
    on_step("opening the model and the measures")
    past = settings.store_as_of is not None
    return Predictor(
        with_past_measures(settings, on_step=on_step) if past else at_one_state(settings),
        request.model,
        number=request.futures,
        seed=request.seed,
        on_packed=on_packed,
    )


def check_horizon(horizon: int) -> None:
    """Refuse a number of days ahead that nothing is fitted for."""
    if horizon not in HORIZONS:
        raise ForecastError(f"horizon {horizon} is not between {HORIZONS[0]} and {HORIZONS[-1]}")


def recipe_of(
    predictor: Predictor, at: ForecastOrigin, streams: tuple[str, ...], *, week: bool = False
) -> Recipe:
    """All that decides what a forecast will say."""
    return Recipe(
        origin=at.origin,
        horizon=1,
        streams=streams,
        partial=at.partial,
        data=data_fingerprint(predictor, at.origin),
        model=model_fingerprint(predictor.folder),
        futures=predictor.sampler.number,
        seed=predictor.sampler.seed,
        gdelphi=__version__,
        week=week,
    )


def data_fingerprint(predictor: Predictor, origin: date) -> str:
    """A short name for the days up to an origin, and how they are described.

    Each day's file says what it was made from, and a predictor does not open while one is behind
    the store; so those marks stand for the days' rows, and thousands of files need not be read.
    """
    clouds = Clouds(measures_folder(predictor.settings)).files.made_from()
    known = [[day.isoformat(), clouds[day]] for day in sorted(clouds) if day <= origin]
    rule = atom_rule(predictor.settings.measures)
    return text_digest(json.dumps([known, predictor.pack.facts.space, repr(rule)]))


def _likely_events(
    predictor: Predictor, predictions: Sequence[Prediction], fitted: Reconstructor
) -> list[ReconstructedEvent]:
    """The likeliest headlines of each level with their arguments and evidence."""
    events: list[ReconstructedEvent] = []
    for first in range(0, len(predictions), STREAMS_AT_ONCE):
        some = predictions[first : first + STREAMS_AT_ONCE]
        asked = [
            PastEvent(prediction.stream, level, code)
            for prediction in some
            for level in LEVELS
            for code in _likeliest(prediction.level(level))
        ]
        origin = some[0].origin
        with Store(predictor.settings).reading() as connection:  # briefly: readers keep writers out
            reports = past_reports(connection, asked, origin)
        for one in asked:
            arguments = fitted.arguments(one.stream, one.code, origin, level=one.level)
            likely = {
                kind: {
                    candidate.value: candidate.probability
                    for candidate in arguments.candidates(kind)
                }
                for kind in KINDS
            }
            evidence = choose_precedents(reports[one], likely=likely)
            events.append(ReconstructedEvent(one.level, replace(arguments, evidence=evidence)))
    return events


def _likeliest(forecast: Forecast) -> list[str]:
    likeliest = np.argsort(-forecast.headline, kind="stable")[:EVENTS]  # ties by code
    return [forecast.codes[place] for place in likeliest]
