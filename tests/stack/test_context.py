"""Columns that are read off a panel's past: nothing from later days, and announcements found."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.context import EVERY, ContextReader, _read_law, context_table
from helpers.small_stack import DAYS, small_panel

AT = 200


@pytest.fixture(scope="module")
def panel() -> CountPanel:
    return small_panel()


def test_no_day_from_the_target_day_on_is_looked_at(panel: CountPanel) -> None:
    whole = context_table(panel, [AT])
    cut = context_table(panel.until(panel.roots.days[AT - 1]), [AT])
    np.testing.assert_array_equal(whole.columns, cut.columns)
    np.testing.assert_array_equal(whole.base, cut.base)
    assert np.isfinite(whole.columns).all()
    assert np.isnan(cut.outcomes).all()
    assert not np.isnan(whole.outcomes[..., 0]).any()


def test_several_days_are_read_as_each_alone_while_one_reading_serves_them(
    panel: CountPanel,
) -> None:
    together = context_table(panel, [AT, AT + 3])
    np.testing.assert_array_equal(together.columns[:1], context_table(panel, [AT]).columns)
    assert together.columns.shape[0] == 2


def test_the_day_after_the_last_has_columns(panel: CountPanel) -> None:
    table = context_table(panel, [DAYS])
    assert np.isfinite(table.columns).all()
    assert np.isnan(table.outcomes).all()


def test_too_few_days_are_refused_with_the_number_that_is_needed(panel: CountPanel) -> None:
    with pytest.raises(ForecastError, match=r"\d+ days before 2021-02-03 are too few: two months"):
        context_table(panel, [30])


def test_a_reader_says_the_same_of_a_day_whichever_others_are_asked_about(
    panel: CountPanel,
) -> None:
    start = panel.roots.days[AT - 7]
    days = [AT - 20, AT, AT + 3, AT + EVERY - 9]
    together = ContextReader(panel, start).table(days)
    reader = ContextReader(panel, start)
    for place in (3, 1, 0, 2):
        alone = reader.table([days[place]])
        np.testing.assert_array_equal(together.columns[place], alone.columns[0])
        np.testing.assert_array_equal(together.outcomes[place], alone.outcomes[0])
    another = ContextReader(panel, start + timedelta(days=EVERY)).table(days)
    np.testing.assert_array_equal(together.columns, another.columns)


def test_a_reader_knows_for_which_days_there_is_too_little_before(panel: CountPanel) -> None:
    reader = ContextReader(panel, panel.roots.days[100])
    first = next(position for position in range(DAYS) if reader.knows(position))
    assert first == 100  # the reading before it would begin on the day 55
    assert not any(reader.knows(position) for position in range(first))
    with pytest.raises(ForecastError, match="too few: two months"):
        reader.table([first - 1])


def test_a_code_that_announces_is_found_at_its_lag(panel: CountPanel) -> None:
    """A rare code, and five days later eight times the rows of a root."""
    random, root, code, lead = np.random.default_rng(0), 7, 100, 5
    counts, fine = panel.roots.counts.copy(), panel.fine.copy()
    told = random.random(fine.shape[:2]) < 0.06
    fine[:, :, code] = told
    busy = np.zeros_like(told)
    busy[:, lead:] = told[:, :-lead]
    counts[:, :, root] = random.poisson(np.where(busy, 24, 3))
    counts[:, ~panel.roots.present] = 0
    planted = replace(
        panel,
        roots=replace(panel.roots, counts=counts, volume=counts.sum(axis=2)),
        fine=np.where(panel.roots.present[:, None], fine, 0).astype(np.uint16),
    )
    reading = _read_law(planted, AT, AT + 5)
    plain, announced = (reading.rows[:, :, root, kind] for kind in (1, 3))
    ahead = fine[:, AT - lead : AT, code].T == 1
    assert ahead.any()
    assert announced[ahead].mean() > 2 * announced[~ahead].mean()
    assert announced[ahead].mean() > 1.5 * plain[ahead].mean()
