"""Scores, skill and calibration against closed forms."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from gdelphi.calibration import expected_calibration_error, reliability_table, wilson_interval
from gdelphi.errors import GdelphiError
from gdelphi.scores import Bootstrap, brier, brier_parts, log_score, skill
from gdelphi.types import FloatArray

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


def test_too_few_days_give_no_interval_and_a_perfect_reference_no_skill() -> None:
    scores = np.ones((13, 2))
    assert math.isnan(skill(scores, scores).low)
    assert math.isnan(skill(np.ones((20, 2)), np.zeros((20, 2))).value)
    assert math.isnan(skill(np.ones((20, 2)), np.zeros((20, 2))).low)
    with pytest.raises(GdelphiError, match="not comparable"):
        skill(scores, np.ones((13, 3)))


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


def test_the_reliability_table_counts_by_hand() -> None:
    said = np.array([0.0, 0.1, 0.1, 0.95, 1.0, 0.5])
    came = np.array([0.0, 0.0, 1.0, 1.0, 1.0, NAN])
    table = reliability_table(said, came)
    assert table.count.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert table.forecast[[0, 1, 9]] == pytest.approx([0, 0.1, 0.975])
    assert table.frequency[[0, 1, 9]].tolist() == [0, 0.5, 1]
    assert np.isnan(table.frequency[2:9]).all()
    assert np.isnan(table.low[2:9]).all()
    assert len(table.edges) == 11


def test_wilsons_interval_has_its_textbook_values() -> None:
    low, high = wilson_interval(np.array([0.5, 0.0]), np.array([10, 10]))
    assert low == pytest.approx([0.2366, 0.0], abs=1e-4)
    assert high == pytest.approx([0.7634, 0.2775], abs=1e-4)


def test_a_calibrated_forecast_lies_in_its_band_and_a_shifted_one_does_not() -> None:
    generator = np.random.default_rng(4)
    said = generator.random(5000) * 0.8
    came = (generator.random(5000) < said).astype(float)

    def outside(probabilities: FloatArray) -> int:
        table = reliability_table(probabilities, came, bins=8)
        filled = table.count > 0
        inside = (table.low <= table.forecast) & (table.forecast <= table.high)
        return int((~inside)[filled].sum())

    assert outside(said) <= 1
    assert outside(said + 0.2) >= 5


def test_expected_calibration_error_by_hand() -> None:
    said = np.array([0.2, 0.2, 0.2, 0.9])
    came = np.array([0.0, 1.0, 0.0, 1.0])
    assert expected_calibration_error(said, came) == pytest.approx(
        0.75 * (1 / 3 - 0.2) + 0.25 * 0.1
    )
    assert math.isnan(expected_calibration_error(np.array([0.5]), np.array([NAN])))
