"""Flows of a free energy have the heat equation and the Gibbs measure as their known answers."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray
from gdelphi.ot.gradient_flow import FreeEnergy, free_energy, jko_step, particle_flow
from helpers.sphere_cases import unit

pytestmark = pytest.mark.usefixtures("one_thread")

LINE: FloatArray = np.linspace(-4, 4, 81)[:, None]


def bell(mean: float, variance: float) -> FloatArray:
    weights = np.exp(-np.square(LINE[:, 0] - mean) / (2 * variance))
    return weights / weights.sum()


def variance_of(weights: Tensor) -> float:
    line = torch.from_numpy(LINE[:, 0])
    return float(weights @ line**2 - (weights @ line) ** 2)


def well(points: Tensor) -> Tensor:
    """U, around 1/2."""
    return (points[:, 0] - 0.5) ** 2 / 2


# --- forward --------------------------------------------------------------------------------------


def test_without_energy_particles_spread_as_heat_does() -> None:
    """The variance grows by 2 tau t along each axis; 4,000 particles, four standard errors."""
    ended = particle_flow(
        np.zeros((4_000, 2)), energy=FreeEnergy(temperature=0.7), time=0.5, steps=3
    )
    error = 4 * math.sqrt(2 / 4_000)
    torch.testing.assert_close(ended.var(dim=0), torch.full((2,), 0.7).double(), rtol=error, atol=0)


def test_on_the_sphere_heat_draws_the_mean_to_the_centre() -> None:
    """Coordinates are eigenfunctions of the Laplacian: E x(t) = exp(-(d - 1) tau t) x(0)."""
    start = np.tile(np.eye(3)[:1], (4_000, 1))
    energy = FreeEnergy(temperature=0.5, sphere=True)
    ended = particle_flow(start, energy=energy, time=0.6, steps=30)
    torch.testing.assert_close(ended.norm(dim=1), torch.ones(4_000).double())
    assert float(ended[:, 0].mean()) == pytest.approx(math.exp(-2 * 0.5 * 0.6), abs=0.03)


def test_particles_come_to_rest_in_the_gibbs_measure() -> None:
    """exp(-U / tau): N(1/2, tau) for a parabola; a von Mises-Fisher law on the sphere, whose mean
    is coth(k) - 1/k for U = -k tau <x, e>."""
    ended = particle_flow(
        np.full((4_000, 1), -2.0), energy=FreeEnergy(well, 0.6), time=6.0, steps=120
    )
    assert float(ended.mean()) == pytest.approx(0.5, abs=0.06)
    assert float(ended.var()) == pytest.approx(0.6, rel=0.1)
    steep = 2.0
    drawn = FreeEnergy(lambda points: -steep * points[:, 0], 1.0, sphere=True)
    start = unit(torch.randn(4_000, 3, generator=torch.Generator().manual_seed(1)).double())
    ended = particle_flow(start, energy=drawn, time=2.0, steps=80)
    assert float(ended[:, 0].mean()) == pytest.approx(1 / math.tanh(steep) - 1 / steep, abs=0.03)


def test_particles_that_attract_each_other_draw_together_around_their_mean() -> None:
    """w = |x - y|^2 / 2 without noise: each x goes to the mean as exp(-t)."""

    def attraction(one: Tensor, other: Tensor) -> Tensor:
        return torch.cdist(one, other).square() / 2

    start = np.array([[-1.0], [0.0], [3.0]])
    weights = np.array([0.25, 0.5, 0.25])
    energy = FreeEnergy(temperature=0.0, interaction=attraction)
    ended = particle_flow(start, weights, energy=energy, time=1.0, steps=400)
    expected = torch.from_numpy(0.5 + (start - 0.5) * math.exp(-1))
    torch.testing.assert_close(ended, expected, rtol=0, atol=2e-3)


# --- backward -------------------------------------------------------------------------------------


def test_proximal_steps_without_energy_are_the_heat_equation() -> None:
    """Variance 0.3 + 2 tau t. With blur = 2 h tau a step is the heat kernel itself; with a smaller
    one it is a proximal step, whose own error is of order h."""
    for blur, tolerance in ((0.1, 1e-3), (None, 0.03)):
        weights = torch.from_numpy(bell(0.0, 0.3))
        for _ in range(6):
            weights = jko_step(
                LINE, weights, energy=FreeEnergy(temperature=1.0), step=0.05, blur=blur
            ).weights
        assert variance_of(weights) == pytest.approx(0.3 + 2 * 6 * 0.05, rel=tolerance)


def test_proximal_steps_go_down_the_free_energy_to_the_gibbs_measure() -> None:
    energy = FreeEnergy(well, 0.5)
    weights = torch.from_numpy(bell(-1.0, 0.3))
    heights = [free_energy(LINE, weights, energy=energy)]
    for _ in range(16):
        found = jko_step(LINE, weights, energy=energy, step=0.4, blur=0.1)
        assert found.error <= 1e-8
        weights = found.weights
        heights.append(free_energy(LINE, weights, energy=energy))
    assert all(after <= before + 1e-9 for before, after in pairwise(heights))
    gibbs = bell(0.5, 0.5)
    assert float((weights - torch.from_numpy(gibbs)).abs().sum()) < 0.03
    assert heights[-1] == pytest.approx(free_energy(LINE, gibbs, energy=energy), abs=2e-3)


def test_a_step_is_the_minimum_of_the_proximal_problem() -> None:
    """At the smallest energy no small move of mass gains: by finite differences, with W2 exact."""
    energy, step = FreeEnergy(well, 0.5), 0.4
    few: FloatArray = np.linspace(-2, 3, 41)[:, None]
    before = np.exp(-np.square(few[:, 0]) / 0.6)
    before /= before.sum()
    after = jko_step(few, before, energy=energy, step=step, blur=0.04).weights.numpy()

    def value(weights: FloatArray) -> float:
        """W2^2 / 2 on the line by quantiles, and h F."""
        levels = np.linspace(0, 1, 20_001)[1:-1]
        places = [
            np.interp(levels, np.cumsum(each) - each / 2, few[:, 0]) for each in (before, weights)
        ]
        moved = np.square(places[0] - places[1]).mean() / 2
        return float(moved) + step * free_energy(few, weights, energy=energy)

    least = value(after)
    for shift in (-2, 2):
        assert value(np.roll(after, shift)) > least
    for power in (0.8, 1.25):
        wider = after**power
        assert value(wider / wider.sum()) > least


def test_on_the_sphere_weights_come_to_the_gibbs_measure_on_their_points() -> None:
    points = unit(torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).double())
    energy = FreeEnergy(lambda x: -1.5 * x[:, 0], 1.0, sphere=True)
    weights: Tensor | FloatArray = np.full(60, 1 / 60)
    for _ in range(30):
        weights = jko_step(points, weights, energy=energy, step=0.2, blur=0.2).weights
    gibbs = (1.5 * points[:, 0]).softmax(dim=0)
    gap = float((torch.as_tensor(weights) - gibbs).abs().sum())
    assert gap < 0.3 * float((1 / 60 - gibbs).abs().sum())  # few points: the blur sees their gaps


def test_senseless_blurs_and_weights_are_refused() -> None:
    with pytest.raises(TransportError, match="at most twice"):
        jko_step(LINE, bell(0, 1), energy=FreeEnergy(), step=0.1, blur=0.3)
    with pytest.raises(TransportError, match="as many weights"):
        jko_step(LINE, np.zeros(81), energy=FreeEnergy(), step=0.1)
