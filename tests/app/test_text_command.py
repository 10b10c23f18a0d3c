"""The commands of the text models, and the text forecaster among those that are judged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from gdelphi.app.commands.text import app
from gdelphi.common.errors import ForecastError, GdelphiError
from gdelphi.common.settings import Settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.backtest import BacktestRequest, backtest
from gdelphi.judge.day import BacktestOptions
from gdelphi.text.train import TextTrained
from helpers.forecast_world import predictor as _predictor
from helpers.measured_world import day_at
from helpers.text_world import data, settings, trained
from helpers.training_world import variables

pytestmark = pytest.mark.usefixtures("one_thread")
__all__ = ["data", "settings", "trained"]
predictor = _predictor


def run(settings: Settings, monkeypatch: pytest.MonkeyPatch, *words: Any) -> Result:
    for name, value in variables(settings).items():
        monkeypatch.setenv(name, value)
    for name, value in settings.text.model_dump(exclude={"pretrained"}).items():
        monkeypatch.setenv(f"GDELPHI_TEXT_{name.upper()}", str(value))
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_data_writes_and_says_what_it_cost(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "d.parquet"
    result = run(settings, monkeypatch, "data", "--number", 30, "--out", out)
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).num_rows == 30
    for word in ("sequences", "size", "time", "memory"):
        assert word in result.stdout
    again = run(settings, monkeypatch, "data", "--number", 3, "--out", out, "--json")
    assert json.loads(again.stdout)["sequences"] == 3


@pytest.mark.slow
def test_train_and_forecast(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "m"
    result = run(settings, monkeypatch, "train", "--steps", 5, "--out", out)
    assert result.exit_code == 0, result.output
    assert "all steps done" in result.stdout and (out / "model.safetensors").exists()
    shown = run(
        settings, monkeypatch, "forecast", "--model", out, "--futures", 3, "--streams", "KE",
        "--origin", day_at(70),
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    for word in ("Kenya on 2021-03-16", "likeliest", "future 3", "groups of words that are none"):
        assert word in shown.stdout
    as_json = run(settings, monkeypatch, "forecast", "--model", out, "--futures", 2, "--json")
    forecast = json.loads(as_json.stdout)
    assert len(forecast["streams"]) == 4 and len(forecast["streams"][0]["written"]) == 2


def test_errors_say_what_is_wrong(
    settings: Settings, trained: TextTrained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unknown = run(
        settings, monkeypatch, "forecast", "--model", trained.folder, "--streams", "Nauru"
    ).exception
    assert isinstance(unknown, ForecastError) and "does not know NR" in str(unknown)
    missing = run(settings, monkeypatch, "forecast", "--model", tmp_path / "no").exception
    assert isinstance(missing, GdelphiError) and "gdelphi text train" in str(missing)


def test_the_text_forecaster_is_judged_beside_the_others(
    predictor: Predictor, trained: TextTrained, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(predictor.folder, tmp_path / "model"))
    options = BacktestOptions(futures=8, text=True, text_model=trained.folder)
    request = BacktestRequest(
        model, tmp_path / "out", day_at(75), day_at(76), options=options, allow_fitted=True,
        processes=1,
    )  # fmt: skip
    summary = backtest(predictor.settings, request)
    names = {line["forecaster"] for line in summary["scores"]}
    assert {"text", "combined", "stack", "direct"} <= names
    (published,) = model.glob("published-root-text-*.json")
    members = json.loads(published.read_text())["members"]
    assert members[-1] == "text"
    futures = {line["ensemble"]: line for line in summary["futures"]}
    assert futures["text"]["energy"] > 0 and futures["text"]["rouge"]["rouge1"] > 0
    assert "text brief" in futures
    assert "text train" in summary["origin"]["fitted"]


def test_a_predictor_with_and_without_text_keep_apart_what_they_publish(
    predictor: Predictor, trained: TextTrained, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(predictor.folder, tmp_path / "model"))
    with_text = Predictor(predictor.settings, model, number=8, text=trained.folder)
    with pytest.raises(ForecastError, match="gdelphi calibrate"):
        with_text.publisher("root")
    fitted = with_text.calibrate("root")
    assert [member.name for member in fitted.combined.members][-1] == "text"
    plain = Predictor(predictor.settings, model, number=8)
    assert "text" not in [member.name for member in plain.publisher("root").combined.members]
