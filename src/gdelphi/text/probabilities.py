"""From texts to probabilities: what a day's descriptor says about everything that happened on it.

A descriptor names the three to ten largest things of a day. An event that it does not name may well
occur, the likelier the more rows the day has; so "occurs if a phrase has it" would be far too low
in a busy stream. Past days tell: on days with such a volume whose descriptor gave the event such a
share, how often did the target come true? That rate, counted over the past days of the history for
each stream and code and drawn towards that of all streams, is the probability that a text stands
for. The probability of a forecast is the mean over its futures.
"""

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    History,
    IntArray,
    Level,
)
from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.past import Past, past_of
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.targets import surge_threshold
from gdelphi.text.compact import (
    MOST_VOLUME,
    DayText,
    volume_of,
)
from gdelphi.text.corpus import PackDescriptors

SHARE_EDGES: Final = (0.0, 0.06, 0.12, 0.24, 0.48)
"""a share belongs to the class of the largest edge that it exceeds"""
SURGE_EDGES: Final = (0.0, 0.6, 1.0, 1.6)
"""the same of shares over the threshold of a surge"""
CLASSES: Final = len(SHARE_EDGES) + 1
VOLUMES: Final = MOST_VOLUME + 1
POOLED_DAYS: Final = 10.0  # days' worth of belief in the rate of all streams
LOOKED_BACK: Final = 730  # present days that rates are counted on, at most


def level_of(codes: tuple[str, ...]) -> Level:
    """The level whose standard events these codes are."""
    levels: tuple[Level, ...] = ("root", "base", "full")
    for level in levels:
        if codes == standard_events(level):
            return level
    raise ForecastError("the text forecaster speaks of standard events: roots, bases or full codes")


@lru_cache(3)
def events_of(level: Level) -> dict[str, int]:
    """Place of the standard event of each known event code."""
    place = {code: number for number, code in enumerate(standard_events(level))}
    return {
        code: place[getattr(lineage(code), level)]
        for code in event_codes()
        if getattr(lineage(code), level) in place
    }


def shares_of_text(text: DayText, level: Level) -> FloatArray:
    """Share of each standard event in a text, [code]."""
    places = events_of(level)
    shares = np.zeros(len(standard_events(level)))
    for phrase in text.phrases:
        place = places.get(phrase.code, places.get(lineage(phrase.code).full, -1))
        if place >= 0:
            shares[place] += phrase.weight
    return shares


class DescriptorShares(NamedTuple):
    """Past present days by what their descriptors name."""

    shares: FloatArray
    """[stream, day, code]"""
    volumes: IntArray
    """[stream, day]"""


class Rates(NamedTuple):
    """How often each target came true on past days, [stream, code, volume, class]."""

    occurs: FloatArray
    headline: FloatArray
    surge: FloatArray
    threshold: FloatArray
    """[stream, code], NaN where there is no surge"""


class TextReader:
    """Reads texts about the streams of a pack."""

    def __init__(self, descriptors: PackDescriptors) -> None:
        self._descriptors = descriptors
        self._named: WeakKeyDictionary[History, DescriptorShares] = WeakKeyDictionary()
        self._rates: dict[tuple[int, date], tuple[History, Rates]] = {}

    def rates(self, history: History, origin: date) -> Rates:
        """Counted on the days up to an origin; those of the last one that was asked for are kept
        for each history."""
        key = (id(history), origin)
        if key not in self._rates:
            self._rates = {k: v for k, v in self._rates.items() if k[0] != id(history)}
            self._rates[key] = (history, self._count(history, origin))
        return self._rates[key][1]

    def _count(self, history: History, origin: date) -> Rates:
        past = past_of(history, origin)
        if history not in self._named:
            self._named[history] = self._name(history, past)
        days = slice(max(past.size - LOOKED_BACK, 0), past.size)
        named = DescriptorShares(
            self._named[history].shares[:, days], self._named[history].volumes[:, days]
        )
        threshold = surge_threshold(history, origin)
        share = classes(named.shares, SHARE_EDGES)
        relative = classes(named.shares / _above_zero(threshold)[:, None], SURGE_EDGES)
        occurs, headline, surge = (
            _rates(past.happened(target)[:, days], relative if target == "surge" else share,
                   named.volumes)
            for target in TARGETS
        )  # fmt: skip
        return Rates(occurs, headline, surge, threshold)

    def _name(self, history: History, past: Past) -> DescriptorShares:
        """What the descriptors of all present days name, as far as the pack has them."""
        pack, level = self._descriptors.pack, level_of(history.codes)
        first = (history.days[0] - pack.first_day).days
        if first < 0 or history.streams != pack.facts.streams:
            raise ForecastError("the history has other streams or earlier days than the pack")
        days = range(first, min(first + len(history.days), pack.facts.days))
        shares = self._descriptors.named(dict(events_of(level)), len(history.codes), days)
        present = past.known.ordinals - history.days[0].toordinal()
        present = present[present < len(days)]
        volumes = np.vectorize(volume_of, otypes=[np.int64])(history.volume[:, present])
        return DescriptorShares(shares[:, present], volumes)

    def probabilities(
        self, rates: Rates, stream: int, texts: list[DayText], level: Level
    ) -> tuple[Mapping[str, FloatArray], FloatArray]:
        """By target [code], and the texts' shares [text, code]."""
        of_texts, shares = self.of_texts(rates, stream, texts, level)
        return {target: chances.mean(axis=0) for target, chances in of_texts.items()}, shares

    def of_texts(
        self, rates: Rates, stream: int, texts: list[DayText], level: Level
    ) -> tuple[Mapping[str, FloatArray], FloatArray]:
        """What each text stands for: probabilities by target, and shares, all [text, code]."""
        shares = np.stack([shares_of_text(text, level) for text in texts])
        volume = np.array([min(max(text.volume, 0), MOST_VOLUME) for text in texts])[:, None]
        code = np.arange(shares.shape[1])
        share = classes(shares, SHARE_EDGES)
        threshold = rates.threshold[stream]
        relative = classes(shares / _above_zero(threshold), SURGE_EDGES)
        probabilities = {
            "occurs": rates.occurs[stream][code, volume, share],
            "headline": rates.headline[stream][code, volume, share],
            "surge": rates.surge[stream][code, volume, relative],
        }
        probabilities["surge"] = np.where(np.isnan(threshold), np.nan, probabilities["surge"])
        return probabilities, shares


def classes(values: FloatArray, edges: tuple[float, ...]) -> IntArray:
    """How many edges a value exceeds."""
    number: IntArray = np.searchsorted(edges, values, side="left").astype(np.int64)
    return number


def _above_zero(threshold: FloatArray) -> FloatArray:
    return np.where(np.isnan(threshold), 1.0, threshold)


def _rates(happened: FloatArray, kinds: IntArray, volumes: IntArray) -> FloatArray:
    """Rates by stream, code, volume and class: those of all streams, drawn on by their own."""
    streams, _, codes = kinds.shape
    shape = (streams, codes, VOLUMES, CLASSES)
    place = np.arange(streams)[:, None, None] * codes + np.arange(codes)
    place = (place * VOLUMES + volumes[:, :, None]) * CLASSES + kinds
    size = int(np.prod(shape))
    known = ~np.isnan(happened)
    days = np.bincount(place[known], minlength=size).reshape(shape).astype(np.float64)
    hits: FloatArray = np.bincount(place[known], happened[known], size).reshape(shape).astype(float)
    # From the rate of a class over everything, each finer one is drawn towards the one above it:
    # class -> volume -> code -> stream.
    of_class = (hits.sum((0, 1, 2)) + 0.5) / (days.sum((0, 1, 2)) + 1)
    of_volume = _drawn(hits.sum((0, 1)), days.sum((0, 1)), of_class)
    of_code = _drawn(hits.sum(0), days.sum(0), of_volume)
    return _drawn(hits, days, of_code)


def _drawn(hits: FloatArray, days: FloatArray, towards: FloatArray) -> FloatArray:
    """(hits + m rate above) / (days + m): a rate with m = POOLED_DAYS days' worth of belief in the
    one above it."""
    rates: FloatArray = (hits + POOLED_DAYS * towards) / (days + POOLED_DAYS)
    return rates
