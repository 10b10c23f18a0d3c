"""Mixing: how much each component of a mixture counts, fitted by expectation maximisation.

A mixture's shares are fitted apart for buckets of cells, by how much recent past a cell has, as in
the bucketed smoothing of language models (Jelinek and Mercer 1980). The fit over all buckets
is the prior of each, so that a bucket with few cells does not run wild. Not chosen: a gradient
method; every step here is a proper set of shares and never makes the fit worse.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.forecast.argument_recency import ArgumentOutcomes

EDGES: Final = (0.01, 3.0, 30.0, 300.0)
"""Buckets of a cell's evidence: the weight of its past, halved every 90 days."""
PRIOR_CELLS = 50.0  # what the fit over all buckets counts for in each of them
ITERATIONS = 200
SMALLEST = 1e-300  # in place of 0, where no component that is allowed foresaw the outcome
TOLERANCE = 1e-7  # gain of the mean log score at which the fit stops


class MixtureFit(NamedTuple):
    """The end of an expectation maximisation."""

    shares: FloatArray
    """[component]"""
    objective: tuple[float, ...]
    """log likelihood and log prior together, before each step and at the end: it never falls"""
    converged: bool


def fit_mixture(
    probabilities: FloatArray, weight: FloatArray, prior: FloatArray, iterations: int = ITERATIONS
) -> MixtureFit:
    """The shares s of components that maximise

        sum_i w_i ln(sum_c s_c p_ic) + sum_c a_c ln s_c,

    where p_ic are the `probabilities` [outcome, component] that components gave to what came, w_i
    the weights of outcomes and a_c the `prior` counts (all above 0, so that no component dies out
    because it was not needed once). Each iteration is

        E   r_ic = s_c p_ic / sum_d s_d p_id        how much of outcome i is due to component c
        M   s_c proportional to a_c + sum_i w_i r_ic.
    """
    shares = prior / prior.sum()
    objective: list[float] = []
    scale = max(float(weight.sum()), 1.0)
    for _ in range(iterations):
        joint = probabilities * shares
        total = np.maximum(joint.sum(axis=1), SMALLEST)
        objective.append(float(weight @ np.log(total) + prior @ np.log(shares)))
        if len(objective) > 1 and objective[-1] - objective[-2] < TOLERANCE * scale:
            return MixtureFit(shares, tuple(objective), True)
        shares = (weight / total) @ joint + prior  # E and M in one product
        shares /= shares.sum()
    return MixtureFit(shares, tuple(objective), False)


def evidence_bucket(evidence: FloatArray) -> IntArray:
    """The bucket of each cell, [cell]."""
    return np.digitize(evidence, EDGES)


def fit_shares(
    outcomes: Sequence[ArgumentOutcomes],
    names: Sequence[str],
    allowed: Sequence[str] | None = None,
) -> FloatArray:
    """The mixture of a level and kind, [bucket, component]; components not allowed have none."""
    columns = [at for at, name in enumerate(names) if allowed is None or name in allowed]
    table = np.zeros((len(EDGES) + 1, len(names)))
    prior = np.full(len(columns), 1 / len(columns))
    if not outcomes:
        table[:, columns] = prior
        return table
    probabilities = np.concatenate([day.components[:, columns] for day in outcomes])
    weight = np.concatenate([day.share for day in outcomes])
    buckets = evidence_bucket(np.concatenate([day.evidence for day in outcomes]))
    pooled = PRIOR_CELLS * fit_mixture(probabilities, weight, prior).shares
    for bucket in range(len(table)):
        own = buckets == bucket
        table[bucket, columns] = fit_mixture(probabilities[own], weight[own], pooled).shares
    return table
