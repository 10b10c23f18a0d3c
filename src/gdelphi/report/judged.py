"""What was said and what came, for the record: from scored forecasts, or from a backtest.

Scores of stored forecasts keep Brier scores, not probabilities. A probability follows from its
Brier score and the outcome (1 - sqrt(b) of what came, sqrt(b) of what did not), so three months are
read from small files and no forecast is opened. Only roots are judged here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from gdelphi.common.errors import JudgeError
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.judge.files import (
    BacktestFolder,
    read_table,
    scores_path,
)
from gdelphi.report.choose import Shelf, rank

PUBLISHED: Final = "published"
STACK: Final = "stack"
LEVEL: Final = "root"


class JudgedCells(NamedTuple):
    """A target over days and cells, each [day, cell]; NaN where nothing was said or came."""

    published: FloatArray
    stack: FloatArray
    came: FloatArray


@dataclass(frozen=True, eq=False)
class PastForecasts:
    """Published and stack against what came, over target days."""

    days: tuple[date, ...]
    cells: tuple[tuple[str, str], ...]
    """stream and code"""
    targets: Mapping[str, JudgedCells]

    def last(self, days: Sequence[date]) -> "PastForecasts":
        """The same for some of its days."""
        kept = [number for number, day in enumerate(self.days) if day in set(days)]
        targets = {
            name: JudgedCells(*(values[kept] for values in cells))
            for name, cells in self.targets.items()
        }
        return PastForecasts(tuple(self.days[number] for number in kept), self.cells, targets)


CellRow = tuple[str, str, str, float, float, float]
"""stream, code, target, published, stack, came"""


def judged_forecasts(
    shelf: Shelf, until: date
) -> tuple[PastForecasts, list[ForecastManifest], list[str]]:
    """The scored forecasts of target days up to a day, one for each; none made in hindsight.

    Scores that cannot be read are told: they can be made again.
    """
    by_day: dict[date, list[ForecastManifest]] = {}
    for each in shelf.manifests:
        path = scores_path(shelf.folder, each.recipe.origin, each.id)
        if not each.hindsight and each.target_day <= until and path.exists():
            by_day.setdefault(each.target_day, []).append(each)
    rows: dict[date, list[CellRow]] = {}
    chosen: list[ForecastManifest] = []
    problems: list[str] = []
    for day in sorted(by_day):
        manifest = max(by_day[day], key=rank)
        path = scores_path(shelf.folder, manifest.recipe.origin, manifest.id)
        try:
            rows[day] = list(_scored_rows(path))
            chosen.append(manifest)
        except (JudgeError, KeyError) as error:
            problems.append(
                f"the scores in {path} cannot be read ({error}): delete the file, and "
                "run `gdelphi score` again"
            )
    return _arranged(rows), chosen, problems


def _scored_rows(path: Path) -> Iterator[CellRow]:
    table = read_table(path)
    table = table.filter(pc.equal(table["level"], LEVEL))
    came = _floats(table["outcome"])
    published, stack = (
        probability_from(_floats(table[f"{name} brier"]), came) for name in (PUBLISHED, STACK)
    )
    yield from _rows(table, published, stack, came)


def probability_from(brier: FloatArray, came: FloatArray) -> FloatArray:
    """The probability that has a Brier score, given what came."""
    root = np.sqrt(brier)
    found: FloatArray = np.where(came > 0.5, 1 - root, root)
    return np.where(np.isnan(came), np.nan, found)


def judged_backtest(folder: Path, until: date) -> PastForecasts:
    """The days of a backtest of roots up to a day, none that took part in fitting."""
    backtest = BacktestFolder(folder)
    origin = backtest.run()["origin"]
    asked = origin.get("asked", {})
    if asked.get("level") != LEVEL or not {PUBLISHED, STACK} <= set(asked.get("forecasters", ())):
        raise JudgeError(
            f"the backtest in {folder} does not judge published against the stack at level {LEVEL}"
        )
    allowed = date.fromisoformat(origin["first_allowed"])
    days = [day for day in backtest.days() if allowed <= day <= until]
    return _arranged({day: list(_backtest_rows(backtest, day)) for day in days})


def _backtest_rows(backtest: BacktestFolder, day: date) -> Iterator[CellRow]:
    table = backtest.read_day("probabilities", day)
    published, stack, came = (_floats(table[name]) for name in (PUBLISHED, STACK, "outcome"))
    yield from _rows(table, published, stack, came)


def _floats(column: Any) -> FloatArray:
    values: FloatArray = column.to_numpy()
    return values.astype(np.float64)


def _rows(
    table: Any, published: FloatArray, stack: FloatArray, came: FloatArray
) -> Iterator[CellRow]:
    keys = (table[name].to_pylist() for name in ("stream", "code", "target"))
    numbers = (values.tolist() for values in (published, stack, came))
    yield from zip(*keys, *numbers, strict=True)


def _arranged(rows: Mapping[date, Sequence[CellRow]]) -> PastForecasts:
    """Rows of each day as arrays; streams may differ from day to day."""
    days = tuple(sorted(rows))
    cells = tuple(sorted({(row[0], row[1]) for given in rows.values() for row in given}))
    place = {cell: number for number, cell in enumerate(cells)}
    values = {name: np.full((3, len(days), len(cells)), np.nan) for name in TARGETS}
    for at, day in enumerate(days):
        for stream, code, target, *numbers in rows[day]:
            values[target][:, at, place[stream, code]] = numbers
    return PastForecasts(days, cells, {name: JudgedCells(*given) for name, given in values.items()})
