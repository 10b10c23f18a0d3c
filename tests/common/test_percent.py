"""Probabilities as readers see them."""

import math

import pytest

from gdelphi.common.percent import percent, points, thousandths


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "<1%"), (0.004, "<1%"), (0.0045, "1%"), (0.0149, "2%"), (0.0144, "1%"),
        (0.105, "11%"), (0.125, "13%"), (0.344, "34%"), (0.3449, "35%"), (0.9944, "99%"),
        (0.9945, ">99%"), (0.995, ">99%"), (1.0, ">99%"), (None, "–"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_halves_go_up_twice_and_nothing_is_certain(value: float | None, shown: str) -> None:
    assert percent(value) == shown


def test_no_value_is_shown_as_certain() -> None:
    shown = {percent(number / 100_000) for number in range(100_001)}
    assert shown == {"<1%", ">99%", *(f"{number}%" for number in range(1, 100))}


def test_differences_have_signs_and_the_same_rule() -> None:
    assert [points(value) for value in (0.004, 0.0045, 0.12, -0.125, -0.004)] == [0, 1, 12, -13, 0]
    assert thousandths(0.0005) == 1
