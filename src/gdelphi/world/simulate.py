"""Running the world: day after day, how many rows of what, and between whom."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from gdelphi.world.law import (
    CONFLICT,
    EXTRA_ROWS,
    INDEX,
    Ints,
    Law,
    Published,
)


@dataclass(frozen=True)
class SimulatedDay:
    """A day of the world, before its rows are written out.

    S streams, R roots, K kinds of occasions; J is the largest number of rivals of a country, in
    the order of `Map.rivals_of`.
    """

    index: int
    day: date
    missing: bool  # happened, but no file tells of it
    usual: Ints  # [S, R] rows but for announcements
    announcements: Ints  # [S, K] rows of each kind
    with_rival: Ints  # [S, R, J] of the usual conflict rows: visibly with that rival
    regime: Ints  # [S]

    @property
    def rows(self) -> int:
        return int(self.usual.sum() + self.announcements.sum())


def simulate(law: Law) -> Iterator[SimulatedDay]:
    """All days of the world, in order."""
    config = law.config
    rng = np.random.default_rng([config.seed, 3])
    memory = law.beginning()
    regime = _draw(rng, np.tile(law.stationary, (config.streams, 1)))
    lost = config.dirt.missing_days if config.dirt else 0.0
    for index in range(config.days):
        if index:
            regime = _draw(rng, law.moves[regime])
        rates = law.rates(index, memory)[regime, np.arange(config.streams)]
        noise = rng.gamma(law.dispersion, 1 / law.dispersion, rates.shape)
        usual = rng.poisson(rates * noise)
        announced = rng.random((config.streams, len(law.announcing))) < _announcing(law)
        extra = rng.poisson(EXTRA_ROWS, announced.shape)
        with_rival = _with_rivals(law, rng, usual)
        missing = bool(0 < index < config.days - 1 and rng.random() < lost)
        day = SimulatedDay(
            index, law.day(index), missing, usual, announced * (1 + extra), with_rival, regime
        )
        yield day
        memory = law.remember(index, memory, None if missing else published(law, day))


def _announcing(law: Law) -> NDArray[np.float64]:
    return law.announcing if law.config.switches.occasions else np.zeros_like(law.announcing)


def published(law: Law, day: SimulatedDay) -> Published:
    """What the news of a day shows."""
    counts = day.usual.astype(float)
    for kind, occasion in enumerate(law.config.occasions):
        counts[:, INDEX[occasion.code[:2]]] += day.announcements[:, kind]
    conflicts = np.zeros(len(law.map.rivals))
    for stream in range(law.config.streams):
        for place, (pair, _) in enumerate(law.map.rivals_of(stream)):
            conflicts[pair] += day.with_rival[stream, :, place].sum()
    return Published(counts, conflicts, day.announcements > 0)


def _with_rivals(law: Law, rng: np.random.Generator, usual: Ints) -> Ints:
    """Split conflict rows: each is with its own probability visibly with one of the rivals."""
    most = max(len(law.map.rivals_of(stream)) for stream in range(law.config.streams))
    split = np.zeros((*usual.shape, most), np.int64)
    for stream in range(law.config.streams):
        rivals = len(law.map.rivals_of(stream))
        share = law.config.rival_share / rivals
        odds = [share] * rivals + [1 - share * rivals]
        split[stream, CONFLICT, :rivals] = rng.multinomial(usual[stream, CONFLICT], odds)[
            :, :rivals
        ]
    return split


def _draw(rng: np.random.Generator, odds: NDArray[np.float64]) -> Ints:
    """One index for each row of probabilities."""
    return np.asarray((rng.random((len(odds), 1)) > odds.cumsum(axis=1)).sum(axis=1))
