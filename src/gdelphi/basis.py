"""The basis: each standard event as a point, and the projection of phrases and atoms onto them.

A standard event is the centroid of the training phrases with its code, in the part of the space
that says which event it is (the verb's block of slots, everything of a sentence). A code that no
training phrase has stands where its own phrase stands. So every code of a level has its point, and
nothing is fitted on a day after the cutoff.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gdelphi.cameo import Level
from gdelphi.clouds import Cloud, Coded
from gdelphi.phrases import lineage
from gdelphi.profiles import WORLD, standard_events
from gdelphi.space import PhraseWeights, Points
from gdelphi.sphere import unit
from gdelphi.types import FloatArray, IntArray, VectorArray


class Basis(NamedTuple):
    """The standard events of a level as points."""

    level: Level
    codes: tuple[str, ...]
    points: VectorArray
    """[code, event dimensions], of length 1"""

    def cosines(self, events: VectorArray) -> VectorArray:
        """Of the event parts of points [n, event dimensions] with each standard event, [n, code].

        An atom is a mean of points, so its event part may be short: it is brought to length 1.
        """
        cosines: VectorArray = unit(events) @ self.points.T
        return cosines

    def nearest(self, events: VectorArray) -> IntArray:
        """Position of the nearest standard event, [n]; ties go to the smaller code."""
        places: IntArray = self.cosines(events).argmax(axis=1)
        return places

    def soft(self, events: VectorArray, temperature: float) -> FloatArray:
        """Soft assignment, [n, code], rows summing to 1: softmax of cosine / temperature."""
        logits = self.cosines(events).astype(np.float64) / temperature
        logits -= logits.max(axis=1, keepdims=True)
        masses = np.exp(logits)
        shares: FloatArray = masses / masses.sum(axis=1, keepdims=True)
        return shares


def fit_basis(points: Points, phrases: PhraseWeights, level: Level) -> Basis:
    """The basis of a level from training phrases."""
    codes = standard_events(level)
    place = {code: number for number, code in enumerate(codes)}
    events, own, weights = _training_points(points, phrases)
    member = np.array([place.get(getattr(lineage(code), level), -1) for code in own], np.int64)
    known = member >= 0
    sums = np.zeros((len(codes), events.shape[1]))
    np.add.at(sums, member[known], events[known] * weights[known, None])
    lone = points.space.event_part(_bare(points, codes))
    seen = np.linalg.norm(sums, axis=1, keepdims=True) > 0
    return Basis(level, codes, unit(np.where(seen, sums, lone).astype(np.float32)))


def _training_points(
    points: Points, phrases: PhraseWeights
) -> tuple[VectorArray, list[str], FloatArray]:
    """Event parts of length 1, codes and weights of the training phrases."""
    if points.space.settings.layout == "slots":  # the verb alone decides: one point a code
        codes = sorted(phrases.codes)
        weights = np.array([phrases.codes[code] for code in codes])
        return points.verbs(codes), codes, weights
    keys = phrases.heaviest_sentences()
    weights = np.array([phrases.sentences[key] for key in keys])
    return points.sentences(keys), [code for _, code, _, _ in keys], weights


def _bare(points: Points, codes: Sequence[str]) -> VectorArray:
    """The points of the codes themselves: someone does it."""
    if points.space.settings.layout == "slots":
        return points.verbs(codes)
    return points.sentences([("", code, "", WORLD) for code in codes])


def project(points: Points, basis: Basis, cloud: Cloud) -> Coded:
    """The standard event that each point of a cloud is nearest to."""
    events = points.space.event_part(points.of(cloud))
    return Coded(basis.codes, basis.nearest(events))
