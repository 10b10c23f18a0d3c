"""Shared by tests: backtests."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from gdelphi.common.progress import Silent
from gdelphi.common.settings import Settings
from gdelphi.common.splits import split_days
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.backtest import (
    BacktestRequest,
    backtest,
)
from gdelphi.judge.day import (
    BacktestOptions,
)
from gdelphi.model.loop import Trained
from gdelphi.store.ingest import IngestRequest as IngestRequest
from gdelphi.store.ingest import ingest
from helpers.measured_world import DAYS, changed, day_at, measured, represent_quietly, tree_of

LAST = day_at(DAYS - 1)


OPTIONS = BacktestOptions(futures=6)


@pytest.fixture(scope="session")
def pinned(settings: Settings) -> Settings:
    """The splits as dates, so that they stay when days are taken away."""
    splits = split_days(day_at(0), LAST, settings.split)
    ends = {
        f"{part}_until": splits.days(part)[1] for part in ("train", "validation_a", "validation_b")
    }
    return changed(settings, "split", **ends)


@pytest.fixture(scope="session")
def model(pinned: Settings, undisturbed: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with what it publishes."""
    folder = tmp_path_factory.mktemp("judged") / "model"
    shutil.copytree(undisturbed.folder, folder)
    predictor = Predictor(pinned, folder, number=6)
    predictor.calibrate("root")
    return folder


@pytest.fixture(scope="session")
def full(pinned: Settings, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backtest of all test days."""
    out = tmp_path_factory.mktemp("full") / "out"
    backtest(pinned, BacktestRequest(model, out, options=OPTIONS, processes=1))
    return out


class Stop(Exception):
    """Ends a run somewhere."""


class StopsAfter(Silent):
    """Throws after some days."""

    def __init__(self, days: int) -> None:
        self.days, self.done = days, -1

    def day_done(self, done: int, total: int) -> None:
        self.done = done
        if done == self.days:
            raise Stop


def files_of(out: Path) -> dict[str, bytes]:
    """All files of a backtest but run.json, less what a killed process left behind."""
    return {
        name: content
        for name, content in tree_of(out).items()
        if name != "run.json" and not name.endswith(".part")
    }


def shorter_world(
    factory: pytest.TempPathFactory, pinned: Settings, folder: Path, until: date
) -> Settings:
    """The same archive ingested up to a day only, in the space that the model knows."""
    archive = measured(factory).settings.ingest.archive
    own = pinned.model_copy(update={"store": folder / "s.duckdb"})
    own = changed(changed(own, "measures", folder=folder / "measures"), "ingest", archive=archive)
    ingest(own, IngestRequest((), None, until, False))
    shutil.copytree(pinned.measures.folder / "space", folder / "measures" / "space")
    represent_quietly(own)
    return own
