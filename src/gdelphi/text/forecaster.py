"""The text forecaster: daily texts in, a hundred texts of the next day out.

A T5 reads a stream's last days and writes the next one, word by word, a hundred times, in the
compact language (generate.py). What it writes is read back into events (what is no phrase is
counted), and from these come probabilities (probabilities.py); so it is a forecaster like all
others, and its futures are measures like all others. It speaks of tomorrow only: beyond that it
would have to read its own texts.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.files import weights_digest
from gdelphi.common.types import (
    FloatArray,
    Forecast,
    History,
    make_forecast,
)
from gdelphi.measures.pack import Pack
from gdelphi.text.compact import DayText
from gdelphi.text.corpus import PackDescriptors, read_descriptors
from gdelphi.text.generate import TextGenerator
from gdelphi.text.probabilities import TextReader, level_of
from gdelphi.text.t5 import read_text_training

NAME: Final = "text"
KIND: Final = "forecaster"
KEPT: Final = 4  # origins whose texts are kept


class StreamTexts(NamedTuple):
    """Generated texts of a stream's next day."""

    texts: list[DayText]
    written: list[str]
    """the same as words"""
    likeliest: DayText
    """by the likeliest word at each place"""

    @property
    def faults(self) -> int:
        return sum(text.faults for text in self.texts)


class TextModel:
    """A trained text forecaster at work on the days of a pack."""

    def __init__(
        self,
        folder: Path,
        pack: Pack | PackDescriptors,
        *,
        number: int = 100,
        seed: int = 0,
        guided: bool = True,
    ) -> None:
        """Guided, it writes nothing that is no phrase."""
        self.folder, self.number, self.seed = folder, number, seed
        self.training = read_text_training(folder, KIND)
        self.descriptors = pack if isinstance(pack, PackDescriptors) else read_descriptors(pack)
        self.pack = self.descriptors.pack
        origin: dict[str, Any] = self.training["origin"]
        self.generator = TextGenerator(folder, self.descriptors, origin, guided=guided)
        self._about = lru_cache(KEPT * len(self.pack.facts.streams))(self._generate)

    @cached_property
    def weights(self) -> str:
        """Digest of its weights."""
        return weights_digest(self.folder)

    @property
    def fitted(self) -> dict[str, list[str]]:
        """First and last day of what it was trained and chosen on."""
        days: dict[str, list[str]] = self.training["origin"]["split"]
        return days

    def at(self, origin: date) -> list[StreamTexts]:
        """The texts of each stream of the pack at an origin."""
        return [self.about(origin, stream) for stream in range(len(self.pack.facts.streams))]

    def about(self, origin: date, stream: int) -> StreamTexts:
        """The texts of one stream at an origin; the last answers are kept."""
        return self._about(origin, stream)

    def _generate(self, origin: date, stream: int) -> StreamTexts:
        target = (origin - self.pack.first_day).days + 1
        context = self.generator.context
        if not context <= target <= self.pack.facts.days:
            raise ForecastError(
                f"the text forecaster reads {context} days up to the origin {origin}, "
                "and the measures do not have them"
            )
        # Random numbers for each text and word: a function of seed, stream and day.
        name = zlib.crc32(self.pack.facts.streams[stream].encode())
        random = np.random.default_rng([self.seed, name, origin.toordinal(), 21])
        return self.write(stream, target, random.random((self.number, self.generator.longest)))

    def write(self, stream: int, target: int, uniform: FloatArray) -> StreamTexts:
        """Texts of a stream's day, one for each row of random numbers [text, longest]."""
        likeliest = np.full((1, uniform.shape[1]), np.nan)
        generated = self.generator.write(stream, target, np.concatenate([uniform, likeliest]))
        *texts, last = (text for _, text in generated)
        return StreamTexts(texts, [written for written, _ in generated[:-1]], last)


@dataclass(frozen=True, eq=False)
class TextForecaster:
    """The text model behind the interface of all forecasters."""

    model: TextModel
    reader: TextReader
    name: str = NAME

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        if horizon != 1:
            raise ForecastError("the text forecaster speaks of tomorrow only: horizon 1")
        return self.tomorrow(history, origin, range(len(history.streams)))

    def tomorrow(self, history: History, origin: date, streams: Iterable[int]) -> list[Forecast]:
        """The same for some streams, by their places."""
        level = level_of(history.codes)
        rates = self.reader.rates(history, origin)
        forecasts = []
        for stream in streams:
            texts = self.model.about(origin, stream).texts
            probabilities, shares = self.reader.probabilities(rates, stream, texts, level)
            forecasts.append(
                make_forecast(
                    Forecast(
                        self.name, history.streams[stream], origin, 1, history.codes,
                        probabilities["occurs"], probabilities["headline"],
                        probabilities["surge"], shares.clip(0, 1),
                        np.full(len(shares), 1 / len(shares)),
                    )
                )
            )  # fmt: skip
        return forecasts


def text_forecaster(
    folder: Path,
    pack: Pack,
    *,
    number: int = 100,
    seed: int = 0,
) -> TextForecaster:
    """The forecaster of a trained text model, for histories of a pack's streams."""
    model = TextModel(folder, pack, number=number, seed=seed)
    known = model.training["origin"]["space"]
    if known != pack.facts.space:
        raise TrainingError(
            f"{folder} learned the descriptors of the space {known}, these are of "
            f"{pack.facts.space}: train a text model on these measures"
        )
    return TextForecaster(model, TextReader(model.descriptors))


def faults(streams: Sequence[StreamTexts]) -> tuple[int, int]:
    """Groups of words that are no phrase, and phrases, over all texts."""
    phrases = sum(len(text.phrases) for stream in streams for text in stream.texts)
    return sum(stream.faults for stream in streams), phrases
