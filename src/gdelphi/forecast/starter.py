"""Forecasts before anything is trained: by the network that is shipped with the package.

It speaks of tomorrow and of the roots, and needs nothing but a store with two months of days: no
embeddings, no pack, no model. There are no futures and no arguments, and nothing is kept: a trained
model says more, and says how good it has been on the very data.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS, FloatArray
from gdelphi.forecast.origin import resolve_origin
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import stream_name
from gdelphi.gdelt.find_names import stream_among
from gdelphi.measures.count_panel import CountPanel, read_count_panel
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.measures.targets import headline_of
from gdelphi.stack.context import context_table
from gdelphi.stack.starter import Starter, shipped_starter
from gdelphi.store.connection import Store

HISTORY: Final = 800  # days that are looked at, the last ones


@dataclass(frozen=True)
class StarterEvent:
    """One root of a stream, tomorrow."""

    code: str
    label: str
    occurs: float
    headline: float
    surge: float | None
    """None: undefined"""
    usual: float
    """how often it has been a headline"""


@dataclass(frozen=True)
class StarterStream:
    """A stream's tomorrow."""

    stream: str
    name: str
    events: tuple[StarterEvent, ...]
    """all roots, the likeliest headlines first"""


@dataclass(frozen=True)
class StarterForecast:
    """What is said of the day after an origin."""

    origin: date
    partial: bool
    """the origin's day was not complete"""
    days: int
    """of the store that it was read off"""
    streams: tuple[StarterStream, ...]

    @property
    def target_day(self) -> date:
        return self.origin + timedelta(days=1)


def starter_forecast(
    settings: Settings,
    *,
    origin: date | Literal["latest"] = "latest",
    streams: str = "all",
    allow_partial: bool = False,
    as_of: date | None = None,
    starter: Starter | None = None,
) -> StarterForecast:
    """Of the streams that a text names: codes or names with commas, top50, or all, which are as
    many as a model would be trained on."""
    at = resolve_origin(settings, origin, as_of=as_of, allow_partial=allow_partial)
    panel = _panel(settings, at.origin)
    days = int(panel.roots.present.sum())
    try:
        table = context_table(panel, [len(panel.roots.days)])
    except ForecastError as error:
        raise ForecastError(
            f"{settings.store}: {error}; `gdelphi ingest --since` brings earlier days"
        ) from None
    chances = (starter or shipped_starter()).probabilities(table)[0]
    usual = headline_of(panel.roots.weights[:, panel.roots.present]).mean(axis=1)
    chosen = _chosen(panel.roots.streams, streams)
    told = (
        StarterStream(stream, stream_name(stream), _events(panel.roots, chances[n], usual[n]))
        for n, stream in enumerate(panel.roots.streams)
        if stream in chosen
    )
    return StarterForecast(at.origin, at.partial, days, tuple(told))


def _panel(settings: Settings, origin: date) -> CountPanel:
    """The counts of the largest countries on the last days, or of those that the settings name,
    from the first of these days that the store has."""
    since = origin - timedelta(days=HISTORY - 1)
    with Store(settings).reading() as connection:
        only = settings.sequences.only or None
        found = read_profiles(connection, "root", only, since=since, until=origin)
        streams = found.streams if only else found.streams[: settings.sequences.streams]
        first = found.days[int(np.argmax(found.present))]
        roots = read_profiles(connection, "root", streams, since=first, until=origin)
        return read_count_panel(connection, roots)


def _chosen(streams: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Those that a text names; the largest come first."""
    text = text.strip()
    if text.lower() == "all":
        return streams
    if number := re.fullmatch(r"top(\d+)", text.lower()):
        return streams[: max(int(number[1]), 1)]
    return tuple(stream_among(name, streams) for name in text.split(",") if name.strip())


def _events(roots: Profiles, chances: FloatArray, usual: FloatArray) -> tuple[StarterEvent, ...]:
    """The roots of a stream; chances [root, target]."""
    labels = event_codes()
    headline = TARGETS.index("headline")
    return tuple(
        StarterEvent(
            code=roots.codes[place],
            label=labels[roots.codes[place]].label,
            occurs=float(chances[place, 0]),
            headline=float(chances[place, headline]),
            surge=None if np.isnan(chances[place, 2]) else float(chances[place, 2]),
            usual=float(usual[place]),
        )
        for place in np.argsort(-chances[:, headline], kind="stable")
    )
