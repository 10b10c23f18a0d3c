"""Forecasters without a network, each a kernel: weights over the past present days that sum to 1.

Everything else follows from the kernel and is the same for all. The probability of a target is the
weighted rate of past days on which it came true, and the share samples are those days' shares with
those weights. So a baseline is the few lines that say which past days tomorrow will resemble, and
two baselines differ in nothing else. For a surge, past shares are held against the threshold at the
origin, the one that the outcome will be held against.

Smoothing keeps every probability off 0 and 1: p = (n p_hat + c) / (n + 1), where n = 1 / sum(w^2)
is the effective number of days and c the rate of the code over all streams and past days. That is
one day's worth of belief in the pooled rate. To hold where a code never happened anywhere, or
always, c counts half a day of either kind: c = (hits + 1/2) / (cells + 1).

Ages are in calendar days, so a gap in the archive makes what lies before it older. With a horizon
above 1 the kernel stays the one at the origin, except for what speaks of the target day: its
weekday, and, for analogues, the day that came as long after the similar context.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from gdelphi.profiles import (
    SURGE_DAYS,
    days_until,
    headline_of,
    occurs_of,
    shares_of,
    threshold_from,
)
from gdelphi.types import FloatArray, Forecast, ForecastError, History, IntArray, make_forecast

CONTEXT_DAYS = 7  # a context is the mean of this many present days
ANALOGUE_FEWEST = 14  # present days below which there are no analogues worth the name
NEGLIGIBLE_HALVINGS = 64  # a weight halved so often is lost in rounding beside the first
NO_VARIANCE = 1e-12  # below it a context has not varied, but for rounding


# --- the past of a history ------------------------------------------------------------------------


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
    latest: "Latest" = field(default_factory=lambda: Latest())

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
            threshold = threshold_from(self.shares[:, max(size - SURGE_DAYS, 0) : size])
            defined = ~np.isnan(threshold)
            above = self.shares[:, :size] > threshold[:, None]
            hits = above.sum(axis=(0, 1), dtype=np.float64)
            cells = size * defined.sum(axis=0, dtype=np.float64)
            self.latest.surges = Surges(
                above.astype(np.float64), np.where(defined, 0.0, np.nan), (hits + 0.5) / (cells + 1)
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
class Latest:
    """Answers at the latest origin. Forecasters are asked about one origin after another, several
    of them and, in a stack, again; nothing older is worth keeping."""

    surges: Surges | None = None
    asked: tuple[date, int] | None = None
    forecasts: dict["Baseline", list[Forecast]] = field(default_factory=dict)

    def at(self, origin: date, horizon: int) -> dict["Baseline", list[Forecast]]:
        """The forecasts made at this origin for this horizon so far."""
        if self.asked != (origin, horizon):
            self.asked = (origin, horizon)
            self.forecasts.clear()
        return self.forecasts


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
        return (hits + 0.5) / (len(self.known.shares) * self.size + 1)


_KNOWN: WeakKeyDictionary[History, PresentDays] = WeakKeyDictionary()


def past_of(history: History, origin: date, horizon: int = 1) -> Past:
    """The past of a history at an origin; what is derived from the history is kept with it."""
    if horizon < 1:
        raise ForecastError(f"horizon {horizon}: it is a number of days from 1 on")
    size = int(history.present[: days_until(history, origin)].sum())
    if size == 0:
        raise ForecastError(f"no present day up to {origin}: choose a later origin")
    if history not in _KNOWN:
        _KNOWN[history] = _present_days(history)
    return Past(_KNOWN[history], size, origin, horizon)


def _present_days(history: History) -> PresentDays:
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


# --- from a kernel to forecasts -------------------------------------------------------------------


class Baseline(ABC):
    """A forecaster by kernel. Frozen: what it said is found again by its settings."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How tables call it."""

    @abstractmethod
    def kernel(self, past: Past) -> FloatArray:
        """Weights of the past days, [day] for all streams alike or [stream, day]; they sum to 1."""

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        past = past_of(history, origin, horizon)
        said = past.known.latest.at(origin, horizon)
        if self not in said:
            said[self] = self._forecasts(history, past)
        return list(said[self])

    def _forecasts(self, history: History, past: Past) -> list[Forecast]:
        weighed = weigh(self.kernel(past), streams=len(history.streams))
        samples = weighed.pick(past.shares)
        occurs, headline, surge = (
            smoothed(past, weighed, target) for target in ("occurs", "headline", "surge")
        )
        return [
            make_forecast(
                Forecast(
                    self.name, stream, past.origin, past.horizon, history.codes, occurs[number],
                    headline[number], surge[number], samples[number], weighed.weights[number],
                )
            )
            for number, stream in enumerate(history.streams)
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Weighed:
    """A kernel without the days that have no weight, which are most of them for some kernels."""

    days: slice | IntArray
    """positions of days: of all streams, [day], or of each, [stream, day]"""
    weights: FloatArray
    """[stream, day]"""

    def pick(self, values: FloatArray) -> FloatArray:
        """Those days of an array [stream, day, code]."""
        if isinstance(self.days, slice) or self.days.ndim == 1:
            return values[:, self.days]
        picked: FloatArray = values[np.arange(len(values))[:, None], self.days]
        return picked


def weigh(kernel: FloatArray, *, streams: int) -> Weighed:
    """The days of a kernel that have weight; the last stretch of days as a view."""
    if kernel.ndim == 1:
        chosen = np.flatnonzero(kernel)
        weights = np.tile(kernel[chosen], (streams, 1))
        whole = chosen.size == kernel.size - chosen[0]
        return Weighed(slice(int(chosen[0]), kernel.size) if whole else chosen, weights)
    number = np.count_nonzero(kernel, axis=1)
    if (number != number[:1]).any():
        return Weighed(slice(0, kernel.shape[1]), kernel)
    of_each = np.nonzero(kernel)[1].reshape(streams, -1)
    return Weighed(of_each, np.take_along_axis(kernel, of_each, axis=1))


def smoothed(past: Past, weighed: Weighed, target: str) -> FloatArray:
    """Probabilities of a target under a kernel, smoothed; [stream, code]."""
    weights = weighed.weights
    rate = (weights[:, None] @ weighed.pick(past.happened(target)))[:, 0]
    days = 1 / (weights**2).sum(axis=1, keepdims=True)
    mixed: FloatArray = (days * rate + past.pooled_rate(target)) / (days + 1)
    if target == "surge":
        mixed += past.known.surges(past.size).undefined
    mixed.flags.writeable = False
    return mixed


def exponential(ages: IntArray, half_life: float) -> FloatArray:
    """Weights that halve every `half_life` days, from the youngest day on.

    Days whose weight could not change the last bit of a sum are given none.
    """
    halvings = (ages - ages[-1]) / half_life
    weights = np.where(halvings < NEGLIGIBLE_HALVINGS, np.exp2(-halvings), 0.0)
    normalised: FloatArray = weights / weights.sum()
    return normalised


# --- the baselines --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Climatology(Baseline):
    """All past days alike."""

    name: str = "climatology"

    def kernel(self, past: Past) -> FloatArray:
        return np.full(past.size, 1 / past.size)


@dataclass(frozen=True)
class WeekdayClimatology(Baseline):
    """All past days of the target day's weekday alike; all past days while there is none."""

    name: str = "weekday"

    def kernel(self, past: Past) -> FloatArray:
        same = (past.ordinals - past.target_day.toordinal()) % 7 == 0
        if not same.any():
            return np.full(past.size, 1 / past.size)
        return np.where(same, 1 / np.count_nonzero(same), 0.0)


@dataclass(frozen=True)
class Persistence(Baseline):
    """The last present day again."""

    name: str = "persistence"

    def kernel(self, past: Past) -> FloatArray:
        last = np.zeros(past.size)
        last[-1] = 1.0
        return last


@dataclass(frozen=True)
class Ewma(Baseline):
    """Exponentially weighted past days."""

    half_life: float = 14.0
    name: str = "ewma"

    def kernel(self, past: Past) -> FloatArray:
        return exponential(past.ages, self.half_life)


@dataclass(frozen=True)
class RecencyBootstrap(Baseline):
    """A day drawn by an equal mixture of exponential kernels: what day attention is untrained."""

    half_lives: tuple[float, ...] = (7.0, 30.0, 90.0, 365.0)
    name: str = "recency"

    def kernel(self, past: Past) -> FloatArray:
        kernels = [exponential(past.ages, half_life) for half_life in self.half_lives]
        mixed: FloatArray = np.mean(kernels, axis=0)
        return mixed


@dataclass(frozen=True)
class Analogues(Baseline):
    """The days that followed the weeks most like the last one, for each stream by itself.

    A week is its mean shares and mean log volume; each of the two is measured in units of its own
    spread over the stream's past weeks, so that they count alike. Of equally near weeks the later
    one is taken. Days are counted in present days here. All past days alike while there are fewer
    than ANALOGUE_FEWEST.
    """

    neighbours: int = 25
    name: str = "analogues"

    def kernel(self, past: Past) -> FloatArray:
        weeks = past.size - CONTEXT_DAYS + 1  # that end up to the origin
        candidates = weeks - past.horizon  # whose following day is known
        if past.size < ANALOGUE_FEWEST or candidates < 1:
            return np.full(past.size, 1 / past.size)
        distance = self._distances(past, weeks)[:, :candidates]
        count = min(self.neighbours, candidates)
        latest_first = np.argsort(distance[:, ::-1], axis=1, kind="stable")[:, :count]
        week = candidates - 1 - latest_first
        kernel = np.zeros((len(distance), past.size))
        followed = week + CONTEXT_DAYS - 1 + past.horizon
        np.put_along_axis(kernel, followed, 1 / count, axis=1)
        return kernel

    @staticmethod
    def _distances(past: Past, weeks: int) -> FloatArray:
        """Of each past week to the last one, squared, [stream, week]."""
        known = past.known.weeks
        last = weeks - 1
        moved = known.shares[:, :weeks] - known.shares[:, last : last + 1]
        in_shares = np.einsum("swk,swk->sw", moved, moved)
        in_volume = (known.volume[:, :weeks] - known.volume[:, last : last + 1]) ** 2
        return _in_units(in_shares, known.shares_variance[:, last]) + _in_units(
            in_volume, known.volume_variance[:, last]
        )


def _in_units(squared: FloatArray, variance: FloatArray) -> FloatArray:
    varied = variance > NO_VARIANCE
    return squared / np.where(varied, variance, 1.0)[:, None]


def all_baselines() -> Sequence[Baseline]:
    """One of each, with its defaults: the members of the stack."""
    return (
        Climatology(),
        WeekdayClimatology(),
        Persistence(),
        Ewma(),
        RecencyBootstrap(),
        Analogues(),
    )
