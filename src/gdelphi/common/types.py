"""What a forecast is, and what a forecaster must offer: the terms on which all of them are judged.

A baseline, the network, the oracle of a simulated world: each is a `Forecaster` and speaks in
`Forecast` objects, so that no judge needs to know which one it has before it. A forecast is about
one stream and one day. It gives a probability for each target and standard event, and a weighted
sample of share profiles, because a sample answers every later question about shares (means,
quantiles, scores) where a list of quantiles would not.

Histories are typed by their shape (`History`), not by the class that the store is read into: what
stands in this module may depend on nothing below it.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ForecastError

FloatArray = npt.NDArray[np.float64]
VectorArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Level = Literal["root", "base", "full"]
"""of standard events: 20 roots, 146 bases (three digits), 290 codes that a row can carry"""
LEVELS: Final[tuple[Level, ...]] = ("root", "base", "full")
Target = Literal["occurs", "headline", "surge"]
TARGETS: Final = ("occurs", "headline", "surge")
"""what is forecast with a probability, for each stream and standard event"""
AHEAD: Final = 7
"""days after the origin that are forecast: a week"""
WITHIN: Final = 0
"""the horizon that stands for the whole week, in tables"""
WORLD: Final = "WORLD"
"""the stream of all rows, with or without a country"""

WEIGHT_SUM_TOLERANCE = 1e-9
QUANTILE_TOLERANCE = 1e-12  # weights that ought to sum to q may miss it by rounding


class Measure(NamedTuple):
    """A discrete probability measure on the unit hypersphere. It may be empty: n = 0."""

    points: VectorArray
    """[n, dim], rows of length 1"""
    weights: FloatArray
    """[n], not negative, summing to 1 unless n = 0"""


class History(Protocol):
    """Days of the past, over the standard events of one level. Days follow each other.

    `present` tells days that are known from days that are missing; a present day may be empty. A
    history does not change, so it may keep what is derived from it.
    """

    @property
    def streams(self) -> tuple[str, ...]: ...
    @property
    def days(self) -> tuple[date, ...]: ...
    @property
    def codes(self) -> tuple[str, ...]: ...
    @property
    def counts(self) -> IntArray:
        """Rows, [stream, day, code]."""

    @property
    def weights(self) -> FloatArray:
        """Cloud weight, [stream, day, code]."""

    @property
    def volume(self) -> IntArray:
        """All rows, with or without a standard event, [stream, day]."""

    @property
    def present(self) -> BoolArray:
        """[day]."""

    @property
    def present_days(self) -> Any:
        """`PresentDays` of measures/past.py: what forecasters share, kept with the history."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """A forecaster's answer for one stream and day. Build it with `make_forecast`."""

    forecaster: str
    stream: str
    origin: date
    horizon: int
    codes: tuple[str, ...]
    occurs: FloatArray
    """[code]"""
    headline: FloatArray
    """[code]"""
    surge: FloatArray
    """[code], NaN where the target is undefined"""
    share_samples: FloatArray
    """[sample, code]"""
    share_weights: FloatArray
    """[sample], summing to 1"""

    @property
    def target_day(self) -> date:
        """The day that the forecast is about."""
        return self.origin + timedelta(days=self.horizon)

    @property
    def share_mean(self) -> FloatArray:
        """Expected share of each code."""
        return self.share_weights @ self.share_samples

    def share_quantile(self, q: float) -> FloatArray:
        """For each code the smallest sampled share whose cumulated weight reaches q."""
        if not 0 <= q <= 1:
            raise ForecastError(f"quantile {q} is not between 0 and 1")
        kept = self.share_weights > 0
        samples, weights = self.share_samples[kept], self.share_weights[kept]
        order = np.argsort(samples, axis=0, kind="stable")
        reached = np.cumsum(weights[order], axis=0) >= q - QUANTILE_TOLERANCE
        reached[-1] = True
        first = np.argmax(reached, axis=0)[None]
        chosen = np.take_along_axis(order, first, axis=0)
        quantile: FloatArray = np.take_along_axis(samples, chosen, axis=0)[0]
        return quantile

    def probability(self, target: str) -> FloatArray:
        """The probabilities of one of `TARGETS`, [code]."""
        if target not in TARGETS:
            raise ForecastError(f"no target {target!r}; there are {', '.join(TARGETS)}")
        values: FloatArray = getattr(self, target)
        return values


@dataclass(frozen=True, eq=False)
class WeekForecast:
    """A forecaster's answer for one stream and the seven days after an origin.

    Targets are those of measures/week_targets.py; NaN where one is undefined.
    """

    forecaster: str
    stream: str
    origin: date
    codes: tuple[str, ...]
    daily: FloatArray
    """probabilities, [target, day, code]"""
    within: FloatArray
    """of the seven days together, [target, code]"""
    rows: FloatArray
    """expected rows, [day, code]"""
    escalation: float
    """probability that material conflict doubles"""


class Forecaster(Protocol):
    """Anything that forecasts."""

    @property
    def name(self) -> str:
        """How tables call it."""

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """One forecast for each of the history's streams, in their order.

        It may read no day after the origin, even where the history has them.
        """


def make_forecast(forecast: Forecast) -> Forecast:
    """The same forecast, after checking that it is one. The core trusts what passed here."""
    where = f"{forecast.forecaster}, {forecast.stream}, {forecast.origin}+{forecast.horizon}"
    codes = len(forecast.codes)
    if forecast.horizon < 1:
        raise ForecastError(f"{where}: the horizon is a number of days from 1 on")
    for target in TARGETS:
        values = forecast.probability(target)
        if values.shape != (codes,):
            raise ForecastError(f"{where}: {target} has shape {values.shape}, not {(codes,)}")
        inside = (values >= 0) & (values <= 1)
        if target == "surge":
            inside |= np.isnan(values)
        if not inside.all():
            raise ForecastError(f"{where}: {target} has values that are no probabilities")
    _check_shares(where, forecast.share_samples, forecast.share_weights, codes=codes)
    return forecast


def _check_shares(where: str, samples: FloatArray, weights: FloatArray, *, codes: int) -> None:
    if weights.ndim != 1 or not weights.size or samples.shape != (weights.size, codes):
        raise ForecastError(
            f"{where}: share samples of shape {samples.shape} and weights of shape "
            f"{weights.shape}, where [sample, {codes}] and [sample] are meant"
        )
    # Not-a-number fails these comparisons too.
    if codes and not (samples.min() >= 0 and samples.max() <= 1):
        raise ForecastError(f"{where}: share samples must lie between 0 and 1")
    if not (weights.min() >= 0 and abs(weights.sum() - 1) <= WEIGHT_SUM_TOLERANCE):
        raise ForecastError(f"{where}: share weights must not be negative and must sum to 1")
