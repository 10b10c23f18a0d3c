"""The namer: from a point of the sphere to the phrase that it stands for.

A small T5 whose encoder reads the blocks of a point (verb, actor 1, actor 2) and its weight as four
positions, and whose decoder writes the phrase in English. It may write phrases that were never
observed, which naming by the nearest observed phrase cannot; the grammar reads them back, and what
it cannot read is counted.

Chosen: one atom at a time. The whole descriptor as one sequence is ten times as long, and the other
atoms say nothing about what this one is called. The place is not written: it is the stream's.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import TextSettings
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.measures.grammar import Parsed, parse
from gdelphi.measures.space import Space
from gdelphi.text.t5 import (
    load_weights,
    read_text_training,
    t5_config,
)
from gdelphi.text.vocabulary import Vocabulary

KIND: Final = "namer"
LONGEST: Final = 40  # words of a phrase, with its end
AT_ONCE: Final = 256
LEAST_WEIGHT: Final = 1e-3

PhraseKey = tuple[str, str, str]
"""actor 1, event code, actor 2"""


class Blocks(NamedTuple):
    """Where the blocks of a point lie, and what share of it they have."""

    edges: tuple[int, ...]
    shares: tuple[float, ...]


def blocks_of(space: Space) -> Blocks:
    """The blocks of a space."""
    verb, actor = space.blocks["verb"].dimension, space.blocks["actor"].dimension
    return Blocks((0, verb, verb + actor, verb + 2 * actor), space.shares)


def apart(points: Tensor, weights: Tensor, blocks: Blocks) -> tuple[Tensor, ...]:
    """Verb, actor 1 and actor 2 of points [n, dim], numbers of size 1, and weights [n] as logs."""
    edges = zip(blocks.edges[:-1], blocks.edges[1:], blocks.shares, strict=True)
    parts = [points[:, start:end] * ((end - start) / share) ** 0.5 for start, end, share in edges]
    return (*parts, weights.clamp_min(LEAST_WEIGHT).log()[:, None])


class NamingModel(T5ForConditionalGeneration):
    """T5 with points for input."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        edges: Sequence[int] = config.block_edges
        width = config.d_model
        self.verb = nn.Linear(edges[1], width)
        self.actor = nn.Linear(edges[2] - edges[1], width)
        self.weight = nn.Linear(1, width)
        self.place = nn.Parameter(torch.zeros(4, width))
        nn.init.normal_(self.place)

    def read(self, points: Tensor, weights: Tensor) -> Tensor:
        """Inputs of the encoder from points [n, dim] and weights [n]: [n, 4, width]."""
        blocks = Blocks(tuple(self.config.block_edges), tuple(self.config.block_shares))
        verb, first, second, scale = apart(points, weights, blocks)
        parts = [self.verb(verb), self.actor(first), self.actor(second), self.weight(scale)]
        return torch.stack(parts, dim=1) + self.place


def naming_model(settings: TextSettings, words: int, blocks: Blocks) -> NamingModel:
    """A model before training."""
    config: Any = t5_config(settings, words)
    config.block_edges, config.block_shares = list(blocks.edges), list(blocks.shares)
    return NamingModel(config)


class Namer:
    """A trained namer."""

    def __init__(self, model: NamingModel, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model, vocabulary
        model.train(False)

    @classmethod
    def load(cls, folder: Path, space: Space) -> "Namer":
        """The namer that a training has left; it names points of the space that it was made for."""
        origin = read_text_training(folder, KIND)["origin"]
        if origin["space"] != space.fingerprint:
            raise TrainingError(
                f"{folder} names points of the space {origin['space']}, these are of "
                f"{space.fingerprint}: train a namer on these measures"
            )
        vocabulary = Vocabulary.load(folder)
        model = naming_model(TextSettings(**origin["text"]), len(vocabulary), blocks_of(space))
        load_weights(model, folder)
        return cls(model, vocabulary)

    @torch.no_grad()
    def words(self, points: VectorArray, weights: FloatArray) -> list[str]:
        """The phrase of each point, as it was written."""
        phrases: list[str] = []
        for start in range(0, len(points), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            states = self.model.read(
                torch.from_numpy(np.ascontiguousarray(points[part])).to(self.model.device),
                torch.from_numpy(weights[part].astype(np.float32)).to(self.model.device),
            )
            # The end (1) and the padding behind it (0) are left out.
            phrases += [
                " ".join(self.vocabulary.read(number for number in row if number > 1))
                for row in self._write(states).tolist()
            ]
        return phrases

    def _write(self, states: Tensor) -> IntArray:
        """The likeliest word at each place, [n, word]."""
        encoded = self.model.encoder(inputs_embeds=states)
        last = torch.zeros(len(states), 1, dtype=torch.long, device=states.device)
        written, kept = [], None
        ended = torch.zeros(len(states), dtype=torch.bool, device=states.device)
        for _ in range(LONGEST):
            output = self.model(
                encoder_outputs=encoded, decoder_input_ids=last, past_key_values=kept,
                use_cache=True,
            )  # fmt: skip
            last, kept = output.logits[:, -1:].argmax(-1), output.past_key_values
            written.append(last[:, 0].masked_fill(ended, 0))
            ended |= last[:, 0] == 1
            if ended.all():
                break
        return torch.stack(written, dim=1).cpu().numpy()

    def name(self, points: VectorArray, weights: FloatArray) -> list[Parsed | None]:
        """The codes of each point; None where what was written is no phrase."""
        return [parse(text) for text in self.words(points, weights)]


def nearest(points: VectorArray, observed: VectorArray) -> IntArray:
    """For each point the observed one that is nearest to it."""
    parts = np.array_split(points, max(len(points) // AT_ONCE, 1))
    places = [(part @ observed.T).argmax(axis=1) for part in parts]
    return np.concatenate(places).astype(np.int64)


# --- how good names are ---------------------------------------------------------------------------


class Agreement(NamedTuple):
    """Of names with the right ones: shares of phrases."""

    number: int
    event: float
    """the same event code"""
    root: float
    roles: float
    """both actors have the right roles, groups, religions and ethnic groups"""
    countries: float
    """both actors have the right country"""
    whole: float
    unreadable: float
    new: float
    """right, and never observed"""


def agreement(
    named: Sequence[PhraseKey | None],
    right: Sequence[PhraseKey],
    observed: frozenset[PhraseKey] = frozenset(),
) -> Agreement:
    """How names agree with the right ones."""
    size = max(len(right), 1)
    both = [(one, other) for one, other in zip(named, right, strict=True) if one is not None]

    def share(same: Sequence[bool]) -> float:
        return sum(same) / size

    return Agreement(
        number=len(right),
        event=share([one[1] == other[1] for one, other in both]),
        root=share([one[1][:2] == other[1][:2] for one, other in both]),
        roles=share([_same(_rest, one, other) for one, other in both]),
        countries=share([_same(_first, one, other) for one, other in both]),
        whole=share([tuple(one) == tuple(other) for one, other in both]),
        unreadable=1 - len(both) / size if right else 0.0,
        new=share([tuple(one) == tuple(other) and tuple(other) not in observed
                   for one, other in both]),
    )  # fmt: skip


def _same(part: Callable[[str], str], one: PhraseKey, other: PhraseKey) -> bool:
    """Whether both actors agree in a part of their keys."""
    return all(part(one[slot]) == part(other[slot]) for slot in (0, 2))


def _first(key: str) -> str:
    return key.partition("|")[0]


def _rest(key: str) -> str:
    return key.partition("|")[2]
