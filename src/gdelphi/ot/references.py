"""Exact transport, to compare with: linear programming and the Gaussian closed form.

Both are for tests and inspection, not for hot paths. The linear programme is POT's network
simplex, which is exact and cubic; POT is imported where it is used, since only this needs it.
"""

from typing import Any, Literal

import numpy as np
import torch

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray, Measure
from gdelphi.ot.geometry import Cost, cost_of


def exact_transport_cost(
    source: Measure, target: Measure, cost: Cost = "half squared chord"
) -> float:
    """min_P <P, C>, what `sinkhorn` tends to as epsilon falls."""
    costs = _costs(source, target, cost)
    return float(_pot().emd2(source.weights, target.weights, costs, numItermax=10_000_000))


def exact_plan(source: Measure, target: Measure, cost: Cost | Literal["flat"]) -> FloatArray:
    """An optimal P, [n, m]; *flat* is half the squared distance of points that need not be on the
    sphere."""
    costs = _costs(source, target, cost)
    first, second = (measure.weights / measure.weights.sum() for measure in (source, target))
    plan: FloatArray = _pot().emd(first, second, costs, numItermax=10_000_000)
    return plan


def _pot() -> Any:
    try:
        import ot
    except ImportError as error:
        raise GdelphiError("exact transport needs POT: pip install pot") from error
    return ot


def _costs(source: Measure, target: Measure, cost: Cost | Literal["flat"]) -> FloatArray:
    one, two = source.points.astype(np.float64), target.points.astype(np.float64)
    if cost == "flat":
        lengths = np.square(one).sum(axis=1)[:, None] + np.square(two).sum(axis=1)
        flat: FloatArray = np.maximum(lengths / 2 - one @ two.T, 0)
        return flat
    costs: FloatArray = cost_of(torch.from_numpy(one @ two.T), cost).numpy()
    return costs


def exact_wasserstein2(source: Measure, target: Measure) -> float:
    """W2 for the chord distance: the root of twice the half squared chord's transport cost."""
    return float(np.sqrt(max(0.0, 2 * exact_transport_cost(source, target))))


def bures_wasserstein2(
    means: tuple[FloatArray, FloatArray], covariances: tuple[FloatArray, FloatArray]
) -> float:
    """W2 of two Gaussians: |m - n|^2 + tr(A + B - 2 (A^1/2 B A^1/2)^1/2), and its root."""
    (m, n), (first, second) = means, covariances
    root = _root(first)
    cross = _root(root @ second @ root)
    squared = np.square(m - n).sum() + np.trace(first + second - 2 * cross)
    return float(np.sqrt(max(0.0, float(squared))))


def _root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root


def exact_wasserstein(source: Measure, target: Measure, order: int = 2) -> float:
    """W1 or W2 for the distance in flat space; points may lie anywhere."""
    try:
        import ot
    except ImportError as error:
        raise GdelphiError("exact transport needs POT: pip install pot") from error
    one, other = source.points.astype(np.float64), target.points.astype(np.float64)
    distances = np.linalg.norm(one[:, None] - other[None], axis=2)
    cost = ot.emd2(source.weights, target.weights, distances**order, numItermax=10_000_000)
    return float(max(0.0, cost) ** (1 / order))
