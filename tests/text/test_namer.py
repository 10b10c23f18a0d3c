"""Naming: points become phrases, and what was never observed can be named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.measures.phrases import canonical, sentence
from gdelphi.text.data import TextData
from gdelphi.text.namer import (
    Namer,
    agreement,
    nearest,
)
from gdelphi.text.namer_task import (
    NamerTask,
    held_out,
    make_actors,
    observed_phrases,
)
from gdelphi.text.train import train_text_model
from helpers.measured_world import changed
from helpers.text_world import data, settings, train_here

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["data", "settings"]


@pytest.fixture(scope="module")
def task(data: TextData) -> NamerTask:
    text = {"namer_steps": 20, "batch": 2, "evaluate_every": 20, "width": 32, "inner": 32}
    chosen = data._replace(settings=changed(data.settings, "text", **text))
    return NamerTask(chosen, made_actors=20)


def test_held_out_phrases_are_nowhere_to_be_learned_from(task: NamerTask) -> None:
    assert len(task.others) > 20
    assert all(held_out(key) for key in task.slots.keys(task.others))
    assert not any(held_out(key) for key in task.slots.keys(task.observed))
    for seed in range(20):
        drawn = task.draw(np.random.default_rng(seed), 16)
        assert not any(held_out(key) for key in drawn.keys)


def test_phrases_lie_where_clouds_have_them(task: NamerTask, data: TextData) -> None:
    slots, _ = data.pack.cloud(40, 0)
    wanted = data.pack.points(slots, data.space)
    np.testing.assert_allclose(task.slots.points(slots.astype(np.int64)), wanted, atol=1e-6)


def test_observed_phrases_are_those_of_the_first_days(data: TextData) -> None:
    found = {tuple(row) for row in observed_phrases(data, 41).tolist()}
    assert {tuple(row) for row in data.pack.cloud(40, 0)[0].tolist()} <= found
    assert len(found) < len(observed_phrases(data, 79))


def test_every_word_of_every_phrase_is_known(task: NamerTask) -> None:
    unknown = task.vocabulary.number["<unk>"]
    assert not (task.labels(task.slots.keys(task.others)) == unknown).any()


def test_made_actors_are_canonical_and_the_same_ones_always() -> None:
    made = make_actors(50)
    assert len(set(made)) == 50 and made == make_actors(50)
    assert all(canonical(key) == key for key in made)


def test_a_namer_learns_and_is_loaded_again(task: NamerTask, tmp_path: Path) -> None:
    result = train_here(task, tmp_path / "namer")
    assert result.kind == "namer" and result.score < result.untrained
    namer = Namer.load(result.folder, task.data.space)
    some = task.evaluated
    assert namer.words(some.points, some.weights) == namer.words(some.points, some.weights)
    assert "A namer" in (result.folder / "README.md").read_text()
    with pytest.raises(TrainingError, match="names points of the space"):
        Namer.load(result.folder, replace(task.data.space, revision="another"))


@pytest.mark.slow
def test_a_namer_names_what_it_has_learned_by_heart(task: NamerTask) -> None:
    """Few phrases and many steps: the round trip is exact, through the grammar."""
    torch.manual_seed(0)
    model = task.model()
    some = task.phrases(task.observed[::40][:6], np.full(6, 0.3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(300):
        optimizer.zero_grad()
        task.loss(model, (some, task.labels(some.keys))).total.backward()
        optimizer.step()
    namer = Namer(model, task.vocabulary)  # type: ignore[arg-type]
    assert namer.words(some.points, some.weights) == [sentence(*key) for key in some.keys]
    named = [None if found is None else found[:3] for found in namer.name(*some[:2])]
    assert agreement(named, some.keys).whole == 1


def test_agreement_of_names() -> None:
    right = [("KEN|||||COP", "141", "UGA"), ("USA", "010", ""), ("KEN", "193", "UGA")]
    named = [("KEN|||||MIL", "145", "UGA"), ("USA", "010", ""), None]
    found = agreement(named, right, frozenset({right[1]}))
    third = pytest.approx(1 / 3)
    assert (found.event, found.root, found.roles, found.countries) == (
        third, pytest.approx(2 / 3), third, pytest.approx(2 / 3)
    )  # fmt: skip
    assert (found.whole, found.unreadable, found.new) == (third, third, 0)
    assert agreement(named, right).new == third


def test_the_nearest_observed_point_is_found() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(600, 4)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert nearest(points, points).tolist() == list(range(600))


def test_text_models_are_trained_by_their_name(settings: Settings, tmp_path: Path) -> None:
    short = changed(settings, "text", namer_steps=1, steps=1)
    for kind in ("forecaster", "namer"):
        assert train_text_model(short, kind, tmp_path / kind).kind == kind
    with pytest.raises(ConfigError, match="no text model is called 'poet': forecaster, namer"):
        train_text_model(settings, "poet", tmp_path / "poet")
