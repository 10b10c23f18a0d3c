"""A tiny model on the small world, and what tests of training share."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gdelphi.common.progress import Silent
from gdelphi.common.settings import Settings
from gdelphi.model.checkpoint import step_files
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.loop import Trained, TrainStatus
from gdelphi.model.train import train
from helpers.measured_world import changed, measured

SEQUENCES: dict[str, Any] = {"context_days": 10, "memory_days": 30}
TRAIN: dict[str, Any] = {
    "width": 8, "heads": 2, "layers": 1, "queries": 1, "day_heads": 2, "dropout": 0.1,
    "transport_layers": 1, "futures": 4, "decoder_steps": 0,
    "batch": 4, "points": 8, "steps": 40, "warm_up": 4, "learning_rate": 3e-3,
    "evaluate_every": 10, "save_every": 10, "log_every": 5, "keep_checkpoints": 3, "device": "cpu",
}  # fmt: skip


def small_settings(factory: pytest.TempPathFactory, **train: Any) -> Settings:
    """The world's settings with a tiny model; its pack is made."""
    world = measured(factory)
    settings = changed(world.settings, "sequences", **SEQUENCES)
    settings = changed(changed(settings, "split", embargo_days=2), "train", **{**TRAIN, **train})
    assert world.packed.folder.exists()
    return settings


def variables(settings: Settings) -> dict[str, str]:
    """The same for a process of its own."""
    given = {
        "store": settings.store, "embed_encoder": "hashing", "split_embargo_days": 2,
        "measures_folder": settings.measures.folder, "sequences_variants": 2,
        **{f"sequences_{name}": value for name, value in SEQUENCES.items()},
        **{f"train_{name}": value for name, value in settings.train.model_dump().items()},
    }  # fmt: skip
    found = {f"GDELPHI_{name.upper()}": str(value) for name, value in given.items()}
    return {**os.environ, **found, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


one_thread = _one_thread


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_settings(tmp_path_factory)


@pytest.fixture(scope="session")
def data(settings: Settings) -> TrainingData:
    return load_training_data(settings)


@pytest.fixture(scope="session")
def undisturbed(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run from its beginning to its end."""
    torch.set_num_threads(1)
    return train(settings, tmp_path_factory.mktemp("train") / "undisturbed")


class Stop(Exception):
    """Thrown by a watcher, to end a run somewhere."""


class Watcher(Silent):
    """Keeps what it is told, and may end the run."""

    def __init__(self, stop_at: int = -1) -> None:
        self.statuses: list[TrainStatus] = []
        self._stop_at = stop_at

    def stepped(self, status: TrainStatus) -> None:
        self.statuses.append(status)
        if status.step == self._stop_at:
            raise Stop


def same_tensors(one: Path, other: Path) -> bool:
    """Whether two files hold the same tensors, bit for bit."""
    left, right = load_file(one), load_file(other)
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def same_run(one: Path, other: Path) -> bool:
    """The model, the checkpoint and the weights along the way."""
    steps = step_files(one)
    assert steps.keys() == step_files(other).keys()
    names = (
        "model.safetensors",
        "state/run.safetensors",
        *(f"state/{p.name}" for p in steps.values()),
    )
    return all(same_tensors(one / name, other / name) for name in names)
