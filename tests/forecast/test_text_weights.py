"""Weights of texts: they agree with what is published, as far as texts can."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from gdelphi.common.types import Forecast
from gdelphi.forecast.text_weights import weigh_texts
from gdelphi.measures.profiles import Profiles
from gdelphi.text.compact import DayText, PhraseText
from gdelphi.text.data import TextData
from gdelphi.text.forecaster import StreamTexts, TextForecaster
from gdelphi.text.probabilities import TextReader
from helpers.measured_world import day_at
from helpers.text_world import data, settings

__all__ = ["data", "settings"]

ORIGIN = day_at(70)
EMPTY = DayText(3, (), 0)


class GivenTexts:
    """In place of a model: texts that are given."""

    def __init__(self, texts: list[DayText]) -> None:
        self.texts = texts

    def about(self, _: Any, __: int) -> StreamTexts:
        return StreamTexts(self.texts, ["" for _ in self.texts], EMPTY)


def text_of(*codes: str) -> DayText:
    phrases = tuple(PhraseText("", code, "", 1 / len(codes)) for code in codes)
    return DayText(5, phrases, 0)


@pytest.fixture
def history(data: TextData) -> Profiles:
    return data.pack.profiles


def forecaster_of(data: TextData, texts: list[DayText]) -> TextForecaster:
    return TextForecaster(cast(Any, GivenTexts(texts)), TextReader(data.descriptors))


def published(forecaster: TextForecaster, history: Profiles) -> Forecast:
    return forecaster.tomorrow(history, ORIGIN, [0])[0]


def test_texts_of_what_is_published_weigh_more(data: TextData, history: Profiles) -> None:
    texts = [text_of("010"), text_of("190"), text_of("010", "190"), text_of("040")]
    forecaster = forecaster_of(data, texts)
    before = published(forecaster, history)
    root = history.codes.index("19")
    headline = before.headline.copy()
    headline[root] = 0.95
    wanted = replace(before, headline=headline)
    weights = weigh_texts(forecaster, history, 0, wanted).weights
    assert weights.sum() == pytest.approx(1)
    assert min(weights[1], weights[2]) > 1 / 4 > max(weights[0], weights[3])
    rates = forecaster.reader.rates(history, ORIGIN)
    chances, _ = forecaster.reader.of_texts(rates, 0, texts, "root")
    under_weights = weights @ chances["headline"][:, root]
    assert before.headline[root] < under_weights < 0.95  # softly


def test_a_forecast_that_texts_agree_with_changes_nothing(
    data: TextData, history: Profiles
) -> None:
    texts = [text_of("010"), text_of("190"), text_of("040", "190")]
    forecaster = forecaster_of(data, texts)
    said = published(forecaster, history)
    weights = weigh_texts(forecaster, history, 0, said).weights
    np.testing.assert_allclose(weights, 1 / 3, atol=1e-6)


def test_texts_that_name_nothing_have_no_weight(data: TextData, history: Profiles) -> None:
    texts = [EMPTY, text_of("010"), EMPTY, text_of("040")]
    forecaster = forecaster_of(data, texts)
    weighed = weigh_texts(forecaster, history, 0, published(forecaster, history))
    assert weighed.texts == [texts[1], texts[3]] and len(weighed.weights) == 2
    silent = forecaster_of(data, [EMPTY, EMPTY])
    weighed = weigh_texts(silent, history, 0, published(silent, history))
    assert weighed.texts == [] and not len(weighed.weights) and weighed.likeliest == EMPTY
