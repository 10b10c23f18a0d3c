"""The whole way with a pooled stack and its cell network: train, calibrate, forecast, judge."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.app.cli import main
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS
from gdelphi.forecast.predictor import OriginForecasts, Predictor
from gdelphi.forecast.publisher import WITHOUT_NETWORK
from gdelphi.judge.backtest import BacktestRequest, backtest, summarise_folder
from gdelphi.model.cell_fit import CELL_FOLDER, CellFit
from gdelphi.model.train import train
from gdelphi.stack.files import FOLDER
from gdelphi.stack.fitted import STACK
from gdelphi.stack.linear import SIMPLE, expit
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config
from helpers.archives import settings_for
from helpers.backtests import OPTIONS
from helpers.measured_world import changed, represent_quietly
from helpers.training_world import SEQUENCES, TRAIN

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

DAYS = 190


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A world with days enough for a pooled stack."""
    folder = tmp_path_factory.mktemp("pooled")
    given = {"days": DAYS, "streams": 2, "volume_median": 12.0, "volume_deviation": 0.5, "seed": 3}
    archive = create_world(world_config("demo", given), folder / "world").folder
    found = settings_for(
        folder / "s.duckdb",
        archive,
        embed__encoder="hashing",
        measures__folder=folder / "measures",
        sequences__variants=2,
    )
    ingest(found)
    found = changed(changed(found, "sequences", **SEQUENCES), "split", embargo_days=2)
    found = changed(found, "train", **{**TRAIN, "steps": 2, "cell_epochs": 1})
    represent_quietly(found)
    return found


@pytest.fixture(scope="module")
def model(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "pooled"
    train(settings, folder)
    Predictor(settings, folder, number=6).calibrate("root")
    return folder


def test_the_direct_reading_is_the_stack_moved_towards_the_cell_network(
    settings: Settings, model: Path
) -> None:
    cells = CellFit.load(model / FOLDER / CELL_FOLDER)
    assert len(cells.weights) == len(TARGETS)
    predictor = Predictor(settings, model, number=6)
    origin = predictor.pack.first_day + timedelta(days=DAYS - 3)
    publishers = {"root": predictor.publisher("root")}
    said = OriginForecasts(predictor, origin, publishers).answers["root"]
    assert predictor.sampler.direct is not None
    expected = expit(predictor.sampler.direct(origin))
    direct, stack = (
        np.stack([[one.probability(target) for one in said[name]] for target in TARGETS])
        for name in ("direct", STACK)
    )
    np.testing.assert_allclose(direct, expected, rtol=1e-5)
    for number, weight in enumerate(cells.weights):
        same = np.allclose(direct[number], stack[number], rtol=1e-5, equal_nan=True)
        assert same == (weight == 0)


def test_tables_tell_what_the_network_adds(
    settings: Settings, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "backtest"
    backtest(settings, BacktestRequest(model, out, options=OPTIONS, processes=1))
    summary = summarise_folder(out)
    lines = summary["network"]
    assert {line["target"] for line in lines} == set(TARGETS)
    names = {line["forecaster"] for line in summary["scores"]}
    assert {SIMPLE, STACK, WITHOUT_NETWORK, "published", "direct"} <= names
    assert all(abs(line["skill"]["value"]) < 0.2 for line in lines)
    monkeypatch.setattr("sys.argv", ["gdelphi", "backtest", "--out", str(out), "--summarise"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "what the network adds" in capsys.readouterr().out
