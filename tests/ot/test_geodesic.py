"""The path of least effort has constant speed and the ends that it was given."""

from itertools import pairwise

import numpy as np
import pytest

from gdelphi.common.errors import TransportError
from gdelphi.common.types import Measure
from gdelphi.ot.geodesic import geodesic
from gdelphi.ot.references import (
    bures_wasserstein2,
    exact_plan,
    exact_transport_cost,
    exact_wasserstein2,
)
from helpers.sphere_cases import as_numpy, random_measures

TIMES = (0.0, 0.2, 0.5, 0.9, 1.0)


def angular_w2(one: Measure, two: Measure) -> float:
    return float(np.sqrt(max(0.0, 2 * exact_transport_cost(one, two, "half squared angle"))))


def pair(seed: int = 0) -> tuple[Measure, Measure]:
    return (
        as_numpy(random_measures((1, 12, 5), seed), 0),
        as_numpy(random_measures((1, 7, 5), seed + 10), 0),
    )


def test_on_the_sphere_the_speed_is_constant_and_is_the_distance() -> None:
    source, target = pair()
    path = geodesic(source, target)
    assert path.length == pytest.approx(angular_w2(source, target), rel=1e-5)
    for early in TIMES:
        for late in TIMES:
            if early < late:
                found = angular_w2(path.at(early), path.at(late))
                assert found == pytest.approx((late - early) * path.length, rel=1e-4)


def test_it_begins_at_the_source_ends_at_the_target_and_stays_on_the_sphere() -> None:
    source, target = pair(1)
    path = geodesic(source, target)
    assert exact_wasserstein2(path.at(0.0), source) < 1e-3
    assert exact_wasserstein2(path.at(1.0), target) < 1e-3
    for time in TIMES:
        lengths = np.linalg.norm(path.points(time), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-12)


def test_no_other_coupling_is_shorter_and_the_energy_is_the_squared_distance() -> None:
    source, target = pair(2)
    path = geodesic(source, target)
    product = np.outer(source.weights, target.weights)
    cosine = np.clip(source.points.astype(float) @ target.points.T.astype(float), -1, 1)
    assert path.length**2 < float((product * np.arccos(cosine) ** 2).sum())
    steps = np.linspace(0, 1, 401)
    action = 0.0  # the integral of |v|^2 along the way, by differences
    for early, late in pairwise(steps):
        speed = np.linalg.norm(path.points(late) - path.points(early), axis=1) * 400
        action += float(path.masses @ speed**2) / 400
    assert action == pytest.approx(path.length**2, rel=1e-3)


def test_in_flat_space_a_shifted_and_scaled_cloud_moves_along_lines() -> None:
    random = np.random.default_rng(0)
    points = random.standard_normal((30, 2))
    points -= points.mean(axis=0)
    even = np.full(30, 1 / 30)
    target = Measure(3 + 2 * points, even)
    path = geodesic(Measure(points, even), target, sphere=False)
    covariance = points.T @ points / 30
    known = bures_wasserstein2((np.zeros(2), np.full(2, 3.0)), (covariance, 4 * covariance))
    assert path.length == pytest.approx(known, rel=1e-9)
    middle = path.points(0.5)
    np.testing.assert_allclose(np.sort(middle, axis=0), np.sort(1.5 + 1.5 * points, axis=0))


def test_opposite_points_are_joined_by_a_great_circle_and_equal_ones_stay() -> None:
    pole, all_of_it = np.eye(3)[:1], np.ones(1)
    across = geodesic(Measure(pole, all_of_it), Measure(-pole, all_of_it))
    assert across.length == pytest.approx(np.pi)
    half = across.points(0.5)
    assert np.linalg.norm(half) == pytest.approx(1)
    assert float(half[0] @ pole[0]) == pytest.approx(0, abs=1e-9)
    still = geodesic(Measure(pole, all_of_it), Measure(pole, all_of_it))
    np.testing.assert_allclose(still.points(0.5), pole)


def test_the_plan_has_its_marginals_and_senseless_questions_are_refused() -> None:
    source, target = pair(3)
    plan = exact_plan(source, target, "half squared chord")
    np.testing.assert_allclose(plan.sum(axis=1), source.weights, atol=1e-9)
    np.testing.assert_allclose(plan.sum(axis=0), target.weights, atol=1e-9)
    with pytest.raises(TransportError, match="runs from 0 to 1"):
        geodesic(source, target).at(1.2)
    with pytest.raises(TransportError, match="empty measure"):
        geodesic(source, Measure(np.zeros((0, 5), np.float32), np.zeros(0)))
