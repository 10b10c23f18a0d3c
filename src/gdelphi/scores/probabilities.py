"""Proper scores of probabilities, and skill with an interval.

A score here is one number per cell (stream, code, day), the smaller the better; means, skills and
intervals are aggregations over them. Undefined cells are NaN, in outcomes and so in scores, and
take no part.

Skill is 1 - mean(score) / mean(reference), a ratio of means: a mean of ratios would be ruled by the
cells where the reference is nearly perfect. Its interval comes from resampling blocks of days,
since news days resemble their neighbours and the cells of a day move together; treating cells as
independent would make intervals many times too narrow.

Whether one forecaster beats another is asked of the same days too: `paired_test` takes one
difference a day and the correlation of days into account. Not chosen: a t test over cells, which
finds a winner between two equals far too often.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import stdtr

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray, IntArray

LOG_FLOOR = 1e-12
"""Probabilities are held at least this far from 0 and 1 by the log score: one cell costs at most
27.6, and a forecaster that says 0 of what happens is not infinitely bad in the tables."""

DRAWS_KEPT: Final = 4
"""numbers of days whose resampling is remembered"""

ROUNDING = 1e-13
"""Differences that vary by less than this part of the scores are taken as not varying at all."""


def brier(probabilities: FloatArray, outcomes: FloatArray) -> FloatArray:
    """(p - y)^2 of each cell."""
    return (probabilities - outcomes) ** 2


def log_score(probabilities: FloatArray, outcomes: FloatArray) -> FloatArray:
    """-ln of the probability given to what happened, for each cell; clipped at LOG_FLOOR."""
    given = np.where(outcomes > 0.5, probabilities, 1 - probabilities)
    score = -np.log(np.clip(given, LOG_FLOOR, 1.0))
    return np.where(np.isnan(outcomes), np.nan, score)


# --- skill ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Skill:
    """1 - mean(score) / mean(reference): above 0 is better than the reference, 1 is perfect."""

    value: float
    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True)
class Bootstrap:
    """How skill is resampled: circular blocks of consecutive days."""

    block_days: int = 7
    resamples: int = 1000
    level: float = 0.95
    seed: int = 0


def skill(scores: FloatArray, reference: FloatArray, bootstrap: Bootstrap | None = None) -> Skill:
    """Skill over the cells where both are known, [day, ...], with its interval.

    With less than two blocks of days there is nothing to resample, and the interval is NaN. A
    reference without any error leaves the skill undefined.
    """
    chosen = bootstrap or Bootstrap()
    sums, _ = _daily_sums(scores, reference)
    value = float(_ratio(sums.sum(axis=0)))
    if len(sums) < 2 * chosen.block_days:
        return Skill(value, np.nan, np.nan, chosen.level)
    drawn = _ratio(resampled_totals(sums, chosen))
    tail = (1 - chosen.level) / 2
    if np.isnan(drawn).any():
        return Skill(value, np.nan, np.nan, chosen.level)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Skill(value, float(low), float(high), chosen.level)


def resampled_totals(sums: FloatArray, bootstrap: Bootstrap) -> FloatArray:
    """Totals of resampled days, [resample, ...], from the sums of each day, [day, ...].

    Blocks run on from the last day to the first, so that every day is drawn equally often.
    """
    totals: FloatArray = np.tensordot(_times_drawn(len(sums), bootstrap), sums, axes=1)
    return totals


@lru_cache(DRAWS_KEPT)
def _times_drawn(days: int, bootstrap: Bootstrap) -> FloatArray:
    """How often each day is drawn, [resample, day]: the same for all scores of so many days, of
    which a backtest has thousands."""
    generator = np.random.default_rng(bootstrap.seed)
    blocks = -(-days // bootstrap.block_days)
    starts = generator.integers(days, size=(bootstrap.resamples, blocks))
    drawn = np.arange(bootstrap.resamples)[:, None] * days + starts
    begun = np.bincount(drawn.ravel(), minlength=bootstrap.resamples * days).reshape(-1, days)
    times = np.zeros(begun.shape)
    for later in range(bootstrap.block_days):
        times += np.roll(begun, later, axis=1)
    times.setflags(write=False)
    return times


def _ratio(totals: FloatArray) -> FloatArray:
    score, reference = totals[..., 0], totals[..., 1]
    whole = np.full(reference.shape, np.nan)
    np.divide(score, reference, out=whole, where=reference > 0)
    return 1 - whole


def _daily_sums(scores: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of both over the cells where both are known, [day, 2], and how many these are, [day]."""
    if scores.shape != reference.shape or scores.ndim == 0:
        raise GdelphiError(f"scores of shapes {scores.shape} and {reference.shape}: not comparable")
    known = ~(np.isnan(scores) | np.isnan(reference))
    cells = tuple(range(1, scores.ndim))
    sums = [np.where(known, values, 0.0).sum(axis=cells) for values in (scores, reference)]
    return np.stack(sums, axis=1), known.sum(axis=cells, dtype=np.float64)


# --- is the difference more than chance? ----------------------------------------------------------


@dataclass(frozen=True)
class PairedTest:
    """Mean difference to the reference, below 0 if the scores are better, and what it is worth."""

    difference: float
    standard_error: float
    statistic: float
    """difference / standard_error, Student's t of days - 1 if both forecasters are equally good"""
    p_value: float
    """two-sided"""
    days: int
    """days with cells known to both"""


def paired_test(scores: FloatArray, reference: FloatArray, horizon: int = 1) -> PairedTest:
    """Diebold and Mariano's test (1995) on the differences of daily means, scores [day, ...].

    A day counts once, whatever the number of its cells. Days without any leave a gap: the others
    keep their distance in time. With fewer than two days nothing is known but the difference; with
    differences that do not vary there is a standard error of 0 and no test.

    Where differences last long it rejects too often, as such tests do: over 200 days at the level
    5%, 8% of equal forecasters if the correlation from day to day is 0.4, and 12% if it is 0.6.
    """
    sums, cells = _daily_sums(scores, reference)
    seen = cells > 0
    days = int(seen.sum())
    if not days:
        return PairedTest(math.nan, math.nan, math.nan, math.nan, 0)
    means = sums[seen] / cells[seen, None]
    differences = np.full(len(cells), np.nan)
    differences[seen] = means[:, 0] - means[:, 1]
    difference = float(np.nanmean(differences))
    if days < 2:
        return PairedTest(difference, math.nan, math.nan, math.nan, days)
    error = _standard_error(differences, horizon)
    if error <= ROUNDING * float(np.abs(means).mean()):
        return PairedTest(difference, 0.0, math.nan, math.nan, days)
    statistic = difference / error
    p_value = 2 * float(stdtr(days - 1, -abs(statistic)))
    return PairedTest(difference, error, statistic, p_value, days)


def newey_west_lag(days: int, horizon: int = 1) -> int:
    """floor(4 (days / 100)^(2/9)), the rule of thumb after Newey and West (1994); or horizon - 1.

    The larger of the two: errors of forecasts that overlap are correlated up to lag horizon - 1
    even if the forecasts are ideal.
    """
    rule = math.floor(4 * math.pow(days / 100, 2 / 9))
    return min(max(rule, horizon - 1), days - 1)


def _standard_error(differences: FloatArray, horizon: int) -> float:
    """Of the mean of a correlated series [day], NaN in its gaps.

    The long-run variance has Bartlett's weights, so that it cannot be negative. It is divided by
    its expectation for an uncorrelated series of variance 1, which is below 1 because deviations
    are taken from the series' own mean. That is the correction of Harvey, Leybourne and Newbold
    (1997): theirs is the case of weights 1 up to lag horizon - 1. Without lags it leaves the
    paired t test.
    """
    seen = (~np.isnan(differences)).astype(np.float64)
    days = int(seen.sum())
    deviations = np.where(seen > 0, differences - np.nanmean(differences), 0.0)
    variance, pairs = float(deviations @ deviations), float(days)
    lags = newey_west_lag(days, horizon)
    for lag in range(1, lags + 1):
        weight = 2 * (1 - lag / (lags + 1))
        variance += weight * float(deviations[lag:] @ deviations[:-lag])
        pairs += weight * float(seen[lag:] @ seen[:-lag])
    expected = 1 - pairs / days**2
    return math.sqrt(max(variance, 0.0) / expected) / days


# --- where a Brier score comes from ---------------------------------------------------------------


@dataclass(frozen=True)
class BrierParts:
    """brier = reliability - resolution + uncertainty + within.

    `within` is what differences inside a bin contribute (the two further components of Stephenson,
    Coelho and Jolliffe 2008, together); it is 0 where a bin has forecasts of one value only.
    """

    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float


def brier_parts(probabilities: FloatArray, outcomes: FloatArray, bins: int = 10) -> BrierParts:
    """Murphy's split of the mean Brier score, by equally wide bins of the forecast.

    With n_k the share of cells in bin k, f_k their mean forecast, o_k their frequency and o the
    frequency over all: reliability = sum_k n_k (f_k - o_k)^2, resolution = sum_k n_k (o_k - o)^2,
    uncertainty = o (1 - o).
    """
    binned = bin_cells(probabilities, outcomes, bins)
    total = binned.count.sum()
    if total == 0:
        nothing = float("nan")
        return BrierParts(nothing, nothing, nothing, nothing, nothing)
    filled = binned.count > 0
    share = binned.count[filled] / total
    mean, frequency = binned.forecast[filled], binned.frequency[filled]
    rate = float(share @ frequency)
    reliability = float(share @ (mean - frequency) ** 2)
    resolution = float(share @ (frequency - rate) ** 2)
    uncertainty = rate * (1 - rate)
    score = float(np.nanmean(brier(probabilities, outcomes)))
    within = score - (reliability - resolution + uncertainty)
    return BrierParts(score, reliability, resolution, uncertainty, within)


@dataclass(frozen=True)
class Binned:
    """Cells by bins of their forecast; means are NaN in empty bins."""

    edges: FloatArray
    """[bin + 1]"""
    count: IntArray
    """[bin]"""
    forecast: FloatArray
    """[bin], mean forecast"""
    frequency: FloatArray
    """[bin], how often it happened"""


def bin_cells(probabilities: FloatArray, outcomes: FloatArray, bins: int = 10) -> Binned:
    """Sort the known cells into equally wide bins; a bin owns its lower edge, the last one both."""
    known = ~(np.isnan(probabilities) | np.isnan(outcomes))
    forecast, happened = probabilities[known], outcomes[known]
    index = bin_of(forecast, bins)
    count = np.bincount(index, minlength=bins).astype(np.int64)

    def mean(values: FloatArray) -> FloatArray:
        total = np.bincount(index, weights=values, minlength=bins)
        means = np.full(bins, np.nan)
        np.divide(total, count, out=means, where=count > 0)
        return means

    return Binned(np.linspace(0, 1, bins + 1), count, mean(forecast), mean(happened))


def bin_of(probabilities: FloatArray, bins: int) -> IntArray:
    """The number of the bin that each known forecast belongs to."""
    return np.minimum((probabilities * bins).astype(np.int64), bins - 1)
