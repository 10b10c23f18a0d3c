"""The predictor: what is published about a day, and the futures that agree with it."""

from datetime import date

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import LEVELS, TARGETS, Level
from gdelphi.forecast.future_weights import TOLERANCE
from gdelphi.forecast.prediction import Prediction
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.phrases import lineage
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["one_thread", "predictor", "settings"]

ORIGIN = day_at(77)


@pytest.fixture(scope="module")
def predictions(predictor: Predictor) -> list[Prediction]:
    return predictor.predict(ORIGIN)


def test_there_is_a_prediction_for_each_stream_that_is_asked_for(predictor: Predictor) -> None:
    streams = [predictor.streams[2], predictor.streams[0]]
    predictions = predictor.predict(ORIGIN, streams)
    assert [prediction.stream for prediction in predictions] == streams
    assert all(prediction.target_day == day_at(78) for prediction in predictions)


def test_published_probabilities_are_the_weights_of_the_futures_where_they_are_met(
    predictions: list[Prediction],
) -> None:
    for prediction in predictions:
        reweighted = prediction.futures.reweighted
        counted = reweighted.weights @ prediction.futures.happens
        np.testing.assert_allclose(counted, reweighted.probabilities, atol=1e-12)
        published = prediction.levels.root.occurs
        assert reweighted.met.any()
        assert np.abs(counted - published)[reweighted.met].max() <= TOLERANCE


@pytest.mark.parametrize(("level", "above"), [("base", "root"), ("full", "base")])
def test_no_code_is_likelier_than_its_parent(
    predictions: list[Prediction], level: Level, above: Level
) -> None:
    for prediction in predictions:
        child, parent = prediction.level(level), prediction.level(above)
        of_parent = dict(zip(parent.codes, parent.occurs, strict=True))
        for code, probability in zip(child.codes, child.occurs, strict=True):
            assert probability <= of_parent[getattr(lineage(code), above)]


def same(one: Prediction, other: Prediction) -> None:
    """Equal in every number."""
    for level in LEVELS:
        left, right = one.level(level), other.level(level)
        for target in TARGETS:
            np.testing.assert_array_equal(left.probability(target), right.probability(target))
        np.testing.assert_array_equal(left.share_samples, right.share_samples)
        for name, forecast in one.members[level].items():
            np.testing.assert_array_equal(forecast.occurs, other.members[level][name].occurs)
    for name in ("points", "weights", "gates", "spare", "drawn_index", "happens", "lent"):
        np.testing.assert_array_equal(getattr(one.futures, name), getattr(other.futures, name))
    np.testing.assert_array_equal(one.futures.reweighted.weights, other.futures.reweighted.weights)
    assert one.futures.days == other.futures.days
    assert one.futures.donors == other.futures.donors
    assert one.brief == other.brief


def test_a_predictor_opened_again_predicts_the_same(
    predictor: Predictor, predictions: list[Prediction]
) -> None:
    again = Predictor(predictor.settings, predictor.folder, number=predictor.sampler.number)
    for one, other in zip(predictions, again.predict(ORIGIN), strict=True):
        same(one, other)


def test_a_stream_alone_is_as_among_all(
    predictor: Predictor, predictions: list[Prediction]
) -> None:
    for prediction in predictions:
        same(prediction, predictor.predict(ORIGIN, [prediction.stream])[0])


def test_another_seed_draws_other_futures_from_the_same_probabilities(
    predictor: Predictor, predictions: list[Prediction]
) -> None:
    other = Predictor(predictor.settings, predictor.folder, number=predictor.sampler.number, seed=1)
    prediction = other.predict(ORIGIN)[0]
    assert prediction.futures.days != predictions[0].futures.days
    mine, others = predictions[0].members["root"], prediction.members["root"]
    np.testing.assert_array_equal(mine["profiles"].occurs, others["profiles"].occurs)


def test_what_the_combination_adds_up_to_is_what_it_says(
    predictor: Predictor, predictions: list[Prediction]
) -> None:
    for level in LEVELS:
        publisher = predictor.publisher(level)
        for target in TARGETS:
            coefficients = publisher.combined.coefficients()[target]
            for prediction in predictions:
                contributions = prediction.contributions[level]["combined"][target]
                added = contributions.sum(axis=1) + coefficients["intercept"]
                history = predictor.known_at(level, ORIGIN)
                row = predictor.streams.index(prediction.stream)
                combined = publisher.combined.forecast(history, ORIGIN)[row].probability(target)
                np.testing.assert_allclose(1 / (1 + np.exp(-added)), combined, atol=1e-9)


def test_the_brief_is_a_few_phrases_with_no_more_than_the_share_of_their_root(
    predictions: list[Prediction],
) -> None:
    for prediction in predictions:
        weights = [atom.weight for atom in prediction.brief]
        assert 1 <= len(weights) <= 10
        assert 0 < sum(weights) <= 1 + 1e-9
        assert weights == sorted(weights, reverse=True)
        roots = prediction.level("root")
        for root, share in zip(roots.codes, roots.share_mean.tolist(), strict=True):
            own = [atom.weight for atom in prediction.brief if atom.phrase.code[:2] == root]
            assert sum(own) <= share + 1e-9


def test_bases_and_codes_look_back_on_days_up_to_the_origin(predictor: Predictor) -> None:
    for level in LEVELS[1:]:
        assert predictor.known_at(level, ORIGIN).days[-1] == ORIGIN


def test_a_stream_that_the_model_does_not_know_is_named(predictor: Predictor) -> None:
    with pytest.raises(ForecastError, match="does not know XX"):
        predictor.predict(ORIGIN, ["XX"])


def test_a_day_without_measures_is_no_origin(predictor: Predictor) -> None:
    with pytest.raises(ForecastError, match=r"no measures of 2030-01-01.*gdelphi embed"):
        predictor.predict(date(2030, 1, 1))


def test_the_table_has_a_row_for_every_code(predictions: list[Prediction]) -> None:
    table = predictions[0].table
    assert len(table) == sum(len(predictions[0].level(level).codes) for level in LEVELS)
    assert set(table["level"]) == set(LEVELS)
    assert predictions[0].samples.shape == (len(predictions[0].futures.days), 20)
