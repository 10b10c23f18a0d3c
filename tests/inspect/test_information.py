"""Entropies keep their inequalities, and the tangent kernel is one."""

from itertools import pairwise

import numpy as np
import pytest

from gdelphi.inspect.entropy import (
    entropy,
    equality_gram,
    gaussian_gram,
    joint,
    mutual_information,
)
from gdelphi.inspect.information import layer_information
from gdelphi.inspect.tangent_kernel import TangentKernel

ORDERS = (0.3, 0.5, 0.99, 1.01, 2.0, 5.0)
random = np.random.default_rng(0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", ["gaussian", "equality"])
def test_a_joint_entropy_is_at_least_each_and_at_most_the_sum(order: float, kernel: str) -> None:
    for _ in range(5):
        if kernel == "gaussian":
            one = gaussian_gram(random.normal(size=(24, 3)))
            other = gaussian_gram(random.normal(size=(24, 1)) ** 3)
        else:
            one = equality_gram(random.integers(4, size=24))
            other = equality_gram(random.integers(6, size=24))
        parts = entropy(one, order), entropy(other, order)
        both = entropy(joint(one, other), order)
        assert both >= max(parts) - 1e-9
        if order <= 2:
            assert both <= sum(parts) + 1e-9
        assert all(0 <= part <= np.log2(24) + 1e-9 for part in parts)
        assert mutual_information(one, other, order) == pytest.approx(sum(parts) - both)


def test_the_sum_bounds_no_joint_entropy_of_a_high_order() -> None:
    """Renyi entropies of an order far from 1 are not subadditive; shares may be negative then."""
    sources = np.random.default_rng(0)
    shared = [
        mutual_information(
            gaussian_gram(sources.normal(size=(24, 3))),
            gaussian_gram(sources.normal(size=(24, 1)) ** 3),
            5.0,
        )
        for _ in range(10)
    ]
    assert min(shared) < 0


def test_entropies_in_closed_form() -> None:
    """Labels: the Renyi entropy of their shares; no labels alike: log2 N; all alike: 0."""
    labels = np.array([0, 0, 0, 1])
    shares = np.array([0.75, 0.25])
    for order in ORDERS:
        wanted = np.log2((shares**order).sum()) / (1 - order)
        assert entropy(equality_gram(labels), order) == pytest.approx(wanted)
        assert entropy(equality_gram(np.arange(8)), order) == pytest.approx(3.0)
        assert entropy(gaussian_gram(np.ones((8, 2))), order) == pytest.approx(0.0, abs=1e-6)
    shannon = float(-(shares * np.log2(shares)).sum())
    assert entropy(equality_gram(labels), 1.0) == pytest.approx(shannon)
    assert entropy(equality_gram(labels), 1.0001) == pytest.approx(shannon, abs=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_information_is_lost_along_functions(order: float) -> None:
    """Each layer a function of the one before: what it shares with the input never grows."""
    given = np.arange(60)
    layers = [given, given // 2, given // 6, given // 20, given // 60]
    shared = [
        mutual_information(equality_gram(given), equality_gram(layer), order) for layer in layers
    ]
    assert all(after <= before + 1e-9 for before, after in pairwise(shared))
    assert shared[0] == pytest.approx(np.log2(60))
    assert shared[-1] == pytest.approx(0.0, abs=1e-9)


def test_a_layer_that_knows_the_target_shares_more_with_it() -> None:
    came = random.integers(2, size=(40, 3)).astype(float)
    noise = random.normal(size=(40, 3))
    layers = {"blind": noise, "knows": came + 0.01 * noise}
    blind, knows = layer_information(random.normal(size=(40, 2)), layers, came, 2.0)
    assert knows.with_target > 2 * blind.with_target
    assert knows.together >= knows.with_target - 1e-9 or knows.together > blind.with_target
    assert blind.together == pytest.approx(blind.with_target)


def test_the_gram_matrix_does_not_know_units_and_has_trace_one() -> None:
    values = random.normal(size=(12, 4))
    np.testing.assert_allclose(gaussian_gram(values), gaussian_gram(1000 * values + 5), atol=1e-9)
    assert np.trace(gaussian_gram(values)) == pytest.approx(1.0)


def test_alignment_counts_the_leading_directions_first() -> None:
    gram = np.diag([3.0, 2.0, 1.0])
    kernel = TangentKernel(gram, np.array([0.0, 1.0, 1.0]))
    np.testing.assert_allclose(kernel.alignment(), [0.0, 0.5, 1.0], atol=1e-12)
    assert TangentKernel(np.eye(4), np.ones(4)).effective_rank() == pytest.approx(4.0)
