"""Scores of stored forecasts whose day has come.

A forecast's folder is never touched again, its checksums see to that. Scores lie beside all of
them, one file for each forecast, `scores/ORIGIN/ID.parquet` in the folder of forecasts: a file that
is there is done, so scoring again does only what is new. Not chosen: one growing table, which would
be written anew every day.

The file has the columns of a day of a backtest: stream, code, target, the outcome, and the
probability that each forecaster gave; and the level, of which a forecast has three. Scores follow
from these, so nothing has to be recovered from a Brier score. A file without probabilities, as
earlier versions wrote them, is made again.

A day is held against the forecast when it is complete. A surge is told by the days before the
origin as the store has them now. The file carries a mark of all these days: when one of them
changes at its source (a file that came late, or was replaced) the scores are made again.

A forecast that cannot be read is named and passed over. One process scores at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gdelphi.common.checksums import is_damaged
from gdelphi.common.errors import ForecastError, JudgeError
from gdelphi.common.files import alone
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS, TARGETS, FloatArray
from gdelphi.forecast.archive import ForecastArchive, ForecastManifest, StoredForecast
from gdelphi.forecast.origin import resolve_origin
from gdelphi.forecast.publisher import PUBLISHED
from gdelphi.forecast.tables import BEYOND_COLUMN, FUTURES_COLUMN
from gdelphi.judge.files import (
    SCORES,
    days_mark,
    read_columns,
    read_mark,
    read_table,
    scores_path,
    write_table,
)
from gdelphi.judge.score_week import WeekScoreResult, score_weeks
from gdelphi.measures.cloud_update import day_fingerprints
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.targets import LOOK_BACK, outcomes
from gdelphi.scores.probabilities import (
    Skill,
    brier,
    skill,
)

KEYS: Final = ("stream", "level", "code", "target")
NOT_FORECASTERS: Final = (*KEYS, "which", BEYOND_COLUMN, FUTURES_COLUMN)
REFERENCE: Final = "stack"


@dataclass(frozen=True)
class PublishedScore:
    """What is published against the stack, over all scored forecasts of a level and target."""

    level: str
    target: str
    days: int
    cells: int
    published: float
    stack: float
    skill: Skill


@dataclass(frozen=True)
class ScoreResult:
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
    standings: list[PublishedScore]
    weeks: WeekScoreResult
    """the same of the seven days after the origins"""
    damaged: list[str] = field(default_factory=list)
    """what is wrong with forecasts that cannot be read, and so are not scored"""


def score_forecasts(settings: Settings, folder: Path, *, as_of: date | None = None) -> ScoreResult:
    """Score all forecasts of a folder whose day has come and that have no scores yet."""
    manifests, damaged = ForecastArchive(folder).read()
    if not manifests and not damaged:
        raise JudgeError(f"no forecasts in {folder}: `gdelphi forecast --out {folder}` makes some")
    with alone(folder / SCORES):
        return _score(settings, folder, manifests, damaged, as_of)


def _score(
    settings: Settings,
    folder: Path,
    manifests: Sequence[ForecastManifest],
    damaged: list[str],
    as_of: date | None,
) -> ScoreResult:
    archive, fingerprints = ForecastArchive(folder), day_fingerprints(settings)
    new, known, waiting = [], 0, 0
    for manifest in manifests:
        path = scores_path(folder, manifest.recipe.origin, manifest.id)
        since = manifest.recipe.origin - timedelta(days=LOOK_BACK)
        mark = days_mark(fingerprints, since, manifest.target_day)
        there = PUBLISHED in read_columns(path) and not is_damaged(path)
        if there and read_mark(path) == mark:
            known += 1
        elif resolve_origin(settings, manifest.target_day, as_of=as_of, allow_partial=True).partial:
            known, waiting = known + there, waiting + (not there)
        else:
            try:
                stored = archive.load(manifest.recipe.origin, manifest.id)
            except ForecastError as error:
                damaged.append(str(error))
                continue
            write_table(scores_of(settings, stored), path, mark=mark)
            new.append(manifest.id)
    paths = {
        (manifest.target_day, manifest.id): scores_path(folder, manifest.recipe.origin, manifest.id)
        for manifest in manifests
        if not manifest.hindsight
    }
    paths = {key: path for key, path in paths.items() if path.exists() and not is_damaged(path)}
    hindsight = max(0, known + len(new) - len(paths))
    standings = list(_published_scores(paths))
    weeks = score_weeks(settings, archive, fingerprints, damaged, as_of=as_of)
    return ScoreResult(folder, new, known, waiting, hindsight, standings, weeks, damaged)


def scores_of(settings: Settings, stored: StoredForecast) -> pa.Table:
    """The outcome of each cell, and the probability that each forecaster gave; NaN where there is
    no outcome, or where the target is not defined."""
    table = stored.table("probabilities")
    recipe = stored.manifest.recipe
    outcome_of = _outcomes(settings, recipe.streams, recipe.origin, recipe.horizon)
    keys = zip(*(table[name].to_pylist() for name in KEYS), strict=True)
    columns = {name: table[name] for name in KEYS}
    columns["outcome"] = pa.array([outcome_of[key] for key in keys])
    for name in table.column_names:
        if name not in NOT_FORECASTERS:
            columns[name] = pa.array(table[name].to_numpy().astype(np.float64))
    return pa.table(columns)


def _outcomes(
    settings: Settings, streams: Sequence[str], origin: date, horizon: int
) -> dict[tuple[str, str, str, str], float]:
    """Outcomes by stream, level, code and target."""
    outcome_of: dict[tuple[str, str, str, str], float] = {}
    since, until = origin - timedelta(days=LOOK_BACK), origin + timedelta(days=horizon)
    for level in LEVELS:
        history = read_profiles(settings, level, streams, since=since, until=until)
        outcome = outcomes(history, origin, horizon)
        for target in TARGETS:
            for place, stream in enumerate(streams):
                for number, code in enumerate(history.codes):
                    outcome_of[stream, level, code, target] = float(outcome[target][place, number])
    return outcome_of


def _published_scores(paths: Mapping[tuple[date, str], Path]) -> Iterator[PublishedScore]:
    """Published against the stack; of several forecasts for a day all count, in one block."""
    if not paths:
        return
    tables = [read_table(paths[key]) for key in sorted(paths)]
    for level in LEVELS:
        for target in TARGETS:
            cells = [_cells(table, level, target) for table in tables]
            size = max(cell.shape[1] for cell in cells)
            outcome, published, stack = np.stack([_padded(cell, size) for cell in cells], axis=1)
            score, reference = brier(published, outcome), brier(stack, outcome)
            known = ~(np.isnan(score) | np.isnan(reference))
            if known.any():
                yield PublishedScore(
                    level, target, len({day for day, _ in paths}), int(known.sum()),
                    float(score[known].mean()), float(reference[known].mean()),
                    skill(score, reference),
                )  # fmt: skip


def _cells(table: Any, level: str, target: str) -> FloatArray:
    """Outcome, published probability and the stack's, [3, cell]."""
    levels, targets = (np.array(table[key].to_pylist()) for key in ("level", "target"))
    chosen = (levels == level) & (targets == target)
    names = ("outcome", PUBLISHED, REFERENCE)
    return np.stack([table[name].to_numpy()[chosen] for name in names])


def _padded(cells: FloatArray, size: int) -> FloatArray:
    """The columns of a narrower table with NaN behind them, [3, size]."""
    padded = np.full((len(cells), size), np.nan)
    padded[:, : cells.shape[1]] = cells
    return padded
