"""Logistic regression that stays where it began unless the data say otherwise.

The pull is not to zero, as usual, but to given coefficients: a combination of forecasters is thus
the stack that is known to be good, plus what new members can be shown to add. With few data it is
that stack, with many it is free. Solved by Newton's method, which needs a handful of steps for a
score of features where gradients need hundreds; scikit-learn's has no such starting point.
"""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import FloatArray

MOST_STEPS: Final = 50
TOLERANCE: Final = 1e-12  # of the fall of the mean loss that a step promises
HALVINGS: Final = 30


class LinearModel(NamedTuple):
    """Coefficients of the features, in their own units, and what is added to them."""

    values: FloatArray
    intercept: float

    def logits(self, matrix: FloatArray) -> FloatArray:
        found: FloatArray = matrix @ self.values + self.intercept
        return found


def regress_around(
    matrix: FloatArray,
    answer: FloatArray,
    start: LinearModel,
    *,
    ridge: float,
    guess: LinearModel | None = None,
) -> LinearModel:
    """The line that minimises log loss + ridge / 2 * |change|^2, features standardised.

    The intercept is free. Answers that are all the same teach nothing: the start stays. A guess
    near the line saves steps, and changes nothing else.
    """
    if len(np.unique(answer)) < 2:
        return start
    mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    design = np.column_stack([(matrix - mean) / spread, np.ones(len(matrix))])
    pull = np.append(np.full(matrix.shape[1], ridge), 0.0)
    begin = np.zeros(design.shape[1])
    if guess is not None:
        apart = guess.values - start.values
        begin = np.append(apart * spread, guess.intercept - start.intercept + apart @ mean)
    change = _newton(design, answer, start.logits(matrix), pull, begin)
    moved = change[:-1] / spread
    return LinearModel(start.values + moved, float(start.intercept + change[-1] - moved @ mean))


def _newton(
    design: FloatArray, answer: FloatArray, offset: FloatArray, pull: FloatArray, change: FloatArray
) -> FloatArray:
    """Steps to the minimum of a convex loss; one that does not lower it is halved."""
    loss = _loss(design, answer, offset, pull, change)
    for _ in range(MOST_STEPS):
        said = 0.5 * (1 + np.tanh(0.5 * (offset + design @ change)))
        gradient = design.T @ (said - answer) + pull * change
        scaled = design * np.sqrt(said * (1 - said))[:, None]
        curvature = scaled.T @ scaled + np.diag(pull)  # a product with itself takes half the time
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        if gradient @ step < TOLERANCE * len(answer):
            break
        for _ in range(HALVINGS):
            lower = _loss(design, answer, offset, pull, change - step)
            if lower < loss:
                break
            step = step / 2
        change, loss = change - step, lower
    return change


def _loss(
    design: FloatArray, answer: FloatArray, offset: FloatArray, pull: FloatArray, change: FloatArray
) -> float:
    logits = offset + design @ change
    return float((np.logaddexp(0.0, logits) - answer * logits).sum() + pull @ change**2 / 2)
