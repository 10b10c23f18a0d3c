"""The model as forecasters: its three readings behind the interface of all others.

*profiles* is a kernel over past days like any baseline, only learned, and so speaks of every level.
*direct* and *atoms* speak of the roots. Shares of *profiles* and *direct* are those of the past
days by their probability, shares of *atoms* those of the futures.
"""

from dataclasses import dataclass
from datetime import date

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    FloatArray,
    Forecast,
    Forecaster,
    History,
    Level,
    make_forecast,
)
from gdelphi.measures.past import Past, past_of
from gdelphi.measures.profiles import standard_events
from gdelphi.model.sampler import Sampler
from gdelphi.stack.baselines import Baseline, weighted_days


def _places(known: tuple[str, ...], streams: tuple[str, ...]) -> list[int]:
    """The positions of streams among those that the model knows."""
    place = {stream: number for number, stream in enumerate(known)}
    strange = [stream for stream in streams if stream not in place]
    if strange:
        raise ForecastError(
            f"the model was not asked about {', '.join(strange)}: add them to its streams"
        )
    return [place[stream] for stream in streams]


@dataclass(frozen=True, eq=False)
class LearnedDays(Baseline):
    """The reading *profiles*: past days weighed by the model's attention."""

    sampler: Sampler
    streams: tuple[str, ...]

    @property
    def name(self) -> str:
        return "profiles"

    def kernel(self, past: Past) -> FloatArray:
        """The model's probability of each past day; where it has none, the last day."""
        known = self.sampler.day_probabilities(past.origin)
        known = known[_places(self.sampler.streams, self.streams)]  # [stream, day], origin last
        age, size = past.ages, known.shape[1]
        kernel = np.where(age < size, known[:, -1 - age.clip(max=size - 1)], 0)
        total = kernel.sum(axis=1, keepdims=True)
        kernel[total[:, 0] <= 0, -1] = 1.0
        weights: FloatArray = kernel / kernel.sum(axis=1, keepdims=True)
        return weights


@dataclass(frozen=True, eq=False)
class Reading:
    """The readings *direct* and *atoms*, of the roots."""

    name: str
    sampler: Sampler
    profiles: LearnedDays

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """Forecasts for each stream of the history."""
        if history.codes != standard_events("root"):
            raise ForecastError(f"{self.name} speaks of the 20 roots only")
        if horizon != 1:
            raise ForecastError(f"{self.name} speaks of tomorrow only: horizon 1")
        sampled = self.sampler.at(origin)
        places = _places(sampled.streams, history.streams)
        if self.name == "atoms":  # shares of the futures' atoms
            samples = sampled.futures.shares[places].astype(np.float64).clip(0, 1)
            weights = np.full(samples.shape[:2], 1 / samples.shape[1])
        else:  # shares of the past days, by their probability
            past = past_of(history, origin, horizon)
            days = weighted_days(self.profiles.kernel(past), streams=len(history.streams))
            samples, weights = days.select(past.shares), days.weights
        occurs, headline, surge = sampled.readings[self.name][places].swapaxes(0, 1)
        return [
            make_forecast(
                Forecast(
                    self.name, stream, origin, horizon, history.codes, occurs[number],
                    headline[number], surge[number], samples[number], weights[number],
                )
            )
            for number, stream in enumerate(history.streams)
        ]  # fmt: skip


def model_members(sampler: Sampler, streams: tuple[str, ...], level: Level) -> list[Forecaster]:
    """The model's readings that speak of a level, for histories of these streams."""
    learned = LearnedDays(sampler, streams)
    if level != "root":
        return [learned]
    return [learned, Reading("direct", sampler, learned), Reading("atoms", sampler, learned)]
