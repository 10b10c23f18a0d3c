"""Weights of futures that agree with what is published.

A hundred drawn days give their own probabilities; what is published is a combination of many
members. The futures are therefore weighed anew, as little as possible: among all weights w that
give the published probability of each event, those nearest to the prior in Kullback-Leibler
divergence,

    w_k  proportional to  prior_k exp(lambda . x_k),      sum_k w_k x_k = p,

with x_k = 1 where the event happens in future k. lambda minimises a smooth convex function, the
dual of this problem, here by Newton's method. Some probabilities cannot be met (an event that
happens in no future, or in all): a mild ridge on lambda keeps the rest in order, and `met` says
which were.
"""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import BoolArray, FloatArray

RIDGE: Final = 1e-4
TOLERANCE: Final = 5e-3  # a probability that is met to this is called met
STEPS: Final = 100
SMALL: Final = 1e-10
ROUNDING: Final = 1e-15  # a fall of F that is promised to be smaller cannot be seen
ARMIJO: Final = 1e-4  # share of the promised fall that a step must bring


class Reweighted(NamedTuple):
    """Weights, and how well they do."""

    weights: FloatArray
    """[future], summing to 1"""
    probabilities: FloatArray
    """of each event under them, [event]"""
    met: BoolArray
    """[event], whether that is the wanted probability"""
    effective: float
    """number of equally weighted futures that say as much: 1 / sum w^2"""


def reweight(
    happens: BoolArray | FloatArray,
    wanted: FloatArray,
    prior: FloatArray,
    *,
    ridge: float = RIDGE,
) -> Reweighted:
    """Weights of futures [future] under which events [future, event] have the wanted probabilities
    [event]; not-a-number asks for nothing. A future may give an event a probability in place of
    yes or no. A larger ridge meets them less exactly, and stays nearer to the prior."""
    if happens.shape != (len(prior), len(wanted)):
        raise ForecastError(
            f"events of shape {happens.shape} for {len(prior)} futures and {len(wanted)} "
            "probabilities"
        )
    kept = prior > 0
    if not kept.any():
        raise ForecastError("no future has a prior weight above 0: there is nothing to weigh")
    values = happens[kept].astype(np.float64)
    # An event that all futures have, or none, has the same probability under all weights.
    varies = ~np.isnan(wanted) & (values.min(axis=0) < values.max(axis=0))
    log_prior = np.log(prior[kept] / prior[kept].sum())
    weights = np.zeros(len(prior))
    weights[kept] = _solve(values[:, varies] - wanted[varies], log_prior, ridge)
    probabilities: FloatArray = weights @ happens
    met = np.abs(probabilities - wanted) <= TOLERANCE
    return Reweighted(weights, probabilities, met, float(1 / (weights**2).sum()))


def _solve(centred: FloatArray, log_prior: FloatArray, ridge: float) -> FloatArray:
    """The weights w at the minimum over lambda of the dual

        F(lambda) = ln sum_k prior_k exp(lambda . c_k) + ridge / 2 |lambda|^2,

    with `centred` c_k = x_k - p, [future, event]. Its gradient is the mean of c under w, plus
    ridge lambda: where it is 0, the events have the wanted probabilities but for the ridge. Its
    Hessian is the covariance of c under w, plus the ridge.
    """
    multiplier = np.zeros(centred.shape[1])
    value, weights = _dual(multiplier, centred, log_prior, ridge)
    for _ in range(STEPS):
        # 1. Gradient and Newton step.
        mean = weights @ centred
        gradient = mean + ridge * multiplier
        if np.abs(gradient).max(initial=0.0) < SMALL:
            break
        covariance = (centred * weights[:, None]).T @ centred - np.outer(mean, mean)
        step = np.linalg.solve(covariance + ridge * np.eye(len(gradient)), gradient)
        if gradient @ step <= ROUNDING:  # so near that the step is the last, and needs no proof
            weights = _dual(multiplier - step, centred, log_prior, ridge)[1]
            break
        # 2. Halve the step until F falls by a part of what its slope promises.
        size = 1.0
        while True:
            new_value, new_weights = _dual(multiplier - size * step, centred, log_prior, ridge)
            if new_value <= value - ARMIJO * size * (gradient @ step) or size < SMALL:
                break
            size /= 2
        if size < SMALL:
            break
        multiplier, value, weights = multiplier - size * step, new_value, new_weights
    return weights


def _dual(
    multiplier: FloatArray, centred: FloatArray, log_prior: FloatArray, ridge: float
) -> tuple[float, FloatArray]:
    """F(lambda), and the weights of futures at lambda; the largest logit is taken out first, so
    that nothing overflows."""
    logits = log_prior + centred @ multiplier
    top = logits.max()
    masses = np.exp(logits - top)
    total = masses.sum()
    value = float(top + np.log(total) + ridge / 2 * multiplier @ multiplier)
    return value, masses / total
