"""The intensity: a planted law is found, days to come are not seen, and a saved fit is the same."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import WORLD, FloatArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.intensity import Intensity, fit_intensity
from helpers.planted import LAG, ROOT, SIGN, planted_panel
from helpers.profiles import panel_of, random_profiles

FIT_DAYS = np.arange(30, 330)
LATER = np.array([150, 330, 331, 399, 400])
"""positions of target days, the one after the last among them"""


@pytest.fixture(scope="module")
def panel() -> CountPanel:
    return planted_panel()


@pytest.fixture(scope="module")
def fitted(panel: CountPanel) -> Intensity:
    return fit_intensity(panel, FIT_DAYS)


@pytest.fixture(scope="module")
def expected(panel: CountPanel, fitted: Intensity) -> FloatArray:
    return fitted.expected_rows(panel, LATER)


def test_the_planted_law_is_found_and_no_other(fitted: Intensity) -> None:
    strongest = fitted.found_codes[0]
    assert strongest[:3] == (SIGN, LAG, ROOT)
    assert strongest.effect > 1.0  # 2 less what the penalty takes
    assert [each[:3] for each in fitted.found_codes] == [(SIGN, LAG, ROOT)]
    assert f"{SIGN} {LAG} days before {ROOT}" in fitted.summary
    assert "\n" not in fitted.summary


def test_the_planted_law_is_applied(panel: CountPanel, fitted: Intensity) -> None:
    days = np.arange(330, 400)
    expected = fitted.expected_rows(panel, days)[:, :, int(ROOT) - 1]
    code = panel.fine_codes.index(SIGN)
    announced = panel.fine[:, days - LAG, code].T > 0
    multiples = expected / np.median(expected, axis=0)
    assert multiples[announced].mean() > 1.8
    assert multiples[~announced].mean() < 1.1


def test_expected_rows_are_about_those_that_come(panel: CountPanel, fitted: Intensity) -> None:
    days = np.arange(330, 400)
    days = days[panel.roots.present[days]]
    came = panel.roots.counts[:, days].swapaxes(0, 1)
    expected = fitted.expected_rows(panel, days)
    np.testing.assert_allclose(expected.mean(axis=(0, 1)), came.mean(axis=(0, 1)), rtol=0.25)


@pytest.mark.parametrize("number", range(len(LATER)))
def test_a_day_is_the_same_from_a_panel_that_ends_before_it(
    panel: CountPanel, fitted: Intensity, expected: FloatArray, number: int
) -> None:
    at = LATER[number]
    cut = panel.until(panel.roots.days[0] + timedelta(days=int(at) - 1))
    assert len(cut.roots.days) == at
    alone = fitted.expected_rows(cut, np.array([at]))
    np.testing.assert_array_equal(alone[0], expected[number])


def test_days_to_come_change_nothing(
    panel: CountPanel, fitted: Intensity, expected: FloatArray
) -> None:
    generator = np.random.default_rng(5)
    at = 331
    roots = panel.roots
    counts, fine, pairs, acted, world = (
        values.copy()
        for values in (roots.counts, panel.fine, panel.pairs, panel.acted, panel.world)
    )
    for values in (counts[:, at:], fine[:, at:], pairs[at:], acted[:, at:], world[at:]):
        values[:] = generator.integers(0, 50, values.shape)
    other = CountPanel(replace(roots, counts=counts), fine, pairs, acted, world)
    before = at >= LATER
    changed = fitted.expected_rows(other, LATER[before])
    np.testing.assert_array_equal(changed, expected[before])
    assert (fitted.expected_rows(other, np.array([399])) != expected[LATER == 399]).any()


def test_the_fit_does_not_see_days_after_its_last(panel: CountPanel, fitted: Intensity) -> None:
    again = fit_intensity(panel.until(panel.roots.days[FIT_DAYS[-1]]), FIT_DAYS)
    assert again.final.names == fitted.final.names
    np.testing.assert_array_equal(again.final.stacked, fitted.final.stacked)
    np.testing.assert_array_equal(again.shapes, fitted.shapes)


def test_a_saved_fit_is_the_same(
    panel: CountPanel, fitted: Intensity, expected: FloatArray, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "intensity.safetensors"
    fitted.save(path)
    loaded = Intensity.load(path)
    np.testing.assert_array_equal(loaded.expected_rows(panel, LATER), expected)
    np.testing.assert_array_equal(loaded.shapes, fitted.shapes)
    assert loaded.summary == fitted.summary
    assert (loaded.streams, loaded.roots) == (fitted.streams, fitted.roots)


def test_a_damaged_file_says_what_to_do(fitted: Intensity, tmp_path: Path) -> None:
    path = tmp_path / "intensity.safetensors"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ForecastError, match=r"holds no intensity .* run `gdelphi calibrate`"):
        Intensity.load(path)
    with pytest.raises(ForecastError, match="holds no intensity"):
        Intensity.load(tmp_path / "none")


def test_no_days_asked_for_none_answered(panel: CountPanel, fitted: Intensity) -> None:
    assert fitted.expected_rows(panel, np.array([], np.int64)).shape == (0, 3, 8)


@pytest.mark.parametrize("day", [0, 401])
def test_days_without_a_past_are_refused(panel: CountPanel, fitted: Intensity, day: int) -> None:
    with pytest.raises(ForecastError, match="must lie between 1 and 400"):
        fitted.expected_rows(panel, np.array([day]))


def test_other_streams_are_refused(fitted: Intensity) -> None:
    with pytest.raises(ForecastError, match="fit it again"):
        fitted.expected_rows(planted_panel(2, 70), np.array([60]))


def test_too_few_days_are_refused(panel: CountPanel) -> None:
    with pytest.raises(ForecastError, match=r"needs 60 days .* ingest more days"):
        fit_intensity(panel, np.arange(30, 80))
    with pytest.raises(ForecastError, match="numbered 0 to 399"):
        fit_intensity(panel, np.arange(300, 401))


def test_one_stream_alone() -> None:
    panel = planted_panel(1, 150)
    fitted = fit_intensity(panel, np.arange(30, 140))
    assert np.isfinite(fitted.expected_rows(panel, np.array([1, 149, 150]))).all()


def test_streams_without_rows_and_with_the_same_rows_every_day() -> None:
    roots = random_profiles(3, 150, seed=3, missing=0.1)
    counts = roots.counts.copy()
    counts[0] = 0
    counts[1] = np.where(roots.present[:, None], 4, 0)
    roots = replace(
        roots,
        streams=("KE", WORLD, "UG"),
        counts=counts,
        weights=counts.astype(float),
        volume=counts.sum(axis=2),
    )
    panel = panel_of(roots)
    fitted = fit_intensity(panel, np.arange(30, 140))
    expected = fitted.expected_rows(panel, np.arange(100, 151))
    assert np.isfinite(fitted.shapes).all()
    assert (expected > 0).all()
    assert expected[:, 0].max() < 0.2
    np.testing.assert_allclose(expected[:, 1].mean(axis=0), 4, rtol=0.15)


def test_a_panel_without_any_rows() -> None:
    roots = random_profiles(2, 100)
    nothing = np.zeros_like(roots.counts)
    roots = replace(roots, counts=nothing, weights=nothing * 0.0, volume=nothing.sum(axis=2))
    fitted = fit_intensity(panel_of(roots), np.arange(20, 100))
    expected = fitted.expected_rows(panel_of(roots), np.array([100]))
    assert ((expected >= 0) & (expected < 0.05)).all()
    assert "none" in fitted.summary
