"""A stored forecast in brief: what a reader wants first.

Read from the files of the forecast alone, so that it can be told again at any time, without the
model and the store that it came from.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gdelphi.forecast.archive import StoredForecast
from gdelphi.gdelt.cameo import event_codes
from gdelphi.measures.brief import name_of

HEADLINES: Final = 5
CHANGES: Final = 15
USUAL: Final = "climatology"


@dataclass(frozen=True)
class StatedProbability:
    """A published probability beside what else could be said."""

    stream: str
    code: str
    label: str
    target: str
    published: float
    which: str
    stack: float
    usual: float
    """how often it has come in all"""


@dataclass(frozen=True)
class StreamInBrief:
    """One stream's next day."""

    stream: str
    name: str
    brief: tuple[tuple[float, str], ...]
    """weight and phrase"""
    headlines: tuple[StatedProbability, ...]
    """the likeliest headline roots"""
    effective: float
    """number of equally weighted futures that say as much"""
    who: dict[str, dict[str, str]]
    """for each headline root the likeliest actor 1, actor 2 and region"""


@dataclass(frozen=True)
class ForecastInBrief:
    """A forecast as its reader meets it."""

    streams: tuple[StreamInBrief, ...]
    changes: tuple[StatedProbability, ...]
    """headline roots that are furthest from what is usual"""


def in_brief(forecast: StoredForecast) -> ForecastInBrief:
    """Read a stored forecast."""
    names = ["stream", "level", "target", "code", "published", "which", "stack", USUAL]
    rows = forecast.table("probabilities", names).to_pylist()
    headlines = [
        _said(row) for row in rows if (row["level"], row["target"]) == ("root", "headline")
    ]
    changes = sorted(headlines, key=lambda each: -abs(each.published - each.usual))
    brief = _by_stream(forecast.table("brief").to_pylist())
    futures = _by_stream(forecast.table("futures", ["stream", "weight"]).to_pylist())
    events = _by_stream(forecast.table("events").to_pylist() if "events" in forecast else [])
    streams = []
    for stream in forecast.manifest.recipe.streams:
        own = sorted(
            (each for each in headlines if each.stream == stream), key=lambda each: -each.published
        )
        weights = np.array([row["weight"] for row in futures[stream]])
        streams.append(
            StreamInBrief(
                stream=stream,
                name=name_of(stream),
                brief=tuple((row["weight"], row["phrase"]) for row in brief[stream]),
                headlines=tuple(own[:HEADLINES]),
                effective=float(1 / (weights**2).sum()),
                who=_who(events[stream]),
            )
        )
    return ForecastInBrief(tuple(streams), tuple(changes[:CHANGES]))


def _said(row: dict[str, Any]) -> StatedProbability:
    label = event_codes()[row["code"]].label
    return StatedProbability(
        row["stream"], row["code"], label, row["target"], row["published"], row["which"],
        row["stack"], row[USUAL],
    )  # fmt: skip


def _by_stream(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["stream"]].append(row)
    return found


def _who(events: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The likeliest argument of each kind, for each root."""
    found: dict[str, dict[str, str]] = {}
    for row in events:
        if (row["level"], row["rank"]) == ("root", 1):
            found.setdefault(row["code"], {})[row["argument"]] = row["words"]
    return found
