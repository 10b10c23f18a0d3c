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
from gdelphi.forecast.argument_recency import Outcomes

EDGES: Final = (0.01, 3.0, 30.0, 300.0)
"""Buckets of a cell's evidence: the weight of its past, halved every 90 days."""
PRIOR_CELLS = 50.0  # what the fit over all buckets counts for in each of them
ITERATIONS = 200
SMALLEST = 1e-300  # in place of 0, where no component that is allowed foresaw what came
TOLERANCE = 1e-7  # gain of the mean log score at which the fit stops


class Maximised(NamedTuple):
    """The end of an expectation maximisation."""

    shares: FloatArray
    """[component]"""
    objective: tuple[float, ...]
    """log likelihood and log prior together, before each step and at the end: it never falls"""
    converged: bool


def maximise(
    said: FloatArray, weight: FloatArray, prior: FloatArray, iterations: int = ITERATIONS
) -> Maximised:
    """Shares of components under which what came was likeliest.

    `said` [n, component] are the probabilities that each gave to what came; `prior` are counts
    added to every component (all above 0, so that none dies out because it was not needed once).
    """
    shares = prior / prior.sum()
    objective: list[float] = []
    scale = max(float(weight.sum()), 1.0)
    for _ in range(iterations):
        joint = said * shares
        total = np.maximum(joint.sum(axis=1), SMALLEST)
        objective.append(float(weight @ np.log(total) + prior @ np.log(shares)))
        if len(objective) > 1 and objective[-1] - objective[-2] < TOLERANCE * scale:
            return Maximised(shares, tuple(objective), True)
        shares = (weight / total) @ joint + prior
        shares /= shares.sum()
    return Maximised(shares, tuple(objective), False)


def bucket(evidence: FloatArray) -> IntArray:
    """The bucket of each cell, [cell]."""
    return np.digitize(evidence, EDGES)


def fit_shares(
    outcomes: Sequence[Outcomes], names: Sequence[str], allowed: Sequence[str] | None = None
) -> FloatArray:
    """The mixture of a level and kind, [bucket, component]; components not allowed have none."""
    columns = [at for at, name in enumerate(names) if allowed is None or name in allowed]
    table = np.zeros((len(EDGES) + 1, len(names)))
    prior = np.full(len(columns), 1 / len(columns))
    if not outcomes:
        table[:, columns] = prior
        return table
    said = np.concatenate([each.components[:, columns] for each in outcomes])
    weight = np.concatenate([each.share for each in outcomes])
    buckets = bucket(np.concatenate([each.evidence for each in outcomes]))
    pooled = maximise(said, weight, prior).shares
    for number in range(len(table)):
        own = buckets == number
        table[number, columns] = maximise(said[own], weight[own], PRIOR_CELLS * pooled).shares
    return table
