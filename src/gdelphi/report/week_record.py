"""How good forecasts of the week have been, by horizon and target: for the report.

From the scores of stored forecasts whose weeks are over, or, before there are enough of them, from
a backtest that has judged weeks. What is published is held against the simple stack of the same
horizon. Intervals come from blocks of 14 days, since neighbouring weeks share days; with less than
two blocks there is none.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from gdelphi.common.errors import GdelphiError, JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.types import AHEAD, TARGETS, BoolArray, FloatArray
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.judge.files import WEEK, BacktestFolder, read_table, week_scores_path
from gdelphi.report.choose import ForecastFolder, rank
from gdelphi.report.plain import number
from gdelphi.report.record import FEWEST, PUBLISHED, backtest_folder
from gdelphi.report.week_content import WeekRecord, WeekSkill
from gdelphi.scores.probabilities import Bootstrap, brier, skill
from gdelphi.stack.linear import SIMPLE

# `judge/week.py` has both too, but brings with it all that makes forecasts; a test holds them
# together.
BLOCK_DAYS: Final = 14
HORIZONS: Final = (*range(1, AHEAD + 1), 0)
KEYS: Final = ["stream", "code", "horizon", "target"]
LONGEST: Final = 90  # judged weeks that are looked back on


class JudgedRecord(NamedTuple):
    """A record, and what was judged."""

    source: Literal["forecasts", "backtest"]
    record: WeekRecord


def week_record(settings: Settings, forecasts: ForecastFolder, until: date) -> JudgedRecord | None:
    """The record of weeks that were over by a day; None where too few were judged."""
    stored = _stored_weeks(forecasts, until)
    if len(stored) >= FEWEST:
        return JudgedRecord("forecasts", _record(stored))
    tested = _backtest_weeks(settings, until)
    return JudgedRecord("backtest", _record(tested)) if len(tested) >= FEWEST else None


def _stored_weeks(folder: ForecastFolder, until: date) -> dict[date, Any]:
    """Origin -> scores, of one forecast of each origin; none made in hindsight, and none whose
    scores cannot be read."""

    def path_of(manifest: ForecastManifest) -> Path:
        return week_scores_path(folder.path, manifest.recipe.origin, manifest.id)

    by_origin: dict[date, list[ForecastManifest]] = {}
    for manifest in folder.manifests:
        origin = manifest.recipe.origin
        over = origin + timedelta(days=AHEAD) <= until
        if over and not manifest.hindsight and path_of(manifest).exists():
            by_origin.setdefault(origin, []).append(manifest)
    chosen = {origin: max(found, key=rank) for origin, found in by_origin.items()}
    weeks = {}
    for origin in _last(chosen):
        with suppress(JudgeError):
            weeks[origin] = read_table(path_of(chosen[origin]))
    return weeks


def _backtest_weeks(settings: Settings, until: date) -> dict[date, Any]:
    """Origin -> scores, of a backtest that has judged weeks on days that nothing was fitted on."""
    path = backtest_folder(settings)
    if path is None:
        return {}
    backtest = BacktestFolder(path)
    try:
        if WEEK not in backtest.kinds:
            return {}
        allowed = date.fromisoformat(backtest.run()["origin"]["first_allowed"])
        known = {
            day - timedelta(days=1): day
            for day in backtest.days()
            if allowed <= day and day + timedelta(days=AHEAD - 1) <= until
        }
        return {origin: backtest.read_day(WEEK, known[origin]) for origin in _last(known)}
    except (GdelphiError, OSError, KeyError):
        return {}  # the record of tomorrow says what is wrong with it


def _last(origins: Mapping[date, object]) -> list[date]:
    return sorted(origins)[-LONGEST:]


def _record(weeks: Mapping[date, Any]) -> WeekRecord:
    """By horizon and target, over the weeks that speak of the same cells as the newest."""
    tables = [weeks[origin] for origin in sorted(weeks)]
    keys = tables[-1].select(KEYS)
    alike = [table for table in tables if table.select(KEYS).equals(keys)]
    said, bar, came = (
        np.stack([table[name].to_numpy().astype(np.float64) for table in alike])
        for name in (PUBLISHED, SIMPLE, "outcome")
    )
    ours, others = brier(said, came), brier(bar, came)
    horizons = np.array(keys["horizon"].to_pylist())
    targets = np.array(keys["target"].to_pylist())
    record: WeekRecord = {}
    for horizon in HORIZONS:
        for target in TARGETS:
            line = _line(ours, others, (horizons == horizon) & (targets == target))
            if line is not None:
                record.setdefault(horizon, {})[target] = line
    return record


def _line(ours: FloatArray, others: FloatArray, rows: BoolArray) -> WeekSkill | None:
    """Of scores [week, row], on some rows."""
    known = ~np.isnan(ours[:, rows] + others[:, rows])
    if not known.any():
        return None
    found = skill(ours[:, rows], others[:, rows], Bootstrap(block_days=BLOCK_DAYS))
    value = number(found.value)
    if value is None:
        return None
    return WeekSkill(
        brier=float(ours[:, rows][known].mean()),
        skill=value,
        low=number(found.low),
        high=number(found.high),
        days=int(known.any(axis=1).sum()),
    )
