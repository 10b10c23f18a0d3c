"""From expected rows to targets: closed forms, determinism, agreement with what is drawn anew."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import nbinom

from gdelphi.common.types import FloatArray
from gdelphi.measures.targets import headline_of
from gdelphi.stack.count_targets import (
    POOL_SIZE,
    row_weight_pool,
    target_chances,
    zero_mass,
)
from helpers.profiles import random_profiles

ROOTS = 12


@pytest.fixture(scope="module")
def pool() -> FloatArray:
    generator = np.random.default_rng(1)
    return np.log1p(generator.integers(1, 12, (ROOTS, POOL_SIZE)).astype(np.float64))


def chances(
    expected: FloatArray,
    pool: FloatArray,
    *,
    ordinals: list[int],
    threshold: float = 0.1,
    samples: int = 2000,
    seed: int = 0,
) -> dict[str, FloatArray]:
    shapes = np.full(expected.shape[1:], 2.0)
    return target_chances(
        expected,
        shapes,
        pool,
        np.full(expected.shape, threshold),
        ordinals=np.array(ordinals),
        samples=samples,
        seed=seed,
    )


def test_the_probability_of_no_row_is_that_of_the_law() -> None:
    expected, shapes = np.array([0.0, 0.3, 4.0, 200.0]), np.array([0.2, 1.0, 3.0, 50.0])
    np.testing.assert_allclose(
        zero_mass(expected, shapes), nbinom.pmf(0, shapes, shapes / (shapes + expected))
    )
    assert zero_mass(np.array(2.0), np.array(1e9)) == pytest.approx(np.exp(-2))  # Poisson


def test_occurs_is_in_closed_form(pool: FloatArray) -> None:
    expected = np.random.default_rng(0).uniform(0, 5, (1, 2, ROOTS))
    found = chances(expected, pool, ordinals=[5], samples=10)["occurs"]
    np.testing.assert_array_equal(found, 1 - zero_mass(expected, np.array(2.0)))


def test_a_day_does_not_depend_on_the_others(pool: FloatArray) -> None:
    expected = np.random.default_rng(0).uniform(0, 60, (4, 3, ROOTS))
    together = chances(expected, pool, ordinals=[11, 12, 13, 14], samples=100)
    alone = chances(expected[2:3], pool, ordinals=[13], samples=100)
    turned = chances(expected[::-1].copy(), pool, ordinals=[14, 13, 12, 11], samples=100)
    for target, values in together.items():
        np.testing.assert_array_equal(values[2], alone[target][0])
        np.testing.assert_array_equal(values, turned[target][::-1])


def test_days_and_seeds_draw_differently(pool: FloatArray) -> None:
    expected = np.full((2, 1, ROOTS), 3.0)
    found = chances(expected, pool, ordinals=[1, 2], samples=100)["headline"]
    other = chances(expected, pool, ordinals=[1, 2], samples=100, seed=1)["headline"]
    assert (found[0] != found[1]).any()
    assert (found != other).any()


def test_headlines_and_surges_are_those_of_days_drawn_row_by_row(pool: FloatArray) -> None:
    generator = np.random.default_rng(7)
    expected = generator.gamma(0.5, 6.0, (1, 1, ROOTS))
    expected[0, 0, 0] = 70.0  # more rows than are added up
    found = chances(expected, pool, ordinals=[700_000], samples=4000)
    rows = generator.poisson(expected[0, 0] * generator.gamma(2.0, 0.5, (4000, ROOTS)))
    weights = np.array(
        [[generator.choice(pool[root], n).sum() for root, n in enumerate(day)] for day in rows]
    )
    headline = headline_of(weights).mean(axis=0)
    surge = (weights / weights.sum(axis=1, keepdims=True) > 0.1).mean(axis=0)
    np.testing.assert_allclose(found["headline"][0, 0], headline, atol=0.04)
    np.testing.assert_allclose(found["surge"][0, 0], surge, atol=0.04)


def test_ties_go_to_the_earlier_code() -> None:
    ones = np.ones((ROOTS, POOL_SIZE))
    shapes = np.full((1, ROOTS), 1e9)
    found = target_chances(
        np.full((1, 1, ROOTS), 1e3), shapes, ones * 0 + 1, np.full((1, 1, ROOTS), 0.1),
        ordinals=np.array([1]), samples=50, seed=0,
    )  # fmt: skip
    assert found["headline"].sum() == pytest.approx((5 * 50 + ROOTS / 2) / 51)
    nothing = chances(np.full((1, 1, ROOTS), 1e-12), ones, ordinals=[1], samples=50)
    assert (nothing["headline"] == 0.5 / 51).all()


def test_surges_without_a_threshold_are_undefined(pool: FloatArray) -> None:
    found = chances(np.ones((1, 2, ROOTS)), pool, ordinals=[1], threshold=np.nan, samples=20)
    assert np.isnan(found["surge"]).all()
    assert not np.isnan(found["headline"]).any()


def test_the_pool_has_weights_of_single_rows() -> None:
    roots = random_profiles(4, 200, seed=2)
    pool = row_weight_pool(roots, 150)
    assert pool.shape == (8, POOL_SIZE)
    single = roots.counts[:, :150] == 1
    assert np.isin(pool, roots.weights[:, :150][single]).all()
    np.testing.assert_array_equal(pool, row_weight_pool(roots, 150))
    later = replace(roots, weights=np.where(np.arange(200)[:, None] < 150, roots.weights, 99.0))
    np.testing.assert_array_equal(pool, row_weight_pool(later, 150))


def test_a_pool_without_single_rows() -> None:
    roots = random_profiles(1, 100)
    many = replace(roots, counts=np.full_like(roots.counts, 4), weights=roots.counts * 0 + 6.0)
    assert (row_weight_pool(many, 100) == 1.5).all()
    none = replace(roots, counts=roots.counts * 0, weights=roots.weights * 0)
    assert row_weight_pool(none, 100) == pytest.approx(np.log(2))


def test_sums_that_are_kept_are_those_of_the_pool_as_it_is(pool: FloatArray) -> None:
    expected, own = np.full((1, 1, ROOTS), 3.0), pool.copy()

    def rates() -> FloatArray:
        return chances(expected, own, ordinals=[5], samples=500)["surge"]

    first = rates()
    own[0] *= 10  # in its place: the same array with another content
    changed = rates()
    assert changed[0, 0, 0] > first[0, 0, 0]
    np.testing.assert_array_equal(
        changed, chances(expected, own.copy(), ordinals=[5], samples=500)["surge"]
    )
    own[0] = pool[0]
    np.testing.assert_array_equal(rates(), first)
