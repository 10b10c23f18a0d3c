"""Scores of the weeks of stored forecasts, seven days later.

As the scores of tomorrow (`score.py`) they lie beside the forecasts, here as
`scores/ORIGIN/ID-week.parquet`. They are made when the last day of the week is complete, and again
if one of their days changes. The columns are those of a judged week in a backtest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from gdelphi.common.checksums import is_damaged
from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import AHEAD, TARGETS, WITHIN, WeekForecast
from gdelphi.forecast.archive import ForecastArchive, ForecastManifest, StoredForecast
from gdelphi.forecast.origin import resolve_origin
from gdelphi.forecast.stored_week import FORECASTERS
from gdelphi.judge.files import (
    days_mark,
    read_mark,
    read_table,
    week_scores_path,
    write_table,
)
from gdelphi.judge.week import HORIZONS, WeekScore, judged_weeks, week_scores, week_table
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.targets import LOOK_BACK
from gdelphi.measures.week_targets import onset_cells, week_outcomes


@dataclass(frozen=True)
class WeekScoreResult:
    """What was done with the weeks of stored forecasts."""

    scored: list[str]
    """ids of forecasts whose weeks were scored now"""
    known: int
    waiting: int
    """whose week is not over"""
    standings: list[WeekScore]
    """of forecasts of the same streams as the last one, made without hindsight"""


def score_weeks(
    settings: Settings,
    archive: ForecastArchive,
    fingerprints: Mapping[date, str],
    damaged: list[str],
    *,
    as_of: date | None = None,
) -> WeekScoreResult:
    """Score the weeks of forecasts that are over and have no scores of these days yet; what is
    wrong with those that cannot be read is added to `damaged`."""
    folder = archive.folder
    scored, known, waiting = [], 0, 0
    manifests = [manifest for manifest in archive.list() if manifest.recipe.week]
    for manifest in manifests:
        origin = manifest.recipe.origin
        path = week_scores_path(folder, origin, manifest.id)
        last = origin + timedelta(days=AHEAD)
        mark = days_mark(fingerprints, origin - timedelta(days=LOOK_BACK), last)
        there = path.exists() and not is_damaged(path)
        if there and read_mark(path) == mark:
            known += 1
        elif resolve_origin(settings, last, as_of=as_of, allow_partial=True).partial:
            known, waiting = known + there, waiting + (not there)
        else:
            try:
                stored = archive.load(origin, manifest.id)
            except ForecastError as error:
                if str(error) not in damaged:
                    damaged.append(str(error))
                continue
            write_table(week_scores_of(settings, stored), path, mark=mark)
            scored.append(manifest.id)
    return WeekScoreResult(scored, known, waiting, week_standings(folder, manifests))


def week_scores_of(settings: Settings, stored: StoredForecast) -> pa.Table:
    """The table of a forecast's week: what was said, and what came."""
    recipe = stored.manifest.recipe
    since = recipe.origin - timedelta(days=LOOK_BACK)
    until = recipe.origin + timedelta(days=AHEAD)
    history = read_profiles(settings, "root", recipe.streams, since=since, until=until)
    came = week_outcomes(history, recipe.origin)
    onset = onset_cells(history, recipe.origin)
    return week_table(recipe.streams, history.codes, stored_weeks(stored), came, onset)


def stored_weeks(stored: StoredForecast) -> dict[str, list[WeekForecast]]:
    """What the tables of a stored forecast say of the week: forecaster -> a forecast of each
    stream."""
    recipe = stored.manifest.recipe
    table, escalations = stored.table("week"), stored.table("escalations")
    codes = tuple(dict.fromkeys(table["code"].to_pylist()))
    shape = (len(recipe.streams), len(TARGETS), len(HORIZONS), len(codes))
    # Rows are ordered by stream, target, horizon and code: see `week_tables`.
    horizons = table["horizon"].to_numpy().reshape(shape)[0, 0, :, 0].tolist()
    if horizons != list(HORIZONS) or horizons[-1] != WITHIN:
        raise ValueError(f"{stored.folder}: the table of the week has other horizons")
    forecasts = {}
    for name in FORECASTERS:
        values = table[name].to_numpy().astype(np.float64).reshape(shape)
        chances = escalations[name].to_numpy().astype(np.float64)
        unknown = np.full((AHEAD, len(codes)), np.nan)
        forecasts[name] = [
            WeekForecast(
                name, stream, recipe.origin, codes, values[place, :, :AHEAD],
                values[place, :, AHEAD], unknown, float(chances[place]),
            )
            for place, stream in enumerate(recipe.streams)
        ]  # fmt: skip
    return forecasts


def week_standings(folder: Path, manifests: Sequence[ForecastManifest]) -> list[WeekScore]:
    """How good the weeks of forecasts have been: of the last forecast of each origin, made without
    hindsight, about the streams that the newest of them is about."""
    paths = {
        manifest.recipe.origin: (manifest, path)
        for manifest in manifests
        if not manifest.hindsight
        and (path := week_scores_path(folder, manifest.recipe.origin, manifest.id)).exists()
        and not is_damaged(path)
    }
    if not paths:
        return []
    newest = paths[max(paths)][0].recipe.streams
    alike = {origin: path for origin, (one, path) in paths.items() if one.recipe.streams == newest}
    origins = sorted(alike)
    return week_scores(judged_weeks(origins, [read_table(alike[origin]) for origin in origins]))
