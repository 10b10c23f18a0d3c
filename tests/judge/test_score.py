"""Scores of stored forecasts: when their day has come, once, and beside them."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gdelphi.app.cli import main
from gdelphi.common.errors import JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS
from gdelphi.forecast.archive import (
    ForecastArchive,
    Recipe,
    StoredForecast,
)
from gdelphi.judge.files import read_table, scores_path, write_table
from gdelphi.judge.score import score_forecasts, scores_of
from gdelphi.measures.profiles import read_profiles, standard_events
from gdelphi.measures.targets import outcomes
from gdelphi.scores.probabilities import brier
from gdelphi.store.ingest import ingest
from helpers.archives import event_lines
from helpers.edited import flip_bit
from helpers.measured_world import DAY, DAYS, day_at, measured, small_store

LEVELS = ("root", "base", "full")
LATER = date(2030, 1, 1)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return measured(tmp_path_factory).settings


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return measured(tmp_path_factory).pack.facts.streams[:2]


def recipe_at(origin: date, streams: tuple[str, ...]) -> Recipe:
    return Recipe(
        origin=origin, horizon=1, streams=streams, partial=False, data="d", model="m", futures=3,
        seed=0, gdelphi="0",
    )  # fmt: skip


def stored(folder: Path, recipe: Recipe, fitted_until: date | None = None) -> StoredForecast:
    """A forecast that says 0.3 of everything, the stack 0.5."""
    rows = [
        {"stream": stream, "level": level, "code": code, "target": target}
        for stream in recipe.streams
        for level in LEVELS
        for target in TARGETS
        for code in standard_events(level)
    ]
    table = pa.Table.from_pylist(rows)
    values = {"published": 0.3, "stack": 0.5, "ewma": 0.4, "futures": 0.3}
    for name, value in values.items():
        table = table.append_column(name, pa.array(np.full(len(table), value)))
    table = table.append_column("which", pa.array(["combined"] * len(table)))
    until = fitted_until or recipe.origin - timedelta(days=9)
    return ForecastArchive(folder).put(recipe, {"probabilities": table}, fitted_until=until)


def test_a_forecast_is_held_against_its_day(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    origin = day_at(70)
    made = stored(tmp_path, recipe_at(origin, streams))
    result = score_forecasts(settings, tmp_path, as_of=LATER)
    assert result.scored == [made.manifest.id]
    table = read_table(scores_path(tmp_path, origin, made.manifest.id)).to_pylist()
    outcome_of = outcomes(read_profiles(settings, "root", streams), origin)
    codes = standard_events("root")
    for row in table:
        if row["level"] == "root":
            place = streams.index(row["stream"]), codes.index(row["code"])
            outcome = outcome_of[row["target"]][place]
            assert row["outcome"] == outcome or (np.isnan(outcome) and np.isnan(row["outcome"]))
            assert (row["published"], row["stack"], row["ewma"]) == (0.3, 0.5, 0.4)
    assert not {"which", "futures"} & table[0].keys()
    standing = {(line.level, line.target): line for line in result.standings}["root", "occurs"]
    assert standing.days == 1
    assert standing.published == pytest.approx(brier(np.array(0.3), outcome_of["occurs"]).mean())


def test_scoring_again_does_only_what_is_new(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    first = stored(tmp_path, recipe_at(day_at(70), streams))
    score_forecasts(settings, tmp_path, as_of=LATER)
    path = scores_path(tmp_path, day_at(70), first.manifest.id)
    before = path.read_bytes(), path.stat().st_mtime_ns
    second = stored(tmp_path, recipe_at(day_at(71), streams))
    result = score_forecasts(settings, tmp_path, as_of=LATER)
    assert (result.scored, result.known) == ([second.manifest.id], 1)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert result.standings[0].days == 2
    assert score_forecasts(settings, tmp_path, as_of=LATER).scored == []


def test_scores_without_probabilities_and_damaged_ones_are_made_again(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    made = stored(tmp_path, recipe_at(day_at(70), streams))
    score_forecasts(settings, tmp_path, as_of=LATER)
    path = scores_path(tmp_path, day_at(70), made.manifest.id)
    right = path.read_bytes()
    earlier = read_table(path).rename_columns(
        [f"{name} brier" if name in ("published", "stack", "ewma") else name
         for name in read_table(path).column_names]
    )  # fmt: skip
    write_table(earlier, path)
    assert score_forecasts(settings, tmp_path, as_of=LATER).scored == [made.manifest.id]
    assert path.read_bytes() == right
    path.write_bytes(right[: len(right) // 2])
    assert score_forecasts(settings, tmp_path, as_of=LATER).scored == [made.manifest.id]
    assert path.read_bytes() == right


def test_the_forecast_itself_stays_as_it_was(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    recipe = recipe_at(day_at(70), streams)
    stored(tmp_path, recipe)
    score_forecasts(settings, tmp_path, as_of=LATER)
    store = ForecastArchive(tmp_path)
    assert store.find(recipe) is not None
    assert len(store.list()) == 1


def test_a_day_that_has_not_come_or_is_missing_is_waited_for(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(day_at(DAYS - 1), streams))
    stored(tmp_path, recipe_at(day_at(65), streams))  # the archive lacks the day after
    result = score_forecasts(settings, tmp_path, as_of=LATER)
    assert (result.scored, result.waiting, result.standings) == ([], 2, [])


def test_hindsight_is_scored_and_in_no_table(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    recipe = replace(recipe_at(day_at(70), streams), seed=1)
    stored(tmp_path, recipe, fitted_until=day_at(75))
    result = score_forecasts(settings, tmp_path, as_of=LATER)
    assert (len(result.scored), result.hindsight, result.standings) == (1, 1, [])


def test_the_command_scores_and_prints(
    settings: Settings,
    streams: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(tmp_path, recipe_at(day_at(70), streams))
    stored(tmp_path, recipe_at(day_at(DAYS - 1), streams))
    call = ["gdelphi", "score", "--forecasts", str(tmp_path), "--store", str(settings.store)]
    monkeypatch.setattr("sys.argv", call)
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 0, shown.err
    assert "published against the stack" in shown.out
    monkeypatch.setattr("sys.argv", [*call, "--json"])
    with pytest.raises(SystemExit):
        main()
    content = json.loads(capsys.readouterr().out)
    assert (content["scored"], content["known"], content["waiting"]) == ([], 1, 1)


def test_a_folder_without_forecasts_is_told(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="no forecasts in"):
        score_forecasts(settings, tmp_path)


def test_scores_are_made_again_when_a_day_changes_at_its_source(tmp_path: Path) -> None:
    maker, settings = small_store(tmp_path, days=12)
    origin = DAY + timedelta(days=9)
    made = stored(tmp_path / "forecasts", recipe_at(origin, ("KE",)))
    assert score_forecasts(settings, tmp_path / "forecasts", as_of=LATER).scored
    path = scores_path(tmp_path / "forecasts", origin, made.manifest.id)
    before = read_table(path)["outcome"].to_pylist()
    maker.day(origin + timedelta(days=1), event_lines([9001], origin, ActionGeo_CountryCode="KE"))
    maker.write_lists()
    ingest(settings)
    assert score_forecasts(settings, tmp_path / "forecasts", as_of=LATER).scored == [
        made.manifest.id
    ]
    after = read_table(path)["outcome"].to_pylist()
    fresh = [str(value) for value in scores_of(settings, made)["outcome"].to_pylist()]
    assert before != after and [str(value) for value in after] == fresh
    assert score_forecasts(settings, tmp_path / "forecasts", as_of=LATER).known == 1


def test_a_damaged_forecast_is_named_and_the_others_are_scored(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    bad, worse, good = (stored(tmp_path, recipe_at(day_at(day), streams)) for day in (68, 69, 70))
    (bad.folder / "forecast.json").write_text("garbage")
    flip_bit(worse.folder / "probabilities.parquet", 200)
    result = score_forecasts(settings, tmp_path, as_of=LATER)
    assert result.scored == [good.manifest.id] and len(result.damaged) == 2
    assert bad.manifest.id in result.damaged[0] and worse.manifest.id in result.damaged[1]


def test_several_processes_score_one_after_another(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    made = [stored(tmp_path, recipe_at(day_at(day), streams)) for day in (68, 69, 70)]
    with ThreadPoolExecutor(3) as pool:
        results = list(
            pool.map(lambda _: score_forecasts(settings, tmp_path, as_of=LATER), range(3))
        )
    assert sorted(one for each in results for one in each.scored) == sorted(
        each.manifest.id for each in made
    ), "each was scored once"
