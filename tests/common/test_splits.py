"""Splits: by shares, by dates, with days left out between parts, and what cannot be split."""

from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdelphi.common.errors import ConfigError
from gdelphi.common.sections import SplitSettings
from gdelphi.common.splits import (
    PARTS,
    Splits,
    split_days,
)

FIRST = date(2014, 1, 1)
LAST = date(2014, 4, 10)  # 100 days


def day_number(number: int) -> date:
    return FIRST + timedelta(days=number)


def numbers_of(splits: Splits) -> dict[str, tuple[int, int]]:
    """The bounds of parts as numbers of days, from 0."""
    return {
        part: ((splits.days(part)[0] - FIRST).days, (splits.days(part)[1] - FIRST).days)
        for part in PARTS
    }


def hundred_days(**given: Any) -> dict[str, tuple[int, int]]:
    return numbers_of(split_days(FIRST, LAST, SplitSettings(**given)))


def test_by_default_six_tenths_are_for_training_and_weeks_are_left_out_between() -> None:
    assert hundred_days() == {
        "train": (0, 59),
        "validation_a": (67, 69),
        "validation_b": (77, 79),
        "test": (87, 99),
    }


def test_without_embargo_parts_follow_each_other() -> None:
    assert hundred_days(train=0.5, validation_a=0.25, validation_b=0.125, embargo_days=0) == {
        "train": (0, 49),
        "validation_a": (50, 74),
        "validation_b": (75, 87),  # half of a day is rounded to the even number
        "test": (88, 99),
    }


def test_dates_go_before_shares() -> None:
    assert hundred_days(train_until=day_number(39), embargo_days=2) == {
        "train": (0, 39),
        "validation_a": (42, 69),
        "validation_b": (72, 79),
        "test": (82, 99),
    }
    dates = {"validation_a_until": day_number(64), "validation_b_until": day_number(94)}
    assert hundred_days(**dates, embargo_days=1) == {
        "train": (0, 59),
        "validation_a": (61, 64),
        "validation_b": (66, 94),
        "test": (96, 99),
    }


def test_every_day_has_its_part_or_none() -> None:
    splits = split_days(FIRST, LAST, SplitSettings(embargo_days=3))
    found = [splits.part(day_number(number)) for number in range(-1, 101)]
    assert found == [
        None,
        *["train"] * 60,
        *[None] * 3,
        *["validation_a"] * 7,
        *[None] * 3,
        *["validation_b"] * 7,
        *[None] * 3,
        *["test"] * 17,
        None,
    ]


@given(
    st.integers(1, 4000),
    st.tuples(*(st.floats(0.01, 0.4) for _ in range(3))),
    st.integers(0, 30),
)
@settings(deadline=None)
def test_parts_are_in_order_and_apart_or_there_are_none(
    days: int, shares: tuple[float, float, float], embargo: int
) -> None:
    train, validation_a, validation_b = shares
    given = SplitSettings(
        train=train, validation_a=validation_a, validation_b=validation_b, embargo_days=embargo
    )
    try:
        found = numbers_of(split_days(FIRST, day_number(days - 1), given))
    except ConfigError:
        return
    bounds = [found[part] for part in PARTS]
    assert (bounds[0][0], bounds[-1][1]) == (0, days - 1)
    assert all(start <= end for start, end in bounds)
    for (_, end), (start, _) in pairwise(bounds):
        assert start - end == embargo + 1
    for (start, end), share in zip(bounds, shares, strict=False):
        assert abs(end - start + 1 - share * days) <= embargo + 1


def test_shares_that_leave_nothing_to_test_are_refused() -> None:
    with pytest.raises(ConfigError, match="take 1 of the days; nothing is left to test"):
        hundred_days(train=0.5, validation_a=0.25, validation_b=0.25)
    dated = hundred_days(
        train=0.5, validation_a=0.25, validation_b=0.25, validation_b_until=day_number(90)
    )
    assert dated["test"] == (98, 99)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"train_until": FIRST - timedelta(days=1)}, "train"),
        ({"train_until": day_number(63)}, "validation_a"),  # it would begin on day 71, after 69
        ({"validation_a_until": day_number(66)}, "validation_a"),
        ({"validation_a_until": day_number(72)}, "validation_b"),
        ({"validation_b_until": LAST}, "test"),
        ({"train_until": LAST + timedelta(days=5)}, "validation_a"),
        ({"embargo_days": 10}, "validation_a"),
    ],
)
def test_a_part_without_days_is_named_with_a_remedy(given: dict[str, Any], part: str) -> None:
    complaint = (
        f"no day is left for {part} between 2014-01-01 and 2014-04-10; set other dates or shares, "
        r"or a shorter embargo \(split.embargo_days\)"
    )
    with pytest.raises(ConfigError, match=complaint):
        hundred_days(**given)


def test_days_the_wrong_way_round_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match="no day is left for train"):
        split_days(LAST, FIRST, SplitSettings())


def test_a_part_of_one_day_is_enough() -> None:
    splits = split_days(FIRST, day_number(3), SplitSettings(
        train=0.25, validation_a=0.25, validation_b=0.25, embargo_days=0
    ))  # fmt: skip
    assert [splits.part(day_number(number)) for number in range(4)] == list(PARTS)
