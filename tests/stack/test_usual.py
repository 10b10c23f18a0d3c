"""What is usual: means by hand, weekdays, and the multiples of a day."""

from dataclasses import replace

import numpy as np
import pytest

from gdelphi.common.types import IntArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.usual import back, exponential_mean, usual_of, weekday_factors, weekdays
from helpers.planted import planted_panel
from helpers.profiles import panel_of, profiles_of, random_profiles


def panel_with(counts: IntArray, present: list[bool] | None = None) -> CountPanel:
    roots = profiles_of(counts, present)
    return panel_of(replace(roots, counts=counts, volume=counts.sum(axis=2)))


def test_an_exponential_mean_by_hand() -> None:
    values = np.array([[4.0], [8.0], [100.0], [2.0]])
    present = np.array([True, True, False, True])
    mean = exponential_mean(values, present, 1.0)
    # Weights 1, 1/2, 1/4, 1/8 by age; the third day is missing and has none.
    by_hand = [4, (8 + 2) / 1.5, (4 + 1) / 0.75, (2 + 2 + 0.5) / 1.375]
    np.testing.assert_allclose(mean[:, 0], by_hand, rtol=1e-6)


def test_a_prior_counts_like_days() -> None:
    values, present = np.array([[4.0], [8.0]]), np.array([True, True])
    mean = exponential_mean(values, present, 1.0, prior=np.full((2, 1), 10.0), prior_days=2.0)
    np.testing.assert_allclose(mean[:, 0], [24 / 3, 30 / 3.5], rtol=1e-6)


def test_without_a_present_day_the_mean_is_nothing() -> None:
    assert exponential_mean(np.ones((3, 2)), np.zeros(3, np.bool_), 7.0).tolist() == [[0, 0]] * 3


def test_values_of_days_before() -> None:
    values = np.arange(5, dtype=np.float32)[:, None]
    assert back(values, 2, np.array([1, 2, 5, 6]))[:, 0].tolist() == [0, 0, 3, 4]
    assert values[0, 0] == 0


def test_the_same_rows_every_day_have_no_weekday() -> None:
    panel = panel_with(np.full((2, 140, 3), 5))
    factors = weekday_factors(panel, np.arange(140))
    np.testing.assert_allclose(factors, 1.0, rtol=1e-12)


def test_a_quiet_sunday_is_found() -> None:
    counts = np.full((3, 210, 4), 20)
    counts[:, 6::7] = 5  # the first day is a Monday
    factors = weekday_factors(panel_with(counts), np.arange(210))
    np.testing.assert_allclose(factors[6] / factors[0], 0.25, rtol=1e-6)
    np.testing.assert_allclose(factors.mean(axis=0), 1.0)


def test_a_weekday_that_is_never_there_is_as_any() -> None:
    counts = np.full((1, 210, 2), 20)
    present = [number % 7 != 6 for number in range(210)]
    counts[:, ~np.array(present)] = 0
    factors = weekday_factors(panel_with(counts, present), np.arange(210))
    np.testing.assert_allclose(factors, 1.0, rtol=1e-6)


def test_weekdays_reach_one_day_further() -> None:
    panel = panel_with(np.ones((1, 8, 2), np.int64))
    assert weekdays(panel).tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]


def test_steady_days_are_as_usual() -> None:
    panel = panel_with(np.full((2, 200, 4), 6))
    factors = weekday_factors(panel, np.arange(200))
    usual = usual_of(panel, factors)
    np.testing.assert_allclose(usual.rows[-1], 6, rtol=1e-3)
    np.testing.assert_allclose(usual.multiples[-1], 1, rtol=1e-3)
    expected = usual.expected(factors, weekdays(panel), np.array([200]))
    np.testing.assert_allclose(expected, 6, rtol=1e-3)


def test_missing_days_are_no_multiple_and_leave_the_usual_as_it_was() -> None:
    panel = panel_of(random_profiles(3, 120, seed=1, missing=0.3))
    present = panel.roots.present
    usual = usual_of(panel, weekday_factors(panel, np.arange(120)))
    assert (usual.multiples[~present] == 0).all()
    first_missing = np.flatnonzero(~present)[10]
    before, after = usual.rows[first_missing - 1], usual.rows[first_missing]
    np.testing.assert_allclose(after, before, rtol=0.02)


@pytest.mark.parametrize("size", [1, 7, 60, 119])
def test_a_shorter_panel_gives_the_same_bits(size: int) -> None:
    panel = planted_panel(3, 120)
    factors = weekday_factors(panel, np.arange(100))
    whole = usual_of(panel, factors)
    cut = usual_of(panel.until(panel.roots.days[size - 1]), factors)
    np.testing.assert_array_equal(cut.rows, whole.rows[:size])
    np.testing.assert_array_equal(cut.multiples, whole.multiples[:size])
