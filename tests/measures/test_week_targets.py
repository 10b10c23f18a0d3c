"""Targets of the week, on a history that is written down."""

from datetime import date, timedelta

import numpy as np

from gdelphi.common.types import AHEAD
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.week_targets import escalation_base, onset_cells, week_outcomes

CODES = ("01", "14", "19")  # statement, protest, fight: the last is material conflict
FIRST = date(2024, 1, 1)
ORIGIN = FIRST + timedelta(days=99)


def history(days: int = 120) -> Profiles:
    """Two streams: five statements a day, and a fight every fourth day in the first of them."""
    counts = np.zeros((2, days, 3), np.int64)
    counts[:, :, 0] = 5
    counts[0, ::4, 2] = 1
    return Profiles(
        ("AA", "BB"), tuple(FIRST + timedelta(days=n) for n in range(days)), CODES,
        counts, counts.astype(np.float64), counts.sum(axis=2), np.ones(days, np.bool_),
    )  # fmt: skip


def test_within_the_week_is_on_at_least_one_of_its_days() -> None:
    past = history()
    past.counts[1, 103, 1] = past.weights[1, 103, 1] = 2
    came = week_outcomes(past, ORIGIN)
    assert came.daily.shape == (3, AHEAD, 2, 3) and came.within.shape == (3, 2, 3)
    assert came.daily[0, :, 1, 1].tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert came.within[0, 1].tolist() == [1, 1, 0]
    assert came.within[1, 1].tolist() == [1, 1, 0], "a headline on one day"
    assert came.rows[:, 1, 1].sum() == 2


def test_a_surge_is_above_the_threshold_of_the_origin_on_some_day() -> None:
    past = history()
    past.counts[0, 105, 2] = 50
    past.weights[0, 105, 2] = 50.0
    came = week_outcomes(past, ORIGIN)
    assert came.daily[2, :, 0, 2].tolist() == [0, 0, 0, 0, 0, 1, 0]
    assert came.within[2, 0, 2] == 1
    assert np.isnan(came.within[2, 1, 2]), "no threshold where it has never been"


def test_a_week_with_a_missing_day_has_days_but_no_outcome_within() -> None:
    past = history()
    past.present[102] = False
    came = week_outcomes(past, ORIGIN)
    assert np.isnan(came.daily[0, 2]).all() and not np.isnan(came.daily[0, 3]).any()
    assert np.isnan(came.within[0]).all() and np.isnan(came.escalation).all()


def test_days_that_are_not_known_yet_have_no_outcome() -> None:
    came = week_outcomes(history(days=103), ORIGIN)
    assert not np.isnan(came.daily[0, :3]).any() and np.isnan(came.daily[0, 3:]).all()
    assert np.isnan(came.within[0]).all()


def test_onset_cells_have_been_quiet_for_thirty_days() -> None:
    past = history()
    past.counts[1, 70, 1] = 1  # the thirtieth day up to the origin
    past.counts[1, 69, 2] = 1  # the one before
    assert onset_cells(past, ORIGIN).tolist() == [[False, True, False], [False, False, True]]


def test_material_conflict_escalates_when_its_week_is_twice_the_usual_one() -> None:
    past = history()
    base = escalation_base(past, ORIGIN)
    assert base[0] == 7 / 4 and np.isnan(base[1]), "too little to double"
    assert week_outcomes(past, ORIGIN).escalation[0] == 0, "two of them are not twice 1.75"
    past.counts[0, 101, 2] += 2
    assert week_outcomes(past, ORIGIN).escalation[0] == 1
