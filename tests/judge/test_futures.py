"""Scores of whole futures against the day that came."""

import shutil
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.common.types import Measure
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.futures import (
    BRIEF,
    CLIMATOLOGY,
    DRAWN,
    RANDOM_DAYS,
    RECENCY,
    REWEIGHTED,
    TRANSPORTED,
    FutureJudge,
    future_table,
    text_can_be_scored,
)
from gdelphi.model.loop import Trained
from gdelphi.ot.energy import sliced_energy_score
from gdelphi.stack.baselines import RecencyBootstrap
from helpers.measured_world import DAYS, day_at
from helpers.training_world import settings, undisturbed

__all__ = ["settings", "undisturbed"]
pytestmark = pytest.mark.usefixtures("one_thread")

ORIGIN = day_at(DAYS - 3)
NUMBER = 8


@pytest.fixture(scope="module")
def predictor(
    settings: Settings, undisturbed: Trained, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    folder = tmp_path_factory.mktemp("futures") / "model"
    shutil.copytree(undisturbed.folder, folder)
    return Predictor(settings, folder, number=NUMBER)


def futures_at(predictor: Predictor, origin: date, *, moved: bool = True) -> list[StreamFutures]:
    sampled, history = predictor.sampler.at(origin), predictor.history("root")
    forecasts = (
        replace(forecast, occurs=np.full(20, 0.3))
        for forecast in RecencyBootstrap().forecast(history, origin)
    )
    return [
        predictor.make_futures(sampled, place, history, forecast, moved=moved)
        for place, forecast in enumerate(forecasts)
    ]


@pytest.fixture(scope="module")
def futures(predictor: Predictor) -> list[StreamFutures]:
    return futures_at(predictor, ORIGIN)


def scores_of(
    predictor: Predictor, futures: list[StreamFutures], *, text: bool = False
) -> dict[Any, Any]:
    scores = FutureJudge(predictor, text=text).day(ORIGIN, futures)
    return {(score.stream, score.ensemble): score for score in scores}


def outcome_of(predictor: Predictor, place: int) -> Measure:
    return predictor.pack.atoms(predictor.sampler.position(ORIGIN) + 1, place)


def members(future: StreamFutures) -> list[Measure]:
    kept = [
        (points[weights > 0], weights[weights > 0].astype(np.float64))
        for points, weights in zip(
            future.points[future.exists], future.weights[future.exists], strict=True
        )
    ]
    return [Measure(points, weights / weights.sum()) for points, weights in kept]


def test_energy_scores_are_those_of_each_ensemble_alone(
    predictor: Predictor, futures: list[StreamFutures]
) -> None:
    scores = scores_of(predictor, futures)
    for place, (stream, future) in enumerate(zip(predictor.streams, futures, strict=True)):
        outcome = outcome_of(predictor, place)
        if not len(outcome.weights):
            continue
        there = int(future.exists.sum())
        tilted = future.reweighted.weights[future.exists]
        equal = np.full(there, 1 / there)
        for name, weights in ((TRANSPORTED, equal), (REWEIGHTED, tilted / tilted.sum())):
            expected = sliced_energy_score(members(future), outcome, weights=weights)
            assert scores[stream, name].energy == pytest.approx(expected, abs=1e-7)
        days = [(day - predictor.pack.first_day).days for day in future.days]
        past = [predictor.pack.atoms(day, place) for day in days]
        past = [measure for measure in past if len(measure.weights)]
        alike = np.full(len(past), 1 / len(past))
        expected = sliced_energy_score(past, outcome, weights=alike)
        assert scores[stream, DRAWN].energy == pytest.approx(expected, abs=1e-7)
        assert scores[stream, DRAWN].members == len(past)


def test_recombined_futures_are_scored_beside_the_moved_ones(
    predictor: Predictor, futures: list[StreamFutures]
) -> None:
    recombined = futures_at(predictor, ORIGIN, moved=False)
    alone = scores_of(predictor, futures)
    scores = FutureJudge(predictor, text=False).day(ORIGIN, recombined, futures)
    for score in scores:
        place = predictor.streams.index(score.stream)
        if score.ensemble != REWEIGHTED:
            assert score.energy == pytest.approx(alone[score[:2]].energy, abs=1e-7)
            continue
        future = recombined[place]
        weights = future.reweighted.weights[future.exists]
        expected = sliced_energy_score(
            members(future), outcome_of(predictor, place), weights=weights / weights.sum()
        )
        assert score.energy == pytest.approx(expected, abs=1e-7)
        assert score.members == future.exists.sum()


def test_futures_that_are_the_day_that_came_have_no_error(
    predictor: Predictor, futures: list[StreamFutures]
) -> None:
    exact = []
    for place, future in enumerate(futures):
        outcome = outcome_of(predictor, place)
        points, weights = np.zeros_like(future.points), np.zeros_like(future.weights)
        points[:, : len(outcome.points)] = outcome.points
        weights[:, : len(outcome.weights)] = outcome.weights
        exact.append(replace(future, points=points, weights=weights))
    for score in FutureJudge(predictor, text=False).day(ORIGIN, exact):
        if score.ensemble in (TRANSPORTED, REWEIGHTED):
            assert score.energy == pytest.approx(0, abs=1e-6)
            assert score.sinkhorn == pytest.approx(0, abs=2e-3)
        else:
            assert score.energy > 0
            assert score.sinkhorn > 0.01


def test_days_without_atoms_are_left_out(predictor: Predictor) -> None:
    judge = FutureJudge(predictor, text=False)
    empty = [
        (day, place)
        for day in range(DAYS - 10, DAYS)
        for place in range(len(predictor.streams))
        if predictor.pack.present[day] and not len(predictor.pack.atoms(day, place).weights)
    ]
    assert empty, "the world has empty days"
    day, place = empty[-1]
    origin = predictor.sequences.day(day - 1)
    scores = judge.day(origin, futures_at(predictor, origin))
    assert predictor.streams[place] not in {score.stream for score in scores}
    last = predictor.sampler.last_day
    assert judge.day(last, futures_at(predictor, last)) == [], "the day after the last has not come"


def test_references_draw_past_days_that_have_atoms(
    predictor: Predictor, futures: list[StreamFutures]
) -> None:
    """Also where the kernel would draw missing and empty days."""
    judge = FutureJudge(predictor, text=False)
    end = predictor.sampler.position(ORIGIN)
    kernel = judge._recency(ORIGIN)
    assert kernel.shape == (end + 1,)
    assert kernel.sum() == pytest.approx(1)
    for place, future in enumerate(futures):
        drawn = judge._drawn_days(place, end, future, kernel)
        assert set(drawn) == {DRAWN, RECENCY, CLIMATOLOGY}
        for days in drawn.values():
            assert days.max() <= end
            assert all(len(predictor.pack.atoms(int(day), place).weights) for day in days)


def test_the_same_scores_whatever_else_is_asked(
    predictor: Predictor, futures: list[StreamFutures]
) -> None:
    first = FutureJudge(predictor, text=False).day(ORIGIN, futures)
    judge = FutureJudge(predictor, text=False)
    before = ORIGIN - timedelta(days=1)
    judge.day(before, futures_at(predictor, before))
    again = judge.day(ORIGIN, futures)
    assert str(future_table(again).to_pydict()) == str(future_table(first).to_pydict())


@pytest.mark.skipif(not text_can_be_scored(), reason="rouge-score or POT is not installed")
def test_words_are_compared_too(predictor: Predictor, futures: list[StreamFutures]) -> None:
    scores = scores_of(predictor, futures, text=True)
    for (_, ensemble), score in scores.items():
        if ensemble in (REWEIGHTED, BRIEF, RANDOM_DAYS):
            assert 0 < score.rouge.two <= score.rouge.one <= 1
        else:
            assert np.isnan(score.rouge.one)
    assert {ensemble for _, ensemble in scores} >= {BRIEF, RANDOM_DAYS}
