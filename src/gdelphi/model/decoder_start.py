"""What the measure decoder reads: the last days of a stream, and their few-atom summary.

    space-time measure   the clouds of the last days one by one, with their lags
    recent cloud         their mean: each day's cloud, weighted by 2^(-lag / half-life)
    start                the recent cloud in a few atoms, nearest in W2 (ot/quantise.py)

The start is where the decoder begins and what it has to beat; its half-life is chosen on validation
A. Clouds with more points than asked for are thinned at even steps of their cumulated weight, which
keeps the measure on average and needs no random numbers. Nothing here looks past the last day that
it is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray, IntArray, Measure
from gdelphi.measures.pack import Pack
from gdelphi.measures.space import Space
from gdelphi.ot.quantise import Quantisation, quantise

LOOK_BACK: Final = 365  # calendar days that the past of a quiet stream may reach back
POOLED_DAYS: Final = 100  # calendar days that the recent cloud is made of
POOLED_POINTS: Final = 300  # points of the recent cloud, at most
RESTARTS: Final = 1  # of the search for atoms; four are 0.1% nearer, and take twice as long


class RecentCloud(NamedTuple):
    """The mean of the last days' clouds, by recency."""

    measure: Measure
    slots: npt.NDArray[Any]
    """positions of its points in the pack's tables, [n, block]"""


class LastDays(NamedTuple):
    """Clouds of the last days that have any point, the latest first."""

    slots: npt.NDArray[np.int32]
    """positions in the pack's tables, [day, n, block]"""
    weights: npt.NDArray[np.float32]
    """[day, n]; 0: no point; a day that is not there has none at all"""
    lags: IntArray
    """days before the last one, [day]; 0 is the last day itself"""


@dataclass(frozen=True, eq=False)
class RecentDays:
    """Reads the recent past of a pack's streams. Streams and days are given by position."""

    pack: Pack
    space: Space

    def cloud(self, stream: int, day: int, most: int | None = None) -> Measure | None:
        """A day's cloud, thinned to at most so many points; None where it has none."""
        slots, weights = self._thinned(stream, day, most)
        return Measure(self.pack.points(slots, self.space), weights) if len(weights) else None

    def last_days(self, stream: int, end: int, *, days: int, most: int) -> LastDays:
        """The last days up to `end` that have points, as many as asked for if there are."""
        back = np.arange(end, max(end - LOOK_BACK, -1), -1)
        found = back[self.pack.clouds(back, stream)[2] > 0][:days].tolist()
        places, masses, sizes = self.pack.clouds(np.array(found, np.int64), stream)
        slots = np.zeros((days, most, places.shape[1]), np.int32)
        weights = np.zeros((days, most), np.float32)
        row = np.repeat(np.arange(len(found)), sizes)
        column = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        fits = np.repeat(sizes <= most, sizes)
        shares = masses / np.bincount(row, masses, len(found))[row]
        slots[row[fits], column[fits]] = places[fits]
        weights[row[fits], column[fits]] = shares[fits]
        for large in np.flatnonzero(sizes > most).tolist():
            kept, thinned = self._thinned(stream, found[large], most)
            slots[large, : len(thinned)], weights[large, : len(thinned)] = kept, thinned
        lags = np.zeros(days, np.int64)
        lags[: len(found)] = end - np.array(found, np.int64)
        return LastDays(slots, weights, lags)

    def recent_cloud(
        self,
        stream: int,
        end: int,
        half_life: float,
        *,
        days: int = POOLED_DAYS,
        most: int | None = POOLED_POINTS,
    ) -> RecentCloud | None:
        """The mean of the clouds of the last days up to `end`; None where all are empty."""
        last = range(max(end - days + 1, 0), end + 1)
        return self.mean_cloud(
            stream, {day: 0.5 ** ((end - day) / half_life) for day in last}, most
        )

    def mean_cloud(
        self, stream: int, day_weights: Mapping[int, float], most: int | None = POOLED_POINTS
    ) -> RecentCloud | None:
        """The mean of the clouds of some days, by their weights; None where all are empty."""
        days = np.fromiter(day_weights, np.int64, len(day_weights))
        slots, weights, sizes = self.pack.clouds(days, stream)
        if not len(weights):
            return None
        # In float32, as the weights of points are.
        of_days = np.fromiter(day_weights.values(), np.float32, len(days))
        slots, weights = _merged(slots, (weights * np.repeat(of_days, sizes)).astype(np.float64))
        kept, weights = thin(weights, most)
        slots = slots[kept]
        return RecentCloud(Measure(self.pack.points(slots, self.space), weights), slots)

    def _thinned(
        self, stream: int, day: int, most: int | None
    ) -> tuple[npt.NDArray[Any], FloatArray]:
        slots, weights = self.pack.cloud(day, stream)
        kept, masses = thin(np.asarray(weights, np.float64), most)
        return slots[kept], masses


def summary(recent: RecentCloud, atoms: int) -> Quantisation:
    """The recent cloud in a few atoms: the start of the decoder."""
    return quantise(recent.measure, atoms, restarts=RESTARTS)


def thin(weights: FloatArray, most: int | None) -> tuple[IntArray, FloatArray]:
    """Which points are kept of a cloud that has more than `most`, and weights that sum to 1.

    `most` draws at even steps of the cumulated weight, from the middle of the first step.
    """
    if most is None or len(weights) <= most:
        total = weights.sum()
        return np.arange(len(weights)), weights / total if total > 0 else weights
    ladder = (np.arange(most) + 0.5) / most
    cumulated = np.cumsum(weights)
    drawn = np.searchsorted(cumulated, ladder * cumulated[-1]).clip(max=len(weights) - 1)
    kept, counts = np.unique(drawn, return_counts=True)
    return kept, counts / most


def _merged(
    slots: npt.NDArray[Any], weights: FloatArray
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Each distinct phrase once, with the sum of its weights."""
    size = slots.astype(np.int64).max(axis=0) + 1
    keys = np.ravel_multi_index(tuple(slots.astype(np.int64).T), tuple(size))
    distinct, place = np.unique(keys, return_inverse=True)
    columns = np.unravel_index(distinct, tuple(size))
    sums: FloatArray = np.bincount(place, weights=weights).astype(np.float64)
    return np.stack(columns, axis=1).astype(np.int64), sums
