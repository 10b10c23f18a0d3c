"""Texts as measures: phrases lie where atoms of such names have lain."""

import dataclasses

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.space import Points
from gdelphi.text import measures
from gdelphi.text.compact import DayText
from gdelphi.text.data import TextData
from gdelphi.text.measures import TextPlacer, place_phrases
from helpers.text_world import data, settings

__all__ = ["data", "settings"]

DAY = 40


@pytest.fixture(scope="module")
def points(settings: Settings, data: TextData) -> Points:
    return Points(data.space, open_cache(settings))


def text_of(data: TextData, day: int, stream: int) -> DayText:
    phrases = data.descriptors.phrases(data.descriptors.descriptor(day, stream))
    return DayText(5, tuple(phrases), 0)


def test_the_text_of_a_past_day_lies_where_its_atoms_lie(
    points: Points, data: TextData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the one nearest name, which is the atom's own; later days are not known."""
    monkeypatch.setattr(measures, "ALIKE", 1)
    placer, text = TextPlacer(points, data.descriptors), text_of(data, DAY, 1)
    assert len({phrase[:3] for phrase in text.phrases}) == len(text.phrases)
    placed = placer.measure(text, 1, DAY)
    atoms = data.pack.atoms(DAY, 1)
    phrases = place_phrases(points, text.phrases)
    assert np.abs(phrases - atoms.points).max() > 0.05  # atoms do not lie at their names
    near = (placed.points * atoms.points).sum(axis=1)
    assert near.mean() > (phrases * atoms.points).sum(axis=1).mean()
    np.testing.assert_allclose(np.linalg.norm(placed.points, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(placed.weights, atoms.weights, atol=1e-6)


def test_nothing_behind_the_origin_is_looked_at(points: Points, data: TextData) -> None:
    text = text_of(data, 60, 1)
    before = TextPlacer(points, data.descriptors).measure(text, 1, DAY)
    places = data.descriptors.places.copy()
    later = data.descriptors.descriptor(DAY + 1, 0).start
    places[later:] = places[later:][::-1]
    garbled = dataclasses.replace(data.descriptors, places=places)
    after = TextPlacer(points, garbled).measure(text, 1, DAY)
    assert np.array_equal(before.points, after.points)
    known = TextPlacer(points, garbled).measure(text, 1, 60)
    assert not np.array_equal(before.points, known.points)


def test_a_text_without_phrases_is_empty(points: Points, data: TextData) -> None:
    empty = TextPlacer(points, data.descriptors).measure(DayText(1, (), 0), 0, DAY)
    assert empty.points.shape == (0, data.space.dimension) and not len(empty.weights)
