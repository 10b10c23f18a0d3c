"""A day's run: what is due, what goes on when something fails, and that nothing is done twice."""

import importlib
import random
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gdelphi.app import pipeline
from gdelphi.app.bring import bring
from gdelphi.app.cli import app
from gdelphi.app.pipeline import (
    PipelineRun,
    backfill,
    challenger_folder,
    daily,
    decide,
    due_origins,
    possible_origins,
    train_challenger,
    train_namer,
)
from gdelphi.app.promote import model_in_use
from gdelphi.app.verify import verify
from gdelphi.common.errors import PipelineError, TrainingError
from gdelphi.common.sections import AlertRule, AlertSettings
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.archive import ForecastArchive, forecasts_folder
from gdelphi.forecast.forecast import ForecastRequest, forecast, open_predictor
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.embed import embed
from helpers.edited import edited, flip_bit
from helpers.flow_harness import Stage, make_stage, put_in_use, write_lists
from helpers.forecast_world import predictor, settings
from helpers.measured_world import changed, in_one_process
from helpers.training_world import one_thread

__all__ = ["one_thread", "predictor", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")

HIDDEN = 4


@pytest.fixture(autouse=True)
def _quick() -> object:
    with in_one_process():
        yield


@pytest.fixture(scope="module")
def begun(
    settings: Settings, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """A stage whose model is in use and that has had one run."""
    stage = make_stage(tmp_path_factory.mktemp("begun"), settings, hidden=HIDDEN)
    with in_one_process():
        put_in_use(stage, predictor)
        run = daily(stage.settings)
    assert run.troubles == [] and len(run.forecasts) == 1, "the first time, the latest only"
    return stage


@pytest.fixture
def stage(begun: Stage, tmp_path: Path) -> Stage:
    """A copy that a test may change."""
    folder = tmp_path / "stage"
    shutil.copytree(begun.folder, folder, symlinks=True)
    text = begun.config.read_text().replace(str(begun.folder), str(folder))
    (folder / "gdelphi.toml").write_text(text)
    loaded = load_settings(folder / "gdelphi.toml").settings
    return Stage(folder, folder / "gdelphi.toml", loaded, list(begun.hidden))


def origins(run: PipelineRun) -> list[str]:
    return [each.forecast.manifest.recipe.origin.isoformat() for each in run.forecasts]


def used(stage: Stage) -> Path:
    found = model_in_use(stage.settings)
    assert found is not None
    return found


# --- the daily run --------------------------------------------------------------------------------


def test_a_run_that_was_done_does_nothing_but_the_latest_report(stage: Stage) -> None:
    latest = stage.reports()
    page = stage.folder / "reports" / latest[0] / "index.html"
    page.unlink()
    run = daily(stage.settings)
    assert run.forecasts == [] and run.troubles == [] and run.notes == []
    assert [report.folder.name for report in run.reports] == latest and page.exists()


def test_missed_nights_are_made_up_for_and_the_model_is_opened_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stage.reports()
    new = [stage.grow() for _ in range(2)]
    opened: list[Path] = []
    monkeypatch.setattr(
        pipeline,
        "open_predictor",
        lambda *given: opened.append(used(stage)) or open_predictor(*given),
    )
    run = daily(stage.settings)
    assert opened == [used(stage)]
    assert origins(run) == new and run.troubles == []
    assert stage.reports() == first + new
    assert run.scored is not None and len(run.scored.scored) == 2 and run.scored.waiting == 1


def test_alerts_are_a_step_of_the_daily_run_and_told_once(stage: Stage) -> None:
    rule = AlertRule(name="any", event="all", target="occurs", horizon=1, threshold=0.5)
    alerts = AlertSettings(rules=(rule,), summary="", most=1)
    settings = stage.settings.model_copy(update={"alerts": alerts})
    steps: list[str] = []

    def do(name: str, work: Any, /) -> Any:
        steps.append(name)
        return work()

    run = daily(settings, do=do)
    assert steps[-1] == "alerts" and run.troubles == []
    assert run.alerts is not None and run.alerts.found and run.alerts.sent == 2
    told = "\n".join(stage.notifications)
    assert "gdelphi alert 'any': " in told and "more alerts" in told
    assert f"/reports/{stage.reports()[-1]}/index.html#" in told
    again = daily(settings)
    assert again.alerts is not None and again.alerts.found == [] and again.alerts.sent == 0
    broken = changed(settings, "flows", notify_command="no-such-command-here")
    stage.grow()
    failed = daily(changed(broken, "alerts", rules=(rule.model_copy(update={"name": "b"}),)))
    assert len(failed.troubles) == 1 and failed.troubles[0].startswith("alerts: 'no-such-command")


def test_a_report_that_a_killed_run_owes_is_written_by_the_next(stage: Stage) -> None:
    owed = stage.reports()
    shutil.rmtree(stage.folder / "reports" / owed[0])
    new = stage.grow()
    run = daily(stage.settings)
    assert origins(run) == [new]
    assert [each.folder.name for each in run.reports] == [*owed, new]


def test_a_day_that_came_late_is_forecast_from_too(stage: Stage) -> None:
    late = stage.hidden.pop(0)
    stage.grow()
    daily(stage.settings)
    shutil.copyfile(late, stage.archive / late.name)
    write_lists(stage.archive)
    run = daily(stage.settings, as_of=date(2021, 6, 1))
    assert run.troubles == [] and [each.replace("-", "") for each in origins(run)] == [
        late.name[:8]
    ]


def test_without_an_archive_the_old_data_are_published_and_the_run_has_failed(
    stage: Stage,
) -> None:
    before = stage.reports()
    shutil.rmtree(stage.archive)
    run = daily(stage.settings, as_of=date(2021, 6, 1))
    assert len(run.troubles) == 1 and run.troubles[0].startswith("ingest: ")
    assert stage.reports() == before and run.reports[0].report.stale
    assert run.reports[0].report.banners


def test_files_that_cannot_be_loaded_are_a_trouble(stage: Stage) -> None:
    name = stage.hidden[0].name
    day = stage.grow()
    (stage.archive / name).write_bytes(b"not a zip")
    run = daily(stage.settings)
    assert run.ingested is None and len(run.troubles) == 1
    assert "1 files" in run.troubles[0] and name in run.troubles[0]
    assert day not in stage.reports() and len(run.reports) == 1


def test_without_a_model_the_report_has_no_forecast_and_says_so(stage: Stage) -> None:
    (stage.folder / "models" / "current").unlink()
    shutil.rmtree(stage.folder / "forecasts")
    run = daily(stage.settings)
    assert run.troubles == [] and run.forecasts == [] and run.scored is None
    assert len(run.notes) == 1 and "no model is in use" in run.notes[0]
    assert len(run.reports) == 1 and run.reports[0].report.provenance.forecast is None


def test_a_forecast_that_fails_does_not_stop_the_report(stage: Stage) -> None:
    day = stage.grow()
    run = daily(changed(stage.settings, "flows", streams="XX"))
    assert len(run.troubles) == 1 and run.troubles[0].startswith(f"forecast from {day}: ")
    assert [each.folder.name for each in run.reports] == [day]


def test_running_out_of_time_ends_the_run(stage: Stage) -> None:
    def late(name: str, work: object, /) -> None:
        raise TimeoutError(name)

    with pytest.raises(TimeoutError, match="ingest"):
        daily(stage.settings, do=late)  # type: ignore[arg-type]


def test_a_run_for_a_day_of_the_past_knows_nothing_later(stage: Stage) -> None:
    days = possible_origins(stage.settings, date(2021, 6, 1))
    shutil.rmtree(stage.folder / "forecasts")
    shutil.rmtree(stage.folder / "reports")
    run = daily(stage.settings, as_of=days[-1])
    assert origins(run) == [days[-2].isoformat()] == stage.reports()


# --- what is due ----------------------------------------------------------------------------------


def test_another_model_speaks_of_the_latest_day_again(stage: Stage) -> None:
    model = used(stage)
    today = date(2021, 6, 1)
    assert due_origins(stage.settings, model, today) == []
    other = Path(shutil.copytree(model, stage.folder / "models" / "other"))
    (other / "arguments.json").write_text((other / "arguments.json").read_text() + "\n")
    edited(other)
    assert due_origins(stage.settings, other, today) == [
        possible_origins(stage.settings, today)[-1]
    ]


def test_a_forecast_about_fewer_streams_is_not_the_daily_one(stage: Stage) -> None:
    today, model = date(2021, 6, 1), used(stage)
    shutil.rmtree(stage.folder / "forecasts")
    stream = ForecastArchive(forecasts_folder(stage.settings))
    assert stream.list() == []
    known = Predictor(stage.settings, model).streams
    forecast(stage.settings, ForecastRequest(model, streams=known[0]))
    latest = possible_origins(stage.settings, today)[-1]
    for streams, due in (("all", [latest]), (known[0], []), ("top1", []), ("top9", [latest])):
        settings = changed(stage.settings, "flows", streams=streams)
        assert due_origins(settings, model, today) == due, streams


def test_a_run_reaches_back_a_fortnight_and_no_further(stage: Stage) -> None:
    today, model = date(2021, 6, 1), used(stage)
    days = possible_origins(stage.settings, today)
    shutil.rmtree(stage.folder / "forecasts")
    forecast(stage.settings, ForecastRequest(model, origin=days[-25]))
    due = due_origins(stage.settings, model, today)
    assert due[0] >= days[-1] - timedelta(days=14) and due[-1] == days[-1]
    assert due == [day for day in days if day >= due[0]], "less those that are missing"


# --- backfill -------------------------------------------------------------------------------------


def test_backfill_makes_forecasts_and_reports_of_past_days(stage: Stage) -> None:
    days = possible_origins(stage.settings, date(2021, 6, 1))
    before = stage.reports()
    run = backfill(stage.settings, days[-4], days[-4])
    assert origins(run) == [days[-4].isoformat()]
    assert stage.reports() == [days[-4].isoformat(), *before]
    again = backfill(stage.settings, days[-4], days[-4])
    assert [made.made for made in again.forecasts] == [False]


def test_backfill_refuses_what_it_cannot_do(stage: Stage) -> None:
    day = date(2021, 3, 1)
    with pytest.raises(PipelineError, match="the earlier one first"):
        backfill(stage.settings, day, day - timedelta(days=1))
    with pytest.raises(PipelineError, match="no complete day from 2001-01-01"):
        backfill(stage.settings, date(2001, 1, 1), date(2001, 1, 2))
    (stage.folder / "models" / "current").unlink()
    with pytest.raises(PipelineError, match="no model is in use"):
        backfill(stage.settings, day, day)


# --- training -------------------------------------------------------------------------------------


def test_a_challenger_is_trained_beside_the_model_in_use(stage: Stage) -> None:
    settings = changed(stage.settings, "train", steps=2)
    in_use = used(stage)
    folder = challenger_folder(settings, date(2021, 6, 1))
    assert folder == stage.folder / "models" / "challenger-2021-06-01"
    assert train_challenger(settings, folder).steps == 2
    assert train_challenger(settings, folder).began_at == 2, "a run that was killed goes on"
    stage.grow()
    bring(settings)
    embed(settings)
    assert train_challenger(settings, folder).began_at == 0, "with other days it begins anew"
    assert used(stage) == in_use
    for day in range(1, 5):
        (settings.flows.models / f"challenger-2021-05-0{day}").mkdir()
    decided = decide(settings, folder)
    assert decided.action in ("promoted", "kept") and decided.compared is not None
    left = sorted(path.name for path in settings.flows.models.glob("challenger-*"))
    assert left == ["challenger-2021-05-03", "challenger-2021-05-04", "challenger-2021-06-01"]


def test_a_namer_is_trained_where_none_fits_the_measures(stage: Stage) -> None:
    settings = stage.settings
    bring(settings)
    embed(settings)
    trained = train_namer(settings)
    assert trained is not None
    assert trained.folder == settings.flows.models / "text-namer"
    assert trained.steps == 2
    assert train_namer(settings) is None, "it fits, so there is nothing to do"
    (trained.folder / "model.safetensors").write_bytes(b"damaged")
    again = train_namer(settings)
    assert again is not None
    assert again.steps == 2


def test_a_folder_that_cannot_be_trained_into_is_told_of(stage: Stage) -> None:
    folder = challenger_folder(stage.settings, date(2021, 6, 1), "mine")
    shutil.copytree(used(stage), folder)
    with pytest.raises(TrainingError, match="no checkpoint to resume from"):
        train_challenger(stage.settings, folder)


# --- damage costs what is damaged -----------------------------------------------------------------


def test_a_damaged_forecast_of_last_month_is_named_and_costs_nothing_else(stage: Stage) -> None:
    (old,) = (stage.folder / "forecasts").glob("*-*-*")
    garbage = stage.folder / "forecasts" / "2021-01-09" / "0123456789abcdef"
    shutil.copytree(next(old.glob("[!.]*")), garbage)
    (garbage / "forecast.json").write_bytes(b"\x00garbage")
    new = stage.grow()
    run = daily(stage.settings)
    assert origins(run) == [new] and stage.reports()[-1] == new
    assert run.scored is not None and len(run.scored.scored) == 1
    assert len(run.troubles) == 1 and "2021-01-09/0123456789abcdef is damaged" in run.troubles[0]


def test_a_damaged_model_costs_the_forecast_and_neither_scores_nor_report(stage: Stage) -> None:
    (used(stage) / "training.json").write_bytes(b"{garbage")
    new = stage.grow()
    run = daily(stage.settings)
    assert run.forecasts == [] and [each.folder.name for each in run.reports][-1] == new
    assert run.scored is not None and len(run.scored.scored) == 1
    (trouble,) = run.troubles
    assert trouble.startswith("forecast: ") and "training.json" in trouble
    assert "promote --rollback" in trouble


def test_a_step_that_fails_in_a_way_nobody_thought_of_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("of a bug")

    monkeypatch.setattr(pipeline, "open_predictor", fail)
    new = stage.grow()
    run = daily(stage.settings)
    assert run.troubles == [f"forecast from {new}: KeyError: 'of a bug'"]
    assert run.scored is not None and run.reports


def test_flipped_bits_in_weights_and_packs_publish_nothing_else(stage: Stage) -> None:
    new = stage.grow()
    daily(stage.settings)
    (right,) = (stage.folder / "forecasts" / new).iterdir()
    shutil.move(right, stage.folder / "right")
    (pack,) = (measures_folder(stage.settings) / "packs").glob("[!.]*")
    flip_bit(pack / "atom_points.bin", 1000, 6)
    flip_bit(pack / "statistics.bin", -3000, 6)
    run = daily(stage.settings)
    assert run.troubles == [] and origins(run) == [new], "the pack was made again"
    assert (
        stage.folder / "forecasts" / new / right.name / "probabilities.parquet"
    ).read_bytes() == (stage.folder / "right" / "probabilities.parquet").read_bytes()
    shutil.rmtree(stage.folder / "forecasts" / new)
    flip_bit(used(stage) / "model.safetensors", -200, 6)
    run = daily(stage.settings)
    assert run.forecasts == [] and "model.safetensors: not what was written" in run.troubles[0]


def test_verify_finds_flipped_bits_wherever_they_are_and_says_what_to_do(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    flips = importlib.import_module("flips")
    settings, rng = stage.settings, random.Random(4)
    assert not [damage for part in verify(settings) for damage in part.damages]
    parts = flips.parts_of(settings)  # of a first forecast there are no scores
    assert {"store", "measures", "packs", "models", "forecasts", "reports"} <= set(parts)
    for part in parts:
        assert flips.try_flips(settings, part, 2, rng) == []
    found = CliRunner().invoke(app, ["doctor", "--deep", "--config", str(stage.config)])
    assert "files" in found.stdout and "DAMAGED" not in found.stdout
    flip_bit(next((stage.folder / "forecasts").glob("*-*-*/*/shares.parquet")), 100)
    found = CliRunner().invoke(app, ["verify", "--config", str(stage.config)])
    assert found.exit_code == 1 and "shares.parquet is not what was written" in found.stdout
    assert "-> bring its folder back from a copy" in found.stdout
