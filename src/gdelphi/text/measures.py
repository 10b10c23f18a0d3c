"""Texts as measures: the phrases of a text placed on the sphere, with its weights.

So textual futures are held against the day that came by the same distances as all others. A phrase
may be one that no day ever had; its parts are encoded then, once.
"""

from collections.abc import Sequence

import numpy as np

from gdelphi.common.types import Measure, VectorArray
from gdelphi.measures.space import Points
from gdelphi.text.compact import DayText, PhraseText


def place_phrases(points: Points, phrases: Sequence[PhraseText]) -> VectorArray:
    """The points of phrases, [phrase, dim]."""
    space = points.space
    if not phrases:
        return np.zeros((0, space.dimension), dtype=np.float32)
    first, code, second, _ = (tuple(column) for column in zip(*phrases, strict=True))
    return space.join([points.verbs(code), points.actors(first), points.actors(second)])


def measure_of(points: Points, text: DayText) -> Measure:
    """A text as a measure; empty where it has no phrases."""
    weights = np.array([phrase.weight for phrase in text.phrases], dtype=np.float64)
    return Measure(place_phrases(points, text.phrases), weights)
