"""The fair oracle of the week: what the equations say about the seven days after an origin.

Tomorrow follows by formula, for the law looks back on published days only. Later days do not: they
depend on the rows of the days between, and an announcement of tomorrow is felt days after. So the
oracle simulates M joint paths of all streams over the week, from what the law remembers at the
origin and from the filtered odds of the regimes, and averages over them. Nothing is simulated that
a formula gives:

    occurs, a day       mean over paths of P(row | the path up to the day before), the day's regime
                        and rows integrated out; day 1 is exact
    occurs, the week    hits, with those formulas as control variates (`occurs_within`)
    rows                mean over paths of the expected rows
    all others          hits, with half a path of either kind

**Error.** A probability p that is counted has a standard error of sqrt(p (1 - p) / M), at most
.025 for 400 paths. A forecast with independent noise of variance v has a Brier score that is larger
by v on average: by p (1 - p) / M for hits, that is by 1/M = .25% of what the score of a calibrated
forecast is, whatever its p. The formulas leave a small part of that. `week_with_variance` gives v
for each probability, so that a table can subtract it, as fair scores of ensembles do; what is left
is the score of an oracle with endless paths. (Half a path of either kind shifts a probability by at
most .5 / M, which is left in: its square is below 2e-6.)

No day of a path is missing. This is right for the week, which has no outcome if a day is missing;
for a single day it leaves out that one before it may be lost to the archive (1 in 200).
"""

from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import AHEAD, BoolArray, FloatArray, History, WeekForecast
from gdelphi.measures.targets import headline_of, pooled_rate, shares_of, surge_threshold
from gdelphi.measures.week_targets import ESCALATION_FACTOR, escalation_base, material_conflict
from gdelphi.world.config import Ingredient
from gdelphi.world.law import ROOTS, Floats, Ints, Law, WorldState
from gdelphi.world.oracle import Oracle, OracleLevel
from gdelphi.world.simulate import draw_index, draw_rows, published

PATHS: Final = 400


class WeekPaths(NamedTuple):
    """Paths over a week: H days, M paths, S streams, R roots."""

    counts: Ints
    """rows, [H, M, S, R]"""
    chances: Floats
    """of at least one row, given the path up to the day before, [H, M, S, R]"""
    rows: Floats
    """expected, [H, S, R]"""

    def at(self, places: list[int]) -> "WeekPaths":
        """The paths of some streams."""
        counts, chances = self.counts[:, :, places], self.chances[:, :, places]
        return WeekPaths(counts, chances, self.rows[:, places])


class WeekVariance(NamedTuple):
    """Variances of an oracle's probabilities over draws of its paths; NaN where these are.

    Shapes are those of `WeekOutcomes`. Each is what the Brier score of that probability is too
    large by, on average.
    """

    daily: FloatArray
    """[target, day, stream, code]"""
    within: FloatArray
    """[target, stream, code]"""
    escalation: FloatArray
    """[stream]"""


class WeekOracle:
    """Knows the law and what a forecaster can see; speaks about root codes."""

    def __init__(self, oracle: Oracle, *, paths: int = PATHS) -> None:
        if oracle.regimes is not None:
            raise ForecastError("the oracle of the week cannot be told the regimes")
        if paths < 2:
            raise ForecastError(f"the oracle of the week needs at least 2 paths, not {paths}")
        self.oracle = oracle
        self.paths = paths
        self._level = OracleLevel(oracle.law, ROOTS, {root: {root: 1.0} for root in ROOTS})

    @property
    def name(self) -> str:
        return self.oracle.name

    def week(self, history: History, origin: date) -> list[WeekForecast]:
        """The truth about the week after the origin, for each stream of the history."""
        return self.week_with_variance(history, origin)[0]

    def week_with_variance(
        self, history: History, origin: date
    ) -> tuple[list[WeekForecast], WeekVariance]:
        """The same, and how far it may be off because paths are few."""
        if history.codes != ROOTS:
            raise ForecastError(
                "the oracle of the week speaks about the 20 root codes only: give it a history of "
                "level root"
            )
        places = self.oracle.places(history.streams)
        rng = np.random.default_rng([self.oracle.law.config.seed, 9, origin.toordinal()])
        everywhere = self._simulate(rng, origin)
        # Day by day, since each row draws its own: 9 million in a week of the default world.
        drawn = [self._level.weights_of(rng, counts)[:, places] for counts in everywhere.counts]
        paths = everywhere.at(places)
        threshold = surge_threshold(history, origin)
        daily, within = self._probabilities(paths, np.stack(drawn), threshold)
        base = escalation_base(history, origin)
        conflicts = paths.counts[..., material_conflict(ROOTS)].sum(axis=(0, 3))
        escalation = _where(~np.isnan(base), _hits(conflicts >= ESCALATION_FACTOR * base, axis=0))
        forecasts = [
            WeekForecast(
                forecaster=self.name,
                stream=stream,
                origin=origin,
                codes=history.codes,
                daily=daily.mean[:, :, number],
                within=within.mean[:, number],
                rows=paths.rows[:, number],
                escalation=float(escalation.mean[number]),
            )
            for number, stream in enumerate(history.streams)
        ]
        return forecasts, WeekVariance(daily.variance, within.variance, escalation.variance)

    def _simulate(self, rng: np.random.Generator, origin: date) -> WeekPaths:
        day = origin + timedelta(days=1)
        odds, _ = self.oracle.prospect(day)
        law = self.oracle.law
        return simulate_week(
            law,
            rng,
            (day - law.config.start).days,
            odds=np.broadcast_to(odds, (self.paths, *odds.shape)),
            memory=on_paths(self.oracle.memory(day), self.paths),
            blind_to=self.oracle.blind_to,
        )

    def _probabilities(
        self, paths: WeekPaths, weights: Floats, threshold: FloatArray
    ) -> tuple["Estimate", "Estimate"]:
        """Of the days, [target, day, stream, code], and within the week, [target, stream, code]."""
        occurs = _average(paths.chances, axis=1)
        within = _average(occurs_within(paths.chances, paths.counts > 0), axis=0)
        # At least the likeliest day and at most all days together, whatever the sampling error.
        least, most = occurs.mean.max(axis=0), np.minimum(occurs.mean.sum(axis=0), 1)
        within = within._replace(mean=np.clip(within.mean, least, most))
        headline = headline_of(weights)
        surge, known = shares_of(weights) > threshold, ~np.isnan(threshold)
        return (
            _stack(occurs, _hits(headline, axis=1), _where(known, _hits(surge, axis=1))),
            _stack(
                within,
                _hits(np.asarray(headline.any(axis=0)), axis=0),
                _where(known, _hits(np.asarray(surge.any(axis=0)), axis=0)),
            ),
        )


# --- paths ----------------------------------------------------------------------------------------


def on_paths(memory: WorldState, paths: int) -> WorldState:
    """The same memory on each of so many paths, which stand before streams (not copied)."""
    recent, announced = memory.recent[:, None], memory.announced[:, None]
    return WorldState(
        np.broadcast_to(recent, (len(recent), paths, *recent.shape[2:])),
        np.broadcast_to(announced, (len(announced), paths, *announced.shape[2:])),
        np.broadcast_to(memory.tension, (paths, *memory.tension.shape)),
    )


def simulate_week(
    law: Law,
    rng: np.random.Generator,
    first: int,
    *,
    odds: Floats,
    memory: WorldState,
    blind_to: Ingredient | None = None,
) -> WeekPaths:
    """Run the world on from day `first`, on M paths.

    `odds` of that day's regimes, [M, S, Z], and the `memory` before it are those of each path.
    """
    days = []
    for index in range(first, first + AHEAD):
        rates = law.rates(index, memory, blind_to)  # [M, Z, S, R]
        some = 1 - law.no_rows(rates) * law.unannounced
        chances = np.einsum("msz,mzsr->msr", odds, some)
        rows = np.einsum("msz,mzsr->sr", odds, rates) / len(odds) + law.announcements
        regime = draw_index(rng, odds)  # [M, S]
        drawn = draw_rows(law, rng, np.take_along_axis(rates, regime[:, None, :, None], 1)[:, 0])
        news = published(law, drawn)
        days.append((news.counts.astype(np.int64), np.clip(chances, 0, 1), rows))
        memory = law.remember(index, memory, news)
        odds = law.moves[regime]
    return WeekPaths(*(np.stack(part) for part in zip(*days, strict=True)))


def occurs_within(chances: Floats, came: BoolArray) -> Floats:
    """For each path a value whose mean is the probability that a cell occurs within the week.

    Both arguments are [H, M, ...], the result [M, ...]. Let y_d tell whether there is a row on day
    d, h_d be its probability given the path up to the day before, and s_d tell that none came
    before d. The hit is the sum over days of s_d y_d. Given the path up to the day before,
    s_d (y_d - h_d) averages 0, so any multiple of it can be taken off that does not depend on the
    day itself:

        sum_d  s_d y_d - g_d s_d (y_d - h_d)

    The best multiple is the probability g_d that no row comes on the days after d. With the
    average over paths in place of it, most of the variance goes; all of it where the h_d do not
    differ between paths. The last day counts by h_d alone. (The average is taken from the same
    paths, at a cost in bias of the order of 1/M of the variance left.)
    """
    none_after = np.ones_like(chances[:, 0])
    for day in reversed(range(len(chances) - 1)):
        none_after[day] = none_after[day + 1] * (1 - chances[day + 1].mean(axis=0))
    value: Floats = np.zeros_like(chances[0])
    none_before = np.ones_like(came[0])
    for chance, row, g in zip(chances, came, none_after, strict=True):
        value += none_before * (row * (1 - g) + chance * g)
        none_before &= ~row
    return value


# --- estimates ------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """A mean over paths and the variance of that mean."""

    mean: Floats
    variance: Floats


def hit_variance(probability: FloatArray, paths: int) -> FloatArray:
    """Of a probability that is counted on so many paths: what its Brier score is too large by."""
    return np.asarray(probability * (1 - probability) / paths)


def _average(values: Floats, *, axis: int) -> Estimate:
    variance = values.var(axis=axis, ddof=1) / values.shape[axis]
    return Estimate(values.mean(axis=axis), variance)


def _hits(happened: BoolArray, *, axis: int) -> Estimate:
    """Frequency with half a path of either kind, never 0 or 1."""
    number, paths = happened.sum(axis=axis), happened.shape[axis]
    # One path less in the denominator makes the estimate of the variance unbiased.
    variance = hit_variance(number / paths, paths - 1)
    return Estimate(pooled_rate(number, paths), variance)


def _where(known: BoolArray, estimate: Estimate) -> Estimate:
    return Estimate(*(np.where(known, array, np.nan) for array in estimate))


def _stack(*estimates: Estimate) -> Estimate:
    return Estimate(*(np.stack(arrays) for arrays in zip(*estimates, strict=True)))
