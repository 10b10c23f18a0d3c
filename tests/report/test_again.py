"""A forecast and a report made again from a past state of a lake have the bytes of the first."""

import hashlib
import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdelphi.app.promote import promote
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.archive import forecasts_folder
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.score import score_forecasts
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.embed import embed
from gdelphi.report.report import ReportRequest, make_report
from gdelphi.store.compact import compact
from gdelphi.store.ingest import ingest
from helpers.flow_harness import Stage, make_stage, write_lists
from helpers.forecast_world import predictor, settings
from helpers.measured_world import in_one_process
from helpers.postgres import postgres
from helpers.training_world import one_thread

__all__ = ["one_thread", "postgres", "predictor", "settings"]
FUTURES = 4
STREAMS = "top2"
EARLIER = 30  # days that are left out: the others are enough for a forecast


def files_in(folder: Path) -> dict[str, str]:
    """Digests of what is in a folder, but for its list of checksums, which is added to."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "checksums.txt"
    }


class Morning:
    """A lake with a model at work: its archive grows, and changes."""

    def __init__(self, stage: Stage, lake: dict[str, str], model: Path) -> None:
        self.stage = stage
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lake.items())
        text = stage.config.read_text().replace('store = "s.duckdb"\n', lines)
        stage.config.write_text(
            text.replace('"s.measures"', json.dumps(f"{stage.folder}/s.measures"))
        )
        self.settings = load_settings(
            stage.config, {"flows.models": stage.folder / "models"}
        ).settings
        ingest(self.settings)
        embed(self.settings)
        promote(self.settings, model)

    def request(self, origin: date, **changes: Any) -> ForecastRequest:
        model = self.settings.flows.models / "current"
        return ForecastRequest(model, origin, streams=STREAMS, futures=FUTURES, **changes)

    def bring(self) -> Path:
        """What the archive has, measured; forecasts that can be are judged."""
        ingest(self.settings)
        embed(self.settings)
        folder = forecasts_folder(self.settings)
        if folder.exists():
            score_forecasts(self.settings, folder)
        return folder

    def foretell(self) -> Path:
        """A forecast from the last day; its folder."""
        origin = Clouds(measures_folder(self.settings)).days[-1]
        return forecast(self.settings, self.request(origin)).forecast.folder

    def spoil(self, number: int) -> None:
        """A past day is another one at its source."""
        files = sorted(self.stage.archive.glob("*.zip"))
        shutil.copyfile(files[number - 20], files[number])
        write_lists(self.stage.archive)


@pytest.fixture
def morning(settings: Settings, predictor: Predictor, postgres: Any, tmp_path: Path) -> Any:
    """A day is known, and two are to come."""
    stage = make_stage(tmp_path / "stage", settings, hidden=2)
    for path in sorted(stage.archive.glob("*.zip"))[:EARLIER]:
        path.unlink()
    write_lists(stage.archive)
    lake = postgres.make_lake(tmp_path.name.replace("-", "_"), stage.folder)
    with in_one_process():
        yield Morning(stage, lake, predictor.folder)


def test_it_has_the_same_bytes_whatever_has_come_since(morning: Morning, tmp_path: Path) -> None:
    morning.foretell()
    morning.stage.grow()
    scores = morning.bring() / "scores"
    stored = morning.foretell()
    manifest = json.loads((stored / "forecast.json").read_text())
    origin, state = date.fromisoformat(manifest["origin"]), manifest["snapshot"]
    published = make_report(morning.settings, ReportRequest(origin)).folder
    first, before, judged = (files_in(folder) for folder in (stored, published, scores))
    assert judged
    assert json.loads((published / "report.json").read_text())["provenance"]["snapshot"] == state

    morning.spoil(-5)  # all of them look back on it
    morning.stage.grow()
    morning.bring()
    compact(morning.settings)
    assert files_in(scores) != judged, "what has changed is judged again"

    again = morning.settings.model_copy(update={"store_as_of": state})
    made = forecast(again, morning.request(origin, out=tmp_path / "forecasts"))
    assert made.made and files_in(made.forecast.folder) == first
    assert files_in(make_report(again, ReportRequest(out=tmp_path / "reports")).folder) == before
    present = files_in(make_report(morning.settings, ReportRequest(origin)).folder)
    assert present["report.json"] != before["report.json"], "today it says something else"
    shutil.rmtree(published)  # nobody knows when it was published: when the forecast was made
    lost = make_report(again, ReportRequest(origin, out=tmp_path / "lost")).report
    assert lost.published_at.isoformat() == manifest["issued_at"]
    assert embed(morning.settings).gathered.built == 0, "measures of the present are as they were"
