"""Whether atoms of futures are moved is chosen on validation B, and kept with the model."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.progress import silent
from gdelphi.common.types import Measure
from gdelphi.forecast import calibrate as calibrate_module
from gdelphi.forecast.archive import FUTURES_FILE, model_fingerprint
from gdelphi.forecast.calibrate import choose_futures
from gdelphi.forecast.future_choice import read_future_choice
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import OriginForecasts, Predictor
from helpers.forecast_world import FUTURES, model, one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["model", "one_thread", "predictor", "settings"]

ORIGIN = day_at(70)


@pytest.fixture(scope="module")
def forecasts(predictor: Predictor) -> OriginForecasts:
    return predictor.forecasts_at(ORIGIN, ("root",))


def measures(futures: StreamFutures) -> list[Measure]:
    kept = []
    for points, weights in zip(futures.points, futures.weights, strict=True):
        kept.append(Measure(points[weights > 0], weights[weights > 0].astype(np.float64)))
    return kept


def test_drawn_atoms_are_those_of_the_drawn_days(
    predictor: Predictor, forecasts: OriginForecasts
) -> None:
    for place in range(len(predictor.streams)):
        futures = forecasts.futures(place, moved=False)
        for day, measure, exists in zip(
            futures.days, measures(futures), futures.exists, strict=True
        ):
            number = (day - predictor.pack.first_day).days
            expected = predictor.pack.atoms(number, place)
            assert exists == (len(expected.weights) > 0)
            order, own = np.argsort(-measure.weights), np.argsort(-expected.weights)
            np.testing.assert_allclose(
                measure.weights[order], expected.weights[own], atol=1e-6, rtol=0
            )
            if exists:  # else an empty day, here as there
                inner = np.einsum("nd,md->nm", measure.points, expected.points)
                np.testing.assert_allclose(inner.max(axis=1), 1, atol=1e-5)


def test_moved_futures_have_the_same_days_and_weights(forecasts: OriginForecasts) -> None:
    moved, drawn = (forecasts.futures(0, moved=choice) for choice in (True, False))
    assert moved.days == drawn.days
    np.testing.assert_array_equal(moved.reweighted.weights, drawn.reweighted.weights)
    assert not np.array_equal(moved.points, drawn.points)


@pytest.mark.parametrize("better", ["moved", "drawn"])
def test_the_better_is_kept_and_used(
    settings, model: Path, better: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The energy score itself is tested elsewhere: here it prefers one of the two."""
    opened = Predictor(settings, model, number=FUTURES)
    before = model_fingerprint(model)
    scored: list[StreamFutures] = []

    def score(futures: StreamFutures, outcome: Measure) -> float:
        scored.append(futures)
        drawn = bool(np.isin(futures.gates, (0, 1)).all())
        return 0.1 if drawn == (better == "drawn") else 0.2

    monkeypatch.setattr(calibrate_module, "_energy", score)
    choice = choose_futures(opened, silent, days=3)
    assert choice.atoms == better and min(choice.moved, choice.drawn) == pytest.approx(0.1)
    assert (choice.days, choice.futures) == (3, len(scored) // 2)
    assert read_future_choice(model) == choice
    assert model_fingerprint(model) != before or better == "moved"
    again = Predictor(settings, model, number=FUTURES)
    assert again.moves_atoms == (better == "moved")
    published = again.predict(ORIGIN)[0].futures
    expected = again.forecasts_at(ORIGIN, ("root",)).futures(0, moved=better == "moved")
    np.testing.assert_array_equal(published.points, expected.points)


def test_probabilities_do_not_depend_on_it(predictor: Predictor, settings, model: Path) -> None:
    scores = {"moved": 1.0, "drawn": 0.9, "days": 1, "futures": 1}
    (model / FUTURES_FILE).write_text(json.dumps({"atoms": "drawn", **scores}))
    other = Predictor(settings, model, number=FUTURES)
    for one, two in zip(predictor.predict(ORIGIN), other.predict(ORIGIN), strict=True):
        np.testing.assert_array_equal(one.levels.root.occurs, two.levels.root.occurs)
        np.testing.assert_array_equal(one.levels.full.headline, two.levels.full.headline)


def test_only_days_of_validation_b_are_looked_at(
    predictor: Predictor, model: Path, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Predictor(settings, model, number=FUTURES)
    origins = []
    plain = Predictor.forecasts_at

    def spied(self: Predictor, origin, *rest, **named):
        origins.append(origin)
        return plain(self, origin, *rest, **named)

    monkeypatch.setattr(Predictor, "forecasts_at", spied)
    choose_futures(opened, silent)
    known = set(opened.target_days("validation_b"))
    assert origins and {origin + timedelta(days=1) for origin in origins} <= known


def test_a_damaged_file_is_named_with_what_to_do(model: Path) -> None:
    (model / FUTURES_FILE).write_text("{")
    with pytest.raises(ForecastError, match=r"futures\.json cannot be read .*`gdelphi calibrate`"):
        read_future_choice(model)


def test_an_ensemble_without_atoms_has_no_score(forecasts: OriginForecasts) -> None:
    futures = forecasts.futures(0, moved=False)
    nothing = replace(futures, gates=np.zeros_like(futures.gates))
    outcome = Measure(np.eye(1, futures.points.shape[2], dtype=np.float32), np.ones(1))
    assert np.isnan(calibrate_module._energy(nothing, outcome))
