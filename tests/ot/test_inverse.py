"""A planted cost is found again from pairs, and the loss is what it is said to be."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray
from gdelphi.ot.inverse import (
    Coupling,
    InverseSettings,
    forward_plan,
    inverse_loss,
    recover_cost,
    sample_coupling,
    slot_shares,
)

PLANTED = np.array([2.0, 0.5, 1.0])
BALANCED = InverseSettings()
UNBALANCED = InverseSettings(relaxation=1.0)
SHARPENED = InverseSettings(relaxation=1.0, sharpness=2.0)
EACH = pytest.mark.parametrize(
    "settings", [BALANCED, UNBALANCED, SHARPENED], ids=["balanced", "unbalanced", "sharpened"]
)


def planted(settings: InverseSettings, seed: int = 0) -> Coupling:
    """The coupling of three features on 10 x 9 points with the planted cost."""
    random = np.random.default_rng(seed)
    one, two = (random.standard_normal((3, n, 4)) for n in (10, 9))
    one, two = (each / np.linalg.norm(each, axis=2, keepdims=True) for each in (one, two))
    features = 1 - np.einsum("kni,kmi->knm", one, two)
    a, b = (random.dirichlet(np.full(n, 3.0)) for n in (10, 9))
    empty = Coupling(np.zeros((10, 9)), features, a, b)
    return empty._replace(observed=forward_plan(PLANTED, empty, settings))


def error(coupling: Coupling, settings: InverseSettings) -> float:
    return float(np.linalg.norm(recover_cost(coupling, settings).theta - PLANTED))


@EACH
def test_the_whole_coupling_gives_the_cost_back(settings: InverseSettings) -> None:
    coupling = planted(settings)
    found = recover_cost(coupling, settings)
    np.testing.assert_allclose(found.theta, PLANTED, atol=1e-4)
    assert abs(found.loss) < 1e-8


@EACH
def test_the_error_falls_with_the_sample_as_one_over_its_root(settings: InverseSettings) -> None:
    """From 200 to 12,800 pairs it should fall by 8; four samples of each."""
    coupling = planted(settings)

    def mean_error(pairs: int) -> float:
        samples = (
            sample_coupling(coupling.observed, pairs, np.random.default_rng(seed))
            for seed in range(4)
        )
        return float(np.mean([error(coupling._replace(observed=q), settings) for q in samples]))

    few, many = mean_error(200), mean_error(12_800)
    assert 4 < few / many < 20
    assert many < 0.1


@EACH
def test_the_loss_is_convex_above_zero_and_has_the_gradient_that_it_says(
    settings: InverseSettings,
) -> None:
    coupling = planted(settings)
    random = np.random.default_rng(3)
    sampled = sample_coupling(coupling.observed, 100, random)
    coupling = coupling._replace(observed=sampled)

    def value(theta: FloatArray) -> float:
        return inverse_loss(theta, coupling, settings).value

    one, two = random.uniform(0, 3, (2, 3))
    assert value(one) > 0
    assert value((one + two) / 2) <= (value(one) + value(two)) / 2
    slope = approx_fprime(one, value, 1e-6)
    np.testing.assert_allclose(inverse_loss(one, coupling, settings).gradient, slope, atol=1e-4)


def test_sharpening_makes_the_loss_smaller_and_keeps_its_zero() -> None:
    coupling = planted(UNBALANCED)
    other = np.array([1.0, 1.0, 1.0])
    values = [
        inverse_loss(other, coupling, InverseSettings(relaxation=1.0, sharpness=sharp)).value
        for sharp in (0.0, 0.5, 5.0)
    ]
    assert values[0] > values[1] > values[2] > 0
    for sharp in (0.0, 5.0):
        chosen = InverseSettings(relaxation=1.0, sharpness=sharp)
        assert abs(inverse_loss(PLANTED, coupling, chosen).value) < 1e-9


def test_sharpening_helps_where_the_reference_weights_are_wrong() -> None:
    """Believed weights are off by a third: the plain loss charges that to the cost."""
    coupling = planted(UNBALANCED)
    random = np.random.default_rng(5)
    wrong = [side * np.exp(0.3 * random.standard_normal(len(side)))
             for side in (coupling.source, coupling.target)]  # fmt: skip
    believed = coupling._replace(source=wrong[0], target=wrong[1])
    sharp = InverseSettings(relaxation=1.0, sharpness=30.0)
    assert error(believed, sharp) < 0.5 * error(believed, UNBALANCED)


def test_an_unbalanced_plan_loses_mass_where_it_is_dear_and_a_balanced_one_does_not() -> None:
    free, held = planted(UNBALANCED).observed, planted(BALANCED)
    assert 0.05 < free.sum() < 0.9
    np.testing.assert_allclose(held.observed.sum(axis=1), held.source, atol=1e-7)
    np.testing.assert_allclose(held.observed.sum(axis=0), held.target, atol=1e-7)


def test_points_that_no_pair_has_do_no_harm() -> None:
    coupling = planted(BALANCED)
    seen = coupling.observed.copy()
    seen[0], seen[:, 2] = 0, 0
    found = recover_cost(coupling._replace(observed=seen / seen.sum()))
    assert np.isfinite(found.theta).all()
    assert math.isfinite(found.loss)


@pytest.mark.parametrize(
    "settings", [InverseSettings(tolerance=1e-7), InverseSettings(relaxation=1.0, sharpness=1.0)]
)
def test_slot_shares_find_the_slot_that_links_pairs(settings: InverseSettings) -> None:
    """The first slot stays nearly as it is from one day to the next, the second a little, the third
    not at all."""
    random = np.random.default_rng(0)
    before = [random.standard_normal((60, 4)) for _ in range(3)]
    noises = (1.0, 4.0, 100.0)
    after = [one + noise * random.standard_normal((60, 4))
             for one, noise in zip(before, noises, strict=True)]  # fmt: skip
    units = [
        [one / np.linalg.norm(one, axis=1, keepdims=True) for one in side]
        for side in (before, after)
    ]
    found = slot_shares(*units, settings)
    assert found.shares.sum() == pytest.approx(1)
    assert found.shares[0] > 0.6
    assert found.shares[1] > found.shares[2]
    assert 0 < found.loss < found.without


def test_senseless_settings_and_shapes_are_refused() -> None:
    with pytest.raises(TransportError, match="above 0"):
        InverseSettings(epsilon=0.0)
    coupling = planted(BALANCED)
    with pytest.raises(TransportError, match="same pairs"):
        recover_cost(coupling._replace(observed=np.ones((2, 2))))
