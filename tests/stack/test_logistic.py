"""Regression around a starting point: known minima, and what becomes of the start."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gdelphi.common.types import FloatArray
from gdelphi.stack.linear import expit
from gdelphi.stack.logistic import LinearModel, regress_around

FEATURES = 4


@pytest.fixture(scope="module")
def data() -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(3)
    matrix = random.normal(2.0, [0.5, 1.0, 3.0, 1.0], size=(800, FEATURES))
    true = np.array([1.0, -0.5, 0.2, 0.0])
    return matrix, (random.random(800) < expit(matrix @ true - 1)).astype(float)


def nothing() -> LinearModel:
    return LinearModel(np.zeros(FEATURES), 0.0)


@pytest.mark.parametrize("ridge", [0.5, 20.0])
def test_from_nothing_it_is_the_usual_ridge_regression(
    data: tuple[FloatArray, FloatArray], ridge: float
) -> None:
    matrix, outcome = data
    model = regress_around(matrix, outcome, nothing(), ridge=ridge)
    mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
    usual = LogisticRegression(C=1 / ridge, max_iter=1000, tol=1e-10)
    usual.fit((matrix - mean) / spread, outcome)
    values = usual.coef_[0] / spread
    np.testing.assert_allclose(model.values, values, atol=1e-5)
    assert model.intercept == pytest.approx(usual.intercept_[0] - values @ mean, abs=1e-4)


def test_a_strong_pull_leaves_the_start_but_for_the_intercept(
    data: tuple[FloatArray, FloatArray],
) -> None:
    matrix, outcome = data
    start = LinearModel(np.array([0.3, 0.1, 0.0, -0.2]), 5.0)
    model = regress_around(matrix, outcome, start, ridge=1e12)
    np.testing.assert_allclose(model.values, start.values, atol=1e-6)
    assert expit(model.logits(matrix)).mean() == pytest.approx(outcome.mean(), abs=1e-6)


def test_a_weak_pull_forgets_the_start(data: tuple[FloatArray, FloatArray]) -> None:
    matrix, outcome = data
    near = regress_around(matrix, outcome, nothing(), ridge=1e-6)
    far = regress_around(matrix, outcome, LinearModel(np.full(FEATURES, 4.0), -30.0), ridge=1e-6)
    np.testing.assert_allclose(near.values, far.values, atol=1e-3)


def test_answers_that_are_all_the_same_leave_the_start(
    data: tuple[FloatArray, FloatArray],
) -> None:
    start = LinearModel(np.arange(4.0), 1.0)
    model = regress_around(data[0], np.ones(len(data[0])), start, ridge=1.0)
    assert model is start


def test_features_that_say_the_same_share_what_there_is(
    data: tuple[FloatArray, FloatArray],
) -> None:
    matrix, outcome = data
    twice = np.column_stack([matrix, matrix[:, 0], np.ones(len(matrix))])
    model = regress_around(twice, outcome, LinearModel(np.zeros(6), 0.0), ridge=0.5)
    assert model.values[0] == pytest.approx(model.values[4], abs=1e-6)
    assert abs(model.values[5]) < 1e-12


def test_data_that_can_be_told_apart_without_error_end_in_numbers() -> None:
    matrix = np.linspace(-1, 1, 50)[:, None]
    model = regress_around(matrix, (matrix[:, 0] > 0).astype(float), LinearModel(np.zeros(1), 0.0),
                           ridge=1e-3)  # fmt: skip
    assert np.isfinite(model.values).all()
    assert model.values[0] > 5
