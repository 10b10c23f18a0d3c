"""Decoding: many texts at once from one context, by the weights of a T5 model.

`generate` of transformers repeats the context for every text, so that a hundred futures of a day
read the same hundred positions a hundred times over from memory: most of the time goes there. Here
the texts of a context share its keys and values, each text keeps only its own, and those that have
ended leave the batch. The arithmetic is that of T5's decoder, a word at a time; a test holds the
two against each other.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
)

if TYPE_CHECKING:
    from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

STRETCH: Final = 64  # places that distances are computed for at once
CROWDED: Final = 0.7  # a batch of which fewer than this share are still written is made smaller

AllowedWords = Callable[[int], IntArray]
"""place in a text, from 0 -> the words that may stand there"""


class DecoderCache(NamedTuple):
    """What the decoder attends to, of one context: for each block keys and values [head, position,
    width]."""

    keys: list[Tensor]
    values: list[Tensor]


class T5Decoder:
    """Writes many texts with one context and a model."""

    def __init__(self, model: "T5ForConditionalGeneration") -> None:
        self.model = model
        config = model.config
        self._heads, self._width = config.num_heads, config.d_kv
        self._scale = config.d_model**-0.5 if config.scale_decoder_outputs else 1.0
        self._start, self._end = 0, 1  # padding begins a text
        self._blocks: Any = model.decoder.block
        self._biases: dict[int, Tensor] = {}

    @torch.no_grad()
    def remember(self, encoded: Tensor) -> DecoderCache:
        """Keys and values of an encoded context [position, width of the model]."""
        layers = [block.layer[1].EncDecAttention for block in self._blocks]
        return DecoderCache(
            [self._split(layer.k(encoded)).transpose(0, 1) for layer in layers],
            [self._split(layer.v(encoded)).transpose(0, 1) for layer in layers],
        )

    @torch.no_grad()
    def write(
        self,
        cache: DecoderCache,
        uniform: FloatArray,
        *,
        temperature: float = 1.0,
        allowed: AllowedWords | None = None,
        once: BoolArray | None = None,
    ) -> IntArray:
        """Texts [text, word], ended by the end and zeros, by random numbers of the same shape; NaN
        takes the likeliest word. With `allowed`, only words that may stand at a place are weighed,
        which is also quicker; those marked in `once` [vocabulary] only until
        they have been written."""
        number, longest = uniform.shape
        words = np.zeros((number, longest), dtype=np.int64)
        alive = np.arange(number)
        own: list[tuple[Tensor, Tensor]] = []
        last = np.full(number, self._start, dtype=np.int64)
        for place in range(longest):
            states, own = self._step(torch.from_numpy(last), cache, own, place)
            chosen = None if allowed is None else allowed(place)
            logits = self._logits(states, chosen) / temperature
            if chosen is not None and once is not None:
                logits[_used(words[alive, :place], chosen, once)] = -torch.inf
            last = choose(logits, uniform[alive, place])
            last = last if chosen is None else chosen[last]
            words[alive, place] = last
            going = (last != self._end) & (words[alive] != self._end).all(axis=1)
            if not going.any():
                break
            if going.mean() < CROWDED:
                kept = torch.from_numpy(np.flatnonzero(going))
                own = [(keys[kept], values[kept]) for keys, values in own]
                alive, last = alive[going], last[going]
        return _cut(words, self._end)

    def _step(
        self, last: Tensor, cache: DecoderCache, own: list[tuple[Tensor, Tensor]], place: int
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """States that the next word of each text follows from, [text, width of the model], and what
        is kept of the words so far."""
        hidden: Tensor = self.model.shared(last)
        bias = self._bias(place)
        kept = []
        for number, block in enumerate(self._blocks):
            layer = block.layer[0]
            states = layer.layer_norm(hidden)
            mine = layer.SelfAttention
            keys, values = (self._split(part(states))[:, :, None] for part in (mine.k, mine.v))
            if own:
                keys = torch.cat([own[number][0], keys], dim=2)
                values = torch.cat([own[number][1], values], dim=2)
            kept.append((keys, values))
            query = self._split(mine.q(states))  # [text, head, width]
            # T5 adds a learned bias by distance and does not scale by the root of the width.
            scores = torch.einsum("thw,thpw->thp", query, keys) + bias
            mixed = torch.einsum("thp,thpw->thw", scores.softmax(-1), values)
            hidden = hidden + mine.o(mixed.flatten(1))
            hidden = self._attend(block.layer[1], hidden, cache, number)
            hidden = block.layer[2](hidden)
        final: Tensor = self.model.decoder.final_layer_norm(hidden) * self._scale
        return final, kept

    def _bias(self, place: int) -> Tensor:
        """What the distance of words adds to attention at a place, [head, place + 1]; a stretch of
        places is computed at once."""
        size = -(-(place + 1) // STRETCH) * STRETCH
        if size not in self._biases:
            first = self._blocks[0].layer[0].SelfAttention
            self._biases[size] = first.compute_bias(size, size)[0].detach()
        return self._biases[size][:, place, : place + 1]

    def _logits(self, states: Tensor, chosen: IntArray | None) -> Tensor:
        """Of all words or of some, [text, word]."""
        table: Tensor = self.model.lm_head.weight
        chosen_table = table if chosen is None else table[torch.from_numpy(chosen)]
        logits: Tensor = torch.nn.functional.linear(states, chosen_table)
        return logits

    def _attend(self, layer: Any, hidden: Tensor, cache: DecoderCache, number: int) -> Tensor:
        """All texts look at their one context."""
        query = self._split(layer.EncDecAttention.q(layer.layer_norm(hidden))).transpose(0, 1)
        scores = query @ cache.keys[number].mT  # [head, text, position]
        mixed = (scores.softmax(-1) @ cache.values[number]).transpose(0, 1)
        output: Tensor = hidden + layer.EncDecAttention.o(mixed.flatten(1))
        return output

    def _split(self, states: Tensor) -> Tensor:
        """[n, head * width] -> [n, head, width]"""
        heads: Tensor = states.unflatten(1, (self._heads, self._width))
        return heads


def _used(written: IntArray, chosen: IntArray, once: BoolArray) -> Tensor:
    """Which of the chosen words a text has had and may not have again, [text, word]."""
    used = np.zeros((len(written), len(once)), dtype=np.bool_)
    np.put_along_axis(used, written, True, axis=1)
    return torch.from_numpy((used & once)[:, chosen])


def choose(logits: Tensor, uniform: FloatArray) -> IntArray:
    """A word for each text, [text]: the inverse of the cumulated probabilities at uniform numbers,
    or the likeliest where the number is NaN."""
    likeliest = np.isnan(uniform)
    cumulated = logits.softmax(-1).cumsum(-1)
    at = torch.from_numpy(np.where(likeliest, 0.0, uniform)).float()[:, None] * cumulated[:, -1:]
    words: IntArray = torch.searchsorted(cumulated, at, right=True)[:, 0].numpy()
    words = words.clip(max=logits.shape[1] - 1)
    if likeliest.any():
        words[likeliest] = logits[torch.from_numpy(likeliest)].argmax(-1).numpy()
    return words


def _cut(words: IntArray, end: int) -> IntArray:
    """Zeros behind the first end."""
    ended = np.cumsum(words == end, axis=1)
    behind = np.concatenate([np.zeros((len(words), 1), np.int64), ended[:, :-1]], axis=1) > 0
    return np.where(behind, 0, words)
