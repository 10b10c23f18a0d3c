"""The past of a history at an origin: what a forecaster that looks at root profiles may know.

What each present day was is computed once for a history and kept with it; an origin is then a
prefix of these arrays.
"""

from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    FloatArray,
    History,
    IntArray,
)
from gdelphi.measures.targets import (
    days_until,
    headline_of,
    occurs_of,
    pooled_rate,
    pooled_surge_rate,
    shares_of,
    threshold_from,
)

CONTEXT_DAYS = 7  # a context is the mean of this many present days


NO_VARIANCE = 1e-12  # below it a context has not varied, but for rounding


@dataclass(frozen=True, eq=False)
class PresentDays:
    """A history without its missing days, and what each day was: computed once per history.

    Every entry is a function of its own day and days before it, so a prefix of these arrays is what
    the same history, cut at the origin, would give. The arrays are read-only: forecasts hand out
    views of them.
    """

    ordinals: IntArray
    """[day], proleptic ordinals of the dates"""
    shares: FloatArray
    """[stream, day, code]"""
    occurs: FloatArray
    """[stream, day, code], 1 or 0"""
    headline: FloatArray
    """[stream, day, code], 1 or 0"""
    volume: FloatArray
    """[stream, day]"""
    latest: "_LatestSurges" = field(default_factory=lambda: _LatestSurges())

    @cached_property
    def hits(self) -> dict[str, FloatArray]:
        """On how many past days each target came true, all streams together, [day, code]."""
        return {
            "occurs": self.occurs.sum(axis=0).cumsum(axis=0),
            "headline": self.headline.sum(axis=0).cumsum(axis=0),
        }

    @cached_property
    def weeks(self) -> "Weeks":
        """The weeks that end on each day, the first of them on day CONTEXT_DAYS - 1."""
        shares, volume = _trailing_mean(self.shares), _trailing_mean(np.log1p(self.volume))
        return Weeks(
            shares, volume, _running_variance(shares), _running_variance(volume[:, :, None])
        )

    def surges(self, size: int) -> "Surges":
        """Shares of the first `size` days against the threshold after them."""
        if self.latest.surges is None or self.latest.surges.happened.shape[1] != size:
            threshold = threshold_from(self.shares[:, :size])
            above = self.shares[:, :size] > threshold[:, None]
            self.latest.surges = Surges(
                above.astype(np.float64),
                np.where(np.isnan(threshold), np.nan, 0.0),
                pooled_surge_rate(above, threshold),
            )
        return self.latest.surges


class Weeks(NamedTuple):
    """Contexts: means over weeks, and how much they varied up to each."""

    shares: FloatArray
    """[stream, week, code]"""
    volume: FloatArray
    """[stream, week], mean of ln(1 + volume)"""
    shares_variance: FloatArray
    """[stream, week], over the weeks up to it, summed over codes"""
    volume_variance: FloatArray
    """[stream, week]"""


class Surges(NamedTuple):
    """Past days against the threshold at the origin."""

    happened: FloatArray
    """[stream, day, code], 1 or 0"""
    undefined: FloatArray
    """[stream, code], NaN where there is no threshold, else 0"""
    pooled_rate: FloatArray
    """[code]"""


@dataclass
class _LatestSurges:
    """Surges at the latest origin that was asked for: forecasters are asked about one origin after
    another, several of them about each, and nothing older is worth keeping."""

    surges: Surges | None = None


@dataclass(frozen=True, eq=False)
class Past:
    """What a forecaster may know: the present days up to the origin."""

    known: PresentDays
    size: int
    """present days up to the origin, at least 1"""
    origin: date
    horizon: int

    @property
    def target_day(self) -> date:
        return self.origin + timedelta(days=self.horizon)

    @property
    def ordinals(self) -> IntArray:
        return self.known.ordinals[: self.size]

    @property
    def ages(self) -> IntArray:
        """Calendar days from each present day to the origin, [day]."""
        return self.origin.toordinal() - self.ordinals

    @property
    def shares(self) -> FloatArray:
        return self.known.shares[:, : self.size]

    @property
    def volume(self) -> FloatArray:
        return self.known.volume[:, : self.size]

    def happened(self, target: str) -> FloatArray:
        """Whether the target came true on each past day, [stream, day, code]."""
        if target == "surge":
            return self.known.surges(self.size).happened
        values: FloatArray = getattr(self.known, target)
        return values[:, : self.size]

    def pooled_rate(self, target: str) -> FloatArray:
        """Rate over all streams and past days, with half a day of either kind, [code]."""
        if target == "surge":
            return self.known.surges(self.size).pooled_rate
        hits: FloatArray = self.known.hits[target][self.size - 1]
        return pooled_rate(hits, len(self.known.shares) * self.size)


def past_of(history: History, origin: date, horizon: int = 1) -> Past:
    """The past of a history at an origin; what is derived from the history is kept with it."""
    if horizon < 1:
        raise ForecastError(f"horizon {horizon}: it is a number of days from 1 on")
    size = int(history.present[: days_until(history, origin)].sum())
    if size == 0:
        raise ForecastError(f"no present day up to {origin}: choose a later origin")
    return Past(history.present_days, size, origin, horizon)


def present_days_of(history: History) -> PresentDays:
    """The present days of a history, computed; `history.present_days` keeps them."""
    present = np.flatnonzero(history.present)
    weights = history.weights[:, present]
    made = PresentDays(
        ordinals=history.days[0].toordinal() + present.astype(np.int64),
        shares=shares_of(weights),
        occurs=occurs_of(history.counts[:, present]).astype(np.float64),
        headline=headline_of(weights).astype(np.float64),
        volume=history.volume[:, present].astype(np.float64),
    )
    for values in (made.ordinals, made.shares, made.occurs, made.headline, made.volume):
        values.flags.writeable = False
    return made


def _trailing_mean(values: FloatArray) -> FloatArray:
    """Means over CONTEXT_DAYS days along axis 1. Added up anew for each day: a running sum would
    make equal weeks differ by rounding."""
    size = max(values.shape[1] - CONTEXT_DAYS + 1, 0)
    total = np.zeros((values.shape[0], size, *values.shape[2:]))
    for offset in range(CONTEXT_DAYS if size else 0):
        total += values[:, offset : offset + size]
    return total / CONTEXT_DAYS


def _running_variance(values: FloatArray) -> FloatArray:
    """Variance of [stream, week, code] over the weeks up to each, codes summed; [stream, week].

    Taken about the first week, which saves digits where weeks are much alike.
    """
    moved = values - values[:, :1]
    number = np.arange(1, values.shape[1] + 1)
    mean = moved.cumsum(axis=1) / number[:, None]
    variance: FloatArray = (moved**2).sum(axis=2).cumsum(axis=1) / number - (mean**2).sum(axis=2)
    return variance
