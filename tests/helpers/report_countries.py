"""Shared by tests: report countries."""

from datetime import date
from pathlib import Path

import pytest

from gdelphi.common.settings import Settings
from gdelphi.forecast.stored_week import read_week
from gdelphi.report.choose import read_forecast_folder, said_before
from gdelphi.report.content import CountryReport
from gdelphi.report.countries import forecast_countries
from gdelphi.report.past import PastNews, read_past
from gdelphi.store.status import read_status
from helpers.measured_world import day_at, measured

ORIGIN = day_at(70)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return measured(tmp_path_factory).settings


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return measured(tmp_path_factory).pack.facts.streams[:2]


def past_of(settings: Settings, origin: date, streams: tuple[str, ...] | None) -> PastNews:
    return read_past(settings, origin, streams, read_status(settings))


def countries_of(settings: Settings, folder: Path, origin: date = ORIGIN) -> list[CountryReport]:
    forecasts = read_forecast_folder(folder)
    manifest = forecasts.at(origin)
    assert manifest is not None
    past = past_of(settings, origin, manifest.recipe.streams)
    forecast = forecasts.load(manifest)
    return forecast_countries(
        settings, forecast, past, said_before(forecasts.week_before(origin)), read_week(forecast)
    )
