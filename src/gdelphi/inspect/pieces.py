"""The study of part 4: how many pieces of constant parameters tell measures apart, and carry them
to targets of several atoms.

`separation.py` and `interpolation.py` have the two constructions; here they are made for several
numbers of measures, atoms and points.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.inspect.interpolation import Interpolation, interpolations
from gdelphi.inspect.result import Chart, series, short
from gdelphi.inspect.separation import Separation, overlapping_measures, places, separate
from gdelphi.inspect.subject import OnPartStep

SIZES: Final = (100, 1000)  # points of a measure
PAIRS: Final = (2, 3, 4, 5, 6, 8)  # measures that are separated
SEEDS: Final = 5
DIMENSION: Final = 3
TARGETS: Final = (1, 2, 4, 8)  # measures that are carried to targets
ATOMS: Final = (1, 2, 5)  # of a target
DRAWS: Final = 2
STUDY_STEPS: Final = 2


def separations(pairs: int, points: int, seeds: int) -> list[Separation]:
    """Some draws of measures, separated."""
    found = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        measures = overlapping_measures(pairs, points, DIMENSION, generator)
        found.append(separate(measures, places(pairs, DIMENSION, generator)))
    return found


@dataclass(frozen=True)
class AtomStudy:
    """Measures carried to targets of several atoms."""

    found: Mapping[tuple[int, int, int], Sequence[Interpolation]]
    """by N, m and n: some draws each"""

    def pieces(self, number: int, atoms: int, size: int) -> float:
        return float(np.mean([one.pieces for one in self.found[number, atoms, size]]))

    @property
    def farthest(self) -> float:
        """The largest W2 from a target that was left; nan if a draw did not arrive."""
        return float(np.max([one.w2 for draws in self.found.values() for one in draws]))

    @property
    def free_of_points(self) -> bool:
        """Whether all numbers of points took the same pieces."""
        cells = {(number, atoms) for number, atoms, _ in self.found}
        return all(
            len({one.pieces for size in SIZES for one in self.found[number, atoms, size]}) == 1
            for number, atoms in cells
        )

    def words(self) -> str:
        """What it says."""
        number, atoms, size = max(self.found)
        one = self.found[number, atoms, size][0]
        return (
            " Targets of m atoms each take a cut by one neuron for each of N m atoms after that: "
            f"{number} measures reach {atoms} atoms each in {one.aims} + {one.cuts} pieces, to a "
            f"W2 of {short(self.farthest)} at most, "
            + (
                f"with {' as with '.join(f'{each:,}' for each in SIZES)} points. "
                if self.free_of_points
                else "though their number is not the same for all numbers of points here. "
            )
            + f"Layers of {number} neurons, which cut all measures at once, need {one.aims} + "
            f"{one.cuts // number}."
        )

    def chart(self) -> Chart:
        """Pieces against N, a line for each m."""
        size = SIZES[-1]
        lines = [
            series(f"m = {atoms}", TARGETS, [self.pieces(each, atoms, size) for each in TARGETS])
            for atoms in ATOMS
        ]
        wide = [
            one.aims + one.cuts / number
            for number in TARGETS
            for one in self.found[number, ATOMS[-1], size][:1]
        ]
        lines.append(series(f"m = {ATOMS[-1]}, N neurons a piece", TARGETS, wide, "guide"))
        return Chart("Pieces to targets of m atoms", "measures N", "pieces", tuple(lines))


def atom_study() -> AtomStudy:
    """For all numbers of measures, atoms and points."""
    return AtomStudy(
        {
            (number, atoms, size): interpolations(number, size, atoms, DRAWS)
            for number in TARGETS
            for atoms in ATOMS
            for size in SIZES
        }
    )


@dataclass(frozen=True)
class PieceStudy:
    """Both halves."""

    separated: Mapping[int, Sequence[float]]
    """by n: mean pieces for each of PAIRS"""
    shown: Separation
    """two measures, for the figure"""
    failed: int
    """draws that were not separated"""
    targets: AtomStudy

    def words(self) -> str:
        """What it says."""
        pieces = self.shown.pieces
        words = (
            "The study shows the use of it: measures that lie upon each other are separated by "
            "value matrices that are held constant for a while, since each has a mean of its own; "
            f"two took {pieces} piece{'s' if pieces != 1 else ''}, and the number does not grow "
            "with the number of points."
        )
        if self.failed:
            words += f" {self.failed} of the draws were not separated within the allowed pieces."
        return words + self.targets.words()

    def figures(self) -> Iterator[tuple[str, float]]:
        """For programs."""
        for size, means in self.separated.items():
            for pairs, value in zip(PAIRS, means, strict=True):
                yield f"pieces for {pairs} measures of {size} points", value
        for number, atoms, size in self.targets.found:
            name = f"pieces to {atoms} atoms for {number} measures of {size} points"
            yield name, self.targets.pieces(number, atoms, size)

    def charts(self) -> tuple[Chart, ...]:
        """Step by step, and by numbers."""
        pieces = range(len(self.shown.margins))
        margins = (
            series("least angle; below 0 they overlap", pieces, self.shown.margins),
            series("they touch", pieces, [0.0] * len(pieces), "guide"),
        )
        needed = tuple(
            series(f"{size:,} points each", PAIRS, means) for size, means in self.separated.items()
        )
        return (
            _plane("Two measures upon each other", self.shown.path[0]),
            _plane("The same, separated", self.shown.path[-1]),
            Chart("Separating two measures", "pieces", "angle between their caps", margins),
            Chart("Pieces to separate", "measures N", f"mean of {SEEDS} draws", needed),
            self.targets.chart(),
        )


def _plane(title: str, measures: Tensor) -> Chart:
    """Points of measures [N, n, 3], seen along the third axis."""
    shown = [
        series(f"measure {number}", points[:, 0].tolist(), points[:, 1].tolist(), "dots")
        for number, points in enumerate(measures, 1)
    ]
    return Chart(title, "first coordinate", "second coordinate", tuple(shown), limits=(-1, 1))


def study_pieces(on_step: OnPartStep) -> PieceStudy:
    """All of it."""
    study: dict[int, list[float]] = {size: [] for size in SIZES}
    failed = 0
    for pairs in PAIRS:
        for size, means in study.items():
            found = separations(pairs, size, SEEDS)
            failed += sum(not one.separated for one in found)
            means.append(float(np.mean([one.pieces for one in found])))
    shown = separations(2, SIZES[0], 1)[0]
    on_step(1, STUDY_STEPS)
    targets = atom_study()
    on_step(STUDY_STEPS, STUDY_STEPS)
    return PieceStudy(study, shown, failed, targets)
