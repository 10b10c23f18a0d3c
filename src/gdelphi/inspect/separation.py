"""A study: overlapping measures are separated by value matrices built from their means.

This is the first half of the constructive proof that attention interpolates between measures
(Geshkovski, Rigollet and Ruiz-Balet, Measure-to-measure interpolation using Transformers, 2024).
With beta = 0 all points of a measure mu follow dx/dt = P_x V m(mu), a field of its own: a map of
points could not tell apart points that lie upon each other, but their measures differ in the mean.
Choose V with V m(mu_i) = c_i, a place of its own for each, hold it for a while, and do so again
from where the means are now: V is constant in pieces. N <= d measures need one matrix to aim all of
them at once; with N > d, V is the least-squares answer, and more pieces are needed.

Separated means: each measure lies in a cap about its mean, and no two caps meet. The number of
pieces depends on N, not on the number of points. The second half of the proof, which carries each
measure to m atoms, is in interpolation.py.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.inspect.flow import flow, mean_field

STEPS: Final = 20  # of each piece
TIME: Final = 1.0  # of each piece
MOST_PIECES: Final = 60


@dataclass(frozen=True, eq=False)
class Separation:
    """How measures were separated."""

    pieces: int
    separated: bool
    margins: list[float]
    """before and after each piece: the least angle between two caps; below 0 they overlap"""
    path: list[Tensor]
    """points before and after each piece, [measure, n, d]"""


def overlapping_measures(
    number: int, points: int, dimension: int, generator: torch.Generator
) -> Tensor:
    """Wide clouds of the first orthant with means of their own, [number, points, dimension]; all
    lie upon each other."""
    centres = torch.rand(number, 1, dimension, generator=generator) + 0.2
    spread = torch.rand(number, points, dimension, generator=generator)
    return F.normalize((0.35 * F.normalize(centres, dim=2) + spread).abs(), dim=2)


def places(number: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Points of the sphere far from each other, [number, dimension]: they repel until they rest."""
    found = F.normalize(torch.randn(number, dimension, generator=generator), dim=1)
    for _ in range(200):
        near = (4 * found @ found.T).exp()
        push = near.fill_diagonal_(0.0) @ found
        found = F.normalize(found - 0.1 * push / push.norm(dim=1, keepdim=True), dim=1)
    return found


def margin(measures: Tensor) -> float:
    """The least angle between caps of two measures [N, n, d]: that of their means less both
    radii."""
    means = F.normalize(measures.mean(dim=1), dim=1).double()
    inside = torch.einsum("knd,kd->kn", measures.double(), means).clamp(-1, 1)
    radii = inside.amin(dim=1).arccos()
    angles = (means @ means.T).clamp(-1, 1).arccos() - radii[:, None] - radii[None]
    angles.fill_diagonal_(np.inf)
    return float(angles.min())


def separate(measures: Tensor, targets: Tensor, *, most: int = MOST_PIECES) -> Separation:
    """Hold V fixed for a while, again and again, until no two caps meet."""
    margins, path, pieces = [margin(measures)], [measures], 0
    even = torch.full((measures.shape[1],), 1 / measures.shape[1])
    while margins[-1] <= 0 and pieces < most:
        means = measures.mean(dim=1)
        # V m_i = c_i, by least squares where there are more measures than dimensions.
        value = torch.linalg.lstsq(means.double(), targets.double()).solution.T.float()
        field = mean_field(value)
        measures = torch.stack(
            [list(flow(one, even, field, time=TIME, steps=STEPS))[-1] for one in measures]
        )
        pieces += 1
        margins.append(margin(measures))
        path.append(measures)
    return Separation(pieces, margins[-1] > 0, margins, path)
