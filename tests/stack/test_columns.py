"""Columns of the intensity: each is a series and a lag, from days before the target day alone."""

from dataclasses import replace

import numpy as np
import pytest

from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.columns import (
    Columns,
    code_presence,
    columns_of,
    norms_of,
    quad_members,
)
from gdelphi.stack.usual import usual_of
from helpers.planted import SIGN, planted_panel

DAYS = np.arange(0, 121)


def columns_from(panel: CountPanel, fitted_on: CountPanel) -> Columns:
    norms = norms_of(fitted_on, np.arange(20, 100))
    return columns_of(panel, usual_of(panel, norms.weekdays), norms)


@pytest.fixture(scope="module")
def panel() -> CountPanel:
    return planted_panel(3, 120)


@pytest.fixture(scope="module")
def columns(panel: CountPanel) -> Columns:
    return columns_from(panel, panel)


def test_names_are_unique_and_values_finite(columns: Columns) -> None:
    assert len(set(columns.names)) == len(columns.names)
    values = columns.at(DAYS)
    assert values.shape == (121, 3, len(columns.names))
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    assert values.min() >= 0


def test_own_rows_of_days_before(panel: CountPanel, columns: Columns) -> None:
    norms = norms_of(panel, np.arange(20, 100))
    multiples = usual_of(panel, norms.weekdays).multiples
    found = columns.select(["own 03 lag 5"]).at(np.array([2, 50, 120]))[:, :, 0]
    wanted = [
        np.zeros(3),
        np.minimum(multiples[45, :, 2], 15),
        np.minimum(multiples[115, :, 2], 15),
    ]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_selected_columns_are_the_same(columns: Columns) -> None:
    chosen = [name for number, name in enumerate(columns.names) if number % 7 == 3]
    places = [columns.names.index(name) for name in chosen]
    some = columns.select(chosen)
    assert some.names == tuple(chosen)
    assert some.select(chosen[:2]).names == tuple(chosen[:2])
    np.testing.assert_array_equal(some.at(DAYS), columns.at(DAYS)[:, :, places])
    np.testing.assert_array_equal(
        some.select(chosen[1:2]).at(DAYS), columns.at(DAYS)[:, :, places[1:2]]
    )


@pytest.mark.parametrize("size", [1, 30, 100, 119])
def test_a_shorter_panel_gives_the_same_bits(
    panel: CountPanel, columns: Columns, size: int
) -> None:
    cut = columns_from(panel.until(panel.roots.days[size - 1]), panel)
    days = np.arange(size + 1)
    np.testing.assert_array_equal(cut.at(days), columns.at(days))


def test_norms_know_nothing_of_later_days(panel: CountPanel) -> None:
    days = np.arange(20, 80)
    whole, cut = (norms_of(each, days) for each in (panel, panel.until(panel.roots.days[79])))
    np.testing.assert_array_equal(whole.weekdays, cut.weekdays)
    np.testing.assert_array_equal(whole.hostile, cut.hostile)
    np.testing.assert_array_equal(whole.acted_shares, cut.acted_shares)
    assert whole.world_rows == cut.world_rows
    assert {"partners", "borders", "everyone"} == set(whole.affinities)
    for name, affinity in whole.affinities.items():
        np.testing.assert_array_equal(affinity, cut.affinities[name])


def test_everyone_is_all_others_and_not_oneself(panel: CountPanel) -> None:
    counts = panel.roots.counts.copy()
    counts[1, 60] *= 100
    loud = replace(panel, roots=replace(panel.roots, counts=counts))
    day = np.array([61])
    calm, news = (
        columns_from(each, panel).select(["everyone 01 lag 1"]).at(day)[0, :, 0]
        for each in (panel, loud)
    )
    assert (news > 3 * calm).tolist() == [True, False, True]


def test_streams_without_others_are_as_usual() -> None:
    panel = planted_panel(1, 120)
    columns = columns_from(panel, panel)
    alone = [name for name in columns.names if name.split()[0] in ("partners", "everyone")]
    assert (columns.select(alone).at(np.arange(5, 121)) == 1).all()


def test_presence_of_fine_codes(panel: CountPanel) -> None:
    code = panel.fine_codes.index(SIGN)
    found = code_presence(panel, [(SIGN, 3)], np.array([1, 60, 120]))[:, :, 0]
    wanted = [np.zeros(3), panel.fine[:, 57, code] > 0, panel.fine[:, 117, code] > 0]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_roots_are_in_their_quad_classes() -> None:
    roots = [f"{number:02d}" for number in range(1, 21)]
    assert quad_members(roots).sum(axis=1).tolist() == [5, 4, 5, 6]
    assert quad_members(["01", "19"]).tolist() == [[1, 0], [0, 0], [0, 0], [0, 1]]
