"""Targets: what is forecast with a probability, and what came of it, written once for everybody.

For each stream, day and standard event, given the rows and the cloud weights of the day:

    occurs     at least one row
    headline   among the five largest by weight, ties by code, weight above 0
    surge      its share of the day's weight exceeds the 90th percentile of its shares on the last
               90 present days up to the origin; undefined with fewer than 60 such days, or if
               that percentile is 0

Rates over many cells are (hits + 1/2) / (cells + 1): half a cell of either kind beside those that
were seen (Jeffreys' prior), so that none is 0 or 1.
"""

from datetime import date

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import (
    TARGETS,
    BoolArray,
    FloatArray,
    History,
    IntArray,
)

HEADLINES = 5  # standard events of a day that are headlines
SURGE_QUANTILE = 90.0  # percentile of past shares that a surge exceeds
SURGE_DAYS = 90  # present days it is taken from
SURGE_FEWEST = 60  # with fewer there is no such target
LOOK_BACK = 4 * SURGE_DAYS  # calendar days in which enough present ones are found


def shares_of(weights: FloatArray) -> FloatArray:
    """Weights [..., code] over their sum; 0 where that is 0."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.zeros(weights.shape)
    np.divide(weights, total, out=shares, where=total > 0)
    return shares


def occurs_of(counts: IntArray) -> BoolArray:
    """At least one row; counts and result [..., code]."""
    return counts > 0


def headline_of(weights: FloatArray) -> BoolArray:
    """Among the five largest by weight, ties by code, weight above 0; [..., code]."""
    largest = np.argsort(-weights, axis=-1, kind="stable")[..., :HEADLINES]
    chosen = np.zeros(weights.shape, dtype=np.bool_)
    np.put_along_axis(chosen, largest, True, axis=-1)
    return chosen & (weights > 0)


def threshold_from(shares: FloatArray) -> FloatArray:
    """The share that a surge exceeds, [stream, code], from the shares of the present days up to the
    origin, [stream, day, code], of which the last 90 count. NaN where the target is undefined."""
    streams, days, codes = shares.shape
    if days < SURGE_FEWEST:
        return np.full((streams, codes), np.nan)
    # The day axis last: percentiles along it are three times as fast.
    recent = np.ascontiguousarray(shares[:, -SURGE_DAYS:].swapaxes(1, 2))
    threshold = np.percentile(recent, SURGE_QUANTILE, axis=2)
    return np.where(threshold > 0, threshold, np.nan)


def surged(shares: FloatArray, threshold: FloatArray) -> FloatArray:
    """Whether shares exceed their threshold: 1 or 0, NaN where there is none."""
    return np.where(np.isnan(threshold), np.nan, shares > threshold)


def pooled_rate(hits: npt.ArrayLike, cells: npt.ArrayLike) -> FloatArray:
    """The rate of hits in cells, with half a cell of either kind."""
    rate: FloatArray = (np.asarray(hits, np.float64) + 0.5) / (np.asarray(cells, np.float64) + 1)
    return rate


def pooled_surge_rate(above: BoolArray, threshold: FloatArray) -> FloatArray:
    """How often past days were above the threshold [stream, code] of the origin, [stream, day,
    code], over all streams that have one, [code]."""
    # A comparison with NaN is false, so streams without a threshold have no hits.
    return pooled_rate(above.sum(axis=(0, 1)), above.shape[1] * (~np.isnan(threshold)).sum(axis=0))


# --- of a history ---------------------------------------------------------------------------------


def days_until(history: History, day: date) -> int:
    """How many of the history's days there are up to and with a day."""
    return min(max((day - history.days[0]).days + 1, 0), len(history.days))


def surge_threshold(history: History, origin: date) -> FloatArray:
    """The share that a surge after the origin exceeds, [stream, code]; NaN: undefined."""
    recent = np.flatnonzero(history.present[: days_until(history, origin)])[-SURGE_DAYS:]
    return threshold_from(shares_of(history.weights[:, recent]))


def outcomes(history: History, origin: date, horizon: int = 1) -> dict[str, FloatArray]:
    """What came of each target on day `horizon` after the origin: 1 or 0, [stream, code].

    NaN where a target is undefined, and everywhere if that day is not present.
    """
    at = (origin - history.days[0]).days + horizon
    if not 0 <= at < len(history.days) or not history.present[at]:
        nothing = np.full((len(history.streams), len(history.codes)), np.nan)
        return {target: nothing.copy() for target in TARGETS}
    weights = history.weights[:, at]
    return {
        "occurs": occurs_of(history.counts[:, at]).astype(np.float64),
        "headline": headline_of(weights).astype(np.float64),
        "surge": surged(shares_of(weights), surge_threshold(history, origin)),
    }
