"""The cell network: what the last days' surprises, and a cell's own past, add to the stack.

For each stream and root of a target day it is shown

- the columns of the stack's table of cells, and the logits that the stack rests on;
- a state of the stream: a recurrent network over the *surprises* of the last days, the rows of each
  root beyond those that were expected, in standard deviations, its own and those of all streams.

What was expected takes out levels, weekdays and announcements, so that what the recurrent network
reads is news alone: with plain counts against the usual it finds a quarter of that (docs/LOG.md).

    logit of a cell  =  base  +  mean over members of f_k(columns, state, root)  +  own_root(state)

All horizons of a week are outputs of one network: what it reads of the last days is the same for
all of them. The base is, for tomorrow, the logit that trees and lines of the stack start from: a
learner of another kind from the same start makes other errors, where a residual on the stack itself
learns nothing. For the other horizons it is the stack's own. The members share one matrix in each
layer and differ by signs and scales of their inputs and outputs: an ensemble for little more than
the price of one network. All output layers start at zero.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.common.types import TARGETS

ROOT_WIDTH: Final = 16
FURTHEST: Final = 5.0  # deviations that a column is held within


@dataclass(frozen=True)
class CellConfig:
    """Sizes of a cell network."""

    columns: int
    roots: int
    outputs: int = len(TARGETS)
    """logits of a cell: of the targets, or of each target at each horizon"""
    days: int = 14
    """whose surprises are read"""
    members: int = 8
    width: int = 64
    state: int = 32
    shown_state: int = 16
    """numbers of the state that cells are shown"""
    dropout: float = 0.2
    state_dropout: float = 0.3

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class CellNetwork(nn.Module):
    """Logits to add to the base, for the cells of streams and days."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, config: CellConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.zeros(config.columns))
        self.register_buffer("deviation", torch.ones(config.columns))
        self.surprise = nn.Linear(2 * config.roots, config.state)
        self.recurrent = nn.GRU(config.state, config.state, batch_first=True)
        self.shown = nn.Linear(config.state, config.shown_state)
        self.own = nn.Linear(config.state, config.roots * config.outputs)
        self.root = nn.Parameter(0.3 * torch.randn(config.roots, ROOT_WIDTH))
        inputs = config.columns + config.shown_state + ROOT_WIDTH
        self.hidden = EnsembleLinear(inputs, config.width, config.members)
        self.out = nn.Parameter(torch.zeros(config.members, config.width, config.outputs))
        self.level = nn.Parameter(torch.zeros(config.roots, config.outputs))
        nn.init.zeros_(self.own.weight)
        nn.init.zeros_(self.own.bias)

    def forward(
        self, columns: Tensor, surprises: Tensor, random: torch.Generator | None = None
    ) -> Tensor:
        """[member, B, root, output], from columns [B, root, column] and surprises
        [B, day, 2 roots]. In training, what is dropped is drawn by `random`; without it by the
        numbers that all of torch draws from."""
        config, (batch, roots) = self.config, columns.shape[:2]
        news = self._dropped(surprises, config.state_dropout, random)
        _, last = self.recurrent(F.gelu(self.surprise(news)))
        state = self._dropped(last[0], config.state_dropout, random)
        own = self.own(state).view(batch, roots, -1)
        scaled = ((columns - self.mean) / self.deviation).clamp(-FURTHEST, FURTHEST)
        # One layer over columns, state and root side by side, taken apart: the state is the same
        # for all roots, and a root's own numbers for the whole batch.
        of_columns, of_state, of_root = self.hidden.matrices().split(
            [config.columns, config.shown_state, ROOT_WIDTH], dim=1
        )
        rows = scaled.flatten(0, 1).expand(config.members, -1, -1)
        mapped = torch.bmm(rows, of_columns).unflatten(1, (batch, roots))
        mapped = mapped + (self.shown(state) @ of_state)[:, :, None]
        mapped = mapped + (self.root @ of_root + self.hidden.bias)[:, None]
        hidden = self._dropped(F.gelu(mapped), config.dropout, random)
        added: Tensor = torch.bmm(hidden.flatten(1, 2), self.out)
        logits: Tensor = added.unflatten(1, (batch, roots)) + (own + self.level)
        return logits

    def _dropped(self, values: Tensor, chance: float, random: torch.Generator | None) -> Tensor:
        """Dropout; as torch does it on a CPU, with random numbers of its own."""
        if random is None or not self.training:
            return F.dropout(values, chance, self.training)
        kept = torch.empty_like(values).bernoulli_(1 - chance, generator=random)
        return values * kept.div_(1 - chance)


class EnsembleLinear(nn.Module):
    """A linear layer for each member of an ensemble; they share the matrix, and have signs of the
    inputs, scales of the outputs and biases of their own:

        ((x * signs) @ weight) * scales + bias  =  x @ matrices + bias.

    Signs and scales are put on the matrix, which is small, and not on every row.
    """

    def __init__(self, inputs: int, outputs: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.signs = nn.Parameter(torch.randn(members, 1, inputs).sign())
        self.scales = nn.Parameter(torch.ones(members, 1, outputs))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def matrices(self) -> Tensor:
        """[member, inputs, outputs]"""
        matrices: Tensor = self.signs.transpose(1, 2) * self.weight * self.scales
        return matrices
