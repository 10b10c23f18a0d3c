"""The measure decoder: the last days of a stream in, the next day in a few atoms out.

It answers with the measure nu of at most ten atoms for which the expected divergence to the cloud
of the next day is small. It begins at the start of decoder_start.py, and each block goes down the
divergence to past days Y_s, which stand for what tomorrow may be like:

    x_i    <- normalise(x_i - step P_x sum_s k_s grad_i)        grad_i = dS(nu, Y_s)/dx_i / a_i
    ln a_i <- ln a_i - reweighing sum_s k_s dS(nu, Y_s)/da_i

By the envelope theorem these gradients are read off the entropic plan from nu to Y_s: a block is
attention of the atoms to the points of past days, with the plan in place of a softmax. The kernel
k_s over days is a mixture of half-lives, with more or less for days of tomorrow's weekday.

Learned are steps, kernels and reweighings. Steps begin at zero: an untrained decoder is its start.
The plan is held constant in gradients, as in the losses. Why the start can be beaten at all: it is
nearest to the *mean* of days, and a day of a few reports lies far from their mean. The fewer
reports a day has, the more its best summary draws together, and days of the past show how much.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor, nn

from gdelphi.model.config import TINY, WEEK
from gdelphi.model.saved import SavedConfig, SavedModel
from gdelphi.ot.entropic import SinkhornSettings, self_transport, sinkhorn
from gdelphi.ot.geometry import Measures

SWIFT: Final = 10.0  # parameters count so many times: a step has to go from 0 to 1 in few steps
SINKHORN: Final = SinkhornSettings()
SIZES: Final = (1, 2, 4, 8, 16, 32)  # points of days that are looked at together, at most


@dataclass
class DecoderConfig(SavedConfig):
    """The sizes of a decoder, and how its start is made."""

    model_type = "gdelphi_decoder"

    blocks: int = 5
    half_lives: tuple[float, ...] = (5.0, 20.0, 80.0, 320.0)
    atoms: int = 10
    days: int = 120
    points: int = 64
    start_half_life: float = 30.0

    def __post_init__(self) -> None:
        self.half_lives = tuple(self.half_lives)


class SpaceTime(NamedTuple):
    """The space-time measure of B streams: the clouds of their last D days, with their lags."""

    points: Tensor
    """[B, D, n, dimension]"""
    weights: Tensor
    """[B, D, n]; those of a day sum to 1, or to 0 where there is no such day"""
    lags: Tensor
    """days before the origin, [B, D]"""


class PlanBlock(nn.Module):
    """Moves atoms towards what the plans to past days say, and reweighs them."""

    lives: Tensor

    def __init__(self, half_lives: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("lives", torch.tensor(half_lives))
        self.step = nn.Parameter(torch.zeros(1))
        self.reweighing = nn.Parameter(torch.zeros(1))
        self.recency = nn.Parameter(torch.zeros(len(half_lives)))
        self.weekday = nn.Parameter(torch.zeros(1))

    def forward(
        self, points: Tensor, log_weights: Tensor, past: SpaceTime
    ) -> tuple[Tensor, Tensor]:
        """Atoms [B, m, dimension] with ln weights [B, m] (-inf: none), moved and reweighed."""
        weights = log_weights.softmax(dim=1)
        pull, potential = _descent(points, weights, past)
        kernel = self.kernel(past)
        pull = torch.einsum("bd,bdmx->bmx", kernel, pull)
        pull = pull - (pull * points).sum(dim=2, keepdim=True) * points  # P_x
        moved = F.normalize(points + SWIFT * self.step * pull, dim=2)
        potential = torch.einsum("bd,bdm->bm", kernel, potential)
        return moved, log_weights - SWIFT * self.reweighing * potential

    def kernel(self, past: SpaceTime) -> Tensor:
        """How much each past day counts, [B, D]; sums to 1 where there is any day."""
        there = (past.weights.sum(dim=2) > 0).to(past.points.dtype)
        decay = 0.5 ** (past.lags[..., None] / self.lives) * there[..., None]
        same = ((past.lags + 1) % WEEK == 0)[..., None]  # tomorrow is a day after the origin
        decay = decay * torch.where(same, (SWIFT * self.weekday).exp(), 1.0)
        decay = decay / decay.sum(dim=1, keepdim=True).clamp(min=TINY)
        return decay @ (SWIFT * self.recency).softmax(dim=0)


class MeasureDecoder(SavedModel):
    """Blocks one after the other: from the start to the expected day."""

    config_class = DecoderConfig
    config: DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList(PlanBlock(config.half_lives) for _ in range(config.blocks))

    def forward(self, start: Measures, past: SpaceTime) -> Measures:
        """The expected day of each stream, with as many atoms as its start."""
        there = start.weights > 0
        log_weights = torch.where(there, start.weights.clamp(min=TINY).log(), -math.inf)
        points = start.points
        for block in self.blocks:
            points, log_weights = block(points, log_weights, past)
        return Measures(points, log_weights.softmax(dim=1))


def blend(start: Measures, decoded: Measures, strength: float) -> Measures:
    """Part of the way from the start to what was decoded: 0 is the start, 1 all of the way.

    Atoms go along the chord and back to the sphere, weights along their logarithms.
    """
    points = F.normalize(torch.lerp(start.points, decoded.points, strength), dim=2)
    there = start.weights > 0
    first, last = (one.weights.clamp(min=TINY).log() for one in (start, decoded))
    mixed = torch.lerp(first, last, strength).masked_fill(~there, -math.inf)
    return Measures(points, mixed.softmax(dim=1))


def _descent(points: Tensor, weights: Tensor, past: SpaceTime) -> tuple[Tensor, Tensor]:
    """Where the divergence to each past day falls: minus its derivative by each atom, over the
    atom's weight, [B, D, m, dimension], and its derivative by the weights, [B, D, m]."""
    there = past.weights.sum(dim=2) > 0
    stream = there.nonzero()[:, 0]
    shape = (*there.shape, *points.shape[1:])
    with torch.enable_grad():
        own = Measures(*(part.detach().requires_grad_() for part in (points, weights)))
        alone = self_transport(own, SINKHORN).value
        self_pull, self_potential = torch.autograd.grad(alone.sum(), own)
        atoms = Measures(*(part.detach()[stream].requires_grad_() for part in (points, weights)))
        days = Measures(past.points[there], past.weights[there])
        by_points, by_weights = (torch.empty_like(part) for part in atoms)
        for rows, most in _by_size(days.weights):
            some = Measures(*(part[rows] for part in atoms))
            cross = sinkhorn(some, Measures(*(part[rows, :most] for part in days)), SINKHORN).value
            by_points[rows], by_weights[rows] = torch.autograd.grad(cross.sum(), some)
    mass = weights.detach()[stream].clamp(min=TINY)[..., None]
    pull, potential = points.new_zeros(shape), points.new_zeros(shape[:3])
    pull[there] = (self_pull[stream] / 2 - by_points) / mass
    potential[there] = by_weights - self_potential[stream] / 2
    return pull, potential


def _by_size(weights: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Rows of weights [N, n] in groups that have about as many points, and how many at most: most
    days are small, and would be padded to the size of the largest."""
    places = torch.arange(1, weights.shape[1] + 1, device=weights.device)
    sizes = (places * (weights > 0)).amax(dim=1)
    fewest = 0
    for most in (*takewhile(lambda size: size < weights.shape[1], SIZES), weights.shape[1]):
        rows = ((sizes > fewest) & (sizes <= most)).nonzero()[:, 0]
        if len(rows):
            yield rows, most
        fewest = most
