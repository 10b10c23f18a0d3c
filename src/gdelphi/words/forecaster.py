"""The text forecaster: fifty daily texts in, a hundred texts of the next day out.

A T5 model reads a stream's last days in the compact language and writes the next one, word by word,
a hundred times. What it writes is read back into events (what is no phrase is counted), and from
these come probabilities (reading.py); so it is a forecaster like all others, and its futures are
measures like all others. It speaks of tomorrow only: beyond that it would have to read its own
texts.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from transformers import T5ForConditionalGeneration

from gdelphi.checkpoint import TrainingError
from gdelphi.config_text import TextSettings
from gdelphi.pack import Pack
from gdelphi.types import (
    BoolArray,
    FloatArray,
    Forecast,
    ForecastError,
    History,
    IntArray,
    make_forecast,
)
from gdelphi.words.corpus import Corpus, Descriptions, describe
from gdelphi.words.language import (
    WHOM,
    WORDS_OF_PHRASE,
    DayText,
    is_actor,
    is_event,
    is_weight,
    read_day,
)
from gdelphi.words.model import embed_source, load_weights, read_training, t5_of
from gdelphi.words.reading import Reader, level_of
from gdelphi.words.vocabulary import Vocabulary
from gdelphi.words.writer import Writer

NAME: Final = "text"
KIND: Final = "forecaster"
MOST_PHRASES: Final = 12  # of a text: two more than a descriptor may have
LONGEST: Final = 2 + WORDS_OF_PHRASE * MOST_PHRASES
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
        """Guided, it weighs at each place of a text only words that may stand there, and no event
        that the text has named before: descriptors name hardly any twice."""
        self.folder, self.number, self.seed = folder, number, seed
        self._guided = guided
        self.training = read_training(folder, KIND)
        self.vocabulary = Vocabulary.load(folder)
        said: dict[str, Any] = self.training["origin"]
        settings = TextSettings(**said["text"])
        self.model: T5ForConditionalGeneration = t5_of(settings, len(self.vocabulary))
        load_weights(self.model, folder)
        given = pack if isinstance(pack, Descriptions) else describe(pack)
        self.corpus = Corpus(
            given, self.vocabulary, context=said["context_days"], whole_days=settings.whole_days
        )
        self.pack = self.corpus.pack
        self._writer = Writer(self.model)
        self._at = lru_cache(KEPT)(self._all)

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
        """What is written at an origin about each stream of the pack; the last answers are kept."""
        return self._at(origin)

    def _all(self, origin: date) -> list[StreamTexts]:
        target = (origin - self.pack.first_day).days + 1
        if not self.corpus.context <= target <= self.pack.facts.days:
            raise ForecastError(
                f"the text forecaster reads {self.corpus.context} days up to the origin {origin}, "
                "and the measures do not have them"
            )
        return [
            self.write(stream, target, self._random(name, origin))
            for stream, name in enumerate(self.pack.facts.streams)
        ]

    def _random(self, stream: str, origin: date) -> FloatArray:
        """Random numbers for each text and word: a function of seed, stream and day."""
        seeds = [self.seed, zlib.crc32(stream.encode()), origin.toordinal(), 21]
        return np.random.default_rng(seeds).random((self.number, LONGEST))

    @torch.no_grad()
    def write(self, stream: int, target: int, uniform: FloatArray) -> StreamTexts:
        """Texts of a stream's day, one for each row of random numbers [text, LONGEST]."""
        days = np.zeros((1, self.corpus.context), dtype=np.int64)
        source = self.corpus.source(np.array([stream]), np.array([target]), days)
        states, mask = embed_source(self.model, source)
        encoded = self.model.encoder(inputs_embeds=states, attention_mask=mask)
        memory = self._writer.remember(encoded.last_hidden_state[0])
        home = self.corpus.said.homes[stream]
        likeliest = np.full((1, LONGEST), np.nan)
        written = self._writer.write(
            memory,
            np.concatenate([uniform, likeliest]),
            choice=self._choice if self._guided else None,
            once=self._events,
        )
        words = self._readable(written)
        found = [read_day(each, home) for each in words]
        return StreamTexts(found[:-1], [" ".join(each) for each in words[:-1]], found[-1])

    def _choice(self, place: int) -> IntArray:
        if place == LONGEST - 1:
            return np.ones(1, dtype=np.int64)  # the end
        return self._slots[0] if place == 0 else self._slots[1 + (place - 1) % WORDS_OF_PHRASE]

    @cached_property
    def _slots(self) -> list[IntArray]:
        """Words that may stand at a text's beginning, and at the four places of a phrase; in place
        of a phrase's first, the end."""
        words = enumerate(self.vocabulary.words)
        kinds: list[list[int]] = [[], [1], [], [], []]
        for number, word in words:
            kind = _kind(word)
            if kind is not None:
                kinds[kind].append(number)
        return [np.array(kind, dtype=np.int64) for kind in kinds]

    @cached_property
    def _events(self) -> BoolArray:
        """Which words are events, [vocabulary]."""
        return np.array([is_event(word) for word in self.vocabulary.words], dtype=np.bool_)

    def _readable(self, numbers: IntArray) -> list[list[str]]:
        """As words; the end and what is behind it left out."""
        return [
            self.vocabulary.read(number for number in row if number > 1) for row in numbers.tolist()
        ]


def _kind(word: str) -> int | None:
    """Which place of a text a word may stand at."""
    if word[:1] == WHOM:
        return 3
    if is_weight(word):
        return 4
    if is_event(word):
        return 1
    if word[:1] == "v" and word[1:].isdigit():
        return 0
    return 2 if is_actor(word) else None


@dataclass(frozen=True, eq=False)
class TextForecaster:
    """The text model behind the interface of all forecasters."""

    model: TextModel
    reader: Reader
    name: str = NAME

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        if horizon != 1:
            raise ForecastError("the text forecaster speaks of tomorrow only: horizon 1")
        level = level_of(history.codes)
        rates = self.reader.rates(history, origin)
        found = []
        for stream, said in enumerate(self.model.at(origin)):
            probabilities, shares = self.reader.probabilities(rates, stream, said.texts, level)
            found.append(
                make_forecast(
                    Forecast(
                        self.name, history.streams[stream], origin, horizon, history.codes,
                        probabilities["occurs"], probabilities["headline"],
                        probabilities["surge"], shares.clip(0, 1),
                        np.full(len(shares), 1 / len(shares)),
                    )
                )
            )  # fmt: skip
        return found


def text_forecaster(
    folder: Path, pack: Pack, *, number: int = 100, seed: int = 0
) -> TextForecaster:
    """The forecaster of a trained text model, for histories of a pack's streams."""
    model = TextModel(folder, pack, number=number, seed=seed)
    known = model.training["origin"]["space"]
    if known != pack.facts.space:
        raise TrainingError(
            f"{folder} learned the descriptors of the space {known}, these are of "
            f"{pack.facts.space}: train a text model on these measures"
        )
    return TextForecaster(model, Reader(model.corpus))


def faults(said: Sequence[StreamTexts]) -> tuple[int, int]:
    """Groups of words that are no phrase, and phrases, over all texts."""
    phrases = sum(len(text.phrases) for each in said for text in each.texts)
    return sum(each.faults for each in said), phrases
