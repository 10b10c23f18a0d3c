"""Scores of stored forecasts whose day has come.

A forecast's folder is never touched again, its checksums see to that. Scores lie beside all of
them, one file for each forecast, `scores/ORIGIN/ID.parquet` in the folder of forecasts: a file that
is there is done, so scoring again does only what is new. Not chosen: one growing table, which would
be written anew every day.

A day is held against the forecast when it is complete. A surge is told by the days before the
origin as the store has them now.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gdelphi.common.errors import JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS, TARGETS, FloatArray
from gdelphi.forecast.archive import ForecastStore, StoredForecast
from gdelphi.forecast.origin import resolve_origin
from gdelphi.forecast.publisher import PUBLISHED
from gdelphi.forecast.tables import OF_FUTURES
from gdelphi.judge.files import read_table, write_table
from gdelphi.judge.files import scores_path as scores_path
from gdelphi.measures.profiles import (
    SURGE_DAYS,
    outcomes,
    read_profiles,
)
from gdelphi.scores.probabilities import (
    Skill,
    brier,
    log_score,
    skill,
)

KEYS: Final = ("stream", "level", "code", "target")
NOT_FORECASTERS: Final = (*KEYS, "which", OF_FUTURES)
LOOK_BACK: Final = 4 * SURGE_DAYS  # calendar days in which enough present ones are found
REFERENCE: Final = "stack"


@dataclass(frozen=True)
class ForecasterScore:
    """What is published against the stack, over all scored forecasts of a level and target."""

    level: str
    target: str
    days: int
    cells: int
    published: float
    stack: float
    skill: Skill


@dataclass(frozen=True)
class ForecastsScored:
    """What `gdelphi score` did."""

    folder: Path
    scored: list[str]
    """ids of forecasts that were scored now"""
    known: int
    """that had been scored before"""
    waiting: int
    """whose day has not come, or is not complete"""
    hindsight: int
    """among the scored, with something fitted on days after the origin: in no table"""
    standings: list[ForecasterScore]


def score_forecasts(
    settings: Settings, folder: Path, *, as_of: date | None = None
) -> ForecastsScored:
    """Score all forecasts of a folder whose day has come and that have no scores yet."""
    store = ForecastStore(folder)
    manifests = store.list()
    if not manifests:
        raise JudgeError(f"no forecasts in {folder}: `gdelphi forecast --out {folder}` makes some")
    new, known, waiting = [], 0, 0
    for manifest in manifests:
        path = scores_path(folder, manifest.recipe.origin, manifest.id)
        if path.exists():
            known += 1
        elif resolve_origin(settings, manifest.target_day, as_of=as_of, allow_partial=True).partial:
            waiting += 1
        else:
            stored = store.load(manifest.recipe.origin, manifest.id)
            write_table(scores_of(settings, stored), path)
            new.append(manifest.id)
    there = {
        (each.target_day, each.id): scores_path(folder, each.recipe.origin, each.id)
        for each in manifests
        if not each.hindsight
    }
    kept = {key: path for key, path in there.items() if path.exists()}
    hindsight = known + len(new) - len(kept)
    return ForecastsScored(folder, new, known, waiting, hindsight, list(_standings(kept)))


def scores_of(settings: Settings, stored: StoredForecast) -> pa.Table:
    """Outcome, Brier and log score of each cell and forecaster; null where there is no outcome."""
    table = stored.table("probabilities")
    recipe = stored.manifest.recipe
    came = _outcomes(settings, recipe.streams, recipe.origin, recipe.horizon)
    keys = zip(*(table[name].to_pylist() for name in KEYS), strict=True)
    outcome = np.array([came[key] for key in keys])
    columns = {name: table[name] for name in KEYS}
    columns["outcome"] = pa.array(outcome, from_pandas=True)
    for name in table.column_names:
        if name not in NOT_FORECASTERS:
            said = table[name].to_numpy()
            columns[f"{name} brier"] = pa.array(brier(said, outcome), from_pandas=True)
            columns[f"{name} log"] = pa.array(log_score(said, outcome), from_pandas=True)
    return pa.table(columns)


def _outcomes(
    settings: Settings, streams: Sequence[str], origin: date, horizon: int
) -> dict[tuple[str, str, str, str], float]:
    """What came, by stream, level, code and target."""
    found: dict[tuple[str, str, str, str], float] = {}
    since, until = origin - timedelta(days=LOOK_BACK), origin + timedelta(days=horizon)
    for level in LEVELS:
        history = read_profiles(settings, level, streams, since=since, until=until)
        came = outcomes(history, origin, horizon)
        for target in TARGETS:
            for place, stream in enumerate(streams):
                for number, code in enumerate(history.codes):
                    found[stream, level, code, target] = float(came[target][place, number])
    return found


def _standings(paths: Mapping[tuple[date, str], Path]) -> Iterator[ForecasterScore]:
    """Published against the stack; of several forecasts for a day all count, in one block."""
    if not paths:
        return
    tables = [read_table(paths[key]) for key in sorted(paths)]
    for level in LEVELS:
        for target in TARGETS:
            mine, bar = (
                [_column(table, f"{name} brier", level, target) for table in tables]
                for name in (PUBLISHED, REFERENCE)
            )
            size = max(len(each) for each in mine)
            score, reference = (np.stack([_padded(x, size) for x in each]) for each in (mine, bar))
            cells = ~(np.isnan(score) | np.isnan(reference))
            if cells.any():
                yield ForecasterScore(
                    level, target, len({day for day, _ in paths}), int(cells.sum()),
                    float(score[cells].mean()), float(reference[cells].mean()),
                    skill(score, reference),
                )  # fmt: skip


def _column(table: Any, name: str, level: str, target: str) -> FloatArray:
    levels, targets = (np.array(table[key].to_pylist()) for key in ("level", "target"))
    values: FloatArray = table[name].to_numpy()[(levels == level) & (targets == target)]
    return values


def _padded(values: FloatArray, size: int) -> FloatArray:
    found = np.full(size, np.nan)
    found[: len(values)] = values
    return found
