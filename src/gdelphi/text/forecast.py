"""The next day as texts, readable: what `gdelphi text forecast` shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import Forecast
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.countries import find_streams, stream_name
from gdelphi.measures.packing import OnPacked
from gdelphi.measures.phrases import sentence
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.space import place_of
from gdelphi.text.compact import DayText
from gdelphi.text.data import load_text_data
from gdelphi.text.forecaster import (
    KIND,
    StreamTexts,
    faults,
    text_forecaster,
)
from gdelphi.text.t5 import read_text_training

STREAMS_SHOWN: Final = 5
EVENTS_SHOWN: Final = 5


@dataclass(frozen=True)
class StreamTextForecast:
    """A stream's next day."""

    stream: str
    name: str
    likeliest: tuple[str, ...]
    futures: tuple[tuple[str, ...], ...]
    """phrases in English with their weights, the heaviest first"""
    written: tuple[str, ...]
    """the same as the model wrote them"""
    events: tuple[tuple[str, float], ...]
    """roots likeliest to be among the day's headlines"""


@dataclass(frozen=True)
class TextForecast:
    """The next day of some streams."""

    origin: date
    day: date
    texts: int
    faults: int
    phrases: int
    streams: tuple[StreamTextForecast, ...]


def text_forecast(
    settings: Settings,
    model: Path,
    origin: date | None,
    streams: Sequence[str] = (),
    *,
    number: int = 100,
    seed: int = 0,
    on_packed: OnPacked | None = None,
) -> TextForecast:
    """Write the day after an origin, by default after the last day that is known."""
    known = tuple(read_text_training(model, KIND)["origin"]["pack"]["streams"])
    only = settings.sequences.model_copy(update={"only": known})
    data = load_text_data(settings.model_copy(update={"sequences": only}), on_packed)
    forecaster = text_forecaster(model, data.pack, number=number, seed=seed)
    streams = [found.stream for found in find_streams(streams, known)]
    strange = [stream for stream in streams if stream not in known]
    if strange:
        raise ForecastError(
            f"the model in {model} does not know {', '.join(strange)}: it was trained with "
            f"{', '.join(known)}"
        )
    last = data.sequences.day(int(np.flatnonzero(data.pack.present)[-1]))
    at = origin or last
    history = read_profiles(settings, "root", known, since=data.pack.first_day, until=last)
    chosen = [known.index(stream) for stream in streams] or range(min(STREAMS_SHOWN, len(known)))
    forecasts = forecaster.tomorrow(history, at, chosen)
    written = [forecaster.model.about(at, place) for place in chosen]
    missed, phrases = faults(written)
    return TextForecast(
        at,
        at + timedelta(days=1),
        number,
        missed,
        phrases,
        tuple(map(_stream, written, forecasts)),
    )


def _stream(written: StreamTexts, forecast: Forecast) -> StreamTextForecast:
    order = np.argsort(-forecast.headline, kind="stable")[:EVENTS_SHOWN]
    stream = forecast.stream
    return StreamTextForecast(
        stream,
        stream_name(stream),
        in_english(written.likeliest, stream),
        tuple(in_english(text, stream) for text in written.texts),
        tuple(written.written),
        tuple(
            (event_codes()[forecast.codes[place]].label, float(forecast.headline[place]))
            for place in order
        ),
    )


def in_english(text: DayText, stream: str) -> tuple[str, ...]:
    """A text's phrases in English, each with its weight."""
    place = place_of(stream)
    return tuple(
        f"{sentence(phrase.actor1, phrase.code, phrase.actor2, place)} ({phrase.weight:.0%})"
        for phrase in text.phrases
    )
