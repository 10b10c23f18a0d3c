"""The recent level of the stack: closed forms, and the stack moved by it."""

from datetime import date, timedelta

import numpy as np
import pytest

from gdelphi.common.types import TARGETS
from gdelphi.stack.fitted import POOLED, STACK, CountForecasters, StackFit, pooled_logits
from gdelphi.stack.linear import expit, logit
from gdelphi.stack.recent_level import (
    HALF_LIFE,
    PRIOR,
    REACH,
    WINDOW,
    levels_in_order,
    recent_level,
)
from helpers.small_stack import VALIDATION_B, small_panel, small_stack

SHAPE = (len(TARGETS), 1, 50, 20)
CELLS = 1000


def half(days: int = 1) -> np.ndarray:
    """Logits of one half for all cells."""
    return np.zeros((len(TARGETS), days, 50, 20))


def test_one_day_of_too_many_hits_is_a_step_held_by_the_prior() -> None:
    came = np.ones(SHAPE)
    level = recent_level(half(), came, np.array([HALF_LIFE]))
    # w = 1/2: 1,000 cells half a hit too low, of variance 1/4 each
    assert level == pytest.approx(0.5 * CELLS * 0.5 / (0.5 * CELLS * 0.25 + PRIOR))


def test_answers_that_are_right_on_average_are_left_alone() -> None:
    came = np.zeros(SHAPE)
    came[..., :10] = 1
    assert recent_level(half(), came, np.array([1])) == pytest.approx(0, abs=1e-15)


def test_cells_that_are_undefined_count_for_nothing() -> None:
    came, logits = np.ones(SHAPE), half()
    expected = recent_level(logits[:, :, :25], came[:, :, :25], np.array([1]))
    came[:, :, 25:40] = np.nan
    logits[:, :, 40:] = np.nan
    assert recent_level(logits, came, np.array([1])) == pytest.approx(expected)


def test_with_many_days_the_level_comes_near_to_what_was_planted() -> None:
    random = np.random.default_rng(0)
    logits = logit(random.uniform(0.05, 0.6, (len(TARGETS), WINDOW, 50, 20)))
    came = (random.random(logits.shape) < expit(logits + 0.2)).astype(float)
    level = recent_level(logits, came, np.arange(WINDOW, 0, -1))
    assert level == pytest.approx(0.2 * np.ones(len(TARGETS)), abs=0.05)


def test_days_in_order_see_those_before_them_only_and_none_that_are_too_old() -> None:
    ordinals = np.array([100, 101, 102, 102 + REACH, 103 + REACH])
    came = np.ones((len(TARGETS), 5, 50, 20))
    levels = levels_in_order(half(5), came, ordinals)
    assert (levels[:, 0] == 0).all()
    two = recent_level(half(2), came[:, :2], np.array([2, 1]))
    assert levels[:, 2] == pytest.approx(two)
    assert levels[:, 3] == pytest.approx(recent_level(half(), came[:, :1], np.array([REACH])))
    changed = came.copy()
    changed[:, 3:] = 0
    np.testing.assert_array_equal(levels_in_order(half(5), changed, ordinals)[:, :4], levels[:, :4])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> StackFit:
    return small_stack(tmp_path_factory)


@pytest.mark.slow
def test_the_stack_is_its_members_moved_by_the_level_of_the_days_before(fitted: StackFit) -> None:
    panel = small_panel()
    stack, known = CountForecasters(fitted, panel).stack, fitted.out_of_fold
    day = date.fromordinal(int(known.days[-1]))  # a day of fitting
    given = np.stack([known.at(day, name) for name in POOLED], axis=-1)
    level = stack.level(panel.roots, day - timedelta(days=1))
    said = known.at(day, STACK)
    assert (level != 0).all()
    np.testing.assert_allclose(
        said, pooled_logits(fitted.pool, given) + level[:, None, None], atol=2e-5
    )


@pytest.mark.slow
def test_the_level_does_not_depend_on_what_was_asked_before(fitted: StackFit) -> None:
    panel = small_panel()
    origin = panel.roots.days[VALIDATION_B + 3]
    alone = CountForecasters(fitted, panel).stack
    after_others = CountForecasters(fitted, panel).stack
    for ago in (2, 1):
        after_others.forecast(panel.roots, origin - timedelta(days=ago))
    np.testing.assert_array_equal(
        alone.answers(panel.roots, origin).stack, after_others.answers(panel.roots, origin).stack
    )
    cut = CountForecasters(fitted, panel.until(origin)).stack
    np.testing.assert_array_equal(
        cut.level(panel.roots.until(origin), origin), alone.level(panel.roots, origin)
    )
