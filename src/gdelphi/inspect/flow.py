"""The self-attention flow on the sphere, and how far a measure has drawn together.

    dx_i/dt = P_x (V sum_j w_j exp(beta <x_i, x_j>) x_j / Z_i)         P_x v = v - <v, x> x

With V = I all points of a hemisphere meet in one (Geshkovski, Letrouit, Polyanskiy and Rigollet,
A Mathematical Perspective on Transformers, 2023); with V = -I they flee each other.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor


class Concentration(NamedTuple):
    """How far a measure has drawn together."""

    mean_cosine: float
    """sum_ij w_i w_j <x_i, x_j>: 1 for a single point, 0 where the mean is 0"""
    atoms: float
    """1 / sum_ij w_i w_j <x_i, x_j>^2: 1 for a single point, m for m points at right angles"""


def concentration(points: Tensor, weights: Tensor) -> Concentration:
    """Of points [n, d], which need not have length 1 (their directions count), by weight [n]."""
    known = points.double()
    cosines = F.normalize(known, dim=1) @ F.normalize(known, dim=1).T
    masses = weights.double() / weights.double().sum()
    pairs = masses[:, None] * masses[None]
    return Concentration(
        float((pairs * cosines).sum()), float(1 / (pairs * cosines.square()).sum())
    )


def attention_field(value: Tensor, beta: float) -> Callable[[Tensor, Tensor], Tensor]:
    """V A[mu], a vector for each point, as a function of points and weights."""

    def field(points: Tensor, weights: Tensor) -> Tensor:
        shares = (beta * points @ points.T + weights.log()).softmax(dim=1)
        return shares @ points @ value.T

    return field


def mean_field(value: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The same with beta = 0: V times the mean, one vector for all points."""
    return lambda points, weights: (weights @ points @ value.T).expand_as(points)


def flow(
    points: Tensor,
    weights: Tensor,
    field: Callable[[Tensor, Tensor], Tensor],
    *,
    time: float,
    steps: int,
) -> Iterator[Tensor]:
    """Points after each step of projected Euler; back to the sphere after each."""
    for _ in range(steps):
        step = field(points, weights)
        tangent = step - (step * points).sum(dim=1, keepdim=True) * points
        points = F.normalize(points + time / steps * tangent, dim=1)
        yield points
