"""What came of stored forecasts: their scores as `gdelphi score` has left them."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gdelphi.common.checksums import is_damaged
from gdelphi.common.errors import JudgeError, NothingStored
from gdelphi.common.types import TARGETS, WITHIN, FloatArray, Level
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.forecast.tidy import TOMORROW
from gdelphi.judge.files import read_table, week_scores_path
from gdelphi.questions.answers import ScoresAnswer, TargetScore
from gdelphi.questions.forecasts import Kept, StoredForecasts

SCORED: Final = ("published", "stack", "usual")
FILES_KEPT: Final = 400
JudgedCell = tuple[str, str, str, str, int]
"""stream, level, code, target, horizon"""


class StoredScores:
    """Outcomes and scores of stored forecasts."""

    def __init__(self, forecasts: StoredForecasts) -> None:
        self._forecasts = forecasts
        self._sums: Kept[object, dict[str, FloatArray]] = Kept(FILES_KEPT)

    def outcomes(self, manifest: ForecastManifest) -> dict[JudgedCell, bool]:
        """What came of each cell of a forecast; cells that are not known yet are left out."""
        came: dict[JudgedCell, bool] = {}
        path = self._forecasts.scores(manifest)
        if _there(path):
            came |= _outcomes(_read(path), horizon=TOMORROW)
        week = week_scores_path(self._forecasts.folder, manifest.recipe.origin, manifest.id)
        if _there(week):
            table = _read(week)
            for horizon in (WITHIN, *range(TOMORROW + 1, 8)):
                own = table.filter(pc.equal(table["horizon"], horizon))
                came |= _outcomes(own, horizon=horizon)
        return came

    def scores(self, level: Level, since: date | None, until: date | None) -> ScoresAnswer:
        """Brier scores over the forecasts of a time, by target; one forecast for each origin."""
        chosen = [
            one
            for one in self._forecasts.published()
            if (since or date.min) <= one.recipe.origin <= (until or date.max)
            and not one.hindsight
            and _there(self._forecasts.scores(one))
        ]
        days = [self._of_forecast(one, level) for one in chosen]
        lines = [line for target in TARGETS if (line := _line(target, days)) is not None]
        origins = [one.recipe.origin for one in chosen]
        return ScoresAnswer(
            level=level,
            since=min(origins, default=None),
            until=max(origins, default=None),
            lines=lines,
        )

    def _of_forecast(self, manifest: ForecastManifest, level: Level) -> dict[str, FloatArray]:
        """Target -> cells and summed squared errors of SCORED."""
        path = self._forecasts.scores(manifest)
        key = (path, path.stat().st_mtime_ns, level)
        return self._sums.get(key, lambda: _sums(_read(path), level))


def _there(path: Path) -> bool:
    return path.exists() and not is_damaged(path)


def _read(path: Path) -> pa.Table:
    try:
        return read_table(path)
    except JudgeError:
        raise NothingStored(
            f"the scores {path.stem} cannot be read: `gdelphi verify` tells more"
        ) from None


def _outcomes(table: pa.Table, *, horizon: int) -> dict[JudgedCell, bool]:
    table = table.filter(pc.is_finite(table["outcome"]))
    levels = table["level"].to_pylist() if "level" in table.column_names else ["root"] * len(table)
    columns = [table[name].to_pylist() for name in ("stream", "code", "target", "outcome")]
    return {
        (stream, level, code, target, horizon): outcome > 0.5
        for stream, code, target, outcome, level in zip(*columns, levels, strict=True)
        if code is not None
    }


def _sums(table: pa.Table, level: Level) -> dict[str, FloatArray]:
    table = table.filter(pc.equal(table["level"], level))
    usual = "usual" if "usual" in table.column_names else "climatology"
    found = {}
    for target in TARGETS:
        own = table.filter(pc.equal(table["target"], target))
        names = ("published", "stack", usual)
        outcome = own["outcome"].to_numpy().astype(np.float64)
        said = np.stack([own[name].to_numpy().astype(np.float64) for name in names])
        errors = (said - outcome) ** 2
        known = np.isfinite(errors).all(axis=0)
        found[target] = np.array([known.sum(), *errors[:, known].sum(axis=1)])
    return found


def _line(target: str, days: Sequence[dict[str, FloatArray]]) -> TargetScore | None:
    own = [day[target] for day in days if day[target][0]]
    if not own:
        return None
    cells, *errors = np.sum(own, axis=0)
    published, stack, usual = (float(error / cells) for error in errors)
    return TargetScore(
        target=target,
        forecasts=len(own),
        cells=int(cells),
        published=published,
        stack=stack,
        usual=usual,
        better_than_usual=1 - published / usual if usual else None,
    )
