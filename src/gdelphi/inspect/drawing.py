"""Charts as SVG with attributes and classes only, so that a page may forbid inline styles."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from gdelphi.inspect.result import Chart, ChartSeries, short

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 46
COLOURS: Final = 5
TICKS: Final = 5
STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(NamedTuple):
    """A scale from values to places."""

    low: float
    high: float
    first: float
    last: float
    log: bool

    def place(self, value: float) -> float:
        share = (_scaled(value, self.log) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels."""
        if self.log and self.high - self.low >= 0.9:
            every = max(1, math.ceil((self.high - self.low) / TICKS))
            powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1, every)
            return [(self.place(10.0**power), short(10.0**power)) for power in powers]
        low, high = (10**self.low, 10**self.high) if self.log else (self.low, self.high)
        step, values = _round_values(low, high)
        digits = max(0, math.ceil(-math.log10(step) - 1e-9) + (_leading(step) == 2.5))
        return [(self.place(value), f"{value:,.{digits}f}") for value in values]


def _scaled(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _leading(step: float) -> float:
    """A number from 1 to 10 that is a power of ten from the step."""
    return round(step / 10.0 ** math.floor(math.log10(step)), 6)


def _round_values(low: float, high: float) -> tuple[float, list[float]]:
    """A step, and its few multiples between two numbers."""
    rough = (high - low) / TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in STEPS if step * unit >= rough * 0.999) * unit
    first = math.ceil(low / step - 1e-9)
    return step, [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def draw(chart: Chart) -> Markup:
    """A chart; points that its scales cannot show are left out."""
    shown = [_visible(one, chart) for one in chart.series]
    x_values = chart.limits or [x for one in shown for x in one.x]
    y_values = chart.limits or [y for one in shown for y in one.y]
    x_axis = _axis(x_values, LEFT, WIDTH - RIGHT, chart.log_x)
    y_axis = _axis(y_values, HEIGHT - BOTTOM, TOP, chart.log_y)
    parts = [
        Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, f"{chart.title}: {chart.y_label} against {chart.x_label}"
        )
    ]
    for place, label in y_axis.ticks():
        parts.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(LEFT, WIDTH - RIGHT, place, place, LEFT - 6, place + 4, label)
        )
    for place, label in x_axis.ticks():
        parts.append(
            Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                place, HEIGHT - BOTTOM + 17, label
            )
        )
    parts.append(
        Markup(
            '<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>'
            '<text class="label" x="{3}" y="{4}" text-anchor="middle">{5}</text>'
        ).format(
            LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8,
            chart.x_label,
        )
    )  # fmt: skip
    for number, one in enumerate(shown):
        parts.append(_drawn(one, number, x_axis, y_axis))
    return Markup("").join([*parts, Markup("</svg>")])


def _visible(one: ChartSeries, chart: Chart) -> ChartSeries:
    kept = [
        (x, y)
        for x, y in zip(one.x, one.y, strict=True)
        if math.isfinite(x) and math.isfinite(y)
        and (x > 0 or not chart.log_x) and (y > 0 or not chart.log_y)
    ]  # fmt: skip
    return ChartSeries(one.name, tuple(x for x, _ in kept), tuple(y for _, y in kept), one.style)


def _axis(values: Sequence[float], first: float, last: float, log: bool) -> Axis:
    scaled = [_scaled(value, log) for value in values] or [0.0, 1.0]
    low, high = min(scaled), max(scaled)
    room = 0.04 * (high - low) or max(0.1 * abs(low), 0.1)
    return Axis(low - room, high + room, first, last, log)


def _drawn(one: ChartSeries, number: int, x_axis: Axis, y_axis: Axis) -> Markup:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in zip(one.x, one.y, strict=True)]
    colour = f"c{number % COLOURS}"
    parts = []
    if one.style != "dots" and places:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(Markup('<path class="{} {}" d="{}"/>').format(one.style, colour, path))
    if one.style != "guide":
        parts += [
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3.2"/>').format(colour, x, y)
            for x, y in places
        ]
    return Markup("").join(parts)


def legend(chart: Chart) -> list[tuple[str, str]]:
    """(classes, name) of each series."""
    return [
        (f"{one.style} c{number % COLOURS}", one.name) for number, one in enumerate(chart.series)
    ]
