"""The record of the week: of stored forecasts, or of a backtest; and what is not claimed."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.judge import week as judge_week
from gdelphi.judge.files import KINDS, WEEK, BacktestFolder, week_scores_path, write_table
from gdelphi.report.choose import ForecastFolder
from gdelphi.report.record import FEWEST
from gdelphi.report.week_record import BLOCK_DAYS, HORIZONS, week_record
from helpers.report_world import recipe_at

FIRST = date(2023, 1, 2)
STREAMS = ("KE", "UG")


def scores(seed: int, *, published: float, streams: Sequence[str] = STREAMS) -> pa.Table:
    """A week in which every second thing came; the simple stack says 0.4 of all, so its Brier score
    is 0.26; an escalation without a code is beside them."""
    chance = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = [
        {
            "stream": stream, "code": code, "horizon": horizon, "target": target,
            "outcome": float(chance.random() < 0.5), "onset": False, "published": published,
            "simple stack": 0.4,
        }
        for target in TARGETS for horizon in HORIZONS for stream in streams
        for code in ("14", "19")
    ]  # fmt: skip
    rows.append({**rows[0], "code": None, "horizon": 0, "target": "escalation", "onset": None})
    return pa.Table.from_pylist(rows)


def folder_of(path: Path, origins: Sequence[date], **changes: Any) -> ForecastFolder:
    """Forecasts whose weeks are scored; their own files are not needed."""
    manifests = []
    for number, origin in enumerate(origins):
        recipe = recipe_at(origin, STREAMS, week=True)
        fitted = changes.get("fitted", FIRST - timedelta(days=9))
        manifest = ForecastManifest(recipe, datetime(2023, 1, 3, tzinfo=UTC), fitted)
        table = scores(number, published=changes.get("published", 0.5))
        write_table(table, week_scores_path(path, origin, manifest.id))
        manifests.append(manifest)
    return ForecastFolder(path, tuple(manifests))


def days_from(first: date, number: int) -> list[date]:
    return [first + timedelta(days=ahead) for ahead in range(number)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=tmp_path / "store.duckdb")


def test_blocks_and_horizons_are_those_of_the_judge() -> None:
    assert (BLOCK_DAYS, HORIZONS) == (judge_week.BLOCK_DAYS, judge_week.HORIZONS)


def test_stored_weeks_are_judged_by_their_scores(settings: Settings, tmp_path: Path) -> None:
    origins = days_from(FIRST, 40)
    found = week_record(settings, folder_of(tmp_path, origins), origins[-1] + timedelta(days=7))
    assert found is not None and found.source == "forecasts"
    assert set(found.record) == set(HORIZONS)
    line = found.record[0]["headline"]
    assert line.days == 40
    assert line.brier == pytest.approx(0.25)
    assert line.low is not None and line.high is not None
    assert line.low <= line.skill <= line.high
    came = np.concatenate(
        [
            [
                row["outcome"]
                for row in scores(number, published=0.5).to_pylist()
                if (row["horizon"], row["target"]) == (0, "headline")
            ]
            for number in range(40)
        ]
    )
    bar = ((0.4 - came) ** 2).mean()
    assert line.skill == pytest.approx(1 - 0.25 / bar, abs=1e-5)


def test_weeks_that_are_not_over_and_hindsight_do_not_count(
    settings: Settings, tmp_path: Path
) -> None:
    origins = days_from(FIRST, 12)
    folder = folder_of(tmp_path, origins)
    found = week_record(settings, folder, origins[-1])
    assert found is not None and found.record[0]["occurs"].days == 12 - 7
    assert found.record[0]["occurs"].low is None  # less than two blocks
    assert week_record(settings, folder, origins[FEWEST]) is None
    late = folder_of(tmp_path / "late", origins, fitted=origins[-1])
    assert week_record(settings, late, date(2023, 3, 1)) is None


def test_a_damaged_file_is_passed_over(settings: Settings, tmp_path: Path) -> None:
    origins = days_from(FIRST, FEWEST + 1)
    folder = folder_of(tmp_path, origins)
    week_scores_path(tmp_path, origins[0], folder.manifests[0].id).write_bytes(b"no parquet")
    found = week_record(settings, folder, date(2023, 3, 1))
    assert found is not None and found.record[1]["surge"].days == FEWEST


@pytest.mark.parametrize("horizon", [1, 7])
def test_a_backtest_takes_the_place_if_it_has_weeks(
    settings: Settings, tmp_path: Path, horizon: int
) -> None:
    backtest = BacktestFolder(tmp_path / "backtest")
    days = days_from(FIRST, 10)
    asked = {"level": "root", "horizon": horizon}
    allowed = days[1].isoformat()
    backtest.begin({"asked": asked, "first_allowed": allowed}, {})
    nothing = pa.table({"stream": pa.array([], pa.string())})
    for number, day in enumerate(days):
        tables = {**dict.fromkeys(KINDS, nothing), WEEK: scores(number, published=0.3)}
        backtest.write_day(day, tables)
    none = ForecastFolder(tmp_path, ())
    found = week_record(settings, none, days[-1] + timedelta(days=6))
    if horizon == 1:
        assert found is None
        return
    assert found is not None and found.source == "backtest"
    assert found.record[7]["headline"].days == 9  # the first was fitted on
    assert week_record(settings, none, days[4]) is None
