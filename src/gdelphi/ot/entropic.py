"""Entropic transport and its debiased divergence, differentiable in points and weights.

    OT(a, b) = min_P <P, C> + epsilon KL(P | a b^T)
    S(a, b)  = OT(a, b) - OT(a, a) / 2 - OT(b, b) / 2

(Feydy, Séjourné, Vialard, Amari, Trouvé, Peyré 2019.) Gradients come from the envelope theorem:
the derivative by a weight is its potential, the derivative by a cost is the plan's entry. They are
computed from the solution alone, since differentiating through the iterations costs as much memory
as there are iterations and gives the same answer less exactly. Second derivatives are not offered.

Weights are rescaled to sum to 1, and their gradient is that of the rescaled problem: the potential
less its mean. On weights that come from a softmax this is the gradient itself.

Epsilon may be given relative to the costs of each pair; it is then held constant in gradients. A
distance that is to be compared between pairs (an energy score) needs one epsilon for all of them,
so the default is absolute. geomloss and POT have the same problem and were measured against this
solver (`benchmarks/sinkhorn.py`); both iterate where Newton's method does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gdelphi.common.errors import TransportError
from gdelphi.ot.geometry import (
    COSTS,
    Cost,
    Measures,
    at_least_single,
    check_measures,
    check_pair,
    cosines,
    cost_of,
    normalised,
    slope_of,
)
from gdelphi.ot.semidual import (
    Problem,
    Solution,
    Stopping,
    solve,
    solve_symmetric,
)

SMALLEST_SCALE = 1e-6  # costs below this are rounding, and epsilon is not made relative to them
SELF_ENTRIES = 1 << 26
"""Entries of [batch, n, n] that the transport of measures to themselves holds at once."""


@dataclass(frozen=True)
class SinkhornSettings:
    """How entropic transport is computed. Unknown costs and senseless numbers are refused."""

    cost: Cost = "half squared chord"
    epsilon: float = 0.05
    relative: Literal["mean", "max"] | None = None
    """Epsilon as a share of the mean cost (under a x b) or the largest cost of each pair."""
    scaling: float = 0.5
    """Factor by which epsilon falls to its value from stage to stage; 1 for no stages."""
    tolerance: float = 1e-4
    """Sum of the absolute errors of a marginal, at most. The value's error is of second order."""
    most_iterations: int = 500

    def __post_init__(self) -> None:
        if self.cost not in COSTS:
            raise TransportError(f"no cost {self.cost!r}; there are {', '.join(COSTS)}")
        if self.relative not in (None, "mean", "max"):
            raise TransportError(f"epsilon relative to {self.relative!r}: to mean, max or None")
        if not (self.epsilon > 0 and 0 < self.scaling <= 1 and self.tolerance > 0):
            raise TransportError("epsilon, scaling (at most 1) and tolerance must be positive")
        if self.most_iterations < 1:
            raise TransportError(f"{self.most_iterations} iterations are none")

    @property
    def stopping(self) -> Stopping:
        """The solver's part of the settings."""
        return Stopping(self.tolerance, self.most_iterations, self.scaling)


class Transport(NamedTuple):
    """Solved transport problems; only `value` carries gradients."""

    value: Tensor
    """OT(a, b), [batch]"""
    cost: Tensor
    """<P, C>, [batch]"""
    source_potential: Tensor
    """f, [batch, n], zero where there is no weight; <a, f> = <b, g>"""
    target_potential: Tensor
    """g, [batch, m]"""
    epsilon: Tensor
    """[batch]"""
    errors: Tensor
    """[batch], sum of the absolute errors of the marginal that is not exact"""
    converged: Tensor
    """[batch], whether the error is within the tolerance"""
    iterations: int
    """of the whole batch, which runs until its slowest problem has converged"""


class Divergence(NamedTuple):
    """Debiased divergences; only `value` carries gradients."""

    value: Tensor
    """S(a, b), [batch], at least 0 up to rounding"""
    cross: Transport
    converged: Tensor
    """[batch], whether each of the three problems has converged"""


def sinkhorn(
    source: Measures, target: Measures, settings: SinkhornSettings | None = None
) -> Transport:
    """Entropic transport from each source [batch, n] to its target [batch, m].

    Memory is that of the costs, [batch, n, m]; time grows with n and, where the shorter side has up
    to 128 points, with the square of that side.
    """
    chosen = settings or SinkhornSettings()
    check_pair(source, target)
    source, target = at_least_single(source), at_least_single(target)
    if source.points.shape[1] >= target.points.shape[1]:
        return _cross(source, target, chosen)
    turned = _cross(target, source, chosen)
    f, g = turned.target_potential, turned.source_potential
    return turned._replace(source_potential=f, target_potential=g)


def self_transport(
    measures: Measures,
    settings: SinkhornSettings | None = None,
    *,
    epsilon: Tensor | None = None,
) -> Transport:
    """Transport of each measure to itself: the term that debiasing subtracts.

    It needs [n, n] numbers for each measure (not for the whole batch at once), so for clouds that
    do not change compute it once and hand its value to `sinkhorn_divergence`. `epsilon` [batch]
    overrules the settings; without it the settings' epsilon must be absolute.
    """
    chosen = settings or SinkhornSettings()
    check_measures(measures, "measures")
    measures = at_least_single(measures)
    points, weights = measures.points, normalised(measures.weights)
    if epsilon is None:
        if chosen.relative is not None:
            raise TransportError("a relative epsilon belongs to a pair: give an absolute one")
        epsilon = torch.full_like(weights[:, 0], chosen.epsilon)
    parts = _self_parts(
        Measures(points.detach(), weights), chosen, epsilon=epsilon, pulled=points.requires_grad
    )
    value, cost, f, errors, pull = (
        torch.cat(column) for column in list(zip(*parts, strict=True))[:5]
    )
    value = _with_gradients(
        _SelfEnvelope, points, measures.weights, value, pull, 2 * _centred(f, weights)
    )
    iterations = max(part.iterations for part in parts)
    return Transport(value, cost, f, f, epsilon, errors, errors <= chosen.tolerance, iterations)


def sinkhorn_divergence(
    source: Measures,
    target: Measures,
    settings: SinkhornSettings | None = None,
    *,
    source_self: Tensor | None = None,
    target_self: Tensor | None = None,
) -> Divergence:
    """The debiased divergence of each pair.

    `source_self` and `target_self` [batch] are values of `self_transport` that are known already;
    they need an absolute epsilon, and carry the gradients they came with.
    """
    chosen = settings or SinkhornSettings()
    if chosen.relative is not None and not (source_self is None and target_self is None):
        raise TransportError("self terms can be given only where epsilon is absolute")
    cross = sinkhorn(source, target, chosen)
    value, converged = cross.value, cross.converged
    for measures, known in ((source, source_self), (target, target_self)):
        if known is None:
            own = self_transport(measures, chosen, epsilon=cross.epsilon)
            known, converged = own.value, converged & own.converged
        value = value - known / 2
    return Divergence(value, cross, converged)


# --- solutions ------------------------------------------------------------------------------------


def _cross(source: Measures, target: Measures, settings: SinkhornSettings) -> Transport:
    """Transport where the source is the longer side; costs are [batch, m, n]."""
    with _full_precision(source.points):
        a, b = normalised(source.weights), normalised(target.weights)
        cosine = cosines(target.points.detach(), source.points.detach())
        costs = cost_of(cosine, settings.cost)
        mean = _inner(torch.bmm(b[:, None], costs)[:, 0], a)
        costs = _without_padding(costs, a, b, mean)
        epsilon = _epsilon(costs, mean, settings)
        solution = solve(Problem(costs, a, b, epsilon), settings.stopping)
        f, g = _balanced(solution, a, b)
        value, cost = (
            _inner(a, f) + _inner(b, g),
            _inner(solution.plan.flatten(1), costs.flatten(1)),
        )
        pull = _pull(solution.plan, cosine, settings.cost)
    gradients = (pull, _centred(f, a), _centred(g, b))
    value = _with_gradients(_CrossEnvelope, *source, *target, value, *gradients)
    within = solution.errors <= settings.tolerance
    return Transport(value, cost, f, g, epsilon, solution.errors, within, solution.iterations)


class _SelfPart(NamedTuple):
    """Some measures of a batch, transported to themselves."""

    value: Tensor
    cost: Tensor
    potential: Tensor
    errors: Tensor
    pull: Tensor
    """Derivative of the values by the points, [part, n, dim], or [part, 0, 0] if not wanted"""
    iterations: int


def _self_parts(
    measures: Measures, settings: SinkhornSettings, *, epsilon: Tensor, pulled: bool
) -> list[_SelfPart]:
    size = max(1, SELF_ENTRIES // measures.weights.shape[1] ** 2)
    groups = (torch.split(tensor, size) for tensor in (*measures, epsilon))
    with _full_precision(measures.points):
        return [
            _self_part(Measures(points, weights), settings, epsilon=eps, pulled=pulled)
            for points, weights, eps in zip(*groups, strict=True)
        ]


def _self_part(
    measures: Measures, settings: SinkhornSettings, *, epsilon: Tensor, pulled: bool
) -> _SelfPart:
    """The dual value 2 <a, f> + epsilon (1 - sum P): its error is of second order in that of f.

    The last term is 0 at the solution, where the plan has mass 1.
    """
    points, a = measures
    cosine = torch.bmm(points, points.mT)
    costs = _without_padding(cost_of(cosine, settings.cost), a, a, torch.zeros_like(epsilon))
    solution = solve_symmetric(Problem(costs.clone(), a, a, epsilon), settings.stopping)
    f = torch.where(a > 0, solution.f, 0)
    mass = solution.plan.sum(dim=(1, 2), dtype=torch.float64).to(a.dtype)
    value = 2 * _inner(a, f) + epsilon * (1 - mass)
    cost = _inner(solution.plan.flatten(1), costs.flatten(1))
    pull = points.new_empty(len(points), 0, 0)
    if pulled:
        pull = 2 * torch.bmm(_pull(solution.plan, cosine, settings.cost), points)
    return _SelfPart(value, cost, f, solution.errors, pull, solution.iterations)


@contextmanager
def _full_precision(points: Tensor) -> Iterator[None]:
    """No gradients, and no products in half precision, whatever the caller has switched on."""
    with torch.no_grad(), torch.autocast(points.device.type, enabled=False):
        yield


def _without_padding(costs: Tensor, a: Tensor, b: Tensor, mean: Tensor) -> Tensor:
    """Costs whose range is that of the points that exist."""
    if bool((a > 0).all()) and bool((b > 0).all()):
        return costs
    exists = (b > 0)[:, :, None] & (a > 0)[:, None]
    return torch.where(exists, costs, mean[:, None, None])


def _epsilon(costs: Tensor, mean: Tensor, settings: SinkhornSettings) -> Tensor:
    """Epsilon of each pair, [batch]."""
    if settings.relative is None:
        return torch.full_like(mean, settings.epsilon)
    scale = mean if settings.relative == "mean" else costs.amax(dim=(1, 2))
    return settings.epsilon * scale.clamp_min(SMALLEST_SCALE)


def _balanced(solution: Solution, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """f and g with equal means; a constant may pass from one to the other. Zero on padding."""
    g = solution.g.to(a.dtype)
    shift = (_inner(a, solution.f) - _inner(b, g)) / 2
    f, g = solution.f - shift[:, None], g + shift[:, None]
    return torch.where(a > 0, f, 0), torch.where(b > 0, g, 0)


def _pull(plan: Tensor, cosine: Tensor, cost: Cost) -> Tensor:
    """Derivative of the value by the cosines; consumes the plan.

    By the envelope theorem dOT / dC_ij = P_ij, so dOT / dcos_ij = P_ij c'(cos_ij), and c' = -1 for
    half the squared chord, c = 1 - cos.
    """
    return plan.neg_() if cost == "half squared chord" else plan.mul_(slope_of(cosine, cost))


def _centred(potential: Tensor, weights: Tensor) -> Tensor:
    """f - <a, f>: the gradient by weights w that are rescaled to a = w / sum(w), times sum(w)."""
    centred = potential - _inner(weights, potential)[:, None]
    return torch.where(weights > 0, centred, 0)


def _inner(first: Tensor, second: Tensor) -> Tensor:
    """Inner products [batch] of [batch, n], summed in float64."""
    return (first * second).sum(dim=1, dtype=torch.float64).to(first.dtype)


# --- gradients by the envelope theorem ------------------------------------------------------------


def _with_gradients(function: type[torch.autograd.Function], *arguments: Tensor) -> Tensor:
    value: Tensor = function.apply(*arguments)
    return value


class _CrossEnvelope(torch.autograd.Function):
    """Values, with the derivatives that the solution gives."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, a: Tensor, y: Tensor, b: Tensor, value: Tensor, pull: Tensor,
        f: Tensor, g: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, a, y, b, pull, f, g)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        # With cos_ji = <y_j, x_i> and pull = dOT / dcos [m, n]: dOT / dx_i = sum_j pull_ji y_j,
        # dOT / dy_j = sum_i pull_ji x_i; by weights before rescaling: the centred potentials over
        # the sum of the weights.
        x, a, y, b, pull, f, g = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        weighted = pull * outer[:, None, None] if wanted[0] or wanted[2] else pull
        return (
            torch.bmm(weighted.mT, y) if wanted[0] else None,
            f * (outer / a.sum(dim=1))[:, None] if wanted[1] else None,
            torch.bmm(weighted, x) if wanted[2] else None,
            g * (outer / b.sum(dim=1))[:, None] if wanted[3] else None,
            *(None,) * 4,
        )


class _SelfEnvelope(torch.autograd.Function):
    """The same for a measure and itself, with the points' derivative made already."""

    @staticmethod
    def forward(ctx: Any, _x: Tensor, a: Tensor, value: Tensor, pull: Tensor, f: Tensor) -> Tensor:
        ctx.save_for_backward(a, pull, f)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        a, pull, f = ctx.saved_tensors
        by_points = pull * outer[:, None, None] if ctx.needs_input_grad[0] else None
        by_weights = f * (outer / a.sum(dim=1))[:, None] if ctx.needs_input_grad[1] else None
        return by_points, by_weights, None, None, None
