"""Generation: a trained T5 writes texts of a stream's next day in the compact language.

A hundred texts of a stream share its encoded context (decoding.py). Guided, the decoder weighs at
each place of a text only words that may stand there, and no event that the text has named before:
descriptors name hardly any twice.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import TextSettings
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
)
from gdelphi.text.compact import (
    WHOM,
    WORDS_OF_PHRASE,
    DayText,
    is_actor,
    is_event,
    is_weight,
    read_day,
)
from gdelphi.text.corpus import Corpus, PackDescriptors
from gdelphi.text.decoding import T5Decoder
from gdelphi.text.expected import load_expectation
from gdelphi.text.t5 import (
    embed_source,
    load_weights,
    t5_of,
)
from gdelphi.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

MOST_PHRASES: Final = 12  # of a text: two more than a descriptor may have
LONGEST: Final = 2 + WORDS_OF_PHRASE * MOST_PHRASES
TEMPERATURE: Final = 0.9
"""Below 1 the words are more like those that come, and the hundred texts less various than they
should be. At 0.9 weighed texts lose nothing by the energy score on ICEWS (validation B: +0.7%
against random days, at 1 +0.6%, at 0.8 0.0%) and ROUGE-1 gains 0.01."""


class TextGenerator:
    """A trained T5 at work on the days of a pack."""

    longest = LONGEST

    def __init__(
        self,
        folder: Path,
        descriptors: PackDescriptors,
        origin: Mapping[str, Any],
        *,
        guided: bool = True,
    ) -> None:
        self._guided = guided
        self.vocabulary = Vocabulary.load(folder)
        settings = TextSettings(**origin["text"])
        self.model: T5ForConditionalGeneration = t5_of(settings, len(self.vocabulary))
        load_weights(self.model, folder)
        self.context: int = origin["context_days"]
        expected = load_expectation(folder, descriptors.pack)
        if expected is None and origin.get("stack"):  # models of before have no such key
            raise TrainingError(
                f"{folder} has no folder stack/, whose answers the model reads: copy the whole "
                f"folder, or train it again with `gdelphi text train --out {folder} --fresh`"
            )
        self.corpus = Corpus(
            descriptors, self.vocabulary, context=self.context, whole_days=settings.whole_days,
            expected=expected,
        )  # fmt: skip
        self._decoder = T5Decoder(self.model)

    @torch.no_grad()
    def write(self, stream: int, target: int, uniform: FloatArray) -> list[tuple[str, DayText]]:
        """Texts of a stream's day, one for each row of random numbers [text, longest]."""
        own = np.zeros((1, self.context), dtype=np.int64)  # each day's own descriptor
        source = self.corpus.source(np.array([stream]), np.array([target]), own)
        states, mask = embed_source(self.model, source)
        encoded = self.model.encoder(inputs_embeds=states, attention_mask=mask)
        cache = self._decoder.remember(encoded.last_hidden_state[0])
        home = self.corpus.descriptors.homes[stream]
        numbers = self._decoder.write(
            cache, uniform, temperature=TEMPERATURE,
            allowed=self._allowed if self._guided else None, once=self._events,
        )  # fmt: skip
        # As words; the end (1) and the padding behind it (0) are left out.
        texts = [
            self.vocabulary.read(number for number in row if number > 1) for row in numbers.tolist()
        ]
        return [(" ".join(words), read_day(words, home)) for words in texts]

    def _allowed(self, place: int) -> IntArray:
        """Words that may stand at a place of a text."""
        if place == LONGEST - 1:
            return np.ones(1, dtype=np.int64)  # the end
        return self._slots[0] if place == 0 else self._slots[1 + (place - 1) % WORDS_OF_PHRASE]

    @cached_property
    def _slots(self) -> list[IntArray]:
        """Words that may stand at a text's beginning, and at the four places of a phrase; in place
        of a phrase's first, the end."""
        kinds: list[list[int]] = [[], [1], [], [], []]
        for number, word in enumerate(self.vocabulary.words):
            kind = _kind(word)
            if kind is not None:
                kinds[kind].append(number)
        return [np.array(kind, dtype=np.int64) for kind in kinds]

    @cached_property
    def _events(self) -> BoolArray:
        """Which words are events, [vocabulary]."""
        return np.array([is_event(word) for word in self.vocabulary.words], dtype=np.bool_)


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
