"""A small store with forecasts made by hand, their scores and a report, for tests of questions."""

from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import ForecastManifest, forecasts_folder
from gdelphi.judge.files import scores_path, week_scores_path, write_table
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.report_world import recipe_at, stored

FIRST = date(2014, 1, 1)
ORIGINS = tuple(FIRST + timedelta(days=number) for number in range(3))
STREAMS = ("KE", "UP")
PAGE = "<!doctype html><title>report</title>"


def said(origin: date) -> Any:
    """What is published: roots from 0.1 on, more for each later origin; fights in Kenya most."""

    def published(stream: str, level: str, code: str, target: str) -> float | None:
        if (level, code, target) == ("root", "20", "surge"):
            return None
        if (stream, level, code) == ("KE", "root", "19"):
            return 0.5 + 0.1 * ORIGINS.index(origin)
        return 0.2 if level == "root" else 0.01

    return published


def came(stream: str, code: str) -> float:
    """Fights in Kenya come, nothing else does."""
    return float((stream, code) == ("KE", "19"))


def make_world(folder: Path, **flags: Any) -> Settings:
    """Three days of news, a forecast from each, scores of the first two, one report."""
    archive = ArchiveMaker(folder / "archive")
    for number, day in enumerate(ORIGINS):
        lines = [event_line(100 * number + place, day) for place in range(12)]
        hostile = "https://news.example/\x1b[2J<script>"
        lines.append(event_line(100 * number + 50, day, SOURCEURL=hostile, NumMentions=99))
        archive.day(day, lines)
    archive.write_lists()
    settings = settings_for(folder / "s.duckdb", archive.folder, **flags)
    ingest(settings)
    for number, origin in enumerate(ORIGINS):
        recipe = recipe_at(origin, STREAMS, week=True)
        forecast = stored(forecasts_folder(settings), recipe, said(origin))
        if number < 2:
            write_scores(settings, forecast.manifest, forecast.table("probabilities"))
            write_week_scores(settings, forecast.manifest, forecast.table("week"))
    report = folder / "reports" / ORIGINS[-1].isoformat()
    report.mkdir(parents=True)
    (report / "index.html").write_text(PAGE)
    (report / "report.json").write_text("{}")
    (report.parent / "index.html").write_text("<!doctype html><title>all</title>")
    return settings


def write_scores(settings: Settings, manifest: ForecastManifest, table: pa.Table) -> None:
    keys = zip(table["stream"].to_pylist(), table["code"].to_pylist(), strict=True)
    outcome = pa.array([came(*key) for key in keys])
    path = scores_path(forecasts_folder(settings), manifest.recipe.origin, manifest.id)
    write_table(table.append_column("outcome", outcome), path)


def write_week_scores(settings: Settings, manifest: ForecastManifest, table: pa.Table) -> None:
    keys = zip(table["stream"].to_pylist(), table["code"].to_pylist(), strict=True)
    outcome = pa.array([came(*key) for key in keys])
    path = week_scores_path(forecasts_folder(settings), manifest.recipe.origin, manifest.id)
    write_table(table.append_column("outcome", outcome), path)


@cache
def _world(folder: Path) -> Settings:
    return make_world(folder)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Made once, for all modules; not to be changed."""
    return _world(tmp_path_factory.getbasetemp() / "questions")
