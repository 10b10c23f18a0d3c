"""Distances of many measures from the day that came: energy scores and Sinkhorn distances.

Ensembles of a stream share measures (a past day may be a member of several), so measures are in one
batch and an ensemble is rows of it. The batch begins with the day itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.ot.energy import energy_score, root_divergence
from gdelphi.ot.entropic import self_transport, sinkhorn_divergence
from gdelphi.ot.geometry import Measures
from gdelphi.ot.sliced import SlicedSettings, sliced_embedding

GROUPS: Final = (1, 2, 4, 8, 10**9)
"""atoms, at most, of measures whose distances are computed together"""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members by their rows among all measures of a stream; a row may be there more than once."""

    rows: IntArray
    weights: FloatArray


def energy_scores(measures: Measures, ensembles: dict[str, Ensemble]) -> dict[str, float]:
    """Fair energy scores against the first measure, in float64."""
    vectors, place = _embedded(measures)
    vectors -= vectors[place[0]].clone()  # around the day, so that near pairs keep their digits
    squares = torch.linalg.vector_norm(vectors, dim=1).square()
    known: dict[bytes, tuple[Tensor, Tensor]] = {}  # by the members: some ensembles share them
    scores = {}
    for name, ensemble in ensembles.items():
        key = ensemble.rows.tobytes()
        if key not in known:
            known[key] = _pair_distances(vectors, squares, place[ensemble.rows])
        to_outcome, between = known[key]
        weights = torch.from_numpy(ensemble.weights)
        scores[name] = float(energy_score(to_outcome, between, weights=weights, fair=True))
    return scores


def _embedded(measures: Measures) -> tuple[Tensor, IntArray]:
    """Sliced embeddings, made of measures that have about as many atoms together, and the place of
    each measure among them."""
    points, weights = measures
    sizes = (weights > 0).sum(dim=1)
    settings = SlicedSettings()
    vectors = points.new_empty(len(weights), settings.directions * settings.levels)
    place = np.empty(len(weights), np.int64)
    first = 0
    for fewest, most in pairwise((0, *GROUPS)):
        rows = ((sizes > fewest) & (sizes <= most)).nonzero()[:, 0]
        if len(rows):
            last = first + len(rows)
            some = _trimmed(Measures(points[rows], weights[rows]))
            sliced_embedding(some, settings, out=vectors[first:last])
            place[rows.numpy()], first = np.arange(first, last), last
    if first < len(weights):
        raise ValueError("a measure has no atom")
    return vectors, place


def _pair_distances(vectors: Tensor, squares: Tensor, rows: IntArray) -> tuple[Tensor, Tensor]:
    """Of members to the origin of the vectors, [k], and to each other, [k, k]."""
    distinct, place = np.unique(rows, return_inverse=True)
    taken = torch.from_numpy(distinct)
    chosen, squares = vectors[taken], squares[taken]
    # numpy sees that this is a matrix by itself, and makes one half of it.
    array = chosen.numpy()
    products = torch.from_numpy(array @ array.T)
    between = products.mul_(-2).add_(squares[:, None]).add_(squares).clamp_min_(0).sqrt_()
    between.fill_diagonal_(0)
    index = torch.from_numpy(place)
    return squares.sqrt()[index], between[index][:, index]


def distances_to_first(batches: Sequence[Measures]) -> list[FloatArray]:
    """Root of the Sinkhorn divergence of each measure of a batch to its first one.

    Small problems cost what their number of operations costs, not their size, so those of all
    batches whose measures have about as many atoms are solved together, and none is padded to the
    size of the largest.
    """
    if not batches:
        return []
    batches = [Measures(*(part.to(torch.float32) for part in batch)) for batch in batches]
    firsts = [_trimmed(Measures(points[:1], weights[:1])) for points, weights in batches]
    own = torch.cat([self_transport(first).value for first in firsts])
    sizes = [(weights > 0).sum(dim=1) for _, weights in batches]
    distances = [np.zeros(len(weights)) for _, weights in batches]
    for fewest, most in pairwise((0, *GROUPS)):
        parts, targets, rows = [], [], []
        for number, (points, weights) in enumerate(batches):
            chosen = ((sizes[number] > fewest) & (sizes[number] <= most)).nonzero()[:, 0]
            rows.append(chosen)
            parts.append(_trimmed(Measures(points[chosen], weights[chosen])))
            targets += [number] * len(chosen)
        if not targets:
            continue
        index = torch.tensor(targets)
        target = _joined(firsts)
        divergence = sinkhorn_divergence(
            _joined(parts),
            Measures(target.points[index], target.weights[index]),
            target_self=own[index],
        )
        found = root_divergence(divergence).double().split([len(chosen) for chosen in rows])
        for number, chosen in enumerate(rows):
            distances[number][chosen.numpy()] = found[number].numpy()
    return distances


def _trimmed(measures: Measures) -> Measures:
    """The atoms that exist first, without the padding that all have."""
    points, weights = measures
    exists = weights > 0
    most = int(exists.sum(dim=1).max()) if len(weights) else 0
    if bool((exists[:, 1:] > exists[:, :-1]).any()):  # an atom behind one that is none
        order = (~exists).to(torch.int8).argsort(dim=1, stable=True)[:, :most]
        points = points.gather(1, order[:, :, None].expand(-1, -1, points.shape[2]))
        weights = weights.gather(1, order)
    points, weights = points[:, :most], weights[:, :most]
    return Measures(points, weights / weights.sum(dim=1, keepdim=True))


def _joined(parts: Sequence[Measures]) -> Measures:
    """One batch of several, padded to a common size."""
    size = max(part.weights.shape[1] for part in parts)
    return Measures(
        torch.cat([pad(part.points, (0, 0, 0, size - part.points.shape[1])) for part in parts]),
        torch.cat([pad(part.weights, (0, size - part.weights.shape[1])) for part in parts]),
    )
