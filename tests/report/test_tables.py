"""CSV files: what is in them, and that no spreadsheet runs them."""

import csv
import io
from datetime import timedelta

import pandas  # type: ignore[import-untyped]
import pytest

from gdelphi.common.texts import guarded
from gdelphi.report.content import Report
from gdelphi.report.tables import (
    as_csv,
    csv_files,
)
from helpers.report_example import example_report
from helpers.report_hostile import HOSTILE, hostile_report


def read(report: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_files(report)[name])))


@pytest.fixture(scope="module")
def report() -> Report:
    return example_report(streams=("KE", "UP"))


def test_every_probability_is_a_row(report: Report) -> None:
    rows = read(report, "probabilities.csv")
    probabilities = [(c.stream, p) for c in report.countries for p in c.probabilities]
    assert len(rows) == len(probabilities)
    for row, (stream, probability) in zip(rows, probabilities, strict=True):
        assert (row["stream"], row["code"], row["target"]) == (
            stream,
            f"cameo-{probability.code}",
            probability.target,
        )
        assert float(row["published"]) == probability.published
        assert float(row["member profiles"]) == probability.members["profiles"]
        assert row["target_day"] == report.target_day.isoformat()


def test_shares_are_past_days_and_the_forecast(report: Report) -> None:
    rows = [
        row
        for row in read(report, "shares.csv")
        if (row["stream"], row["code"]) == ("KE", f"cameo-{report.countries[0].shares[0].code}")
    ]
    assert len(rows) == len(report.days) + 1
    assert rows[-1]["day"] == (report.origin + timedelta(days=1)).isoformat()
    assert (rows[-1]["kind"], rows[0]["kind"]) == ("forecast", "past")
    assert float(rows[-1]["q95"]) == report.countries[0].shares[0].q95
    assert rows[17]["share"] == ""  # a missing day


def test_without_a_forecast_shares_are_the_past_alone() -> None:
    report = example_report(streams=("KE",), forecast=False)
    assert {row["kind"] for row in read(report, "shares.csv")} == {"past"}
    assert read(report, "probabilities.csv") == read(report, "changes.csv") == []


def test_events_carry_arguments_and_evidence(report: Report) -> None:
    event = report.countries[0].events[0]
    rows = [
        row
        for row in read(report, "events.csv")
        if (row["stream"], row["code"], row["level"]) == ("KE", f"cameo-{event.code}", event.level)
    ]
    assert [row["words"] for row in rows if row["what"] == "who"] == [x.words for x in event.who]
    sources = [row["source"] for row in rows if row["what"] == "evidence"]
    assert sources == [probability.source or "" for probability in event.evidence]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\uff1d1"]
)
def test_a_formula_is_only_text(text: str) -> None:
    assert guarded(text) == f"'{text}"
    assert next(csv.reader(io.StringIO(as_csv([text], [])))) == [f"'{text}"]


@pytest.mark.parametrize("value", [-0.5, "Kenya", "a=b", "", None, 3])
def test_numbers_and_plain_texts_stay(value: object) -> None:
    assert guarded(value) == value


def test_hostile_text_stays_in_its_cell() -> None:
    report = hostile_report()
    country = report.countries[0]
    few = country.model_copy(update={"shares": country.shares[:1]})  # names of 10,000 letters
    report = report.model_copy(update={"countries": [few]})
    for name, text in csv_files(report).items():
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1, name
    assert any(HOSTILE in row["label"] for row in read(report, "probabilities.csv"))


def test_codes_survive_a_reader_that_guesses_types(report: Report) -> None:
    files = csv_files(report)
    for name in ("probabilities.csv", "shares.csv", "events.csv", "changes.csv"):
        codes = pandas.read_csv(io.StringIO(files[name]))["code"]
        assert codes.str.fullmatch(r"cameo-\d{2,4}").all()
    shares = pandas.read_csv(io.StringIO(files["shares.csv"]))
    assert set(shares["code"].str.removeprefix("cameo-")) == {
        share.code for country in report.countries for share in country.shares
    }
