"""Fitting the stack, out of fold.

The days that may be learned from are cut into folds: the two halves of the training days,
validation A and validation B. Every part is fitted once without each fold, to answer for it, and
once on all days, to forecast. What stands on others' answers (trees and lines on the intensity, the
pool on all, the network on the pool) so learns from answers as good as those that it will be given,
and not from better ones.

    baselines -> simple stack -+-> base -> trees, lines -> pool
    counts    -> intensity    -+

Days close to a fold are left out of what answers for it: their past overlaps with its days.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.threads import at_once, give_back_memory
from gdelphi.common.types import AHEAD, TARGETS, BoolArray, FloatArray, IntArray
from gdelphi.common.workers import share
from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.targets import surge_threshold
from gdelphi.stack.cells import CATEGORIES, CellTable
from gdelphi.stack.count_targets import row_weight_pool, target_chances
from gdelphi.stack.expected_week import expected_week
from gdelphi.stack.fitted import (
    BASE,
    INTENSITY,
    LOGISTIC,
    POOLED,
    SAMPLES,
    SEED,
    STACK,
    TREES,
    CountForecasters,
    OutOfFold,
    StackFit,
    StartLogits,
    TableFit,
    base_logits,
    intensity_table,
    line_columns,
    pooled_logits,
    table_logits,
    whole_table,
)
from gdelphi.stack.intensity import Intensity, fit_intensity
from gdelphi.stack.linear import (
    LEVEL_RIDGE,
    SIMPLE,
    ExampleMaker,
    Stack,
    StackExample,
    default_stack,
    expit,
    logit,
)
from gdelphi.stack.logistic import LinearModel, minimise_log_loss, regress_around
from gdelphi.stack.recent_level import levels_in_order
from gdelphi.stack.root_lines import fit_root_lines
from gdelphi.stack.trees import MORE_ROUNDS, TreeGrower
from gdelphi.stack.week_fit import fit_week

MOST_DAYS: Final = 1500  # that are learned from, the last ones
FEWEST_DAYS: Final = 120
ASKED_AT_ONCE: Final = 100  # days that a process asks the baselines about; few stay in this one
SIMPLE_DAYS: Final = 365  # that the simple stack learns from, before validation B
SEASON_DAYS: Final = 1200  # from so many on seasons are shown
EMBARGO: Final = 7  # days beside a fold
SURE: Final = 0.01  # cells that the base is surer of teach trees and lines nothing
SEEDS: Final = 3  # of the trees that forecast
FOLD_CELLS: Final = 400_000  # that trees and lines of a fold learn from, at most,
MOST_CELLS: Final = 1_000_000  # and those that forecast
POOL_START: Final = {SIMPLE: 0.0, INTENSITY: 0.0, TREES: 0.5, LOGISTIC: 0.5}
POOL_RIDGE: Final = 1e4  # in cells


class FitDays(NamedTuple):
    """Target days that may be learned from, in their order."""

    train: Sequence[date]
    validation_a: Sequence[date]
    validation_b: Sequence[date]


def fit_stack(
    panel: CountPanel, days: FitDays, on_step: OnStep = silent, *, most_days: int = MOST_DAYS
) -> StackFit:
    """Fit everything that forecasts without a network, and answer for the days of fitting: the last
    `most_days` of those that are given."""
    data = _data_of(panel, days, most_days, on_step)
    give_back_memory()  # of the examples: hundreds of megabytes in small arrays
    on_step("fitting expected rows")
    everything = np.arange(len(data.positions))
    nothing = everything[:0]
    parts = [(everything, nothing), *zip(data.rests, data.folds, strict=True)]  # the longest first
    whole, *folds = at_once([partial(_fold_intensity, data, *part) for part in parts])
    on_step("fitting trees and regressions")
    fit = _fit_tables(data, folds, whole.intensity, on_step)
    on_step("fitting the week")
    expected = np.concatenate([fold.expected for fold in folds])
    return replace(fit, week=fit_week(CountForecasters(fit, panel), expected, data.members))


class _FoldIntensity(NamedTuple):
    """The intensity of some days, and what it expects of others."""

    intensity: Intensity
    expected: FloatArray
    """rows of the weeks that begin with these, [day, day of the week, stream, root]"""


def _fold_intensity(data: "_Data", learned: IntArray, answered: IntArray) -> _FoldIntensity:
    """Fitted on days at some places, asked about days at others."""
    intensity = fit_intensity(data.panel, data.positions[learned])
    if not len(answered):
        return _FoldIntensity(intensity, np.empty((0, AHEAD, *intensity.shapes.shape)))
    origins = data.positions[answered] - 1
    return _FoldIntensity(intensity, expected_week(intensity, data.panel, origins))


# --- days and folds -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Data:
    """The days of fitting: what the baselines say of them, and what came."""

    panel: CountPanel
    positions: IntArray
    """of the target days in the panel"""
    folds: Sequence[IntArray]
    """places in `positions`"""
    rests: Sequence[IntArray]
    """places that a fold's fits may learn from"""
    members: FloatArray
    """logits of the baselines, [target, day, stream, root, member]"""
    simple: FloatArray
    """logits of the simple stack without validation B, [target, day, stream, root]"""
    last_simple: Stack
    """the simple stack that forecasts"""
    outcomes: FloatArray
    """[target, day, stream, root]; NaN where undefined"""
    thresholds: FloatArray
    """of surges, [day, stream, root]"""

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.last_simple.members]


def _data_of(panel: CountPanel, days: FitDays, most_days: int, on_step: OnStep) -> _Data:
    roots, simple = panel.roots, default_stack()
    before = [*days.train, *days.validation_a]
    wanted = [*before, *days.validation_b][-most_days:]
    on_step(f"asking the baselines about {len(wanted)} days")
    found = share(ExampleMaker(simple, roots), wanted, portion=ASKED_AT_ONCE)
    examples = [example for example in found if example is not None]
    if len(examples) < FEWEST_DAYS:
        raise ForecastError(
            f"{len(examples)} days to learn from are too few, at least {FEWEST_DAYS} with "
            "context_days before them are needed: ingest more days, or set split.* otherwise"
        )
    positions = np.array([(example.day - roots.days[0]).days for example in examples])
    folds = _folds(examples, days)
    early = [example for example in examples if example.day <= before[-1]][-SIMPLE_DAYS:]
    late = [example for example in examples if example.day > before[-1]]
    first = simple.fit_examples(early)
    shape = (len(examples), len(roots.streams), len(roots.codes))
    return _Data(
        panel=panel,
        positions=positions,
        folds=folds,
        rests=[outside(positions, fold) for fold in folds],
        members=np.stack([_member_logits(simple, examples, target, shape) for target in TARGETS]),
        simple=np.stack(
            [
                logit(np.stack([first.answer(example, target) for example in examples])).reshape(
                    shape
                )
                for target in TARGETS
            ]
        ),
        last_simple=simple.fit_examples([*early, *late], like=first.coefficients()),
        outcomes=np.stack(
            [np.stack([example.outcomes[target] for example in examples]) for target in TARGETS]
        ),
        thresholds=np.stack(
            [surge_threshold(roots, roots.days[position - 1]) for position in positions]
        ),
    )


def _folds(examples: Sequence[StackExample], days: FitDays) -> list[IntArray]:
    """Halves of the training days, validation A, validation B."""
    train, known = (
        sum(example.day <= day for example in examples)
        for day in (days.train[-1], days.validation_a[-1])
    )
    edges = [0, train // 2, train, known, len(examples)]
    return [np.arange(*edge) for edge in pairwise(edges)]


def outside(positions: IntArray, fold: IntArray) -> IntArray:
    """Places of the days that lie outside a fold and not close to it."""
    first, last = positions[fold[0]], positions[fold[-1]]
    return np.flatnonzero((positions < first - EMBARGO) | (positions > last + EMBARGO))


def _member_logits(
    simple: Stack, examples: Sequence[StackExample], target: str, shape: tuple[int, ...]
) -> FloatArray:
    size = len(simple.members)
    logits = np.stack([example.features[target][:, :size] for example in examples])
    return logits.reshape(*shape, size)


# --- trees, lines and the pool --------------------------------------------------------------------


def _fit_tables(
    data: _Data, folds: Sequence[_FoldIntensity], whole: Intensity, on_step: OnStep
) -> StackFit:
    panel = data.panel
    # The first day of a week is what the intensity itself expects, to the last bit.
    expected = np.concatenate([fold.expected[:, 0] for fold in folds])
    row_weights = row_weight_pool(panel.roots, int(data.positions[-1]) + 1)
    shapes = np.mean([fold.intensity.shapes for fold in folds], axis=0)
    intensity_logits = _intensity_logits(data, expected, shapes, row_weights)
    bases = {}
    base = np.empty_like(data.simple)
    for number, target in enumerate(TARGETS):
        given = np.stack([data.simple[number], intensity_logits[number]], axis=-1)
        bases[target] = _base(given, data.outcomes[number])
        base[number] = base_logits(bases[target], given[..., 0], given[..., 1])
    seasons = len(data.positions) >= SEASON_DAYS
    table = whole_table(
        intensity_table(whole, panel, data.positions, expected, seasons),
        StartLogits(data.members, data.simple, intensity_logits, base),
        data.names,
    )
    learner = _TableLearner(data, table)
    logits = {SIMPLE: data.simple, INTENSITY: intensity_logits}
    logits |= {name: np.full_like(base, np.nan) for name in (TREES, LOGISTIC)}
    on_step("choosing how many trees to grow")
    rounds = at_once([partial(learner.rounds, n, start) for n, start in enumerate(base)])
    on_step("growing trees and fitting regressions")
    everything = np.arange(len(data.positions))
    targets = list(enumerate(TARGETS))
    jobs = [  # the longest first
        partial(
            learner.fit, number, bases[target], base[number], everything,
            rounds=round(rounds[number] * MORE_ROUNDS), most=MOST_CELLS, seeds=SEEDS,
        )
        for number, target in targets
    ]  # fmt: skip
    jobs += [
        partial(
            learner.fit, number, bases[target], base[number], rest,
            rounds=rounds[number], most=FOLD_CELLS,
        )
        for number, target in targets
        for rest in data.rests
    ]  # fmt: skip
    fits = at_once(jobs)
    tables = dict(zip(TARGETS, fits[: len(TARGETS)], strict=True))
    asked = [(number, fold) for number, _ in targets for fold in data.folds]
    of_folds = zip(asked, fits[len(TARGETS) :], strict=True)
    said = at_once(
        [partial(learner.answers, fit, base[number], fold) for (number, fold), fit in of_folds]
    )
    for (number, fold), (by_trees, by_lines) in zip(asked, said, strict=True):
        logits[TREES][number, fold], logits[LOGISTIC][number, fold] = by_trees, by_lines
    given = np.stack([logits[name] for name in POOLED], axis=-1)
    pool = {target: _pool(given[n], data.outcomes[n]) for n, target in enumerate(TARGETS)}
    first = panel.roots.days[0].toordinal()
    pooled = pooled_logits(pool, given)
    levels = levels_in_order(pooled, data.outcomes, data.positions + first)
    logits[STACK] = pooled + levels[..., None, None]
    logits[BASE] = base
    kept = {name: values.astype(np.float32) for name, values in logits.items()}
    of_day = np.repeat(np.arange(len(data.folds)), [len(fold) for fold in data.folds])
    return StackFit(
        simple=replace(data.last_simple, name=SIMPLE),
        intensity=whole,
        row_weights=row_weights,
        tables=tables,
        pool=pool,
        seasons=seasons,
        out_of_fold=OutOfFold(data.positions + first, of_day, expected.astype(np.float32), kept),
    )


def _intensity_logits(
    data: _Data, expected: FloatArray, shapes: FloatArray, row_weights: FloatArray
) -> FloatArray:
    """[target, day, stream, root]"""
    chances = target_chances(
        expected,
        shapes,
        row_weights,
        data.thresholds,
        ordinals=data.positions + data.panel.roots.days[0].toordinal(),
        samples=SAMPLES,
        seed=SEED,
    )
    return np.stack([logit(chances[target]) for target in TARGETS])


def _base(given: FloatArray, outcome: FloatArray) -> LinearModel:
    """Regression over the logits of simple stack and intensity, from the mean of both."""
    matrix, known = _known(given, outcome)
    return regress_around(matrix, known, LinearModel(np.array([0.5, 0.5]), 0.0), ridge=1.0)


def _pool(given: FloatArray, outcome: FloatArray) -> LinearModel:
    """Weights of the members' logits and a level, held to the mean of trees and lines:

    log loss + POOL_RIDGE / 2 |weights - start|^2 + LEVEL_RIDGE / 2 level^2.
    """
    start = np.array([POOL_START[name] for name in POOLED])
    matrix, known = _known(given, outcome)
    if len(np.unique(known)) < 2:
        return LinearModel(start, 0.0)
    design = np.column_stack([matrix, np.ones(len(matrix))])
    pull = np.append(np.full(len(start), POOL_RIDGE), LEVEL_RIDGE)
    offset = matrix @ start
    change = minimise_log_loss(lambda: [(design, known, offset)], pull, np.zeros(len(pull)))
    return LinearModel(start + change[:-1], float(change[-1]))


def _known(given: FloatArray, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of logits and their outcomes, where all are defined."""
    matrix, flat = given.reshape(-1, given.shape[-1]), outcome.ravel()
    known = ~(np.isnan(matrix).any(axis=1) | np.isnan(flat))
    return matrix[known], flat[known]


class _TableLearner:
    """Fits trees and lines on days of one table."""

    def __init__(self, data: _Data, table: CellTable) -> None:
        self.data, self.table = data, table
        self.cells = int(np.prod(table.values.shape[1:3]))
        self.root = np.tile(
            np.arange(table.values.shape[2]), len(table.rows) // table.values.shape[2]
        )
        self.grower = TreeGrower(table.rows, table.names, CATEGORIES)

    def rounds(self, target: int, start: FloatArray) -> int:
        """How many rounds of trees, grown on training days, are best on the validation days."""
        *train, validation_a, validation_b = self.data.folds
        grow = self._rows(target, start, np.concatenate(train), most=FOLD_CELLS)
        stop = self._rows(
            target, start, np.concatenate([validation_a, validation_b]), most=FOLD_CELLS
        )
        return self.grower.rounds(grow, stop, self._outcome(target), start.ravel())

    def fit(
        self,
        target: int,
        base: LinearModel,
        start: FloatArray,
        days: IntArray,
        *,
        rounds: int,
        most: int,
        seeds: int = 1,
    ) -> TableFit:
        """Trees and lines of a target, from the base logits, on some of the days."""
        rows = self._rows(target, start, days, most=most)
        outcome = self._outcome(target)
        trees = self.grower.grow(rows, outcome, start.ravel(), rounds=rounds, seeds=seeds)
        numbers = np.array(line_columns(self.table))
        shown = self.table.rows[np.ix_(np.flatnonzero(rows), numbers)]
        lines = fit_root_lines(
            np.nan_to_num(shown, copy=False), outcome[rows], start.ravel()[rows], self.root[rows],
            roots=self.table.values.shape[2],
        )  # fmt: skip
        return TableFit(base, trees, lines)

    def answers(self, fit: TableFit, start: FloatArray, days: IntArray) -> list[FloatArray]:
        """Logits of trees and of lines for some of the days, [day, stream, root]."""
        part = CellTable(self.table.names, self.table.values[days])
        return [table_logits(name, fit, part, start[days]) for name in (TREES, LOGISTIC)]

    def _outcome(self, target: int) -> FloatArray:
        outcome: FloatArray = self.data.outcomes[target].ravel()
        return outcome

    def _rows(self, target: int, start: FloatArray, days: IntArray, *, most: int) -> BoolArray:
        """Rows of the table that teach: cells of some days that are known and not sure; of too many
        some, drawn evenly."""
        of_day = np.zeros(len(start), np.bool_)
        of_day[days] = True
        chance = expit(start)
        open_cells = (chance > SURE) & (chance < 1 - SURE)  # not-a-number is neither
        known = open_cells & ~np.isnan(self.data.outcomes[target])
        rows: BoolArray = (known & of_day[:, None, None]).ravel()
        places = np.flatnonzero(rows)
        if len(places) > most:
            left_out = np.random.default_rng(SEED).permutation(places)[most:]
            rows[left_out] = False
        return rows
