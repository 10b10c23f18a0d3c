"""The next day as texts, readable: what `gdelphi text forecast` shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from gdelphi.brief import name_of
from gdelphi.cameo import event_codes
from gdelphi.config import Settings
from gdelphi.packing import OnPacked
from gdelphi.phrases import sentence
from gdelphi.profiles import read_profiles
from gdelphi.space import place_of
from gdelphi.types import Forecast, ForecastError
from gdelphi.words.forecaster import KIND, StreamTexts, faults, text_forecaster
from gdelphi.words.language import DayText
from gdelphi.words.learning import text_ground
from gdelphi.words.model import read_training

STREAMS_SHOWN: Final = 5
EVENTS_SHOWN: Final = 5


@dataclass(frozen=True)
class StreamOutlook:
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
class TextOutlook:
    """The next day of some streams."""

    origin: date
    day: date
    texts: int
    faults: int
    phrases: int
    streams: tuple[StreamOutlook, ...]


def text_outlook(
    settings: Settings,
    model: Path,
    origin: date | None,
    streams: Sequence[str] = (),
    *,
    number: int = 100,
    seed: int = 0,
    on_packed: OnPacked | None = None,
) -> TextOutlook:
    """Write the day after an origin, by default after the last day that is known."""
    known = tuple(read_training(model, KIND)["origin"]["pack"]["streams"])
    only = settings.sequences.model_copy(update={"only": known})
    ground = text_ground(settings.model_copy(update={"sequences": only}), on_packed)
    forecaster = text_forecaster(model, ground.pack, number=number, seed=seed)
    strange = [stream for stream in streams if stream not in known]
    if strange:
        raise ForecastError(
            f"the model in {model} does not know {', '.join(strange)}: it was trained with "
            f"{', '.join(known)}"
        )
    last = ground.sequences.day(int(np.flatnonzero(ground.pack.present)[-1]))
    at = origin or last
    history = read_profiles(settings, "root", known, since=ground.pack.first_day, until=last)
    chosen = [known.index(stream) for stream in streams] or range(min(STREAMS_SHOWN, len(known)))
    forecasts = forecaster.tomorrow(history, at, chosen)
    said = [forecaster.model.about(at, place) for place in chosen]
    missed, phrases = faults(said)
    return TextOutlook(
        at,
        at + timedelta(days=1),
        number,
        missed,
        phrases,
        tuple(map(_stream, said, forecasts)),
    )


def _stream(said: StreamTexts, forecast: Forecast) -> StreamOutlook:
    order = np.argsort(-forecast.headline, kind="stable")[:EVENTS_SHOWN]
    stream = forecast.stream
    return StreamOutlook(
        stream,
        name_of(stream),
        in_english(said.likeliest, stream),
        tuple(in_english(text, stream) for text in said.texts),
        tuple(said.written),
        tuple(
            (event_codes()[forecast.codes[place]].label, float(forecast.headline[place]))
            for place in order
        ),
    )


def in_english(text: DayText, stream: str) -> tuple[str, ...]:
    """A text's phrases in English, each with its weight."""
    place = place_of(stream)
    return tuple(
        f"{sentence(each.actor1, each.code, each.actor2, place)} ({each.weight:.0%})"
        for each in text.phrases
    )
