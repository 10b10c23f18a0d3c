"""What a part of an inspection finds: a verdict, words, tables and charts; all of it plain data."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gdelphi.common.errors import GdelphiError

SeriesStyle = Literal["line", "dots", "guide"]


class NotApplicable(GdelphiError):
    """A part has nothing to say about a model, or cannot; the message is the reason, in a line."""


@dataclass(frozen=True)
class ChartSeries:
    """Points of a chart under one name."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: SeriesStyle = "line"
    """a guide is something to compare with: dashed"""


@dataclass(frozen=True)
class Chart:
    """A chart of some series."""

    title: str
    x_label: str
    y_label: str
    series: tuple[ChartSeries, ...]
    log_x: bool = False
    log_y: bool = False
    limits: tuple[float, float] | None = None
    """of both axes; None: what the series need"""


@dataclass(frozen=True)
class ResultTable:
    """A table of words and numbers that are ready to be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PartResult:
    """What a part has found."""

    verdict: str
    """one line"""
    words: str
    """a paragraph"""
    charts: tuple[Chart, ...]
    tables: tuple[ResultTable, ...] = ()
    figures: tuple[tuple[str, float], ...] = ()
    """numbers by name, for programs"""
    alarm: bool = False
    """whether somebody should act"""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        known: dict[str, Any] = _plain({**asdict(self), "figures": dict(self.figures)})
        return known


def _plain(value: Any) -> Any:
    """The same without numbers that JSON does not know: they become null."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def series(
    name: str, x: Sequence[float], y: Sequence[float], style: SeriesStyle = "line"
) -> ChartSeries:
    """A series of any sequences of numbers."""
    return ChartSeries(name, tuple(map(float, x)), tuple(map(float, y)), style)


def short(value: float) -> str:
    """A number of a table: three digits, and powers of ten where it is very large or small."""
    if value != value:
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.1e}"


def power_of_ten(exponent: float) -> str:
    """10 to an exponent that may be too large for a number."""
    return short(10**exponent) if exponent < 4 else f"10^{exponent:.0f}"
