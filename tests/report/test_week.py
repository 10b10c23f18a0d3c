"""The week in a report: its numbers are the tables', and every form of the report carries it."""

import csv
import io
import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.percent import percent, thousandths
from gdelphi.common.settings import Settings
from gdelphi.forecast.stored_week import StoredWeek
from gdelphi.report.content import Report
from gdelphi.report.markdown import markdown
from gdelphi.report.page import render
from gdelphi.report.payload import payload
from gdelphi.report.tables import csv_files
from gdelphi.report.week import NO_WEEK, RANKED_BY_ANY, span, week_report
from gdelphi.report.week_content import WeekSkill
from gdelphi.report.week_record import JudgedRecord
from helpers.report_checks import ORIGIN, check, forecasts, made, settings, streams
from helpers.report_example import ORIGIN as EXAMPLE_ORIGIN
from helpers.report_example import example_report
from helpers.report_hostile import HOSTILE, hostile_report
from helpers.report_week import ROOTS, example_week
from helpers.report_world import recipe_at, stored

__all__ = ["forecasts", "settings", "streams"]


@pytest.fixture(scope="module")
def report() -> Report:
    return example_report(streams=("KE", "UP"))


@pytest.fixture(scope="module")
def said() -> StoredWeek:
    return example_week(("KE", "UP"), EXAMPLE_ORIGIN)


# --- from the tables of a stored forecast ---------------------------------------------------------


@pytest.fixture(scope="module")
def written(
    settings: Settings, streams: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("week") / "forecasts"
    stored(folder, recipe_at(ORIGIN, streams, week=True))
    return made(settings, folder).folder


def test_numbers_are_those_of_the_tables(written: Path, streams: tuple[str, ...]) -> None:
    told, week = check(written), example_week(streams, ORIGIN)
    assert told["week"]["days"] == [day.isoformat() for day in week.days]
    for country in told["countries"]:
        for root in country["week"]["roots"]:
            rows = week.rows[country["stream"], root["code"]]
            assert root["rows"] == [round(value or 0, 5) for value in rows.expected]
            assert root["onset"] == rows.onset
            for target in root["targets"]:
                cell = week.cells[country["stream"], root["code"], target["target"]]
                if (cell.code, cell.target) == (ROOTS[-1], "surge"):
                    assert target["within"]["published"] is None
                    continue
                for chance, stored_chance in zip(
                    (*target["days"], target["within"]), (*cell.days, cell.within), strict=True
                ):
                    for name, value in stored_chance._asdict().items():
                        assert chance[name] == round(value, 5)
    possible = {root["code"]: root for root in told["countries"][0]["week"]["roots"]}
    assert (possible["01"]["possible"], possible["01"]["weight"]) == (4, 1.0)
    assert (possible["19"]["possible"], possible["19"]["weight"]) == (1, 0.25)
    assert told["countries"][0]["week"]["possible"] == 4


def test_a_countrys_escalation_is_null_where_it_is_not_asked_about(written: Path) -> None:
    first, last = check(written)["countries"]
    assert first["week"]["escalation"]["published"] is not None
    assert last["week"]["escalation"] is None


def test_the_feed_and_the_front_page_carry_the_sentences(written: Path) -> None:
    sentence = check(written)["week"]["sentences"][0]
    assert sentence in (written.parent / "feed.xml").read_text(encoding="utf-8")
    front = (written.parent / "index.html").read_text(encoding="utf-8")
    assert sentence.split("“")[0] in front


def test_a_forecast_of_tomorrow_alone_gives_the_report_with_a_line(
    settings: Settings, forecasts: Path
) -> None:
    folder = made(settings, forecasts).folder
    told = check(folder)
    assert told["week"] is None
    assert all(country["week"] is None for country in told["countries"])
    for name in ("index.html", "report.md"):
        text = (folder / name).read_text(encoding="utf-8")
        assert NO_WEEK in text
        assert "seven days" not in text.split("Largest changes")[0].split("<main")[-1]
    assert (folder / "week.csv").read_text().count("\n") == 1  # the names of its columns


def test_a_report_of_before_there_were_weeks_is_read(report: Report) -> None:
    old = json.loads(report.model_dump_json())
    del old["week"]
    for country in old["countries"]:
        del country["week"]
    read = Report.model_validate(old)
    assert NO_WEEK in render(read)


# --- words ----------------------------------------------------------------------------------------


def test_the_sentences_say_where_what_and_how_far(report: Report, said: StoredWeek) -> None:
    week = report.week
    assert week is not None
    where, what, trust = week.sentences
    country = week.unusual[0]
    first = country.events[0]
    assert country.published is not None and country.usual is not None
    joined = f"surges with {percent(country.published)}, usually {percent(country.usual)}"
    assert f"in {country.name}: some kind of it {joined}; above all “{first.label}”" in where
    assert f"with {percent(first.published)}, usually {percent(first.usual)}" in where
    assert "to Tuesday 21 March 2023" in where
    assert what.startswith("The most unusual of all events is in ")
    assert what not in where and "likeliest on " in what
    assert "no forecast of a week has been judged yet" in trust
    # With the week as it was forecast a day before, what has risen most.
    low = said.cells["KE", "14", "headline"]
    before = {
        **said.cells,
        ("KE", "14", "headline"): replace(low, within=low.within._replace(published=0.01)),
    }
    rows = {**said.rows, ("KE", "14"): said.rows["KE", "14"]._replace(usual=(2.0,) * 7)}
    risen = week_report(replace(said, rows=rows), report.record, None, replace(said, cells=before))
    assert risen.sentences[1] == (
        "Since the last forecast most has risen in Kenya: “Protest” is a headline on at least one "
        f"day with {percent(low.within.published)}, a day ago 1%."
    )
    # Without the joint number, as in older forecasts, countries are ranked by the sum.
    old = week_report(replace(said, conflict={}), report.record)
    assert "some kind of it" not in old.sentences[0] and "added up" in old.ranked_by
    quiet = {key: rows._replace(usual=(0.0,) * 7) for key, rows in said.rows.items()}
    calm = week_report(StoredWeek(**{**vars(said), "rows": quiet}), report.record)
    assert "in no country clearly above its usual" in calm.sentences[0]
    assert calm.sentences[1] == "Nothing else is far above its usual."


@pytest.mark.parametrize(
    ("skill", "low", "high", "words"),
    [
        (0.05, 0.02, 0.08, "5.0% better than by the simple stack (95% interval 2.0% to 8.0%)"),
        (-0.01, -0.03, 0.02, "1.0% worse than by the simple stack (95% interval -3.0% to 2.0%, "),
    ],
)
def test_a_record_of_the_week_is_told_and_shown(
    report: Report, said: StoredWeek, skill: float, low: float, high: float, words: str
) -> None:
    own = WeekSkill(brier=0.1234, skill=skill, low=low, high=high, days=61)
    judged_weeks = JudgedRecord("forecasts", {0: {"headline": own}, 3: {"surge": own}})
    week = week_report(said, report.record, judged_weeks)
    assert (
        f"over 61 overlapping weeks headlines within the week were forecast {words}"
        in (week.sentences[2])
    )
    assert ("no proof" in week.sentences[2]) == (low <= 0)
    judged = Report.model_validate_json(report.model_copy(update={"week": week}).model_dump_json())
    page, text = render(judged), markdown(judged)
    assert "0.1234" in page and "day 3" in page and "within the week</th>" in page
    assert "| day 3 | surge | 0.12340 |" in text
    assert "It is not known yet" not in page
    assert "It is not known yet" in render(report)
    assert "is not known yet" in markdown(report)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2021-09-11", "2021-09-17", "Saturday 11 to Friday 17 September 2021"),
        ("2021-09-28", "2021-10-04", "Tuesday 28 September to Monday 4 October 2021"),
        ("2021-12-28", "2022-01-03", "Tuesday 28 December 2021 to Monday 3 January 2022"),
    ],
)
def test_days_are_told_with_as_little_as_needed(first: str, last: str, words: str) -> None:
    assert span(date.fromisoformat(first), date.fromisoformat(last)) == words


# --- page, document, tables -----------------------------------------------------------------------


def test_the_page_begins_with_the_week(report: Report) -> None:
    week = report.week
    assert week is not None
    page = render(report)
    top = page[: page.index('id="section-changes"')]
    for words in (RANKED_BY_ANY, f"{week.onset_cells} events had no report", "Conflict may double"):
        assert words in top
    country = week.unusual[0]
    assert f'<a href="#{country.stream}"><bdi>{country.name}' in top
    assert f"<strong>{percent(country.events[0].published)}</strong>, usually" in top


def test_the_strip_has_the_numbers_of_the_report(report: Report) -> None:
    data: dict[str, Any] = payload(report)
    week = report.countries[0].week
    assert week is not None and data["week"][0] == "2023-03-15"
    strip = data["countries"][0]["week"]
    codes = [data["codes"][root["code"]][0] for root in strip["roots"]]
    assert codes == week.shown
    root = next(root for root in week.roots if root.code == codes[0])
    published, usual = strip["roots"][0]["targets"][1]
    headline = root.targets[1]
    assert published[:7] == [thousandths(day.published or 0) for day in headline.days]
    assert published[7] == thousandths(headline.within.published or 0)
    assert usual[7] == thousandths(headline.within.usual or 0)
    assert strip["roots"][0]["having"] == [root.possible, thousandths(root.weight)]
    assert strip["possible"] == 100


def test_the_document_has_the_week_first_and_each_countrys_days(report: Report) -> None:
    week = report.week
    assert week is not None
    text = markdown(report)
    assert text.index("## The next seven days") < text.index("## The largest changes")
    for sentence in week.sentences:
        assert sentence in text
    kenya = text[text.index("## Kenya (KE)") :]
    assert "| event | Wed 15 | Thu 16 |" in kenya
    assert "of 100, " in kenya


def test_tables_have_every_number_of_the_week(report: Report) -> None:
    files = {name: list(csv.DictReader(io.StringIO(t))) for name, t in csv_files(report).items()}
    assert len(files["week.csv"]) == 2 * 20 * 3 * 8
    row = files["week.csv"][7]
    week = report.countries[0].week
    assert week is not None
    assert (row["stream"], row["code"], row["target"], row["horizon"], row["day"]) == (
        "KE", "cameo-01", "occurs", "week", "",
    )  # fmt: skip
    assert float(row["published"]) == week.roots[0].targets[0].within.published
    assert files["week.csv"][0]["day"] == "2023-03-15"
    assert len(files["week_rows.csv"]) == 2 * 20 * 7
    assert float(files["week_rows.csv"][0]["rows"]) == week.roots[0].rows[0]
    assert [row["stream"] for row in files["escalations.csv"]] == ["KE", "UP"]


def test_hostile_text_of_the_week_stays_text() -> None:
    hostile = hostile_report()
    assert hostile.week is not None and hostile.week.sentences == [HOSTILE] * 3
    page = render(hostile)
    assert "<script>window" not in page and "<img" not in page
    assert not [line for line in markdown(hostile).splitlines() if line.startswith("<")]
