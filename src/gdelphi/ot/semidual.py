"""Entropic transport between discrete measures, solved on its semi-dual.

The problem, with weights a [n] and b [m], costs C and the entropy taken against a x b:

    OT = min_P <P, C> + epsilon KL(P | a b^T) = max_g <b, g> + sum_i a_i f_i(g),
    f_i(g) = -epsilon log sum_j b_j exp((g_j - C_ij) / epsilon)

(Genevay, Cuturi, Peyré, Bach 2016; Cuturi and Peyré 2018.) The unknown g lives on the shorter side,
which here has 1 to 16 points, and f follows from it. So Newton's method applies: its matrix is
[m, m] and costs one product of [m, n] by [n, m], and 6 to 40 steps do where Sinkhorn's iteration,
which ascends the same function one block at a time, takes tens to many thousands. Sinkhorn's
iteration is kept for problems with two long sides.

Numbers stay in range by absorption (Schmitzer 2019): the kernel holds exp((g0 + epsilon log b - C)
/ epsilon), each of its columns scaled to a maximum of 1, for a g0 near g, and only the quotient
v = exp((g - g0) / epsilon) is multiplied on. The kernel is made anew when v leaves the safe range:
often where epsilon is small (then this is the log domain), once where it is not (then this is the
multiplicative form). No choice by hand is needed, and float32 is enough: without absorption the
float32 kernel is wrong by 16% at epsilon .005 for costs of order 1.

Everything here is without gradients; `entropic` adds them by the envelope theorem.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

NEWTON_SIDE = 128
"""Up to so many points on the shorter side, Newton's method; beyond, Sinkhorn's iteration."""
FIRST_RANGE = 16.0  # costs / epsilon at the first stage of epsilon scaling
STAGE_ERROR = (
    0.1  # marginal error at which the next smaller epsilon is taken; .5 took 4 times as long
)
STAGE_ITERATIONS = 20
REACH = 5.0  # longest Newton step, in units of epsilon; 20 doubled the steps
SAFE_DRIFT = 40.0  # |log v| up to which float32 products neither overflow nor vanish
SURE_STEP = 1.0  # shorter Newton steps ascend by quasi-self-concordance and need no proof
ASCENT = 0.1  # share of the expected ascent that a longer step must bring
RIDGE = 1e-9
CHECK_EVERY = 5  # Sinkhorn iterations between two looks at the marginals
TINY = 1e-30


class Problem(NamedTuple):
    """One batch of transport problems; the shorter side comes first."""

    costs: Tensor
    """C, [batch, m, n]"""
    long: Tensor
    """a, [batch, n]"""
    short: Tensor
    """b, [batch, m]"""
    epsilon: Tensor
    """[batch]"""


class Stopping(NamedTuple):
    """When to stop: at this sum of marginal errors, or after so many iterations."""

    tolerance: float
    most_iterations: int
    scaling: float


class Solution(NamedTuple):
    """Dual potentials and the plan that belongs to them; its marginal on the long side is exact."""

    f: Tensor
    """[batch, n]"""
    g: Tensor
    """[batch, m], float64"""
    plan: Tensor
    """P, [batch, m, n]"""
    errors: Tensor
    """[batch], sum of the absolute errors of the other marginal"""
    iterations: int


class Kernel(NamedTuple):
    """The Gibbs kernel around g0."""

    values: Tensor
    """K, [batch, m, n], the largest of each column being 1"""
    peaks: Tensor
    """[batch, n], logarithms of what the columns were divided by"""
    origin: Tensor
    """g0, [batch, m], float64"""


class Iterate(NamedTuple):
    """What is known of the semi-dual at g, in units of epsilon."""

    g: Tensor
    """[batch, m], float64"""
    height: Tensor
    """[batch]"""
    gradient: Tensor
    """b - P 1, [batch, m]"""
    spread: Tensor
    """Q = sum_i a_i p_i p_i^T with p_i the i-th conditional law; diag(P 1) - Q is the Hessian"""


class Step(NamedTuple):
    """A step from a place: g + epsilon * length * direction."""

    direction: Tensor
    """[batch, m]"""
    extent: Tensor
    """[batch], largest less smallest entry of the direction"""
    ascent: Tensor
    """[batch], directional derivative at its start"""
    length: Tensor
    """[batch]"""


def solve(problem: Problem, stopping: Stopping) -> Solution:
    """The potentials and plan of each problem.

    1. For each epsilon of the schedule, from the largest on:
    2.   ascend from where the larger epsilon ended, by Newton or by Sinkhorn.
    3. The plan follows from g.
    """
    ascend = _ascend_by_newton if problem.short.shape[1] <= NEWTON_SIDE else _ascend_by_sinkhorn
    g = torch.zeros_like(problem.short, dtype=torch.float64)
    used = 0
    stages = _schedule(problem, stopping.scaling)
    for number, epsilon in enumerate(stages):
        left = stopping.most_iterations - used
        last = number == len(stages) - 1
        tolerance = stopping.tolerance if last else max(STAGE_ERROR, stopping.tolerance)
        limit = left if last else min(STAGE_ITERATIONS, left)
        stage = Stopping(tolerance, limit, stopping.scaling)
        g, kernel, taken = ascend(problem._replace(epsilon=epsilon), g, stage)
        used += taken
    return _solution(problem, g, kernel)._replace(iterations=used)


def _schedule(problem: Problem, scaling: float) -> list[Tensor]:
    """Epsilons [batch] that fall to the one asked for, by the factor `scaling` or less."""
    wanted = problem.epsilon
    spread = problem.costs.amax(dim=(1, 2)) - problem.costs.amin(dim=(1, 2))
    first = torch.maximum(wanted, spread / FIRST_RANGE)
    fall = float((first / wanted).max())
    if scaling >= 1 or not fall > 1:
        return [wanted]
    stages = math.ceil(math.log(fall) / -math.log(scaling) - 1e-6)
    return [torch.maximum(wanted, first * scaling**k) for k in range(stages)] + [wanted]


def _solution(problem: Problem, g: Tensor, kernel: Kernel) -> Solution:
    """The plan from the kernel at hand: a new one would round differently, by 1e-7 / epsilon."""
    # v_j K_ji = b_j exp((g_j - C_ij) / epsilon) / exp(peak_i), so with s_i = sum_j v_j K_ji
    #     f_i = -epsilon (log s_i + peak_i),   P_ji = a_i v_j K_ji / s_i.
    plan = kernel.values.mul_(_scalings(problem, g, kernel)[:, :, None])
    sums = plan.sum(dim=1)
    f = -problem.epsilon[:, None] * (sums.log() + kernel.peaks)
    plan.mul_((problem.long / sums)[:, None])
    errors = (plan.sum(dim=2) - problem.short).abs().sum(dim=1)
    return Solution(f, g, plan, errors, 0)


def _absorbed(problem: Problem, g: Tensor) -> Kernel:
    """The kernel around g. Points without weight have logarithm -inf and rows of zeros."""
    epsilon = problem.epsilon
    offsets = (g / epsilon[:, None] + problem.short.double().log()).to(problem.costs.dtype)
    logits = (problem.costs / -epsilon[:, None, None]).add_(offsets[:, :, None])
    peaks = logits.amax(dim=1)
    return Kernel(logits.sub_(peaks[:, None]).exp_(), peaks, g)


def _drifts(problem: Problem, g: Tensor, kernel: Kernel) -> bool:
    away = (g - kernel.origin).abs() / problem.epsilon[:, None]
    return float(away.max()) > SAFE_DRIFT


def _scalings(problem: Problem, g: Tensor, kernel: Kernel) -> Tensor:
    """v, [batch, m]."""
    return ((g - kernel.origin) / problem.epsilon[:, None]).exp().to(kernel.values.dtype)


def _worst(missing: Tensor) -> float:
    """The largest marginal error in the batch. Asking waits for the device."""
    return float(missing.abs().sum(dim=1).max())


# --- Newton's method ------------------------------------------------------------------------------


def _ascend_by_newton(
    problem: Problem, g: Tensor, stopping: Stopping
) -> tuple[Tensor, Kernel, int]:
    """Damped Newton steps from g; a step that does not ascend is shortened.

    The function is quasi-self-concordant (a mixture of log-sum-exps), so that a step of length
    log(1 + r) / r in the Newton direction, r being its extent, always ascends. It is also far too
    cautious (140 steps where 40 do), so steps begin at the full length, or at REACH, and fall back
    on it.
    """
    kernel = _absorbed(problem, g)
    place = _look(problem, g, kernel)
    step = _newton_step(place)
    taken = 1
    while taken < stopping.most_iterations and _worst(place.gradient) > stopping.tolerance:
        # 1. A trial step; the kernel is made anew around it if it leads out of the safe range.
        shift = problem.epsilon[:, None] * step.length[:, None] * step.direction
        trial = place.g + shift
        if _drifts(problem, trial, kernel):
            kernel = _absorbed(problem, trial)
        seen = _look(problem, trial, kernel)
        # 2. Problems of the batch in which it ascends go there and take a new direction; the
        # others stay, and try the same direction with a shorter step.
        good = _ascends(place, seen, step)
        place = Iterate(*(_where(good, new, old) for new, old in zip(seen, place, strict=True)))
        renewed, shorter = _newton_step(place), _shortened(step, seen)
        step = Step(*(_where(good, new, old) for new, old in zip(renewed, shorter, strict=True)))
        taken += 1
    return place.g, kernel, min(taken, stopping.most_iterations)


def _look(problem: Problem, g: Tensor, kernel: Kernel) -> Iterate:
    """Height, gradient and Hessian at once: the marginal P 1 is the row sums of Q.

    With s_i = sum_j v_j K_ji and p_i = v K_i / s_i, the law of j given i:

        height   = <b, g> / epsilon - sum_i a_i (log s_i + peak_i)     the semi-dual over epsilon
        Q        = sum_i a_i p_i p_i^T = v v^T * (K diag(a / s^2) K^T)
        gradient = b - sum_i a_i p_i = b - Q 1
    """
    v = _scalings(problem, g, kernel)
    sums = torch.bmm(v[:, None], kernel.values)[:, 0]
    weighted = kernel.values * (problem.long / sums / sums)[:, None]
    spread = (torch.bmm(weighted, kernel.values.mT) * (v[:, :, None] * v[:, None])).double()
    b = problem.short.double()
    reached = (problem.long * (sums.log() + kernel.peaks)).sum(dim=1, dtype=torch.float64)
    height = (b * g).sum(dim=1) / problem.epsilon - reached
    return Iterate(g, height, b - spread.sum(dim=2), spread)


def _newton_step(place: Iterate) -> Step:
    """The solution of (diag(c) - Q) direction = gradient, where c = Q 1.

    Scaled by diag(c)^-1/2 on both sides, so that atoms of weight 1e-12 do not spoil the condition.
    Adding a constant to g changes nothing; the matrix gets that direction back as a rank-one term.
    """
    marginal = place.spread.sum(dim=2)
    root = marginal.clamp_min(TINY).sqrt()
    outer = root[:, :, None] * root[:, None]
    matrix = outer - place.spread / outer
    matrix.diagonal(dim1=1, dim2=2).add_(1 + RIDGE)
    solved = torch.linalg.solve_ex(matrix, (place.gradient / root)[:, :, None])[0][:, :, 0]
    direction = solved / root
    exists = (marginal > 0) | (place.gradient != 0)
    mean = (marginal * direction).sum(dim=1, keepdim=True)
    direction = torch.where(exists, direction - mean, 0)
    extent = (direction.amax(dim=1) - direction.amin(dim=1)).clamp_min(TINY)
    ascent = (place.gradient * direction).sum(dim=1)
    return Step(direction, extent, ascent, (REACH / extent).clamp(max=1))


def _ascends(place: Iterate, seen: Iterate, step: Step) -> Tensor:
    sure = step.length * step.extent <= SURE_STEP
    return sure | (seen.height >= place.height + ASCENT * step.length * step.ascent)


def _shortened(step: Step, seen: Iterate) -> Step:
    """The step, cut by the secant rule on its directional derivative, not below what is sure."""
    derivative = (seen.gradient * step.direction).sum(dim=1)
    secant = step.length * step.ascent / (step.ascent - derivative).clamp_min(TINY)
    sure = torch.log1p(step.extent) / step.extent
    return step._replace(length=torch.maximum(torch.minimum(secant, step.length / 2), sure))


def _where(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.where(condition.view(-1, *(1,) * (first.ndim - 1)), first, second)


# --- Sinkhorn's iteration -------------------------------------------------------------------------


def _ascend_by_sinkhorn(
    problem: Problem, g: Tensor, stopping: Stopping
) -> tuple[Tensor, Kernel, int]:
    """Sinkhorn's iteration from g, looked at every few iterations."""
    taken = 0
    kernel = _absorbed(problem, g)
    while taken < stopping.most_iterations:
        v = _scalings(problem, g, kernel)
        # v <- v * b / (P 1): the short side's marginal is met, then the long side's again.
        for _ in range(min(CHECK_EVERY, stopping.most_iterations - taken)):
            marginal = _short_marginal(problem, v, kernel)
            v = torch.where(problem.short > 0, v * problem.short / marginal, 1)
            v = v.clamp(math.exp(-2 * SAFE_DRIFT), math.exp(2 * SAFE_DRIFT))
            taken += 1
        g = kernel.origin + problem.epsilon[:, None] * v.double().log()
        if _worst(marginal - problem.short) <= stopping.tolerance:
            break
        if _drifts(problem, g, kernel):
            kernel = _absorbed(problem, g)
    return g, kernel, taken


def _short_marginal(problem: Problem, v: Tensor, kernel: Kernel) -> Tensor:
    """P 1, [batch, m]: the long side's marginal is met first."""
    sums = torch.bmm(v[:, None], kernel.values)[:, 0]
    return v * torch.bmm(kernel.values, (problem.long / sums)[:, :, None])[:, :, 0]


# --- a measure and itself -------------------------------------------------------------------------


def solve_symmetric(problem: Problem, stopping: Stopping) -> Solution:
    """Transport of each measure to itself, [batch, n, n]: f = g by symmetry. Uses up the costs.

    The averaged update f <- (f + T f) / 2 (Feydy et al. 2019) halves its error in each iteration
    for kernels of positive type, whatever epsilon. It is multiplicative for every epsilon: the
    diagonal of the kernel is 1, so no sum can vanish.
    """
    weights, epsilon = problem.long, problem.epsilon
    kernel = problem.costs.div_(-epsilon[:, None, None]).exp_()
    u = torch.ones_like(weights)
    taken = 0
    while True:
        reached = torch.bmm(kernel, (weights * u)[:, :, None])[:, :, 0].clamp_min(TINY)
        if taken % CHECK_EVERY == 0 or taken >= stopping.most_iterations:
            errors = (weights * (u * reached - 1)).abs().sum(dim=1)
            if float(errors.max()) <= stopping.tolerance or taken >= stopping.most_iterations:
                break
        u = (u / reached).sqrt()  # u = exp(f / epsilon), so that T f = -epsilon log(K (a u))
        taken += 1
    f = epsilon[:, None] * u.log()
    factor = weights * u
    plan = kernel.mul_(factor[:, :, None]).mul_(factor[:, None])
    return Solution(f, f.double(), plan, errors, taken)
