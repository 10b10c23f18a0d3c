"""A measure in a few phrases, each of which stands for what it says.

An atom of a W2-optimal summary gathers whatever lies near it: the phrase that it is named after may
share its root with a fifth of its weight, and a reader who sees "Greece occupies territory 17%" is
misled. So phrases that are shown with a share are made within roots: every root gets as many of
them as its weight earns (Sainte-Lague's rule: the next goes to the root with the largest weight /
(2 * phrases + 1)), and its points alone are summed up by that many atoms. All of a phrase's weight
has its root, then; light ones, and roots without any, are left out, so shares need not sum to 1.
docs/measures.md says what that costs in W2. Not chosen: the optimal atoms, each weighted by its
plurality root alone, which leaves most of a mixed day unsaid.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import FloatArray, IntArray, Measure, VectorArray
from gdelphi.measures.clouds import Cloud, Coded
from gdelphi.measures.descriptors import NO_ATOM, AtomPhrases, Descriptor, name_atoms
from gdelphi.measures.phrases import lineage
from gdelphi.measures.space import Points
from gdelphi.ot.quantise import quantise

LEAST_SHARE: Final = 0.02  # of the whole, that a phrase has to stand for
FEWEST: Final = 3  # phrases that are told however light they are


class RootPart(NamedTuple):
    """Points of one root that a phrase stands for."""

    point: int
    """position of the point that it is named after"""
    weight: float
    """share of the whole measure"""
    atom: VectorArray
    """[dim], their mean direction"""
    members: IntArray


def roots_of(codes: Coded) -> tuple[tuple[str, ...], IntArray]:
    """Distinct roots of coded points, and the place of each point's among them, [n]."""
    of_keys = [lineage(key).root for key in codes.keys]
    roots = tuple(dict.fromkeys(of_keys))
    place = np.array([roots.index(root) for root in of_keys], dtype=np.int64)
    return roots, place[codes.places] if len(codes.places) else codes.places


def share_seats(weights: FloatArray, points: IntArray, most: int) -> IntArray:
    """Phrases for each root by Sainte-Lague's rule, `most` in all, none more than it has points."""
    seats = np.zeros(len(weights), dtype=np.int64)
    for _ in range(min(most, int(points.sum()))):
        quotients = np.where(seats < points, weights / (2 * seats + 1), -1.0)
        seats[int(np.argmax(quotients))] += 1
    return seats


def root_parts(
    codes: Coded, measure: Measure, most: int, least: float = LEAST_SHARE
) -> list[RootPart]:
    """Up to `most` parts of a measure, each of one root, the heaviest first; `codes` are the event
    codes of its points. The weights of the measure may have any sum."""
    roots, places = roots_of(codes)
    totals = np.bincount(places, measure.weights, len(roots)).astype(np.float64)
    points = np.bincount(places[measure.weights > 0], minlength=len(roots)).astype(np.int64)
    parts: list[RootPart] = []
    for root, seats in enumerate(share_seats(totals, points, most).tolist()):
        if not seats:
            continue
        own = np.flatnonzero((places == root) & (measure.weights > 0))
        part = Measure(measure.points[own], measure.weights[own] / totals[root])
        atoms = quantise(part, seats)
        named = name_atoms(codes.at(own), part, atoms)
        parts += [
            RootPart(
                point=int(own[named[atom]]),
                weight=float(atoms.weights[atom] * totals[root]),
                atom=atoms.points[atom],
                members=own[atoms.labels == atom],
            )
            for atom in range(len(atoms.weights))
        ]
    parts.sort(key=lambda part: (-part.weight, part.point))
    return [part for rank, part in enumerate(parts) if rank < FEWEST or part.weight >= least]


def describe_by_root(cloud: Cloud, points: Points, most: int) -> Descriptor:
    """A cloud in up to `most` phrases, each of one root; `members` is -1 where none stands for a
    point. Its cost is that of sending every point to the nearest atom."""
    measure = points.measure(cloud)
    parts = root_parts(cloud.code, measure, most)
    members = np.full(len(measure.weights), NO_ATOM, dtype=np.int64)
    for number, part in enumerate(parts):
        members[part.members] = number
    named = np.array([part.point for part in parts], dtype=np.int64)
    keys = [slot.at(named).values() for slot in (cloud.actor1, cloud.code, cloud.actor2)]
    atoms = np.array([part.atom for part in parts], dtype=np.float32)
    atoms = atoms.reshape(len(parts), measure.points.shape[1])
    rows = [int(cloud.numbers.rows[part.members].sum()) for part in parts]
    return Descriptor(
        cloud.stream,
        cloud.day,
        cloud.state,
        atoms,
        np.array([part.weight for part in parts]),
        AtomPhrases(tuple(keys[0]), tuple(keys[1]), tuple(keys[2])),
        np.array(rows, dtype=np.int64),
        nearest_cost(measure, atoms),
        members,
    )


def nearest_cost(measure: Measure, atoms: VectorArray) -> float:
    """W2^2 between a measure and the best weights on given atoms; 0 without points."""
    if not len(atoms) or not len(measure.weights):
        return 0.0
    nearness = (measure.points.astype(np.float64) @ atoms.T.astype(np.float64)).max(axis=1)
    return max(2 * float(measure.weights @ (1 - nearness)), 0.0)


def weights_by_root(
    codes: Coded, weights: FloatArray, shares: Mapping[str, float] | None
) -> FloatArray:
    """Weights of points, scaled so that those of a root sum to its share; without shares as they
    are. Roots without a share have none."""
    if shares is None:
        return weights
    roots, places = roots_of(codes)
    totals = np.bincount(places, weights, len(roots)).astype(np.float64)
    wanted = np.array([shares.get(root, 0.0) for root in roots])
    factors = np.divide(wanted, totals, out=np.zeros(len(roots)), where=totals > 0)
    scaled: FloatArray = weights * factors[places]
    return scaled
