"""Making a report: its files, what stands at its top, and the lists of all reports."""

import json
import os
import shutil
import xml.etree.ElementTree as ET
from datetime import date, timedelta
from pathlib import Path

import jsonschema
import pytest
import typer
from typer.testing import CliRunner

from gdelphi.app.commands import report as report_command
from gdelphi.common.checksums import damaged_files
from gdelphi.common.errors import ForecastError, ReportError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import split_days
from gdelphi.report.banners import days_needed
from gdelphi.report.content import MEASURES_NEWS, Report
from gdelphi.report.feed import ATOM
from gdelphi.report.lists import CACHE, write_lists
from gdelphi.report.report import (
    report_schema,
)
from helpers.measured_world import DAYS, changed, copied_store, day_at
from helpers.report_checks import AFTER, ORIGIN, check, forecasts, made, settings, streams
from helpers.report_world import recipe_at, stored, write_backtest

__all__ = ["forecasts", "settings", "streams"]

FILES = {
    "index.html", "report.md", "report.json", "report.schema.json", "probabilities.csv",
    "shares.csv", "events.csv", "changes.csv", "week.csv", "week_rows.csv", "escalations.csv",
    "charts",
}  # fmt: skip


# --- files ----------------------------------------------------------------------------------------


def test_a_report_is_a_folder_with_all_its_files(settings: Settings, forecasts: Path) -> None:
    written = made(settings, forecasts)
    out = forecasts.parent / "reports"
    assert written.folder == out / ORIGIN.isoformat()
    assert {path.name for path in written.folder.iterdir()} == {*FILES, "checksums.txt"}
    assert {path.name for path in out.iterdir()} == {
        ORIGIN.isoformat(), "index.html", "feed.xml", ".lock", CACHE, "checksums.txt",
    }  # fmt: skip
    content = check(written.folder)
    assert Report.model_validate(content) == written.report
    assert content["note"] == MEASURES_NEWS
    assert (content["origin"], content["target_day"]) == (str(ORIGIN), str(AFTER))
    assert content["title"] in (written.folder / "index.html").read_text(encoding="utf-8")


def test_the_schema_refuses_what_is_no_report(settings: Settings, forecasts: Path) -> None:
    content = check(made(settings, forecasts).folder)
    checker = jsonschema.validators.validator_for(report_schema())
    for broken in (
        {**content, "more": 1},
        {**content, "origin": None},
        {**content, "countries": [{}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            checker(report_schema()).validate(broken)


def test_a_report_made_again_takes_the_place_of_the_old(
    settings: Settings, forecasts: Path
) -> None:
    first = made(settings, forecasts)
    (first.folder / "report.md").write_text("old")
    (first.folder / "note.txt").write_text("an analyst's own")
    second = made(changed(settings, "report", title="Another"), forecasts)
    assert second.folder == first.folder
    assert (first.folder / "report.md").read_text().startswith("# Another: ")
    assert check(first.folder)["title"] == "Another"
    assert (first.folder / "note.txt").exists()
    assert [path.name for path in first.folder.parent.glob(".2*")] == []


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_page_that_cannot_be_made_leaves_the_old_report(
    settings: Settings, forecasts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(settings, forecasts)
    before = contents(first.folder)

    def broken(*_: object) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr("gdelphi.report.page.render", broken)
    with pytest.raises(RuntimeError, match="no page"):
        made(changed(settings, "report", title="Another"), forecasts)
    assert contents(first.folder) == before


def test_a_folder_that_cannot_be_written_is_told(settings: Settings, forecasts: Path) -> None:
    taken = forecasts.parent / "taken"
    taken.write_text("a file")
    with pytest.raises(ReportError, match="name another folder with --out"):
        made(settings, forecasts, out=taken)


# --- lists ----------------------------------------------------------------------------------------


def entries(out: Path) -> list[str]:
    root = ET.parse(out / "feed.xml").getroot()
    return [each.attrib["href"] for each in root.findall(f"{{{ATOM}}}entry/{{{ATOM}}}link")]


def test_lists_have_all_reports_but_damaged_ones(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    for number in (68, 69):
        stored(forecasts, recipe_at(day_at(number), streams))
        made(settings, forecasts, origin=day_at(number))
    written = made(settings, forecasts)
    out = written.folder.parent
    assert entries(out) == [f"{day_at(number)}/index.html" for number in (70, 69, 68)]
    assert written.warnings == []
    damaged = out / str(day_at(69)) / "report.json"
    damaged.write_text(damaged.read_text()[:100])
    again = made(settings, forecasts)
    assert entries(out) == [f"{day_at(number)}/index.html" for number in (70, 68)]
    assert len(again.warnings) == 1
    assert str(damaged) in again.warnings[0]
    front = (out / "index.html").read_text(encoding="utf-8")
    assert f"{day_at(68)}/" in front and f"{day_at(69)}/" not in front


def test_what_is_kept_for_lists_is_not_trusted(settings: Settings, forecasts: Path) -> None:
    written = made(settings, forecasts)
    out = written.folder.parent
    kept = json.loads((out / CACHE).read_text())
    kept[str(ORIGIN)]["head"]["title"] = "kept"
    (out / CACHE).write_text(json.dumps(kept))
    write_lists(out, title="t", address=None)
    assert "kept: " in (out / "feed.xml").read_text()  # the mark is of this file
    os.utime(written.folder / "report.json", ns=(1, 1))
    write_lists(out, title="t", address=None)
    assert "kept: " not in (out / "feed.xml").read_text()
    for broken in ("no json", "[1]", json.dumps({str(ORIGIN): {"mark": [1, 2]}})):
        (out / CACHE).write_text(broken)
        assert write_lists(out, title="t", address=None) == []
        assert entries(out) == [f"{ORIGIN}/index.html"]


def test_a_report_whose_folder_is_deleted_is_in_no_list(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    stored(forecasts, recipe_at(day_at(69), streams))
    old = made(settings, forecasts, origin=day_at(69)).folder
    shutil.rmtree(old)
    assert entries(made(settings, forecasts).folder.parent) == [f"{ORIGIN}/index.html"]


def test_a_report_lies_beside_that_of_a_week_before(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    stored(forecasts, recipe_at(ORIGIN - timedelta(days=7), streams))
    before = made(settings, forecasts, origin=ORIGIN - timedelta(days=7)).folder
    now = made(settings, forecasts).folder
    assert not (before / "beside.html").exists()
    assert f'src="../{before.name}/index.html"' in (now / "beside.html").read_text()
    assert 'href="beside.html"' in (now / "index.html").read_text()
    assert 'href="beside.html"' not in (before / "index.html").read_text()


def test_charts_are_pictures_too_where_that_is_wanted(settings: Settings, forecasts: Path) -> None:
    folder = made(changed(settings, "report", charts="png"), forecasts).folder / "charts"
    assert (
        {path.stem for path in folder.glob("*.png")}
        == {path.stem for path in folder.glob("*.svg")}
        != set()
    )
    assert damaged_files(folder.parent) == []


# --- what stands at the top -----------------------------------------------------------------------


def test_latest_is_the_newest_origin_with_a_forecast(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    stored(forecasts, recipe_at(day_at(60), streams))
    stored(forecasts, recipe_at(day_at(72), streams, horizon=2))
    assert made(settings, forecasts).report.origin == ORIGIN
    earlier = made(settings, forecasts, as_of=day_at(61)).report
    assert earlier.origin == day_at(60)  # as of that day the other lies ahead


def test_a_good_report_has_only_the_banners_that_are_true(
    settings: Settings, forecasts: Path
) -> None:
    report = made(settings, forecasts).report
    assert not (report.partial or report.hindsight or report.stale)
    late, missing = report.banners  # the forecast is made now, the days are of 2021
    assert late.startswith("Made afterwards:") and str(AFTER) in late
    assert missing.startswith("2 days of the last 60 are missing")
    assert [(gap.first, gap.last) for gap in report.missing] == [
        (day_at(20), day_at(20)), (day_at(66), day_at(66)),
    ]  # fmt: skip


def test_partial_stale_and_hindsight_are_told(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    recipe = recipe_at(ORIGIN, streams, partial=True)
    stored(tmp_path / "f", recipe, fitted_until=day_at(75))
    report = made(settings, tmp_path / "f", as_of=ORIGIN + timedelta(days=3)).report
    assert report.partial and report.hindsight and report.stale
    banners = " ".join(report.banners)
    assert "Partial: " in banners
    assert f"Stale: the last news day in this report is {ORIGIN}, 3 days before" in banners
    assert f"In hindsight: what is published was fitted on days up to {day_at(75)}" in banners
    assert not made(settings, tmp_path / "f", as_of=ORIGIN + timedelta(days=2)).report.stale


def test_a_model_without_skill_is_told_at_the_top(
    settings: Settings, forecasts: Path, tmp_path: Path
) -> None:
    days = [day_at(number) for number in range(30)]
    probabilities = {"published": 0.9, "stack": 0.5}
    write_backtest(
        tmp_path / "bt", days, probabilities, lambda day, *_: day.day % 2, first_allowed=days[0]
    )
    report = made(changed(settings, "report", backtest=tmp_path / "bt"), forecasts).report
    assert report.record.skilful is False
    assert report.banners[0] == report.record.verdict
    assert report.banners[0].startswith("No skill over the baselines has been shown.")


def test_a_damaged_forecast_elsewhere_is_told_and_the_report_comes_out(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    broken = stored(forecasts, recipe_at(day_at(50), streams))
    (broken.folder / "forecast.json").write_text("{")
    yesterdays = stored(forecasts, recipe_at(day_at(69), streams, week=True))
    (yesterdays.folder / "week.parquet").write_bytes(b"")
    report = made(settings, forecasts).report
    banners = [each for each in report.banners if "A stored forecast was passed over" in each]
    assert len(banners) == 2
    assert str(broken.folder) in banners[0] and str(yesterdays.folder) in banners[1]
    assert report.countries[0].probabilities[0].yesterday is None


def test_a_damaged_forecast_of_the_origin_itself_is_refused(
    settings: Settings, streams: tuple[str, ...], tmp_path: Path
) -> None:
    broken = stored(tmp_path / "f", recipe_at(ORIGIN, streams))
    (broken.folder / "brief.parquet").write_bytes(b"")
    with pytest.raises(ForecastError, match=r"brief.parquet is not what was written"):
        made(settings, tmp_path / "f")


def test_a_watchlist_narrows_changes_and_strangers_are_told(
    settings: Settings, streams: tuple[str, ...], forecasts: Path
) -> None:
    watching = changed(settings, "report", watchlist=(streams[1], "ZZ"))
    report = made(watching, forecasts).report
    assert report.watchlist == [streams[1]]
    assert {each.stream for each in report.changes} == {streams[1]}
    assert any("The watchlist names ZZ" in banner for banner in report.banners)
    assert made(settings, forecasts).report.watchlist == list(streams)


# --- without a forecast ---------------------------------------------------------------------------


def test_a_store_too_short_to_train_says_so_and_shows_what_it_has(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    settings = copied_store(tmp_path_factory, tmp_path)
    last = date(2014, 1, 15)
    written = made(settings, tmp_path / "forecasts", as_of=last + timedelta(days=1))
    report = written.report
    check(written.folder)
    assert (report.origin, report.provenance.forecast) == (last, None)
    needed = days_needed(settings)
    assert f"too short to train. The store has 10 days, 2014-01-06 to {last}" in report.banners[0]
    assert f"a model needs at least {needed}" in report.banners[0]
    assert len(report.countries) == 3
    assert report.changes == []
    assert all(sum(rows or 0 for rows in country.rows) > 0 for country in report.countries)
    assert (written.folder / "index.html").exists()


def test_the_days_needed_are_the_fewest_that_can_be_split() -> None:
    settings = Settings()
    needed = days_needed(settings)
    assert needed is not None
    first = date(2000, 1, 1)
    parts = split_days(first, first + timedelta(days=needed - 1), settings.split)
    assert (parts.train[1] - first).days == settings.sequences.context_days
    assert days_needed(changed(settings, "split", train_until=date(2020, 1, 1))) is None


def test_a_long_store_without_forecast_says_what_to_run(settings: Settings, tmp_path: Path) -> None:
    short = changed(changed(settings, "sequences", context_days=10), "split", embargo_days=2)
    report = made(short, tmp_path / "none", as_of=day_at(DAYS)).report
    assert report.origin == day_at(DAYS - 1)
    assert report.banners[0].startswith("No forecast: none has been made.")
    assert "`gdelphi forecast`" in report.banners[0]


def test_an_origin_without_forecast_shows_its_day(settings: Settings, forecasts: Path) -> None:
    report = made(settings, forecasts, origin=day_at(50)).report
    assert (report.origin, report.provenance.forecast) == (day_at(50), None)
    assert report.countries[0].latest


def test_a_day_that_the_store_does_not_have_is_refused(settings: Settings, forecasts: Path) -> None:
    with pytest.raises(ReportError, match="take another --origin"):
        made(settings, forecasts, origin=date(1999, 1, 1))


def test_an_empty_store_has_nothing_to_report(tmp_path: Path) -> None:
    from gdelphi.store.connection import Store

    settings = Settings(store=tmp_path / "s.duckdb")
    with Store(settings).writing():
        pass
    with pytest.raises(ReportError, match="nothing to report"):
        made(settings, tmp_path / "f")


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.callback()(lambda: None)
    made.command("report")(report_command.command)
    return made


def call(settings: Settings, forecasts: Path, *more: str) -> list[str]:
    out = forecasts.parent / "reports"
    return [
        "report", "--store", str(settings.store), "--forecasts", str(forecasts), "--out", str(out),
        "--as-of", str(AFTER), *more,
    ]  # fmt: skip


def test_the_command_says_where_the_report_is(
    settings: Settings, forecasts: Path, app: typer.Typer
) -> None:
    result = CliRunner().invoke(app, call(settings, forecasts))
    assert result.exit_code == 0, result.output
    assert f"from {ORIGIN}" in result.stdout
    assert "index.html" in result.stdout


def test_the_command_prints_json(settings: Settings, forecasts: Path, app: typer.Typer) -> None:
    result = CliRunner().invoke(app, call(settings, forecasts, "--json", "--origin", str(ORIGIN)))
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert (content["origin"], content["streams"]) == (str(ORIGIN), 2)
    assert set(content["files"]) == FILES
    assert content["record"]["source"] == "none"
