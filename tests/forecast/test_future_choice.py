"""How futures are made is chosen on validation B, and kept with the model."""

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
from gdelphi.forecast.future_weights import TOLERANCE
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import OriginForecasts, Predictor
from gdelphi.measures.targets import shares_of
from helpers.edited import edited
from helpers.forecast_world import FUTURES, model, one_thread, predictor, settings
from helpers.measured_world import day_at

__all__ = ["model", "one_thread", "predictor", "settings"]

ORIGIN = day_at(70)


@pytest.fixture(scope="module")
def forecasts(predictor: Predictor) -> OriginForecasts:
    return predictor.forecasts_at(ORIGIN, ("root",))


def test_both_ways_agree_with_what_is_published(forecasts: OriginForecasts) -> None:
    moved, recombined = (forecasts.futures(0, moved=choice) for choice in (True, False))
    assert not moved.lent.any() and moved.donors == moved.days
    assert recombined.lent.any() and recombined.donors != recombined.days
    published = forecasts.answers["root"]["published"][0].occurs
    for futures in (moved, recombined):
        counted = futures.reweighted.weights @ futures.happens
        met = futures.reweighted.met
        assert met.any() and np.abs(counted - published)[met].max() <= TOLERANCE


def test_atoms_are_of_the_day_that_their_root_comes_from(
    predictor: Predictor, forecasts: OriginForecasts
) -> None:
    pack, codes = predictor.pack, predictor.history("root").codes
    lent_atoms = 0
    for place in range(len(predictor.streams)):
        futures = forecasts.futures(place, moved=False)
        for number in range(len(futures.days)):
            kept: list[tuple[bytes, float, bool]] = []
            for day, of_donor in ((futures.days[number], False), (futures.donors[number], True)):
                position = (day - pack.first_day).days
                measure, phrases = (
                    pack.atoms(position, place),
                    pack.atom_phrases(position, place),
                )
                for point, weight, code in zip(*measure, phrases.code, strict=True):
                    if futures.lent[number, codes.index(code[:2])] == of_donor:
                        kept.append((point.tobytes(), float(weight), of_donor))
            atoms = futures.weights[number] > 0
            total = sum(weight for _, weight, _ in kept) or 1.0
            assert [point for point, _, _ in kept] == [
                point.tobytes() for point in futures.points[number][atoms]
            ]
            np.testing.assert_allclose(
                futures.weights[number][atoms], [weight / total for _, weight, _ in kept], atol=1e-6
            )
            assert futures.spare[number][atoms].tolist() == [lent for _, _, lent in kept]
            lent_atoms += int(futures.spare[number].sum())
    assert lent_atoms, "some atoms are lent"


def test_what_occurs_and_shares_are_of_the_day_that_each_root_comes_from(
    predictor: Predictor, forecasts: OriginForecasts
) -> None:
    history = predictor.history("root")
    for place in range(len(predictor.streams)):
        futures = forecasts.futures(place, moved=False)
        samples = forecasts.published(place, futures)["root"].share_samples
        weights = np.zeros(samples.shape)
        for root in range(len(history.codes)):
            days = [(day - history.days[0]).days for day in futures.days_of(root)]
            weights[:, root] = history.weights[place, days, root]
            np.testing.assert_array_equal(
                futures.happens[:, root], history.counts[place, days, root] > 0
            )
        np.testing.assert_allclose(samples, shares_of(weights))


def test_a_future_without_atoms_borrows_nothing(
    predictor: Predictor, forecasts: OriginForecasts
) -> None:
    for place in range(len(predictor.streams)):
        futures = forecasts.futures(place, moved=False)
        empty = ~(futures.weights > 0).any(axis=1)
        assert not futures.lent[empty].any()
        np.testing.assert_array_equal(futures.exists, ~empty)


@pytest.mark.parametrize("better", ["moved", "recombined"])
def test_the_better_is_kept_and_used(
    settings, model: Path, better: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The energy score itself is tested elsewhere: here it prefers one of the two."""
    opened = Predictor(settings, model, number=FUTURES)
    before = model_fingerprint(model)
    scored: list[StreamFutures] = []

    def score(futures: StreamFutures, outcome: Measure) -> float:
        scored.append(futures)
        return 0.1 if futures.lent.any() == (better == "recombined") else 0.2

    monkeypatch.setattr(calibrate_module, "_energy", score)
    choice = choose_futures(opened, silent, days=3)
    assert choice.way == better and min(choice.moved, choice.recombined) == pytest.approx(0.1)
    assert (choice.days, choice.futures) == (3, len(scored) // 2)
    assert read_future_choice(model) == choice
    assert model_fingerprint(model) != before or better == "recombined"
    again = Predictor(settings, model, number=FUTURES)
    assert again.moves_atoms == (better == "moved")
    published = again.predict(ORIGIN)[0].futures
    expected = again.forecasts_at(ORIGIN, ("root",)).futures(0, moved=better == "moved")
    np.testing.assert_array_equal(published.points, expected.points)


def test_probabilities_do_not_depend_on_it(predictor: Predictor, settings, model: Path) -> None:
    scores = {"moved": 0.9, "recombined": 1.0, "days": 1, "futures": 1}
    (edited(model) / FUTURES_FILE).write_text(json.dumps({"way": "moved", **scores}))
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


def test_a_choice_between_earlier_ways_is_none(settings, model: Path) -> None:
    earlier = {"atoms": "drawn", "moved": 1.0, "drawn": 0.9, "days": 1, "futures": 1}
    (edited(model) / FUTURES_FILE).write_text(json.dumps(earlier))
    assert read_future_choice(model) is None
    assert not Predictor(settings, model, number=FUTURES).moves_atoms


def test_a_damaged_file_is_named_with_what_to_do(model: Path) -> None:
    (model / FUTURES_FILE).write_text("{")
    with pytest.raises(ForecastError, match=r"futures\.json cannot be read .*`gdelphi calibrate`"):
        read_future_choice(model)


def test_an_ensemble_without_atoms_has_no_score(forecasts: OriginForecasts) -> None:
    futures = forecasts.futures(0, moved=False)
    nothing = replace(futures, gates=np.zeros_like(futures.gates))
    outcome = Measure(np.eye(1, futures.points.shape[2], dtype=np.float32), np.ones(1))
    assert np.isnan(calibrate_module._energy(nothing, outcome))
