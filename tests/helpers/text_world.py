"""Tiny models of words on the small world, made once for all tests of words."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from gdelphi.common.progress import Silent
from gdelphi.common.settings import Settings
from gdelphi.text.forecaster_task import (
    ForecastTask,
    TextData,
    load_text_data,
)
from gdelphi.text.train import (
    TextPulse,
    TextTrained,
    train_task,
)
from helpers.measured_world import changed
from helpers.training_world import small_settings

TEXT: dict[str, Any] = {
    "steps": 60, "batch": 4, "warm_up": 4, "learning_rate": 2e-2, "ema": 0.8, "evaluate_every": 20,
    "evaluate_days": 2, "save_every": 10, "log_every": 5, "width": 16, "inner": 16, "layers": 1,
    "heads": 2, "fewest": 1, "made_actors": 20,
}  # fmt: skip


def words_settings(factory: pytest.TempPathFactory, **text: Any) -> Settings:
    return changed(small_settings(factory, steps=20), "text", **{**TEXT, **text})


@cache
def _ground(settings: Settings) -> TextData:
    return load_text_data(settings)


@cache
def _trained(settings: Settings, folder: Path) -> TextTrained:
    torch.set_num_threads(1)
    return train_task(ForecastTask(_ground(settings)), folder)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return words_settings(tmp_path_factory)


@pytest.fixture(scope="session")
def ground(settings: Settings) -> TextData:
    return _ground(settings)


@pytest.fixture(scope="session")
def trained(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> TextTrained:
    """A text forecaster, trained from its beginning to its end; not to be changed."""
    return _trained(settings, tmp_path_factory.getbasetemp() / "text-forecaster")


class Stop(Exception):
    """Thrown by a watcher, to end a run somewhere."""


class Watcher(Silent):
    """Keeps what it is told, and may end the run."""

    def __init__(self, stop_at: int = -1) -> None:
        self.steps: list[int] = []
        self._stop_at = stop_at

    def stepped(self, pulse: TextPulse) -> None:
        self.steps.append(pulse.step)
        if pulse.step == self._stop_at:
            raise Stop
