"""Calibration: of the cells that were given 30%, did 30% happen?

The band is Wilson's score interval for the frequency of each bin: it has a closed form, stays
within 0 and 1, and holds the mean forecast exactly where the binomial test would not reject it. It
takes cells as independent. The cells of a day are not, so with many streams it is too narrow: it
shows where to look, and decides nothing.
"""

from dataclasses import dataclass

import numpy as np

from gdelphi.scores import bin_cells
from gdelphi.types import FloatArray, IntArray

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


def wilson_interval(
    frequency: FloatArray, count: IntArray, z: float = Z95
) -> tuple[FloatArray, FloatArray]:
    """Where the probability lies behind a frequency out of `count` independent trials."""
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
