"""The model's readings behind the interface of all forecasters."""

from dataclasses import replace

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import TARGETS, Forecaster
from gdelphi.forecast.members import (
    LearnedDays,
    Reading,
    model_members,
)
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.compare import leaks
from gdelphi.measures.profiles import Profiles
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["one_thread", "predictor", "settings"]

ORIGIN = day_at(75)


@pytest.fixture(scope="module")
def history(predictor: Predictor) -> Profiles:
    return predictor.history("root")


@pytest.fixture(scope="module")
def readings(predictor: Predictor) -> list[Forecaster]:
    return model_members(predictor.sampler, predictor.streams, "root")


def in_order(history: Profiles, order: list[int]) -> Profiles:
    """The same history with its streams in another order, or fewer of them."""
    return replace(
        history,
        streams=tuple(history.streams[number] for number in order),
        counts=history.counts[order],
        weights=history.weights[order],
        volume=history.volume[order],
    )


def test_days_weighed_by_the_model_say_what_the_network_says(
    predictor: Predictor, history: Profiles, readings: list[Forecaster]
) -> None:
    own = predictor.sampler.at(ORIGIN).readings["profiles"]
    for number, forecast in enumerate(readings[0].forecast(history, ORIGIN)):
        for place, target in enumerate(TARGETS):
            np.testing.assert_allclose(forecast.probability(target), own[number, place], atol=1e-5)


@pytest.mark.parametrize("number", range(3))
def test_readings_are_those_of_the_sampler(
    predictor: Predictor, history: Profiles, readings: list[Forecaster], number: int
) -> None:
    reading = readings[number]
    assert reading.name == ("profiles", "direct", "atoms")[number]
    forecasts = reading.forecast(history, ORIGIN)
    assert [forecast.stream for forecast in forecasts] == list(history.streams)
    assert {forecast.forecaster for forecast in forecasts} == {reading.name}
    own = predictor.sampler.at(ORIGIN).readings[reading.name]
    np.testing.assert_allclose([forecast.occurs for forecast in forecasts], own[:, 0], atol=1e-5)


@pytest.mark.parametrize("order", [[2, 0, 3, 1], [1]])
def test_streams_may_come_in_any_order_or_alone(
    predictor: Predictor, history: Profiles, readings: list[Forecaster], order: list[int]
) -> None:
    other = in_order(history, order)
    again = model_members(predictor.sampler, other.streams, "root")
    for reading, moved in zip(readings[1:], again[1:], strict=True):
        among = {forecast.stream: forecast for forecast in reading.forecast(history, ORIGIN)}
        for forecast in moved.forecast(other, ORIGIN):
            for target in TARGETS:
                np.testing.assert_array_equal(
                    forecast.probability(target), among[forecast.stream].probability(target)
                )
    kernel = {forecast.stream: forecast for forecast in readings[0].forecast(history, ORIGIN)}
    for forecast in again[0].forecast(other, ORIGIN):
        # Rates pooled over the streams that are there smooth it, so they are not the same bits.
        np.testing.assert_allclose(
            forecast.share_mean, kernel[forecast.stream].share_mean, atol=1e-12
        )


def test_no_reading_looks_ahead(history: Profiles, readings: list[Forecaster]) -> None:
    for reading in readings:
        assert not leaks(reading, history, ORIGIN)


def test_finer_levels_have_the_learned_days_alone(predictor: Predictor) -> None:
    members = model_members(predictor.sampler, predictor.streams, "full")
    assert [member.name for member in members] == ["profiles"]
    forecast = members[0].forecast(predictor.known_at("full", ORIGIN), ORIGIN)[0]
    assert len(forecast.occurs) == len(predictor.known_at("full", ORIGIN).codes)


def test_the_other_readings_speak_of_roots_only(predictor: Predictor) -> None:
    learned = LearnedDays(predictor.sampler, predictor.streams)
    with pytest.raises(ForecastError, match="direct speaks of the 20 roots only"):
        Reading("direct", predictor.sampler, learned).forecast(
            predictor.known_at("base", ORIGIN), ORIGIN
        )


def test_readings_of_tomorrow_are_not_asked_about_other_days(predictor: Predictor) -> None:
    history = predictor.known_at("root", ORIGIN)
    learned = LearnedDays(predictor.sampler, predictor.streams)
    with pytest.raises(ForecastError, match="direct speaks of tomorrow only"):
        Reading("direct", predictor.sampler, learned).forecast(history, ORIGIN, horizon=2)


def test_a_stream_that_was_not_trained_with_is_named(
    predictor: Predictor, history: Profiles
) -> None:
    strange = replace(history, streams=("XX", *history.streams[1:]))
    with pytest.raises(ForecastError, match="not asked about XX"):
        LearnedDays(predictor.sampler, strange.streams).forecast(strange, ORIGIN)


def test_shares_of_atoms_are_those_of_the_futures(
    predictor: Predictor, history: Profiles, readings: list[Forecaster]
) -> None:
    forecast = readings[2].forecast(history, ORIGIN)[1]
    assert forecast.share_samples.shape == (20, 20)
    np.testing.assert_allclose(
        forecast.share_samples, predictor.sampler.at(ORIGIN).futures.shares[1], atol=1e-6
    )
