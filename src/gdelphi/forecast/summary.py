"""A summary of a stored forecast: what a reader wants first.

Read from the files of the forecast alone, so that it can be made again at any time, without the
model and the store that it came from.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np

from gdelphi.forecast.archive import StoredForecast
from gdelphi.forecast.stored_week import StoredWeek, WeekCell, read_week
from gdelphi.forecast.unusual import escalating, most_unusual, unusual_roots
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name

HEADLINES: Final = 5
CHANGES: Final = 15
WEEK_ROOTS: Final = 6  # of a stream
UNUSUAL: Final = 10
USUAL: Final = "climatology"


@dataclass(frozen=True)
class HeadlineProbability:
    """The published probability of a headline, beside the stack's and the usual one."""

    stream: str
    code: str
    label: str
    target: str
    published: float
    which: str
    stack: float
    usual: float
    """its rate over all past days"""


@dataclass(frozen=True)
class StreamSummary:
    """One stream's target day."""

    stream: str
    name: str
    brief: tuple[tuple[float, str], ...]
    """weight and phrase"""
    headlines: tuple[HeadlineProbability, ...]
    """the likeliest headline roots"""
    effective: float
    """number of equally weighted futures that say as much"""
    who: dict[str, dict[str, str]]
    """for each headline root the likeliest actor 1, actor 2 and region"""


@dataclass(frozen=True)
class WeekLine:
    """A root and target over the week."""

    stream: str
    code: str
    label: str
    target: str
    days: tuple[float | None, ...]
    """published, of each day"""
    published: float | None
    """within the week"""
    usual: float | None


@dataclass(frozen=True)
class WeekSummary:
    """The seven days after the origin."""

    days: tuple[date, ...]
    streams: dict[str, tuple[WeekLine, ...]]
    """headlines of the roots that are furthest from their usual"""
    unusual: tuple[WeekLine, ...]
    """headlines and surges of all streams that are furthest above their usual"""
    escalations: dict[str, tuple[float | None, float | None]]
    """that material conflict doubles, and usually; streams where it is likelier than usual"""


@dataclass(frozen=True)
class ForecastSummary:
    """What a reader wants first of a forecast."""

    streams: tuple[StreamSummary, ...]
    changes: tuple[HeadlineProbability, ...]
    """headline roots that are furthest from what is usual"""
    week: WeekSummary | None
    """None: the forecast is of tomorrow only"""


def summarise_forecast(forecast: StoredForecast) -> ForecastSummary:
    """The summary of a stored forecast, from its tables."""
    names = ["stream", "level", "target", "code", "published", "which", "stack", USUAL]
    rows = forecast.table("probabilities", names).to_pylist()
    headlines = [
        HeadlineProbability(
            row["stream"], row["code"], event_codes()[row["code"]].label, row["target"],
            row["published"], row["which"], row["stack"], row[USUAL],
        )
        for row in rows
        if (row["level"], row["target"]) == ("root", "headline")
    ]  # fmt: skip
    changes = sorted(headlines, key=lambda one: -abs(one.published - one.usual))
    brief = _by_stream(forecast.table("brief").to_pylist())
    futures = _by_stream(forecast.table("futures", ["stream", "weight"]).to_pylist())
    events = _by_stream(forecast.table("events").to_pylist() if "events" in forecast else [])
    streams = []
    for stream in forecast.manifest.recipe.streams:
        own = [headline for headline in headlines if headline.stream == stream]
        own.sort(key=lambda headline: -headline.published)
        weights = np.array([row["weight"] for row in futures[stream]])
        streams.append(
            StreamSummary(
                stream=stream,
                name=stream_name(stream),
                brief=tuple((row["weight"], row["phrase"]) for row in brief[stream]),
                headlines=tuple(own[:HEADLINES]),
                effective=float(1 / (weights**2).sum()),
                who=_likeliest_arguments(events[stream]),
            )
        )
    week = read_week(forecast)
    return ForecastSummary(
        tuple(streams), tuple(changes[:CHANGES]), summarise_week(week) if week else None
    )


def summarise_week(week: StoredWeek) -> WeekSummary:
    """What is unusual about a week, of each stream and of all."""
    return WeekSummary(
        days=tuple(week.days),
        streams={
            stream: tuple(
                _week_line(week.cells[stream, code, "headline"])
                for code in unusual_roots(week, stream, WEEK_ROOTS)
            )
            for stream in week.streams
        },
        unusual=tuple(_week_line(cell) for cell in most_unusual(week)[:UNUSUAL]),
        escalations={
            stream: (chances.published, chances.usual) for stream, chances in escalating(week)
        },
    )


def _week_line(cell: WeekCell) -> WeekLine:
    return WeekLine(
        cell.stream,
        cell.code,
        event_codes()[cell.code].label,
        cell.target,
        tuple(day.published for day in cell.days),
        cell.within.published,
        cell.within.usual,
    )


def _by_stream(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    by_stream: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_stream[row["stream"]].append(row)
    return by_stream


def _likeliest_arguments(events: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The likeliest argument of each kind, for each root."""
    arguments: dict[str, dict[str, str]] = {}
    for row in events:
        if (row["level"], row["rank"]) == ("root", 1):
            arguments.setdefault(row["code"], {})[row["argument"]] = row["words"]
    return arguments
