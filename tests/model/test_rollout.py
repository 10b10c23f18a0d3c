"""Roll-out: futures beyond tomorrow are paths of days that were observed."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from gdelphi.common.types import TARGETS
from gdelphi.forecast.members import model_members
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.pack_arrays import PackArrays, read_pack_arrays
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.futures import random_numbers_for
from gdelphi.model.rollout import Rollout, RolloutDay
from gdelphi.model.sampler import Sampled, Sampler
from helpers.forecast_world import one_thread, predictor, settings
from helpers.measured_world import GONE, day_at

__all__ = ["one_thread", "predictor", "settings"]

END = 75
ORIGIN = day_at(END)


def rolling_of(sampler: Sampler, stream: int) -> Rollout:
    batch = sampler._maker.make(np.array([stream]), np.array([END]))
    return Rollout(
        sampler.model, sampler.arrays, sampler._table, batch, sampler._drawing,
        clouds=sampler.model.encode(batch.past).detach(),
    )  # fmt: skip


def paths(sampler: Sampler, stream: int, steps: int) -> list[RolloutDay]:
    """A roll-out of one stream, step by step."""
    rolling = rolling_of(sampler, stream)
    keys = [(sampler.streams[stream], ORIGIN)]
    with torch.no_grad():
        return [
            rolling.step(
                random_numbers_for(keys, sampler.number, sampler.seed, torch.device("cpu"), step)
            )
            for step in range(1, steps + 1)
        ]


def test_its_first_step_is_what_the_sampler_says_of_tomorrow(predictor: Predictor) -> None:
    tomorrow = predictor.sampler.at(ORIGIN)
    for stream in range(len(predictor.streams)):
        first = paths(predictor.sampler, stream, 1)[0]
        np.testing.assert_array_equal(first.drawn.days[:, 0], tomorrow.futures.days[stream])
        np.testing.assert_allclose(
            first.day_probabilities, tomorrow.day_probabilities[stream], atol=1e-6
        )
        np.testing.assert_allclose(first.futures.points, tomorrow.futures.points[stream], atol=1e-5)
        for name, values in first.readings.items():
            np.testing.assert_allclose(values, tomorrow.readings[name][stream], atol=1e-5)


def test_every_future_comes_from_a_day_that_was_known(predictor: Predictor) -> None:
    for step in paths(predictor.sampler, 0, 7):
        days = step.drawn.days.numpy()
        assert days.max() <= END
        assert not np.isin(days, GONE).any()


def test_the_mean_kernel_is_a_probability_over_days_up_to_the_origin(predictor: Predictor) -> None:
    for step in paths(predictor.sampler, 1, 7):
        assert float(step.day_probabilities.sum()) == pytest.approx(1, abs=1e-5)
        known = END - np.arange(len(step.day_probabilities))[::-1]
        assert (step.day_probabilities.numpy()[known < 0] == 0).all()
        assert (step.day_probabilities.numpy()[np.isin(known, GONE)] == 0).all()


def test_paths_go_apart(predictor: Predictor) -> None:
    """What follows depends on the day that a path drew: a mean context would say one thing."""
    sampler = Sampler(load_measure_model(predictor.folder), predictor.sampler.arrays, number=6)
    rolling = rolling_of(sampler, 0)
    random_numbers = random_numbers_for([(sampler.streams[0], ORIGIN)], 6, 0, torch.device("cpu"))
    with torch.no_grad():
        before = sampler.model(rolling.past, last=True, clouds=rolling.clouds).states[:, 0]
        rolling.step(random_numbers)
        after = sampler.model(rolling.past, last=True, clouds=rolling.clouds).states[:, 0]
    assert before.std(dim=0).max().item() == 0
    assert after.std(dim=0).max().item() > 1e-4


def test_a_day_that_was_drawn_is_the_last_that_its_path_knows(predictor: Predictor) -> None:
    sampler = predictor.sampler
    rolling = rolling_of(sampler, 2)
    weekday = int(rolling.past.weekday[0, -1])
    with torch.no_grad():
        found = rolling.step(
            random_numbers_for(
                [(sampler.streams[2], ORIGIN)], sampler.number, 0, torch.device("cpu")
            )
        )
    days = found.drawn.days[:, 0].numpy()
    np.testing.assert_allclose(
        rolling.past.features[:, -1], sampler.arrays.features[2, days], rtol=1e-6
    )
    np.testing.assert_array_equal(rolling.source[:, -1], days)
    assert (rolling.past.weekday[:, -1] == (weekday + 1) % 7).all()
    assert rolling.past.present[:, -1].all()


@pytest.fixture(scope="module")
def third(predictor: Predictor) -> Sampled:
    return predictor.sampler.at(ORIGIN, 3)


def test_a_sampler_that_looks_further_says_the_same(predictor: Predictor, third: Sampled) -> None:
    sampler = Sampler(
        load_measure_model(predictor.folder),
        read_pack_arrays(predictor.pack),
        number=20,
        furthest=5,
    )
    again = sampler.at(ORIGIN, 3)
    np.testing.assert_array_equal(again.day_probabilities, third.day_probabilities)
    np.testing.assert_array_equal(again.futures.days, third.futures.days)
    assert third.streams == predictor.streams


def test_nothing_after_the_origin_matters(predictor: Predictor, third: Sampled) -> None:
    random = np.random.default_rng(0)
    arrays = predictor.sampler.arrays
    changed = {}
    for field in fields(PackArrays):
        values = getattr(arrays, field.name)
        if field.name != "pack":
            values = values.copy()
            later = values[:, END + 1 :]
            values[:, END + 1 :] = random.permutation(later.ravel()).reshape(later.shape)
        changed[field.name] = values
    garbled = replace(arrays, **changed)
    found = Sampler(load_measure_model(predictor.folder), garbled, number=20).at(ORIGIN, 3)
    np.testing.assert_array_equal(found.day_probabilities, third.day_probabilities)
    for name, values in found.readings.items():
        np.testing.assert_array_equal(values, third.readings[name])


def test_members_speak_of_later_days(predictor: Predictor, third: Sampled) -> None:
    history = predictor.known_at("root", ORIGIN)
    for member in model_members(predictor.sampler, predictor.streams, "root"):
        said = member.forecast(history, ORIGIN, horizon=3)
        assert all(each.horizon == 3 for each in said)
        for number, each in enumerate(said):
            for place, target in enumerate(TARGETS):
                known = third.readings[member.name][number, place]
                tolerance = 0.05 if member.name == "profiles" else 1e-12
                np.testing.assert_allclose(each.probability(target), known, atol=tolerance)
