"""Scores of weighted samples: how good a forecast of shares was, code by code.

A forecast of shares is a weighted sample (`Forecast.share_samples`, `share_weights`): samples
[..., sample, code], weights [..., sample] that sum to 1, and the share that came, [..., code].
Every figure here is one number per code; leading dimensions (days, streams) must agree and are
worked on together. A cell is NaN where its outcome is, or where a sample that has weight is.

Chosen: exact formulas on sorted samples, O(n log n) in the number of samples. Not chosen: the
double sum over pairs, which needs n^2 memory for each cell, or a density fitted to the samples,
which would smear the atom that shares have at 0: on most days most codes do not occur.

CRPS comes in two estimators, for two questions, as energy scores do (`gdelphi.ot.energy`):

crps       The sample *is* the forecast, a law on n values: the score of that law, exactly.
fair_crps  The sample was drawn from the forecast, and the score of *that* is wanted. The plain one
           overrates it by sum_k p_k^2 E|X - X'| / 2; this one does so by nothing, for any n > 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    QUANTILE_TOLERANCE,
    WEIGHT_SUM_TOLERANCE,
    BoolArray,
    FloatArray,
)


class _Law(NamedTuple):
    """Weighted empirical distributions: values in ascending order; all [..., sample, code]."""

    values: FloatArray
    steps: FloatArray
    cumulated: FloatArray


# --- continuous ranked probability score ----------------------------------------------------------


def crps(samples: FloatArray, weights: FloatArray, outcome: FloatArray) -> FloatArray:
    """sum_k p_k |x_k - y| - 1/2 sum_kl p_k p_l |x_k - x_l| of each code, the smaller the better.

    It is the integral of (F(x) - 1{x >= y})^2 over x (Gneiting and Raftery 2007), in the unit of
    the shares; of a single value it is the absolute error.
    """
    return _crps(_law_of(samples, weights, outcome), outcome)


def _crps(law: _Law, outcome: FloatArray) -> FloatArray:
    return _to_outcome(law, outcome) - _spread(law)


def fair_crps(samples: FloatArray, weights: FloatArray, outcome: FloatArray) -> FloatArray:
    """The same with pairs k != l only: unbiased for the law that the samples were drawn from.

    The second sum is divided by the weight of such pairs, 1 - sum_k p_k^2. It may be negative, and
    is NaN where one sample has all the weight, for then there are no pairs.
    """
    law = _law_of(samples, weights, outcome)
    total = weights.sum(axis=-1, keepdims=True)
    pairs = (weights * (total - weights)).sum(axis=-1)[..., None]
    spread = _spread(law)
    fair = np.full_like(spread, np.nan)
    np.divide(spread, pairs, out=fair, where=pairs > 0)
    return _to_outcome(law, outcome) - fair


def _to_outcome(law: _Law, outcome: FloatArray) -> FloatArray:
    distance: FloatArray = (law.steps * np.abs(law.values - outcome[..., None, :])).sum(axis=-2)
    return distance


def _spread(law: _Law) -> FloatArray:
    """1/2 sum_kl p_k p_l |x_k - x_l|, as the integral of F (1 - F): no terms to cancel."""
    below = law.cumulated[..., :-1, :]
    above = law.cumulated[..., -1:, :] - below
    spread: FloatArray = (np.diff(law.values, axis=-2) * below * above).sum(axis=-2)
    return spread


# --- quantiles and intervals ----------------------------------------------------------------------


class Coverage(NamedTuple):
    """Central intervals and whether they held what came; each [..., code]."""

    low: FloatArray
    high: FloatArray
    held: FloatArray
    """1 or 0, NaN where undefined: its mean is the coverage"""

    @property
    def width(self) -> FloatArray:
        return self.high - self.low


def quantile(samples: FloatArray, weights: FloatArray, q: float) -> FloatArray:
    """For each code the smallest sample whose cumulated weight reaches q, as in `Forecast`."""
    if not 0 <= q <= 1:
        raise ForecastError(f"quantile {q} is not between 0 and 1")
    return _quantile(_law_of(samples, weights), q)


def coverage(
    samples: FloatArray, weights: FloatArray, outcome: FloatArray, level: float = 0.9
) -> Coverage:
    """The interval between the quantiles (1 - level) / 2 and (1 + level) / 2, ends included.

    Where the law has atoms, as at 0, even a perfect forecast's interval holds more than its level:
    an end cannot lie inside an atom. `pit` has no such excess.
    """
    if not 0 <= level <= 1:
        raise ForecastError(f"level {level} of an interval is not between 0 and 1")
    return _coverage(_law_of(samples, weights, outcome), outcome, level)


def _coverage(law: _Law, outcome: FloatArray, level: float) -> Coverage:
    low, high = _quantile(law, (1 - level) / 2), _quantile(law, (1 + level) / 2)
    held = ((low <= outcome) & (outcome <= high)).astype(np.float64)
    return Coverage(low, high, _where_defined(held, law, outcome))


def _quantile(law: _Law, q: float) -> FloatArray:
    reached = law.cumulated >= q - QUANTILE_TOLERANCE
    reached[..., -1, :] = True
    first = np.argmax(reached, axis=-2)[..., None, :]
    quantile: FloatArray = np.take_along_axis(law.values, first, axis=-2)[..., 0, :]
    return _where_defined(quantile, law)


# --- probability integral transform ---------------------------------------------------------------


class PitBounds(NamedTuple):
    """Weight of the samples below the outcome, and of those not above it; each [..., code]."""

    lower: FloatArray
    upper: FloatArray


class PitHistogram(NamedTuple):
    """How outcomes fall into their forecasts; flat, 1 / bins each, if those are calibrated."""

    edges: FloatArray
    """[bin + 1]"""
    frequency: FloatArray
    """[bin], summing to 1; NaN without any cell"""
    cells: int


def pit_bounds(samples: FloatArray, weights: FloatArray, outcome: FloatArray) -> PitBounds:
    """F(y-) and F(y). They differ by the weight of the samples that equal the outcome."""
    return _pit_bounds(_law_of(samples, weights, outcome), outcome)


def _pit_bounds(law: _Law, outcome: FloatArray) -> PitBounds:
    true = outcome[..., None, :]
    below, equal = _weight_where(law, law.values < true), _weight_where(law, law.values == true)
    lower, upper = np.minimum(below, 1.0), np.minimum(below + equal, 1.0)
    return PitBounds(_where_defined(lower, law, outcome), _where_defined(upper, law, outcome))


def pit(
    samples: FloatArray,
    weights: FloatArray,
    outcome: FloatArray,
    uniform: np.random.Generator | FloatArray,
) -> FloatArray:
    """Randomised F(y-) + u (F(y) - F(y-)): uniform if the outcome was drawn from the forecast.

    F(y) itself would not be: all outcomes at the atom would fall on one value. `uniform` is what
    u is drawn from, or u itself, of the outcome's shape.
    """
    lower, upper = pit_bounds(samples, weights, outcome)
    drawn = uniform.random(outcome.shape) if isinstance(uniform, np.random.Generator) else uniform
    if drawn.shape != outcome.shape:
        raise ForecastError(f"uniform numbers of shape {drawn.shape} for {outcome.shape} outcomes")
    return lower + drawn * (upper - lower)


class SampleScores(NamedTuple):
    """All scores of samples against what came; each [..., code]."""

    crps: FloatArray
    pit: FloatArray
    """randomised"""
    held: tuple[FloatArray, ...]
    """whether central intervals held what came, by their levels"""


def all_scores(
    samples: FloatArray,
    weights: FloatArray,
    outcome: FloatArray,
    uniform: FloatArray,
    levels: Sequence[float],
) -> SampleScores:
    """What `crps`, `pit` and `coverage` give. Most of their time goes into sorting the samples,
    which is done once for all of them."""
    law = _law_of(samples, weights, outcome)
    lower, upper = _pit_bounds(law, outcome)
    held = tuple(_coverage(law, outcome, level).held for level in levels)
    return SampleScores(_crps(law, outcome), lower + uniform * (upper - lower), held)


def pit_histogram(
    lower: FloatArray, upper: FloatArray | None = None, bins: int = 10
) -> PitHistogram:
    """Share of the cells in equally wide bins, cells of any shape; NaN takes no part.

    Given both bounds, a cell is spread evenly between them (Czado, Gneiting and Held 2009): what
    the randomised transform gives on average, without its noise. That one is given alone. A single
    value belongs to the bin whose lower edge it reaches, 1 to the last.
    """
    top = lower if upper is None else upper
    known = ~(np.isnan(lower) | np.isnan(top))
    start, end = lower[known], top[known]
    edges = np.linspace(0, 1, bins + 1)
    if not start.size:
        return PitHistogram(edges, np.full(bins, np.nan), 0)
    inner = [_share_below(start, end, float(edge)) for edge in edges[1:-1]]
    frequency = np.diff(np.array([0.0, *inner, 1.0]))
    return PitHistogram(edges, frequency, int(start.size))


def _share_below(start: FloatArray, end: FloatArray, edge: float) -> float:
    """Mean part of the cells, each spread over [start, end], that lies below an edge."""
    part = (start < edge).astype(np.float64)
    np.divide(edge - start, end - start, out=part, where=end > start)
    return float(np.clip(part, 0.0, 1.0).mean())


# --- inside ---------------------------------------------------------------------------------------


def _law_of(samples: FloatArray, weights: FloatArray, outcome: FloatArray | None = None) -> _Law:
    """Sort each code's samples. One without weight is moved to the largest, where it does nothing.

    It must not stay: it would be the quantile at 0, and might be NaN.
    """
    _check(samples, weights, outcome)
    kept = weights[..., None] > 0
    largest = np.where(kept, samples, -np.inf).max(axis=-2, keepdims=True)
    values = np.where(kept, samples, largest)
    order = np.argsort(values, axis=-2, kind="stable")
    given = np.broadcast_to(weights[..., None], samples.shape)
    steps = np.take_along_axis(given, order, axis=-2)
    return _Law(np.take_along_axis(values, order, axis=-2), steps, np.cumsum(steps, axis=-2))


def _check(samples: FloatArray, weights: FloatArray, outcome: FloatArray | None) -> None:
    if samples.ndim < 2 or weights.shape != samples.shape[:-1] or not weights.shape[-1]:
        raise ForecastError(
            f"samples of shape {samples.shape} and weights of shape {weights.shape}, "
            "where [..., sample, code] and [..., sample] are meant"
        )
    if outcome is not None and outcome.shape != (*samples.shape[:-2], samples.shape[-1]):
        raise ForecastError(
            f"an outcome of shape {outcome.shape} for samples of shape {samples.shape}, "
            "where [..., code] and [..., sample, code] are meant"
        )
    # Not-a-number fails these comparisons too.
    sums_to_one = np.abs(weights.sum(axis=-1) - 1) <= WEIGHT_SUM_TOLERANCE
    if not ((weights >= 0).all() and sums_to_one.all()):
        raise ForecastError("weights of samples must not be negative and must sum to 1")


def _weight_where(law: _Law, chosen: BoolArray) -> FloatArray:
    weight: FloatArray = np.where(chosen, law.steps, 0.0).sum(axis=-2)
    return weight


def _where_defined(figure: FloatArray, law: _Law, outcome: FloatArray | None = None) -> FloatArray:
    """NaN where a sample is (sorting puts it last) or the outcome."""
    undefined = np.isnan(law.values[..., -1, :])
    if outcome is not None:
        undefined |= np.isnan(outcome)
    return np.where(undefined, np.nan, figure)
