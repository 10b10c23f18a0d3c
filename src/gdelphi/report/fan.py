"""The fan: a stream's futures in two dimensions.

The plane is the one that shows most of the variance of the atoms, each weighted by its mass in its
future and the future's weight: principal components of the stream's own atoms, so that every fan
uses its room. Not chosen: one plane for all streams, on which the futures of a quiet country are a
dot; nor a non-linear map (t-SNE, UMAP), whose distances mean nothing and which differ from run to
run. The sign of an axis is arbitrary in principal components: here the heaviest standard event lies
to the right and above.

Landmarks are the standard roots, where the basis has been kept beside the measures. A basis point
has only the part that says which event it is; it is lengthened to what atoms have of that part, and
the rest (who acts) is put at the atoms' mean, so that it adds nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.common.types import FloatArray
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import load_space
from gdelphi.report.content import (
    Fan,
    Future,
    FuturePoint,
)
from gdelphi.report.plain import clean

LEAST: Final = 0.005  # of a future's day: lighter atoms are not drawn
DIGITS: Final = 3  # of a coordinate: a thousandth of the plane is less than a pixel
SIZE_DIGITS: Final = 4
SUBSPACE: Final = 8
ITERATIONS: Final = 60
NEARER: Final = 0.1  # cosine by which atoms are nearer to their own root


class Atoms(NamedTuple):
    """All atoms of a stream's futures, one after the other."""

    future: list[int]
    """number of the future, [n]"""
    points: FloatArray
    """[n, dimension]"""
    sizes: FloatArray
    """weight in the future's day, [n]"""
    masses: FloatArray
    """the same times the future's weight, [n]"""
    roots: list[str]
    """[n]"""


class Plane(NamedTuple):
    """A plane through the atoms."""

    mean: FloatArray
    """[dimension]"""
    axes: FloatArray
    """[2, dimension]"""
    explained: float

    def of(self, points: FloatArray) -> FloatArray:
        """Where points lie on it, [n, 2]."""
        coordinates: FloatArray = (points - self.mean) @ self.axes.T
        return coordinates


def root_points(settings: Settings) -> Mapping[str, FloatArray]:
    """The standard roots as points of length 1, [event dimensions]; none if no basis is kept."""
    folder = measures_folder(settings)
    try:
        fingerprint = load_space(folder / "space").fingerprint
        finest = np.load(folder / "basis" / f"{fingerprint}.npy").astype(np.float64)
    except (MeasuresError, OSError, ValueError):
        return {}
    codes = [lineage(code).root for code in standard_events("full")]
    if len(codes) != len(finest):
        return {}
    points = {}
    for root in dict.fromkeys(codes):
        mean = finest[[code == root for code in codes]].mean(axis=0)
        length = float(np.linalg.norm(mean))
        if length > 0:
            points[root] = mean / length
    return points


def fan_of(rows: Sequence[Mapping[str, Any]], landmarks: Mapping[str, FloatArray]) -> Fan | None:
    """The fan of a stream's rows of the table of futures; None without any."""
    if not rows:
        return None
    weights = np.array([row["weight"] for row in rows], dtype=np.float64)
    atoms = _atoms(rows)
    placed, marks, explained = _placed(atoms, landmarks)
    days: list[date] = [row["day"] for row in rows]
    points: list[list[FuturePoint]] = [[] for _ in rows]
    for at, number in enumerate(atoms.future):
        points[number].append(
            FuturePoint(
                x=round(float(placed[at, 0]), DIGITS),
                y=round(float(placed[at, 1]), DIGITS),
                size=round(float(atoms.sizes[at]), SIZE_DIGITS),
                root=atoms.roots[at],
            )
        )
    futures = [
        Future(day=day, weight=round(float(weight), 6), points=own)
        for day, weight, own in zip(days, weights, points, strict=True)
    ]
    return Fan(
        futures=futures,
        effective=round(float(weights.sum() ** 2 / (weights**2).sum()), 2),
        explained=round(explained, SIZE_DIGITS),
        landmarks={root: (round(x, DIGITS), round(y, DIGITS)) for root, (x, y) in marks.items()},
    )


def _atoms(rows: Sequence[Mapping[str, Any]]) -> Atoms:
    """The atoms that are heavy enough to be drawn; gates are part of their weight."""
    future, points, sizes, masses, roots = [], [], [], [], []
    for number, row in enumerate(rows):
        own = np.array(row["weights"], dtype=np.float64) * np.array(row["gates"], dtype=np.float64)
        own = own / own.sum() if own.sum() > 0 else own
        for place in np.flatnonzero(own >= LEAST):
            future.append(number)
            points.append(row["points"][place])
            sizes.append(own[place])
            masses.append(own[place] * row["weight"])
            roots.append(clean(lineage(row["code"][place]).root))
    shape = (len(points), len(points[0]) if points else 0)
    return Atoms(
        future, np.array(points, dtype=np.float64).reshape(shape), np.array(sizes),
        np.array(masses), roots,
    )  # fmt: skip


def _placed(
    atoms: Atoms, landmarks: Mapping[str, FloatArray]
) -> tuple[FloatArray, dict[str, tuple[float, float]], float]:
    """Coordinates of atoms and landmarks within -1 and 1, and what the plane explains."""
    if not len(atoms.points):
        return np.zeros((0, 2)), {}, 0.0
    plane = _upright(plane_through(atoms.points, atoms.masses), atoms)
    named = _fitting(atoms, landmarks)
    marks = plane.of(_lifted(atoms, plane, named))
    placed = plane.of(atoms.points)
    largest = max(float(np.abs(coordinates).max(initial=0.0)) for coordinates in (placed, marks))
    scale = 1 / largest if largest > 1e-12 else 0.0
    placed_marks = {
        root: (float(x), float(y)) for root, (x, y) in zip(named, scale * marks, strict=True)
    }
    return scale * placed, placed_marks, plane.explained


def plane_through(points: FloatArray, masses: FloatArray) -> Plane:
    """The plane that explains most of the variance of weighted points [n, dimension]."""
    total = masses.sum()
    shares = masses / total if total > 0 else np.full(len(points), 1 / len(points))
    mean = shares @ points
    centred = points - mean
    covariance = (centred * shares[:, None]).T @ centred
    variance = float(np.trace(covariance))
    if variance < 1e-12:
        return Plane(mean, np.zeros((2, len(mean))), 1.0)
    axes, values = _leading(covariance)
    return Plane(mean, axes, min(float(values.sum()) / variance, 1.0))


def _leading(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The two leading axes [2, dimension] and their variances, by subspace iteration.

    Not numpy's eigh of the whole: for each of 50 streams it wakes a thread on every core, which on
    a busy machine takes a hundred times longer than this.
    """
    size = len(covariance)
    block = np.random.default_rng(0).normal(size=(size, min(SUBSPACE, size)))
    for _ in range(ITERATIONS):
        block, _ = np.linalg.qr(covariance @ block)
    values, turned = np.linalg.eigh(block.T @ covariance @ block)  # rising
    axes = (block @ turned).T[::-1][:2]
    padded = np.zeros((2, size))  # a space of one dimension has one axis
    padded[: len(axes)] = axes
    return padded, values[::-1][:2].clip(min=0.0)


def _upright(plane: Plane, atoms: Atoms) -> Plane:
    """The same with the heaviest root to the right and above."""
    heaviest: dict[str, float] = {}
    for root, mass in zip(atoms.roots, atoms.masses, strict=True):
        heaviest[root] = heaviest.get(root, 0.0) + float(mass)
    root = min(heaviest, key=lambda code: (-heaviest[code], code))
    own = np.array([code == root for code in atoms.roots])
    centre = atoms.masses[own] @ plane.of(atoms.points[own])
    signs = np.where(centre < 0, -1.0, 1.0)
    return plane._replace(axes=plane.axes * signs[:, None])


def _fitting(atoms: Atoms, landmarks: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The landmarks of roots that the atoms have; none if they are of another space.

    A forecast outlives the space that it was made in. In its own space an atom lies nearer to its
    root than to the others; where that is not so, the landmarks would be in the wrong places.
    """
    named = {root: point for root, point in landmarks.items() if root in set(atoms.roots)}
    size = max((len(point) for point in named.values()), default=0)
    if not named or size > atoms.points.shape[1]:
        return {}
    events = atoms.points[:, :size]
    lengths = np.linalg.norm(events, axis=1, keepdims=True).clip(min=1e-12)
    cosines = (events / lengths) @ np.stack(list(named.values())).T
    roots = list(named)
    own = np.array([[code == root for root in roots] for code in atoms.roots])
    return named if cosines[own].mean() > cosines.mean() + NEARER or len(named) == 1 else {}


def _lifted(atoms: Atoms, plane: Plane, named: Mapping[str, FloatArray]) -> FloatArray:
    """Landmarks as points of the whole space."""
    lifted = np.repeat(plane.mean[None, :], len(named), axis=0)
    for row, point in zip(lifted, named.values(), strict=True):
        size = len(point)
        length = np.sqrt((np.linalg.norm(atoms.points[:, :size], axis=1) ** 2).mean())
        row[:size] = length * point
    return lifted
