"""A study: measures that lie upon each other are carried to targets of m atoms, piece by piece.

The construction by which attention interpolates between measures, with a number of pieces that is
O(m N) for N measures and free of the number n of their points (Geshkovski, Rigollet and Ruiz-Balet,
Measure-to-measure interpolation using Transformers, 2024, for measures; Alcalde, Fantuzzi and
Zuazua, Exact Sequence Interpolation with Transformers, 2025, who count 2 m N + 2 N + 1 blocks of
hard attention for sequences). In a piece all parameters are constant:

1. Aim, by attention: beta = 0 and V m(mu_i) = V c_i = c_i, so that every point of mu_i goes towards
   c_i, the middle of its target, and keeps to it when the mean has moved. All measures at once;
   again, from where they are, until each lies in a small cap about c_i.
2. Cut, by one neuron: dx/dt = P_x y relu(<u, x> - b) moves the points of a half-space, towards y,
   and leaves all others at rest. For atom after atom, the outermost first, a half-space is chosen
   that holds as many points of the cap as the atom has of them, and the atom y itself: half-spaces
   meet the sphere in caps, which great circles do not leave, so all of them arrive.

One neuron a piece makes (pieces to aim) + m N. With N neurons a piece the k-th atoms of all
measures are served together, since half-spaces of two measures do not meet: (pieces to aim) + m.
Chosen: 2 N <= d, so that one V can fulfil all 2 N conditions, and targets whose middles stand at
right angles. Targets that interlace would need cuts around each other's atoms.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.inspect.flow import flow, mean_field
from gdelphi.inspect.separation import overlapping_measures

DIMENSION: Final = 32
AIM_TIME, AIM_STEPS, MOST_AIMS = 1.0, 10, 20  # of a piece; pieces
CAP: Final = 0.05  # angle that a measure is drawn together to before it is cut
NEAREST, FARTHEST = 0.3, 0.6  # angles between the middle of a target and its atoms
POLES: Final = (1.0, 0.8, 0.65, 0.55)
"""of half-spaces: shares of the way from the middle to the atom; the first that fits is taken"""
CUT_STEPS, CUT_SPEED = 160, 0.25  # steps of a cut, and the way that the fastest point goes in one


class InterpolationProblem(NamedTuple):
    """Measures of n points of equal weight, and where each is to go."""

    measures: Tensor
    """[N, n, d]"""
    middles: Tensor
    """of the targets, [N, d]: at right angles"""
    atoms: Tensor
    """[N, m, d]"""
    counts: Tensor
    """points that each atom is to get, [N, m]"""


@dataclass(frozen=True)
class Interpolation:
    """How measures were carried to their targets."""

    aims: int
    """pieces of attention"""
    cuts: int
    """pieces of one neuron"""
    w2: float
    """the largest distance from a measure to its target: at most this, by who was sent where"""
    arrived: bool
    """whether every half-space could be chosen as it has to be"""

    @property
    def pieces(self) -> int:
        return self.aims + self.cuts


def draw_problem(
    number: int, points: int, atoms: int, generator: torch.Generator
) -> InterpolationProblem:
    """Measures of one orthant, upon each other, and targets of atoms with random weights."""
    measures = overlapping_measures(number, points, DIMENSION, generator).double()
    turned = torch.randn(DIMENSION, DIMENSION, generator=generator, dtype=torch.float64)
    middles = torch.linalg.qr(turned)[0][:number]
    away = torch.randn(number, atoms, DIMENSION, generator=generator, dtype=torch.float64)
    across = F.normalize(away - (away @ middles[:, :, None]) * middles[:, None], dim=2)
    drawn = torch.rand(number, atoms, 1, generator=generator, dtype=torch.float64)
    angle = NEAREST + (FARTHEST - NEAREST) * drawn
    found = angle.cos() * middles[:, None] + angle.sin() * across
    shares = torch.rand(number, atoms, generator=generator, dtype=torch.float64) + 0.5
    ends = (shares.cumsum(1) / shares.sum(1, keepdim=True) * points).round().long()
    counts = torch.diff(ends, prepend=torch.zeros(number, 1, dtype=torch.long))
    return InterpolationProblem(measures, middles, found, counts)


def aim(measures: Tensor, middles: Tensor) -> tuple[Tensor, int]:
    """Draw each measure together about its middle; the measures then, and the pieces."""
    even = measures.new_full((measures.shape[1],), 1 / measures.shape[1])
    wanted = torch.cat([middles, middles])
    pieces = 0
    while _radius(measures, middles) > CAP and pieces < MOST_AIMS:
        known = torch.cat([measures.mean(dim=1), middles])
        # Rows are conditions on V'; the answer of least norm moves nothing else.
        value = torch.linalg.lstsq(known, wanted, driver="gelsd").solution.T
        field = mean_field(value)
        measures = torch.stack(
            [list(flow(one, even, field, time=AIM_TIME, steps=AIM_STEPS))[-1] for one in measures]
        )
        pieces += 1
    return measures, pieces


def _radius(measures: Tensor, middles: Tensor) -> float:
    """The largest angle between a point and the middle of its measure's target."""
    nearest = torch.einsum("knd,kd->kn", measures, middles).amin()
    return math.acos(max(-1.0, min(1.0, float(nearest))))


class Cut(NamedTuple):
    """The half-space <pole, x> > bias, whose points go to an atom."""

    pole: Tensor
    bias: float


def choose_cut(remaining: Tensor, others: Tensor, middle: Tensor, atom: Tensor, count: int) -> Cut:
    """A half-space with `count` of the remaining points, the atom, and none of the others.

    ValueError where there is none among those that are tried.
    """
    for share in POLES:
        pole = F.normalize(middle + share * (atom - middle), dim=0)
        order = (remaining @ pole).sort(descending=True).values
        outside = float((others @ pole).amax()) if len(others) else -1.0
        if count < len(order):
            outside = max(outside, float(order[count]))
        inside = min(float(order[count - 1]), float(atom @ pole))
        if inside > outside:
            return Cut(pole, (inside + outside) / 2)
    raise ValueError("no half-space has these points and no other")


def move(points: Tensor, cut: Cut, atom: Tensor) -> Tensor:
    """Points [n, d] after the piece: those of the half-space have gone to the atom, and the others
    have rested, as relu(<u, x> - b) = 0 says."""
    inside = points @ cut.pole > cut.bias
    moving = points[inside]
    fastest = max(float((moving @ cut.pole).amax()), float(atom @ cut.pole)) - cut.bias
    for _ in range(CUT_STEPS):
        speed = (moving @ cut.pole - cut.bias).clamp(min=0.0) / fastest
        across = atom - (moving @ atom)[:, None] * moving
        moving = F.normalize(moving + CUT_SPEED * speed[:, None] * across, dim=1)
    moved = points.clone()
    moved[inside] = moving
    return moved


def interpolate(problem: InterpolationProblem) -> Interpolation:
    """Aim at the middles, then cut atom after atom."""
    measures, aims = aim(problem.measures, problem.middles)
    number, points, _ = measures.shape
    goals = torch.empty_like(measures)
    cuts = 0
    for row in range(number):
        middle, atoms, counts = problem.middles[row], problem.atoms[row], problem.counts[row]
        left = torch.arange(points)
        for place in (atoms @ middle).argsort().tolist():  # the outermost first
            count = int(counts[place])
            chosen = torch.zeros(number, points, dtype=torch.bool)
            chosen[row, left] = True
            try:
                cut = choose_cut(
                    measures[row, left], measures[~chosen], middle, atoms[place], count
                )
            except ValueError:
                return Interpolation(aims, cuts, math.nan, arrived=False)
            inside = measures[row, left] @ cut.pole > cut.bias
            goals[row, left[inside]] = atoms[place]
            # The field is one for all points of all measures.
            measures = move(measures.flatten(0, 1), cut, atoms[place]).view_as(measures)
            left, cuts = left[~inside], cuts + 1
    apart = (measures - goals).square().sum(dim=2).mean(dim=1).sqrt()
    return Interpolation(aims, cuts, float(apart.max()), arrived=True)


def interpolations(number: int, points: int, atoms: int, seeds: int) -> list[Interpolation]:
    """The study for some draws of measures and targets."""
    return [
        interpolate(draw_problem(number, points, atoms, torch.Generator().manual_seed(seed)))
        for seed in range(seeds)
    ]
