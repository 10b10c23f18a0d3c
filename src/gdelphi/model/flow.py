"""Depth as time: atoms flow on the sphere, and a layer is a step of time.

    dx/dt = P_x (V A_B[mu](x) + W sigma(U x + b)),
    A_B[mu](x) = integral of y exp(<B x, y>) dmu(y) / integral of exp(<B x, y>) dmu(y)

with P_x the projection along the sphere and mu the measure of all atoms (Geshkovski, Letrouit,
Polyanskiy, Rigollet 2025 for attention alone). Time runs from 0 to 1 and is cut into pieces, each
with parameters of its own; one piece is one set for all layers. A step of length h is Lie and
Trotter's: first attention alone, then the perceptron alone, each followed by a return to the
sphere. The number of steps is free and may be another after training.

Gradients come in two ways. *backpropagation* keeps all steps. *adjoint* keeps the last place alone
and walks back: each half step x' = normalise(x + h P_x v(x)) is solved for x by

    x <- normalise(x' sqrt(1 + h^2 |P_x v(x)|^2) - h P_x v(x))

which contracts if h is small against the slope of v, and its vector-Jacobian product is taken
there (Chen, Rubanova, Bettencourt, Duvenaud 2018; not the differential equation of the adjoint,
whose gradient is another one by O(h)). Memory then does not depend on depth, and the gradient is
that of backpropagation up to rounding.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import FlowGradient

RETRACE_ITERATIONS: Final = 100
RETRACE_EPSILONS: Final = 8.0  # a place is found again up to so many roundings
UNTRACED: Final = (
    "the flow's steps are too long to be walked back: more of them (train.transport_steps), or "
    'train.transport_gradient = "backpropagation"'
)


class AtomPlaces(NamedTuple):
    """Where N measures of n atoms are."""

    points: Tensor
    """[N, n, dimension], of length 1"""
    changes: Tensor
    """of the atoms' ln weights and gate logits, [N, n, 2]"""


class Surroundings(NamedTuple):
    """What does not change along the way."""

    log_weights: Tensor
    """[N, n]; minus infinity: no atom"""
    gates: Tensor
    """logits at the beginning, [N, n]"""
    shift: Tensor
    """added to the perceptron's bias, [N, hidden]"""


class FlowParameters(NamedTuple):
    """Of one piece of time."""

    value: Tensor
    """V, [dimension, dimension]"""
    affinity: Tensor
    """B, [dimension, dimension]"""
    out: Tensor
    """W, and below it the rates of weights and gates, [dimension + 2, hidden]"""
    enter: Tensor
    """U, [hidden, dimension]"""
    bias: Tensor
    """b, [hidden]"""


class SphereFlow(nn.Module):
    """The flow with its parameters, [pieces, ...]. Untrained, nothing moves: V and W are zero."""

    def __init__(self, dimension: int, hidden: int, pieces: int = 1) -> None:
        super().__init__()
        if pieces < 1:
            raise TrainingError("a flow needs at least one piece of time")
        self.pieces = pieces
        self.value = nn.Parameter(torch.zeros(pieces, dimension, dimension))
        self.affinity = nn.Parameter(torch.eye(dimension).repeat(pieces, 1, 1))
        self.out = nn.Parameter(torch.zeros(pieces, dimension + 2, hidden))
        self.enter = nn.Parameter(torch.randn(pieces, hidden, dimension))
        self.bias = nn.Parameter(torch.zeros(pieces, hidden))

    def forward(
        self,
        places: AtomPlaces,
        around: Surroundings,
        *,
        steps: int,
        gradient: FlowGradient = "backpropagation",
    ) -> AtomPlaces:
        """The places at time 1, after so many steps, or the next larger multiple of the pieces."""
        each = -(-steps // self.pieces)
        if each < 1:
            raise TrainingError(f"{steps} steps of a flow are none")
        parameters = tuple(self.parameters())
        # In whole precision: what is walked back has to be found again.
        with torch.autocast(places.points.device.type, enabled=False):
            around = Surroundings(*(part.to(parameters[0].dtype) for part in around))
            if gradient == "adjoint":
                given = (each, *places, *around, *parameters)
                return AtomPlaces(*_Adjoint.apply(*given))  # type: ignore[no-untyped-call]
            return _flown(_steps(parameters, each), places, around)

    def flow(self, points: Tensor, weights: Tensor, *, steps: int) -> Tensor:
        """Clouds [N, n, dimension] with weights [N, n] carried to time 1, all atoms existing and
        nothing else in sight: for looking at the flow by itself."""
        start = start_of(points, weights, self.bias.shape[1])
        moved: AtomPlaces = self(*start, steps=steps)
        return moved.points


def start_of(points: Tensor, weights: Tensor, hidden: int) -> tuple[AtomPlaces, Surroundings]:
    """A flow's beginning for clouds [N, n, dimension] with weights [N, n]."""
    changes = points.new_zeros(*points.shape[:2], 2)
    gates = points.new_full(points.shape[:2], torch.inf)
    shift = points.new_zeros(len(points), hidden)
    return AtomPlaces(points, changes), Surroundings(weights.log().to(points), gates, shift)


def _steps(parameters: Sequence[Tensor], each: int) -> list[tuple[FlowParameters, float]]:
    """The parameters and the length of every step, with so many steps in each piece."""
    pieces = [FlowParameters(*part) for part in zip(*parameters, strict=True)]
    return [(piece, 1 / (each * len(pieces))) for piece in pieces for _ in range(each)]


# --- half steps -----------------------------------------------------------------------------------


def _attended(places: AtomPlaces, around: Surroundings, piece: FlowParameters) -> Tensor:
    """P_x V A_B[mu](x). An atom counts by its weight times the probability that it exists."""
    points, changes = places
    masses = around.log_weights + changes[..., 0] + F.logsigmoid(around.gates + changes[..., 1])
    there = ~around.log_weights.isneginf().all(dim=1, keepdim=True)
    masses = torch.where(there, masses, 0.0)
    logits = points @ piece.affinity.mT @ points.mT + masses[:, None]
    return _along(points, logits.softmax(dim=2) @ points @ piece.value.mT)


def _perceived(
    places: AtomPlaces, around: Surroundings, piece: FlowParameters
) -> tuple[Tensor, Tensor]:
    """P_x W sigma(U x + b), and the rates of weights and gates."""
    hidden = F.gelu(places.points @ piece.enter.mT + piece.bias + around.shift[:, None])
    spoken = hidden @ piece.out.mT
    return _along(places.points, spoken[..., :-2]), spoken[..., -2:]


def _along(points: Tensor, velocity: Tensor) -> Tensor:
    return velocity - (velocity * points).sum(dim=2, keepdim=True) * points


def _attention_step(
    places: AtomPlaces, around: Surroundings, piece: FlowParameters, length: float
) -> AtomPlaces:
    moved = places.points + length * _attended(places, around, piece)
    return AtomPlaces(F.normalize(moved, dim=2), places.changes)


def _perceptron_step(
    places: AtomPlaces, around: Surroundings, piece: FlowParameters, length: float
) -> AtomPlaces:
    velocity, rates = _perceived(places, around, piece)
    moved = F.normalize(places.points + length * velocity, dim=2)
    return AtomPlaces(moved, places.changes + length * rates)


def _flown(
    path: Sequence[tuple[FlowParameters, float]], places: AtomPlaces, around: Surroundings
) -> AtomPlaces:
    for piece, length in path:
        places = _attention_step(places, around, piece, length)
        places = _perceptron_step(places, around, piece, length)
    return places


# --- walking back ---------------------------------------------------------------------------------


def _retraced_attention(
    after: AtomPlaces, around: Surroundings, piece: FlowParameters, length: float
) -> AtomPlaces:
    def velocity(points: Tensor) -> Tensor:
        return _attended(AtomPlaces(points, after.changes), around, piece)

    return after._replace(points=_solved(after.points, velocity, length))


def _retraced_perceptron(
    after: AtomPlaces, around: Surroundings, piece: FlowParameters, length: float
) -> AtomPlaces:
    def velocity(points: Tensor) -> Tensor:
        return _perceived(after._replace(points=points), around, piece)[0]

    points = _solved(after.points, velocity, length)
    rates = _perceived(after._replace(points=points), around, piece)[1]
    return AtomPlaces(points, after.changes - length * rates)


def _solved(after: Tensor, velocity: Any, length: float) -> Tensor:
    """The points from which a half step leads to these."""
    enough = RETRACE_EPSILONS * torch.finfo(after.dtype).eps
    points = after
    for _ in range(RETRACE_ITERATIONS):
        step = length * velocity(points)
        stretch = (1 + step.square().sum(dim=2, keepdim=True)).sqrt()
        before = F.normalize(after * stretch - step, dim=2)
        moved = (before - points).abs().max()
        points = before
        if moved <= enough:
            return points
    raise TrainingError(UNTRACED)


HALF_STEPS: Final = (
    (_retraced_perceptron, _perceptron_step),
    (_retraced_attention, _attention_step),
)
"""of a step, the last first: how each is walked back, and how it was made"""


class _Adjoint(torch.autograd.Function):
    """The flow, remembering nothing but where it ends."""

    @staticmethod
    def forward(ctx: Any, each: int, *given: Tensor) -> tuple[Tensor, Tensor]:
        places, around, parameters = AtomPlaces(*given[:2]), Surroundings(*given[2:5]), given[5:]
        ended = _flown(_steps(parameters, each), places, around)
        ctx.each = each
        ctx.save_for_backward(*ended, *around, *parameters)
        return ended.points, ended.changes

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        saved = ctx.saved_tensors
        places, around, parameters = AtomPlaces(*saved[:2]), Surroundings(*saved[2:5]), saved[5:]
        path = _steps(parameters, ctx.each)
        totals = [torch.zeros_like(part) for part in saved[2:]]
        adjoint = list(slopes)
        for number in reversed(range(len(path))):
            for retrace, step in HALF_STEPS:
                with torch.no_grad():
                    places = retrace(places, around, *path[number])
                # The vector-Jacobian product of the half step.
                piece, length = path[number]
                with torch.enable_grad():
                    leaves = [part.detach().requires_grad_() for part in (*places, *around, *piece)]
                    moved = step(
                        AtomPlaces(*leaves[:2]), Surroundings(*leaves[2:5]),
                        FlowParameters(*leaves[5:]), length,
                    )  # fmt: skip
                found = torch.autograd.grad(moved, leaves, adjoint, materialize_grads=True)
                adjoint = list(found[:2])
                for total, part in zip(totals[:3], found[2:5], strict=True):
                    total += part
                for total, part in zip(totals[3:], found[5:], strict=True):
                    total[number // ctx.each] += part
        return None, *adjoint, *totals
