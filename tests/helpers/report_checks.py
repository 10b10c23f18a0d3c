"""Shared by tests: report checks."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gdelphi.common.settings import Settings
from gdelphi.report.report import (
    ReportRequest,
    ReportWritten,
    make_report,
)
from helpers.measured_world import day_at, measured
from helpers.report_world import recipe_at, stored

ORIGIN = day_at(70)


AFTER = ORIGIN + timedelta(days=1)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return measured(tmp_path_factory).settings


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return measured(tmp_path_factory).pack.facts.streams[:2]


@pytest.fixture
def forecasts(streams: tuple[str, ...], tmp_path: Path) -> Path:
    folder = tmp_path / "forecasts"
    stored(folder, recipe_at(ORIGIN, streams))
    return folder


def made(settings: Settings, forecasts: Path, **given: Any) -> ReportWritten:
    asked = {"forecasts": forecasts, "out": forecasts.parent / "reports", "as_of": AFTER, **given}
    return make_report(settings, ReportRequest(**asked))


def check(folder: Path) -> dict[str, Any]:
    """What report.json says, held against the schema beside it."""
    text = (folder / "report.json").read_text(encoding="utf-8")
    assert "NaN" not in text and "Infinity" not in text
    said: dict[str, Any] = json.loads(text)
    schema = json.loads((folder / "report.schema.json").read_text(encoding="utf-8"))
    checker = jsonschema.validators.validator_for(schema)
    checker.check_schema(schema)
    checker(schema, format_checker=checker.FORMAT_CHECKER).validate(said)
    return said
