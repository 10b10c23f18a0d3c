"""The expected day: the mean of a stream's futures, in a few atoms, with words."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.sections import MeasureSettings
from gdelphi.common.types import IntArray, Measure
from gdelphi.forecast.prediction import BriefAtom, StreamFutures
from gdelphi.measures.clouds import Coded
from gdelphi.measures.descriptors import atom_rule, name_atoms
from gdelphi.measures.root_phrases import weights_by_root
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


def expected_day_in_brief(
    futures: StreamFutures, measures: MeasureSettings, shares: Mapping[str, float] | None = None
) -> tuple[BriefAtom, ...]:
    """The expected day in words; none if all futures are empty days. With the shares that roots
    are expected to have, phrases of a root sum to its own."""
    expected = expected_day(futures, measures)
    brief = () if expected is None else name_expected_day(expected, futures)
    codes = Coded(tuple(atom.phrase.code for atom in brief), np.arange(len(brief)))
    weights = weights_by_root(codes, np.array([atom.weight for atom in brief]), shares)
    weighed = [atom._replace(weight=float(of)) for atom, of in zip(brief, weights, strict=True)]
    return tuple(sorted(weighed, key=lambda atom: -atom.weight))


def expected_day(futures: StreamFutures, measures: MeasureSettings) -> ExpectedDay | None:
    """The few-atom summary of the mean of the futures; None if all are empty days."""
    # The mean of measures: each atom's weight in its future, times the weight of that future.
    future_weights = futures.reweighted.weights * futures.exists
    masses = (future_weights[:, None] * futures.weights).ravel()
    kept = np.argsort(-masses, kind="stable")[:BRIEF_POINTS]
    kept = kept[masses[kept] > 0]
    if not len(kept):
        return None
    points = futures.points.reshape(len(masses), -1)[kept]
    measure = Measure(points, masses[kept] / masses[kept].sum())
    return ExpectedDay(quantise_adaptively(measure, atom_rule(measures)), measure, kept)


def name_expected_day(expected: ExpectedDay, futures: StreamFutures) -> tuple[BriefAtom, ...]:
    """The atoms of an expected day with their phrases.

    Each is called what the atom of futures is called that stands for it: one of the most frequent
    event among those near it. Naming the mean itself, where no event need lie, was tried: its words
    are more usual, and its events are right less often (docs/LOG.md).
    """
    atoms, measure, kept = expected
    shown, drawn = futures.shown_index.ravel()[kept], futures.drawn_index.ravel()[kept]
    codes = Coded(tuple(phrase.code for phrase in futures.shown_phrases), shown)
    return tuple(
        BriefAtom(
            phrase=futures.shown_phrases[shown[point]],
            weight=float(weight),
            drawn=futures.drawn_phrases[drawn[point]],
        )
        for point, weight in zip(name_atoms(codes, measure, atoms), atoms.weights, strict=True)
    )
