"""Scores, skill and paired tests against closed forms."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray
from gdelphi.scores.probabilities import (
    Bootstrap,
    brier,
    brier_parts,
    log_score,
    newey_west_lag,
    paired_test,
    resampled_totals,
    skill,
)

NAN = float("nan")


def test_scores_of_single_cells() -> None:
    said, came = np.array([0.25, 0.25, 1.0, 0.5]), np.array([1.0, 0.0, 1.0, NAN])
    assert brier(said, came)[:3].tolist() == [0.5625, 0.0625, 0.0]
    assert log_score(said, came)[:3] == pytest.approx([math.log(4), -math.log(0.75), 0.0])
    assert np.isnan(brier(said, came)[3])
    assert np.isnan(log_score(said, came)[3])


def test_the_log_score_is_clipped() -> None:
    worst = log_score(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert worst == pytest.approx([-math.log(1e-12)] * 2)


@pytest.mark.parametrize("score", [brier, log_score])
def test_no_forecast_beats_the_truth_in_expectation(
    score: Callable[[FloatArray, FloatArray], FloatArray],
) -> None:
    truth, said = 0.3, np.linspace(0.01, 0.99, 99)
    expected = truth * score(said, np.ones(99)) + (1 - truth) * score(said, np.zeros(99))
    assert said[np.argmin(expected)] == pytest.approx(truth)


def test_skill_is_one_minus_the_ratio_of_means() -> None:
    scores = np.array([[0.1, 0.2], [0.3, NAN]])
    reference = np.array([[0.2, 0.4], [0.2, 0.9]])
    assert skill(scores, reference).value == pytest.approx(1 - 0.6 / 0.8)


def test_skill_against_itself_is_zero_and_so_is_its_interval() -> None:
    scores = np.random.default_rng(0).random((40, 5))
    assert skill(scores, scores).value == 0
    assert (skill(scores, scores).low, skill(scores, scores).high) == (0, 0)


def test_the_interval_covers_zero_for_two_forecasters_alike() -> None:
    covered = 0
    for seed in range(100):
        scores = np.random.default_rng(seed).random((2, 140, 3))
        found = skill(scores[0], scores[1], Bootstrap(seed=seed))
        covered += found.low <= 0 <= found.high
    assert 86 <= covered <= 100


def test_days_that_move_together_widen_the_interval() -> None:
    weekly = np.repeat(np.random.default_rng(1).random(30), 7)[:, None]
    reference = np.full_like(weekly, 0.5)
    by_day = skill(weekly, reference, Bootstrap(block_days=1))
    by_week = skill(weekly, reference)
    assert by_week.high - by_week.low > 1.8 * (by_day.high - by_day.low)


def test_the_interval_is_the_same_each_time_and_narrows_with_the_level() -> None:
    scores = np.random.default_rng(2).random((2, 50, 3))
    assert skill(scores[0], scores[1]) == skill(scores[0], scores[1])
    narrow = skill(scores[0], scores[1], Bootstrap(level=0.5))
    wide = skill(scores[0], scores[1])
    assert wide.low < narrow.low < wide.value < narrow.high < wide.high


@pytest.mark.parametrize("shape", [(20, 2), (15, 3, 4)])
def test_resampled_totals_are_those_of_blocks_drawn_one_by_one(shape: tuple[int, ...]) -> None:
    sums, bootstrap = np.random.default_rng(1).random(shape), Bootstrap(resamples=9)
    days = len(sums)
    size = (bootstrap.resamples, -(-days // bootstrap.block_days))
    starts = np.random.default_rng(bootstrap.seed).integers(days, size=size)
    expected = [
        sum(sums[(start + later) % days] for start in of for later in range(bootstrap.block_days))
        for of in starts
    ]
    assert np.allclose(resampled_totals(sums, bootstrap), expected, rtol=1e-12)


def test_too_few_days_give_no_interval_and_a_perfect_reference_no_skill() -> None:
    scores = np.ones((13, 2))
    assert math.isnan(skill(scores, scores).low)
    assert math.isnan(skill(np.ones((20, 2)), np.zeros((20, 2))).value)
    assert math.isnan(skill(np.ones((20, 2)), np.zeros((20, 2))).low)
    with pytest.raises(GdelphiError, match="not comparable"):
        skill(scores, np.ones((13, 3)))


# --- is the difference more than chance? ----------------------------------------------------------


def paired(differences: list[float]) -> tuple[FloatArray, FloatArray]:
    """Scores and reference of two cells a day whose mean difference is given."""
    cells = np.array(differences)[:, None] + np.array([0.5, -0.5])
    reference = np.full_like(cells, 7.0)
    return cells + reference, reference


def test_the_paired_test_by_hand() -> None:
    """Deviations -1, 0, 2, -1: squares 6, neighbours -2 with Bartlett's 1/2, so 6 - 2 = 4.

    Pairs of days weigh 4 + 3 = 7 of 16, so that 4 is what 16/9 * 4 would be without the mean taken
    off, and the standard error of the mean is sqrt(64/9) / 4. The p-value is Student's with 3
    degrees of freedom in closed form.
    """
    found = paired_test(*paired([1, 2, 4, 1]))
    assert found.difference == pytest.approx(2)
    assert found.standard_error == pytest.approx(2 / 3)
    assert found.statistic == pytest.approx(3)
    below = 0.5 + (math.sqrt(3) / 4 + math.pi / 3) / math.pi
    assert found.p_value == pytest.approx(2 * (1 - below))
    assert found.days == 4


def test_of_two_days_the_paired_test_is_students() -> None:
    found = paired_test(*paired([1, 3]))
    assert (found.difference, found.standard_error) == pytest.approx((2, 1))
    assert found.p_value == pytest.approx(1 - 2 / math.pi * math.atan(2))


def test_days_keep_their_distance_across_a_gap_and_unknown_cells_take_no_part() -> None:
    scores, reference = paired([1, NAN, 2, 4, 1])
    found = paired_test(scores, reference)
    assert found.standard_error == pytest.approx(math.sqrt(4 / (1 - 6 / 16)) / 4)
    assert found.days == 4
    scores[0, 0] = reference[2, 1] = NAN  # leaves 0.5 and 2.5
    assert paired_test(scores, reference) == paired_test(*paired([0.5, NAN, 2.5, 4, 1]))


def test_the_better_forecaster_has_the_negative_difference() -> None:
    generator = np.random.default_rng(5)
    reference = generator.random((100, 4))
    better = reference - 0.1 + 0.1 * generator.standard_normal((100, 4))
    one, other = paired_test(better, reference), paired_test(reference, better)
    assert one.statistic < -5 and one.p_value < 1e-5
    assert other.statistic == pytest.approx(-one.statistic)
    assert other.p_value == pytest.approx(one.p_value)


def test_equal_forecasters_differ_about_as_often_as_the_level_says() -> None:
    """Differences of 200 days from an AR(1) process; taken as independent they differ too often."""
    generator = np.random.default_rng(6)
    series = generator.standard_normal((250, 1000))
    for day in range(1, 250):
        series[day] += 0.4 * series[day - 1]
    drawn = series[50:].T
    p_values = np.array([paired_test(each, np.zeros(200)).p_value for each in drawn])
    assert 0.03 < (p_values < 0.05).mean() < 0.1
    assert 0.4 < (p_values < 0.5).mean() < 0.6
    naive = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / math.sqrt(200))
    assert (np.abs(naive) > 1.972).mean() > 0.15


def test_the_lag_follows_its_rule_or_the_horizon_but_never_exceeds_the_days() -> None:
    assert [newey_west_lag(days) for days in (2, 100, 1000)] == [1, 4, 6]
    assert [newey_west_lag(100, horizon) for horizon in (5, 7)] == [4, 6]
    assert newey_west_lag(3, 10) == 2
    weekly = np.repeat(np.random.default_rng(7).standard_normal(30), 7)
    zeros = np.zeros(210)
    errors = [paired_test(weekly, zeros, horizon).standard_error for horizon in (1, 7)]
    assert errors[1] > 1.05 * errors[0]


def test_without_days_or_variation_there_is_no_paired_test() -> None:
    nothing = paired_test(np.full((3, 2), NAN), np.ones((3, 2)))
    assert nothing.days == 0 and math.isnan(nothing.difference)
    one = paired_test(np.array([0.5, NAN]), np.array([0.25, 1.0]))
    assert (one.difference, one.days) == (0.25, 1)
    assert math.isnan(one.standard_error) and math.isnan(one.p_value)
    same = np.random.default_rng(8).random((20, 3))
    for scores in (same, same + 0.1):
        constant = paired_test(scores, same)
        assert constant.standard_error == 0
        assert math.isnan(constant.statistic) and math.isnan(constant.p_value)
    with pytest.raises(GdelphiError, match="not comparable"):
        paired_test(same, same[:, :2])


# --- where a Brier score comes from ---------------------------------------------------------------


def test_the_brier_score_splits_into_its_parts() -> None:
    said = np.array([0.25] * 4 + [0.75] * 4)
    came = np.array([0, 0, 0, 1, 1, 1, 1, 1.0])
    parts = brier_parts(said, came)
    assert parts.reliability == pytest.approx(0.5 * 0.25**2)
    assert parts.uncertainty == pytest.approx(5 / 8 * 3 / 8)
    assert parts.resolution == pytest.approx(0.5 * ((0.25 - 5 / 8) ** 2 + (1 - 5 / 8) ** 2))
    assert parts.within == pytest.approx(0, abs=1e-12)
    assert parts.brier == pytest.approx(brier(said, came).mean())


def test_the_parts_sum_to_the_score_for_any_forecasts() -> None:
    generator = np.random.default_rng(3)
    said = generator.random((50, 4))
    came = (generator.random((50, 4)) < said).astype(float)
    came[0] = NAN
    parts = brier_parts(said, came)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(np.nanmean(brier(said, came)))
    assert abs(parts.within) < 0.01
    assert math.isnan(brier_parts(said[:1], came[:1]).brier)
