"""Oracles of a simulated world: forecasters that know its equations.

The *fair* oracle knows the equations and what a forecaster can see: the rows in the store. Its
one uncertainty besides chance is each country's hidden regime, three states that a forward filter
tracks exactly. No forecaster can do better than that on average; skill is measured against it. The
other oracle also knows the regime. A blind oracle does not see one of the world's ingredients and
puts its average in place; what it loses is what the ingredient is worth.

`occurs` follows by formula. `headline`, `surge` and shares are sampled: with M samples a
probability p has a standard error of sqrt(p (1 - p) / M), at most 0.022 for the default of 500.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import (
    Forecast,
    History,
    make_forecast,
)
from gdelphi.measures.targets import (
    headline_of,
    shares_of,
    surge_threshold,
)
from gdelphi.store.connection import Store
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    LEAD_SHARE,
    MEMORY_DAYS,
    MENTIONS,
    Ingredient,
)
from gdelphi.world.law import (
    EXTRA_ROWS,
    INDEX,
    ROOTS,
    Floats,
    Ints,
    Law,
    Published,
    WorldState,
)

SAMPLES = 500


@dataclass(frozen=True)
class OracleEvidence:
    """What the ingested rows show of the world, by day: D days."""

    counts: Floats  # [D, S, R]
    announcements: Ints  # [D, S, K] rows of each kind
    pair_conflicts: Floats  # [D, P]
    present: NDArray[np.bool_]  # [D]


def read_evidence(settings: Settings, law: Law) -> OracleEvidence:
    """Look up in the store what the law remembers."""
    config = law.config
    streams = {fips: index for index, fips in enumerate(law.map.streams)}
    kinds = {occasion.code: kind for kind, occasion in enumerate(config.occasions)}
    counts = np.zeros((config.days, config.streams, len(ROOTS)))
    announcements = np.zeros((config.days, config.streams, len(kinds)), np.int64)
    conflicts = np.zeros((config.days, len(law.map.rivals)))
    present = np.zeros(config.days, bool)
    with Store(settings).reading() as connection:
        first, last = law.day(0), law.day(config.days - 1)
        within = f"NewsDay BETWEEN '{first}' AND '{last}'"
        for (day,) in connection.rows(f"SELECT NewsDay FROM days WHERE loaded > 0 AND {within}"):
            present[(day - first).days] = True
        for day, stream, code, root, rows in connection.rows(
            "SELECT NewsDay, ActionGeo_CountryCode, EventCode, EventRootCode, count(*) FROM events "
            f"WHERE {within} AND ActionGeo_CountryCode IS NOT NULL GROUP BY ALL"
        ):
            if stream in streams and root in INDEX:
                where = (day - first).days, streams[stream]
                counts[*where, INDEX[root]] += rows
                if code in kinds:
                    announcements[*where, kinds[code]] += rows
        for pair, day, rows in connection.rows(_rival_rows(law, within)):
            conflicts[(day - first).days, pair] += rows
    return OracleEvidence(counts, announcements, conflicts, present)


def _rival_rows(law: Law, within: str) -> str:
    """SQL: conflict rows in either country of a pair whose two actors are from the two."""
    places = law.map.places
    pairs = ", ".join(
        f"({number}, '{places[a].fips}', '{places[b].fips}', "
        f"'{places[a].country.cameo}', '{places[b].country.cameo}')"
        for number, (a, b) in enumerate(law.map.rivals)
    )
    roots = ", ".join(f"'{root}'" for root in CONFLICT_ROOTS)
    return f"""
        SELECT pair, NewsDay, count(*) FROM events
        JOIN (VALUES {pairs}) rival (pair, place_a, place_b, a, b)
        ON ActionGeo_CountryCode IN (place_a, place_b)
            AND ((Actor1CountryCode = a AND Actor2CountryCode = b)
                OR (Actor1CountryCode = b AND Actor2CountryCode = a))
        WHERE EventRootCode IN ({roots}) AND {within} GROUP BY ALL
    """


class _Prospects(NamedTuple):
    """For each day and the one after the last, from the days before it alone."""

    odds: Floats  # [D + 1, S, Z] probabilities of the regimes
    rates: Floats  # [D + 1, Z, S, R] given them
    tension: Floats  # [D + 1, P]


class Oracle:
    """Knows the law. With `regimes`, [S, D], it also knows what is hidden."""

    def __init__(
        self,
        law: Law,
        evidence: OracleEvidence,
        code_shares: Mapping[str, Mapping[str, float]],
        *,
        regimes: Ints | None = None,
        blind_to: Ingredient | None = None,
        samples: int = SAMPLES,
    ) -> None:
        self.law = law
        self.evidence = evidence
        self.regimes = regimes
        self.blind_to = blind_to
        self.samples = samples
        self._code_shares = code_shares

    @property
    def name(self) -> str:
        if self.blind_to:
            return f"fair oracle blind to {self.blind_to}"
        return "fair oracle" if self.regimes is None else "oracle that knows the regimes"

    @cached_property
    def _prospects(self) -> _Prospects:
        law = self.law
        memory = law.beginning()
        odds = np.tile(law.stationary, (law.config.streams, 1))
        all_odds, all_rates = [odds], [law.rates(0, memory, self.blind_to)]
        tension = [memory.tension]
        for index in range(law.config.days):
            news = self._news(index)
            if news is not None:
                usual = news.counts - self._announced_rows(index)
                odds = law.filtered(odds, usual, all_rates[-1])
            odds = law.predicted(odds)
            memory = law.remember(index, memory, news)
            all_odds.append(odds)
            all_rates.append(law.rates(index + 1, memory, self.blind_to))
            tension.append(memory.tension)
        return _Prospects(np.stack(all_odds), np.stack(all_rates), np.stack(tension))

    def _news(self, index: int) -> Published | None:
        """Of a day; none if it is missing."""
        seen = self.evidence
        if not seen.present[index]:
            return None
        return Published(
            seen.counts[index], seen.pair_conflicts[index], seen.announcements[index] > 0
        )

    def _announced_rows(self, index: int) -> Floats:
        rows = np.zeros_like(self.law.usual)
        for kind, occasion in enumerate(self.law.config.occasions):
            rows[:, INDEX[occasion.code[:2]]] += self.evidence.announcements[index, :, kind]
        return rows

    def prospect(self, day: date) -> tuple[Floats, Floats]:
        """Probabilities of the regimes, [S, Z], and rates, [Z, S, R], as known the day before."""
        index = self._index(day)
        odds, rates = self._prospects.odds[index], self._prospects.rates[index]
        if self.regimes is not None:
            if index == self.law.config.days:
                raise ForecastError(f"the regimes of {day} are not known: the world has ended")
            odds = np.eye(odds.shape[1])[self.regimes[:, index]]
        return odds, rates

    def memory(self, day: date) -> WorldState:
        """What the law remembers of the days before a day.

        But for the tension the law looks back MEMORY_DAYS, so these are remembered anew and the
        memories of all days need not be kept.
        """
        index = self._index(day)
        first = max(index - MEMORY_DAYS, 0)
        memory = replace(self.law.beginning(), tension=self._prospects.tension[first])
        for past in range(first, index):
            memory = self.law.remember(past, memory, self._news(past))
        return memory

    def places(self, streams: tuple[str, ...]) -> list[int]:
        """Where streams stand among those of the world."""
        place = {fips: index for index, fips in enumerate(self.law.map.streams)}
        for stream in streams:
            if stream not in place:
                raise ForecastError(f"{stream} is no stream of this world")
        return [place[stream] for stream in streams]

    def _index(self, day: date) -> int:
        index = (day - self.law.config.start).days
        if not 0 <= index <= self.law.config.days:
            raise ForecastError(f"{day} is no day of this world")
        return index

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        """The truth about the day after the origin, for each stream of the history."""
        if horizon != 1:
            raise ForecastError(
                "the oracle speaks about the next day only (horizon 1); "
                "`WeekOracle` speaks about the week"
            )
        level = OracleLevel(self.law, history.codes, self._code_shares)
        odds, rates = self.prospect(origin + timedelta(days=1))
        thresholds = surge_threshold(history, origin)
        occurs = level.occurs(odds, rates)
        forecasts = []
        for number, (stream, place) in enumerate(
            zip(history.streams, self.places(history.streams), strict=True)
        ):
            seed = [self.law.config.seed, 5, origin.toordinal(), place]
            weights = level.sample(
                np.random.default_rng(seed), odds[place], rates[:, place], self.samples
            )
            shares = shares_of(weights)
            with np.errstate(invalid="ignore"):
                above = shares > thresholds[number]
            surge = np.where(np.isnan(thresholds[number]), np.nan, _smooth(above))
            forecasts.append(
                make_forecast(
                    Forecast(
                        forecaster=self.name,
                        stream=stream,
                        origin=origin,
                        horizon=horizon,
                        codes=history.codes,
                        occurs=occurs[place],
                        headline=_smooth(headline_of(weights)),
                        surge=surge,
                        share_samples=shares,
                        share_weights=np.full(self.samples, 1 / self.samples),
                    )
                )
            )
        return forecasts


def _smooth(happened: NDArray[np.bool_]) -> Floats:
    """Frequency among samples, never 0 or 1."""
    return np.asarray((happened.sum(axis=0) + 0.5) / (len(happened) + 1))


@cache
def row_weights() -> Floats:
    """The cloud weight of a row, as equally likely values: all odds are multiples of 1/10000."""
    values: list[float] = []
    for mentions, chance in MENTIONS.items():
        weight = float(np.log(1 + mentions))
        for share, factor in ((LEAD_SHARE, 1.0), (1 - LEAD_SHARE, 0.5)):
            number = 10_000 * chance * share
            if abs(number - round(number)) > 1e-6:
                raise AssertionError("the odds of a row's weight are no multiples of 1/10000")
            values += [factor * weight] * round(number)
    return np.array(values)


class OracleLevel:
    """Standard events of one level: how the rows of a root fall on them. C codes."""

    def __init__(
        self, law: Law, codes: tuple[str, ...], code_shares: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.law = law
        place = {code: index for index, code in enumerate(codes)}
        width = {len(code) for code in codes}
        cut = width.pop() if len(width) == 1 else None  # one length: a level of the hierarchy
        self.shares = np.zeros((len(ROOTS), len(codes) + 1))  # the last column: none of them
        for root, shares in code_shares.items():
            for code, share in shares.items():
                self.shares[INDEX[root], place.get(code[:cut], len(codes))] += share
        self.kinds = [place.get(each.code[:cut], len(codes)) for each in law.config.occasions]
        self._row_weights = row_weights()
        self._exact = bool((self.shares.max(axis=1) == 1).all())  # a root's rows fall on one code
        # Codes of a root by one search: root number + cumulated share.
        self._code_odds = (
            np.arange(len(ROOTS))[:, None]
            + self.shares.cumsum(axis=1) / self.shares.sum(axis=1, keepdims=True)
        ).ravel()

    def occurs(self, odds: Floats, rates: Floats) -> Floats:
        """P(at least one row), [S, C], for regimes' odds [S, Z] and rates [Z, S, R]."""
        never = np.ones((*rates.shape[:2], self.shares.shape[1]))
        for root in range(len(ROOTS)):
            codes = self.shares[root] > 0
            means = rates[:, :, root, None] * self.shares[root, codes]
            never[:, :, codes] *= self.law.no_rows(means)
        for kind, place in enumerate(self.kinds):
            never[:, :, place] *= 1 - self.law.announcing_now[kind]
        occurs = 1 - np.einsum("sz,zsc->sc", odds, never)[:, :-1]
        return np.asarray(np.clip(occurs, 0, 1))  # a code that cannot occur may miss 0 by rounding

    def sample(self, rng: np.random.Generator, odds: Floats, rates: Floats, size: int) -> Floats:
        """Cloud weights of sampled days, [size, C]."""
        regimes = rng.choice(len(odds), size, p=odds / odds.sum())
        k = self.law.dispersion
        means = rates[regimes]
        usual = rng.poisson(means * rng.gamma(k, 1 / k, means.shape))
        places = self.shares.shape[1]
        cells = np.repeat(np.arange(usual.size), usual.ravel())
        day, root = np.divmod(cells, len(ROOTS))
        if self._exact:
            code = self.shares.argmax(axis=1)[root]
        else:
            code = np.searchsorted(self._code_odds, root + rng.random(len(root)), side="right")
            code = np.minimum(code - root * places, places - 1)
        where = [day * places + code]
        for kind, place in enumerate(self.kinds):
            announced = rng.random(size) < self.law.announcing_now[kind]
            rows = announced * (1 + rng.poisson(EXTRA_ROWS, size))
            where.append(np.repeat(np.arange(size), rows) * places + place)
        totals = self._summed_weights(rng, np.concatenate(where), size * places)
        return np.asarray(totals.reshape(size, places)[:, :-1])

    def weights_of(self, rng: np.random.Generator, counts: Ints) -> Floats:
        """Cloud weights for given numbers of rows, of the same shape: each row draws its own."""
        cells = np.repeat(np.arange(counts.size), counts.ravel())
        return self._summed_weights(rng, cells, counts.size).reshape(counts.shape)

    def _summed_weights(self, rng: np.random.Generator, cells: Ints, size: int) -> Floats:
        drawn = rng.integers(0, len(self._row_weights), len(cells), dtype=np.uint16)
        return np.asarray(np.bincount(cells, self._row_weights[drawn], size), np.float64)
