"""The text forecaster: daily texts in, a hundred texts of the next day out.

A T5 reads a stream's last days and writes the next one, word by word, a hundred times, in the
compact language (t5_author.py). What it writes is read back into events (what is no phrase is
counted), and from these come probabilities (reading.py); so it is a forecaster like all others, and
its futures are measures like all others. It speaks of tomorrow only: beyond that it would have to
read its own texts.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError, TrainingError
from gdelphi.common.types import (
    FloatArray,
    Forecast,
    History,
    make_forecast,
)
from gdelphi.measures.pack import Pack
from gdelphi.text.compact import DayText
from gdelphi.text.corpus import Descriptions, describe
from gdelphi.text.generate import T5Author
from gdelphi.text.probabilities import Reader, level_of
from gdelphi.text.t5 import read_training

NAME: Final = "text"
KIND: Final = "forecaster"
KEPT: Final = 4  # origins whose texts are kept
NO_SHARES: Final = 1e-12


class StreamTexts(NamedTuple):
    """What is written about a stream's next day."""

    texts: list[DayText]
    written: list[str]
    """the same as words"""
    likeliest: DayText
    """of the likeliest words"""

    @property
    def faults(self) -> int:
        return sum(text.faults for text in self.texts)


class TextModel:
    """A trained text forecaster at work on the days of a pack."""

    def __init__(
        self,
        folder: Path,
        pack: Pack | Descriptions,
        *,
        number: int = 100,
        seed: int = 0,
        guided: bool = True,
    ) -> None:
        """Guided, it writes nothing that is no phrase."""
        self.folder, self.number, self.seed = folder, number, seed
        self.training = read_training(folder, KIND)
        self.said = pack if isinstance(pack, Descriptions) else describe(pack)
        self.pack = self.said.pack
        origin: dict[str, Any] = self.training["origin"]
        self.author = T5Author(folder, self.said, origin, guided=guided)
        self._about = lru_cache(KEPT * len(self.pack.facts.streams))(self._written)

    @cached_property
    def weights(self) -> str:
        """Digest of its weights."""
        return hashlib.sha256((self.folder / "model.safetensors").read_bytes()).hexdigest()[:16]

    @property
    def fitted(self) -> dict[str, list[str]]:
        """First and last day of what it was trained and chosen on."""
        found: dict[str, list[str]] = self.training["origin"]["split"]
        return found

    def at(self, origin: date) -> list[StreamTexts]:
        """What is written at an origin about each stream of the pack."""
        return [self.about(origin, stream) for stream in range(len(self.pack.facts.streams))]

    def about(self, origin: date, stream: int) -> StreamTexts:
        """What is written at an origin about one stream; the last answers are kept."""
        return self._about(origin, stream)

    def _written(self, origin: date, stream: int) -> StreamTexts:
        target = (origin - self.pack.first_day).days + 1
        if not self.author.context <= target <= self.pack.facts.days:
            raise ForecastError(
                f"the text forecaster reads {self.author.context} days up to the origin {origin}, "
                "and the measures do not have them"
            )
        name = self.pack.facts.streams[stream]
        return self.write(stream, target, self._random(name, origin))

    def _random(self, stream: str, origin: date) -> FloatArray:
        """Random numbers for each text and word: a function of seed, stream and day."""
        seeds = [self.seed, zlib.crc32(stream.encode()), origin.toordinal(), 21]
        return np.random.default_rng(seeds).random((self.number, self.author.longest))

    def write(self, stream: int, target: int, uniform: FloatArray) -> StreamTexts:
        """Texts of a stream's day, one for each row of random numbers [text, longest]."""
        likeliest = np.full((1, uniform.shape[1]), np.nan)
        found = self.author.write(stream, target, np.concatenate([uniform, likeliest]))
        *texts, last = (text for _, text in found)
        return StreamTexts(texts, [written for written, _ in found[:-1]], last)


@dataclass(frozen=True, eq=False)
class TextForecaster:
    """The text model behind the interface of all forecasters."""

    model: TextModel
    reader: Reader
    name: str = NAME

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        if horizon != 1:
            raise ForecastError("the text forecaster speaks of tomorrow only: horizon 1")
        return self.tomorrow(history, origin, range(len(history.streams)))

    def tomorrow(self, history: History, origin: date, streams: Iterable[int]) -> list[Forecast]:
        """The same for some streams, by their places."""
        level = level_of(history.codes)
        rates = self.reader.rates(history, origin)
        found = []
        for stream in streams:
            said = self.model.about(origin, stream)
            probabilities, shares = self.reader.probabilities(rates, stream, said.texts, level)
            found.append(
                make_forecast(
                    Forecast(
                        self.name, history.streams[stream], origin, 1, history.codes,
                        probabilities["occurs"], probabilities["headline"],
                        probabilities["surge"], shares.clip(0, 1),
                        np.full(len(shares), 1 / len(shares)),
                    )
                )
            )  # fmt: skip
        return found


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
    return TextForecaster(model, Reader(model.said))


def faults(said: Sequence[StreamTexts]) -> tuple[int, int]:
    """Groups of words that are no phrase, and phrases, over all texts."""
    phrases = sum(len(text.phrases) for each in said for text in each.texts)
    return sum(each.faults for each in said), phrases
