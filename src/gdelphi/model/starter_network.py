"""The network of `stack/starter.py` in torch, to be trained: over many simulated worlds
(`benchmarks/many_worlds.py`), and from there on the days of a store (`model/context_fit.py`).

What is applied is a `Starter`, arrays that need no torch; this is how they are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.common.progress import OnStep, silent
from gdelphi.common.types import TARGETS, VectorArray
from gdelphi.model.optimizer import ema_copy, learning_rate, optimizer_for, update_ema
from gdelphi.stack.context import ContextTable
from gdelphi.stack.starter import FURTHEST, Starter

WIDTH: Final = 128


@dataclass(frozen=True)
class StarterSettings:
    """How it is trained."""

    steps: int = 2000
    batch: int = 4096
    """cells of a step"""
    learning_rate: float = 1e-3
    warm_up: int = 100
    weight_decay: float = 0.05
    dropout: float = 0.1
    ema: float = 0.998
    seed: int = 0


class StarterNetwork(nn.Module):
    """Two layers and a linear part; untrained it adds nothing."""

    def __init__(self, columns: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.first, self.second = nn.Linear(columns, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, len(TARGETS), bias=False)
        self.linear = nn.Linear(columns, len(TARGETS))
        for layer in (self.out, self.linear):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, shown: Tensor) -> Tensor:
        """What is added to the base, [cell, target]."""
        hidden = F.gelu(self.first(shown), approximate="tanh")
        hidden = F.dropout(hidden, self.dropout, self.training)
        more = F.gelu(self.second(hidden), approximate="tanh")
        hidden = hidden + F.dropout(more, self.dropout, self.training)
        added: Tensor = self.out(hidden) + self.linear(shown)
        return added

    @torch.no_grad()
    def starter(self, mean: VectorArray, deviation: VectorArray, part: Sequence[float]) -> Starter:
        """As arrays."""
        layers = [_affine(layer) for layer in (self.first, self.second, self.linear)]
        out = np.ascontiguousarray(self.out.weight.cpu().numpy().T)
        first, second, linear = layers
        return Starter(mean, deviation, first, second, out, linear, np.array(part, np.float32))

    @classmethod
    @torch.no_grad()
    def from_starter(cls, starter: Starter, dropout: float = 0.0) -> "StarterNetwork":
        """The network that arrays were made from."""
        network = cls(len(starter.mean), dropout)
        for name in ("first", "second", "linear"):
            layer, matrix = getattr(network, name), getattr(starter, name)
            layer.weight.copy_(torch.from_numpy(matrix[:-1].T.copy()))
            layer.bias.copy_(torch.from_numpy(matrix[-1].copy()))
        network.out.weight.copy_(torch.from_numpy(starter.out.T.copy()))
        return network


def _affine(layer: nn.Linear) -> VectorArray:
    """Matrix and bias, [in + 1, out]."""
    weight, bias = (values.detach().cpu().numpy() for values in (layer.weight, layer.bias))
    both: VectorArray = np.ascontiguousarray(np.vstack([weight.T, bias]).astype(np.float32))
    return both


def train_starter(
    start: Starter | None,
    cells: ContextTable,
    scale: tuple[VectorArray, VectorArray],
    settings: StarterSettings,
    on_step: OnStep = silent,
) -> Starter:
    """The EMA of a network that was trained on the known cells of a table, [..., column], from
    `start` or from nothing. It takes all random numbers from its own generator."""
    columns, base, came = (values.reshape(-1, values.shape[-1]) for values in cells)
    mean, deviation = scale
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = (
            StarterNetwork(columns.shape[1], settings.dropout)
            if start is None
            else StarterNetwork.from_starter(start, settings.dropout)
        ).train()
        random = np.random.default_rng(settings.seed)
        average, optimizer = ema_copy(network), optimizer_for(network, settings)
        for step in range(1, settings.steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(settings, step)
            rows = np.sort(random.integers(0, len(base), settings.batch))
            shown = (columns[rows].astype(np.float32) - mean) / deviation
            logits = network(torch.from_numpy(np.clip(shown, -FURTHEST, FURTHEST)))
            loss = _loss(logits, torch.from_numpy(base[rows]), torch.from_numpy(came[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update_ema(average, network, decay=settings.ema, step=step)
            if step % 100 == 0:
                on_step(f"step {step} of {settings.steps}")
    return average.starter(mean, deviation, (1.0,) * len(TARGETS))


def _loss(added: Tensor, base: Tensor, came: Tensor) -> Tensor:
    """Log loss of the known cells."""
    known = ~(base.isnan() | came.isnan())
    logits = added + base.nan_to_num()
    losses = F.binary_cross_entropy_with_logits(logits, came.nan_to_num(), reduction="none")
    return (losses * known).sum() / known.sum().clamp(min=1)
