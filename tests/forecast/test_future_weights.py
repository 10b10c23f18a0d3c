"""Weights of futures: closed forms, what cannot be met, and that nothing nearer would do."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import BoolArray, FloatArray
from gdelphi.forecast.future_weights import TOLERANCE, reweight


def even(number: int) -> FloatArray:
    return np.full(number, 1 / number)


def events(*columns: str) -> BoolArray:
    """A column for each event, as 0 and 1 by future."""
    return np.array([[mark == "1" for mark in column] for column in columns]).T


def divergence(weights: FloatArray, prior: FloatArray) -> float:
    kept = weights > 0
    return float((weights[kept] * np.log(weights[kept] / prior[kept])).sum())


def test_one_event_shares_its_probability_among_its_futures_by_their_prior() -> None:
    prior = np.array([0.1, 0.3, 0.2, 0.4])
    reweighted = reweight(events("1100"), np.array([0.8]), prior)
    np.testing.assert_allclose(reweighted.weights, [0.2, 0.6, 0.2 / 3, 0.4 / 3], atol=2e-3)
    assert reweighted.met.all()


def test_independent_events_stay_independent() -> None:
    happens = events("0011", "0101")
    reweighted = reweight(happens, np.array([0.9, 0.3]), even(4))
    np.testing.assert_allclose(reweighted.weights, [0.07, 0.03, 0.63, 0.27], atol=2e-3)
    np.testing.assert_allclose(reweighted.probabilities, [0.9, 0.3], atol=2e-3)


def test_what_the_futures_say_already_changes_nothing() -> None:
    prior = np.array([0.25, 0.35, 0.4])
    reweighted = reweight(events("110", "011"), np.array([0.6, 0.75]), prior)
    np.testing.assert_allclose(reweighted.weights, prior, atol=1e-9)
    assert reweighted.effective == pytest.approx(1 / (prior**2).sum())


def test_an_event_of_no_future_or_of_all_is_reported_and_disturbs_no_other() -> None:
    happens = events("0000", "1111", "1100")
    reweighted = reweight(happens, np.array([0.3, 0.9, 0.7]), even(4))
    assert reweighted.met.tolist() == [False, False, True]
    assert reweighted.probabilities[:2].tolist() == pytest.approx([0.0, 1.0])
    np.testing.assert_allclose(reweighted.weights, [0.35, 0.35, 0.15, 0.15], atol=2e-3)


def test_events_that_exclude_each_other_cannot_both_be_likely() -> None:
    reweighted = reweight(events("10", "01"), np.array([0.9, 0.9]), even(2))
    assert not reweighted.met.any()
    np.testing.assert_allclose(reweighted.weights, 0.5, atol=1e-6)  # neither is preferred


def test_probabilities_of_zero_and_one_are_approached() -> None:
    reweighted = reweight(events("1100", "1010"), np.array([1.0, 0.0]), even(4))
    assert reweighted.met.all()
    assert reweighted.weights[1] > 0.98


def test_futures_without_a_prior_get_no_weight() -> None:
    prior = np.array([0.5, 0.5, 0.0])
    reweighted = reweight(events("101"), np.array([0.7]), prior)
    assert reweighted.weights[2] == 0
    np.testing.assert_allclose(reweighted.weights[:2], [0.7, 0.3], atol=2e-3)


def test_an_event_of_futures_without_a_prior_alone_cannot_be_met() -> None:
    reweighted = reweight(events("001", "100"), np.array([0.5, 0.5]), np.array([0.5, 0.5, 0.0]))
    assert reweighted.met.tolist() == [False, True]


def test_not_a_number_asks_for_nothing() -> None:
    happens = events("1100", "1010")
    alone = reweight(happens[:, :1], np.array([0.8]), even(4))
    reweighted = reweight(happens, np.array([0.8, np.nan]), even(4))
    np.testing.assert_array_equal(reweighted.weights, alone.weights)
    assert reweighted.met.tolist() == [True, False]


def test_without_events_the_prior_stays() -> None:
    reweighted = reweight(np.zeros((3, 0), dtype=np.bool_), np.zeros(0), np.array([2.0, 1.0, 1.0]))
    np.testing.assert_allclose(reweighted.weights, [0.5, 0.25, 0.25])


@pytest.mark.parametrize("seed", range(5))
def test_no_weights_that_meet_the_probabilities_are_nearer_to_the_prior(seed: int) -> None:
    random = np.random.default_rng(seed)
    happens = random.random((12, 3)) < 0.5
    prior = random.dirichlet(np.full(12, 3.0))
    wanted = random.dirichlet(np.full(12, 3.0)) @ happens  # feasible, for these weights meet it
    reweighted = reweight(happens, wanted, prior)
    assert reweighted.met.all()
    assert reweighted.weights.sum() == pytest.approx(1)
    best = minimize(
        lambda weights: divergence(weights, prior),
        prior,
        jac=lambda weights: np.log(np.maximum(weights, 1e-12) / prior) + 1,
        bounds=[(1e-9, 1)] * 12,
        constraints=[
            {"type": "eq", "fun": lambda weights: weights.sum() - 1},
            {"type": "eq", "fun": lambda weights: weights @ happens - reweighted.probabilities},
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert best.success
    assert divergence(reweighted.weights, prior) == pytest.approx(best.fun, abs=1e-5)
    np.testing.assert_allclose(reweighted.weights, best.x, atol=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_always_weights(seed: int) -> None:
    random = np.random.default_rng(seed)
    happens = random.random((100, 20)) < random.random(20) ** 3
    wanted = random.random(20)
    reweighted = reweight(happens, wanted, even(100))
    assert reweighted.weights.min() >= 0
    assert reweighted.weights.sum() == pytest.approx(1)
    assert 1 <= reweighted.effective <= 100
    np.testing.assert_allclose(reweighted.probabilities, reweighted.weights @ happens)
    np.testing.assert_array_equal(
        reweighted.met, np.abs(reweighted.probabilities - wanted) <= TOLERANCE
    )


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ForecastError, match=r"\(4, 1\) for 3 futures and 1"):
        reweight(events("1100"), np.array([0.5]), even(3))


def test_without_any_prior_there_is_nothing_to_weigh() -> None:
    with pytest.raises(ForecastError, match="no future has a prior weight"):
        reweight(events("1100"), np.array([0.5]), np.zeros(4))
