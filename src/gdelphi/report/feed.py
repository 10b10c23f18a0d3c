"""An Atom feed of all reports (RFC 4287), beside the front page.

Built with xml.etree, which escapes whatever comes from data. With `report.address` ids and links
are URLs; without one, ids are made from the origin, stay the same for good, and links are relative
to the feed's own place, as the standard allows.
"""

import uuid
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from gdelphi.common.percent import percent
from gdelphi.report.content import MEASURES_NEWS, Change
from gdelphi.report.plain import clean

ATOM: Final = "http://www.w3.org/2005/Atom"
FEED: Final = "feed.xml"
CHANGES_SHOWN: Final = 5
_IDS: Final = uuid.uuid5(uuid.NAMESPACE_OID, "gdelphi reports")
_TARGETS: Final = {"headline": "as a headline", "surge": "as a surge", "occurs": "at all"}


@dataclass(frozen=True)
class Listed:
    """A report as lists of reports have it."""

    folder: str
    title: str
    origin: date
    target_day: date
    issued_at: datetime
    published_at: datetime
    banners: list[str]
    changes: list[Change]
    week: tuple[str, ...] = ()
    """what is said of the seven days, in sentences"""


def feed(reports: Sequence[Listed], *, title: str, address: str | None = None) -> str:
    """The feed, the newest report first."""
    ET.register_namespace("", ATOM)
    base = f"{address.rstrip('/')}/" if address else ""
    root = ET.Element(_name("feed"))
    _text(root, "title", title)
    _text(root, "id", base or f"urn:uuid:{_IDS}")
    newest = max(
        (report.published_at for report in reports), default=datetime(1970, 1, 1, tzinfo=UTC)
    )
    _text(root, "updated", _time(newest))
    _text(root, "subtitle", MEASURES_NEWS)
    _text(ET.SubElement(root, _name("author")), "name", "gdelphi")
    _text(root, "generator", "gdelphi")
    _link(root, "self", f"{base}{FEED}", "application/atom+xml")
    _link(root, "alternate", f"{base}index.html", "text/html")
    for report in sorted(reports, key=lambda report: report.origin, reverse=True):
        _entry(root, report, base)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )


def _entry(root: ET.Element, report: Listed, base: str) -> None:
    entry = ET.SubElement(root, _name("entry"))
    _text(entry, "title", f"{report.title}: {report.target_day:%A} {report.target_day}")
    name = uuid.uuid5(_IDS, report.origin.isoformat())
    _text(entry, "id", f"{base}{report.folder}/" if base else f"urn:uuid:{name}")
    _text(entry, "published", _time(report.issued_at))
    _text(entry, "updated", _time(report.published_at))
    _link(entry, "alternate", f"{base}{report.folder}/index.html", "text/html")
    _text(entry, "summary", "\n".join(_summary(report)))


def _summary(report: Listed) -> list[str]:
    changes = [
        f"{change.name}: {change.label} {_TARGETS[change.target]} {percent(change.published)}, "
        f"{change.against} {percent(change.before)}."
        for change in report.changes[:CHANGES_SHOWN]
    ]
    return [*report.banners, *report.week, *changes, MEASURES_NEWS]


def _name(tag: str) -> str:
    return f"{{{ATOM}}}{tag}"


def _text(parent: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(parent, _name(tag)).text = clean(text)


def _link(parent: ET.Element, relation: str, target: str, kind: str) -> None:
    ET.SubElement(parent, _name("link"), {"rel": relation, "href": target, "type": kind})


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
