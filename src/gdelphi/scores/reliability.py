"""Calibration: of the cells that were given 30%, did 30% happen?

There are two bands for the frequency of each bin.

Wilson's score interval (`reliability_table`) has a closed form, stays within 0 and 1, and holds the
mean forecast exactly where the binomial test would not reject it. It takes cells as independent.
The cells of a day are not, so with many streams it is too narrow: it shows where to look, and
decides nothing.

The other (`reliability_band`) comes from resampling blocks of days, as intervals of skill do, and
so knows how cells move together. It has nothing to say of a bin that is seen on few days or whose
outcomes are all alike: such bins have no band, rather than one of no width. Not chosen: widening
Wilson's by one design effect, which differs from bin to bin.
"""

from dataclasses import dataclass

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray, IntArray
from gdelphi.scores.probabilities import (
    Bootstrap,
    bin_cells,
    bin_of,
    resampled_totals,
)

Z95 = 1.959963984540054  # two-sided 95% of the normal distribution


@dataclass(frozen=True)
class ReliabilityTable:
    """One entry per bin of the forecast; NaN in empty bins."""

    edges: FloatArray
    """[bin + 1]"""
    forecast: FloatArray
    """[bin], mean forecast"""
    frequency: FloatArray
    """[bin], how often it happened"""
    count: IntArray
    """[bin], cells"""
    low: FloatArray
    """[bin], lower end of the band of the frequency"""
    high: FloatArray
    """[bin], upper end"""


def reliability_table(
    probabilities: FloatArray, outcomes: FloatArray, bins: int = 10
) -> ReliabilityTable:
    """Forecast against frequency in equally wide bins, cells of any shape."""
    binned = bin_cells(probabilities, outcomes, bins)
    low, high = wilson_interval(binned.frequency, binned.count)
    return ReliabilityTable(
        binned.edges, binned.forecast, binned.frequency, binned.count, low, high
    )


@dataclass(frozen=True)
class ReliabilityBand:
    """The calibration curve with a band from resampled days; NaN where a bin has none."""

    table: ReliabilityTable
    """the curve itself, beside it Wilson's band"""
    low: FloatArray
    """[bin]"""
    high: FloatArray
    """[bin]"""
    days: IntArray
    """[bin], days that have cells in it"""
    level: float


def reliability_band(
    probabilities: FloatArray,
    outcomes: FloatArray,
    bins: int = 10,
    bootstrap: Bootstrap | None = None,
) -> ReliabilityBand:
    """Forecast against frequency, cells [day, ...], with a band that does not trust cells.

    A bin has a band if every resample has cells in it and not all of them have the same frequency.
    With less than two blocks of days none has.
    """
    chosen = bootstrap or Bootstrap()
    if probabilities.shape != outcomes.shape or probabilities.ndim == 0:
        raise GdelphiError(
            f"forecasts of shape {probabilities.shape} and outcomes of shape {outcomes.shape}, "
            "where [day, ...] is meant for both"
        )
    table = reliability_table(probabilities, outcomes, bins)
    sums = _daily_bins(probabilities, outcomes, bins)
    seen: IntArray = (sums[:, 0] > 0).sum(axis=0, dtype=np.int64)
    low, high = np.full((2, bins), np.nan)
    if len(sums) >= 2 * chosen.block_days:
        low, high = _band(resampled_totals(sums, chosen), chosen.level)
    return ReliabilityBand(table, low, high, seen, chosen.level)


def _band(totals: FloatArray, level: float) -> FloatArray:
    """Quantiles of the frequencies, [low or high, bin], from cells and outcomes of resamples."""
    count, happened = totals[:, 0], totals[:, 1]
    frequency = np.full(count.shape, np.nan)
    np.divide(happened, count, out=frequency, where=count > 0)
    varies = np.ptp(frequency, axis=0) > 0  # not where a resample is NaN
    tail = (1 - level) / 2
    band = np.full((2, count.shape[1]), np.nan)
    band[:, varies] = np.quantile(frequency[:, varies], [tail, 1 - tail], axis=0)
    return band


def _daily_bins(probabilities: FloatArray, outcomes: FloatArray, bins: int) -> FloatArray:
    """Cells of each day and bin, and how many of them happened, [day, 2, bin]."""
    known = ~(np.isnan(probabilities) | np.isnan(outcomes))
    days = len(probabilities)
    index = np.nonzero(known)[0] * bins + bin_of(probabilities[known], bins)
    sums = [
        np.bincount(index, weights=weights, minlength=days * bins).reshape(days, bins)
        for weights in (np.ones(index.shape), outcomes[known])
    ]
    return np.stack(sums, axis=1)


def wilson_interval(
    frequency: FloatArray, count: IntArray, z: float = Z95
) -> tuple[FloatArray, FloatArray]:
    """Where the probability lies behind a frequency f out of n = `count` independent trials:

    (f + z^2 / 2n -+ z sqrt(f (1 - f) / n + z^2 / 4n^2)) / (1 + z^2 / n)   (Wilson 1927).
    """
    trials = np.where(count > 0, count, np.nan)
    shrink = 1 + z**2 / trials
    centre = (frequency + z**2 / (2 * trials)) / shrink
    half = z / shrink * np.sqrt(frequency * (1 - frequency) / trials + (z / (2 * trials)) ** 2)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def expected_calibration_error(
    probabilities: FloatArray, outcomes: FloatArray, bins: int = 10
) -> float:
    """Mean distance of forecast and frequency over bins, weighted by their cells."""
    binned = bin_cells(probabilities, outcomes, bins)
    filled = binned.count > 0
    if not filled.any():
        return float("nan")
    distance = np.abs(binned.forecast - binned.frequency)[filled]
    return float(np.average(distance, weights=binned.count[filled]))
