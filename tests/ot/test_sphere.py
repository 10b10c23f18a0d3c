"""The sphere: unit vectors, centring and the two measures of a cone, against closed forms."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import VectorArray
from gdelphi.ot.sphere import (
    TINY,
    Centring,
    effective_rank,
    fit_centring,
    mean_cosine,
    unit,
)


def cone(number: int = 400, raw: int = 12, *, seed: int = 0) -> VectorArray:
    """Unit vectors close to one direction, with variances that differ from axis to axis."""
    generator = np.random.default_rng(seed)
    spread = generator.normal(size=(number, raw)) * np.linspace(0.5, 0.05, raw)
    spread[:, -1] += 2
    return unit(spread.astype(np.float32))


def weights_for(vectors: VectorArray, seed: int = 1) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).gamma(1.0, size=len(vectors))


# --- unit vectors ---------------------------------------------------------------------------------


def test_rows_are_brought_to_length_one_and_keep_their_direction() -> None:
    found = unit(np.array([[3, 4, 0], [0, -0.001, 0], [1e6, 0, 0]], dtype=np.float32))
    assert found == pytest.approx(np.array([[0.6, 0.8, 0], [0, -1, 0], [1, 0, 0]]))
    assert found.dtype == np.float32


def test_a_row_without_a_direction_becomes_the_first_axis() -> None:
    found = unit(np.array([[0, 0, 0], [0, TINY / 2, 0], [0, 2 * TINY, 0]], dtype=np.float32))
    assert found.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_no_rows_give_no_rows() -> None:
    assert unit(np.zeros((0, 3), dtype=np.float32)).shape == (0, 3)


def test_one_vector_alone_is_brought_to_length_one() -> None:
    assert unit(np.array([0, 5], dtype=np.float32)).tolist() == [0, 1]
    assert unit(np.zeros(2, dtype=np.float32)).tolist() == [1, 0]


# --- centring -------------------------------------------------------------------------------------


def test_centred_training_vectors_have_the_weighted_mean_zero() -> None:
    vectors = cone()
    weights = weights_for(vectors)
    centring = fit_centring(vectors, weights, 12)
    centred = (vectors - centring.mean).astype(np.float64) @ centring.axes.T
    assert weights @ centred / weights.sum() == pytest.approx(np.zeros(12), abs=1e-7)
    unweighted = centred.mean(axis=0)
    assert np.abs(unweighted).max() > 1e-3, "with other weights the mean is another"


def test_axes_are_orthonormal_and_go_from_most_variance_to_least() -> None:
    vectors = cone()
    weights = weights_for(vectors)
    centring = fit_centring(vectors, weights, 7)
    assert centring.axes.shape == (7, 12)
    assert centring.dimension == 7
    assert centring.axes @ centring.axes.T == pytest.approx(np.eye(7), abs=1e-6)
    along = (vectors - centring.mean) @ centring.axes.T
    covariance = np.cov(along.T.astype(np.float64), aweights=weights, ddof=0)
    variances = np.diag(covariance)
    assert (np.diff(variances) < 0).all()
    assert covariance - np.diag(variances) == pytest.approx(np.zeros((7, 7)), abs=1e-7)


def test_the_axes_of_a_known_covariance_are_found_with_their_signs() -> None:
    # Variances 9, 4 and 1 over 3 along (0.6, -0.8, 0), (0.8, 0.6, 0) and the last axis.
    axes = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, -1]])
    spread = axes * [[3], [2], [1]]
    vectors = np.concatenate([spread, -spread]) + np.array([5, 6, 7])
    centring = fit_centring(vectors.astype(np.float32), np.ones(6), 3)
    assert centring.mean == pytest.approx(np.array([5, 6, 7]))
    wanted = np.array([[-0.6, 0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])  # the largest entry is positive
    assert centring.axes == pytest.approx(wanted, abs=1e-6)
    assert centring.kept == pytest.approx(1)


@pytest.mark.parametrize(("dimension", "kept"), [(1, 9 / 14), (2, 13 / 14), (3, 1.0), (9, 1.0)])
def test_the_share_of_variance_kept_is_that_of_the_axes(dimension: int, kept: float) -> None:
    spread = np.diag([2.0, 3.0, 1.0])
    vectors = np.concatenate([spread, -spread]).astype(np.float32)
    centring = fit_centring(vectors, np.ones(6), dimension)
    assert centring.kept == pytest.approx(kept)
    assert centring.dimension == min(dimension, 3)


def test_one_input_has_one_result_whatever_the_order_of_rows() -> None:
    vectors = cone()
    weights = weights_for(vectors)
    first, again = (fit_centring(vectors, weights, 6) for _ in range(2))
    assert first.axes.tobytes() == again.axes.tobytes()
    order = np.random.default_rng(3).permutation(len(vectors))
    shuffled = fit_centring(vectors[order], weights[order], 6)
    assert shuffled.axes == pytest.approx(first.axes, abs=1e-5)
    mirrored = fit_centring(-vectors, weights, 6)
    assert mirrored.axes == pytest.approx(first.axes, abs=1e-5), "signs do not follow the input"


def test_twice_the_weight_is_the_row_twice() -> None:
    vectors = cone(50)
    doubled = fit_centring(np.concatenate([vectors, vectors[:20]]), np.ones(70), 5)
    weighted = fit_centring(vectors, np.repeat([2.0, 1.0], [20, 30]), 5)
    assert weighted.mean == pytest.approx(doubled.mean, abs=1e-6)
    assert weighted.axes == pytest.approx(doubled.axes, abs=1e-5)
    assert weighted.kept == pytest.approx(doubled.kept)


def test_vectors_without_weight_change_nothing() -> None:
    vectors = cone()
    weights = weights_for(vectors)
    more = np.concatenate([vectors, cone(100, seed=9) * -40])
    nothing = np.concatenate([weights, np.zeros(100)])
    plain, padded = fit_centring(vectors, weights, 6), fit_centring(more, nothing, 6)
    assert padded.mean == pytest.approx(plain.mean, abs=1e-6)
    assert padded.axes == pytest.approx(plain.axes, abs=1e-5)
    assert padded.kept == pytest.approx(plain.kept)
    assert mean_cosine(more, nothing) == pytest.approx(mean_cosine(vectors, weights))
    assert effective_rank(more, nothing) == pytest.approx(effective_rank(vectors, weights))


def test_applied_it_gives_points_on_the_sphere_and_the_mean_is_the_first_axis() -> None:
    centring = Centring(
        np.array([1, 1, 1], dtype=np.float32),
        np.array([[0, 1, 0], [0, 0, 1]], dtype=np.float32),
        1.0,
    )
    found = centring.apply(np.array([[9, 4, 5], [1, 1, 1], [9, 1, 1]], dtype=np.float32))
    assert found == pytest.approx(np.array([[0.6, 0.8], [1, 0], [1, 0]]))
    assert found.dtype == np.float32


def test_centring_opens_the_cone() -> None:
    vectors = cone()
    weights = np.ones(len(vectors))
    opened = fit_centring(vectors, weights, 8).apply(vectors)
    assert np.linalg.norm(opened, axis=1) == pytest.approx(np.ones(len(vectors)), abs=1e-6)
    assert mean_cosine(vectors, weights) > 0.7
    assert abs(mean_cosine(opened, weights)) < 0.05


def test_vectors_that_are_all_alike_have_a_centring_without_nan() -> None:
    vectors = np.tile(np.array([0.6, 0.8], dtype=np.float32), (5, 1))
    centring = fit_centring(vectors, np.ones(5), 2)
    assert np.isfinite(centring.axes).all()
    assert 0 <= centring.kept <= 1
    assert np.linalg.norm(centring.apply(vectors), axis=1) == pytest.approx(np.ones(5))


@pytest.mark.parametrize("number", [0, 3])
def test_without_weight_there_is_nothing_to_fit(number: int) -> None:
    with pytest.raises(GdelphiError, match="nothing to fit the sphere on: no training phrases"):
        fit_centring(np.ones((number, 4), dtype=np.float32), np.zeros(number), 2)


# --- how narrow, and how many directions ----------------------------------------------------------


def test_the_mean_cosine_of_two_vectors_is_their_cosine() -> None:
    vectors = np.array([[2, 0], [math.cos(1.1), math.sin(1.1)]], dtype=np.float32)
    for weights in ([1.0, 1.0], [0.9, 0.1]):
        assert mean_cosine(vectors, np.array(weights)) == pytest.approx(math.cos(1.1), abs=1e-6)


def test_the_mean_cosine_of_orthogonal_opposite_and_equal_vectors() -> None:
    axes = np.eye(5, dtype=np.float32)
    assert mean_cosine(axes, weights_for(axes)) == pytest.approx(0, abs=1e-12)
    both = np.concatenate([axes, -axes])
    assert mean_cosine(both, np.ones(10)) == pytest.approx(-1 / 9)  # one of nine others is opposite
    assert mean_cosine(np.ones((4, 3), dtype=np.float32), np.ones(4)) == pytest.approx(1)
    assert mean_cosine(axes[:1], np.ones(1)) == 1.0


def test_the_mean_cosine_is_that_of_all_pairs_by_weight() -> None:
    vectors = cone(20)
    weights = weights_for(vectors)
    pairs = np.outer(weights, weights) * (1 - np.eye(20))
    expected = (pairs * (vectors @ vectors.T)).sum() / pairs.sum()
    assert mean_cosine(vectors, weights) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("directions", [1, 2, 7])
def test_the_effective_rank_counts_directions_of_equal_variance(directions: int) -> None:
    axes = np.eye(9, dtype=np.float32)[:directions]
    both = np.concatenate([axes, -axes])
    assert effective_rank(both, np.ones(len(both))) == pytest.approx(directions)
    assert effective_rank(both + 3, np.ones(len(both))) == pytest.approx(directions, rel=1e-5)


def test_the_effective_rank_by_hand() -> None:
    axes = np.diag([3.0, 1.0]).astype(np.float32)  # variances 9 and 1: shares 0.9 and 0.1
    entropy = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    both = np.concatenate([axes, -axes])
    assert effective_rank(both, np.ones(4)) == pytest.approx(math.exp(entropy))
    weighted = effective_rank(both, np.array([1.0, 9, 1, 9]))  # 9 * 1 and 1 * 9: alike
    assert weighted == pytest.approx(2)


def test_the_effective_rank_of_one_vector_is_one_direction() -> None:
    assert effective_rank(np.ones((1, 4), dtype=np.float32), np.ones(1)) == 1.0
