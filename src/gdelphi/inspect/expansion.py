"""How far a map expands distances between measures: found by search, never by a formula.

The local constant at a measure is the largest |J e| / |e| in the norm sum_i w_i |e_i|^2, which is
W2 for small steps e; power iteration on J' J finds it. Where e is finite, both distances are exact
(linear programmes). What is found is a lower bound of the true constant.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import Measure
from gdelphi.ot.references import exact_wasserstein

PointMap = Callable[[Tensor], Tensor]
"""points [n, d] to points [n, d'], the weights held"""

ITERATIONS: Final = 12
TINY: Final = 1e-30


class LocalConstant(NamedTuple):
    """The largest expansion of small steps at a measure."""

    value: float
    direction: Tensor
    """the step that is expanded most, [n, d], of length 1"""


def local_constant(
    mapped: PointMap,
    points: Tensor,
    weights: Tensor,
    *,
    generator: torch.Generator,
    iterations: int = ITERATIONS,
    out_weights: Tensor | None = None,
) -> LocalConstant:
    """Power iteration; `out_weights` are those of the images, where they are not the points'."""
    root = weights.sqrt()[:, None]
    out = (weights if out_weights is None else out_weights)[:, None]
    tangent = Tangent(mapped, points)
    step = torch.randn(points.shape, generator=generator, dtype=points.dtype)
    step = step / step.norm()
    found = 0.0
    for _ in range(iterations):
        moved = tangent.push(step / root)
        found = float((out * moved.square()).sum().sqrt())
        pulled = tangent.pull(out * moved) / root
        step = pulled / pulled.norm().clamp(min=TINY)
    direction = step / root
    return LocalConstant(found, direction / direction.norm().clamp(min=TINY))


class Tangent:
    """The derivative J of a map at points: J e, and J' y. The former is the derivative of the
    latter, which is linear in y: two passes backward need no forward mode."""

    def __init__(self, mapped: PointMap, points: Tensor) -> None:
        self._points = points.detach().requires_grad_()
        self._images = mapped(self._points)
        self._probe = torch.zeros_like(self._images, requires_grad=True)
        (self._pulled,) = torch.autograd.grad(
            self._images, self._points, self._probe, create_graph=True
        )

    def push(self, step: Tensor) -> Tensor:
        """J e"""
        (moved,) = torch.autograd.grad(self._pulled, self._probe, step, retain_graph=True)
        return moved

    def pull(self, change: Tensor) -> Tensor:
        """J' y"""
        (pulled,) = torch.autograd.grad(self._images, self._points, change, retain_graph=True)
        return pulled


def measure_of(points: Tensor, weights: Tensor) -> Measure:
    """As exact transport takes it."""
    masses = weights.detach().double().numpy()
    return Measure(points.detach().double().numpy(), masses / masses.sum())


def expansion(
    mapped: PointMap, points: Tensor, other: Tensor, weights: Tensor, *, order: int = 2
) -> float:
    """W_p of the images over W_p of the measures."""
    before = exact_wasserstein(measure_of(points, weights), measure_of(other, weights), order)
    with torch.no_grad():
        images = [measure_of(mapped(each), weights) for each in (points, other)]
    after = exact_wasserstein(images[0], images[1], order)
    return after / before if before > 0 else 0.0


def vector_expansion(
    mapped: PointMap, points: Tensor, other: Tensor, weights: Tensor, *, order: int = 2
) -> float:
    """The same for a map from measures to vectors: the distance of the images is the norm."""
    before = exact_wasserstein(measure_of(points, weights), measure_of(other, weights), order)
    with torch.no_grad():
        after = float((mapped(points) - mapped(other)).norm())
    return after / before if before > 0 else 0.0


def conditional_wasserstein(one: Tensor, other: Tensor) -> float:
    """The conditional distance of two space-time measures [day, n, d], days of equal weight: the
    root of the mean over days of W2^2 between the laws of each day."""
    even = torch.full((one.shape[1],), 1 / one.shape[1])
    squares = [
        exact_wasserstein(measure_of(a, even), measure_of(b, even)) ** 2
        for a, b in zip(one, other, strict=True)
    ]
    return float(np.sqrt(np.mean(squares)))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of a power law: of ln y against ln x, by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
