"""The table of cells: what trees and regressions are shown of each stream, day and root.

One row for each cell (stream, root) of a target day, in that order, with columns from the days
before it only:

    rows lag 1..14                    ln(1 + rows) of the root so many days ago
    rows / occurs half-life h         exponential means of ln(1 + rows) and of "occurs"
    share lag 1, share half-life h    of the day's weight
    days since                        ln of the days since the root occurred last
    rows same weekday                 mean over the last four weeks
    usual, weekday factor             what the intensity calls usual
    class c half-life h               the four quad classes of the stream
    own class lag 1..3                the class that the root belongs to
    volume lag, volume half-life h    all rows of the stream
    partners / borders / everyone     the same root in other streams, against the usual
    acted                             rows anywhere with an actor of the country
    weekday, season                   of the target day; seasons only where there are years of days
    intensity ...                     expected rows of the root, of all roots, and the root's rank
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.gdelt.cameo import quad_class
from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.targets import shares_of
from gdelphi.stack.usual import Usual, back, by_day, exponential_mean, weekdays

LAGS: Final = 14
HALF_LIVES: Final = (3.0, 7.0, 14.0, 30.0, 90.0, 365.0)
SHARE_HALF_LIVES: Final = (7.0, 30.0, 90.0)
CLASS_HALF_LIVES: Final = (2.0, 7.0, 30.0)
LONGEST: Final = 365.0  # days since a root occurred last, at most,
NEVER: Final = 60.0  # and where it has not occurred yet
LITTLE: Final = 1e-4  # rows: below it logarithms are of this
YEAR: Final = 365.25
CATEGORIES: Final = ("root", "stream")
"""columns that are names and not numbers"""

CellArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CellTable:
    """Columns of the cells of some target days."""

    names: tuple[str, ...]
    values: CellArray
    """[day, stream, root, column]"""

    @property
    def rows(self) -> CellArray:
        """[row, column], a row for each cell."""
        return self.values.reshape(-1, len(self.names))

    def with_columns(self, names: Sequence[str], values: CellArray) -> "CellTable":
        """The same with more columns, [day, stream, root, column]."""
        return CellTable((*self.names, *names), np.concatenate([self.values, values], axis=3))


def cell_table(
    panel: CountPanel,
    days: IntArray,
    *,
    usual: Usual,
    factors: FloatArray,
    affinities: Mapping[str, FloatArray],
    expected_rows: FloatArray,
    seasons: bool,
) -> CellTable:
    """The table of target days, each from the days before it. What is usual, weekday factors,
    affinities and the expected rows [day, stream, root] of these days are those of an intensity."""
    made = _Columns(panel, days)
    roots = panel.roots
    rows = np.log1p(by_day(roots.counts))
    _add_own(made, rows)
    made.cell("usual", np.log(back(usual.rows, 1, days) + LITTLE))
    made.cell("weekday factor", np.log(factors[made.weekday]))
    _add_classes(made)
    relative = usual.multiples * usual.rows
    for name, affinity in affinities.items():
        top, low = (np.einsum("ij,djr->dir", affinity, x) for x in (relative, usual.rows))
        ratio = np.log1p(top / np.maximum(low, 1e-6))
        made.lagged(f"{name} lag 1", ratio, 1)
        made.mean(f"{name} half-life 7", ratio, 7.0)
    acted = np.log1p(by_day(panel.acted))
    made.lagged("acted lag 1", acted, 1)
    for half_life in (7.0, 30.0):
        made.mean(f"acted half-life {half_life:g}", acted, half_life)
    made.day("weekday", made.weekday)
    if seasons:
        angle = 2 * np.pi * made.day_of_year / YEAR
        made.day("season cos", np.cos(angle))
        made.day("season sin", np.sin(angle))
    expected = np.log(expected_rows + LITTLE)
    made.cell("intensity", expected)
    made.stream("intensity of all roots", np.log(expected_rows.sum(axis=2) + LITTLE))
    made.cell("intensity rank", (-expected_rows).argsort(axis=2).argsort(axis=2))
    return made.table()


class _Columns:
    """Columns of the cells of target days, gathered one after the other."""

    def __init__(self, panel: CountPanel, days: IntArray) -> None:
        self.panel, self.days = panel, days
        self.present = panel.roots.present
        self.weekday = weekdays(panel)[days]
        first = panel.roots.days[0]
        self.day_of_year = np.array(
            [(first + timedelta(days=int(day))).timetuple().tm_yday for day in days]
        )
        self.names: list[str] = []
        self.columns: list[CellArray] = []
        self.shape = (len(days), len(panel.roots.streams), len(panel.roots.codes))

    def cell(self, name: str, values: npt.NDArray[np.generic]) -> None:
        """Of every cell, [target day, stream, root]."""
        self.names.append(name)
        self.columns.append(np.asarray(values, np.float32))

    def stream(self, name: str, values: npt.NDArray[np.generic]) -> None:
        """Of every stream, [target day, stream]."""
        self.cell(name, np.broadcast_to(np.asarray(values, np.float32)[:, :, None], self.shape))

    def day(self, name: str, values: npt.NDArray[np.generic]) -> None:
        """Of every target day."""
        self.stream(name, np.broadcast_to(values[:, None], self.shape[:2]))

    def lagged(self, name: str, values: npt.NDArray[np.floating], lag: int) -> None:
        """Of values [day, stream, root] or [day, stream] those of so many days before."""
        found = back(values.astype(np.float32), lag, self.days)
        self.cell(name, found) if values.ndim == 3 else self.stream(name, found)

    def mean(self, name: str, values: FloatArray, half_life: float) -> None:
        """Of the same the exponential mean up to the day before."""
        self.lagged(name, exponential_mean(values, self.present, half_life), 1)

    def table(self) -> CellTable:
        return CellTable(tuple(self.names), np.stack(self.columns, axis=3))


def _add_own(made: _Columns, rows: FloatArray) -> None:
    """What the root itself has done; rows are ln(1 + rows), [day, stream, root]."""
    counts = by_day(made.panel.roots.counts)
    occurs = (counts > 0).astype(np.float64)
    shares = shares_of(by_day(made.panel.roots.weights))
    for lag in range(1, LAGS + 1):
        made.lagged(f"rows lag {lag}", rows, lag)
    for half_life in HALF_LIVES:
        made.mean(f"rows half-life {half_life:g}", rows, half_life)
        made.mean(f"occurs half-life {half_life:g}", occurs, half_life)
    made.lagged("share lag 1", shares, 1)
    for half_life in SHARE_HALF_LIVES:
        made.mean(f"share half-life {half_life:g}", shares, half_life)
    made.cell("days since", np.log(_days_since(counts, made.days)))
    weeks = [back(rows.astype(np.float32), 7 * week, made.days) for week in range(1, 5)]
    made.cell("rows same weekday", np.mean(weeks, axis=0))


def _days_since(counts: FloatArray, days: IntArray) -> FloatArray:
    """Days from the last with any row to each target day, [target day, stream, root]."""
    since = np.full(counts.shape[1:], NEVER)
    gaps = np.empty((len(counts) + 1, *counts.shape[1:]), np.float32)
    for day, rows in enumerate(counts):
        gaps[day] = since
        since = np.where(rows > 0, 1.0, np.minimum(since + 1, LONGEST))
    gaps[-1] = since
    found: FloatArray = gaps[days]
    return found


def _add_classes(made: _Columns) -> None:
    """The quad classes of the stream, the one of the root, and the volume."""
    roots = made.panel.roots
    classes = np.array([quad_class(code) - 1 for code in roots.codes])
    counts = by_day(roots.counts)
    rows = np.log1p(np.stack([counts[:, :, classes == c].sum(axis=2) for c in range(4)], axis=2))
    for half_life in CLASS_HALF_LIVES:
        levels = back(exponential_mean(rows, made.present, half_life), 1, made.days)
        for number in range(4):
            made.stream(f"class {number + 1} half-life {half_life:g}", levels[:, :, number])
    for lag in (1, 2, 3):
        made.lagged(f"own class lag {lag}", rows[:, :, classes], lag)
    volume = np.log1p(by_day(roots.volume))
    for lag in (1, 2, 3, 7):
        made.lagged(f"volume lag {lag}", volume, lag)
    for half_life in (7.0, 30.0, 90.0):
        made.mean(f"volume half-life {half_life:g}", volume, half_life)
