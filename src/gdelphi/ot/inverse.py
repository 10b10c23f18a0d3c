"""Inverse transport: which cost would make an observed coupling the best one?

Forward, with a cost C = sum_k theta_k C_k and reference weights a and b, entropic and unbalanced:

    P(theta) = argmin_P J(P) = <C, P> + epsilon KL(P | a b') + rho (KL(P 1 | a) + KL(P' 1 | b))

with rho infinite for the balanced problem. Backward, an observed coupling Q (a sample of pairs) is
held against it by the Fenchel-Young loss, the gap of Q to the best value, J(Q) - min_P J(P). It is
convex in theta and 0 where Q is best. It is *sharpened* by a discrepancy to the data inside
(Andrade, Peyré, Poon 2025):

    L(theta) = J(Q) - min_P [ J(P) + sharpness D(P, Q) ],   D = KL(P 1 | Q 1) + KL(P' 1 | Q' 1)

which is still convex and still 0 where Q is best, and nowhere larger: mass that the sample happens
to lack is not charged to the cost. By the envelope theorem dL/dtheta_k = <C_k, Q - P>, so nothing
is differentiated through an iteration, and the loss is minimised by a quasi-Newton method.

Only C / epsilon is seen in a coupling: epsilon fixes the unit of theta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import xlogy

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray


@dataclass(frozen=True)
class InverseSettings:
    """The forward problem, and how sharp the loss is."""

    epsilon: float = 1.0
    relaxation: float = math.inf
    """rho; infinite: balanced, with the marginals of the observed coupling"""
    sharpness: float = 0.0
    """of the unbalanced loss; 0: the plain Fenchel-Young loss"""
    tolerance: float = 1e-9
    most_iterations: int = 5_000

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and self.relaxation > 0 and self.sharpness >= 0):
            raise TransportError("epsilon and relaxation must be above 0, sharpness not below")


class Coupling(NamedTuple):
    """An observed coupling and what it is held against."""

    observed: FloatArray
    """Q, [n, m]"""
    features: FloatArray
    """C_k, [k, n, m]"""
    source: FloatArray
    """a, [n]"""
    target: FloatArray
    """b, [m]"""


class InverseLoss(NamedTuple):
    """The loss at some theta."""

    value: float
    gradient: FloatArray
    """[k]"""
    plan: FloatArray
    """P, [n, m]"""
    potential: FloatArray
    """of the plan, [m]: where a solution for a theta nearby may begin"""


class RecoveredCost(NamedTuple):
    """What was found."""

    theta: FloatArray
    """[k]"""
    loss: float
    iterations: int
    converged: bool


def forward_plan(
    theta: FloatArray, coupling: Coupling, settings: InverseSettings | None = None
) -> FloatArray:
    """P(theta), [n, m], without any sharpening; the observed coupling is not looked at."""
    chosen = settings or InverseSettings()
    costs = np.tensordot(theta, coupling.features, axes=1)
    sides = (coupling.source, coupling.target)
    return _plan(costs, sides, sides, chosen.relaxation, chosen)[0]


def inverse_loss(
    theta: FloatArray,
    coupling: Coupling,
    settings: InverseSettings | None = None,
    *,
    start: FloatArray | None = None,
) -> InverseLoss:
    """The sharpened Fenchel-Young loss, its gradient, and the plan that it compares with; `start`
    is the potential of a theta nearby."""
    chosen = settings or InverseSettings()
    rho, sharp = chosen.relaxation, chosen.sharpness
    costs = np.tensordot(theta, coupling.features, axes=1)
    sides = (coupling.source, coupling.target)
    seen = (coupling.observed.sum(axis=1), coupling.observed.sum(axis=0))
    product = np.outer(*sides)

    def energy(plan: FloatArray) -> float:
        moved = float((costs * plan).sum()) + chosen.epsilon * _divergence(plan, product)
        if math.isinf(rho):
            return moved
        marginals = (plan.sum(axis=1), plan.sum(axis=0))
        return moved + rho * sum(map(_divergence, marginals, sides))

    if math.isinf(rho):
        plan, potential = _plan(costs, sides, seen, rho, chosen, start)
        found = energy(plan)
    else:
        # rho KL(p | a) + s KL(p | q) is (rho + s) KL(p | geometric mean) and what is without p.
        share = sharp / (rho + sharp)
        wanted = tuple(a ** (1 - share) * q**share for a, q in zip(sides, seen, strict=True))
        plan, potential = _plan(costs, sides, wanted, rho + sharp, chosen, start)
        found = energy(plan)
        for marginal, q in zip((plan.sum(axis=1), plan.sum(axis=0)), seen, strict=True):
            found += sharp * _divergence(marginal, q) if sharp else 0.0
    gap = coupling.observed - plan
    gradient: FloatArray = np.tensordot(coupling.features, gap, axes=2)
    return InverseLoss(energy(coupling.observed) - found, gradient, plan, potential)


def recover_cost(
    coupling: Coupling,
    settings: InverseSettings | None = None,
    *,
    positive: bool = True,
    penalty: float = 0.0,
) -> RecoveredCost:
    """The theta of least loss, not below 0 if `positive`, with `penalty` times |theta|^2 / 2."""
    number = len(coupling.features)
    if coupling.observed.shape != coupling.features.shape[1:]:
        raise TransportError("the observed coupling and the features must have the same pairs")

    potential: FloatArray | None = None

    def target(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal potential
        found = inverse_loss(theta, coupling, settings, start=potential)
        potential = found.potential
        return (
            found.value + penalty * float(theta @ theta) / 2,
            found.gradient + penalty * theta,
        )

    answer = minimize(
        target, np.zeros(number), jac=True, method="L-BFGS-B",
        bounds=[(0.0 if positive else None, None)] * number,
        options={"maxiter": 200, "ftol": 1e-14, "gtol": 1e-8},
    )  # fmt: skip
    return RecoveredCost(answer.x, float(answer.fun), int(answer.nit), bool(answer.success))


class SlotShares(NamedTuple):
    """How much each slot of a point matters to what follows what."""

    shares: FloatArray
    """[slots], summing to 1; even if nothing was found"""
    strengths: FloatArray
    """theta, [slots]: what a unit of a slot's cost is worth, in units of epsilon"""
    loss: float
    """of the shares found"""
    without: float
    """of a cost of 0: how far from chance the pairs are"""


def slot_shares(
    before: Sequence[FloatArray],
    after: Sequence[FloatArray],
    settings: InverseSettings | None = None,
) -> SlotShares:
    """The shares of slots from pairs of phrases that follow each other.

    Each slot has its unit vectors [n, dim] before and after, row by row the same pair; a slot's
    cost is 1 - cosine. If the problem is unbalanced, a reward for being matched at all is learned
    beside. For a few hundred pairs.
    """
    chosen = settings or InverseSettings()
    costs = [1 - one @ two.T for one, two in zip(before, after, strict=True)]
    number = len(costs[0])
    if not math.isinf(chosen.relaxation):
        costs.append(np.full((number, number), -1.0))
    even = np.full(number, 1 / number)
    coupling = Coupling(np.eye(number) / number, np.stack(costs), even, even)
    found = recover_cost(coupling, chosen)
    strengths = found.theta[: len(before)]
    total = strengths.sum()
    shares = strengths / total if total > 0 else np.full(len(before), 1 / len(before))
    without = inverse_loss(np.zeros(len(costs)), coupling, chosen).value
    return SlotShares(shares, strengths, found.loss, without)


def sample_coupling(plan: FloatArray, pairs: int, random: np.random.Generator) -> FloatArray:
    """The coupling of so many pairs that are drawn from a plan, with the plan's mass."""
    mass = plan.sum()
    drawn = random.multinomial(pairs, (plan / mass).reshape(-1)).reshape(plan.shape)
    sampled: FloatArray = drawn * (mass / pairs)
    return sampled


def _plan(
    costs: FloatArray,
    sides: tuple[FloatArray, FloatArray],
    wanted: tuple[FloatArray, ...],
    relaxation: float,
    settings: InverseSettings,
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Scaling: P = a b' exp((f + g - C) / epsilon), its marginals held to `wanted` with a force of
    `relaxation` (Chizat, Peyré, Schmitzer, Vialard 2018). P, and g."""
    epsilon = settings.epsilon
    force = epsilon if math.isinf(relaxation) else relaxation * epsilon / (relaxation + epsilon)
    with np.errstate(divide="ignore"):
        log_a, log_b = (np.log(side) for side in sides)
        log_rows, log_columns = (np.log(side) for side in wanted)
    # Where no mass is wanted there is none: ln 0 - ln 0 is left out.
    rows, columns = (_difference(*pair) for pair in ((log_rows, log_a), (log_columns, log_b)))
    kernel = -costs / epsilon
    f, g = np.zeros(len(log_a)), np.zeros(len(log_b)) if start is None else start
    for _ in range(settings.most_iterations):
        f = force * (rows - _log_sums(kernel + (g / epsilon + log_b)[None], 1))
        moved = force * (columns - _log_sums(kernel + (f / epsilon + log_a)[:, None], 0))
        there = np.isfinite(moved)
        change = np.abs(moved[there] - np.where(np.isfinite(g), g, 0)[there]).max(initial=0)
        g = moved
        if change <= settings.tolerance * epsilon:
            break
    with np.errstate(over="ignore"):
        log_plan = kernel + (f / epsilon + log_a)[:, None] + (g / epsilon + log_b)[None]
    return np.exp(log_plan), g


def _log_sums(values: FloatArray, axis: int) -> FloatArray:
    """ln of the sums of exp along an axis; scipy's takes three times as long."""
    most = values.max(axis=axis)
    sums: FloatArray = most + np.log(np.exp(values - np.expand_dims(most, axis)).sum(axis=axis))
    return sums


def _difference(one: FloatArray, two: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        gap: FloatArray = np.where(np.isneginf(one), -np.inf, one - two)
    return gap


def _divergence(one: FloatArray, two: FloatArray) -> float:
    """KL of measures of any mass: sum of x ln(x / y) - x + y."""
    return float((xlogy(one, one) - xlogy(one, two) - one + two).sum())
