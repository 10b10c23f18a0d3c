"""Naming by a pretrained language model: a point becomes four pieces that no text has.

The blocks of a point and its weight are projected into the model's space of embeddings, and stand
before the phrase as if they had been written (a soft prompt). The projections are trained and saved
with the matrices beside queries and values; the language model itself stays as it is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from gdelphi.config_text import TextSettings
from gdelphi.types import IntArray
from gdelphi.words.causal import Base, Pieces, adapted, base_of, device_of, pieces_of
from gdelphi.words.model import load_weights
from gdelphi.words.naming import Blocks, Namer, apart

LONGEST: Final = 48  # pieces of a phrase, with its end


class CausalNamingModel(nn.Module):
    """A language model with points for input."""

    def __init__(self, language: Any, blocks: Blocks) -> None:
        super().__init__()
        self.language, self.blocks = language, blocks
        table = language.get_input_embeddings().weight
        width = table.shape[1]
        verb, actor = blocks.edges[1], blocks.edges[2] - blocks.edges[1]
        self.verb, self.actor = nn.Linear(verb, width), nn.Linear(actor, width)
        self.weight = nn.Linear(1, width)
        self.place = nn.Parameter(torch.randn(4, width))
        self._scale = float(table.std())  # of the words that these stand beside

    @property
    def config(self) -> Any:
        return self.language.config

    @property
    def device(self) -> torch.device:
        return device_of(self)

    def read(self, points: Tensor, weights: Tensor) -> Tensor:
        """Soft prompts from points [n, dim] and weights [n]: [n, 4, width]."""
        verb, first, second, scale = apart(points, weights, self.blocks)
        parts = [self.verb(verb), self.actor(first), self.actor(second), self.weight(scale)]
        return self._scale * (torch.stack(parts, dim=1) + self.place)

    def forward(self, states: Tensor, numbers: Tensor) -> Tensor:
        """Logits of each piece of phrases [n, piece] behind their prompts, [n, piece, word]."""
        before = self.language.get_input_embeddings()(numbers[:, :-1])
        said = self.language(inputs_embeds=torch.cat([states.to(before.dtype), before], dim=1))
        logits: Tensor = said.logits[:, states.shape[1] - 1 :]
        return logits


def causal_naming_model(base: Base, settings: TextSettings, blocks: Blocks) -> CausalNamingModel:
    """A model before training."""
    return CausalNamingModel(adapted(base, settings), blocks)


class CausalNamer(Namer):
    """A trained namer from a language model."""

    def __init__(self, model: CausalNamingModel, pieces: Pieces) -> None:
        super().__init__(model, pieces)  # type: ignore[arg-type]
        self._pieces = pieces

    def _write(self, states: Tensor) -> IntArray:
        """The likeliest piece at each place, [n, piece]."""
        language: Any = self.model.language
        end = self._pieces.end
        said = language(inputs_embeds=states, use_cache=True, logits_to_keep=1)
        ended = torch.zeros(len(states), dtype=torch.bool, device=states.device)
        written: list[Tensor] = []
        while len(written) < LONGEST:
            last = said.logits[:, -1].argmax(-1).masked_fill(ended, end)
            written.append(last)
            ended = last == end
            if ended.all():
                break
            said = language(
                input_ids=last[:, None], past_key_values=said.past_key_values, use_cache=True
            )
        return torch.stack(written, dim=1).cpu().numpy()

    def _text(self, numbers: IntArray) -> str:
        return self._pieces.text(numbers.tolist()).strip()


def load_namer(
    folder: Path, origin: Mapping[str, Any], blocks: Blocks, elsewhere: Path | None
) -> CausalNamer:
    """The namer that a training from a language model has left."""
    base = base_of(folder, origin, elsewhere)
    model = causal_naming_model(base, TextSettings(**origin["text"]), blocks)
    load_weights(model, folder)
    return CausalNamer(model, pieces_of(base))
