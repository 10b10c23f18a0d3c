"""Where a forecast stands: its origin in time, and the streams that it is about.

`latest` is the last complete news day: a day that is still coming in looks quiet, and a forecast
from it would say so of the next. Such a day is refused unless asked for, and then the forecast
carries the mark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.gdelt.countries import find_stream, stream_name
from gdelphi.gdelt.find_names import near_streams
from gdelphi.store.connection import Store
from gdelphi.store.status import DayStatus, complete_days, read_days


@dataclass(frozen=True)
class ForecastOrigin:
    """A day to forecast from, and whether it is complete."""

    origin: date
    partial: bool


def resolve_origin(
    settings: Settings,
    origin: date | Literal["latest"],
    *,
    as_of: date | None = None,
    allow_partial: bool = False,
) -> ForecastOrigin:
    """The origin that is meant; a day that is not complete is refused unless it is allowed."""
    as_of = as_of or datetime.now(UTC).date()
    with Store(settings).reading() as connection:
        days = read_days(connection)
    latest = max(complete_days(days, as_of), default=None)
    if origin == "latest":
        if latest is None:
            raise ForecastError(f"{settings.store} has no complete day: `gdelphi status` says why")
        return ForecastOrigin(latest, partial=False)
    why = _incomplete(days, origin, as_of)
    if why and not allow_partial:
        raise ForecastError(
            f"{origin} is not a complete news day ({why}): take --origin latest, which is "
            f"{latest or 'none yet'}, or --allow-partial for a forecast that is marked"
        )
    return ForecastOrigin(origin, partial=bool(why))


def _incomplete(days: Sequence[DayStatus], origin: date, as_of: date) -> str:
    """Why a day is not complete; nothing if it is."""
    if origin in complete_days(days, as_of):
        return ""
    known = {day.day: day for day in days}
    if origin not in known or not known[origin].loaded:
        return "the store has none of its files"
    return "it is not over" if known[origin].complete else "some of its files are not loaded"


def choose_streams(predictor: Predictor, text: str, origin: date) -> tuple[str, ...]:
    """The streams that a text names: codes with commas, top50, or all; in the model's order."""
    text = text.strip()
    if text.lower() == "all":
        return predictor.streams
    if number := re.fullmatch(r"top(\d+)", text.lower()):
        return _largest(predictor, int(number[1]), origin)
    named = [known_stream(predictor, name) for name in text.split(",") if name.strip()]
    if not named:
        raise ForecastError("no streams are named: give codes like KE,UP, or top50, or all")
    return tuple(stream for stream in predictor.streams if stream in named)


def _largest(predictor: Predictor, number: int, origin: date) -> tuple[str, ...]:
    """Those with the most rows up to the origin."""
    if number < 1:
        raise ForecastError("top0 names no stream: give a number from 1 on")
    rows = predictor.pack.statistics[: predictor.sampler.position(origin) + 1, :, 0].sum(axis=0)
    largest = np.argsort(-rows, kind="stable")[:number]
    return tuple(stream for at, stream in enumerate(predictor.streams) if at in largest)


def known_stream(predictor: Predictor, text: str) -> str:
    """The stream that a code or a name means; one that the model does not know is refused, and the
    nearest that it does are named."""
    stream = find_stream(text, predictor.streams).stream
    if stream in predictor.streams:
        return stream
    raise ForecastError(
        f"the model in {predictor.folder} does not know {stream_name(stream)} ({stream}); "
        f"{near_streams(text, predictor.streams)}"
    )
