"""One day of a backtest: every forecaster is asked with the days up to the origin, and held against
what came.

Asked are what is published, all that it is combined from, and, in a simulated world, the oracles.
What is published is judged as a reader gets it: levels coherent, shares from the drawn days with
their tilted weights. For shares the stack is the recency bootstrap, whose samples it hands on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from gdelphi.forecast.predictor import Predictor, stream_futures
from gdelphi.forecast.publisher import (
    PUBLISHED,
    Publisher,
    below,
)
from gdelphi.judge.futures import FutureJudge, table_of
from gdelphi.judge.refit import RefitSchedule
from gdelphi.judge.simulated import ingested_panel
from gdelphi.measures.profiles import outcomes, shares_of
from gdelphi.scores.samples import (
    coverage,
    crps,
    pit,
)

STACK: Final = "stack"
FAIR_ORACLE: Final = "fair oracle"
SHARES_OF: Final = (PUBLISHED, "profiles", "atoms", "recency", FAIR_ORACLE)
"""forecasters whose shares are scored, as far as they are asked"""
INTERVALS: Final = (0.5, 0.9)


@dataclass(frozen=True)
class BacktestOptions:
    """Who is asked, and for what."""

    level: Level = "root"
    forecasters: tuple[str, ...] = ()
    """names; none: all that there are"""
    world: Path | None = None
    """archive of a simulated world, whose oracles are asked too"""
    futures: int = 100
    seed: int = 0
    text: bool = False
    """ROUGE of futures"""
    text_model: Path | None = None
    """folder of a text forecaster, one more member"""


class Answers(NamedTuple):
    """What was said at an origin."""

    said: dict[str, list[Forecast]]
    """by forecaster, for each stream"""
    futures: list[StreamFutures]
    """of each stream"""


class BacktestDay:
    """Everything that is asked, loaded once for a process."""

    def __init__(
        self,
        settings: Settings,
        desk: Predictor,
        asked: BacktestOptions,
        schedule: RefitSchedule | None = None,
    ) -> None:
        """With a schedule, what is published is that of the day's period."""
        self.desk, self.asked = desk, asked
        self._schedule = schedule
        self._levels = LEVELS[: LEVELS.index(asked.level) + 1]
        self._oracles = _oracles(settings, asked.world)
        self.names = self._chosen()
        self._futures = FutureJudge(desk, text=asked.text, seed=asked.seed)

    def _publisher(self, level: Level, day: date | None) -> Publisher:
        if self._schedule is None or day is None:
            return self.desk.publisher(level)
        return self._schedule.publisher(self.desk, level, day)

    def _known(self, day: date | None = None) -> dict[str, Forecaster | None]:
        """Forecasters of a target day by name, the published one as None: it is put together
        here."""
        publisher = self._publisher(self.asked.level, day)
        members, baselines = publisher.combined.members, len(publisher.stack.members)
        readings = [*members[baselines:], *members[:baselines]]
        others: list[Forecaster] = [publisher.combined, publisher.stack, *readings]
        found: dict[str, Forecaster | None] = {PUBLISHED: None}
        found |= {each.name: each for each in others}
        return found | {each.name: each for each in self._oracles}

    def _chosen(self) -> tuple[str, ...]:
        """Those asked for, the stack always among them: skill is measured against it."""
        known = self._known()
        strange = [name for name in self.asked.forecasters if name not in known]
        if strange:
            raise JudgeError(
                f"no forecaster {strange[0]!r} at level {self.asked.level}; there are "
                f"{', '.join(known)}"
            )
        wanted = {*(self.asked.forecasters or known), STACK, *(each.name for each in self._oracles)}
        return tuple(name for name in known if name in wanted)

    def ask(self, origin: date) -> "Answers":
        """What everybody says at an origin."""
        known = self.desk.known_at(self.asked.level, origin)
        futures, published = self._published(origin)
        said = {
            name: published if each is None else each.forecast(known, origin)
            for name, each in self._known(origin + timedelta(days=1)).items()
            if name in self.names
        }
        return Answers(said, futures)

    def day(self, day: date) -> dict[str, pa.Table]:
        """The tables of a target day, one day ahead."""
        origin = day - timedelta(days=1)
        said, futures = self.ask(origin)
        whole = self.desk.history(self.asked.level)
        came = outcomes(whole, origin)
        shares = shares_of(whole.weights[:, (day - whole.days[0]).days])
        scores = self._futures.day(origin, futures) if self.asked.level == "root" else []
        return {
            "probabilities": probability_table(whole, said, came, origin),
            "shares": share_table(said, shares, seed=[self.asked.seed, day.toordinal()]),
            "futures": table_of(scores),
        }

    def _published(self, origin: date) -> tuple[list[StreamFutures], list[Forecast]]:
        """The futures, and what is published at the level: as `Desk.predict` does."""
        day = origin + timedelta(days=1)
        said = {
            level: self._publisher(level, day).forecast(self.desk.known_at(level, origin), origin)
            for level in self._levels
        }
        roots = self.desk.known_at("root", origin)
        sampled = self.desk.sampler.at(origin)
        futures = [
            stream_futures(self.desk, sampled, place, roots, each.occurs)
            for place, each in enumerate(said["root"])
        ]
        known = self.desk.known_at(self.asked.level, origin)
        first = (known.days[0] - self.desk.pack.first_day).days
        published = []
        for place, future in enumerate(futures):
            one = self._coherent([said[level][place] for level in self._levels])
            drawn = known.weights[place, sampled.futures.days[place] - first]
            weights = future.tilted.weights
            made = replace(one, share_samples=shares_of(drawn), share_weights=weights)
            published.append(made)
        return futures, published

    def _coherent(self, said: Sequence[Forecast]) -> Forecast:
        """The last of the levels from the roots down, none likelier than what it is a kind of."""
        made = said[0]
        for above, each in zip(self._levels, said[1:], strict=False):
            made = below(each, made, above)
        return made


def _oracles(settings: Settings, world: Path | None) -> list[Forecaster]:
    if world is None:
        return []
    panel = ingested_panel(settings, world)
    return [panel.oracle(), panel.oracle(knows_all=True)]


# --- tables ---------------------------------------------------------------------------------------


def probability_table(
    history: History,
    said: Mapping[str, Sequence[Forecast]],
    came: Mapping[str, FloatArray],
    origin: date,
) -> pa.Table:
    """A row for each stream, code and target: what came, and what each forecaster said of it."""
    columns = cell_columns(history.streams, history.codes)
    columns["outcome"] = pa.array(_flat(came))
    for name, forecasts in said.items():
        _check(name, history, forecasts, came, origin)
        columns[name] = pa.array(
            _flat({x: np.stack([one.probability(x) for one in forecasts]) for x in TARGETS})
        )
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
    found: FloatArray = np.stack([values[target] for target in TARGETS], axis=-1).ravel()
    return found


def _check(
    name: str,
    history: History,
    forecasts: Sequence[Forecast],
    came: Mapping[str, FloatArray],
    origin: date,
) -> None:
    where = f"{name} at {origin}"
    about = {(one.origin, one.horizon, one.codes) for one in forecasts}
    streams = tuple(one.stream for one in forecasts)
    if about != {(origin, 1, history.codes)} or streams != history.streams:
        raise ForecastError(f"{where}: its forecasts are of other streams, days or codes")
    for target in TARGETS:
        silent = np.isnan([one.probability(target) for one in forecasts])
        if (silent & ~np.isnan(came[target])).any():
            raise ForecastError(f"{where}: it says nothing of some {target} that has an outcome")


def share_table(
    said: Mapping[str, Sequence[Forecast]], came: FloatArray, *, seed: Sequence[int]
) -> pa.Table:
    """A row for each forecaster, stream and code: how good its samples of shares were.

    CRPS has the plain form: a forecast of shares is the law of its samples, however it came by
    them. All share the random numbers of PIT.
    """
    chosen = [name for name in SHARES_OF if name in said]
    uniform = np.random.default_rng([*seed, 12]).random(came.shape)
    columns: dict[str, list[FloatArray]] = {
        name: [] for name in ("crps", "pit", *(f"held_{level:.0%}"[:-1] for level in INTERVALS))
    }
    streams: list[str] = []
    codes: list[str] = []
    for name in chosen:
        for place, one in enumerate(said[name]):
            given = (one.share_samples, one.share_weights, came[place])
            held = [coverage(*given, level=level).held for level in INTERVALS]
            figures = [crps(*given), pit(*given, uniform[place]), *held]
            for column, figure in zip(columns.values(), figures, strict=True):
                column.append(figure)
            streams += [one.stream] * len(one.codes)
            codes += one.codes
    each = came.size
    return pa.table(
        {
            "forecaster": pa.array([name for name in chosen for _ in range(each)], pa.string()),
            "stream": pa.array(streams, pa.string()),
            "code": pa.array(codes, pa.string()),
            "outcome": pa.array(np.tile(came.ravel(), len(chosen))),
            **{
                name: pa.array(np.concatenate(parts) if parts else np.zeros(0))
                for name, parts in columns.items()
            },
        }
    )
