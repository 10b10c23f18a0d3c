"""Proper scores of probabilities, and skill with an interval.

A score here is one number per cell (stream, code, day), the smaller the better; means, skills and
intervals are aggregations over them. Undefined cells are NaN, in outcomes and so in scores, and
take no part.

Skill is 1 - mean(score) / mean(reference), a ratio of means: a mean of ratios would be ruled by the
cells where the reference is nearly perfect. Its interval comes from resampling blocks of days,
since news days resemble their neighbours and the cells of a day move together; treating cells as
independent would make intervals many times too narrow.
"""

from dataclasses import dataclass

import numpy as np

from gdelphi.errors import GdelphiError
from gdelphi.types import FloatArray, IntArray

LOG_FLOOR = 1e-12
"""Probabilities are held at least this far from 0 and 1 by the log score: one cell costs at most
27.6, and a forecaster that says 0 of what happens is not infinitely bad in the tables."""


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
    if scores.shape != reference.shape or scores.ndim == 0:
        raise GdelphiError(f"scores of shapes {scores.shape} and {reference.shape}: not comparable")
    days = len(scores)
    known = ~(np.isnan(scores) | np.isnan(reference))
    cells = tuple(range(1, scores.ndim))
    sums = np.stack(
        [np.where(known, values, 0.0).sum(axis=cells) for values in (scores, reference)], axis=1
    )
    value = float(_ratio(sums.sum(axis=0)))
    if days < 2 * chosen.block_days:
        return Skill(value, np.nan, np.nan, chosen.level)
    drawn = _ratio(_resampled(sums, chosen))
    tail = (1 - chosen.level) / 2
    if np.isnan(drawn).any():
        return Skill(value, np.nan, np.nan, chosen.level)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Skill(value, float(low), float(high), chosen.level)


def _resampled(sums: FloatArray, bootstrap: Bootstrap) -> FloatArray:
    """Totals of resampled days, [resample, 2], from the sums of each day, [day, 2].

    Blocks run on from the last day to the first, so that every day is drawn equally often.
    """
    days = len(sums)
    generator = np.random.default_rng(bootstrap.seed)
    blocks = -(-days // bootstrap.block_days)
    starts = generator.integers(days, size=(bootstrap.resamples, blocks))
    within = (np.arange(days)[:, None] + np.arange(bootstrap.block_days)) % days
    block_sums = sums[within].sum(axis=1)
    totals: FloatArray = block_sums[starts].sum(axis=1)
    return totals


def _ratio(totals: FloatArray) -> FloatArray:
    score, reference = totals[..., 0], totals[..., 1]
    whole = np.full(reference.shape, np.nan)
    np.divide(score, reference, out=whole, where=reference > 0)
    return 1 - whole


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
    """Murphy's split of the mean Brier score, by equally wide bins of the forecast."""
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
    index = np.minimum((forecast * bins).astype(np.int64), bins - 1)
    count = np.bincount(index, minlength=bins).astype(np.int64)

    def mean(values: FloatArray) -> FloatArray:
        total = np.bincount(index, weights=values, minlength=bins)
        means = np.full(bins, np.nan)
        np.divide(total, count, out=means, where=count > 0)
        return means

    return Binned(np.linspace(0, 1, bins + 1), count, mean(forecast), mean(happened))
