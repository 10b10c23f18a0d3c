"""What depth costs and what it changes: memory, gradients and W2 against the steps of a flow.

Everything takes clouds as arrays or tensors and a `SphereFlow`, trained or random, and needs no
store. Memory is counted, not measured: the bytes of distinct tensors that wait for the backward
pass, at their most; so the table is the same on every machine.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import FlowGradient
from gdelphi.common.types import FloatArray, Measure
from gdelphi.model.flow import SphereFlow, start_of
from gdelphi.ot.references import exact_wasserstein2

CloudArray = Tensor | FloatArray


class GradientCost(NamedTuple):
    """Both ways to the gradient with so many steps."""

    steps: int
    backpropagation_bytes: int
    """held for the backward pass, at their most"""
    adjoint_bytes: int
    backpropagation_seconds: float
    adjoint_seconds: float
    difference: float
    """of the gradients by all parameters, relative to their length; NaN where the steps are too
    long to be walked back"""


class StepChange(NamedTuple):
    """A cloud carried with so many steps."""

    steps: int
    moved: float
    """W2 from where it began"""
    error: float
    """W2 from where the most steps lead"""


def random_flow(
    dimension: int, hidden: int = 32, pieces: int = 1, *, strength: float = 1.0, seed: int = 0
) -> SphereFlow:
    """A flow that moves things, for looking at flows by themselves: speeds are about `strength`."""
    generator = torch.Generator().manual_seed(seed)
    flow = SphereFlow(dimension, hidden, pieces)
    even = dimension**-0.5
    scales = {"value": even, "out": even * hidden**-0.5, "affinity": even}
    with torch.no_grad():
        for name, scale in scales.items():
            parameter = getattr(flow, name)
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.add_(strength * scale * drawn)
        flow.enter.copy_(torch.randn(flow.enter.shape, generator=generator))
    return flow


def step_changes(
    flow: SphereFlow,
    points: CloudArray,
    weights: CloudArray,
    steps: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
) -> list[StepChange]:
    """W2 of one cloud [n, dimension] with weights [n] against the number of steps, exact. The error
    of Lie and Trotter's splitting falls like 1 / steps."""
    start, masses = _tensors(flow, points, weights)
    with torch.no_grad():
        ends = {n: flow.flow(start[None], masses[None], steps=n)[0] for n in sorted(set(steps))}
    first, last = _measure(start, masses), _measure(ends[max(ends)], masses)
    return [
        StepChange(
            number,
            exact_wasserstein2(first, _measure(end, masses)),
            exact_wasserstein2(last, _measure(end, masses)),
        )
        for number, end in ends.items()
    ]


def gradient_costs(
    flow: SphereFlow,
    points: CloudArray,
    weights: CloudArray,
    steps: Sequence[int] = (4, 8, 16, 32, 64),
) -> list[GradientCost]:
    """Memory, time and agreement of backpropagation and the adjoint method, for the gradient of the
    mean of the carried cloud along its first axis."""
    cloud = _tensors(flow, points, weights)
    rows = []
    for number in steps:
        one = _gradient(flow, *cloud, number, "backpropagation")
        try:
            two = _gradient(flow, *cloud, number, "adjoint")
        except TrainingError:
            two = _Found(torch.full_like(one.slope, torch.nan), 0, torch.nan)
        difference = float((one.slope - two.slope).norm() / one.slope.norm())
        rows.append(GradientCost(number, one.held, two.held, one.seconds, two.seconds, difference))
    return rows


class _Found(NamedTuple):
    slope: Tensor
    held: int
    seconds: float


def _gradient(
    flow: SphereFlow, points: Tensor, weights: Tensor, steps: int, way: FlowGradient
) -> _Found:
    counter, began = _HeldBytes(), perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(counter.pack, counter.unpack):
        places, around = start_of(points[None], weights[None], flow.bias.shape[1])
        moved = flow(places, around, steps=steps, gradient=way)
        aim = (weights * moved.points[0, :, 0]).sum() + moved.changes.square().mean()
        found = torch.autograd.grad(aim, tuple(flow.parameters()))
    slope = torch.cat([part.flatten() for part in found])
    return _Found(slope, counter.most, perf_counter() - began)


def _tensors(flow: SphereFlow, points: CloudArray, weights: CloudArray) -> tuple[Tensor, Tensor]:
    like = flow.bias
    masses = torch.as_tensor(weights).to(like)
    return torch.as_tensor(points).to(like), masses / masses.sum()


def _measure(points: Tensor, weights: Tensor) -> Measure:
    masses = weights.double().numpy()
    return Measure(points.double().numpy(), masses / masses.sum())


class _HeldBytes:
    """Counts the bytes of distinct tensors that are kept for the backward pass."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._holders: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> Any:
        return _Held(self, tensor)

    def unpack(self, held: Any) -> Tensor:
        tensor: Tensor = held.tensor
        return tensor

    def add(self, place: int, size: int) -> None:
        self._holders[place] = self._holders.get(place, 0) + 1
        if self._holders[place] == 1:
            self.now += size
            self.most = max(self.most, self.now)

    def drop(self, place: int, size: int) -> None:
        self._holders[place] -= 1
        if not self._holders[place]:
            self.now -= size


class _Held:
    """A tensor that waits; counted until nobody waits for it."""

    def __init__(self, counter: _HeldBytes, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.tensor, self._counter = tensor, counter
        self._place, self._size = storage.data_ptr(), storage.nbytes()
        counter.add(self._place, self._size)

    def __del__(self) -> None:
        self._counter.drop(self._place, self._size)
