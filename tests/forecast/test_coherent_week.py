"""Numbers of a week that agree, from numbers that do not."""

import numpy as np
import pytest

from gdelphi.forecast.coherent_week import coherent_week, within_occurs


def drawn(seed: int, cells: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Truths that are possible, and what noise makes of them."""
    random = np.random.default_rng(seed)
    happens = random.random((7, cells)) < random.random(cells) ** 2
    headline, surge = (happens & (random.random((7, cells)) < 0.6) for _ in range(2))
    daily = np.stack([happens, headline, surge]).astype(float)
    return daily, daily.max(axis=1)


def assert_agrees(daily: np.ndarray, within: np.ndarray) -> None:
    everything = np.concatenate([daily, within[:, None]], axis=1)
    assert (everything[1:] <= everything[:1] + 1e-12).all(), "nothing is likelier than occurs"
    assert (daily <= within[:, None] + 1e-12).all(), "no day is likelier than the week"
    assert (within <= daily.sum(axis=1) + 1e-12).all(), "the week needs a day"
    assert (everything >= 0).all() and (everything <= 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_contradictions_go_and_errors_do_not_grow(seed: int) -> None:
    random = np.random.default_rng([seed, 1])
    came, came_within = drawn(seed)
    daily, within = (
        np.clip(0.6 * truth + 0.2 + random.normal(0, 0.2, truth.shape), 0.001, 0.999)
        for truth in (came, came_within)
    )
    daily[:, 0] = within_occurs(daily[:, 0])  # tomorrow as it is published
    days, week = coherent_week(daily, within)
    assert_agrees(days, week)
    np.testing.assert_array_equal(days[:, 0], daily[:, 0])
    before = ((daily - came) ** 2).sum() + ((within - came_within) ** 2).sum()
    after = ((days - came) ** 2).sum() + ((week - came_within) ** 2).sum()
    assert after < before


def test_what_agrees_stays_as_it_is() -> None:
    daily = np.array([[0.5] * 7, [0.2] * 7, [0.1] * 7])[..., None]
    within = np.array([0.9, 0.5, 0.4])[:, None]
    days, week = coherent_week(daily, within)
    np.testing.assert_allclose(days, daily, atol=1e-15)
    np.testing.assert_allclose(week, within, atol=1e-15)


def test_an_undefined_surge_stays_undefined() -> None:
    daily, within = np.full((3, 7, 2), 0.3), np.full((3, 2), 0.1)
    daily[2, :, 0], within[2, 0] = np.nan, np.nan
    days, week = coherent_week(daily, within)
    assert np.isnan(days[2, :, 0]).all() and np.isnan(week[2, 0])
    assert np.isfinite(days[:2]).all() and np.isfinite(week[:2]).all()
    assert week[0, 0] >= 0.3 - 1e-12
