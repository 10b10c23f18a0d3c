"""Making a report: what `gdelphi report` does.

    store and stored forecast -> content -> report.json -> page, Markdown, tables
                                            all report.json -> front page, feed

One folder for each origin. It is written beside its place and moved there; a report that is made
again takes the old one's place file by file, the page last, since folders cannot be exchanged in
one step: every file is always whole. The front page and the feed are made anew from the reports
that are there, so deleting a folder is all that it takes to withdraw a report.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from gdelphi import __version__
from gdelphi.common.checksums import note_file
from gdelphi.common.errors import ForecastError, ReportError
from gdelphi.common.files import alone, remove_left_over
from gdelphi.common.percent import percent
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import (
    ForecastManifest,
    NamingInfo,
    forecasts_folder,
    model_fingerprint,
)
from gdelphi.forecast.stored_week import StoredWeek, read_week
from gdelphi.report import page
from gdelphi.report.again import Moment, moment_of
from gdelphi.report.banners import (
    ReportState,
    banners,
    is_stale,
)
from gdelphi.report.beside import BESIDE, beside_page
from gdelphi.report.changes import changes_of
from gdelphi.report.charts import chart_files, chart_png
from gdelphi.report.choose import (
    ForecastFolder,
    read_forecast_folder,
    said_before,
)
from gdelphi.report.content import (
    CountryReport,
    Provenance,
    Report,
)
from gdelphi.report.countries import forecast_countries, past_countries
from gdelphi.report.day_links import DayLinks, days_in, links_of, tell_neighbours
from gdelphi.report.lists import PAGE as PAGE
from gdelphi.report.lists import REPORT, write_lists
from gdelphi.report.markdown import markdown
from gdelphi.report.news import news_of
from gdelphi.report.past import (
    PastNews,
    gaps,
    read_past,
)
from gdelphi.report.plain import clean, clean_or_none
from gdelphi.report.record import PastForecasts, judged_forecasts, record_of
from gdelphi.report.tables import csv_files
from gdelphi.report.timeline import past_said, timeline_of, yesterday_of
from gdelphi.report.week import week_report
from gdelphi.report.week_record import week_record
from gdelphi.store.status import Status, read_status

ChartFiles = Literal["svg", "png"]
SCHEMA: Final = "report.schema.json"
TEXT: Final = "report.md"
NAMINGS: Final = {
    "origin": "A phrase of a possible tomorrow is the one of the past day that it was drawn from, "
    "though the model may have moved it since.",
    "nearest": "A phrase of a possible tomorrow is the one, of all in the country's past news, "
    "that is nearest to where the model has moved it.",
    "namer": "A phrase of a possible tomorrow is written by a model of words for the place that "
    "it was moved to; it may never have occurred.",
}


@dataclass(frozen=True)
class ReportRequest:
    """Which report is made, from what, and where it goes."""

    origin: date | Literal["latest"] = "latest"
    """latest: the newest with a stored forecast; if there is none, the last complete news day"""
    forecasts: Path | None = None
    """folder of forecasts; None: beside the store"""
    out: Path | None = None
    """folder of reports; None: as the settings have it, or beside the store"""
    as_of: date | None = None
    """judge what is stale and complete as of this day; None: today, UTC"""
    model: Path | None = None
    """folder of the model, to tell when it was trained; None: the one in use"""


@dataclass(frozen=True)
class ReportWritten:
    """What `gdelphi report` did."""

    folder: Path
    report: Report
    warnings: list[str] = field(default_factory=list)
    """other reports that cannot be read, and so are in no list"""


def reports_folder(settings: Settings) -> Path:
    """Where a store's reports go."""
    return settings.report.folder or settings.store.parent / "reports"


def make_report(
    settings: Settings, request: ReportRequest | None = None, *, on_step: OnStep = silent
) -> ReportWritten:
    """Make the report of an origin, and the lists of all reports."""
    request = request or ReportRequest()
    out = request.out or reports_folder(settings)
    report = gather_report(settings, request, on_step=on_step)
    on_step("writing the report")
    folder = out / report.origin.isoformat()
    # Made again, a page has the links of the published one, wherever it is written.
    beside = reports_folder(settings) if settings.store_as_of else out
    with _alone(out):
        links = links_of(report.origin, days_in(beside))
        files = _files(report, links, settings.report.charts)
        if links.week_before:
            files = {BESIDE: beside_page(report, beside, links.week_before), **files}
        _put(folder, files)
        tell_neighbours(out, report.origin)
        warnings = write_lists(
            out, title=clean(settings.report.title), address=settings.report.address
        )
    return ReportWritten(folder, report, warnings)


# --- content --------------------------------------------------------------------------------------


def gather_report(
    settings: Settings, request: ReportRequest, *, on_step: OnStep = silent
) -> Report:
    """The content of a report; nothing is written."""
    on_step("looking at the store and the forecasts")
    folder = read_forecast_folder(request.forecasts or forecasts_folder(settings))
    with moment_of(settings, folder, request.origin, reports_folder(settings)) as moment:
        return _gather(moment, request, on_step)


def _gather(moment: Moment, request: ReportRequest, on_step: OnStep) -> Report:
    settings, forecasts = moment.settings, moment.forecasts
    status = read_status(settings, request.as_of or moment.today)
    origin = _origin(settings, request, forecasts, status)
    manifest = forecasts.at(origin)
    on_step(f"reading the days up to {origin}")
    past = read_past(settings, origin, manifest.recipe.streams if manifest else None, status)
    on_step("gathering countries")
    countries, week, earlier, problems = _countries(settings, forecasts, manifest, past)
    on_step("looking how good forecasts have been")
    judged = judged_forecasts(forecasts, origin)
    record = record_of(settings, forecasts, origin, judged)
    countries = _with_timelines(countries, past_said(settings, judged[0], origin))
    streams = [country.stream for country in countries]
    watched = [stream for stream in settings.report.watchlist if stream in streams] or streams
    partial = manifest.recipe.partial if manifest else not status.is_complete(origin)
    state = ReportState(
        settings=settings,
        status=status,
        origin=origin,
        partial=partial,
        manifest=manifest,
        past=past,
        record=record,
        problems=[*forecasts.problems, *problems],
        unknown=[stream for stream in settings.report.watchlist if stream not in streams],
    )
    return Report(
        title=clean(settings.report.title),
        origin=origin,
        target_day=manifest.target_day if manifest else origin + timedelta(days=1),
        complete_at=past.complete_at,
        issued_at=manifest.issued_at.replace(microsecond=0) if manifest else moment.at,
        published_at=moment.at,
        partial=partial,
        hindsight=manifest.hindsight if manifest else False,
        stale=is_stale(settings, origin, status.as_of),
        banners=banners(state),
        naming=describe_naming(manifest.named) if manifest else None,
        days=list(past.days),
        week=week_report(week, record, week_record(settings, forecasts, origin), earlier)
        if week
        else None,
        yesterday=yesterday_of(judged[0]),
        news=news_of(settings, past) if manifest is None else None,
        watchlist=watched,
        changes=changes_of(countries, watched, past),
        countries=countries,
        record=record,
        missing=gaps(status, past.days),
        provenance=_provenance(settings, request, manifest, status),
    )


def _origin(
    settings: Settings, request: ReportRequest, forecasts: ForecastFolder, status: Status
) -> date:
    if request.origin != "latest":
        _check_origin(settings, request.origin, status)
        return request.origin
    latest = forecasts.newest(status.as_of) or status.latest_complete_day
    if latest is None:
        raise ReportError(
            f"{settings.store} has no complete day and {forecasts.path} no forecast: there is "
            "nothing to report; `gdelphi status` says why"
        )
    return latest


def _check_origin(settings: Settings, origin: date, status: Status) -> None:
    first, last = status.first_day, status.last_day
    if first is None or last is None or not first <= origin <= last:
        there = f"has days from {first} to {last}" if first else "has no days"
        raise ReportError(
            f"{origin} is no news day of {settings.store}, which {there}: take another --origin, "
            "or `gdelphi ingest`"
        )


def _countries(
    settings: Settings, forecasts: ForecastFolder, manifest: ForecastManifest | None, past: PastNews
) -> tuple[list[CountryReport], StoredWeek | None, StoredWeek | None, list[str]]:
    """All countries, the forecast's week, that of one origin earlier, and what is wrong with it."""
    if manifest is None:
        return past_countries(settings, past), None, None, []
    earlier, problems = None, []
    try:
        earlier = forecasts.week_before(manifest.recipe.origin)
    except ForecastError as error:
        problems.append(str(error))
    forecast = forecasts.load(manifest)
    week = read_week(forecast)
    countries = forecast_countries(settings, forecast, past, said_before(earlier), week)
    return countries, week, earlier, problems


def _with_timelines(
    countries: list[CountryReport], said: tuple[str, PastForecasts] | None
) -> list[CountryReport]:
    """Countries with what was said of them on the last judged days."""
    if said is None:
        return countries
    return [
        country.model_copy(update={"timeline": timeline_of(*said, country.stream)})
        for country in countries
    ]


def _provenance(
    settings: Settings, request: ReportRequest, manifest: ForecastManifest | None, status: Status
) -> Provenance:
    recipe = manifest.recipe if manifest else None
    return Provenance(
        forecast=manifest.id if manifest else None,
        data=clean_or_none(recipe.data if recipe else status.fingerprint),
        model=clean(recipe.model) if recipe else None,
        futures=recipe.futures if recipe else None,
        seed=recipe.seed if recipe else None,
        gdelphi=clean(recipe.gdelphi) if recipe else __version__,
        trained_until=_trained_until(settings, request, manifest),
        fitted_until=manifest.fitted_until if manifest else None,
        snapshot=settings.store_as_of,
    )


def describe_naming(named: NamingInfo | None) -> str:
    """How phrases of futures are named, in a sentence."""
    if named is None or named.by == "origin":
        return NAMINGS["origin"]
    other = named.renamed / max(named.atoms, 1)
    return f"{NAMINGS[named.by]} {percent(other)} of them are another than it was drawn from."


def _trained_until(
    settings: Settings, request: ReportRequest, manifest: ForecastManifest | None
) -> date | None:
    """The last training day of the model that made the forecast, if it lies where it is said to."""
    folder = request.model or settings.flows.models / "current"
    if manifest is None:
        return None
    try:
        if model_fingerprint(folder) != manifest.recipe.model:
            return None
        training = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        return date.fromisoformat(training["origin"]["split"]["train"][1])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


# --- files ----------------------------------------------------------------------------------------


def _files(report: Report, days: DayLinks, charts: ChartFiles = "svg") -> dict[str, str | bytes]:
    """All files of a report, in the order in which they are put in place."""
    return {
        SCHEMA: json.dumps(report_schema(), indent=1) + "\n",
        **csv_files(report),
        **_chart_files(report, charts),
        TEXT: markdown(report),
        REPORT: report.model_dump_json() + "\n",
        PAGE: page.render(report, days),
    }


def _chart_files(report: Report, wanted: ChartFiles) -> dict[str, str | bytes]:
    drawn = chart_files(report)
    made: dict[str, str | bytes] = dict(drawn)
    if wanted == "png":
        made |= {f"{name.removesuffix('.svg')}.png": chart_png(svg) for name, svg in drawn.items()}
    return made


def report_schema() -> dict[str, Any]:
    """The JSON schema of report.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Report.model_json_schema(mode="serialization"),
    }


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time writes reports."""
    try:
        with alone(folder):
            yield
    except OSError as error:
        raise ReportError(
            f"reports cannot be written to {folder} ({error}): name another folder with --out or "
            "report.folder"
        ) from None


def _put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """A folder with these files: new in one move, or else file by file."""
    remove_left_over(folder.parent)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        for name, text in files.items():
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if folder.exists():
            for name in files:
                (folder / name).parent.mkdir(exist_ok=True)
                note_file(folder / name, beside / name)
                (beside / name).replace(folder / name)
        else:
            note_file(folder, beside)
            beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
