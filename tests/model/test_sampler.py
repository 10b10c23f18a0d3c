"""The sampler: what a model says at an origin, and that it knows nothing else."""

from dataclasses import fields, replace
from datetime import timedelta

import numpy as np
import pytest
import torch

from gdelphi.common.errors import ForecastError
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.pack_arrays import PackArrays, read_pack_arrays
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.sampler import (
    FutureArrays,
    Sampled,
    Sampler,
)
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import GONE, day_at

__all__ = ["one_thread", "predictor", "settings"]

END = 75
ORIGIN = day_at(END)


@pytest.fixture(scope="module")
def sampled(predictor: Predictor) -> Sampled:
    return predictor.sampler.at(ORIGIN)


def sampler_of(predictor: Predictor, arrays: PackArrays, **given: int) -> Sampler:
    return Sampler(load_measure_model(predictor.folder), arrays, **{"number": 20, **given})


def same(one: Sampled, other: Sampled) -> None:
    np.testing.assert_array_equal(one.day_probabilities, other.day_probabilities)
    for name, values in one.readings.items():
        np.testing.assert_array_equal(values, other.readings[name])
    np.testing.assert_array_equal(one.expected_rows, other.expected_rows)
    for name in FutureArrays._fields:
        np.testing.assert_array_equal(getattr(one.futures, name), getattr(other.futures, name))


def test_days_are_drawn_from_present_days_up_to_the_origin(sampled: Sampled) -> None:
    np.testing.assert_allclose(sampled.day_probabilities.sum(axis=1), 1, atol=1e-5)
    assert sampled.futures.days.max() <= END
    assert not np.isin(sampled.futures.days, GONE).any()


def test_futures_are_measures_on_the_sphere(sampled: Sampled) -> None:
    weights, points = sampled.futures.weights, sampled.futures.points
    there = weights > 0
    filled = there.any(axis=2)
    np.testing.assert_allclose(weights.sum(axis=2)[filled], 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(points[there], axis=1), 1, atol=1e-4)
    assert sampled.futures.gates.min() >= 0
    assert sampled.futures.gates.max() <= 1
    total = sampled.futures.shares.sum(axis=2)  # the probability that there is an atom at all
    assert 0 <= total.min() <= total.max() <= 1 + 1e-5


def test_readings_are_probabilities(sampled: Sampled) -> None:
    for values in sampled.readings.values():
        known = values[~np.isnan(values)]
        assert values.shape == (4, 3, 20)
        assert 0 < known.min() <= known.max() < 1


def test_a_sampler_opened_again_says_the_same(predictor: Predictor, sampled: Sampled) -> None:
    same(sampled, sampler_of(predictor, read_pack_arrays(predictor.pack)).at(ORIGIN))


def test_streams_in_small_portions_say_nearly_the_same(
    predictor: Predictor, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.model.sampler.STREAMS_AT_ONCE", 1)
    alone = sampler_of(predictor, read_pack_arrays(predictor.pack)).at(ORIGIN)
    assert alone.streams == sampled.streams
    np.testing.assert_array_equal(alone.futures.days, sampled.futures.days)
    for name, values in sampled.readings.items():
        np.testing.assert_allclose(values, alone.readings[name], atol=1e-5)
    np.testing.assert_allclose(alone.futures.points, sampled.futures.points, atol=1e-4)


def test_nothing_after_the_origin_matters(predictor: Predictor, sampled: Sampled) -> None:
    arrays = read_pack_arrays(predictor.pack)
    random = np.random.default_rng(0)
    changed = {}
    for each in fields(PackArrays):
        if each.name != "pack":
            values = getattr(arrays, each.name).copy()
            later = values[:, END + 1 :]
            later[...] = random.random(later.shape) < 0.5 if values.dtype == np.bool_ else 0.9
            changed[each.name] = values
    same(sampled, sampler_of(predictor, replace(arrays, **changed)).at(ORIGIN))


def test_another_seed_draws_other_days_and_leaves_the_readings_of_days(
    predictor: Predictor, sampled: Sampled
) -> None:
    other = sampler_of(predictor, read_pack_arrays(predictor.pack), seed=1).at(ORIGIN)
    assert (other.futures.days != sampled.futures.days).any()
    np.testing.assert_array_equal(other.readings["profiles"], sampled.readings["profiles"])


def test_more_futures_begin_with_the_same(predictor: Predictor, sampled: Sampled) -> None:
    more = sampler_of(predictor, read_pack_arrays(predictor.pack), number=30).at(ORIGIN)
    assert more.futures.days.shape == (4, 30)
    np.testing.assert_array_equal(more.futures.days[:, :20], sampled.futures.days)


def test_an_origin_outside_the_measures_is_refused(predictor: Predictor) -> None:
    for day in (
        predictor.pack.first_day - timedelta(days=1),
        predictor.sampler.last_day + timedelta(days=1),
    ):
        with pytest.raises(ForecastError, match=f"no measures of {day}"):
            predictor.sampler.at(day)


def test_the_first_day_is_an_origin_too(predictor: Predictor) -> None:
    found = predictor.sampler.at(predictor.pack.first_day)
    assert np.isfinite(found.readings["profiles"][:, :2]).all()
    assert (found.futures.days == 0).all()


def test_a_model_of_another_space_is_refused(predictor: Predictor) -> None:
    checkpoint = load_measure_model(predictor.folder)
    other = replace(checkpoint.space, fitted=checkpoint.space.fitted._replace(cutoff="2020-01-01"))
    with pytest.raises(ForecastError, match="speaks of the space"):
        Sampler(checkpoint._replace(space=other), read_pack_arrays(predictor.pack))


def test_encoded_clouds_are_those_of_the_whole_context(
    predictor: Predictor, sampled: Sampled
) -> None:
    """Kept day by day; the network itself encodes a context at once."""
    sampler = predictor.sampler
    batch = sampler._maker.make(np.arange(4), np.full(4, END))
    with torch.no_grad():
        said = sampler.model(batch.past)
    readings = {"profiles": said.profiles[:, -1], "direct": said.direct[:, -1]}
    for name, logits in readings.items():
        np.testing.assert_allclose(logits.sigmoid(), sampled.readings[name], atol=1e-5)


def test_days_before_the_first_are_empty_clouds(predictor: Predictor) -> None:
    first = predictor.sampler.at(day_at(0))
    assert not np.isnan(first.readings["direct"][:, :2]).any()
