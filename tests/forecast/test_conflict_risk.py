"""One number for a country's week: joined as past weeks had it, never below its largest part."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.conflict_risk import (
    any_surge,
    conflict_past,
    conflict_places,
    fit_theta,
    keep_conflict_fit,
    read_conflict_fit,
)
from gdelphi.forecast.unusual import CONFLICT
from gdelphi.measures.profiles import standard_events

CODES = standard_events("root")
HISTORY: Any = SimpleNamespace(codes=CODES)


def weeks_of(surges: FloatArray) -> FloatArray:
    """Outcomes [week, target, stream, root] with these surges of conflict [week, stream, 6]."""
    within = np.zeros((len(surges), len(TARGETS), surges.shape[1], len(CODES)))
    within[:, TARGETS.index("surge")][..., conflict_places(CODES)] = surges
    return within


def test_independent_kinds_are_joined_as_such() -> None:
    random = np.random.default_rng(5)
    surges = (random.random((4000, 3, 6)) < 0.2).astype(float)
    past = conflict_past(HISTORY, weeks_of(surges))
    assert past.theta == pytest.approx(1, abs=0.03)
    assert any_surge(np.full(6, 0.2), past.theta) == pytest.approx(1 - 0.8**6, abs=0.02)


def test_kinds_that_come_together_are_one() -> None:
    random = np.random.default_rng(5)
    surges = np.repeat((random.random((2000, 3, 1)) < 0.2).astype(float), 6, axis=2)
    past = conflict_past(HISTORY, weeks_of(surges))
    assert past.theta == pytest.approx(1 / 6, abs=0.01)
    np.testing.assert_allclose(past.usual, 0.2, atol=0.03)
    assert any_surge(np.full(6, 0.2), past.theta) == pytest.approx(0.2, abs=0.01)
    assert any_surge(np.array([0.9, *[0.01] * 5]), past.theta) == pytest.approx(0.9)


def test_what_is_joined_is_calibrated_where_its_parts_are() -> None:
    """A common shock drives all six: their largest is far too low, their joint number is right."""
    random = np.random.default_rng(6)
    shock = random.normal(size=(6000, 1, 1))
    surges = (shock + random.normal(size=(6000, 4, 6)) > 1.4).astype(float)
    past = conflict_past(HISTORY, weeks_of(surges[:5000]))
    rates = surges[:5000].mean(axis=0)
    came = surges[5000:].any(axis=2).mean(axis=0)
    np.testing.assert_allclose(any_surge(rates, past.theta), came, atol=0.05)
    assert (rates.max(axis=1) < came - 0.15).all()


def test_what_is_undefined_is_left_out() -> None:
    surges = np.zeros((10, 2, 6))
    surges[:, 1] = np.nan
    past = conflict_past(HISTORY, weeks_of(surges))
    assert np.isnan(past.usual[1]) and past.usual[0] < 0.1
    assert np.isnan(any_surge(np.full(6, np.nan), 0.7))
    some = any_surge(np.array([0.3, np.nan, np.nan, np.nan, np.nan, np.nan]), 0.7)
    assert some == pytest.approx(0.3)
    assert len(conflict_places(CODES)) == len(CONFLICT)


def test_theta_is_fitted_to_what_came(tmp_path: Path) -> None:
    """Given the shock, which the forecast knows, kinds surge independently: theta is 1, though over
    all weeks they come together."""
    random = np.random.default_rng(7)
    chances = np.clip(random.beta(1, 4, (4000, 1)) + np.zeros((4000, 6)), 0.01, 0.95)
    surges = (random.random((4000, 6)) < chances).astype(float)
    fit = fit_theta(chances, surges.any(axis=1).astype(float))
    assert fit is not None and fit.theta == pytest.approx(1, abs=0.08)
    assert conflict_past(HISTORY, weeks_of(surges[:, None])).theta < 0.85
    assert fit.said == pytest.approx(fit.came, abs=0.02) and fit.joint < fit.largest
    keep_conflict_fit(tmp_path, fit)
    assert read_conflict_fit(tmp_path) == fit
    keep_conflict_fit(tmp_path, None)
    assert read_conflict_fit(tmp_path) is None
    assert fit_theta(chances[:0], np.zeros(0)) is None
