"""Calibration and its two bands, by hand and under repetition."""

import math

import numpy as np
import pytest

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import FloatArray
from gdelphi.scores.probabilities import Bootstrap
from gdelphi.scores.reliability import (
    expected_calibration_error,
    reliability_band,
    reliability_table,
    wilson_interval,
)

NAN = float("nan")


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


# --- the band of resampled days -------------------------------------------------------------------


def panel(days: int = 420) -> tuple[FloatArray, FloatArray]:
    """A calibrated forecast of one cell a day."""
    generator = np.random.default_rng(9)
    said = generator.random((days, 1))
    return said, (generator.random((days, 1)) < said).astype(float)


def test_of_independent_cells_the_band_is_about_wilsons() -> None:
    found = reliability_band(*panel(), bins=4, bootstrap=Bootstrap(block_days=1))
    assert found.low == pytest.approx(found.table.low, abs=0.03)
    assert found.high == pytest.approx(found.table.high, abs=0.03)
    assert found.table.count.tolist() == found.days.tolist()


def test_cells_that_repeat_each_other_narrow_wilsons_band_and_not_that_of_days() -> None:
    said, came = panel()
    once = reliability_band(said, came, bins=4)
    often = reliability_band(np.repeat(said, 49, axis=1), np.repeat(came, 49, axis=1), bins=4)
    assert (often.low.tolist(), often.high.tolist()) == (once.low.tolist(), once.high.tolist())
    ratio = (once.table.high - once.table.low) / (often.table.high - often.table.low)
    assert ratio == pytest.approx(np.full(4, 7.0), abs=0.3)
    assert often.days.tolist() == once.days.tolist()


def test_the_band_holds_the_truth_where_cells_of_a_day_share_their_fate() -> None:
    """One forecast, 30%, and 20 streams that mostly follow the day's one draw."""
    held = by_wilson = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        alike = np.repeat(generator.random((140, 1)), 20, axis=1)
        alone = generator.random((140, 20))
        drawn = np.where(generator.random((140, 20)) < 0.7, alike, alone)
        came = (drawn < 0.3).astype(float)
        found = reliability_band(np.full(came.shape, 0.3), came, bins=2)
        held += found.low[0] <= 0.3 <= found.high[0]
        by_wilson += found.table.low[0] <= 0.3 <= found.table.high[0]
    assert held >= 50
    assert by_wilson <= 35


def test_bins_seen_on_few_days_or_with_outcomes_all_alike_have_no_band() -> None:
    said, came = np.full((100, 1), 0.15), np.zeros((100, 1))
    said[::2] = 0.35
    came[::4] = 1
    said[[10, 50]] = 0.95
    said[20], came[30] = NAN, NAN
    found = reliability_band(said, came)
    assert np.isnan(found.low).tolist() == [True, True, True, False] + [True] * 6
    assert np.isnan(found.high).tolist() == np.isnan(found.low).tolist()
    assert found.days[[1, 3, 9]].tolist() == [50, 46, 2]
    assert found.low[3] < found.table.frequency[3] < found.high[3]
    assert np.isnan(reliability_band(said[:13], came[:13]).low).all()
    assert np.isnan(reliability_band(said, came * 0).low).all()
    with pytest.raises(GdelphiError, match="is meant for both"):
        reliability_band(said, came[:, 0])


def test_the_band_narrows_with_the_level_and_is_the_same_each_time() -> None:
    said, came = panel()
    wide, again = reliability_band(said, came, 4), reliability_band(said, came, 4)
    narrow = reliability_band(said, came, 4, Bootstrap(level=0.5))
    assert wide.low.tolist() == again.low.tolist()
    assert (wide.low < narrow.low).all() and (narrow.high < wide.high).all()
    assert (wide.level, narrow.level) == (0.95, 0.5)
