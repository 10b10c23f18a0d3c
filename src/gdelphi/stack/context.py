"""What a panel's own past tells of tomorrow without anything being fitted to outcomes first: the
columns that a network shown many worlds reads (`stack/starter.py`).

For each stream and root of a target day, from the days before it only:

- the table of cells, with the expected rows of an *in-context regression* in place of a fitted
  intensity, and the logits of all baselines for all targets;
- that regression itself, which reads the law off the past: rows against the usual, of all roots on
  14 lags and of other streams on 2, under three ridges, and fine codes on a lag whose residuals ask
  for it by five standard errors;
- how far each of these regressions was right about days that it had not seen, root by root;
- how many days and streams there are to go by.

The regression is one eigenvalue problem for all roots: [day, stream] rows of about 400 columns,
each row weighted by how much its counts can tell. It is made again every 45 days.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import TARGETS, BoolArray, FloatArray, IntArray, VectorArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.affinity import affinities
from gdelphi.stack.cells import cell_table
from gdelphi.stack.linear import default_stack
from gdelphi.stack.usual import Usual, by_day, usual_of, weekday_factors, weekdays

LAGS: Final = 14
OTHERS_LAGS: Final = (1, 2)
RIDGES: Final = (30.0, 300.0, 3000.0)  # in rows of full weight
MIDDLE: Final = 1  # of the ridges: its expected rows stand in the table of cells
Z_SCORE: Final = 5.0  # of a fine code on a lag, to be taken up
FEWEST_CODES: Final = 8  # rows of a fine code, to be looked at
MOST_DAYS: Final = 730  # that a regression is fitted on, the last ones
EVERY: Final = 45  # days from one regression to the next
FIRST_DAY: Final = 60  # from the first, before which no regression is made
FEWEST_PRESENT: Final = 40  # days before it, likewise
EARLIER: Final = 4  # regressions before the first that is used, to see how right they are
EVIDENCE_DAYS: Final = 180
FEWEST_EVIDENCE: Final = 10
HIGHEST_X, HIGHEST_Y = 6.0, 8.0  # times the usual
LEAST: Final = 0.05  # times the usual that is expected at least
DISPERSION: Final = 0.1  # counts vary as rows + DISPERSION rows^2
BASE: Final = ("ewma", "recency", "climatology")
"""the baselines whose mean logit is the start"""
LEFT_OUT: Final = ("weekday",)  # a name and not a number


class ContextTable(NamedTuple):
    """Of target days."""

    columns: VectorArray
    """[day, stream, root, column]"""
    base: VectorArray
    """logits to start from, [day, stream, root, target]; NaN where undefined"""
    outcomes: VectorArray
    """what came, the same; NaN where undefined or not known yet"""


class _Reading(NamedTuple):
    """A law as read off the days before a position."""

    position: int
    factors: FloatArray
    affinities: dict[str, FloatArray]
    usual: Usual
    rows: VectorArray
    """expected under each ridge, and with fine codes; [day, stream, root, kind], of the days from
    `position` to the end of the reading"""


def context_table(panel: CountPanel, positions: Sequence[int]) -> ContextTable:
    """Of target days at increasing positions of a panel, of which the last may be the day after its
    last. Each needs two months of days before it. The law is read for the first of them, and anew
    every 45 days from there."""
    return ContextReader(panel, panel.roots.days[0] + timedelta(days=int(positions[0]))).table(
        positions
    )


class ContextReader:
    """Reads the law of a panel on fixed days: `start`, and every 45 days before and after it. So
    what is said of a day does not depend on which other days are asked about, and a reading serves
    all days up to the next."""

    def __init__(self, panel: CountPanel, start: date) -> None:
        self.panel = panel
        self._start = (start - panel.roots.days[0]).days
        self._enough = enough_before(panel)
        self._rows: dict[int, VectorArray] = {}
        self._last: _Reading | None = None

    def knows(self, position: int) -> bool:
        """Whether there are days enough before the reading that serves a target day."""
        return position > 0 and bool(self._enough[max(self._serving(position), 0)])

    def table(self, positions: Sequence[int]) -> ContextTable:
        """Of target days at increasing positions."""
        days: IntArray = np.asarray(positions)
        if not self.knows(int(days[0])):
            at = max(self._serving(int(days[0])), 0)
            raise ForecastError(
                f"{self.panel.roots.present[:at].sum()} days before {_day(self.panel, at)} are too "
                "few: two months are needed, and two thirds of their days"
            )
        served = np.array([self._serving(int(day)) for day in days])
        parts = [self._columns(int(start), days[served == start]) for start in np.unique(served)]
        return _with_baselines(self.panel, days, np.concatenate(parts))

    def _serving(self, position: int) -> int:
        """Where the reading begins that serves a target day."""
        return position - (position - self._start) % EVERY

    def _columns(self, start: int, days: IntArray) -> VectorArray:
        reading = self._reading(start)
        earlier = range(start - EARLIER * EVERY, start, EVERY)
        known = [at for at in earlier if at > 0 and self._enough[at]]
        for at in known:
            if at not in self._rows:
                self._rows[at] = _read_law(self.panel, at, self._end(at)).rows
        expected = {day: rows for at in known for day, rows in enumerate(self._rows[at], start=at)}
        evidence = _evidence(self.panel, reading, expected)
        return _columns(self.panel, reading, days, evidence)

    def _reading(self, start: int) -> "_Reading":
        """Only the last is kept whole, of all others the expected rows."""
        if self._last is None or self._last.position != start:
            self._last = _read_law(self.panel, start, self._end(start))
            self._rows[start] = self._last.rows
        return self._last

    def _end(self, start: int) -> int:
        return min(start + EVERY, len(self.panel.roots.days) + 1)


def enough_before(panel: CountPanel) -> BoolArray:
    """Whether a target day at a position has enough days before it, [day + 1]."""
    before = np.concatenate([[0], np.cumsum(panel.roots.present)])
    return (np.arange(len(before)) >= FIRST_DAY) & (before >= FEWEST_PRESENT)


# --- reading a law --------------------------------------------------------------------------------


def _read_law(panel: CountPanel, start: int, end: int) -> _Reading:
    """The law of the days before `start`, and what it expects of those up to `end`."""
    roots = panel.roots
    known = np.flatnonzero(roots.present[:start])
    factors = weekday_factors(panel, known)
    others = affinities(panel, start)
    usual = usual_of(panel, factors)
    low = max(0, start - MOST_DAYS - LAGS)
    design = _design(usual.multiples[low:end], others, end - low)
    fitted = np.arange(low + LAGS, start)
    fitted = fitted[roots.present[fitted]]
    # Rows of the regression: days and streams, weighted by what their counts can tell.
    volume = usual.rows[fitted - 1].sum(axis=2)
    weight = np.sqrt(volume / (1 + DISPERSION * volume))[..., None]
    left = _flat(design[fitted - low] * weight)
    right = _flat((np.minimum(usual.multiples[fitted], HIGHEST_Y) - 1) * weight)
    right = np.minimum(right, 4 * right.std(axis=0) + 1e-9)
    values, vectors = np.linalg.eigh(left.T @ left)
    turned = vectors.T @ (left.T @ right)
    ahead = np.arange(start, end)
    shown = design[ahead - low].astype(np.float64)
    mean = volume.mean() / (1 + DISPERSION * volume.mean())
    slopes = [vectors @ (turned / (values + ridge * mean)[:, None]) for ridge in RIDGES]
    multiples = [1 + shown @ slope for slope in slopes]
    residual = right - left @ slopes[MIDDLE]
    codes = _fine_codes(panel, low, end, start)
    there = np.zeros(start - low, bool)
    there[fitted - low] = True
    announced = _announced(codes, there, ahead - low, weight[..., 0], residual)
    multiples.append(multiples[MIDDLE] + announced)
    usually = usual.expected(factors, weekdays(panel), ahead)
    rows = np.maximum(np.stack(multiples, axis=3), LEAST) * usually[..., None]
    return _Reading(start, factors, others, usual, rows.astype(np.float32))


def _design(multiples: VectorArray, others: dict[str, FloatArray], size: int) -> VectorArray:
    """Columns of the regression, [day, stream, column]: own roots and those of other streams on
    days before, in multiples of the usual beyond 1. The last day may be one that has not come."""
    beyond = np.minimum(multiples, HIGHEST_X) - 1
    if len(beyond) < size:
        beyond = np.concatenate([beyond, np.zeros_like(beyond[:1])])
    columns = [_lagged(beyond, lag) for lag in range(1, LAGS + 1)]
    for name in ("borders", "everyone", "partners"):
        weights = others[name] / np.maximum(others[name].sum(axis=1, keepdims=True), 1e-9)
        theirs = np.einsum("ij,djr->dir", weights, beyond).astype(np.float32)
        columns += [_lagged(theirs, lag) for lag in OTHERS_LAGS]
    return np.concatenate(columns, axis=2)


def _lagged(values: VectorArray, lag: int) -> VectorArray:
    """Values of so many days before, 0 at the beginning."""
    moved = np.zeros_like(values)
    moved[lag:] = values[:-lag] if lag < len(values) else 0
    return moved


def _fine_codes(panel: CountPanel, low: int, end: int, start: int) -> VectorArray:
    """Rows of fine codes beyond their mean in standard deviations, [day, stream, code]; codes that
    were seen often enough before `start`."""
    rows = by_day(panel.fine[:, low:end]).astype(np.float32)
    before = start - low
    rows = rows[..., rows[:before].sum(axis=(0, 1)) >= FEWEST_CODES]
    if len(rows) < end - low:
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    mean = rows[:before].mean(axis=0, keepdims=True)
    beyond: VectorArray = np.minimum((rows - mean) / np.sqrt(mean + 0.05), HIGHEST_X)
    return beyond


def _announced(
    codes: VectorArray, there: BoolArray, ahead: IntArray, weight: VectorArray, residual: FloatArray
) -> FloatArray:
    """What fine codes on a lag add to multiples of the days ahead, [day, stream, root]: those whose
    covariance with the residuals is beyond `Z_SCORE` standard errors, by their own slope, less what
    chance has in it. `there` says which days before the first one ahead were fitted; weights [day,
    stream] and residuals [row, root] are theirs.

    All days are multiplied, those that were not fitted with weight 0: days in a row need no copy.
    """
    _, streams, number = codes.shape
    roots = residual.shape[1]
    added = np.zeros((len(ahead), streams, roots))
    weighted = np.zeros((len(there), streams, roots), np.float32)
    weighted[there] = residual.reshape(-1, streams, roots) * weight[..., None]
    squares = np.zeros((len(there), streams), np.float32)
    squares[there] = weight**2
    deviation = residual.std(axis=0) + 1e-9
    right, size = weighted[LAGS:].reshape(-1, roots), squares[LAGS:].ravel()
    squared = codes * codes
    for lag in range(1, LAGS + 1):
        past = slice(LAGS - lag, len(there) - lag)
        product = (codes[past].reshape(-1, number).T @ right).astype(np.float64)
        square = (size @ squared[past].reshape(-1, number)).astype(np.float64)[:, None] + 1e-9
        z_score = np.abs(product / (np.sqrt(square) * deviation))
        found = z_score > Z_SCORE
        if found.any():
            believed = 1 - (Z_SCORE / np.maximum(z_score, 1e-9)) ** 2 / 2
            slope = np.where(found, product / square * believed, 0.0)
            added += codes[ahead - lag].astype(np.float64) @ slope
    return added


def _flat(values: VectorArray) -> FloatArray:
    """[day, stream, column] as [row, column], in double precision."""
    return values.reshape(-1, values.shape[-1]).astype(np.float64)


def _day(panel: CountPanel, position: int) -> date:
    return panel.roots.days[0] + timedelta(days=int(position))


# --- columns --------------------------------------------------------------------------------------


def _evidence(
    panel: CountPanel, reading: _Reading, expected: dict[int, VectorArray]
) -> VectorArray:
    """By how much expected rows of earlier readings were better than the usual ones, [root, kind]:
    the part of the deviance that they explain on the last days, of which they saw none."""
    roots, position = panel.roots, reading.position
    kinds = reading.rows.shape[3]
    first = max(FIRST_DAY, position - EVIDENCE_DAYS)
    days = [day for day in range(first, position) if day in expected and roots.present[day]]
    if len(days) <= FEWEST_EVIDENCE:
        return np.zeros((len(roots.codes), kinds), np.float32)
    at = np.array(days)
    usually = reading.usual.expected(reading.factors, weekdays(panel), at)
    counts = by_day(roots.counts[:, at])
    bar = _deviance(usually, counts, usually)
    said = np.stack([expected[day] for day in days])
    ours = np.stack([_deviance(said[..., kind], counts, usually) for kind in range(kinds)], axis=1)
    explained = 1 - ours / np.maximum(bar, 1e-6)[:, None]
    return np.clip(explained, -0.3, 0.5).astype(np.float32)


def _deviance(expected: npt.NDArray[Any], counts: FloatArray, usually: FloatArray) -> FloatArray:
    """Poisson deviance of rows, less in cells of many rows, summed by root."""
    mean = np.maximum(expected, 1e-4).astype(np.float64)
    log_ratio = np.log(np.maximum(counts, 1e-9) / mean)
    cells = 2 * (mean - counts + np.where(counts > 0, counts * log_ratio, 0.0))
    total: FloatArray = (cells / (1 + 0.3 * usually)).sum(axis=(0, 1))
    return total


def _columns(
    panel: CountPanel, reading: _Reading, days: IntArray, evidence: VectorArray
) -> VectorArray:
    """The columns of target days but for the baselines, [day, stream, root, column]."""
    rows = reading.rows[days - reading.position]
    table = cell_table(
        panel,
        days,
        usual=reading.usual,
        factors=reading.factors,
        affinities=reading.affinities,
        expected_rows=rows[..., MIDDLE].astype(np.float64),
        seasons=False,
    )
    kept = [name not in LEFT_OUT for name in table.names]
    usually = reading.usual.expected(reading.factors, weekdays(panel), days)[..., None]
    beyond = np.clip(np.log((rows + 1e-4) / (usually + 1e-4)), -3, 3)
    shown = np.broadcast_to(evidence, (*rows.shape[:2], *evidence.shape))
    size = np.empty((*rows.shape[:3], 2), np.float32)
    size[..., 0] = np.log(panel.roots.present[: reading.position].sum())
    size[..., 1] = np.log(rows.shape[1])
    believed = 5 * beyond * np.maximum(shown, 0)
    columns = [table.values[..., kept], beyond, shown, believed, size]
    return np.concatenate(columns, axis=3).astype(np.float32)


def _with_baselines(panel: CountPanel, days: IntArray, columns: VectorArray) -> ContextTable:
    """The same with the logits of the baselines and the stream's volumes."""
    roots, stack = panel.roots, default_stack()
    shape = (len(roots.streams), len(roots.codes), -1)
    names = [member.name for member in stack.members]
    start = [names.index(name) for name in BASE]
    shown, bases, came = [], [], []
    for at in days:
        _, features, outcome = stack.example_at(roots, _day(panel, at))
        logits = np.stack(
            [features[target][:, : len(names)].reshape(shape) for target in TARGETS], axis=-1
        )
        volumes = features[TARGETS[0]][:, -2:].reshape(shape)
        shown.append(np.concatenate([logits.reshape(*shape[:2], -1), volumes], axis=2))
        bases.append(logits[:, :, start].mean(axis=2))
        came.append(np.stack([outcome[target] for target in TARGETS], axis=-1))
    both = np.concatenate([columns, np.stack(shown)], axis=3)
    return ContextTable(
        np.nan_to_num(both.astype(np.float32), posinf=10.0, neginf=-10.0),
        np.stack(bases).astype(np.float32),
        np.stack(came).astype(np.float32),
    )
