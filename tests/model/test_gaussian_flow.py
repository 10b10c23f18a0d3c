"""Gaussian clouds under attention in flat space follow the equations of their moments."""

import numpy as np
import pytest

from gdelphi.model.gaussian_flow import (
    FlatAttention,
    FlatKind,
    Gaussian,
    gaussian_cloud,
    gaussian_flow,
    gaussian_study,
    moments,
    particle_flow,
)


def case(kind: FlatKind, seed: int = 0) -> tuple[Gaussian, FlatAttention]:
    random = np.random.default_rng(seed)
    query, key, value, root = (0.5 * random.standard_normal((2, 2)) for _ in range(4))
    start = Gaussian(0.5 * random.standard_normal(2), root @ root.T + 0.3 * np.eye(2))
    return start, FlatAttention(kind, query, key, value)


def largest_gap(one: Gaussian, two: Gaussian) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True))


def test_the_cloud_has_the_moments_of_its_gaussian() -> None:
    start, _ = case("softmax")
    assert largest_gap(moments(*gaussian_cloud(start)), start) < 1e-12


@pytest.mark.parametrize("kind", ["softmax", "l2"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_gaussian_stays_gaussian_and_follows_the_closed_form(kind: FlatKind, seed: int) -> None:
    start, attention = case(kind, seed)
    found = gaussian_study(start, attention, time=1.0, steps=20)
    assert largest_gap(found.particles, start) > 1e-3
    assert largest_gap(found.particles, found.equations) < 1e-7
    assert found.excess < 1e-7


def test_with_one_axis_and_value_one_the_variance_is_the_known_function_of_time() -> None:
    """dS/dt = 2 S^2 from S(0) = 1/4: S = 1 / (4 - 2 t), which would leave all bounds at t = 2."""
    one = np.ones((1, 1))
    start = Gaussian(np.zeros(1), one / 4)
    ended = gaussian_flow(start, FlatAttention("softmax", one, one, one), time=1.0, steps=40)
    assert ended.covariance[0, 0] == pytest.approx(1 / 2, rel=1e-6)


def test_under_the_sigmoid_moments_begin_as_the_equations_say_and_the_cloud_ceases_to_be_gaussian(
) -> None:  # fmt: skip
    """The gap to the equations is of second order in time and the excess of first: halving the time
    divides them by 4 or more, and by 2."""
    start, attention = case("sigmoid")
    found = [gaussian_study(start, attention, time=time, steps=10) for time in (0.4, 0.2, 0.01)]
    gaps = [largest_gap(each.particles, each.equations) for each in found]
    assert gaps[1] < gaps[0] / 3.5
    assert found[0].excess > 1.7 * found[1].excess > 1e-3
    assert gaps[2] < 1e-4 * largest_gap(found[2].particles, start)
    assert gaps[0] < 0.05 * largest_gap(found[0].particles, start)


def test_a_sample_of_particles_follows_the_equations_up_to_its_sampling_error() -> None:
    start, attention = case("softmax")
    points = np.random.default_rng(1).multivariate_normal(*start, size=1_000)
    weights = np.full(1_000, 1e-3)
    moved = particle_flow(points, weights, attention, time=0.5, steps=4)
    expected = gaussian_flow(moments(points, weights), attention, time=0.5, steps=4)
    assert largest_gap(moments(moved, weights), expected) < 0.05
