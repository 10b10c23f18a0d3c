"""A pretrained language model as the author of texts in English.

The context is read once; its keys and values are then repeated for a batch of texts, which go on
from there a piece at a time. Texts that have ended leave the batch. Batches are small: each text
has keys and values of the whole context, some 20 MB of them.
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.config_text import TextSettings
from gdelphi.types import FloatArray, IntArray
from gdelphi.words.causal import adapted, base_of, device_of, pieces_of
from gdelphi.words.causal_days import Telling, read
from gdelphi.words.corpus import Descriptions
from gdelphi.words.language import DayText
from gdelphi.words.model import load_weights
from gdelphi.words.writer import CROWDED, choose

LONGEST: Final = 144  # pieces of a text, as of the longest days; what is cut off is unreadable
AT_ONCE: Final = 25  # texts of a batch


class CausalAuthor:
    """A language model, trained on days, at work on those of a pack."""

    longest = LONGEST

    def __init__(
        self, folder: Path, said: Descriptions, origin: Mapping[str, Any], elsewhere: Path | None
    ) -> None:
        settings = TextSettings(**origin["text"])
        base = base_of(folder, origin, elsewhere)
        self.model = adapted(base, settings)
        load_weights(self.model, folder)
        self.pieces = pieces_of(base)
        self.telling = Telling(said, self.pieces, settings.language_days)

    @property
    def context(self) -> int:
        return self.telling.days

    def write(self, stream: int, target: int, uniform: FloatArray) -> list[tuple[str, DayText]]:
        """Texts of a stream's day, one for each row of random numbers [text, longest]."""
        told = torch.tensor([self.telling.context(stream, target)])
        written = write(self.model, told, uniform, self.pieces.end)
        name = self.telling.said.pack.facts.streams[stream]
        texts = [self.pieces.text(row) for row in written.tolist()]
        return [(text.strip(), read(text, name)) for text in texts]


@torch.no_grad()
def write(model: Any, told: Tensor, uniform: FloatArray, end: int) -> IntArray:
    """Go on from a context [1, piece], by random numbers [text, piece]; a number that is none takes
    the likeliest piece. Ended texts are filled with ends."""
    said = model(input_ids=told.to(device_of(model)), use_cache=True, logits_to_keep=1)
    parts = [
        _go_on(model, deepcopy(said.past_key_values), said.logits[:, -1], part, end)
        for part in np.array_split(uniform, -(-len(uniform) // AT_ONCE))
    ]
    return np.concatenate(parts)


def _go_on(model: Any, kept: Any, logits: Tensor, uniform: FloatArray, end: int) -> IntArray:
    number, longest = uniform.shape
    written = np.full((number, longest), end, dtype=np.int64)
    kept.batch_repeat_interleave(number)
    logits = logits.expand(number, -1)
    alive = np.arange(number)
    for place in range(longest):
        last = choose(logits.float().cpu(), uniform[alive, place])
        ended = (written[alive, :place] == end).any(axis=1)
        written[alive, place] = np.where(ended, end, last)
        going = ~ended & (last != end)
        if place + 1 == longest or not going.any():
            break
        if going.mean() < CROWDED:
            kept.batch_select_indices(torch.from_numpy(np.flatnonzero(going)).to(logits.device))
            alive, last = alive[going], last[going]
        given = torch.from_numpy(last)[:, None].to(logits.device)
        said = model(input_ids=given, past_key_values=kept, use_cache=True)
        kept, logits = said.past_key_values, said.logits[:, -1]
    return written
