"""Weights of futures that agree with what is published.

A hundred drawn days say their own probabilities; what is published is a combination of many
members. The futures are therefore weighed anew, as little as possible: among all weights w that
give the published probability of each event, those nearest to the prior in Kullback-Leibler
divergence,

    w_k  proportional to  prior_k exp(lambda . x_k),      sum_k w_k x_k = p,

with x_k = 1 where the event happens in future k. lambda minimises a smooth convex function, here by
Newton's method. Some probabilities cannot be met (an event that happens in no future, or in all):
a mild ridge on lambda keeps the rest in order, and `met` says which were.
"""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import BoolArray, FloatArray

RIDGE: Final = 1e-4
TOLERANCE: Final = 5e-3  # a probability that is met to this is called met
STEPS: Final = 100
SMALL: Final = 1e-10


class Reweighted(NamedTuple):
    """Weights, and how well they do."""

    weights: FloatArray
    """[future], summing to 1"""
    found: FloatArray
    """probability of each event under them, [event]"""
    met: BoolArray
    """[event]"""
    effective: float
    """number of equally weighted futures that say as much: 1 / sum w^2"""


def reweight(happens: BoolArray, wanted: FloatArray, prior: FloatArray) -> Reweighted:
    """Weigh futures [future] so that events [future, event] have the wanted probabilities [event];
    not-a-number asks for nothing."""
    if happens.shape != (len(prior), len(wanted)):
        raise ForecastError(
            f"events of shape {happens.shape} for {len(prior)} futures and {len(wanted)} "
            "probabilities"
        )
    kept = prior > 0
    if not kept.any():
        raise ForecastError("no future has a prior weight above 0: there is nothing to weigh")
    values = happens[kept].astype(np.float64)
    asked = ~np.isnan(wanted) & (values.min(axis=0) < values.max(axis=0))
    log_prior = np.log(prior[kept] / prior[kept].sum())
    solved = _solve(values[:, asked] - wanted[asked], log_prior)
    weights = np.zeros(len(prior))
    weights[kept] = solved
    found: FloatArray = weights @ happens
    met = np.abs(found - wanted) <= TOLERANCE
    return Reweighted(weights, found, met, float(1 / (weights**2).sum()))


def _solve(centred: FloatArray, log_prior: FloatArray) -> FloatArray:
    """Newton on ln sum prior exp(lambda . x) + ridge / 2 |lambda|^2, with x around the wanted."""
    multiplier = np.zeros(centred.shape[1])
    value, weights = _value(multiplier, centred, log_prior)
    for _ in range(STEPS):
        slope = weights @ centred + RIDGE * multiplier
        if np.abs(slope).max(initial=0.0) < SMALL:
            break
        mean = weights @ centred
        curve = (centred * weights[:, None]).T @ centred - np.outer(mean, mean)
        step = np.linalg.solve(curve + RIDGE * np.eye(len(slope)), slope)
        size = 1.0
        while True:
            tried, new = _value(multiplier - size * step, centred, log_prior)
            if tried <= value - 1e-4 * size * (slope @ step) or size < SMALL:
                break
            size /= 2
        if size < SMALL:
            break
        multiplier, value, weights = multiplier - size * step, tried, new
    return weights


def _value(
    multiplier: FloatArray, centred: FloatArray, log_prior: FloatArray
) -> tuple[float, FloatArray]:
    logits = log_prior + centred @ multiplier
    top = logits.max()
    masses = np.exp(logits - top)
    total = masses.sum()
    value = float(top + np.log(total) + RIDGE / 2 * multiplier @ multiplier)
    return value, masses / total
