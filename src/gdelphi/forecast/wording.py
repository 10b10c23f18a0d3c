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


def english_phrases(phrases: Iterable[tuple[str, str, str]], stream: str) -> list[str]:
    """Phrases (actor 1, event code, actor 2) of a stream as English sentences."""
    place = place_of(stream)
    return [sentence(*phrase, place) for phrase in phrases]


def weighted_text(
    phrases: Iterable[tuple[str, str, str]], weights: FloatArray, stream: str
) -> WeightedText:
    """Weighted phrases of a stream as a text."""
    return WeightedText(english_phrases(phrases, stream), normalise(weights))


def day_text(pack: Pack, day: int, place: int) -> WeightedText:
    """A stream's own text of a day, by their positions in the pack."""
    phrases = zip(*pack.atom_phrases(day, place), strict=True)
    return weighted_text(phrases, pack.atoms(day, place).weights, pack.facts.streams[place])


def brief_text(brief: Sequence[BriefAtom], stream: str) -> WeightedText:
    """An expected day as a text."""
    weights = np.array([atom.weight for atom in brief])
    return weighted_text((atom.phrase for atom in brief), weights, stream)


def written_text(day: DayText, stream: str) -> WeightedText:
    """What a text forecaster wrote, as a text."""
    weights = np.array([phrase.weight for phrase in day.phrases])
    phrases = ((phrase.actor1, phrase.code, phrase.actor2) for phrase in day.phrases)
    return weighted_text(phrases, weights, stream)


def normalise(weights: FloatArray) -> FloatArray:
    """Weights over their sum; none stay none."""
    values: FloatArray = np.asarray(weights, dtype=np.float64)
    return values / values.sum() if len(values) else values
