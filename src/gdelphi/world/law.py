"""The world's law: rates of tomorrow's rows given what was published, and the regime's filter.

One `Law` serves the simulation and the oracle, day by day and by the same two calls: `rates` before
a day, `remember` after it. Symbols are those of `config.py`: S streams, R roots, K kinds of
occasions, P pairs of rivals, Z regimes.

Both calls take many pasts at once: where a shape begins with dots, any number of axes may stand,
one for paths that were simulated from the same day, say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from gdelphi.common.errors import ConfigError
from gdelphi.gdelt.cameo import root_codes
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    LADDER_DAYS,
    MEMORY_DAYS,
    ROOT_SHARES,
    Ingredient,
    WorldConfig,
)
from gdelphi.world.places import Map, make_map

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROOTS = root_codes()
INDEX = {root: index for index, root in enumerate(ROOTS)}
CONFLICT = np.array([INDEX[root] for root in CONFLICT_ROOTS])
EXTRA_ROWS = 1.0  # an announcement has one row, and on average this many more
LEAST_BASE = 0.05  # of a root's mean, to be left by the parts that news make
MOST_GROWTH = 0.95  # see `Law.growth`


@dataclass(frozen=True)
class Published:
    """What a day's news showed: all that the law remembers of it."""

    counts: Floats  # [..., S, R] rows per stream and root, announcements included
    pair_conflicts: Floats  # [..., P] conflict rows whose two actors are from the two rivals
    announced: NDArray[np.bool_]  # [..., S, K]


@dataclass(frozen=True)
class WorldState:
    """The past as far as it matters; index 0 is yesterday."""

    recent: Floats  # [MEMORY_DAYS, ..., S, R] rows over activity and the usual number
    announced: NDArray[np.bool_]  # [MEMORY_DAYS, ..., S, K]
    tension: Floats  # [..., P]


class Law:
    """The equations of `config.py` for one world, with its numbers.

    A world whose numbers of rows would run away, or fall below zero, is refused.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.map: Map = make_map(config.streams, config.seed)
        self.usual = self._usual()
        self.moves = np.array(config.regime_moves)
        self.dispersion = config.dispersion
        self._check()

    def _check(self) -> None:
        if self.base.min() < LEAST_BASE:
            worst = ROOTS[int(self.base.argmin())]
            raise ConfigError(
                f"the parts of root {worst} leave {self.base.min():.2f} of its mean, less than "
                f"{LEAST_BASE}: weaken its edges, contagion, tension or echoes"
            )
        if self.growth > MOST_GROWTH:
            raise ConfigError(
                f"the world is not stable: a disturbance keeps {self.growth:.2f} of itself, more "
                f"than {MOST_GROWTH}: weaken edges, contagion or tension, or raise the dispersion"
            )

    # The numbers of the world.

    def _usual(self) -> Floats:
        """Rows a day, [S, R]: heavy-tailed volumes, each country with its own mix of roots."""
        config = self.config
        rng = np.random.default_rng([config.seed, 2])
        levels = [(i + 0.5) / config.streams for i in range(config.streams)]
        spread = np.array([NormalDist().inv_cdf(level) for level in levels])
        volumes = config.volume_median * np.exp(config.volume_deviation * spread)
        volumes = rng.permutation(np.minimum(volumes, config.volume_most))
        shares = np.array([ROOT_SHARES[root] for root in ROOTS])
        mix = shares * np.exp(
            config.mix_deviation * rng.standard_normal((config.streams, len(ROOTS)))
        )
        return np.asarray(volumes[:, None] * mix / mix.sum(axis=1, keepdims=True))

    @cached_property
    def announcements(self) -> Floats:
        """Rows a day that announcements add to each root, [R]."""
        rows = np.zeros(len(ROOTS))
        for occasion in self.config.occasions if self.config.switches.occasions else ():
            rows[INDEX[occasion.code[:2]]] += occasion.daily_probability * (1 + EXTRA_ROWS)
        return rows

    @cached_property
    def unannounced(self) -> Floats:
        """Probability that no announcement adds a row to a root on a day, [R]."""
        odds = np.ones(len(ROOTS))
        for occasion, chance in zip(self.config.occasions, self.announcing_now, strict=True):
            odds[INDEX[occasion.code[:2]]] *= 1 - chance
        return odds

    @cached_property
    def expected(self) -> Floats:
        """Mean rows a day on a day of activity 1, announcements included, [S, R]."""
        return self.usual + self.announcements

    @cached_property
    def ladder(self) -> Floats:
        """[LADDER_DAYS, R, R]: strength of a source's rows, by lag, for a target."""
        matrix = np.zeros((LADDER_DAYS, len(ROOTS), len(ROOTS)))
        peak, beside = self.config.kernel
        for edge in self.config.ladder:
            kernel = np.zeros(LADDER_DAYS)
            for lag, share in ((edge.lag, peak), (edge.lag - 1, beside), (edge.lag + 1, beside)):
                if 1 <= lag <= LADDER_DAYS:
                    kernel[lag - 1] = share
            kernel *= edge.strength / kernel.sum()
            matrix[:, INDEX[edge.source], INDEX[edge.target]] += kernel
        return matrix

    @cached_property
    def contagion(self) -> Floats:
        return _by_root(self.config.contagion)

    @cached_property
    def tension(self) -> Floats:
        return _by_root(self.config.tension)

    @cached_property
    def echoes(self) -> Floats:
        """[K, R]"""
        return np.stack([_by_root(occasion.echo) for occasion in self.config.occasions])

    @cached_property
    def announcing(self) -> Floats:
        """Daily probability of each kind of announcement, [K]."""
        return np.array([occasion.daily_probability for occasion in self.config.occasions])

    @cached_property
    def announcing_now(self) -> Floats:
        """The same as far as announcements happen: 0 if occasions are off, [K]."""
        on = self.config.switches.occasions
        return self.announcing if on else np.zeros_like(self.announcing)

    @cached_property
    def base(self) -> Floats:
        """What the other parts leave of the mean, [R]."""
        base = 1 - self.ladder.sum(axis=(0, 1)) - self.contagion - self.tension
        return np.asarray(base - self.announcing @ self.echoes)

    @cached_property
    def begetting(self) -> Floats:
        """[R, R]: how much of a root (column), relative to its mean, rows of another (row) beget.

        Summed over lags and countries, with conflict roots in their usual shares.
        """
        shares = np.array([ROOT_SHARES[root] for root in CONFLICT_ROOTS])
        conflict = np.zeros(len(ROOTS))
        conflict[CONFLICT] = shares / shares.sum()
        ladder = self.ladder.sum(axis=0)
        return np.asarray(ladder + np.diag(self.contagion) + np.outer(conflict, self.tension))

    @cached_property
    def growth(self) -> float:
        """How much of a disturbance is left one generation of rows later, at most.

        By mean square, so that below 1 numbers of rows have a finite variance: chance multiplies a
        mean by a factor of mean 1 and variance 1/k, whose root mean square is sqrt(1 + 1/k). The
        rest is the largest eigenvalue of `begetting`, protests taken on their busiest weekday.
        """
        busiest = np.max([self.weekday(index) for index in range(7)], axis=0)
        largest = np.abs(np.linalg.eigvals(self.begetting * busiest)).max()
        return float(largest * np.sqrt(1 + 1 / self.dispersion))

    @cached_property
    def stationary(self) -> Floats:
        """Long-run shares of the regimes, [Z]."""
        return np.asarray(np.linalg.matrix_power(self.moves, 4096)[0])

    @cached_property
    def regime(self) -> Floats:
        """[Z, R], averaging 1 in the long run."""
        config = self.config
        rows = [config.regime_cooperation] * 8 + [config.regime_verbal] * 5
        matrix = np.array(rows + [config.regime_material] * 7).T
        return np.asarray(matrix / (self.stationary @ matrix))

    @cached_property
    def neighbours(self) -> Floats:
        """[S, S]: 1 where the second borders on the first."""
        matrix = np.zeros((self.config.streams, self.config.streams))
        for index, others in enumerate(self.map.neighbours):
            matrix[index, list(others)] = 1
        return matrix

    @cached_property
    def rivalry(self) -> Floats:
        """[S, P]: share of a pair in a country's mean tension."""
        matrix = np.zeros((self.config.streams, len(self.map.rivals)))
        for number, pair in enumerate(self.map.rivals):
            matrix[list(pair), number] = 1
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))

    @cached_property
    def usual_conflicts(self) -> Floats:
        """Conflict rows a day that are visibly between two rivals, [P]."""
        conflicts = self.usual[:, CONFLICT].sum(axis=1) * self.config.rival_share
        return np.asarray(conflicts @ self.rivalry)

    def day(self, index: int) -> date:
        return self.config.start + timedelta(days=index)

    def activity(self, index: int, *, weekly: bool = True) -> float:
        """News volume of a day relative to the first weeks: growth and weekends."""
        growth = (1 + self.config.growth_per_year) ** (index / 365)
        if not (weekly and self.config.switches.weekly):
            return float(growth)
        weekend = self.config.weekend
        factor = weekend if self.day(index).weekday() >= 5 else 1.0
        return float(growth * factor * 7 / (5 + 2 * weekend))

    def weekday(self, index: int) -> Floats:
        """[R]: protests have their days."""
        factors = np.ones(len(ROOTS))
        if self.config.switches.weekly:
            days = self.config.protest_days
            factors[INDEX["14"]] = days[self.day(index).weekday()] * 7 / sum(days)
        return factors

    # The two calls.

    def beginning(self) -> WorldState:
        """Before the first day everything was as usual."""
        streams, kinds = self.config.streams, len(self.config.occasions)
        return WorldState(
            np.ones((MEMORY_DAYS, streams, len(ROOTS))),
            np.zeros((MEMORY_DAYS, streams, kinds), bool),
            np.ones(len(self.map.rivals)),
        )

    def excitation(self, memory: WorldState, blind_to: Ingredient | None = None) -> Floats:
        """The part of `relative` that news has made, [..., S, R].

        An ingredient that is off, or that a blind oracle does not see, has its average effect.
        """
        on = self.config.switches.model_dump()
        if blind_to is not None:
            on[blind_to] = False
        total = np.zeros(memory.recent.shape[1:])
        if on["ladder"]:
            total += np.einsum("l...sq,lqr->...sr", memory.recent[:LADDER_DAYS], self.ladder)
        else:
            total += self.ladder.sum(axis=(0, 1))
        if on["contagion"]:
            rows = self.neighbours @ (memory.recent[0] * self.expected)
            total += self.contagion * rows / (self.neighbours @ self.expected)
        else:
            total += self.contagion
        if on["tension"]:
            total += (memory.tension @ self.rivalry.T)[..., None] * self.tension
        else:
            total += self.tension
        if on["occasions"]:
            for kind, occasion in enumerate(self.config.occasions):
                due = memory.announced[occasion.lead_days - 1, ..., kind]
                total += due[..., None] * self.echoes[kind]
        else:
            total += self.announcing @ self.echoes
        return total

    def rates(self, index: int, memory: WorldState, blind_to: Ingredient | None = None) -> Floats:
        """Mean number of rows but for announcements, given each regime, [..., Z, S, R]."""
        regime = self.regime
        if blind_to == "regime" or not self.config.switches.regime:
            regime = np.ones_like(regime)
        # rate = activity * weekday * usual * (base * regime + excitation); each factor, and the sum
        # in brackets, is 1 on average, so `usual` is the mean number of rows.
        excitation = self.excitation(memory, blind_to)[..., None, :, :]
        relative = self.base * regime[:, None, :] + excitation
        weekly = blind_to != "weekly"
        weekday = self.weekday(index) if weekly else np.ones(len(ROOTS))
        return np.asarray(self.activity(index, weekly=weekly) * weekday * self.usual * relative)

    def remember(self, index: int, memory: WorldState, news: Published | None) -> WorldState:
        """The memory after a day; a day that was not published is remembered as empty."""
        if news is None:
            news = Published(
                np.zeros_like(memory.recent[0]),
                np.zeros_like(memory.tension),
                np.zeros_like(memory.announced[0]),
            )
        relative = news.counts / (self.activity(index) * self.expected)
        strain = news.pair_conflicts / (self.activity(index) * self.usual_conflicts)
        keep = self.config.tension_memory
        return WorldState(
            np.concatenate([relative[None], memory.recent[:-1]]),
            np.concatenate([news.announced[None], memory.announced[:-1]]),
            keep * memory.tension + (1 - keep) * strain,
        )

    def no_rows(self, rates: Floats) -> Floats:
        """Probability of no row but for announcements where so many are expected.

        Negative binomial: (k / (k + m))^k.
        """
        k = self.dispersion
        return np.asarray((k / (k + rates)) ** k)

    # The hidden regime.

    def log_likelihood(self, counts: Floats, rates: Floats) -> Floats:
        """Of a day's rows but for announcements, [S, R], under each regime's rates: [S, Z].

        Negative binomial with mean m and variance m + m^2 / k:
        P(n) = G(n + k) / (G(k) n!) (k / (k + m))^k (m / (k + m))^n.
        """
        k = self.dispersion
        terms = (
            gammaln(counts + k)
            - gammaln(k)
            - gammaln(counts + 1)
            + k * np.log(k / (k + rates))
            + counts * np.log(rates / (k + rates))
        )
        return np.asarray(terms.sum(axis=2).T)

    def filtered(self, predicted: Floats, counts: Floats, rates: Floats) -> Floats:
        """Bayes: probabilities of the regimes after seeing a day, [S, Z].

        p(z | day) is p(z) p(day | z) over its sum, with the largest logarithm taken out first.
        """
        logs = np.log(predicted) + self.log_likelihood(counts, rates)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predicted(self, filtered: Floats) -> Floats:
        """Probabilities of tomorrow's regimes, [S, Z]."""
        return np.asarray(filtered @ self.moves)


def _by_root(strengths: Mapping[str, float]) -> Floats:
    values = np.zeros(len(ROOTS))
    for root, strength in strengths.items():
        values[INDEX[root]] = strength
    return values
