"""The expected day: the mean of a stream's futures, in a few atoms, with words."""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.atoms import atom_rule, name_atoms
from gdelphi.clouds import Coded
from gdelphi.config import MeasureSettings
from gdelphi.prediction import BriefAtom, Phrase, StreamFutures, call_atoms
from gdelphi.quantise import quantise_adaptively
from gdelphi.types import Measure

BRIEF_POINTS: Final = 400  # atoms of all futures that the expected day is made from, at most


class ExpectedDay(NamedTuple):
    """The few-atom summary of the mean of futures."""

    measure: Measure
    drawn: tuple[Phrase, ...]
    """of each atom the phrase of the atom of futures that stands for it"""


def brief_of(futures: StreamFutures, measures: MeasureSettings) -> tuple[BriefAtom, ...]:
    """The expected day in words. An atom of it is named where it lies, as those of futures are."""
    (points, weights), drawn = expected_day(futures, measures)
    called = call_atoms(futures.names, points, weights, drawn).phrases
    return tuple(map(BriefAtom, called, weights.tolist(), drawn))


def expected_day(futures: StreamFutures, measures: MeasureSettings) -> ExpectedDay:
    """The few-atom summary of the mean of the futures; no atoms if all are empty days."""
    of_futures = futures.tilted.weights * futures.exists
    masses = (of_futures[:, None] * futures.weights).ravel()
    kept = np.argsort(-masses, kind="stable")[:BRIEF_POINTS]
    kept = kept[masses[kept] > 0]
    if not len(kept):
        return ExpectedDay(Measure(futures.points[0, :0], np.zeros(0)), ())
    points = futures.points.reshape(len(masses), -1)[kept]
    measure = Measure(points, masses[kept] / masses[kept].sum())
    found = quantise_adaptively(measure, atom_rule(measures))
    named = futures.named.ravel()[kept]
    codes = Coded(tuple(phrase.code for phrase in futures.phrases), named)
    chosen = name_atoms(codes, measure, found)
    drawn = tuple(futures.phrases[named[point]] for point in chosen)
    return ExpectedDay(Measure(found.points, found.weights), drawn)
