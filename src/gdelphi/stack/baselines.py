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
from dataclasses import dataclass
from datetime import date

import numpy as np

from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    History,
    IntArray,
    make_forecast,
)
from gdelphi.measures.past import CONTEXT_DAYS, NO_VARIANCE, Past, past_of

ANALOGUE_FEWEST = 14  # present days below which there are no analogues worth the name
NEGLIGIBLE_HALVINGS = 64  # a weight halved so often is lost in rounding beside the first


# --- from a kernel to forecasts -------------------------------------------------------------------


class Baseline(ABC):
    """A forecaster by kernel."""

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
        days = weighted_days(self.kernel(past), streams=len(history.streams))
        samples = days.select(past.shares)
        occurs, headline, surge = (smoothed_probabilities(past, days, target) for target in TARGETS)
        return [
            make_forecast(
                Forecast(
                    self.name, stream, origin, horizon, history.codes, occurs[number],
                    headline[number], surge[number], samples[number], days.weights[number],
                )
            )
            for number, stream in enumerate(history.streams)
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class WeightedDays:
    """The days of a kernel that have weight, which are few for some kernels."""

    days: slice | IntArray
    """positions of days: of all streams, [day], or of each, [stream, day]"""
    weights: FloatArray
    """[stream, day]"""

    def select(self, values: FloatArray) -> FloatArray:
        """These days of an array [stream, day, code]."""
        if isinstance(self.days, slice) or self.days.ndim == 1:
            return values[:, self.days]
        selected: FloatArray = values[np.arange(len(values))[:, None], self.days]
        return selected


def weighted_days(kernel: FloatArray, *, streams: int) -> WeightedDays:
    """The days of a kernel that have weight; the last stretch of days as a view."""
    if kernel.ndim == 1:
        chosen = np.flatnonzero(kernel)
        weights = np.tile(kernel[chosen], (streams, 1))
        whole = chosen.size == kernel.size - chosen[0]
        return WeightedDays(slice(int(chosen[0]), kernel.size) if whole else chosen, weights)
    number = np.count_nonzero(kernel, axis=1)
    if (number != number[:1]).any():
        return WeightedDays(slice(0, kernel.shape[1]), kernel)
    days = np.nonzero(kernel)[1].reshape(streams, -1)
    return WeightedDays(days, np.take_along_axis(kernel, days, axis=1))


def smoothed_probabilities(past: Past, days: WeightedDays, target: str) -> FloatArray:
    """Probabilities of a target under a kernel, (n p_hat + c) / (n + 1); [stream, code]."""
    rate = (days.weights[:, None] @ days.select(past.happened(target)))[:, 0]  # p_hat
    number = 1 / (days.weights**2).sum(axis=1, keepdims=True)  # n
    smoothed: FloatArray = (number * rate + past.pooled_rate(target)) / (number + 1)
    if target == "surge":
        smoothed += past.known.surges(past.size).undefined
    smoothed.flags.writeable = False
    return smoothed


def exponential_weights(ages: IntArray, half_life: float) -> FloatArray:
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
        return exponential_weights(past.ages, self.half_life)


@dataclass(frozen=True)
class RecencyBootstrap(Baseline):
    """A day drawn by an equal mixture of exponential kernels: what day attention is untrained."""

    half_lives: tuple[float, ...] = (7.0, 30.0, 90.0, 365.0)
    name: str = "recency"

    def kernel(self, past: Past) -> FloatArray:
        kernels = [exponential_weights(past.ages, half_life) for half_life in self.half_lives]
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
        units = (known.shares_variance[:, last], known.volume_variance[:, last])
        shares_unit, volume_unit = (
            np.where(variance > NO_VARIANCE, variance, 1.0)[:, None] for variance in units
        )
        distances: FloatArray = in_shares / shares_unit + in_volume / volume_unit
        return distances


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
