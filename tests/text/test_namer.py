"""Naming: points become phrases, and what was never observed can be named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.measures.phrases import canonical, sentence
from gdelphi.text.forecaster_task import TextData
from gdelphi.text.namer import (
    Namer,
    agreement,
    blocks_of,
    nearest,
)
from gdelphi.text.namer_task import (
    NamingTask,
    held_out,
    make_actors,
    observed_phrases,
)
from gdelphi.text.tasks import make_task
from gdelphi.text.train import train_task
from helpers.measured_world import changed, measured
from helpers.text_world import ground, settings

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["ground", "settings"]


@pytest.fixture(scope="module")
def task(ground: TextData) -> NamingTask:
    text = {"namer_steps": 20, "batch": 2, "evaluate_every": 20, "width": 32, "inner": 32}
    return NamingTask(ground._replace(settings=changed(ground.settings, "text", **text)))


def test_held_out_phrases_are_nowhere_to_be_learned_from(task: NamingTask) -> None:
    assert len(task.others) > 20
    assert all(held_out(key) for key in task.slots.keys(task.others))
    assert not any(held_out(key) for key in task.slots.keys(task.observed))
    for seed in range(20):
        drawn = task._drawn(np.random.default_rng(seed))
        assert not any(held_out(key) for key in drawn.keys)


def test_phrases_lie_where_clouds_have_them(task: NamingTask, ground: TextData) -> None:
    slots, _ = ground.pack.cloud(40, 0)
    wanted = ground.pack.points(slots, ground.space)
    np.testing.assert_allclose(task.slots.points(slots.astype(np.int64)), wanted, atol=1e-6)


def test_observed_phrases_are_those_of_the_first_days(ground: TextData) -> None:
    found = {tuple(row) for row in observed_phrases(ground, 41).tolist()}
    assert {tuple(row) for row in ground.pack.cloud(40, 0)[0].tolist()} <= found
    assert len(found) < len(observed_phrases(ground, 79))


def test_every_word_of_every_phrase_is_known(task: NamingTask) -> None:
    unknown = task.vocabulary.number["<unk>"]
    assert not (task.labels(task.slots.keys(task.others)) == unknown).any()


def test_made_actors_are_canonical_and_the_same_ones_always() -> None:
    made = make_actors(50)
    assert len(set(made)) == 50 and made == make_actors(50)
    assert all(canonical(key) == key for key in made)


def test_a_namer_learns_and_is_loaded_again(task: NamingTask, tmp_path: Path) -> None:
    result = train_task(task, tmp_path / "namer")
    assert result.kind == "namer" and result.score < result.untrained
    namer = Namer.load(result.folder, task.ground.space)
    some = task.judged
    assert namer.words(some.points, some.weights) == namer.words(some.points, some.weights)
    assert "A namer" in (result.folder / "README.md").read_text()
    other = measured_in_sentences(task)
    with pytest.raises(TrainingError, match="names points of the space"):
        Namer.load(result.folder, other)


def measured_in_sentences(task: NamingTask):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    space = task.ground.space
    return replace(space, revision="another")


def test_a_namer_names_what_it_has_learned_by_heart(task: NamingTask) -> None:
    """Few phrases and many steps: the round trip is exact, through the grammar."""
    torch.manual_seed(0)
    model = task.model()
    some = task.phrases(task.observed[::40][:6], np.full(6, 0.3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(300):
        optimizer.zero_grad()
        loss, number = task._loss(model, some)
        (loss / number).backward()
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


def test_sentences_have_no_slots_to_name(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(TrainingError, match=r"measures\.layout = slots"):
        blocks_of(measured(tmp_path_factory, "sentence").space)


def test_tasks_have_names(settings: Settings) -> None:
    assert make_task(settings, "namer").kind == "namer"
    with pytest.raises(Exception, match="forecaster, namer"):
        make_task(settings, "poet")
