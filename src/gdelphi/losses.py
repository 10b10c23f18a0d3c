"""What training minimises.

(a) The log loss of the probabilities that are published, for the readings *profiles* and *direct*:
    a proper score of exactly what the report shows.
(b) The log likelihood of the number of rows under a negative binomial: what the direct reading is
    shown, and far more telling than whether there was one.
A cell that is undefined (no threshold for a surge, no day after the origin) counts for nothing.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.batches import Batch
from gdelphi.model import MeasureModel, Said


class LossWeights(NamedTuple):
    """How much each part counts."""

    profiles: float = 1.0
    direct: float = 1.0
    rows: float = 0.2
    burn_in: int = 5
    """first days of a sequence that are not scored: they have seen too little"""


class Loss(NamedTuple):
    """A loss, and its parts for whoever watches."""

    total: Tensor
    parts: dict[str, Tensor]


def training_loss(model: MeasureModel, batch: Batch, weights: LossWeights | None = None) -> Loss:
    """The loss of a batch."""
    chosen = weights or LossWeights()
    said: Said = model(batch.past)
    came = batch.came[:, chosen.burn_in :]
    parts = {
        "profiles": log_loss(said.profiles[:, chosen.burn_in :], came),
        "direct": log_loss(said.direct[:, chosen.burn_in :], came),
    }
    rows = batch.rows[:, chosen.burn_in :]
    parts["rows"] = rows_loss(said.log_rate[:, chosen.burn_in :], said.dispersion, rows)
    total = chosen.profiles * parts["profiles"] + chosen.direct * parts["direct"]
    total = total + chosen.rows * parts["rows"]
    return Loss(total, {name: value.detach() for name, value in parts.items()})


def log_loss(logits: Tensor, came: Tensor) -> Tensor:
    """Mean negative log probability of what came, over the cells where both are defined."""
    known = ~(came.isnan() | logits.isnan())
    if not known.any():
        return torch.where(known, logits, 0.0).sum() * 0
    return F.binary_cross_entropy_with_logits(logits[known], came[known])


def rows_loss(log_rate: Tensor, dispersion: Tensor, rows: Tensor) -> Tensor:
    """Mean negative log likelihood of row counts, negative binomial with mean exp(log_rate)."""
    known = ~rows.isnan()
    number, log_k = torch.where(known, rows, 0.0), dispersion.log()
    log_sum = torch.logaddexp(log_rate, log_k)
    likelihood = (
        torch.lgamma(number + dispersion)
        - torch.lgamma(dispersion)
        - torch.lgamma(number + 1)
        + dispersion * (log_k - log_sum)
        + number * (log_rate - log_sum)
    )
    return -(likelihood * known).sum() / known.sum().clamp(min=1)
