"""The few-atom summary of a cloud: the measure with m atoms that is nearest to it in W2.

The ground cost is the squared chord |x - y|^2 = 2 - 2 <x, y>. For a cloud (x_i, w_i) and atoms that
may have any weights the best plan sends each point to its nearest atom, so W2^2 is the objective of
weighted spherical k-means (Dhillon and Modha 2001), and a partition tells all: with
S_j = sum of w_i x_i over part j the best atom is S_j / |S_j| and the part costs 2 (W_j - |S_j|).

The search has three stages. (1) Starts: greedy k-means++ (Arthur and Vassilvitskii 2007), and a
path that grows by one atom at a time. (2) Lloyd steps, all starts in one array. (3) Exchanges after
Hartigan (1975): single points change parts by their exact gain. Libraries stop at (2), which ends
early where points are few and dimensions many: on 9 points in 128 dimensions 5% above the optimum,
with exchanges 0.02% (four restarts, mean). An exact search is out of reach past a dozen points.

Rows that are equal are one point, and points are put into the order of their bytes before anything
is drawn. So neither the order of the rows nor splitting a point's weight changes the result.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    Measure,
    VectorArray,
)

WEIGHT_SUM_TOLERANCE, UNIT_TOLERANCE = 1e-6, 1e-3
COST_NOISE = 1e-12  # costs below are none: float32 coordinates do not tell such points apart
CANCELLED = 1e-14  # of |S_j|^2 / W_j^2: no direction is left
WEIGHT_BITS = 32  # precision of the search's weights
GRAM_LIMIT = 512  # points up to which all inner products are kept
EXCHANGE_LIMIT = 1000  # beyond, single points are too light for exchanges to find anything
TRIALS = 5  # seeds drawn for each atom; with one, costs are 1.5% higher (100 points, 4 restarts)
SMALL, SMALL_FACTOR = 16, 4  # few points want different starts: 4 times as many, of one trial each
RACE_STEPS = 5  # Lloyd steps of all starts; then exchanges, or further steps of the best one
RACE_LIMIT = 64  # points up to which exchanges go on from all starts; beyond, from the best two
LLOYD_STEPS, LLOYD_TOLERANCE = 30, 1e-4  # steps end when the cost falls by less, relatively
GROWTH_STEPS, GROWTH_CANDIDATES = 2, 16  # Lloyd steps and seeds tried for each atom of the path
EXCHANGE_STEPS = 100
CAUTION: Final = np.array([0.0, 0.5, 0.9, 1.0])  # part of the best gain that movers must exceed
PATH_SLACK = 0.88  # a full search rarely lowers the cost of a path to less than this part of it


class Quantisation(NamedTuple):
    """A cloud's summary by m atoms."""

    points: VectorArray
    """[m, dim], rows of length 1"""
    weights: FloatArray
    """[m], summing to 1, falling; of equal ones the atom with the earliest point comes first"""
    labels: IntArray
    """[n], the atom of each point of the cloud"""
    cost: float
    """W2^2 between cloud and atoms"""


@dataclass(frozen=True)
class AtomRule:
    """How many atoms a cloud gets: the fewest that explain the given share of its spread."""

    fewest: int = 3
    most: int = 10
    explained: float = 0.6

    def __post_init__(self) -> None:
        if not 1 <= self.fewest <= self.most:
            raise GdelphiError(f"{self.fewest} to {self.most} atoms: give 1 <= fewest <= most")
        if not 0 <= self.explained <= 1:
            raise GdelphiError(f"explained is a share between 0 and 1, not {self.explained}")


DEFAULT_RULE: Final = AtomRule()


def quantise(cloud: Measure, atoms: int, *, seed: int = 0, restarts: int = 4) -> Quantisation:
    """The cloud's summary by `atoms` atoms, or by one for each distinct point if they are fewer."""
    if atoms < 1 or restarts < 1:
        raise GdelphiError(f"{atoms} atoms with {restarts} restarts: both are numbers from 1 on")
    distinct = _distinct(cloud)
    if not distinct.size:
        return _nothing(cloud)
    path = _grow(distinct, min(atoms, distinct.size))
    return _finish(cloud, distinct, _search(distinct, path[-1], seed=seed, restarts=restarts))


def quantise_adaptively(
    cloud: Measure, rule: AtomRule = DEFAULT_RULE, *, seed: int = 0
) -> Quantisation:
    """What `quantise` gives for the smallest number of atoms that satisfies the rule, or for most.

    A path of growing summaries bounds that number from above; from there down, full searches are
    made where they have a chance (PATH_SLACK). A few clouds in 100 keep one atom too many.
    """
    if 0 < len(cloud.weights) <= rule.fewest and _all_differ(cloud):
        return each_its_own(cloud)
    distinct = _distinct(cloud)
    if not distinct.size:
        return _nothing(cloud)
    if distinct.size <= rule.fewest:  # an atom for each, whatever a search would do
        return _finish(cloud, distinct, np.arange(distinct.size))
    most = min(rule.most, distinct.size)
    fewest = min(rule.fewest, most)
    path = _grow(distinct, most)
    costs = [parts.cost.item() for parts in path]
    allowed = (1 - rule.explained) * costs[0] + COST_NOISE
    count = min((m for m in range(fewest, most) if costs[m - 1] <= allowed), default=most)
    labels = _search(distinct, path[count - 1], seed=seed)
    while count > fewest and PATH_SLACK * costs[count - 2] <= allowed:
        smaller = _search(distinct, path[count - 2], seed=seed)
        if _measure(distinct, smaller[:, None], count - 1).cost.item() > allowed:
            break
        count, labels = count - 1, smaller
    return _finish(cloud, distinct, labels)


def explained(cloud: Measure, quantisation: Quantisation) -> float:
    """1 - cost / cost of the best single atom; 1 where that is nothing."""
    _check(cloud)
    if not len(cloud.weights):
        return 1.0
    total = cloud.weights @ _unit(cloud.points.astype(np.float64))
    single = 2 * (1 - float(np.linalg.norm(total)) / float(cloud.weights.sum()))
    return 1.0 if single <= COST_NOISE else 1 - quantisation.cost / single


# --- the cloud at the edge ------------------------------------------------------------------------


class _Distinct(NamedTuple):
    """The distinct points of positive weight, in the order of their bytes."""

    points: FloatArray  # [n, dim], rows of length 1
    weights: FloatArray  # [n], rounded to WEIGHT_BITS
    gram: FloatArray | None  # [n, n], inner products, where they are kept
    rows: IntArray  # rows of the cloud with positive weight
    origin: IntArray  # [row], the distinct point of each of them

    @property
    def size(self) -> int:
        return len(self.weights)

    def inner(self, masses: FloatArray) -> FloatArray:
        """<x_i, sum_k masses_k x_k> for each column of masses, [n, ...]."""
        flat = masses.reshape(self.size, -1)
        gram = self.gram
        product: FloatArray = self.points @ (self.points.T @ flat) if gram is None else gram @ flat
        return product.reshape(masses.shape)

    def inner_with(self, chosen: IntArray) -> FloatArray:
        """Inner products of all points with the chosen ones, [n, chosen]."""
        if self.gram is not None:
            return self.gram[:, chosen]
        product: FloatArray = self.points @ self.points[chosen].T
        return product


def _check(cloud: Measure) -> None:
    points, weights = cloud
    if points.ndim != 2 or not points.shape[1] or weights.shape != points.shape[:1]:
        shapes = f"points of shape {points.shape} and weights of shape {weights.shape}"
        raise GdelphiError(f"a cloud with {shapes}, where [n, dim] and [n] are meant")
    # Not-a-number fails these comparisons too.
    total, least = weights.sum(), weights.min(initial=0)
    if len(weights) and not (least >= 0 and abs(total - 1) <= WEIGHT_SUM_TOLERANCE):
        raise GdelphiError(f"cloud weights from {least:g} on with sum {total:.9g}, not 0 and 1")
    lengths = np.sqrt(np.einsum("nd,nd->n", points, points))
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))
    if wrong.size:
        row = wrong[0]
        raise GdelphiError(f"point {row} of the cloud has length {lengths[row]:.6g}, not 1")


def _distinct(cloud: Measure) -> _Distinct:
    _check(cloud)
    rows = np.flatnonzero(cloud.weights > 0)
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    coordinates = np.ascontiguousarray(cloud.points[rows], np.float32) + np.float32(0)
    row_bytes = np.dtype((np.void, coordinates.shape[1] * coordinates.itemsize))
    _, first, origin = np.unique(
        coordinates.view(row_bytes)[:, 0], return_index=True, return_inverse=True
    )
    # Equal rows are summed in the order of their weights, and sums have fewer bits than weights:
    # so a weight is the same number, and breaks ties alike, in whatever parts it was given.
    order = np.lexsort((cloud.weights[rows], origin))
    sums = np.bincount(origin[order], weights=cloud.weights[rows[order]], minlength=first.size)
    mantissa, exponent = np.frexp(sums / cloud.weights.sum())
    weights = np.ldexp(np.round(mantissa * 2.0**WEIGHT_BITS), exponent - WEIGHT_BITS)
    points = _unit(coordinates[first].astype(np.float64))
    gram = points @ points.T if len(points) <= GRAM_LIMIT else None
    return _Distinct(points, weights, gram, rows, origin)


def _unit(points: FloatArray) -> FloatArray:
    """Rows scaled to length 1."""
    scaled: FloatArray = points / np.sqrt(np.einsum("nd,nd->n", points, points))[:, None]
    return scaled


def _all_differ(cloud: Measure) -> bool:
    """Whether a cloud of few points has no two that are equal, and none without weight."""
    _check(cloud)
    points, weights = cloud
    return bool((weights > 0).all()) and not any(
        (points[one] == points[other]).all() for one in range(len(points)) for other in range(one)
    )


def unit_rows(points: VectorArray) -> VectorArray:
    """Points as they are atoms: scaled to length 1 in float64, kept in float32."""
    return _unit(points.astype(np.float64)).astype(np.float32)


def each_its_own(cloud: Measure) -> Quantisation:
    """A cloud of distinct points as its own summary, an atom for each: nothing is to be searched.
    On ICEWS three quarters of all streams' days are so small that this is theirs."""
    order = np.argsort(-cloud.weights, kind="stable")
    points = unit_rows(cloud.points[order])
    weights = (cloud.weights / cloud.weights.sum())[order]
    return Quantisation(points, weights, np.argsort(order), 0.0)


def _nothing(cloud: Measure) -> Quantisation:
    points = np.zeros((0, cloud.points.shape[1]), np.float32)
    return Quantisation(points, np.zeros(0), np.zeros(0, np.int64), 0.0)


def _finish(cloud: Measure, distinct: _Distinct, labels: IntArray) -> Quantisation:
    """Atoms, masses and cost of a partition of the distinct points, from the cloud as given."""
    atoms = _atoms(distinct, labels)
    weights = cloud.weights / cloud.weights.sum()
    nearness = _unit(cloud.points.astype(np.float64)) @ atoms.T
    labels = _nearest(distinct, labels, nearness)
    masses = np.bincount(labels, weights=weights).astype(np.float64)
    cost = 2 * float(weights @ (1 - nearness[np.arange(len(labels)), labels]))
    _, earliest = np.unique(labels[distinct.rows], return_index=True)
    order = np.lexsort((earliest, -masses))
    points = atoms[order].astype(np.float32)
    return Quantisation(points, masses[order], np.argsort(order)[labels], max(cost, 0.0))


def _nearest(distinct: _Distinct, labels: IntArray, nearness: FloatArray) -> IntArray:
    """Labels of the cloud's rows: their part, or a nearer atom where steps were cut short."""
    nearest = nearness.argmax(axis=1)
    given: IntArray = nearest.copy()
    given[distinct.rows] = labels[distinct.origin]
    gained = nearness.max(axis=1) - nearness[np.arange(len(given)), given]
    moved: IntArray = np.where(gained > COST_NOISE, nearest, given)
    emptied = np.unique(moved[distinct.rows]).size < nearness.shape[1]
    return given if emptied else moved


def _atoms(distinct: _Distinct, labels: IntArray) -> FloatArray:
    """S_j / |S_j|; where S_j is nothing all directions cost the same, the heaviest is it."""
    parts = np.arange(labels.max() + 1)
    weights = np.where(labels[:, None] == parts, distinct.weights[:, None], 0.0)
    heaviest = weights.argmax(axis=0)
    weights /= weights[heaviest, parts]  # lest squares of tiny weights be lost
    sums = weights.T @ distinct.points
    cancelled = np.linalg.norm(sums, axis=1) <= np.sqrt(CANCELLED) * weights.sum(axis=0)
    sums[cancelled] = distinct.points[heaviest[cancelled]]
    return _unit(sums)


# --- partitions, several at once ------------------------------------------------------------------


class _Partitions(NamedTuple):
    """Several partitions into m parts, with all that steps and gains need."""

    labels: IntArray  # [n, start]
    inner: FloatArray  # <x_i, S_j>, [n, start, m]
    lengths: FloatArray  # |S_j|, [1, start, m]
    masses: FloatArray  # W_j, [1, start, m]
    cost: FloatArray  # [1, start]

    @property
    def nearness(self) -> FloatArray:
        """<x_i, S_j / |S_j|>, [n, start, m]; 0 where S_j is nothing, as that is what it costs."""
        return self.inner / np.where(self.lengths > 0, self.lengths, np.inf)

    def own(self, values: FloatArray) -> FloatArray:
        """Of values for each part, [n or 1, start, m], those of each point's own, [n, start]."""
        rows, starts = np.arange(len(values))[:, None], np.arange(values.shape[1])
        chosen: FloatArray = values[rows, starts, self.labels]
        return chosen

    def select(self, kept: IntArray | BoolArray) -> "_Partitions":
        """Some of the starts."""
        inner, lengths, masses, cost = (values[:, kept] for values in self[1:])
        return _Partitions(self.labels[:, kept], inner, lengths, masses, cost)


def _measure(distinct: _Distinct, labels: IntArray, count: int) -> _Partitions:
    """The partitions with these labels; a part without points gets one."""
    inside = labels[:, :, None] == np.arange(count)
    weights = np.where(inside, distinct.weights[:, None, None], 0.0)
    masses = weights.sum(axis=0, keepdims=True)
    inner = distinct.inner(weights)
    squares = np.einsum("nsm,nsm->sm", weights, inner)[None]
    # |S_j|^2 = sum_i w_i <x_i, S_j> over part j. Rounding leaves about 1e-16 of a square whose
    # points cancel.
    lengths = np.sqrt(np.where(squares > CANCELLED * masses**2, squares, 0.0))
    measured = _Partitions(labels, inner, lengths, masses, 2 * (masses - lengths).sum(axis=2))
    if masses.all():
        return measured
    return _measure(distinct, _filled(distinct, measured), count)


def _filled(distinct: _Distinct, parts: _Partitions) -> IntArray:
    """Labels where each empty part has taken the costliest point that is not alone in its part."""
    labels = parts.labels.copy()
    losses = distinct.weights[:, None] * (1 - parts.own(parts.nearness))
    for _, start, part in np.argwhere(parts.masses == 0):
        members = np.bincount(labels[:, start], minlength=parts.masses.shape[2])
        alone = members[labels[:, start]] == 1
        labels[np.where(alone, -1.0, losses[:, start]).argmax(), start] = part
    return labels


# --- the search -----------------------------------------------------------------------------------


def _search(distinct: _Distinct, path: _Partitions, *, seed: int, restarts: int = 4) -> IntArray:
    """Labels of the best partition found, [n], into as many parts as the given one has."""
    count = path.masses.shape[2]
    if count in (1, distinct.size):
        return path.labels[:, 0]
    # (1) Starts.
    small = distinct.size <= SMALL
    drawn = (count, 1, SMALL_FACTOR * restarts) if small else (count, TRIALS, restarts)
    seeded = _seeded(distinct, np.random.default_rng(seed).random(drawn))
    parts = _measure(distinct, np.hstack([path.labels, seeded]), count)
    # (2) Lloyd steps.
    parts = _lloyd(distinct, parts, RACE_STEPS)
    order = np.argsort(parts.cost[0], kind="stable")
    if distinct.size > EXCHANGE_LIMIT:
        return _lloyd(distinct, parts.select(order[:1]), LLOYD_STEPS).labels[:, 0]
    # (3) Exchanges.
    return _exchange(distinct, parts.select(order[:2]) if distinct.size > RACE_LIMIT else parts)


def _seeded(distinct: _Distinct, uniform: FloatArray) -> IntArray:
    """Greedy k-means++, the best of several seeds: [n, start] from random [m, trial, start].

    For each part: (1) draw seeds with probability w_i (1 - max_s <x_i, s>) over the seeds s so far,
    which is half the weighted squared chord to the nearest; (2) keep the one after which
    sum_i w_i max_s <x_i, s> is largest; (3) points that are nearer to it are its part.
    """
    starts = np.arange(uniform.shape[2])
    labels = np.zeros((distinct.size, len(starts)), np.int64)
    nearest = np.full(labels.shape, -1.0)
    for part, drawn in enumerate(uniform):
        mass = np.cumsum(distinct.weights[:, None] * np.maximum(1 - nearest, 0), axis=0)
        seeds = np.minimum((mass[:, None] < drawn * mass[-1]).sum(axis=0), distinct.size - 1)
        inner = distinct.inner_with(seeds.ravel()).reshape(-1, *drawn.shape)
        worth = np.tensordot(distinct.weights, np.maximum(inner, nearest[:, None]), axes=1)
        taken = worth.argmax(axis=0)
        labels[inner[:, taken, starts] > nearest] = part
        labels[seeds[taken, starts], starts] = part
        nearest = np.maximum(nearest, inner[:, taken, starts])
    return labels


def _grow(distinct: _Distinct, most: int) -> list[_Partitions]:
    """Partitions into 1, 2, ... parts, each from the one before and the most helpful new seed."""
    path = [_measure(distinct, np.zeros((distinct.size, 1), np.int64), 1)]
    for part in range(1, most):
        before = path[-1]
        own = before.own(before.nearness)
        losses = distinct.weights * (1 - own[:, 0])
        candidates = np.argsort(-losses, kind="stable")[:GROWTH_CANDIDATES]
        nearer = distinct.inner_with(candidates) - own
        best = (distinct.weights @ np.maximum(nearer, 0)).argmax()
        labels = np.where(nearer[:, [best]] > 0, part, before.labels)
        path.append(_lloyd(distinct, _measure(distinct, labels, part + 1), GROWTH_STEPS))
    return path


def _lloyd(distinct: _Distinct, parts: _Partitions, steps: int) -> _Partitions:
    """Each point to its nearest atom, until next to nothing changes."""
    for _ in range(steps):
        labels = parts.nearness.argmax(axis=2)
        if (labels == parts.labels).all():
            break
        cost = parts.cost
        parts = _measure(distinct, labels, parts.masses.shape[2])
        if (cost - parts.cost <= LLOYD_TOLERANCE * cost).all():
            break
    return parts


def _exchange(distinct: _Distinct, parts: _Partitions) -> IntArray:
    """Labels of the best partition, [n], after all profitable moves of single points.

    Gains are exact for one point at a time. As long as that lowers the cost, all profitable moves
    are made at once, which saves most of the steps; where it does not, fewer, at last one.
    """
    best, best_cost, count = parts.labels[:, 0], np.inf, parts.masses.shape[2]
    level = np.zeros(parts.labels.shape[1], np.int64)
    for step in range(EXCHANGE_STEPS + 1):
        gain, target = _gains(distinct.weights, parts)
        top = gain.max(axis=0)
        ended = (top <= COST_NOISE) | (level == len(CAUTION)) | (step == EXCHANGE_STEPS)
        if ended.any():
            first = np.where(ended, parts.cost[0], np.inf).argmin()
            if parts.cost[0, first] < best_cost:
                best, best_cost = parts.labels[:, first], parts.cost[0, first]
            if ended.all():
                break
            parts, level, top = parts.select(~ended), level[~ended], top[~ended]
            gain, target = gain[:, ~ended], target[:, ~ended]
        moving = gain > CAUTION[level] * top
        moving[gain.argmax(axis=0), np.arange(len(level))] = True
        moved = _measure(distinct, np.where(moving, target, parts.labels), count)
        better = moved.cost[0] < parts.cost[0]
        kept = np.where(better, moved.labels, parts.labels)
        parts = moved if better.all() else _measure(distinct, kept, count)
        level = np.where(better, np.maximum(level - 1, 0), level + 1)
    return best


def _gains(weights: FloatArray, parts: _Partitions) -> tuple[FloatArray, IntArray]:
    """What |S_a| + |S_b| gains if a point leaves its part a for the best b, and b: [n, start].

    For a point x of weight w, by |S -+ w x|^2 = |S|^2 -+ 2 w <x, S> + w^2 (as |x| = 1):

        lost = |S_a - w x| - |S_a|,   won = |S_b + w x| - |S_b|,   gain = lost + won.

    Parts cost 2 (W_j - |S_j|) and the W_j sum to 1, so the cost falls by twice the gain.
    """
    rows, starts = np.arange(len(weights))[:, None], np.arange(parts.labels.shape[1])
    mass, squares = weights[:, None], parts.lengths**2
    left = parts.own(squares) - mass * (2 * parts.own(parts.inner) - mass)
    lost = np.sqrt(np.maximum(left, 0)) - parts.own(parts.lengths)
    lost[parts.own(parts.masses) == mass] = -np.inf  # a part keeps its last point
    mass = mass[:, :, None]
    won = np.sqrt(np.maximum(squares + mass * (2 * parts.inner + mass), 0)) - parts.lengths
    won[rows, starts, parts.labels] = -np.inf
    target = won.argmax(axis=2)
    return won[rows, starts, target] + lost, target
