"""The stack at work: everything that forecasts without a network, and its combination.

    simple stack    logistic regression over the baselines
    intensity       expected rows from what the last days excite
    trees           boosted trees on the table of cells   } both start from a logistic regression
    logistic        a line for each root on that table    } over the two above
    stack           a weighted mean of the logits of all four, held to the mean of the last two,
                    moved by the recent level

All are ordinary forecasters of the roots, one day ahead. On days that they were fitted on they
answer with fits which did not see those days, so that whatever is built on them learns from honest
answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
    Forecaster,
    History,
    IntArray,
    make_forecast,
)
from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.targets import outcomes, surge_threshold
from gdelphi.stack.cells import CATEGORIES, CellTable, cell_table
from gdelphi.stack.count_targets import target_chances
from gdelphi.stack.intensity import Intensity
from gdelphi.stack.linear import INTERCEPT, SIMPLE, Answers, Stack, ask, expit, logit
from gdelphi.stack.logistic import LinearModel
from gdelphi.stack.recent_level import REACH, WINDOW, recent_level
from gdelphi.stack.root_lines import RootLines
from gdelphi.stack.trees import Trees
from gdelphi.stack.usual import place_of, usual_of
from gdelphi.stack.week_lines import WeekFit

INTENSITY: Final = "intensity"
TREES: Final = "trees"
LOGISTIC: Final = "logistic"
STACK: Final = "stack"
BASE: Final = "base"  # what trees and lines start from
POOLED: Final = (SIMPLE, INTENSITY, TREES, LOGISTIC)
"""members of the stack, in the order of its weights"""
ANSWERED: Final = (SIMPLE, INTENSITY, BASE, STACK)
"""whose logits `StackAnswers` has, in this order"""
SAMPLES: Final = 1000  # simulated days that headlines and surges are counted on
SEED: Final = 0  # of their random numbers
KEPT: Final = 16  # answers of the stack that are remembered
KEPT_POOLED: Final = 2 * REACH  # the same without recent levels
RECENT_LEVEL: Final = "recent level"
FEWEST_BEFORE: Final = 50  # days before one that tells of the recent level
BLOCK_DAYS: Final = 256  # target days whose tables are made at once, as few cost as much as many,
KEPT_BLOCKS: Final = 2  # and how many times as many are kept
RECENCY: Final = "recency"

CellArray = npt.NDArray[np.float32]


class OutOfFold(NamedTuple):
    """Answers on the days of fitting, each by fits that did not see it."""

    days: IntArray
    """ordinals, increasing"""
    folds: IntArray
    """the number of the fold that each day belongs to"""
    expected: CellArray
    """rows, [day, stream, root]"""
    logits: Mapping[str, CellArray]
    """forecaster -> [target, day, stream, root]; NaN where undefined"""

    def place(self, day: date) -> int | None:
        """Of a day among those of fitting; None if it is none of them."""
        return place_of(day, self.days)

    @property
    def answers(self) -> "StackAnswers":
        """Of the stack and of what it rests on, [target, day, stream, root]."""
        return StackAnswers(*(self.logits[name].astype(np.float64) for name in ANSWERED))

    def at(self, day: date, name: str) -> FloatArray | None:
        """Logits [target, stream, root] of a forecaster; None if it was not fitted on that day."""
        place = self.place(day)
        return None if place is None else self.logits[name][:, place].astype(np.float64)


class StackAnswers(NamedTuple):
    """Logits for a day of the stack and of what it rests on, each [target, stream, root]."""

    simple: FloatArray
    intensity: FloatArray
    base: FloatArray
    stack: FloatArray


class TableFit(NamedTuple):
    """What was fitted of one target on the table of cells."""

    base: LinearModel
    """over the logits of simple stack and intensity"""
    trees: Trees
    lines: RootLines


@dataclass(frozen=True, eq=False)
class StackFit:
    """All that was fitted: what a folder of a model keeps."""

    simple: Stack
    intensity: Intensity
    row_weights: FloatArray
    """pool of weights of single rows, [root, number]"""
    tables: Mapping[str, TableFit]
    """by target"""
    pool: Mapping[str, LinearModel]
    """by target, over the logits of POOLED"""
    seasons: bool
    """whether the table of cells has seasons"""
    out_of_fold: OutOfFold
    week: WeekFit | None = None
    """of the days after tomorrow; None: of a fit that knows nothing of them"""


class StartLogits(NamedTuple):
    """What the table of cells is given of the answers below it, [target, day, stream, root]; the
    members' have one more axis, [..., member]."""

    members: FloatArray
    simple: FloatArray
    intensity: FloatArray
    base: FloatArray


def whole_table(table: CellTable, start: StartLogits, members: Sequence[str]) -> CellTable:
    """The table of cells with the answers below it, of all targets, and the names of cells."""
    names, columns = [], []
    for number, target in enumerate(TARGETS):
        for name, values in zip(
            ("simple stack", "intensity", "base"),
            (start.simple, start.intensity, start.base),
            strict=True,
        ):
            names.append(f"{name} {target}")
            columns.append(values[number])
        for place, member in enumerate(members):
            names.append(f"{member} {target}")
            columns.append(start.members[number, ..., place])
    days, streams, roots = table.values.shape[:3]
    root, stream = np.arange(roots), np.arange(streams)[:, None]
    columns += [np.broadcast_to(place, (days, streams, roots)) for place in (root, stream)]
    stacked = np.stack([np.asarray(column, np.float32) for column in columns], axis=3)
    return table.with_columns([*names, *CATEGORIES], stacked)


def line_columns(table: CellTable) -> list[int]:
    """The columns that regressions are shown: those that are numbers."""
    return [place for place, name in enumerate(table.names) if name not in (*CATEGORIES, "weekday")]


def table_logits(name: str, fit: TableFit, table: CellTable, base: FloatArray) -> FloatArray:
    """Logits of trees or of lines for the cells of a whole table, which start from these of the
    base; both of one shape."""
    rows, start = table.rows, base.ravel()
    if name == TREES:
        added = fit.trees.added(rows)
    else:
        root = rows[:, table.names.index("root")].astype(np.int64)
        shown = np.nan_to_num(rows[:, line_columns(table)])
        added = fit.lines.added(shown, np.nan_to_num(start), root)
    logits: FloatArray = (start + added).reshape(base.shape)
    return logits


# --- forecasters ----------------------------------------------------------------------------------


class _Block(NamedTuple):
    """The cells of some target days without answers, and the expected rows, [day, ...]."""

    first: int
    table: CellTable
    expected: FloatArray


@dataclass(frozen=True, eq=False)
class CountForecasters:
    """The forecasters of a fit over the days of a panel."""

    fit: StackFit
    panel: CountPanel
    latest: dict[date, StackAnswers] = field(default_factory=dict)
    """for the target days that were asked about last"""
    baselines: dict[date, FloatArray] = field(default_factory=dict)
    """logits of the simple stack's members for the same, [target, stream, root, member]"""
    pooled: dict[date, FloatArray] = field(default_factory=dict)
    """logits of the stack without its recent level for further target days, [target, stream,
    root]"""
    came: dict[date, tuple[History, FloatArray]] = field(default_factory=dict)
    """outcomes of target days, [target, stream, root], by the history that told them"""

    def keep(self, day: date, answers: StackAnswers, baselines: FloatArray) -> None:
        """Remember an answer, and forget the oldest."""
        self.latest[day], self.baselines[day] = answers, baselines
        while len(self.latest) > KEPT:
            oldest = next(iter(self.latest))
            del self.latest[oldest], self.baselines[oldest]

    def baseline_logits(self, answers: Answers) -> FloatArray:
        """Of the simple stack's members, [target, stream, root, member]."""
        return np.stack(
            [answered(answers, member.name) for member in self.fit.simple.members], axis=-1
        )

    @cached_property
    def _blocks(self) -> Callable[[int], _Block]:
        return lru_cache(KEPT_BLOCKS)(self._make_block)

    @property
    def stack(self) -> "PooledStack":
        intensity = IntensityForecaster(self)
        tables = [TableForecaster(name, self, intensity) for name in (TREES, LOGISTIC)]
        return PooledStack(self, (self.fit.simple, intensity, *tables))

    def expected_rows(self, day: date) -> FloatArray:
        """Of a target day, [stream, root]."""
        block, place = self._at(day)
        expected: FloatArray = block.expected[place]
        return expected

    def table(self, day: date) -> CellTable:
        """The cells of a target day, without answers."""
        block, place = self._at(day)
        return CellTable(block.table.names, block.table.values[place : place + 1])

    def _at(self, day: date) -> tuple[_Block, int]:
        position = (day - self.panel.roots.days[0]).days
        if not 0 < position <= len(self.panel.roots.days):
            raise ForecastError(
                f"no counts of the day before {day}: they reach from {self.panel.roots.days[0]} "
                f"to {self.panel.roots.days[-1]}"
            )
        block = self._blocks(position // BLOCK_DAYS)
        return block, position - block.first

    def cells_of(self, positions: IntArray) -> tuple[CellTable, FloatArray]:
        """The cells of target days at these positions of the panel, without answers, and their
        expected rows, [day, stream, root]. Of many days all at once: whatever their number, it
        takes a pass over the whole panel."""
        numbers = np.unique(positions // BLOCK_DAYS)
        if len(numbers) > KEPT_BLOCKS:
            made = self._made(positions)
            return made.table, made.expected
        blocks = {number: self._blocks(number) for number in numbers.tolist()}
        of_day = [(blocks[at // BLOCK_DAYS], at) for at in positions.tolist()]
        names = of_day[0][0].table.names
        table = np.stack([block.table.values[at - block.first] for block, at in of_day])
        expected = np.stack([block.expected[at - block.first] for block, at in of_day])
        return CellTable(names, table), expected

    def _make_block(self, number: int) -> _Block:
        first = max(number * BLOCK_DAYS, 1)  # the first day has none before it
        last = min((number + 1) * BLOCK_DAYS, len(self.panel.roots.days) + 1)
        return self._made(np.arange(first, last))

    def _made(self, days: IntArray) -> _Block:
        expected = self.fit.intensity.expected_rows(self.panel, days)
        known = self.fit.out_of_fold  # what was expected of the days of fitting without them
        ordinals = days + self.panel.roots.days[0].toordinal()
        fitted = np.isin(ordinals, known.days)
        expected[fitted] = known.expected[np.searchsorted(known.days, ordinals[fitted])]
        table = intensity_table(self.fit.intensity, self.panel, days, expected, self.fit.seasons)
        return _Block(int(days[0]), table, expected)


def intensity_table(
    intensity: Intensity,
    panel: CountPanel,
    days: IntArray,
    expected: FloatArray,
    seasons: bool,
) -> CellTable:
    """The cells of target days, with what an intensity calls usual and expects."""
    return cell_table(
        panel,
        days,
        usual=usual_of(panel, intensity.norms.weekdays),
        factors=intensity.norms.weekdays,
        affinities=intensity.norms.affinities,
        expected_rows=expected,
        seasons=seasons,
    )


class _CountForecaster:
    """What forecasters of a fit have in common. On days of fitting they answer out of fold."""

    if TYPE_CHECKING:  # each has them in its own way

        @property
        def counts(self) -> CountForecasters: ...
        @property
        def name(self) -> str: ...
        @property
        def members(self) -> Sequence[Forecaster]: ...

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        return self.combine(history, ask(self.members, history, origin, horizon))

    def combine(self, history: History, answers: Answers) -> list[Forecast]:
        first = answers[RECENCY][0]
        if first.horizon != 1:
            raise ForecastError(f"{self.name} speaks of the day after the origin only")
        logits = self.counts.fit.out_of_fold.at(first.target_day, self.name)
        if logits is None:
            logits = self._logits(history, answers, first.origin)
        return _forecasts(self.name, history, answers[RECENCY], logits)

    def _logits(self, history: History, answers: Answers, origin: date) -> FloatArray:
        """On any other day, [target, stream, root]."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class IntensityForecaster(_CountForecaster):
    """Probabilities from the expected rows."""

    counts: CountForecasters
    name: str = INTENSITY

    @property
    def members(self) -> Sequence[Forecaster]:
        """The recency bootstrap, whose shares it hands on."""
        return [one for one in self.counts.fit.simple.members if one.name == RECENCY]

    def _logits(self, history: History, _: Answers, origin: date) -> FloatArray:
        day = origin + timedelta(days=1)
        chances = target_chances(
            self.counts.expected_rows(day)[None],
            self.counts.fit.intensity.shapes,
            self.counts.fit.row_weights,
            surge_threshold(history, origin)[None],
            ordinals=np.array([day.toordinal()]),
            samples=SAMPLES,
            seed=SEED,
        )
        return logit(np.stack([chances[target][0] for target in TARGETS]))


@dataclass(frozen=True, eq=False)
class TableForecaster(_CountForecaster):
    """Trees or lines on the table of cells."""

    name: str
    counts: CountForecasters
    intensity: IntensityForecaster

    @property
    def members(self) -> Sequence[Forecaster]:
        simple = self.counts.fit.simple
        return (*simple.members, simple, self.intensity)

    def _logits(self, _: History, answers: Answers, origin: date) -> FloatArray:
        fit, names = self.counts.fit, [member.name for member in self.counts.fit.simple.members]
        members = self.counts.baseline_logits(answers)
        simple, intensity = answered(answers, SIMPLE), answered(answers, INTENSITY)
        base = all_base_logits(fit, simple, intensity)
        start = StartLogits(members[:, None], simple[:, None], intensity[:, None], base[:, None])
        table = whole_table(self.counts.table(origin + timedelta(days=1)), start, names)
        return np.stack(
            [
                table_logits(self.name, fit.tables[target], table, base[number])
                for number, target in enumerate(TARGETS)
            ]
        )


@dataclass(frozen=True, eq=False)
class PooledStack(_CountForecaster):
    """The combination of everything that has no network."""

    counts: CountForecasters
    members: Sequence[Forecaster]
    name: str = STACK

    def _logits(self, history: History, answers: Answers, origin: date) -> FloatArray:
        day = origin + timedelta(days=1)
        given = _given(answers)
        pooled = pooled_logits(self.counts.fit.pool, given)
        self._keep_pooled(day, pooled)
        logits: FloatArray = pooled + self.level(history, origin)[:, None, None]
        simple, intensity = given[..., 0], given[..., 1]
        base = all_base_logits(self.counts.fit, simple, intensity)
        kept = StackAnswers(simple, intensity, base, logits)
        self.counts.keep(day, kept, self.counts.baseline_logits(answers))
        return logits

    def level(self, history: History, origin: date) -> FloatArray:
        """By how much it has been too low lately, [target]; of days up to the origin."""
        days = self._telling_days(history, origin)
        if not days:
            return np.zeros(len(TARGETS))
        return recent_level(
            np.stack([self._pooled(history, day) for day in days], axis=1),
            np.stack([self._came(history, day) for day in days], axis=1),
            np.array([(origin - day).days + 1 for day in days]),
        )

    def _telling_days(self, history: History, origin: date) -> list[date]:
        """The days that tell of the level after an origin: present ones, of a day of fitting those
        of fitting, as when it was fitted."""
        known, first = self.counts.fit.out_of_fold, history.days[0].toordinal()
        after = origin.toordinal() + 1
        if known.place(date.fromordinal(after)) is not None:
            days = known.days[known.days < after]
        else:
            present = history.present[: after - first]
            days = np.flatnonzero(present) + first
            days = days[days >= first + FEWEST_BEFORE]
        return [date.fromordinal(int(day)) for day in days[days >= after - REACH][-WINDOW:]]

    def _pooled(self, history: History, day: date) -> FloatArray:
        """Its logits for a day without the level, [target, stream, root]."""
        fit = self.counts.fit
        place = fit.out_of_fold.place(day)
        if place is not None:
            known = [fit.out_of_fold.logits[name][:, place] for name in POOLED]
            return pooled_logits(fit.pool, np.stack(known, axis=-1).astype(np.float64))
        if day not in self.counts.pooled:
            answers = ask(self.members, history, day - timedelta(days=1))
            self._keep_pooled(day, pooled_logits(fit.pool, _given(answers)))
        return self.counts.pooled[day]

    def _keep_pooled(self, day: date, pooled: FloatArray) -> None:
        self.counts.pooled[day] = pooled
        while len(self.counts.pooled) > KEPT_POOLED:
            del self.counts.pooled[next(iter(self.counts.pooled))]

    def _came(self, history: History, day: date) -> FloatArray:
        """The outcomes of a day, [target, stream, root]: every origin asks about the last ones."""
        of, came = self.counts.came.get(day, (None, None))
        if came is None or of is not history:
            told = outcomes(history, day - timedelta(days=1))
            came = np.stack([told[target] for target in TARGETS])
            self.counts.came[day] = history, came
            while len(self.counts.came) > KEPT_POOLED:
                del self.counts.came[next(iter(self.counts.came))]
        return came

    def answers(self, history: History, origin: date) -> StackAnswers:
        """What it and its parts answer at an origin; members are asked only if that is not known
        yet."""
        day = origin + timedelta(days=1)
        known = self.counts.fit.out_of_fold
        place = known.place(day)
        if place is not None:
            found = (known.logits[name][:, place] for name in ANSWERED)
            return StackAnswers(*(logits.astype(np.float64) for logits in found))
        if day not in self.counts.latest:
            self.forecast(history, origin)
        return self.counts.latest[day]

    # What it is made of, as `Stack` tells it.

    def features(self) -> tuple[str, ...]:
        return (*(f"logit {name}" for name in POOLED), RECENT_LEVEL)

    def coefficients(self) -> dict[str, dict[str, float]]:
        """target -> feature -> weight, the intercept among them."""
        return {
            target: {
                INTERCEPT: line.intercept,
                **dict(zip(self.features(), [*line.values.tolist(), 1.0], strict=True)),
            }
            for target, line in self.counts.fit.pool.items()
        }

    def contributions(self, history: History, answers: Answers) -> dict[str, FloatArray]:
        """What each member and the recent level add to the logit of each cell, target -> [stream,
        root, feature]."""
        given = _given(answers)
        pool, level = self.counts.fit.pool, self.level(history, answers[RECENCY][0].origin)
        found = {}
        for number, target in enumerate(TARGETS):
            members = given[number] * pool[target].values
            last = np.full((*members.shape[:2], 1), level[number])
            found[target] = np.concatenate([members, last], axis=2)
        return found


def _given(answers: Answers) -> FloatArray:
    """The logits of the stack's members, [target, stream, root, member]."""
    return np.stack([answered(answers, name) for name in POOLED], axis=-1)


def pooled_logits(pool: Mapping[str, LinearModel], given: FloatArray) -> FloatArray:
    """[target, ...] from the logits of POOLED, [target, ..., member]."""
    # Cell by cell: the result for one must not depend on how many others there are.
    return np.stack(
        [
            (given[number] * pool[target].values).sum(axis=-1) + pool[target].intercept
            for number, target in enumerate(TARGETS)
        ]
    )


def base_logits(base: LinearModel, simple: FloatArray, intensity: FloatArray) -> FloatArray:
    """What trees and lines start from."""
    logits: FloatArray = base.values[0] * simple + base.values[1] * intensity + base.intercept
    return logits


def all_base_logits(fit: StackFit, simple: FloatArray, intensity: FloatArray) -> FloatArray:
    """The same of all targets, [target, ...]."""
    return np.stack(
        [
            base_logits(fit.tables[target].base, simple[number], intensity[number])
            for number, target in enumerate(TARGETS)
        ]
    )


def answered(answers: Answers, name: str) -> FloatArray:
    """The logits of a forecaster's answers, [target, stream, root]."""
    return np.stack(
        [logit(np.stack([one.probability(target) for one in answers[name]])) for target in TARGETS]
    )


def _forecasts(
    name: str, history: History, drawn: Sequence[Forecast], logits: FloatArray
) -> list[Forecast]:
    """Forecasts with these logits [target, stream, root] and drawn shares."""
    occurs, headline, surge = expit(logits)
    return [
        make_forecast(
            Forecast(
                name, stream, shares.origin, shares.horizon, history.codes, occurs[number],
                headline[number], surge[number], shares.share_samples, shares.share_weights,
            )
        )
        for number, (stream, shares) in enumerate(zip(history.streams, drawn, strict=True))
    ]  # fmt: skip
