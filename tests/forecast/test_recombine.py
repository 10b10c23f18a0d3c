"""Recombined futures: the law of their days, and what is lent. Those of a model are tested in
test_future_choice.py."""

from datetime import date

import numpy as np
import pytest

from gdelphi.common.types import FloatArray, Forecast
from gdelphi.forecast.recombine import LENT, Recombination, draw_recombination, law_of_days

UNASKED = np.full(2, np.nan)
NO_SURGE = np.full(2, np.nan)


def asked(occurs: FloatArray, headline: FloatArray, surge: FloatArray = UNASKED) -> Forecast:
    samples = np.zeros((1, len(occurs)))
    codes = tuple(f"{number:02d}" for number in range(1, len(occurs) + 1))
    return Forecast(
        "f", "KE", date(2021, 1, 1), 1, codes, occurs, headline, surge, samples, np.ones(1)
    )


# --- the law of days ------------------------------------------------------------------------------


def test_a_root_gets_its_probability_and_days_alike_share_it_by_their_prior() -> None:
    counts = np.array([[1, 1], [1, 1], [0, 1], [0, 1]])
    prior = np.array([0.1, 0.3, 0.2, 0.4])
    forecast = asked(np.array([0.8, 0.5]), UNASKED)  # the second occurs on all days: no law has .5
    law = law_of_days(counts, counts.astype(float), NO_SURGE, forecast, prior)
    assert law.sum() == pytest.approx(1)
    assert law[:2].sum() == pytest.approx(0.8, abs=0.02)  # softly
    assert law[1] / law[0] == pytest.approx(3)
    assert law[3] / law[2] == pytest.approx(2)


def test_headlines_and_surges_count_too() -> None:
    weights = np.zeros((4, 7))
    weights[:, :5] = 2.0
    weights[0, 5] = weights[2, 5] = 3.0  # a headline on these days, and the fifth is none
    weights[2:, 6] = 1.0  # in the last place
    counts = np.ones((4, 7), dtype=np.int64)
    nothing, even = np.full(7, np.nan), np.full(4, 0.25)
    headline, surge, threshold = nothing.copy(), nothing.copy(), nothing.copy()
    headline[5] = 0.9
    law = law_of_days(counts, weights, threshold, asked(nothing, headline, nothing), even)
    assert law[0] + law[2] == pytest.approx(0.9, abs=0.03)
    surge[6], threshold[6] = 0.2, 0.01
    law = law_of_days(counts, weights, threshold, asked(nothing, nothing, surge), even)
    assert law[2] + law[3] == pytest.approx(0.2, abs=0.02)


def test_a_forecast_that_the_prior_has_already_changes_nothing() -> None:
    counts = np.array([[1, 0], [0, 1], [1, 1]])
    prior = np.array([0.5, 0.2, 0.3])
    forecast = asked(prior @ counts, UNASKED)
    law = law_of_days(counts, counts.astype(float), NO_SURGE, forecast, prior)
    np.testing.assert_allclose(law, prior, atol=1e-9)


# --- drawing --------------------------------------------------------------------------------------


def test_probabilities_are_those_of_the_law_whatever_is_lent() -> None:
    law = np.array([0.0, 0.2, 0.5, 0.0, 0.3])
    occurs = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]], dtype=np.bool_)
    number = 40_000
    drawn = draw_recombination(law, number, 3, np.random.default_rng(1))
    happens = np.where(drawn.lent, occurs[drawn.donors], occurs[drawn.days])
    error = 4 * np.sqrt(0.25 / number)
    np.testing.assert_allclose(happens.mean(axis=0), law @ occurs, atol=error)
    assert drawn.lent.mean() == pytest.approx(LENT, abs=error)
    both = np.concatenate([drawn.days, drawn.donors])
    assert set(both.tolist()) == {1, 2, 4}, "a day without probability is never drawn"


def test_the_same_seed_draws_the_same() -> None:
    law = np.full(50, 0.02)
    one, same, other = (
        draw_recombination(law, 30, 20, np.random.default_rng(seed)) for seed in (3, 3, 4)
    )
    for left, right in zip(one, same, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(one.days, other.days)
    assert isinstance(one, Recombination)
