"""What a day's run consists of: plain functions, without a scheduler.

    ingest -> embed -> forecast what is due -> score what has come -> report -> alerts

Each step does only what is missing, so a run that is late, killed or done twice ends in the same
place, and a night that was missed is made up for by the next run. A step that fails does not stop
those that can go on without it: a page with yesterday's forecast and a banner is worth more in the
morning than none. What failed is kept as a trouble, and whoever runs the steps fails at the end.

`do` carries out a step. The flows pass one that makes it a Prefect task; nothing here knows.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from gdelphi.alerts.alerts import AlertsRun, send_alerts
from gdelphi.app.bring import bring
from gdelphi.app.notify import notify
from gdelphi.app.promote import (
    PromotionResult,
    model_in_use,
    promote,
)
from gdelphi.common.errors import GdelphiError, PipelineError, TrainingError
from gdelphi.common.files import remove_folder, remove_left_over
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import (
    ForecastArchive,
    forecasts_folder,
    model_fingerprint,
)
from gdelphi.forecast.calibrate import calibrate
from gdelphi.forecast.forecast import (
    ForecastRequest,
    ForecastResult,
    forecasts,
    open_predictor,
)
from gdelphi.forecast.naming import namer_fits
from gdelphi.forecast.naming_choice import USUAL_NAMER
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.score import ScoreResult, score_forecasts
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.embed import EmbedResult, embed
from gdelphi.measures.space import load_space
from gdelphi.model.checkpoint import read_training
from gdelphi.model.loop import Trained
from gdelphi.model.train import train
from gdelphi.report.report import (
    PAGE,
    ReportRequest,
    ReportWritten,
    make_report,
    reports_folder,
)
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestResult
from gdelphi.store.status import complete_days, read_days

if TYPE_CHECKING:
    from gdelphi.text.train import TextTrained

FURTHEST_BACK: Final = 14  # days of missed nights that a run makes up for
CHALLENGER: Final = "challenger-"
CHALLENGERS_KEPT: Final = 3
T = TypeVar("T")
log = logging.getLogger(__name__)


class Do(Protocol):
    """Carries out a step that has a name."""

    def __call__(self, name: str, work: Callable[[], T], /) -> T: ...


def straight(_: str, work: Callable[[], T], /) -> T:
    """A step without ado."""
    return work()


def today() -> date:
    """By the clock that news days go by."""
    return datetime.now(UTC).date()


# --- what is due ----------------------------------------------------------------------------------


def possible_origins(settings: Settings, as_of: date) -> list[date]:
    """The complete days of a store: those that a forecast can be made from."""
    with Store(settings).reading() as connection:
        return complete_days(read_days(connection), as_of)


def due_origins(settings: Settings, model: Path, as_of: date) -> list[date]:
    """Days that a forecast of tomorrow is still to be made from, in their order.

    All complete days since forecasts began that have none, whoever would have made it, up to
    FURTHEST_BACK days back: missed nights, and days that were late. The latest also if it has only
    a forecast of another model, or of this one about fewer streams. Into an empty folder goes the
    latest alone: the past is for `backfill`.
    """
    days = possible_origins(settings, as_of)
    made = ForecastArchive(forecasts_folder(settings)).list()
    tomorrow = [manifest.recipe for manifest in made if manifest.recipe.horizon == 1]
    if not days:
        return []
    latest, origins = days[-1], {recipe.origin for recipe in tomorrow}
    began = min(origins, default=latest)
    since = max(began, latest - timedelta(days=FURTHEST_BACK))
    due = {day for day in days if day >= since and day not in origins}
    name, wanted = model_fingerprint(model), _streams_wanted(settings.flows.streams, model)
    whole = any(
        recipe.origin == latest and recipe.model == name and len(recipe.streams) >= wanted
        for recipe in tomorrow
    )
    return sorted(due if whole else due | {latest})


def _streams_wanted(text: str, model: Path) -> int:
    """How many streams a forecast is about; what text names none is refused when it is made."""
    training = read_training(model, "take the one before with `gdelphi promote --rollback`")
    known = len(training["origin"]["pack"]["streams"])
    if text.strip().lower() == "all":
        return known
    largest = re.fullmatch(r"top(\d+)", text.strip().lower())
    if largest:
        return min(int(largest[1]), known)
    return min(len({name.strip().upper() for name in text.split(",")}), known)


def due_reports(settings: Settings, new: Sequence[date], as_of: date) -> list[date]:
    """Origins whose report is to be written: new ones, those that a killed run owes, the latest."""
    days = possible_origins(settings, as_of)
    if not days:
        return []
    since = days[-1] - timedelta(days=FURTHEST_BACK)
    manifests = ForecastArchive(forecasts_folder(settings)).list()
    origins = {manifest.recipe.origin for manifest in manifests}
    owed = {day for day in origins if day >= since and not _reported(settings, day)}
    return sorted({*new, *owed.intersection(days), days[-1]})


def _reported(settings: Settings, origin: date) -> bool:
    return (reports_folder(settings) / origin.isoformat() / PAGE).exists()


# --- steps ----------------------------------------------------------------------------------------


def score(settings: Settings, as_of: date) -> ScoreResult | None:
    """Score all forecasts whose day has come; None if there are no forecasts."""
    folder = forecasts_folder(settings)
    manifests, problems = ForecastArchive(folder).read()
    if not manifests and not problems:
        return None
    return score_forecasts(settings, folder, as_of=as_of)


def report_on(settings: Settings, origin: date, as_of: date) -> ReportWritten:
    """Write the report of an origin."""
    return make_report(settings, ReportRequest(origin=origin, as_of=as_of))


# --- runs -----------------------------------------------------------------------------------------


@dataclass
class PipelineRun:
    """What a run has done so far, and what went wrong."""

    as_of: date
    ingested: IngestResult | None = None
    embedded: EmbedResult | None = None
    forecasts: list[ForecastResult] = field(default_factory=list)
    scored: ScoreResult | None = None
    reports: list[ReportWritten] = field(default_factory=list)
    alerts: AlertsRun | None = None
    """None: there are no rules, or nothing to look at"""
    notes: list[str] = field(default_factory=list)
    """worth knowing, and no failure"""
    troubles: list[str] = field(default_factory=list)

    @contextmanager
    def going_on(self, what: str) -> Iterator[None]:
        """A step without which others can do; running out of time ends them all."""
        try:
            yield
        except TimeoutError:
            raise
        except (GdelphiError, OSError) as error:
            self.troubles.append(f"{what}: {error}")
        except Exception as error:
            log.exception("%s failed in a way that nobody thought of", what)
            self.troubles.append(f"{what}: {type(error).__name__}: {error}")

    def raise_troubles(self) -> None:
        """Fail if a step has, now that all that could be done is."""
        if self.troubles:
            raise PipelineError("; ".join(self.troubles))


def daily(
    settings: Settings, *, as_of: date | None = None, do: Do = straight, on_step: OnStep = silent
) -> PipelineRun:
    """Everything that is due on a day."""
    run = PipelineRun(as_of or today())
    with run.going_on("ingest"):
        run.ingested = do("ingest", lambda: bring(settings, until=run.as_of))
    with run.going_on("embed"):
        run.embedded = do("embed", lambda: embed(settings))
    with run.going_on("forecast"):
        model = model_in_use(settings)
        if model is None:
            run.notes.append(
                "no model is in use, so the report has no forecast: `gdelphi train`, then "
                "`gdelphi promote`"
            )
        else:
            due = due_origins(settings, model, run.as_of)
            _forecast(settings, run, model, due, do, on_step)
    _finish(settings, run, [made.forecast.manifest.recipe.origin for made in run.forecasts], do)
    _alert(settings, run, do)
    return run


def backfill(
    settings: Settings,
    since: date,
    until: date,
    *,
    as_of: date | None = None,
    do: Do = straight,
    on_step: OnStep = silent,
) -> PipelineRun:
    """Days of the past, as if there had been a run on each: with the model in use now."""
    if since > until:
        raise PipelineError(f"no day is between {since} and {until}: give the earlier one first")
    run = PipelineRun(as_of or today())
    with run.going_on("ingest"):
        run.ingested = do("ingest", lambda: bring(settings, since, until))
    run.embedded = do("embed", lambda: embed(settings))
    model = model_in_use(settings)
    if model is None:
        raise PipelineError("no model is in use: `gdelphi train`, then `gdelphi promote`")
    days = [day for day in possible_origins(settings, run.as_of) if since <= day <= until]
    if not days:
        raise PipelineError(
            f"{settings.store} has no complete day from {since} to {until}: `gdelphi status` says "
            "why"
        )
    _forecast(settings, run, model, days, do, on_step)
    _finish(settings, run, days, do)
    return run


def _forecast(
    settings: Settings,
    run: PipelineRun,
    model: Path,
    origins: Sequence[date],
    do: Do,
    on_step: OnStep,
) -> None:
    """Forecasts from origins, for the streams that the settings name. The model is opened once,
    with the first: that takes longer than a forecast."""
    predictor: Predictor | None = None
    results: Iterator[ForecastResult | GdelphiError] | None = None

    def forecast_from(origin: date) -> ForecastResult:
        nonlocal predictor, results
        streams = settings.flows.streams
        request = ForecastRequest(model, origin, streams=streams, as_of=run.as_of)
        if predictor is None:
            predictor = open_predictor(settings, request)
        if results is None:
            left = origins[origins.index(origin) :]
            results = forecasts(settings, request, left, predictor)
        these, results = results, None  # what nobody thought of ends them
        result = next(these)
        results = these
        if isinstance(result, GdelphiError):
            raise result
        return result

    for number, origin in enumerate(origins, start=1):
        on_step(f"forecast {number} of {len(origins)}: from {origin}")
        with run.going_on(f"forecast from {origin}"):
            run.forecasts.append(do(f"forecast {origin}", partial(forecast_from, origin)))


def _finish(settings: Settings, run: PipelineRun, origins: Sequence[date], do: Do) -> None:
    with run.going_on("score"):
        run.scored = do("score", lambda: score(settings, run.as_of))
        damaged = run.scored.damaged if run.scored else []
        run.troubles += [f"score: {problem}" for problem in damaged]
    with run.going_on("report"):
        due = due_reports(settings, origins, run.as_of)
        if not due:
            raise PipelineError(f"{settings.store} has no complete day: `gdelphi status` says why")
        for origin in due:
            with run.going_on(f"report of {origin}"):
                work = partial(report_on, settings, origin, run.as_of)
                run.reports.append(do(f"report {origin}", work))


def _alert(settings: Settings, run: PipelineRun, do: Do) -> None:
    """Tell whoever wants to know what new forecasts say; only of a daily run: the past is no
    news."""
    if not settings.alerts.rules:
        return
    with run.going_on("alerts"):
        send = partial(notify, settings.flows)
        run.alerts = do("alerts", lambda: send_alerts(settings, send))
        run.troubles += [f"alerts: {problem}" for problem in run.alerts.problems]


# --- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Retrained:
    """What a training run did."""

    trained: Trained
    decided: PromotionResult


def challenger_folder(settings: Settings, as_of: date, name: str | None = None) -> Path:
    """Where the challenger of a day is trained, beside the model in use."""
    return settings.flows.models / (name or f"{CHALLENGER}{as_of.isoformat()}")


def train_challenger(settings: Settings, folder: Path) -> Trained:
    """Train into a folder."""
    return _on_or_anew(partial(train, settings, folder), folder)


def _on_or_anew(work: Callable[..., T], folder: Path) -> T:
    """A training on from where a killed run was, or anew if its days are others."""
    try:
        return work()
    except TrainingError:
        if not (folder / "state").exists():
            raise
        return work(resume=False)


def train_namer(settings: Settings) -> "TextTrained | None":
    """Train a namer for the points of these measures, where none is that fits: names that it gives
    to futures are tried when a challenger is calibrated. None if there is nothing to do."""
    space = load_space(measures_folder(settings) / "space")
    folder = settings.flows.models / USUAL_NAMER
    from gdelphi.text.train import train_text_model  # transformers takes 3 s to load

    if namer_fits(folder, space):
        return None
    return _on_or_anew(partial(train_text_model, settings, "namer", folder), folder)


def calibrate_challenger(settings: Settings, folder: Path) -> None:
    """Fit what the challenger would publish, on days as they are now."""
    embed(settings)  # training takes hours, and days may have come in meanwhile
    calibrate(Predictor(settings, folder))


def decide(settings: Settings, folder: Path, on_step: OnStep = silent) -> PromotionResult:
    """Promote by the rule, and take old challengers away."""
    decided = promote(settings, folder, on_step=on_step)
    challengers = sorted(settings.flows.models.glob(f"{CHALLENGER}*-*-*"))
    for old in challengers[:-CHALLENGERS_KEPT]:
        remove_folder(old)
    remove_left_over(settings.flows.models)
    return decided
