"""Tiny text models on the small world, made once for all tests of text models."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gdelphi.common.settings import Settings
from gdelphi.model.processes import training_device
from gdelphi.text.corpus import Corpus
from gdelphi.text.data import TextData, load_text_data
from gdelphi.text.forecaster_task import ForecasterTask
from gdelphi.text.namer_task import NamerTask
from gdelphi.text.train import TextTrained, train_task
from helpers.measured_world import changed
from helpers.training_world import Stop, Watcher, small_settings

__all__ = ["Stop", "Watcher"]

TEXT: dict[str, Any] = {
    "steps": 60, "batch": 4, "warm_up": 4, "learning_rate": 2e-2, "ema": 0.8, "evaluate_every": 20,
    "evaluate_days": 2, "save_every": 10, "log_every": 5, "width": 16, "inner": 16, "layers": 1,
    "heads": 2, "fewest": 1,
}  # fmt: skip


def text_settings(factory: pytest.TempPathFactory, **text: Any) -> Settings:
    return changed(small_settings(factory, steps=20), "text", **{**TEXT, **text})


def train_here(task: ForecasterTask | NamerTask, folder: Path, **options: Any) -> TextTrained:
    """Train a task in this process."""
    with training_device(task.data.settings.train) as accelerator:
        return train_task(task, folder, accelerator, **options)


@cache
def _data(settings: Settings) -> TextData:
    return load_text_data(settings)


@cache
def _trained(settings: Settings, folder: Path) -> TextTrained:
    torch.set_num_threads(1)
    return train_here(ForecasterTask(_data(settings)), folder)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return text_settings(tmp_path_factory)


@pytest.fixture(scope="session")
def data(settings: Settings) -> TextData:
    return _data(settings)


@pytest.fixture(scope="session")
def trained(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> TextTrained:
    """A text forecaster, trained from its beginning to its end; not to be changed."""
    return _trained(settings, tmp_path_factory.getbasetemp() / "text-forecaster")


def check_batch_is_its_members(corpus: Corpus, day: int) -> None:
    """A batch of sources is what each of them is alone."""
    streams, targets = np.array([0, 3, 1]), np.array([day, 30, 70])
    plain = np.zeros((3, corpus.context), dtype=np.int64)
    batch = corpus.source(streams, targets, plain)
    size = batch.mask.shape[1]
    for row in range(3):
        one = corpus.source(streams[row : row + 1], targets[row : row + 1], plain[:1])
        mine = batch.places // size == row
        key = sorted(zip(batch.places[mine] % size, batch.words[mine], batch.weights[mine],
                         strict=True))  # fmt: skip
        assert key == sorted(zip(one.places, one.words, one.weights, strict=True))
        assert batch.mask[row].sum() == one.mask.sum()
