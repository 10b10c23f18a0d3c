"""Charts show what they are given."""

import math
import re

import pytest

from gdelphi.inspect.drawing import draw, legend
from gdelphi.inspect.result import Chart, power_of_ten, series, short


def chart(**options: bool) -> Chart:
    shown = (
        series("found", [1, 10, 100], [2, 20, 200]),
        series("dots", [1, 10], [3, 5], "dots"),
        series("<guide>", [1, 100], [1, 100], "guide"),
    )
    return Chart('A "title" <b>', "n", "y", shown, **options)


@pytest.mark.parametrize("log", [False, True])
def test_points_lie_inside_and_in_order(log: bool) -> None:
    svg = str(draw(chart(log_x=log, log_y=log)))
    circles = re.findall(r'<circle class="c0" cx="([\d.]+)" cy="([\d.]+)"', svg)
    places = [(float(x), float(y)) for x, y in circles]
    assert len(places) == 3
    assert all(0 < x < 480 and 0 < y < 300 for x, y in places)
    assert places == sorted(places, key=lambda place: (place[0], -place[1]))
    if log:  # equal ratios are equal steps
        assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0], abs=0.2)
    assert len(re.findall(r'class="grid"', svg)) >= 2
    assert "style=" not in svg


def test_ticks_of_a_narrow_range_differ() -> None:
    for low, high in ((0.38311, 0.38363), (0.0, 0.7), (2.0, 8.0), (0.0, 10.0)):
        svg = str(draw(Chart("t", "x", "y", (series("a", [1, 2], [low, high]),))))
        labels = re.findall(r'text-anchor="end">([^<]+)<', svg)
        assert len(labels) == len(set(labels)) >= 3


def test_text_is_escaped_and_the_legend_names_all() -> None:
    assert "<b>" not in str(draw(chart()))
    assert legend(chart())[2] == ("guide c2", "<guide>")


def test_what_a_scale_cannot_show_is_left_out() -> None:
    odd = Chart("t", "x", "y", (series("a", [0, 1, 2, 3], [1, math.nan, math.inf, 4]),), log_x=True)
    assert str(draw(odd)).count("<circle") == 1
    nothing = Chart("t", "x", "y", (series("a", [], []),))
    assert "<svg" in str(draw(nothing))
    assert "<path" not in str(draw(nothing))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (1234.5, "1,234"),
        (10_000, "10,000"),
        (0.12345, "0.123"),
        (1e-7, "1.0e-07"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert short(value) == shown


def test_powers_of_ten_may_be_too_large_for_a_number() -> None:
    assert power_of_ten(2) == "100"
    assert power_of_ten(1234.4) == "10^1234"
