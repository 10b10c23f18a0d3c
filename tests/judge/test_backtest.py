"""The judge: refused days, runs that go on, and no look ahead."""

import json
import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gdelphi.app.cli import main
from gdelphi.common.errors import ForecastError, JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import split_days
from gdelphi.common.types import LEVELS, TARGETS, Level
from gdelphi.common.workers import FEWEST_PORTIONS
from gdelphi.forecast.calibrate import calibrate
from gdelphi.forecast.forecast import ForecastRequest, forecast
from gdelphi.forecast.predictor import Predictor
from gdelphi.judge.backtest import (
    WHOLE_DAYS,
    BacktestRequest,
    backtest,
    days_to_judge,
    spread,
    summarise_folder,
)
from gdelphi.judge.compare import garble
from gdelphi.judge.day import (
    BacktestDay,
    BacktestOptions,
    OriginAnswers,
)
from gdelphi.judge.files import KINDS, BacktestFolder
from gdelphi.measures.targets import outcomes
from gdelphi.stack.baselines import Ewma
from gdelphi.store.ingest import IngestRequest as IngestRequest
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
from helpers.measured_world import GONE, changed, day_at
from helpers.training_world import settings, undisturbed, variables

__all__ = ["full", "model", "pinned", "settings", "undisturbed"]
pytestmark = pytest.mark.usefixtures("one_thread")


# --- what is written ------------------------------------------------------------------------------


def test_every_day_has_the_outcomes_and_what_each_forecaster_said(
    pinned: Settings, model: Path, full: Path
) -> None:
    history = Predictor(pinned, model, number=6).history("root")
    folder = BacktestFolder(full)
    days = folder.days()
    first = split_days(day_at(0), LAST, pinned.split).test[0]
    assert first == day_at(GONE[1]), "a day that is missing is not judged"
    assert (days[0], days[-1]) == (first + timedelta(days=1), LAST)
    table = folder.read_day("probabilities", days[3])
    origin = days[3] - timedelta(days=1)
    shape = (len(history.streams), len(history.codes), len(TARGETS))
    outcome, probabilities = (table[name].to_numpy().reshape(shape) for name in ("outcome", "ewma"))
    for number, target in enumerate(TARGETS):
        expected = outcomes(history, origin)[target]
        assert np.array_equal(outcome[..., number], expected, equal_nan=True)
        asked_directly = [one.probability(target) for one in Ewma().forecast(history, origin)]
        assert np.array_equal(probabilities[..., number], asked_directly, equal_nan=True)


def test_the_summary_follows_from_the_files(full: Path) -> None:
    before = (full / "summary.json").read_bytes()
    summary = json.loads(before)
    (full / "summary.json").unlink()
    summarise_folder(full)
    assert (full / "summary.json").read_bytes() == before
    assert {line["forecaster"] for line in summary["scores"]} >= {"published", "stack", "atoms"}
    assert {line["ensemble"] for line in summary["futures"]} >= {"transported", "tilted", "drawn"}
    assert summary["days_in_what_was_fitted"] == 0
    stacks = [line for line in summary["scores"] if line["forecaster"] == "stack"]
    assert all(line["skill"]["value"] in (0, None) for line in stacks)


def test_probabilities_alone_are_the_same_without_the_rest(
    pinned: Settings, model: Path, full: Path, tmp_path: Path
) -> None:
    options = replace(OPTIONS, only_probabilities=True)
    summary = backtest(
        pinned, BacktestRequest(model, tmp_path, since=LAST, options=options, processes=1)
    )
    alone, whole = BacktestFolder(tmp_path), BacktestFolder(full)
    for kind in ("probabilities", "shares"):
        assert alone.path(kind, LAST).read_bytes() == whole.path(kind, LAST).read_bytes()
    assert summary["scores"] and summary["futures"] == [] and not summary.get("expected")
    assert whole.read_day("futures", LAST).num_rows > alone.read_day("futures", LAST).num_rows == 0
    with pytest.raises(JudgeError, match="only_probabilities"):
        backtest(pinned, BacktestRequest(model, tmp_path, since=LAST, options=OPTIONS))


def test_more_than_probabilities_is_judged_on_every_nth_day(
    pinned: Settings, model: Path, full: Path, tmp_path: Path
) -> None:
    request = BacktestRequest(model, tmp_path, options=OPTIONS, processes=1, futures_every=3)
    summary = backtest(pinned, request)
    some, every = BacktestFolder(tmp_path), BacktestFolder(full)
    days = every.days()
    assert some.days() == days
    for number, day in enumerate(days):
        same, rest = KINDS[:1], KINDS[1:]
        if number % 3 == 0:
            same, rest = KINDS, ()
        for kind in same:
            assert some.path(kind, day).read_bytes() == every.path(kind, day).read_bytes()
        assert not any(some.has_rows(kind, day) for kind in rest)
    assert summary["days"]["number"] == len(days)
    assert summary["days"]["whole"] == len(days[::3])
    judged = {line["ensemble"]: line["number"] for line in summary["futures"]}
    assert judged["recency"] <= len(days[::3]) * len(summary["origin"]["streams"])


def test_a_run_that_goes_on_judges_futures_as_it_began(
    pinned: Settings, model: Path, tmp_path: Path
) -> None:
    request = BacktestRequest(model, tmp_path, options=OPTIONS, processes=1)
    since = LAST - timedelta(days=4)
    first = replace(request, since=since, until=LAST - timedelta(days=2), futures_every=2)
    backtest(pinned, first)
    assert backtest(pinned, replace(request, since=since))["days"]["whole"] == 3
    with pytest.raises(JudgeError, match="futures_every"):
        backtest(pinned, replace(request, since=since, futures_every=3))


def test_a_folder_without_a_whole_day_has_tables_of_probabilities(
    pinned: Settings, model: Path, tmp_path: Path
) -> None:
    request = BacktestRequest(
        model, tmp_path, since=LAST - timedelta(days=1), options=OPTIONS, futures_every=2
    )
    backtest(pinned, replace(request, processes=1))
    whole = BacktestFolder(tmp_path).days()[0]
    BacktestFolder(tmp_path).path("shares", whole).unlink()
    summary = summarise_folder(tmp_path)
    assert summary["scores"]
    assert (summary["shares"], summary["futures"], summary["expected"]) == ([], [], [])


@pytest.mark.parametrize("days", [1, 119, 120, 121, 358, 500, 826, 840, 5000])
def test_whole_days_are_few_and_of_all_weekdays(days: int) -> None:
    step = spread(days)
    places = np.arange(days)[::step]
    assert 1 <= len(places) <= WHOLE_DAYS
    of_weekday = np.bincount(places % 7, minlength=7)
    assert of_weekday.max() - of_weekday.min() <= 1
    if days >= WHOLE_DAYS:
        assert len(places) > WHOLE_DAYS // 3


def test_published_shares_are_those_of_drawn_days(pinned: Settings, model: Path) -> None:
    predictor = Predictor(pinned, model, number=6)
    judge = BacktestDay(predictor.settings, predictor, OPTIONS)
    answers = judge.ask(LAST - timedelta(days=1))
    for one, future in zip(answers.forecasts["published"], answers.futures, strict=True):
        assert one.share_samples.shape == (6, 20)
        assert np.array_equal(one.share_weights, future.reweighted.weights)


@pytest.mark.parametrize("level", LEVELS)
def test_a_stored_forecast_and_the_backtest_of_its_day_agree_to_the_last_bit(
    level: Level, pinned: Settings, calibrated: Path, tmp_path: Path
) -> None:
    options = BacktestOptions(level, futures=6)
    origin = LAST - timedelta(days=1)
    request = BacktestRequest(
        calibrated, tmp_path / "out", since=LAST, options=options, processes=1
    )
    backtest(pinned, request)
    judged = BacktestFolder(tmp_path / "out").read_day("probabilities", LAST)
    stored = forecast(
        pinned,
        ForecastRequest(calibrated, origin, futures=6, allow_partial=True, out=tmp_path / "f"),
    ).forecast.table("probabilities")
    stored = stored.filter(pc.equal(stored["level"], level))
    one, other = (by_cell(table.to_pylist()) for table in (stored, judged))
    assert one.keys() == other.keys()
    names = set(judged.column_names) & set(stored.column_names) - {"stream", "code", "target"}
    assert {"published", "stack", "profiles", "climatology"} <= names
    for cell, row in one.items():
        for name in names:
            undefined = row[name] is None and np.isnan(other[cell][name])
            assert undefined or row[name] == other[cell][name], (cell, name)


def by_cell(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["stream"], row["code"], row["target"]): row for row in rows}


@pytest.fixture(scope="module")
def calibrated(pinned: Settings, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, calibrated at all levels."""
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(model, folder)
    calibrate(Predictor(pinned, folder))
    return folder


def test_finer_levels_are_judged_as_they_are_published(
    pinned: Settings, model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    options = BacktestOptions("base", futures=6)
    backtest(
        pinned, BacktestRequest(folder, tmp_path / "out", since=LAST, options=options, processes=1)
    )
    there = BacktestFolder(tmp_path / "out")
    rows = there.read_day("probabilities", LAST).to_pylist()
    origin = LAST - timedelta(days=1)
    predictor = Predictor(pinned, folder, number=6)
    roots = predictor.publisher("root").forecast(predictor.known_at("root", origin), origin)
    members = {one.name for one in predictor.publisher("base").all_members()} - {"stack"}
    ceiling = {
        (one.stream, code): chance
        for one in roots
        for code, chance in zip(one.codes, one.occurs, strict=True)
    }
    assert len(rows) == len(predictor.streams) * 146 * len(TARGETS)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        cells.setdefault((row["stream"], row["code"]), {})[row["target"]] = row
    for (stream, code), targets in cells.items():
        row, limit = targets["occurs"], ceiling[stream, code[:2]]
        others = [targets[name]["published"] for name in ("headline", "surge")]
        most = max(value for value in others if value is not None)
        assert most <= row["published"] <= limit
        if most < row["published"]:  # else it was moved, to agree with them
            said = [row[member] for member in members if row[member] is not None]
            held = [
                float(np.clip(row[name], min(said), max(said))) for name in ("combined", "stack")
            ]
            assert row["published"] in (limit, *held)
    assert there.read_day("futures", LAST).num_rows == 0, "they are the same at all levels"


# --- days that may be judged ----------------------------------------------------------------------


def test_days_that_took_part_in_fitting_are_refused(
    pinned: Settings, model: Path, tmp_path: Path
) -> None:
    predictor = Predictor(pinned, model, number=6)
    first = split_days(day_at(0), LAST, pinned.split).test[0]  # missing, as it happens
    early = first - timedelta(days=1)
    with pytest.raises(JudgeError, match=f"first day that may be judged is {first}"):
        days_to_judge(predictor, BacktestRequest(model, tmp_path, since=early))
    allowed = BacktestRequest(model, tmp_path, since=early, allow_fitted=True)
    assert days_to_judge(predictor, allowed)[0] == early
    assert days_to_judge(predictor, BacktestRequest(model, tmp_path))[0] == first + timedelta(
        days=1
    )


def test_settings_that_came_later_do_not_hide_what_was_fitted(
    pinned: Settings, model: Path, tmp_path: Path
) -> None:
    """By another split these would be test days; the model's own records know better."""
    moved = changed(
        pinned,
        "split",
        train_until=day_at(30),
        validation_a_until=day_at(36),
        validation_b_until=day_at(44),
    )
    predictor = Predictor(moved, model, number=6)
    assert predictor.sequences.splits.test[0] < day_at(50)
    with pytest.raises(JudgeError, match="took part in fitting"):
        days_to_judge(predictor, BacktestRequest(model, tmp_path, since=day_at(50)))


def test_a_result_on_fitted_days_says_so(pinned: Settings, model: Path, tmp_path: Path) -> None:
    first = split_days(day_at(0), LAST, pinned.split).test[0]
    since, until = first - timedelta(days=4), first
    request = BacktestRequest(
        model, tmp_path / "out", since, until, options=OPTIONS, allow_fitted=True, processes=1
    )
    assert backtest(pinned, request)["days_in_what_was_fitted"] == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"every": 0}, "from 1 on"),
        ({"since": LAST + timedelta(days=3)}, "no known day"),
    ],
)
def test_days_that_cannot_be_judged(
    pinned: Settings, model: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(JudgeError, match=message):
        days_to_judge(
            Predictor(pinned, model, number=6), BacktestRequest(model, tmp_path, **changes)
        )


def test_an_unknown_forecaster_is_refused(pinned: Settings, model: Path, tmp_path: Path) -> None:
    options = BacktestOptions(forecasters=("prophecy",), futures=6)
    with pytest.raises(JudgeError, match=r"no forecaster 'prophecy'.*published"):
        backtest(pinned, BacktestRequest(model, tmp_path / "out", options=options))


# --- runs that go on ------------------------------------------------------------------------------


def test_a_resumed_run_equals_an_undisturbed_one(
    pinned: Settings, model: Path, full: Path, tmp_path: Path
) -> None:
    request = BacktestRequest(model, tmp_path / "out", options=OPTIONS, processes=1)
    with pytest.raises(Stop):
        backtest(pinned, request, StopsAfter(3))
    assert len(BacktestFolder(request.out).days()) == 3
    part = BacktestFolder(request.out).path("shares", LAST)
    part.with_name(f".{part.name}.1.part").write_bytes(b"half a file")  # of a killed process
    backtest(pinned, request)
    assert files_of(request.out) == files_of(full)


def test_a_second_run_does_only_what_is_missing(
    pinned: Settings, model: Path, full: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(full, out)
    day = BacktestFolder(out).days()[2]
    BacktestFolder(out).path("shares", day).unlink()
    watcher = StopsAfter(-2)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    backtest(pinned, BacktestRequest(model, out, options=OPTIONS, processes=1), watcher)
    assert files_of(out) == files_of(full)
    made = {path for path in out.rglob("*.parquet") if times.get(path) != path.stat().st_mtime_ns}
    assert made == {BacktestFolder(out).path(kind, day) for kind in KINDS}


def test_several_processes_equal_one(
    pinned: Settings, model: Path, full: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    backtest(pinned, BacktestRequest(model, out, until=day_at(71), options=OPTIONS, processes=2))
    days = BacktestFolder(out).days()
    assert len(days) == FEWEST_PORTIONS + 1, "else one process would do it all"
    for day in days:
        for kind in KINDS:
            there, here = (BacktestFolder(folder).path(kind, day) for folder in (full, out))
            assert here.read_bytes() == there.read_bytes()


def test_a_folder_of_another_origin_is_refused(pinned: Settings, model: Path, full: Path) -> None:
    with pytest.raises(JudgeError, match=r"another origin: asked.futures is 6 there and 7 now"):
        backtest(pinned, BacktestRequest(model, full, options=BacktestOptions(futures=7)))


def test_damaged_files_are_told(full: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(full, out)
    path = BacktestFolder(out).path("shares", LAST)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(JudgeError, match=rf"{path} cannot be read .*delete it"):
        summarise_folder(out)
    (out / "run.json").write_text("{}")
    with pytest.raises(JudgeError, match=r"run\.json cannot be read"):
        summarise_folder(out)
    with pytest.raises(JudgeError, match="no backtest in"):
        summarise_folder(tmp_path / "nothing")


# --- no look ahead --------------------------------------------------------------------------------


def same_answers(one: OriginAnswers, other: OriginAnswers) -> None:
    """To the last bit."""
    assert one.forecasts.keys() == other.forecasts.keys()
    for name, forecasts in one.forecasts.items():
        for left, right in zip(forecasts, other.forecasts[name], strict=True):
            for values in (*TARGETS, "share_samples", "share_weights"):
                pair = getattr(left, values), getattr(right, values)
                assert np.array_equal(*pair, equal_nan=True), f"{name} {values}"
    for before, after in zip(one.futures, other.futures, strict=True):
        assert (before.days, before.drawn_phrases) == (after.days, after.drawn_phrases)
        assert np.array_equal(before.points, after.points)
        assert np.array_equal(before.weights, after.weights)
        assert np.array_equal(before.reweighted.weights, after.reweighted.weights)


def test_days_after_the_target_change_no_byte(
    tmp_path_factory: pytest.TempPathFactory,
    pinned: Settings,
    model: Path,
    full: Path,
    tmp_path: Path,
) -> None:
    day = BacktestFolder(full).days()[2]
    own = shorter_world(tmp_path_factory, pinned, tmp_path, day)
    out = tmp_path / "out"
    backtest(own, BacktestRequest(model, out, day, day, options=OPTIONS, processes=1))
    for kind in KINDS:
        there, here = (BacktestFolder(folder).path(kind, day) for folder in (full, out))
        assert here.read_bytes() == there.read_bytes()


def test_a_world_that_ends_with_the_origin_gives_the_same_forecasts(
    tmp_path_factory: pytest.TempPathFactory,
    pinned: Settings,
    model: Path,
    tmp_path: Path,
) -> None:
    origin = LAST - timedelta(days=3)
    own = shorter_world(tmp_path_factory, pinned, tmp_path, origin)
    answers = []
    for world in (pinned, own):
        predictor = Predictor(world, model, number=6)
        answers.append(BacktestDay(predictor.settings, predictor, OPTIONS).ask(origin))
    same_answers(*answers)


def garbled(predictor: Predictor, origin: date) -> Predictor:
    """Random numbers in place of all that the predictor knows of days after the origin."""
    random = np.random.default_rng(3)
    after = slice(predictor.sampler.position(origin) + 1, None)
    predictor._histories["root"] = garble(predictor.history("root"), origin)
    outlook = predictor.sampler.arrays
    for name in ("occurs", "headline", "shares", "thresholds", "pooled", "usual", "relative"):
        values = getattr(outlook, name)[:, after]
        values[:] = random.random(values.shape) > 0.5
    outlook.features[:, after] = random.normal(size=outlook.features[:, after].shape)
    return predictor


def test_garbage_after_the_origin_changes_no_forecast(pinned: Settings, model: Path) -> None:
    origin = LAST - timedelta(days=3)
    honest = Predictor(pinned, model, number=6)
    before = BacktestDay(honest.settings, honest, OPTIONS).ask(origin)
    predictor = garbled(Predictor(pinned, model, number=6), origin)
    same_answers(before, BacktestDay(predictor.settings, predictor, OPTIONS).ask(origin))
    predictor = garbled(Predictor(pinned, model, number=6), origin - timedelta(days=1))
    with pytest.raises((AssertionError, ForecastError)):  # garbage is noticed where it may be
        same_answers(before, BacktestDay(predictor.settings, predictor, OPTIONS).ask(origin))


# --- the command ----------------------------------------------------------------------------------


def test_the_command_judges_and_prints(
    pinned: Settings,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables(pinned).items():
        monkeypatch.setenv(name, value)
    for part in ("train", "validation_a", "validation_b"):
        end = getattr(pinned.split, f"{part}_until")
        monkeypatch.setenv(f"GDELPHI_SPLIT_{part.upper()}_UNTIL", str(end))
    out = tmp_path / "out"
    call = [
        "gdelphi", "backtest", "--model", str(model), "--out", str(out), "--futures", "6",
        "--forecasters", "published,recency", "--every", "3", "--processes", "1", "--no-text",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", call)
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 0, shown.err
    assert "all cells, skill against the stack" in shown.out
    assert "whole futures" in shown.out
    columns = pq.read_schema(next((out / "scores" / "probabilities").iterdir())).names
    assert columns[4:] == ["published", "stack", "recency"]
    monkeypatch.setattr("sys.argv", ["gdelphi", "backtest", "--out", str(out), "--summarise",
                                     "--json"])  # fmt: skip
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["days"]["number"] == len(BacktestFolder(out).days())
