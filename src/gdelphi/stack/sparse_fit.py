"""The sparse negative binomial fit: few coefficients, none negative, for all roots at once.

Rows y of each root have the negative binomial law with mean mu and shape k:

    mu = scale * (X theta),      variance mu + mu^2 / k,

and theta >= 0 minimises their log loss plus the sum of penalty * theta. The loss of one cell, less
what does not depend on theta, its slope and its information (expected curvature), by x = X theta:

    loss(x)  = (y + k) ln(1 + mu / k) - y ln mu
    slope(x) = scale (mu - y) k / (mu (k + mu))
    info(x)  = scale^2 k / (mu (k + mu))

At the minimum the gradient X' slope is -penalty where theta > 0 and at least that where theta = 0.
A penalty is given in standard errors of the gradient, so that one number suits all columns, roots
and data sets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from torch import Tensor

from gdelphi.common.types import FloatArray

LEAST_MULTIPLE: Final = 1e-6  # of the scale: no mean is smaller
TOLERANCE: Final = 2e-6  # relative fall of a root's loss in a step that counts as standing still
CALM_STEPS: Final = 3  # so many in a row end the fit
FEWEST_STEPS: Final = 20
FIRST_STEP: Final = 0.3  # in units of 1 / information
HALVINGS: Final = 12  # attempts at a smaller step
SHORTEN, LENGTHEN = 0.6, 1.02  # a step that went too far; the next one otherwise
SET_ASIDE: Final = (15, 60, 150)  # steps before which columns without use are set aside
NEARLY: Final = 0.7  # of the penalty: a gradient beyond may still bring its column in
CELLS_AT_ONCE: Final = 8192  # bounds the memory of squares

SHAPE_PASSES: Final = 2  # over roots and streams in turn
ROOT_LOG_SHAPE: Final = (1.0, 1.5)  # mean and deviation of the prior of a root's log shape
STREAM_LOG_SHAPE: Final = (0.0, 0.7)  # likewise of what a stream adds to it
ROOT_BOUNDS: Final = (-3.0, 6.0)
STREAM_BOUNDS: Final = (-4.0, 4.0)
SHAPE_ACCURACY: Final = 0.03


@dataclass(frozen=True, eq=False)
class Cells:
    """What is fitted: counts of rows with their scale and shape, all [cell, root]."""

    counts: Tensor
    scale: Tensor
    shapes: Tensor

    def means(self, multiples: Tensor) -> Tensor:
        """mu, from X theta."""
        return self.scale * multiples.clamp_min(LEAST_MULTIPLE)

    def loss(self, multiples: Tensor) -> Tensor:
        """Of each root, [root]; added up in double precision, since steps are judged by small
        differences of it."""
        mu = self.means(multiples)
        each = (self.counts + self.shapes) * torch.log1p(mu / self.shapes)
        return (each - self.counts * torch.log(mu)).sum(0, dtype=torch.float64)

    def slope(self, multiples: Tensor) -> Tensor:
        """Of each cell."""
        mu, k = self.means(multiples), self.shapes
        return self.scale * ((mu - self.counts) * k / (mu * (k + mu)))

    def information(self, multiples: Tensor) -> Tensor:
        """Of each cell."""
        mu, k = self.means(multiples), self.shapes
        return self.scale * self.scale * k / (mu * (k + mu))


def penalties(matrix: Tensor, information: Tensor, errors: Tensor) -> Tensor:
    """Penalties [column, root] that are so many standard errors [column] of the gradient.

    The variance of the gradient of a column is the information in it that a constant has not:
    sum_i w_i x_i^2 - (sum_i w_i x_i)^2 / sum_i w_i.
    """
    shared = (matrix.T @ information) ** 2 / information.sum(0)
    variance = (_squares(matrix, information) - shared).clamp_min(1e-8)
    return errors[:, None] * variance.sqrt()


def fit_nb(
    matrix: Tensor,
    cells: Cells,
    start: Tensor,
    penalty: Tensor,
    *,
    steps: int,
    tolerance: float = TOLERANCE,
) -> Tensor:
    """The coefficients [column, root] of a matrix [cell, column], from a start [column, root].

    Accelerated proximal gradient in coordinates scaled by each column's information, with a step
    size for each root that backtracking cuts; momentum begins anew where it does not help. Columns
    that no root uses and no gradient asks for are set aside now and then.
    """
    multiples = matrix @ start
    scale = 1 / _squares(matrix, cells.information(multiples)).clamp_min(1e-6)
    kept = torch.arange(len(start))
    theta, ahead, multiples_ahead = start, start, multiples
    momentum = torch.ones_like(start[0])
    step = torch.full_like(momentum, FIRST_STEP)
    value = cells.loss(multiples) + (penalty * theta).sum(0)
    calm = 0
    for number in range(steps):
        smooth = cells.loss(multiples_ahead)
        gradient = matrix.T @ cells.slope(multiples_ahead)
        if number in SET_ASIDE:
            used = (theta > 0) | (ahead > 0) | (gradient < -penalty * NEARLY)
            wanted = used.any(1)
            matrix = matrix[:, wanted].contiguous()
            kept, penalty, scale = kept[wanted], penalty[wanted], scale[wanted]
            theta, ahead, gradient = theta[wanted], ahead[wanted], gradient[wanted]
        # A step is short enough where the loss is below its quadratic bound at the new point.
        for _ in range(HALVINGS):
            new = (ahead - step * scale * (gradient + penalty)).clamp_min(0)
            move = new - ahead
            multiples_new = matrix @ new
            smooth_new = cells.loss(multiples_new)
            bound = smooth + (gradient * move).sum(0) + (move * move / scale).sum(0) / (2 * step)
            too_far = smooth_new > bound + 1e-7 * smooth.abs()
            if not too_far.any():
                break
            step = torch.where(too_far, step * SHORTEN, step)
        value_new = smooth_new + (penalty * new).sum(0)
        fall = ((value - value_new) / value.abs().clamp_min(1)).abs()
        worse = value_new > value
        grown = (1 + (1 + 4 * momentum**2).sqrt()) / 2
        push = torch.where(worse, 0.0, (momentum - 1) / grown)
        momentum = torch.where(worse, 1.0, grown)
        # The product with an extrapolated point is the same sum of known products.
        ahead = torch.where(worse, theta, new + push * (new - theta))
        further = multiples_new + push * (multiples_new - multiples)
        multiples_ahead = torch.where(worse, multiples, further)
        theta = torch.where(worse, theta, new)
        multiples = torch.where(worse, multiples, multiples_new)
        value = torch.where(worse, value, value_new)
        step = step * LENGTHEN
        calm = calm + 1 if bool((fall < tolerance).all()) else 0
        if number > FEWEST_STEPS and calm >= CALM_STEPS:
            break
    full = torch.zeros_like(start)
    full[kept] = theta
    return full


def _squares(matrix: Tensor, weights: Tensor) -> Tensor:
    """(X * X)' w without a second matrix in memory, [column, root]."""
    parts: Iterator[tuple[Tensor, Tensor]] = zip(
        matrix.split(CELLS_AT_ONCE), weights.split(CELLS_AT_ONCE), strict=True
    )
    total = torch.zeros(matrix.shape[1], weights.shape[1], dtype=matrix.dtype)
    for part, weight in parts:
        total += (part * part).T @ weight
    return total


# --- shapes ---------------------------------------------------------------------------------------


def fit_shapes(counts: FloatArray, means: FloatArray) -> FloatArray:
    """NB shapes [stream, root] of counts with given means, both [day, stream, root].

    A shape is the root's times the stream's. Their logs have normal priors, which hold streams to 1
    where there is little to tell them apart; they are found by turns.
    """
    _, streams, roots = counts.shape
    of_root, of_stream = np.zeros(roots), np.zeros(streams)
    for _ in range(SHAPE_PASSES):
        for root in range(roots):
            y, mu = counts[:, :, root], means[:, :, root]
            of_root[root] = _best_shift(y, mu, of_stream, ROOT_LOG_SHAPE, ROOT_BOUNDS)
        for stream in range(streams):
            y, mu = counts[:, stream], means[:, stream]
            of_stream[stream] = _best_shift(y, mu, of_root, STREAM_LOG_SHAPE, STREAM_BOUNDS)
    shapes: FloatArray = np.exp(of_stream[:, None] + of_root)
    return shapes


def _best_shift(
    counts: FloatArray,
    means: FloatArray,
    others: FloatArray,
    prior: tuple[float, float],
    bounds: tuple[float, float],
) -> float:
    """The most probable v where the log shape of column j of [day, j] is v + others_j."""
    mean, deviation = prior
    loss: Callable[[float], float] = lambda v: (  # noqa: E731 - what is minimised
        _shape_loss(counts, means, np.exp(v + others)) + ((v - mean) / deviation) ** 2 / 2
    )
    found = minimize_scalar(
        loss, bounds=bounds, method="bounded", options={"xatol": SHAPE_ACCURACY}
    )
    return float(found.x)


def _shape_loss(counts: FloatArray, means: FloatArray, shapes: FloatArray) -> float:
    """Minus the NB log likelihood, less what does not depend on the shape."""
    likelihood = (
        gammaln(counts + shapes)
        - gammaln(shapes)
        - shapes * np.log1p(means / shapes)
        + counts * np.log(means / (shapes + means))
    )
    return -float(likelihood.sum())
