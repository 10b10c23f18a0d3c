"""How much there is to know: boosted trees that are shown the days *after* the day in question.

No forecaster can see them. What such a one gains on the simple stack is an estimate of the most
that a forecaster could: in a simulated world, where the oracle is known, it comes to nine tenths
and more of the oracle's gain. Trained around the stack's answers out of fold on the days that the
stack was fitted on, with fixed settings, and judged on days that nothing was fitted on.
"""

from collections.abc import Sequence
from datetime import date, timedelta

import lightgbm
import numpy as np

from gdelphi.common.types import TARGETS, BoolArray, FloatArray
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import outcomes
from gdelphi.stack.fitted import STACK, CountForecasters
from gdelphi.stack.linear import expit, logit

AFTER = 7  # days after the day in question, one by one
WINDOWS = ((1, 7), (1, 28), (-7, -1), (-28, -1))
BEFORE = 3
ROUNDS = 150
TREES = {
    "objective": "binary", "learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 200,
    "lambda_l2": 5.0, "verbosity": -1, "seed": 0, "deterministic": True,
}  # fmt: skip


def came_on(roots: Profiles, days: Sequence[date]) -> FloatArray:
    """Outcomes, [target, day, stream, root]."""
    found = [outcomes(roots, day - timedelta(days=1)) for day in days]
    return np.stack([[one[target] for one in found] for target in TARGETS])


class Surroundings:
    """What stands around a day: rows of each root on the days before and after."""

    def __init__(self, roots: Profiles) -> None:
        self.days = {day: at for at, day in enumerate(roots.days)}
        self.counts = np.where(roots.present[None, :, None], roots.counts, np.nan)
        self.next, self.week = self._mean(1, 1), self._mean(1, 7)

    def _mean(self, first: int, last: int) -> FloatArray:
        """Mean rows of the days from `first` to `last` after each day, those that are known."""
        total = np.zeros_like(self.counts)
        known = np.zeros_like(self.counts)
        length = self.counts.shape[1]
        for shift in range(first, last + 1):
            here = slice(max(-shift, 0), length - max(shift, 0))
            there = slice(max(shift, 0), length - max(-shift, 0))
            part = self.counts[:, there]
            total[:, here] += np.nan_to_num(part)
            known[:, here] += ~np.isnan(part)
        return total / np.where(known, known, np.nan)

    def table(self, days: Sequence[date]) -> FloatArray:
        """[day, stream, root, column]; the last two columns are root and stream."""
        at = [self.days[day] for day in days]
        shape = self.counts[:, at].shape
        streams, _, roots = shape
        single = [(day, day) for day in (*range(1, AFTER + 1), *range(-BEFORE, 0))]
        own = [self._mean(*window)[:, at] for window in (*single, *WINDOWS)]
        volumes = [one.sum(axis=2, keepdims=True) for one in own]
        others = [one[:, at][:, :, [root]] for one in (self.next, self.week)
                  for root in range(roots)]  # fmt: skip
        world = self.next[:, at].sum(axis=0, keepdims=True)
        columns = (*own, *volumes, *others, world)
        rows = [np.log1p(np.broadcast_to(one, shape).astype(np.float32)) for one in columns]
        numbers = (np.arange(roots)[None, None], np.arange(streams)[:, None, None])
        rows += [np.broadcast_to(number, shape).astype(np.float32) for number in numbers]
        return np.moveaxis(np.stack(rows, axis=-1), 0, 1)


def hindsight(counts: CountForecasters, said: FloatArray, days: Sequence[date]) -> FloatArray:
    """Probabilities of one who sees the days after, [target, day, stream, root].

    `said` is what the stack says of the days.
    """
    roots, fit = counts.panel.roots, counts.fit.out_of_fold
    fitted = [date.fromordinal(int(day)) for day in fit.days]
    around = Surroundings(roots)
    shown, asked = around.table(fitted), around.table(days)
    categories = [shown.shape[-1] - 2, shown.shape[-1] - 1]
    found = np.full(said.shape, np.nan)
    for target, came in enumerate(came_on(roots, fitted)):
        start = fit.logits[STACK][target]
        known: BoolArray = ~np.isnan(came + start)
        data = lightgbm.Dataset(
            shown[known],
            label=came[known],
            init_score=start[known],
            categorical_feature=categories,
        )
        trees = lightgbm.train(TREES, data, ROUNDS)
        told: BoolArray = ~np.isnan(said[target])
        moved = np.asarray(trees.predict(asked[told], raw_score=True))
        found[target][told] = expit(logit(said[target][told]) + moved)
    return found
