"""Texts as measures: the phrases of a text placed on the sphere, with its weights.

So textual futures are held against the day that came by the same distances as all others. A phrase
of a text stands for an atom of a day, and an atom is the mean of many phrases: it does not lie
where the one phrase lies that it is called by. A phrase is therefore moved by as much as atoms of
past days with like names lie off their names, in the mean. Random past days, written as texts, lose
3.3% of their energy score where phrases are not moved, and nothing where they are (the default
simulated world, validation B). It may be a phrase that no day ever had; its parts are encoded then,
once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import Measure, VectorArray
from gdelphi.measures.space import Points
from gdelphi.ot.sphere import unit
from gdelphi.text.compact import DayText, PhraseText
from gdelphi.text.corpus import PackDescriptors

YEAR: Final = 365
ALIKE: Final = 10  # atoms whose names are nearest to a phrase
KEPT: Final = 64  # streams whose last year is remembered


def place_phrases(points: Points, phrases: Sequence[PhraseText]) -> VectorArray:
    """The points of phrases, [phrase, dim]."""
    space = points.space
    if not phrases:
        return np.zeros((0, space.dimension), dtype=np.float32)
    first, code, second, _ = (tuple(column) for column in zip(*phrases, strict=True))
    return space.join([points.verbs(code), points.actors(first), points.actors(second)])


class PastAtoms(NamedTuple):
    """Atoms of past days by what they are called."""

    names: VectorArray
    """points of their phrases, [atom, dim]"""
    moves: VectorArray
    """from there to the atoms, [atom, dim]"""


class TextPlacer:
    """Makes measures of texts about the streams of a pack."""

    def __init__(self, points: Points, descriptors: PackDescriptors) -> None:
        self._points, self._descriptors = points, descriptors
        self._last_year = lru_cache(KEPT)(self._read_last_year)

    def measure(self, text: DayText, stream: int, end: int) -> Measure:
        """A text about the day after `end`, by its position in the pack; empty where the text has
        no phrases. Nothing behind `end` is looked at."""
        weights = np.array([phrase.weight for phrase in text.phrases], dtype=np.float64)
        points = place_phrases(self._points, text.phrases)
        past = self._last_year(stream, end)
        if not len(points) or not len(past.names):
            return Measure(points, weights)
        nearness = points @ past.names.T
        alike = np.argsort(-nearness, axis=1, kind="stable")[:, :ALIKE]
        return Measure(unit(points + past.moves[alike].mean(axis=1)), weights)

    def _read_last_year(self, stream: int, end: int) -> PastAtoms:
        """The atoms of a stream's last year up to a day."""
        descriptors = self._descriptors
        days = range(max(end + 1 - YEAR, 0), end + 1)
        slices = [descriptors.descriptor(day, stream) for day in days]
        names = place_phrases(
            self._points, [phrase for atoms in slices for phrase in descriptors.phrases(atoms)]
        )
        rows = np.concatenate([np.arange(atoms.start, atoms.stop) for atoms in slices])
        return PastAtoms(names, descriptors.pack.atom_columns()[0][rows] - names)
