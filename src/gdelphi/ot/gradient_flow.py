"""Wasserstein gradient flows of a free energy: forward by particles, backward by proximal steps.

    F(mu) = integral of U dmu + 1/2 double integral of w dmu dmu + tau integral of ln mu dmu

Its gradient flow is the Fokker-Planck equation d mu/dt = div(mu grad(U + w * mu)) + tau Laplace mu
(Jordan, Kinderlehrer, Otto 1998): the heat equation if U = w = 0, with exp(-U / tau) as its
stationary state if w = 0.

forward   particles x <- x - h grad(U + w * mu)(x) + sqrt(2 tau h) noise, on flat space or along
          the sphere by its exponential map; the points move and their weights stay.
backward  mu <- argmin_p W2^2(p, mu) / 2 + h F(p) on points that stay while their weights move. W2
          is taken entropic with a blur (Peyré 2015), and the step is Sinkhorn's iteration with a
          proximal map in place of one marginal: unconditionally stable, no noise, no particles.

The blur. Transport with the entropy KL(P | mu x r) against the reference r spreads p by the
blur, with KL(P | mu x p) it draws p together by as much. The difference is blur KL(p | r), a
temperature of blur / h. Half of it is taken off tau, and the two errors cancel to first order; this
needs blur <= 2 h tau.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray
from gdelphi.ot.geometry import cost_of


@dataclass(frozen=True)
class FreeEnergy:
    """What a cloud flows down."""

    potential: Callable[[Tensor], Tensor] | None = None
    """U, [n], of points [n, dim]; differentiable. None: 0"""
    temperature: float = 1.0
    """tau"""
    interaction: Callable[[Tensor, Tensor], Tensor] | None = None
    """w, [n, m], of points [n, dim] and [m, dim], symmetric. None: 0"""
    sphere: bool = False
    """on the unit sphere, else in flat space"""

    def felt(self, points: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """U + w * mu at points [n, dim], with mu on other points [m, dim]; [n]."""
        felt = points.new_zeros(len(points))
        if self.potential is not None:
            felt = felt + self.potential(points)
        if self.interaction is not None:
            felt = felt + self.interaction(points, others) @ weights
        return felt


# --- forward --------------------------------------------------------------------------------------


def particle_flow(
    points: Tensor | FloatArray,
    weights: Tensor | FloatArray | None = None,
    *,
    energy: FreeEnergy,
    time: float,
    steps: int,
    seed: int = 0,
) -> Tensor:
    """Points [n, dim] after some time, in float64; weights [n] are even if none are given."""
    places = _double(points)
    masses = _masses(weights, len(places))
    step = time / steps
    generator = torch.Generator().manual_seed(seed)
    noise_scale = math.sqrt(2 * energy.temperature * step)
    for _ in range(steps):
        leaf = places.detach().requires_grad_()
        with torch.enable_grad():
            felt = energy.felt(leaf, places, masses).sum()
        slope = torch.autograd.grad(felt, leaf)[0] if felt.requires_grad else 0.0
        noise = torch.randn(places.shape, generator=generator, dtype=places.dtype)
        moved = noise_scale * noise - step * slope
        places = _exponential(places, moved) if energy.sphere else places + moved
    return places


def _exponential(points: Tensor, moved: Tensor) -> Tensor:
    """Along the great circles that begin at points in directions `moved`."""
    along = moved - (moved * points).sum(dim=1, keepdim=True) * points
    length = along.norm(dim=1, keepdim=True)
    there = points * length.cos() + along * torch.sinc(length / math.pi)
    return torch.nn.functional.normalize(there, dim=1)


# --- backward -------------------------------------------------------------------------------------


class ProximalStep(NamedTuple):
    """The weights after a step."""

    weights: Tensor
    """[n]"""
    iterations: int
    error: float
    """sum of the absolute errors of the marginal that is to be kept"""


def jko_step(
    points: Tensor | FloatArray,
    weights: Tensor | FloatArray,
    *,
    energy: FreeEnergy,
    step: float,
    blur: float | None = None,
    reference: Tensor | FloatArray | None = None,
    tolerance: float = 1e-8,
    most_iterations: int = 2_000,
) -> ProximalStep:
    """One proximal step of a measure on fixed points [n, dim] with weights [n].

    `reference` [n] is the volume of each point's cell, even if not given; `blur` is step times
    temperature if not given. The interaction is felt as it was before the step. A result that is
    not within the tolerance has a larger `error`.
    """
    places, before = _double(points), _masses(weights, len(points))
    cells = _masses(reference, len(places))
    wide = step * energy.temperature if blur is None else blur
    if not 0 < wide <= 2 * step * energy.temperature:
        raise TransportError(
            f"a blur of {wide:g} with step {step:g} and temperature {energy.temperature:g}: it "
            "must be above 0 and at most twice their product"
        )
    # P_ij = q_i r_j exp((f_i + g_j - c_ij) / blur), with rho = p / r:
    # 1. f = -blur ln sum_j r_j exp((g_j - c_ij) / blur)       the measure before is left
    # 2. ln rho = (blur ln sum_i q_i exp((f_i - c_ij) / blur) - h U) / (blur / 2 + h tau)
    # 3. g = -h U - (h tau - blur / 2) ln rho                    the proximal map of F
    rise = step * energy.felt(places, places, before)
    kernel = -_half_squares(places, sphere=energy.sphere) / wide
    log_q, log_r = before.log(), cells.log()
    own = step * energy.temperature - wide / 2
    g = torch.zeros_like(before)
    taken, error = 0, math.inf
    while error > tolerance and taken < most_iterations:
        taken += 1
        f = -torch.logsumexp(kernel + (g / wide + log_r)[None], dim=1)
        reached = torch.logsumexp(kernel + (f + log_q)[:, None], dim=0)
        log_rho = (wide * reached - rise) / (wide + own)
        g = -rise - own * log_rho
        kept = torch.logsumexp(kernel + (g / wide + log_r)[None], dim=1) + f
        error = float((before * (kept.exp() - 1).abs()).sum())
    after = (log_rho + log_r).exp()
    return ProximalStep(after / after.sum(), taken, error)


def free_energy(
    points: Tensor | FloatArray,
    weights: Tensor | FloatArray,
    *,
    energy: FreeEnergy,
    reference: Tensor | FloatArray | None = None,
) -> float:
    """F of a measure on fixed points, its entropy against the reference."""
    places, masses = _double(points), _masses(weights, len(points))
    cells = _masses(reference, len(places))
    value = energy.temperature * torch.special.xlogy(masses, masses / cells).sum()
    if energy.potential is not None:
        value = value + energy.potential(places) @ masses
    if energy.interaction is not None:
        value = value + masses @ energy.interaction(places, places) @ masses / 2
    return float(value)


def _half_squares(points: Tensor, *, sphere: bool) -> Tensor:
    """Half the squared distance of each pair of points, [n, n]."""
    if sphere:
        return cost_of(points @ points.T, "half squared angle")
    squares = points.square().sum(dim=1)
    return ((squares[:, None] + squares) / 2 - points @ points.T).clamp_min(0)


def _double(values: Tensor | FloatArray) -> Tensor:
    given = values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))
    return given.detach().double()


def _masses(weights: Tensor | FloatArray | None, number: int) -> Tensor:
    """Weights [n] summing to 1; even if none are given."""
    masses = torch.ones(number, dtype=torch.float64) if weights is None else _double(weights)
    if masses.shape != (number,) or not bool((masses >= 0).all() and masses.sum() > 0):
        raise TransportError(f"{number} points need as many weights, not negative and not all 0")
    return masses / masses.sum()
