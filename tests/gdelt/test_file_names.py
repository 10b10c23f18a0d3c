"""File names: kind, days, what a zip may hold, and what is missing between two files."""

from datetime import date

import pytest

from gdelphi.gdelt.file_names import (
    gaps,
    is_other_file,
    parse_name,
)


@pytest.mark.parametrize(
    ("name", "kind", "span", "first", "last"),
    [
        ("1979.zip", "events", "year", "1979-01-01", "1979-12-31"),
        ("200602.zip", "events", "month", "2006-02-01", "2006-02-28"),
        ("20130401.export.CSV.zip", "events", "day", "2013-04-01", "2013-04-01"),
        ("20130401.export.CSV", "events", "day", "2013-04-01", "2013-04-01"),
        ("20130401-excerpt.export.CSV.zip", "events", "day", "2013-04-01", "2013-04-01"),
        ("20190121220000.export.CSV.zip", "events", "quarter", "2019-01-21", "2019-01-21"),
        (
            "20190121220000.translation.export.CSV.zip",
            "translated",
            "quarter",
            "2019-01-21",
            "2019-01-21",
        ),
    ],
)
def test_a_name_tells_kind_and_days(name: str, kind: str, span: str, first: str, last: str) -> None:
    file = parse_name(name)
    assert file is not None
    assert (file.kind, file.span) == (kind, span)
    assert (file.first_day, file.last_day) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    "name", ["GDELT.MASTERREDUCEDV2.1979-2013.zip", "MASTERREDUCEDV2-first-1000.txt"]
)
def test_the_reduced_table_is_a_kind_of_its_own(name: str) -> None:
    file = parse_name(name)
    assert file is not None
    assert (file.kind, file.first_day) == ("reduced", None)


@pytest.mark.parametrize(
    "name",
    [
        "md5sums", "index.html", "20131301.export.CSV.zip", "201300.zip", "20130401.zip",
        "2005.export.CSV.gz", "20130401", "20130401.translation.export.CSV.zip",
        "20250808181500.mentions.CSV.zip", "20250808181500.gkg.csv.zip", "../2005.zip",
    ],
)  # fmt: skip
def test_other_names_are_not_event_files(name: str) -> None:
    assert parse_name(name) is None


def test_mentions_and_knowledge_graphs_are_known_as_such() -> None:
    assert is_other_file("20250808181500.mentions.CSV.zip")
    assert is_other_file("20250808181500.gkg.csv.zip")
    assert is_other_file("20250808.gkgcounts.csv.zip")
    assert not is_other_file("20250808181500.export.CSV.zip")


@pytest.mark.parametrize(
    ("zipped", "member", "fits"),
    [
        ("2005.zip", "2005.csv", True),
        ("2005.zip", "2006.csv", False),
        ("200601.zip", "200601.csv", True),
        ("20130401.export.CSV.zip", "20130401.export.CSV", True),
        ("20130401.export.CSV.zip", "20130402.export.CSV", False),
        ("20130401.export.CSV.zip", "../20130401.export.CSV", False),
        ("20130401.export.CSV.zip", "/20130401.export.CSV", False),
        ("20130401-excerpt.export.CSV.zip", "20130401.export.CSV", True),
        ("20190121220000.export.CSV.zip", "20190121220000.mentions.CSV", False),
        (
            "20190121220000.translation.export.CSV.zip",
            "20190121220000.translation.export.CSV",
            True,
        ),
        ("20190121220000.translation.export.CSV.zip", "20190121220000.export.CSV", False),
        ("GDELT.MASTERREDUCEDV2.1979-2013.zip", "GDELT.MASTERREDUCEDV2.TXT", True),
        ("GDELT.MASTERREDUCEDV2.1979-2013.zip", "2005.csv", False),
    ],
)
def test_a_zip_may_hold_only_its_own_member(zipped: str, member: str, fits: bool) -> None:
    file = parse_name(zipped)
    assert file is not None
    assert bool(file.members.fullmatch(member)) is fits


def missing(*names: str, since: str | None = None, until: str | None = None) -> list[str]:
    files = [file for name in names if (file := parse_name(name))]
    assert len(files) == len(names)
    first = date.fromisoformat(since) if since else None
    last = date.fromisoformat(until) if until else None
    return [file.name for file in gaps(files, first, last)]


def test_days_between_two_dailies_are_missing() -> None:
    found = missing("20140122.export.CSV.zip", "20140125.export.CSV.zip")
    assert found == ["20140123.export.CSV.zip", "20140124.export.CSV.zip"]


def test_a_missing_month_is_one_file() -> None:
    assert missing("201302.zip", "20130401.export.CSV.zip") == ["201303.zip"]
    assert missing("2004.zip", "200602.zip") == ["2005.zip", "200601.zip"]


def test_quarter_hours_are_counted_from_midnight_of_the_first_day() -> None:
    found = missing("20190121003000.export.CSV.zip", "20190121010000.export.CSV.zip")
    assert found == [
        "20190121000000.export.CSV.zip",
        "20190121001500.export.CSV.zip",
        "20190121004500.export.CSV.zip",
    ]


def test_gaps_outside_the_window_are_not_looked_for() -> None:
    dailies = ("20140101.export.CSV.zip", "20140110.export.CSV.zip")
    found = missing(*dailies, since="2014-01-05", until="2014-01-06")
    assert found == ["20140105.export.CSV.zip", "20140106.export.CSV.zip"]
    assert missing("20140101.export.CSV.zip", since="2013-01-01", until="2015-01-01") == []
