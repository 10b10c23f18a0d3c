"""The expected day: the mean of a stream's futures, in a few atoms, with words."""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.settings import MeasureSettings
from gdelphi.common.types import IntArray, Measure
from gdelphi.forecast.prediction import BriefAtom, StreamFutures
from gdelphi.measures.clouds import Coded
from gdelphi.measures.descriptors import atom_rule, name_atoms
from gdelphi.ot.quantise import Quantisation, quantise_adaptively

BRIEF_POINTS: Final = 400  # atoms of all futures that the expected day is made from, at most


class ExpectedDay(NamedTuple):
    """The few-atom summary of the mean of futures."""

    atoms: Quantisation
    """of the measure"""
    measure: Measure
    """the heaviest atoms of all futures"""
    kept: IntArray
    """which they are, among the atoms of futures one after the other"""


def brief_of(futures: StreamFutures, measures: MeasureSettings) -> tuple[BriefAtom, ...]:
    """The expected day in words; none if all futures are empty days."""
    found = expected_day(futures, measures)
    return () if found is None else named_day(found, futures)


def expected_day(futures: StreamFutures, measures: MeasureSettings) -> ExpectedDay | None:
    """The few-atom summary of the mean of the futures; None if all are empty days."""
    of_futures = futures.tilted.weights * futures.exists
    masses = (of_futures[:, None] * futures.weights).ravel()
    kept = np.argsort(-masses, kind="stable")[:BRIEF_POINTS]
    kept = kept[masses[kept] > 0]
    if not len(kept):
        return None
    points = futures.points.reshape(len(masses), -1)[kept]
    measure = Measure(points, masses[kept] / masses[kept].sum())
    return ExpectedDay(quantise_adaptively(measure, atom_rule(measures)), measure, kept)


def named_day(expected: ExpectedDay, futures: StreamFutures) -> tuple[BriefAtom, ...]:
    """Each atom is called what the atom of futures is called that stands for it: one of the most
    frequent event among those near it. Naming the mean itself, where no event need lie, was tried:
    its words are more usual, and its events are right less often (docs/LOG.md)."""
    atoms, measure, kept = expected
    calls, named = futures.calls.ravel()[kept], futures.named.ravel()[kept]
    codes = Coded(tuple(phrase.code for phrase in futures.called), calls)
    return tuple(
        BriefAtom(futures.called[calls[point]], float(weight), futures.phrases[named[point]])
        for point, weight in zip(name_atoms(codes, measure, atoms), atoms.weights, strict=True)
    )
