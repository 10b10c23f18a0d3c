"""One day of a backtest: every forecaster is asked at the origin and held against the outcome.

These are what is published, all that it is combined from, and, in a simulated world, the oracles.
What is published is judged as a reader gets it: levels coherent, shares from the drawn days with
the weights of the futures. For shares the stack is the recency bootstrap, whose samples it hands
on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from gdelphi.common.errors import ForecastError, JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.types import (
    LEVELS,
    TARGETS,
    FloatArray,
    Forecast,
    Forecaster,
    History,
    Level,
)
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import OriginForecasts, Predictor
from gdelphi.forecast.publisher import PUBLISHED, WITHOUT_NETWORK
from gdelphi.forecast.week import OriginWeek
from gdelphi.judge.expected import ExpectedJudge, expected_table
from gdelphi.judge.futures import FutureJudge, future_table
from gdelphi.judge.refit import RefitSchedule
from gdelphi.judge.simulated import ingested_panel
from gdelphi.judge.week import week_table, without_network
from gdelphi.measures.targets import outcomes, shares_of
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.scores.samples import all_scores
from gdelphi.stack.baselines import all_baselines
from gdelphi.stack.linear import ask
from gdelphi.world.oracle_week import WeekOracle

STACK: Final = "stack"
FAIR_ORACLE: Final = "fair oracle"
SHARES_OF: Final = (PUBLISHED, "profiles", "atoms", "recency", FAIR_ORACLE)
"""forecasters whose shares are scored, as far as they are judged"""
INTERVALS: Final = (0.5, 0.9)


@dataclass(frozen=True)
class BacktestOptions:
    """Which forecasters are judged, and on what."""

    level: Level = "root"
    forecasters: tuple[str, ...] = ()
    """names; none: all that there are"""
    world: Path | None = None
    """archive of a simulated world, whose oracles are judged too"""
    futures: int = 100
    seed: int = 0
    text: bool = False
    """ROUGE of futures"""
    text_model: Path | None = None
    """folder of a text forecaster, one more member"""
    horizon: int = 1
    """days ahead: more than 1 judges the whole week too"""
    only_probabilities: bool = False
    """whole futures and the expected day, which take most of the time, are not judged"""

    @property
    def week(self) -> bool:
        """Whether the week is judged."""
        return self.horizon > 1


class OriginAnswers(NamedTuple):
    """What was forecast at an origin."""

    forecasts: dict[str, list[Forecast]]
    """by forecaster, for each stream"""
    futures: list[StreamFutures]
    """of each stream, as published; none where only probabilities are asked for"""
    moved: dict[int, StreamFutures] | None
    """moved futures of the streams that are judged, by place; None: these are published, or none
    are judged"""
    published: list[Forecast]
    """of each stream, whether it is judged or not"""
    week: OriginWeek | None
    """the week ahead, where it is judged"""


class BacktestDay:
    """Judges one day after the other; what that needs is loaded once for a process."""

    def __init__(
        self,
        settings: Settings,
        predictor: Predictor,
        options: BacktestOptions,
        schedule: RefitSchedule | None = None,
    ) -> None:
        """With a schedule, what is published is that of the day's period."""
        self.predictor, self.options = predictor, options
        self._schedule = schedule
        self._oracles: list[Forecaster] = []
        self._week_oracle: WeekOracle | None = None
        if options.week and (predictor.week_stack is None or options.level != "root"):
            raise JudgeError(
                "the week is judged for the roots, by a model that speaks of it: take --level root "
                "and a model trained on at least 120 days, or --horizon 1"
            )
        if options.world is not None:
            panel = ingested_panel(settings, options.world)
            self._oracles = [panel.oracle(), panel.oracle(knows_all=True)]
            self._week_oracle = panel.week_oracle() if options.week else None
        self.names = self._choose_names()
        whole = options.level == "root" and not options.only_probabilities
        self._futures = (
            FutureJudge(predictor, text=options.text, seed=options.seed) if whole else None
        )
        self._expected = (
            ExpectedJudge(predictor.decoder, text=options.text, seed=options.seed)
            if predictor.decoder is not None and whole
            else None
        )

    def _choose_names(self) -> tuple[str, ...]:
        """The forecasters asked for, the stack always among them: skill is measured against it."""
        publisher = self.predictor.publisher(self.options.level)
        baselines = {baseline.name for baseline in all_baselines()}
        members = publisher.all_members()
        known = [
            publisher,
            *publisher.members,
            *(member for member in members if member.name not in baselines),
            *(member for member in members if member.name in baselines),
        ]
        names = list(dict.fromkeys(one.name for one in (*known, *self._oracles)))
        unknown = [name for name in self.options.forecasters if name not in names]
        if unknown:
            raise JudgeError(
                f"no forecaster {unknown[0]!r} at level {self.options.level}; there are "
                f"{', '.join(names)}"
            )
        oracles = {oracle.name for oracle in self._oracles}
        wanted = {*(self.options.forecasters or names), STACK, *oracles}
        if PUBLISHED in wanted:  # what the network adds is told in every table
            wanted.add(WITHOUT_NETWORK)
        return tuple(name for name in names if name in wanted)

    def ask(self, origin: date, *, whole: bool = True) -> OriginAnswers:
        """The forecasts of all forecasters at an origin; if not the whole of them, without futures,
        and published shares are not those of the futures.

        What is published is what `gdelphi forecast` stores: both are made by OriginForecasts.
        """
        level, day = self.options.level, origin + timedelta(days=1)
        publishers = {
            above: self.predictor.publisher(above)
            if self._schedule is None
            else self._schedule.publisher(self.predictor, above, day)
            for above in LEVELS[: LEVELS.index(level) + 1]
        }
        at_origin = OriginForecasts(self.predictor, origin, publishers)
        places = range(len(self.predictor.streams))
        moves = self.predictor.moves_atoms
        futures = [at_origin.futures(place, moved=moves) for place in places if whole]
        moved = None
        if whole and not moves and self._futures is not None:
            judged = self._futures.streams(origin)
            moved = {place: at_origin.futures(place, moved=True) for place in judged}
        published = [
            at_origin.published(place, futures[place] if whole else None)[level] for place in places
        ]
        oracles = ask(self._oracles, at_origin.histories[level], origin)
        answers = {**at_origin.answers[level], PUBLISHED: published, **oracles}
        return OriginAnswers(
            {name: answers[name] for name in self.names},
            futures,
            moved,
            published,
            at_origin.week if self.options.week else None,
        )

    def day(self, day: date, *, whole: bool = True) -> dict[str, pa.Table]:
        """The tables of a target day, one day ahead; if not the whole of them, those of shares,
        futures and the expected day have no rows."""
        origin = day - timedelta(days=1)
        forecasts, futures, moved, published, week = self.ask(origin, whole=whole)
        history = self.predictor.history(self.options.level)
        outcome = outcomes(history, origin)
        shares = shares_of(history.weights[:, (day - history.days[0]).days])
        scores = (
            self._futures.day(origin, futures, moved, published)
            if whole and self._futures is not None
            else []
        )
        of_week = {} if week is None else {"week": self._week_table(origin, week)}
        return {
            **of_week,
            "probabilities": probability_table(history, forecasts, outcome, origin),
            "shares": share_table(
                forecasts if whole else {}, shares, seed=[self.options.seed, day.toordinal()]
            ),
            "expected": expected_table(
                self._expected.day(
                    self.predictor.sampler.position(origin), forecasts.get(FAIR_ORACLE, ())
                )
                if whole and self._expected
                else []
            ),
            "futures": future_table(scores),
        }

    def _week_table(self, origin: date, week: OriginWeek) -> pa.Table:
        """All that was said of the week, and what came."""
        history = self.predictor.history("root")
        forecasts = {**week.forecasts, WITHOUT_NETWORK: without_network(week.forecasts[STACK])}
        if self._week_oracle is not None:
            forecasts[FAIR_ORACLE] = self._week_oracle.week(history, origin)
        came = week_outcomes(history, origin)
        return week_table(history.streams, history.codes, forecasts, came, week.onset)


# --- tables ---------------------------------------------------------------------------------------


def probability_table(
    history: History,
    forecasts: Mapping[str, Sequence[Forecast]],
    outcome: Mapping[str, FloatArray],
    origin: date,
) -> pa.Table:
    """A row for each stream, code and target: the outcome, and each forecaster's probability."""
    columns = cell_columns(history.streams, history.codes)
    columns["outcome"] = pa.array(_flat(outcome))
    for name, of_streams in forecasts.items():
        _check(name, history, of_streams, outcome, origin)
        probabilities = {
            target: np.stack([one.probability(target) for one in of_streams]) for target in TARGETS
        }
        columns[name] = pa.array(_flat(probabilities))
    return pa.table(columns)


def cell_columns(streams: Sequence[str], codes: Sequence[str]) -> dict[str, pa.Array]:
    """Stream, code and target of each cell, in the order of all tables of cells."""
    targets = len(TARGETS)
    return {
        "stream": pa.array(np.repeat(np.array(streams, object), len(codes) * targets)),
        "code": pa.array(np.tile(np.repeat(np.array(codes, object), targets), len(streams))),
        "target": pa.array(np.tile(np.array(TARGETS, object), len(streams) * len(codes))),
    }


def _flat(values: Mapping[str, FloatArray]) -> FloatArray:
    """Target -> [stream, code] as one column, in the order of `cell_columns`."""
    flat: FloatArray = np.stack([values[target] for target in TARGETS], axis=-1).ravel()
    return flat


def _check(
    name: str,
    history: History,
    forecasts: Sequence[Forecast],
    outcome: Mapping[str, FloatArray],
    origin: date,
) -> None:
    where = f"{name} at {origin}"
    about = {(one.origin, one.horizon, one.codes) for one in forecasts}
    streams = tuple(one.stream for one in forecasts)
    if about != {(origin, 1, history.codes)} or streams != history.streams:
        raise ForecastError(f"{where}: its forecasts are of other streams, days or codes")
    for target in TARGETS:
        silent = np.isnan([one.probability(target) for one in forecasts])
        if (silent & ~np.isnan(outcome[target])).any():
            raise ForecastError(f"{where}: it says nothing of some {target} that has an outcome")


def share_table(
    forecasts: Mapping[str, Sequence[Forecast]], outcome: FloatArray, *, seed: Sequence[int]
) -> pa.Table:
    """A row for each forecaster, stream and code: how good its samples of shares were.

    CRPS has the plain form: a forecast of shares is the law of its samples, however it came by
    them. All share the random numbers of PIT.
    """
    chosen = [name for name in SHARES_OF if name in forecasts]
    uniform = np.random.default_rng([*seed, 12]).random(outcome.shape)
    columns: dict[str, list[FloatArray]] = {
        name: [] for name in ("crps", "pit", *(f"held_{level:.0%}"[:-1] for level in INTERVALS))
    }
    streams: list[str] = []
    codes: list[str] = []
    for name in chosen:
        for place, one in enumerate(forecasts[name]):
            scores = all_scores(
                one.share_samples, one.share_weights, outcome[place], uniform[place], INTERVALS
            )
            each = (scores.crps, scores.pit, *scores.held)
            for column, score in zip(columns.values(), each, strict=True):
                column.append(score)
            streams += [one.stream] * len(one.codes)
            codes += one.codes
    cells = outcome.size
    return pa.table(
        {
            "forecaster": pa.array([name for name in chosen for _ in range(cells)], pa.string()),
            "stream": pa.array(streams, pa.string()),
            "code": pa.array(codes, pa.string()),
            "outcome": pa.array(np.tile(outcome.ravel(), len(chosen))),
            **{
                name: pa.array(np.concatenate(parts) if parts else np.zeros(0))
                for name, parts in columns.items()
            },
        }
    )
