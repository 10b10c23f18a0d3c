"""Weights of the text forecaster's futures, under which they agree with what is published.

A text names the few largest things of a day, so it does not say whether an event occurs; it stands
for a probability of that (text/probabilities.py). The futures are weighed anew, as little as
possible, until the mean of these probabilities is what is published of *occurs*, *headline* and
*surge* of the roots: each softly, since a hundred texts cannot meet sixty numbers.
"""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray, Forecast, History
from gdelphi.forecast.future_weights import reweight
from gdelphi.text.compact import DayText
from gdelphi.text.forecaster import TextForecaster
from gdelphi.text.probabilities import TextReader, level_of

SOFT: Final = 0.3
"""ridge with which texts meet what is published. Much smaller ones meet it with a few of the texts:
the fair energy score, which takes them for independent draws, is then too kind (docs/LOG.md)."""


class WeightedTexts(NamedTuple):
    """Texts of a stream's next day."""

    texts: list[DayText]
    """those that name anything"""
    weights: FloatArray
    """[text], summing to 1"""
    likeliest: DayText
    """by the likeliest word at each place; it has no weight"""


def weigh_texts(
    text: TextForecaster, history: History, stream: int, forecast: Forecast
) -> WeightedTexts:
    """The futures of the stream at a place, weighed to agree with a forecast of its roots."""
    written = text.model.about(forecast.origin, stream)
    texts = [future for future in written.texts if future.phrases]
    weights = agreeing_weights(text.reader, history, stream, texts, forecast)
    return WeightedTexts(texts, weights, written.likeliest)


def agreeing_weights(
    reader: TextReader, history: History, stream: int, texts: list[DayText], forecast: Forecast
) -> FloatArray:
    """Weights of texts [text], summing to 1, under which they agree with a forecast of the roots as
    far as they can."""
    if not texts:
        return np.zeros(0)
    rates = reader.rates(history, forecast.origin)
    chances, _ = reader.of_texts(rates, stream, texts, level_of(forecast.codes))
    return reweight(
        np.concatenate([chances[target] for target in TARGETS], axis=1),
        np.concatenate([forecast.probability(target) for target in TARGETS]),
        np.full(len(texts), 1 / len(texts)),
        ridge=SOFT,
    ).weights
