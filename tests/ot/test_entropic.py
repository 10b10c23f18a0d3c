"""Transport on the sphere: known answers, exact references, both solvers, the divergence."""

import math

import numpy as np
import pytest
import torch

from gdelphi.ot import semidual
from gdelphi.ot.entropic import (
    SinkhornSettings,
    Transport,
    self_transport,
    sinkhorn,
    sinkhorn_divergence,
)
from gdelphi.ot.geometry import (
    COSTS,
    Cost,
    Measures,
    cost_of,
    slope_of,
)
from gdelphi.ot.references import (
    bures_wasserstein2,
    exact_transport_cost,
    exact_wasserstein2,
)
from helpers.sphere_cases import DOUBLE, as_numpy, circle, random_measures

pytestmark = pytest.mark.usefixtures("one_thread")


# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("epsilon", [1.0, 0.05, 1e-3])
def test_between_two_diracs_the_value_is_the_cost(cost: Cost, epsilon: float) -> None:
    angle = 1.2
    x, y = (
        circle(torch.tensor([[0.0]], dtype=DOUBLE)),
        circle(torch.tensor([[angle]], dtype=DOUBLE)),
    )
    expected = 1 - math.cos(angle) if cost == "half squared chord" else angle**2 / 2
    settings = SinkhornSettings(cost=cost, epsilon=epsilon)
    found = sinkhorn(x, y, settings)
    assert found.value.item() == pytest.approx(expected, abs=1e-12)
    assert found.cost.item() == pytest.approx(expected, abs=1e-12)
    divergence = sinkhorn_divergence(x, y, settings)
    assert divergence.value.item() == pytest.approx(expected, abs=1e-12)


def test_the_costs_at_equal_right_angled_and_opposite_points() -> None:
    cosine = torch.tensor([1.0, 1 - 1e-5, 0.0, -1.0], dtype=DOUBLE)
    chord = cost_of(cosine, "half squared chord")
    angle = cost_of(cosine, "half squared angle")
    assert chord.tolist() == [0, pytest.approx(1e-5), 1, 2]
    exact = [0, math.acos(1 - 1e-5) ** 2 / 2, math.pi**2 / 8, math.pi**2 / 2]
    assert angle.tolist() == pytest.approx(exact, rel=1e-3)
    slopes = slope_of(cosine, "half squared angle")
    assert slopes[0] == -1 and slopes[2] == pytest.approx(-math.pi / 2)
    assert slopes.isfinite().all()


def test_the_angle_cost_and_its_slope_run_through_where_the_series_takes_over() -> None:
    cosine = torch.linspace(1 - 4e-3, 1, 401, dtype=DOUBLE)
    exact = torch.arccos(cosine).square() / 2
    assert torch.allclose(cost_of(cosine, "half squared angle"), exact, atol=1e-12, rtol=1e-8)
    slope = slope_of(cosine[:-1], "half squared angle")
    exact_slope = -torch.arccos(cosine[:-1]) / (1 - cosine[:-1].square()).sqrt()
    assert torch.allclose(slope, exact_slope, rtol=1e-8)


def test_a_permutation_costs_nothing_and_is_found() -> None:
    source = random_measures((3, 6, 8), seed=1)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    target = Measures(source.points[:, order], source.weights[:, order])
    found = sinkhorn(source, target, SinkhornSettings(epsilon=2e-3, tolerance=1e-8))
    assert found.cost.abs().max() < 1e-9
    settings = SinkhornSettings(tolerance=1e-9)
    assert sinkhorn_divergence(source, target, settings).value.abs().max() < 1e-12


@pytest.mark.parametrize("turn", [0.1, 0.3])
def test_a_small_turn_of_points_on_a_circle_costs_the_turn(turn: float) -> None:
    """Equally spaced points by less than half their spacing: each goes to its own image."""
    angles = torch.arange(8, dtype=DOUBLE)[None] * (2 * math.pi / 8)
    settings = SinkhornSettings(epsilon=1e-3, tolerance=1e-9)
    found = sinkhorn(circle(angles), circle(angles + turn), settings)
    assert found.cost.item() == pytest.approx(1 - math.cos(turn), rel=1e-6)
    by_angle = SinkhornSettings(cost="half squared angle", epsilon=1e-3, tolerance=1e-9)
    found = sinkhorn(circle(angles), circle(angles + turn), by_angle)
    assert found.cost.item() == pytest.approx(turn**2 / 2, rel=1e-6)


def test_gaussians_in_a_tangent_plane_match_the_closed_form() -> None:
    """Points of small spread near a pole, where the sphere is flat; within 5%, for sampling."""
    scale, size = 0.03, 1000
    generator = np.random.default_rng(3)
    first = np.array([[1.0, 0.3], [0.3, 0.5]]) * scale**2
    second = np.array([[0.4, -0.2], [-0.2, 1.2]]) * scale**2
    means = (np.zeros(2), np.array([2.0, 1.0]) * scale)
    expected = bures_wasserstein2(means, (first, second)) ** 2 / 2
    batches = []
    for mean, covariance in zip(means, (first, second), strict=True):
        flat = generator.multivariate_normal(mean, covariance, size=size)
        points = np.concatenate([flat, np.ones((size, 1))], axis=1)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        weights = torch.full((1, size), 1 / size, dtype=DOUBLE)
        batches.append(Measures(torch.from_numpy(points)[None], weights))
    epsilon = expected / 20
    found = sinkhorn_divergence(*batches, SinkhornSettings(epsilon=epsilon, tolerance=1e-2))
    assert found.value.item() == pytest.approx(expected, rel=0.05)


def test_bures_of_equal_shapes_is_the_distance_of_means() -> None:
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    means = (np.array([0.0, 0.0]), np.array([3.0, 4.0]))
    assert bures_wasserstein2(means, (covariance, covariance)) == pytest.approx(5)
    scaled = bures_wasserstein2((means[0], means[0]), (np.eye(2), 9 * np.eye(2)))
    assert scaled == pytest.approx(math.sqrt(2) * 2)


@pytest.mark.parametrize("cost", COSTS)
def test_as_epsilon_falls_the_cost_tends_to_the_exact_one(cost: Cost) -> None:
    source, target = random_measures((4, 30, 5), seed=4), random_measures((4, 7, 5), seed=5)
    exact = [exact_transport_cost(as_numpy(source, k), as_numpy(target, k), cost) for k in range(4)]
    gaps = []
    for epsilon in (0.1, 0.01, 0.001):
        settings = SinkhornSettings(cost=cost, epsilon=epsilon, tolerance=1e-8)
        found = sinkhorn(source, target, settings)
        assert found.converged.all()
        assert (found.value >= found.cost - 1e-9).all()
        gaps.append(float((found.cost - torch.tensor(exact)).abs().max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-4


def test_exact_w2_of_diracs_is_their_chord() -> None:
    x, y = circle(torch.tensor([[0.0]])), circle(torch.tensor([[1.0]]))
    expected = 2 * math.sin(0.5)
    assert exact_wasserstein2(as_numpy(x, 0), as_numpy(y, 0)) == pytest.approx(expected, rel=1e-6)


# --- the solution is one --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 0.02, 0.001])
@pytest.mark.parametrize("sizes", [(40, 6), (6, 40), (7, 7), (50, 1)])
def test_the_potentials_give_a_plan_with_both_marginals(
    epsilon: float, sizes: tuple[int, int]
) -> None:
    source, target = random_measures((5, sizes[0], 6)), random_measures((5, sizes[1], 6), seed=1)
    found = sinkhorn(source, target, SinkhornSettings(epsilon=epsilon, tolerance=1e-7))
    costs = 1 - source.points @ target.points.mT
    f, g = found.source_potential, found.target_potential
    reference = source.weights[:, :, None] * target.weights[:, None]
    plan = reference * ((f[:, :, None] + g[:, None] - costs) / epsilon).exp()
    assert found.converged.all()
    assert (plan.sum(2) - source.weights).abs().sum(1).max() < 1e-6
    assert (plan.sum(1) - target.weights).abs().sum(1).max() < 1e-6
    assert torch.allclose(found.cost, (plan * costs).sum((1, 2)), atol=1e-7)
    entropy = (plan * (plan / reference).log()).nan_to_num().sum((1, 2))
    assert torch.allclose(found.value, found.cost + epsilon * entropy, atol=1e-7)
    halves = (source.weights * f).sum(1) - (target.weights * g).sum(1)
    assert halves.abs().max() < 1e-12


def test_newton_and_sinkhorn_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = random_measures((4, 30, 5)), random_measures((4, 9, 5), seed=1)
    settings = SinkhornSettings(epsilon=0.05, tolerance=1e-8, most_iterations=5000)
    by_newton = sinkhorn(source, target, settings)
    monkeypatch.setattr(semidual, "NEWTON_SIDE", 0)
    by_iteration = sinkhorn(source, target, settings)
    assert by_newton.converged.all() and by_iteration.converged.all()
    assert by_newton.iterations < by_iteration.iterations / 3
    assert torch.allclose(by_newton.value, by_iteration.value, atol=1e-9)
    assert torch.allclose(by_newton.source_potential, by_iteration.source_potential, atol=1e-7)


@pytest.mark.parametrize("newton_side", [0, 128])
def test_too_few_iterations_are_confessed(
    newton_side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semidual, "NEWTON_SIDE", newton_side)
    source, target = random_measures((4, 30, 5)), random_measures((4, 9, 5), seed=1)
    found = sinkhorn(source, target, SinkhornSettings(epsilon=1e-3, most_iterations=3))
    assert not found.converged.any()
    assert found.iterations == 3
    assert (found.errors > 1e-3).all() and found.value.isfinite().all()


def test_epsilon_scaling_saves_iterations_and_changes_nothing() -> None:
    source, target = random_measures((8, 60, 5)), random_measures((8, 9, 5), seed=1)
    staged = sinkhorn(source, target, SinkhornSettings(epsilon=2e-3, tolerance=1e-8))
    direct = sinkhorn(source, target, SinkhornSettings(epsilon=2e-3, tolerance=1e-8, scaling=1.0))
    assert staged.converged.all() and direct.converged.all()
    assert torch.allclose(staged.value, direct.value, atol=1e-10)
    assert staged.iterations < direct.iterations


@pytest.mark.parametrize("relative", ["mean", "max"])
def test_a_relative_epsilon_follows_each_pairs_costs(relative: str) -> None:
    source, target = random_measures((3, 20, 4)), random_measures((3, 5, 4), seed=1)
    costs = 1 - source.points @ target.points.mT
    mean = (source.weights[:, :, None] * target.weights[:, None] * costs).sum((1, 2))
    expected = 0.1 * (mean if relative == "mean" else costs.amax((1, 2)))
    settings = SinkhornSettings(epsilon=0.1, relative=relative)  # type: ignore[arg-type]
    found = sinkhorn(source, target, settings)
    assert torch.allclose(found.epsilon, expected)
    divergence = sinkhorn_divergence(source, target, settings)
    for k in range(3):
        alone = SinkhornSettings(epsilon=float(expected[k]))
        pair = [Measures(m.points[k : k + 1], m.weights[k : k + 1]) for m in (source, target)]
        by_hand = sinkhorn_divergence(*pair, alone).value
        assert divergence.value[k].item() == pytest.approx(by_hand.item(), abs=1e-7)


# --- the divergence -------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", COSTS)
def test_the_divergence_is_symmetric_positive_and_zero_for_a_measure_and_itself(cost: Cost) -> None:
    source, target = random_measures((6, 25, 5)), random_measures((6, 7, 5), seed=1)
    settings = SinkhornSettings(cost=cost, tolerance=1e-8)
    there = sinkhorn_divergence(source, target, settings)
    back = sinkhorn_divergence(target, source, settings)
    assert there.converged.all()
    assert torch.allclose(there.value, back.value, atol=1e-12)
    assert (there.value > 0.01).all()
    assert sinkhorn_divergence(source, source, settings).value.abs().max() < 1e-9


@pytest.mark.parametrize("own", [True, False])
def test_the_error_of_a_value_is_of_second_order(own: bool) -> None:
    source, target = random_measures((6, 25, 5)), random_measures((6, 7, 5), seed=1)

    def solved(iterations: int) -> Transport:
        settings = SinkhornSettings(epsilon=0.3, tolerance=1e-12, most_iterations=iterations)
        return self_transport(source, settings) if own else sinkhorn(source, target, settings)

    rough, exact = solved(3), solved(100)
    assert rough.errors.max() > 1e-3
    most = (1 if own else 3) * rough.errors.square()
    assert ((rough.value - exact.value).abs() <= most).all()


def test_known_self_terms_may_be_given() -> None:
    source, target = random_measures((6, 25, 5)), random_measures((6, 7, 5), seed=1)
    own, other = self_transport(source).value, self_transport(target).value
    whole = sinkhorn_divergence(source, target).value
    given = sinkhorn_divergence(source, target, source_self=own, target_self=other).value
    assert torch.equal(whole, given)


def test_the_self_term_is_the_transport_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = random_measures((6, 12, 5))
    settings = SinkhornSettings(epsilon=0.03, tolerance=1e-9)
    own = self_transport(measures, settings)
    assert torch.allclose(own.value, sinkhorn(measures, measures, settings).value, atol=1e-10)
    monkeypatch.setattr("gdelphi.ot.entropic.SELF_ENTRIES", 2 * 12**2)
    in_parts = self_transport(measures, settings)
    assert torch.allclose(own.value, in_parts.value, atol=1e-14)
    assert torch.equal(own.epsilon, in_parts.epsilon)
