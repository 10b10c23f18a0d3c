"""Days in words, as ROUGE compares them: phrases in English with weights that sum to 1."""

from collections.abc import Iterable, Sequence

import numpy as np

from gdelphi.common.types import FloatArray
from gdelphi.forecast.prediction import BriefAtom
from gdelphi.measures.pack import Pack
from gdelphi.measures.phrases import sentence
from gdelphi.measures.space import place_of
from gdelphi.scores.rouge import WeightedText
from gdelphi.text.compact import DayText


def in_words(phrases: Iterable[tuple[str, str, str]], stream: str) -> list[str]:
    """Phrases (actor 1, event code, actor 2) of a stream in English."""
    place = place_of(stream)
    return [sentence(*phrase, place) for phrase in phrases]


def text_of(
    phrases: Iterable[tuple[str, str, str]], weights: FloatArray, stream: str
) -> WeightedText:
    """Weighted phrases of a stream as a text."""
    return WeightedText(in_words(phrases, stream), normalised(weights))


def text_of_day(pack: Pack, day: int, place: int) -> WeightedText:
    """A stream's own text of a day, by their positions in the pack."""
    phrases = zip(*pack.atom_phrases(day, place), strict=True)
    return text_of(phrases, pack.atoms(day, place).weights, pack.facts.streams[place])


def text_of_brief(brief: Sequence[BriefAtom], stream: str) -> WeightedText:
    """An expected day as a text."""
    weights = np.array([atom.weight for atom in brief])
    return text_of((atom.phrase for atom in brief), weights, stream)


def text_of_written(day: DayText, stream: str) -> WeightedText:
    """What a text forecaster wrote, as a text."""
    weights = np.array([each.weight for each in day.phrases])
    return text_of(((x.actor1, x.code, x.actor2) for x in day.phrases), weights, stream)


def normalised(weights: FloatArray) -> FloatArray:
    """Weights over their sum; none stay none."""
    found: FloatArray = np.asarray(weights, dtype=np.float64)
    return found / found.sum() if len(found) else found
