"""Logistic regression that stays where it began unless the data say otherwise.

The pull is not to zero, as usual, but to given coefficients: a combination of forecasters is thus
the stack that is known to be good, plus what new members can be shown to add. With few data it is
that stack, with many it is free. Solved by Newton's method, which needs a handful of steps for a
score of features where gradients need hundreds; scikit-learn's has no such starting point.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import FloatArray

MOST_STEPS: Final = 50
TOLERANCE: Final = 1e-12  # of the fall of the mean loss that a step promises
HALVINGS: Final = 30


Parts = Callable[[], Iterable[tuple[FloatArray, FloatArray, FloatArray]]]
"""gives the rows of a regression in parts: design [row, column], outcome [row], offset [row]"""


class LinearModel(NamedTuple):
    """Coefficients of the features, in their own units, and what is added to them."""

    values: FloatArray
    intercept: float

    def logits(self, matrix: FloatArray) -> FloatArray:
        """The logit of each row of features, [row]."""
        logits: FloatArray = matrix @ self.values + self.intercept
        return logits


def regress_around(
    matrix: FloatArray,
    outcome: FloatArray,
    start: LinearModel,
    *,
    ridge: float,
    level_ridge: float = 0.0,
    guess: LinearModel | None = None,
) -> LinearModel:
    """The linear model that minimises log loss + ridge / 2 * |change|^2, where the change from the
    start is measured in standardised features. The level, what is added to the logit of a mean row,
    is free unless it has a ridge of its own.

    Outcomes that are all the same teach nothing: the start is returned. A guess near the answer
    saves steps, and changes nothing else.
    """
    if len(np.unique(outcome)) < 2:
        return start
    # In standardised features z = (x - mean) / deviation the model is
    #     start(x) + d . z + d_0 = (start.values + d / deviation) . x + ...,
    # so the change of a coefficient in its own units is d / deviation, and that of the intercept
    # d_0 - (d / deviation) . mean. The guess is taken the same way back.
    mean, deviation = matrix.mean(axis=0), matrix.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    design = np.column_stack([(matrix - mean) / deviation, np.ones(len(matrix))])
    pull = np.append(np.full(matrix.shape[1], ridge), level_ridge)
    change = np.zeros(design.shape[1])
    if guess is not None:
        apart = guess.values - start.values
        change = np.append(apart * deviation, guess.intercept - start.intercept + apart @ mean)
    offset = start.logits(matrix)
    change = minimise_log_loss(lambda: [(design, outcome, offset)], pull, change)
    moved = change[:-1] / deviation
    return LinearModel(start.values + moved, float(start.intercept + change[-1] - moved @ mean))


def minimise_log_loss(
    parts: Parts, pull: FloatArray, change: FloatArray, *, tolerance: float = TOLERANCE
) -> FloatArray:
    """The minimum d of the convex loss

        L(d) = sum_i [ln(1 + exp(l_i)) - y_i l_i] + sum_j pull_j d_j^2 / 2,      l = offset + Z d,

    with gradient Z'(p - y) + pull d and Hessian Z' diag(p (1 - p)) Z + diag(pull), p = expit(l),
    by Newton's method from a first guess, until a step promises less than the tolerance for the
    mean loss. A step that does not lower the loss is halved. Rows come in parts, made anew for
    every pass, so that a large table need not be held in memory.
    """
    loss = _loss(parts, pull, change)
    for _ in range(MOST_STEPS):
        gradient, hessian, rows = pull * change, np.diag(pull), 0
        for design, outcome, offset in parts():
            probability = 0.5 * (1 + np.tanh(0.5 * (offset + design @ change)))
            gradient = gradient + design.T @ (probability - outcome)
            scaled = design * np.sqrt(probability * (1 - probability))[:, None]
            hessian = hessian + scaled.T @ scaled  # a product with itself takes half the time
            rows += len(outcome)
        # Least squares: without a pull, features that depend on each other make it singular.
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        if gradient @ step < tolerance * rows:
            break
        for _ in range(HALVINGS):
            lower = _loss(parts, pull, change - step)
            if lower < loss:
                break
            step = step / 2
        change, loss = change - step, lower
    return change


def _loss(parts: Parts, pull: FloatArray, change: FloatArray) -> float:
    total = 0.0
    for design, outcome, offset in parts():
        logits = offset + design @ change
        total += float((np.logaddexp(0.0, logits) - outcome * logits).sum())
    return total + float(pull @ change**2 / 2)
