"""A tiny model on the small world, calibrated once for all tests of forecasts."""

import shutil
from functools import cache
from pathlib import Path

import pytest
import torch

from gdelphi.common.files import text_digest
from gdelphi.common.settings import Settings
from gdelphi.forecast.calibrate import calibrate
from gdelphi.forecast.predictor import Predictor
from gdelphi.model.train import train
from helpers.made_once import make_once
from helpers.training_world import one_thread, small_settings

__all__ = ["model", "one_thread", "predictor", "settings"]

FUTURES = 20


@cache
def _predictor(settings: Settings, base: Path) -> Predictor:
    def make(folder: Path) -> None:
        train(settings, folder)
        calibrate(Predictor(settings, folder, number=FUTURES))

    digest = text_digest(settings.model_dump_json().replace(str(base), ""))  # of whoever makes it
    return Predictor(settings, make_once(base, f"predictor-{digest}", make), number=FUTURES)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_settings(tmp_path_factory, steps=20)


@pytest.fixture(scope="session")
def predictor(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A predictor whose published probabilities are fitted; not to be changed.

    Kept by a cache: a fixture that several modules import is made for each of them.
    """
    torch.set_num_threads(1)
    return _predictor(settings, tmp_path_factory.getbasetemp())


@pytest.fixture
def model(predictor: Predictor, tmp_path: Path) -> Path:
    """A copy of its model, which a test may change."""
    return Path(shutil.copytree(predictor.folder, tmp_path / "model"))
