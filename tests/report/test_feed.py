"""The Atom feed, held against RFC 4287."""

import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime

import pytest

from gdelphi.common.texts import clean
from gdelphi.report.feed import (
    ATOM,
    Listed,
    feed,
)
from helpers.report_example import example_report
from helpers.report_hostile import HOSTILE


def listed(origin: date, title: str = "Morning") -> Listed:
    report = example_report(streams=("KE",))
    return Listed(
        folder=origin.isoformat(),
        title=title,
        origin=origin,
        target_day=report.target_day,
        issued_at=datetime(2023, 3, 15, 4, 2, tzinfo=UTC),
        published_at=datetime(2023, 3, 15, 4, origin.day, tzinfo=UTC),
        banners=["Partial & <late>."],
        changes=report.changes,
    )


REPORTS = [listed(date(2023, 3, 13)), listed(date(2023, 3, 14), title=HOSTILE)]


def parsed(address: str | None) -> ET.Element:
    return ET.fromstring(feed(REPORTS, title="What <may> come", address=address))


def texts(parent: ET.Element, tag: str) -> list[str]:
    return [each.text or "" for each in parent.findall(f"{{{ATOM}}}{tag}")]


def links(parent: ET.Element) -> dict[str, str]:
    return {each.attrib["rel"]: each.attrib["href"] for each in parent.findall(f"{{{ATOM}}}link")}


@pytest.mark.parametrize("address", [None, "https://news.example/reports/"])
def test_a_feed_has_what_the_standard_demands(address: str | None) -> None:
    root = parsed(address)
    entries = root.findall(f"{{{ATOM}}}entry")
    assert root.tag == f"{{{ATOM}}}feed"
    for each in [root, *entries]:
        for tag in ("id", "title", "updated"):
            (text,) = texts(each, tag)
            assert text
            if tag == "updated":
                assert datetime.fromisoformat(text).tzinfo is not None
    assert root.find(f"{{{ATOM}}}author/{{{ATOM}}}name") is not None
    ids = [texts(each, "id")[0] for each in [root, *entries]]
    assert len(set(ids)) == len(ids)
    assert all(each.startswith(address or "urn:uuid:") for each in ids)
    assert texts(root, "updated") == ["2023-03-15T04:14:00Z"]  # the newest of its entries


def test_links_are_addresses_or_relative_to_the_feed() -> None:
    for address, base in ((None, ""), ("https://news.example/r", "https://news.example/r/")):
        root = parsed(address)
        entries = root.findall(f"{{{ATOM}}}entry")
        assert links(root) == {"self": f"{base}feed.xml", "alternate": f"{base}index.html"}
        assert [links(each)["alternate"] for each in entries] == [
            f"{base}2023-03-14/index.html",
            f"{base}2023-03-13/index.html",
        ]


def test_text_from_data_stays_text() -> None:
    root = parsed(None)
    newest = root.findall(f"{{{ATOM}}}entry")[0]
    assert clean(HOSTILE) in texts(newest, "title")[0]
    summary = texts(newest, "summary")[0]
    assert "Partial & <late>." in summary
    assert len(list(newest)) == 6


def test_ids_stay_when_a_report_is_made_again() -> None:
    again = ET.fromstring(feed(REPORTS[:1], title="Another title"))
    before = texts(parsed(None).findall(f"{{{ATOM}}}entry")[1], "id")
    assert texts(again.findall(f"{{{ATOM}}}entry")[0], "id") == before


def test_a_feed_without_reports_is_one() -> None:
    root = ET.fromstring(feed([], title="Nothing yet"))
    assert texts(root, "updated") == ["1970-01-01T00:00:00Z"]
