"""A refit schedule: what is published learns from days that are known by then, and no others."""

import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import JudgeError
from gdelphi.common.settings import Settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.publisher import fit_publisher
from gdelphi.judge.backtest import BacktestRequest, backtest
from gdelphi.judge.files import KINDS, BacktestFolder
from gdelphi.judge.refit import RefitSchedule
from gdelphi.stack.linear import default_stack
from helpers.backtests import (
    LAST,
    OPTIONS,
    Stop,
    StopsAfter,
    files_of,
    full,
    model,
    pinned,
    shorter_world,
)
from helpers.training_world import settings, undisturbed

__all__ = ["full", "model", "pinned", "settings", "undisturbed"]
pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = 4


def schedule_of(out: Path, predictor: Predictor) -> RefitSchedule:
    return RefitSchedule(out / "refits", predictor.sequences.splits.test[0], EVERY)


@pytest.fixture(scope="session")
def refitted(pinned: Settings, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backtest of all test days with a schedule."""
    out = tmp_path_factory.mktemp("refitted") / "out"
    backtest(pinned, BacktestRequest(model, out, options=OPTIONS, processes=1, refit=EVERY))
    return out


def test_periods_are_counted_from_the_anchor(tmp_path: Path) -> None:
    anchor = date(2024, 1, 10)
    schedule = RefitSchedule(tmp_path, anchor, 7)
    assert schedule.start(anchor - timedelta(days=1)) is None
    assert schedule.start(anchor + timedelta(days=6)) is None
    assert schedule.start(anchor + timedelta(days=7)) == date(2024, 1, 17)
    assert schedule.start(anchor + timedelta(days=20)) == date(2024, 1, 24)
    with pytest.raises(JudgeError, match="every 0 days"):
        RefitSchedule(tmp_path, anchor, 0)


def test_a_fit_learns_from_validation_b_and_the_days_known_by_then(
    pinned: Settings, model: Path, refitted: Path
) -> None:
    predictor = Predictor(pinned, model, number=6)
    schedule = schedule_of(refitted, predictor)
    start = schedule.start(LAST)
    assert start is not None
    publisher = schedule.publisher(predictor, "root", LAST)
    days = BacktestFolder(refitted).days()
    before, tuning = predictor.calibration_days("root")
    first, last = predictor.sequences.splits.test[0], predictor.sequences.splits.validation_b[1]
    between = [last + timedelta(days=1 + number) for number in range((first - last).days - 1)]
    tuning = [*tuning, *between, *(day for day in days if day < start)]
    assert publisher.fitted == (before[0], tuning[-1])
    assert tuning[-1] < start
    readings = publisher.combined.members[len(default_stack().members) :]
    expected = fit_publisher(
        "root", predictor.history("root"), readings, before=before, validation_b=tuning
    )
    assert publisher.stack.coefficients() == expected.stack.coefficients()
    assert publisher.combined.coefficients() == expected.combined.coefficients()
    assert publisher.choices == expected.choices


def test_the_first_period_is_as_calibrated_and_later_ones_are_not(
    pinned: Settings, model: Path, full: Path, refitted: Path
) -> None:
    schedule = schedule_of(refitted, Predictor(pinned, model, number=6))
    same, other = [], []
    for day in BacktestFolder(full).days():
        tables = [
            BacktestFolder(folder).read_day("probabilities", day) for folder in (full, refitted)
        ]
        agree = {
            name: np.array_equal(*(folder[name].to_numpy() for folder in tables), equal_nan=True)
            for name in ("outcome", "ewma", "stack")
        }
        assert agree["outcome"]
        assert agree["ewma"], "nothing of it is fitted"
        (same if schedule.start(day) is None else other).append(agree["stack"])
    assert same
    assert all(same)
    assert other
    assert not any(other)


def test_days_after_the_target_change_no_byte_of_a_refitted_forecast(
    tmp_path_factory: pytest.TempPathFactory,
    pinned: Settings,
    model: Path,
    refitted: Path,
    tmp_path: Path,
) -> None:
    predictor = Predictor(pinned, model, number=6)
    schedule = schedule_of(refitted, predictor)
    day = next(day for day in BacktestFolder(refitted).days() if schedule.start(day) is not None)
    own = shorter_world(tmp_path_factory, pinned, tmp_path, day)
    out = tmp_path / "out"
    backtest(own, BacktestRequest(model, out, day, day, options=OPTIONS, processes=1, refit=EVERY))
    for kind in KINDS:
        there, here = (BacktestFolder(folder).path(kind, day) for folder in (refitted, out))
        assert here.read_bytes() == there.read_bytes()


def test_a_resumed_run_that_lost_its_fits_equals_an_undisturbed_one(
    pinned: Settings, model: Path, refitted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stop):
        backtest(
            pinned,
            BacktestRequest(model, out, options=OPTIONS, processes=1, refit=EVERY),
            StopsAfter(3),
        )
    shutil.rmtree(out / "refits")
    backtest(pinned, BacktestRequest(model, out, options=OPTIONS, processes=1, refit=EVERY))
    assert files_of(out) == files_of(refitted)


def test_a_schedule_makes_another_backtest(pinned: Settings, model: Path, full: Path) -> None:
    with pytest.raises(JudgeError, match=r"another origin: asked.refit"):
        backtest(pinned, BacktestRequest(model, full, options=OPTIONS, refit=EVERY))
