"""Pack arrays: everything of a pack that forecasts are made from and judged by, as dense arrays.

For each stream and day: which targets were hit, the shares, the thresholds of surges and the
pooled rates at that origin, and features that describe the day. All of it is a function of the
days up to its own, so a prefix of these arrays is what a shorter pack would give. Clouds and atoms
stay in the pack and are gathered for a batch.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gdelphi.common.checksums import is_damaged
from gdelphi.common.files import atomic_write
from gdelphi.common.types import (
    TARGETS,
    BoolArray,
    FloatArray,
    IntArray,
)
from gdelphi.measures.pack import STATES, Pack
from gdelphi.measures.targets import (
    SURGE_DAYS,
    headline_of,
    occurs_of,
    pooled_rate,
    pooled_surge_rate,
    shares_of,
    surged,
    threshold_from,
)

USUAL_DAYS: Final = 120.0  # half-life of what counts as usual for a stream
LITTLE: Final = 0.2  # rows a day beside which nothing is called a multiple
MOST_RELATIVE: Final = 8.0


@dataclass(frozen=True, eq=False)
class PackArrays:
    """Arrays over [stream, day, ...]; the days are the pack's."""

    pack: Pack
    occurs: BoolArray
    """[stream, day, code]"""
    headline: BoolArray
    """[stream, day, code]"""
    shares: FloatArray
    """[stream, day, code]"""
    thresholds: FloatArray
    """share that a surge after this origin exceeds, [stream, day, code]; NaN: undefined"""
    pooled: FloatArray
    """rate of each target over all streams and days up to the origin, [target, day, code]"""
    usual: FloatArray
    """rows by code that are usual after each day, [stream, day, code], above 0"""
    relative: FloatArray
    """rows by code against the usual, [stream, day, code]; 0 is as usual"""
    features: FloatArray
    """what describes a day, [stream, day, feature]"""

    @property
    def present(self) -> BoolArray:
        return self.pack.present

    @cached_property
    def weekday(self) -> IntArray:
        """[day], 0 is Monday"""
        first = self.pack.first_day.weekday()
        return (first + np.arange(self.pack.facts.days)) % 7

    @cached_property
    def outcomes(self) -> FloatArray:
        """What came of each target on the day after each day, [target, stream, day, code]; NaN
        where it is undefined, and everywhere after the last day and before a missing one."""
        outcomes = np.full((len(TARGETS), *self.shares.shape), np.nan)
        surge = surged(self.shares[:, 1:], self.thresholds[:, :-1])
        outcomes[:, :, :-1] = np.stack([self.occurs[:, 1:], self.headline[:, 1:], surge])
        outcomes[:, :, :-1][:, :, ~self.present[1:]] = np.nan
        return outcomes


def read_pack_arrays(pack: Pack) -> PackArrays:
    """Compute the arrays of a pack; those that take long are kept beside it."""
    occurs, headline = occurs_of(pack.counts), headline_of(pack.weights)
    shares = shares_of(pack.weights)
    thresholds, surge_rates = _surges(pack, shares)
    # Over all streams and present days up to each, [day, code].
    cells = len(occurs) * pack.present.cumsum()[:, None]
    occurs_rates, headline_rates = (
        pooled_rate((hits & pack.present[:, None]).sum(axis=0).cumsum(axis=0), cells)
        for hits in (occurs, headline)
    )
    pooled = np.stack([occurs_rates, headline_rates, surge_rates])
    usual = _usual(pack.counts.astype(np.float64), pack.present)
    relative = _relative(pack, usual)
    features = _features(pack, shares)
    return PackArrays(
        pack, occurs, headline, shares, thresholds, pooled, usual + LITTLE / 4, relative, features
    )


def _surges(pack: Pack, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Thresholds [stream, day, code] and pooled rates [day, code] of surges after each day."""
    path = pack.folder / "surges.npz"
    if path.exists() and not is_damaged(path):
        with np.load(path) as kept:
            return kept["thresholds"], kept["rates"]
    thresholds = np.full(shares.shape, np.nan)
    rates = np.full(shares.shape[1:], 0.5)
    for origin in range(shares.shape[1]):
        known = np.flatnonzero(pack.present[: origin + 1])
        threshold = threshold_from(shares[:, known[-SURGE_DAYS:]])
        thresholds[:, origin] = threshold
        rates[origin] = pooled_surge_rate(shares[:, known] > threshold[:, None], threshold)
    # The folder may be gone: a newer pack takes older ones away, and this one is still open.
    if pack.folder.exists():
        with suppress(FileNotFoundError), atomic_write(path) as part, part.open("wb") as file:
            np.savez(file, thresholds=thresholds, rates=rates)
    return thresholds, rates


# --- features -------------------------------------------------------------------------------------


def _features(pack: Pack, shares: FloatArray) -> FloatArray:
    """Counts as they are and against the usual, shares, set statistics, state and flags."""
    counts = np.log1p(pack.counts)
    volume = np.log1p(pack.statistics[:, :, :1].swapaxes(0, 1))
    statistics = pack.statistics[:, :, 3:].swapaxes(0, 1) / np.array([3, 1, 1, 1, 1, 5, 5])
    state = np.eye(len(STATES))[pack.states.T]
    flags = np.broadcast_to(
        np.stack([pack.partial, pack.backfile], axis=1), (*state.shape[:2], 2)
    ).astype(np.float64)
    parts = [
        counts,
        counts - _usual(counts, pack.present),
        np.sqrt(shares),
        volume,
        volume - _usual(volume, pack.present),
        statistics,
        state,
        flags,
    ]
    return np.concatenate(parts, axis=2)


def _relative(pack: Pack, usual: FloatArray) -> FloatArray:
    """Counts over the usual ones, less 1; held below MOST_RELATIVE, 0 on missing days."""
    relative = (pack.counts - usual) / (usual + LITTLE)
    return np.where(pack.present[:, None], relative, 0.0).clip(max=MOST_RELATIVE)


def _usual(values: FloatArray, present: BoolArray) -> FloatArray:
    """Exponential mean of the present days up to each, [stream, day, value].

    With q = 2^(-1 / half-life), over the present days s <= t, of which n_s have come since s:
    sum_s q^n_s x_s / sum_s q^n_s.
    """
    keep = 0.5 ** (1 / USUAL_DAYS)
    total = np.zeros((values.shape[0], values.shape[2]))
    mass = 0.0
    usual = np.zeros(values.shape)
    for day in range(values.shape[1]):
        if present[day]:
            total = keep * total + (1 - keep) * values[:, day]
            mass = keep * mass + (1 - keep)
        usual[:, day] = total / max(mass, 1e-12)
    return usual
