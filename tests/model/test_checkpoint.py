"""Checkpoints: what is written can be read again, and what does not fit is refused in words."""

import ast
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gdelphi.common import files
from gdelphi.common.errors import MeasuresError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.model import checkpoint
from gdelphi.model.checkpoint import (
    ModelFolder,
    TrainingRecord,
    differences,
    load_measure_model,
    read_metrics,
)
from gdelphi.model.loop import Trained
from gdelphi.model.network import MeasureModel
from gdelphi.model.train import train
from helpers.edited import edited, flip_bit
from helpers.measured_world import changed
from helpers.training_world import one_thread, small_settings

__all__ = ["one_thread"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_settings(tmp_path_factory, steps=10, evaluate_every=5)


@pytest.fixture(scope="module")
def trained(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    torch.set_num_threads(1)
    return train(settings, tmp_path_factory.mktemp("checkpoint") / "model")


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(trained.folder, tmp_path / "model"))


def test_a_model_is_read_as_it_was_written(trained: Trained, settings: Settings) -> None:
    model, space, training = load_measure_model(trained.folder)
    assert not model.training
    assert model.config.context_days == settings.sequences.context_days
    assert space.fingerprint == training["origin"]["space"]
    assert training["best_score"] == trained.score
    assert [each["step"] for each in training["history"]] == [0, 5, 10]
    assert training["origin"]["pack"]["streams"] == ["TZ", "ET", "UG", "KE"]
    other = MeasureModel.from_pretrained(trained.folder)
    for name, each in other.state_dict().items():
        assert torch.equal(each, model.state_dict()[name]), name


def test_sizes_are_written_even_where_they_are_defaults(trained: Trained) -> None:
    said = json.loads((trained.folder / "config.json").read_text())
    assert {"dimension", "features", "codes", "lag_days", "half_lives"} <= said.keys()
    assert said["architectures"] == ["MeasureModel"]


def test_the_card_says_what_was_measured(trained: Trained) -> None:
    card = (trained.folder / "README.md").read_text()
    best = json.loads((trained.folder / "training.json").read_text())
    history = {each["step"]: each for each in best["history"]}
    for step in (0, trained.best_step):
        assert f"{history[step]['log_loss']['direct']['occurs']:.4f}" in card
        assert f"{history[step]['brier']['profiles']['headline']:.4f}" in card
    assert f"{trained.best_step} of 10" in card
    assert "TZ, ET, UG, KE" in card
    assert "2021-01-04 to 2021-02-20" in card


def test_nothing_is_pickled(trained: Trained) -> None:
    files = [path for path in trained.folder.rglob("*") if path.is_file()]
    suffixes = {path.suffix for path in files if path.name != "checksums.txt"}
    assert suffixes <= {".safetensors", ".json", ".jsonl", ".md", ""}
    for path in files:
        assert not path.read_bytes().startswith((b"PK", b"\x80")), path
    for path in sorted((ROOT / "src" / "gdelphi" / "model").glob("*.py")):
        source = path.read_text()
        called = {ast.unparse(node) for node in ast.walk(ast.parse(source))
                  if isinstance(node, ast.Attribute | ast.alias)}  # fmt: skip
        assert not called & {"torch.save", "torch.load", "pickle", "broadcast_object_list"}


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("train", {"width": 12}, "train.width is 8 there and 12 now"),
        ("train", {"steps": 20}, "train.steps is 10 there and 20 now"),
        ("sequences", {"memory_days": 31}, "sequences.memory_days is 30 there and 31 now"),
        ("split", {"validation_a": 0.12}, "validation_a is 2021-02-23, 2021-02-28 there and"),
    ],
)  # fmt: skip
def test_a_run_of_another_origin_is_refused(
    settings: Settings, trained: Trained, section: str, values: dict[str, object], said: str
) -> None:
    with pytest.raises(TrainingError, match=re.escape(said)) as refused:
        train(changed(settings, section, **values), trained.folder)
    assert "another --out, or --fresh" in str(refused.value)


def test_afresh_another_origin_takes_the_place(settings: Settings, copied: Path) -> None:
    train(changed(settings, "train", seed=4, steps=5), copied, resume=False)
    said = load_measure_model(copied).training
    assert (said["step"], said["origin"]["train"]["seed"]) == (5, 4)
    assert max(line["step"] for line in read_metrics(copied)) == 5


def test_what_does_not_change_the_result_may_differ() -> None:
    one = {"train": {"seed": 1, "log_every": 5, "device": "cpu"}, "space": "a"}
    other = {"train": {"seed": 1, "log_every": 7, "device": "cuda"}, "space": "a"}
    assert differences(one, other) == []


def test_what_differs_is_named() -> None:
    one = {"train": {"seed": 1}, "space": "a", "pack": {"streams": ["KE", "UP"]}}
    other = {"train": {"seed": 1, "new": 3}, "space": "b", "pack": {"streams": ["KE"] * 30}}
    assert differences(one, other) == [
        "pack.streams is KE, UP there and KE, KE, KE, KE, KE, KE, KE, KE, KE, K... now",
        "space is a there and b now",
        "train.new is None there and 3 now",
    ]


def test_a_model_without_a_checkpoint_is_not_trained_over(settings: Settings, copied: Path) -> None:
    shutil.rmtree(copied / "state")
    assert load_measure_model(copied).training["step"] == 10
    with pytest.raises(TrainingError, match=r"holds a model, but no checkpoint .* --fresh"):
        train(settings, copied)


def test_damage_is_named(settings: Settings, copied: Path) -> None:
    state = copied / "state" / "run.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(TrainingError, match=r"run.safetensors cannot be read .* --fresh"):
        train(settings, copied)
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(TrainingError, match=r"cannot be read .* --fresh"):
        load_measure_model(copied)
    with pytest.raises(TrainingError, match=r"no model in .*gdelphi train --out"):
        load_measure_model(copied / "nowhere")


def test_a_model_of_an_older_format_is_to_be_trained_again(
    settings: Settings, copied: Path
) -> None:
    path = copied / "training.json"
    training = json.loads(path.read_text())
    assert training["format"] == checkpoint.FORMAT == 2
    path.write_text(json.dumps({**training, "format": 1}))
    with pytest.raises(TrainingError, match=r"format 1, this one reads 2\): train it again with"):
        load_measure_model(copied)
    state = copied / "state" / "run.safetensors"
    with safe_open(state, "pt") as file:
        header = {key: value for key, value in file.metadata().items() if key != "format"}
    save_file(load_file(state), state, metadata=header)
    with pytest.raises(TrainingError, match=r"format 1, this one reads 2\): start anew"):
        train(settings, copied)
    assert train(settings, copied, resume=False).steps == 10


def test_what_the_model_is_used_with_is_there_though_a_run_was_killed_before_it_was_written(
    settings: Settings, copied: Path
) -> None:
    shutil.rmtree(copied / "space")
    train(settings, copied)
    assert load_measure_model(copied).training["step"] == 10


def test_files_of_two_models_are_noticed(copied: Path) -> None:
    path = copied / "training.json"
    said = json.loads(path.read_text())
    said["origin"]["space"] = "0" * 16
    path.write_text(json.dumps(said))
    edited(copied)
    with pytest.raises(TrainingError, match="files of two models are mixed"):
        load_measure_model(copied)


def test_two_trainings_do_not_write_to_one_folder(settings: Settings, copied: Path) -> None:
    refused = pytest.raises(TrainingError, match="another training is writing to")
    with ModelFolder(copied, {}).alone(), refused:
        train(settings, copied)
    assert train(settings, copied).steps == 10


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, {})
    for step in (5, 10, 15):
        folder.log({"step": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2')
    assert [line["step"] for line in read_metrics(tmp_path)] == [5, 10, 15]
    folder.forget_after(10)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 5}\n{"step": 10}\n'


def test_a_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ModelFolder(tmp_path, {"a": 1})
    folder.save_checkpoint({"x": torch.ones(3)}, TrainingRecord(step=1))

    def fails(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "save_file", fails)
    with pytest.raises(OSError, match="no space left"):
        folder.save_checkpoint({"x": torch.zeros(3)}, TrainingRecord(step=2))
    found = folder.load_checkpoint()
    assert found is not None
    assert (found[0]["x"].tolist(), found[1].step) == ([1, 1, 1], 1)


class Killed(Exception):
    """In place of a signal that nothing can catch."""


def test_a_run_that_is_killed_anywhere_leaves_a_whole_model_or_none(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that a training puts in place, and a kill before each of them."""
    note, reached = files.note_file, 0

    def killed_at(number: int, folder: Path) -> Callable[[Path, Path], None]:
        left = number

        def note_or_die(place: Path, content: Path) -> None:
            nonlocal left, reached
            left -= place.is_relative_to(folder)  # what is fitted beside it is kept elsewhere
            if left < 0:
                raise Killed
            reached = max(reached, number - left)
            note(place, content)

        return note_or_die

    short = changed(settings, "train", steps=4, evaluate_every=2, save_every=2)
    for number in (0, 1, 2, *range(3, 42, 3)):  # the first three are close to one another
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setattr(files, "note_file", killed_at(number, folder))
            try:
                train(short, folder)
                break
            except Killed:
                pass
        if (folder / "state" / "run.safetensors").exists():
            assert (folder / "space" / "space.json").exists(), "the space comes before the state"
        try:
            load_measure_model(folder)
        except TrainingError:
            assert train(short, folder).steps == 4, "it goes on where it was"
            load_measure_model(folder)
    else:
        raise AssertionError("no run came to its end")
    assert reached > 10


def test_weights_of_which_training_json_does_not_know_are_no_model(copied: Path) -> None:
    path = copied / "model.safetensors"
    tensors = {name: tensor + 1 for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    (copied / "checksums.txt").unlink()
    with pytest.raises(TrainingError, match=r"training\.json is of other weights"):
        load_measure_model(copied)


def test_a_flipped_bit_anywhere_in_a_model_is_refused_by_name(copied: Path) -> None:
    load_measure_model(copied)
    for name in ("model.safetensors", "config.json", "training.json", "space/space.safetensors"):
        content = (copied / name).read_bytes()
        flip_bit(copied / name, len(content) // 2)
        with pytest.raises((TrainingError, MeasuresError), match=re.escape(Path(name).name)):
            load_measure_model(copied)
        (copied / name).write_bytes(content)
    load_measure_model(edited(copied))  # one of before there were checksums
