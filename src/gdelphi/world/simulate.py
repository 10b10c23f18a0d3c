"""Running the world: day after day, how many rows of what, and between whom.

`simulate` runs it once, from its first day to its last. What it draws a day with also draws that
day on many paths at once, from where a forecaster stands (`oracle_week.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np

from gdelphi.world.law import (
    CONFLICT,
    EXTRA_ROWS,
    INDEX,
    Floats,
    Ints,
    Law,
    Published,
)


class DrawnRows(NamedTuple):
    """Rows of a day, on one path or on many; J is as in `SimulatedDay`."""

    usual: Ints  # [..., S, R] rows but for announcements
    announcements: Ints  # [..., S, K] rows of each kind
    with_rival: Ints  # [..., S, R, J] of the usual conflict rows: visibly with that rival


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
    regime = draw_index(rng, np.tile(law.stationary, (config.streams, 1)))
    lost = config.dirt.missing_days if config.dirt else 0.0
    for index in range(config.days):
        if index:
            regime = draw_index(rng, law.moves[regime])
        rates = law.rates(index, memory)[regime, np.arange(config.streams)]
        rows = draw_rows(law, rng, rates)
        missing = bool(0 < index < config.days - 1 and rng.random() < lost)
        day = SimulatedDay(index, law.day(index), missing, *rows, regime)
        yield day
        memory = law.remember(index, memory, None if missing else published(law, day))


def draw_index(rng: np.random.Generator, odds: Floats) -> Ints:
    """One index for each row of probabilities, [...] from [..., Z]."""
    drawn = rng.random((*odds.shape[:-1], 1))
    return np.asarray((drawn > odds.cumsum(axis=-1)).sum(axis=-1))


def draw_rows(law: Law, rng: np.random.Generator, rates: Floats) -> DrawnRows:
    """The rows of a day whose means, but for announcements, are `rates`, [..., S, R]."""
    noise = rng.gamma(law.dispersion, 1 / law.dispersion, rates.shape)
    usual = rng.poisson(rates * noise)
    announced = rng.random((*rates.shape[:-1], len(law.announcing))) < law.announcing_now
    extra = rng.poisson(EXTRA_ROWS, announced.shape)
    return DrawnRows(usual, announced * (1 + extra), _with_rivals(law, rng, usual))


def published(law: Law, day: SimulatedDay | DrawnRows) -> Published:
    """What the news of a day shows."""
    counts = day.usual.astype(float)
    for kind, occasion in enumerate(law.config.occasions):
        counts[..., INDEX[occasion.code[:2]]] += day.announcements[..., kind]
    conflicts = np.zeros((*counts.shape[:-2], len(law.map.rivals)))
    for stream in range(law.config.streams):
        for place, (pair, _) in enumerate(law.map.rivals_of(stream)):
            conflicts[..., pair] += day.with_rival[..., stream, :, place].sum(axis=-1)
    return Published(counts, conflicts, day.announcements > 0)


def _with_rivals(law: Law, rng: np.random.Generator, usual: Ints) -> Ints:
    """Split conflict rows: each is with its own probability visibly with one of the rivals."""
    most = max(len(law.map.rivals_of(stream)) for stream in range(law.config.streams))
    split = np.zeros((*usual.shape, most), np.int64)
    for stream in range(law.config.streams):
        rivals = len(law.map.rivals_of(stream))
        share = law.config.rival_share / rivals
        odds = [share] * rivals + [1 - share * rivals]
        # In two steps, since a list of roots would move its axis to the front of the others.
        conflicts = rng.multinomial(usual[..., stream, :][..., CONFLICT], odds)
        split[..., stream, :, :][..., CONFLICT, :rivals] = conflicts[..., :rivals]
    return split
