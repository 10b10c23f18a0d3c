"""The basis: each standard event as a point, and the projection of phrases and atoms onto them.

A standard event is the centroid of the training phrases with its code, in the part of the space
that says which event it is (the verb's block of slots, everything of a sentence). A code that no
training phrase has stands where its own phrase stands. So every code of a level has its point, and
nothing is fitted on a day after the cutoff.

Projection goes through the finest codes and adds up: a root takes what its codes take. Nearest
centroids of roots are not good enough: a root that is spread over unlike codes loses the far ones
to its neighbours (90% of held-out phrases got their root back that way, all of them through the
finest codes), and the levels would contradict each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gdelphi.common.types import (
    WORLD,
    FloatArray,
    IntArray,
    Level,
    VectorArray,
)
from gdelphi.measures.clouds import Cloud, Coded
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import PhraseWeights, Points
from gdelphi.ot.sphere import unit


class Basis(NamedTuple):
    """The standard events of a level as points."""

    level: Level
    codes: tuple[str, ...]
    points: VectorArray
    """centroids, [code, event dimensions], of length 1"""
    finest: VectorArray
    """centroids of all codes that a row can carry, sorted by code, [finest, event dimensions]"""
    starts: IntArray
    """the first of the finest codes of each code, [code]"""

    def cosines(self, events: VectorArray) -> VectorArray:
        """Of the event parts of points [n, event dimensions] with each standard event, [n, code]:
        with the nearest of its finest codes.

        An atom is a mean of points, so its event part may be short: it is brought to length 1.
        """
        nearest: VectorArray = np.maximum.reduceat(self._finest(events), self.starts, axis=1)
        return nearest

    def nearest(self, events: VectorArray) -> IntArray:
        """Position of the nearest standard event, [n]; ties go to the smaller code."""
        places: IntArray = self.cosines(events).argmax(axis=1)
        return places

    def soft(self, events: VectorArray, temperature: float) -> FloatArray:
        """Soft assignment, [n, code], rows summing to 1: softmax of cosine / temperature over the
        finest codes, added up."""
        logits = self._finest(events).astype(np.float64) / temperature
        logits -= logits.max(axis=1, keepdims=True)
        masses = np.exp(logits)
        masses /= masses.sum(axis=1, keepdims=True)
        shares: FloatArray = np.add.reduceat(masses, self.starts, axis=1)
        return shares

    def _finest(self, events: VectorArray) -> VectorArray:
        cosines: VectorArray = unit(events) @ self.finest.T
        return cosines


def fit_basis(points: Points, phrases: PhraseWeights, level: Level) -> Basis:
    """The basis of a level from training phrases."""
    codes, finest = standard_events(level), standard_events("full")
    above = [getattr(lineage(code), level) for code in finest]
    starts = np.array([above.index(code) for code in codes], dtype=np.int64)
    trained = _training_points(points, phrases)
    return Basis(
        level,
        codes,
        _centroids(points, codes, level, trained),
        _centroids(points, finest, "full", trained),
        starts,
    )


class _Trained(NamedTuple):
    """Training phrases: event parts of length 1 [n, event dimensions], codes and weights [n]."""

    events: VectorArray
    codes: list[str]
    weights: FloatArray


def _centroids(
    points: Points, codes: Sequence[str], level: Level, trained: _Trained
) -> VectorArray:
    place = {code: number for number, code in enumerate(codes)}
    own = [place.get(getattr(lineage(code), level), -1) for code in trained.codes]
    member = np.array(own, dtype=np.int64)
    known = member >= 0
    sums = np.zeros((len(codes), trained.events.shape[1]))
    np.add.at(sums, member[known], trained.events[known] * trained.weights[known, None])
    lone = points.space.event_part(_bare(points, codes))
    seen = np.linalg.norm(sums, axis=1, keepdims=True) > 0
    return unit(np.where(seen, sums, lone).astype(np.float32))


def _training_points(points: Points, phrases: PhraseWeights) -> _Trained:
    if points.space.settings.layout == "slots":  # the verb alone decides: one point a code
        codes = sorted(phrases.codes)
        weights = np.array([phrases.codes[code] for code in codes])
        return _Trained(points.verbs(codes), codes, weights)
    keys = phrases.heaviest_sentences()
    weights = np.array([phrases.sentences[key] for key in keys])
    return _Trained(points.sentences(keys), [code for _, code, _, _ in keys], weights)


def _bare(points: Points, codes: Sequence[str]) -> VectorArray:
    """The points of the codes themselves: someone does it."""
    if points.space.settings.layout == "slots":
        return points.verbs(codes)
    return points.sentences([("", code, "", WORLD) for code in codes])


def project(points: Points, basis: Basis, cloud: Cloud) -> Coded:
    """The standard event that each point of a cloud is nearest to."""
    events = points.space.event_part(points.of(cloud))
    return Coded(basis.codes, basis.nearest(events))
