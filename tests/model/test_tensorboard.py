"""Metrics for TensorBoard: the same numbers as metrics.jsonl, once each."""

import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.model.checkpoint import ModelFolder, read_metrics
from gdelphi.model.tensorboard import (
    TensorBoardWriter,
    numbers_of,
    summary_writer,
)
from gdelphi.model.train import train
from helpers.measured_world import changed
from helpers.training_world import settings

__all__ = ["settings"]
pytestmark = pytest.mark.usefixtures("one_thread")


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard reads there."""
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return {
        name: [(each.step, each.value) for each in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def recorded(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The same from metrics.jsonl."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in read_metrics(folder):
        for name, value in numbers_of(line):
            found.setdefault(name, []).append((line["step"], pytest.approx(value, rel=1e-6)))
    return found


def test_names_tell_what_a_number_is_in() -> None:
    line = {"step": 3, "better": True, "log_loss": {"direct": {"occurs": 0.5}}, "loss": 1}
    assert list(numbers_of(line)) == [("log_loss/direct/occurs", 0.5), ("loss", 1.0)]


def test_a_training_is_shown_while_it_runs(settings: Settings, tmp_path: Path) -> None:
    short = changed(settings, "train", steps=2, log_every=1)
    train(short, tmp_path / "model", tensorboard=True)
    found = shown(tmp_path / "model")
    assert found == recorded(tmp_path / "model")
    assert {"score", "loss", "log_loss/direct/occurs"} <= found.keys()


def test_steps_that_are_done_again_are_shown_once(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, {})
    with TensorBoardWriter(folder):
        for step in (1, 2, 3):
            folder.log({"step": step, "loss": float(step)})
    folder.forget_after(2)
    with TensorBoardWriter(folder):
        folder.log({"step": 3, "loss": 4.0})
    folder.log({"step": 4, "loss": 5.0})  # nobody watches any more
    assert shown(tmp_path) == {"loss": [(1, 1.0), (2, 2.0), (3, 4.0)]}


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(TrainingError, match=r"pip install 'gdelphi\[board\]'"):
        summary_writer()
