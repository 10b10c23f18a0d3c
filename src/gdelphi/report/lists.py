"""Lists of all reports: the front page and the feed, made anew from the reports that are there.

What lists need of a report is a thousandth of it, but to find that, all of report.json has to be
read: with a year of reports, half a minute. So it is kept in a file beside them, with the size and
the time of the report.json that it was read from; whoever changes that file is read again. The file
may be deleted at any time.
"""

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from gdelphi.common.files import write_text_atomically
from gdelphi.report import page
from gdelphi.report.content import Change
from gdelphi.report.feed import (
    FEED,
    Listed,
    feed,
)

PAGE: Final = "index.html"
REPORT: Final = "report.json"
CACHE: Final = ".reports.json"
CHANGES_LISTED: Final = 5


class WeekHead(BaseModel):
    """What lists need of a report's week."""

    model_config = ConfigDict(extra="ignore")

    sentences: list[str]


class Head(BaseModel):
    """What lists need of a report.json; the rest is passed over."""

    model_config = ConfigDict(extra="ignore")

    title: str
    origin: date
    target_day: date
    issued_at: datetime
    published_at: datetime
    banners: list[str]
    changes: list[Change]
    week: WeekHead | None = None


def write_lists(out: Path, *, title: str, address: str | None) -> list[str]:
    """Make the front page and the feed; says which reports cannot be read."""
    cached = _read_cache(out / CACHE)
    entries: dict[str, dict[str, Any]] = {}
    listed: list[Listed] = []
    warnings: list[str] = []
    for path in sorted(out.glob(f"[0-9]*-*-*/{REPORT}"), reverse=True):
        name = path.parent.name
        try:
            mark = [path.stat().st_mtime_ns, path.stat().st_size]
            head = _head(path, mark, cached.get(name))
        except (OSError, ValidationError) as error:
            warnings.append(_unreadable(path, error))
            continue
        entries[name] = {"mark": mark, "head": head.model_dump(mode="json")}
        week = tuple(head.week.sentences) if head.week else ()
        listed.append(Listed(folder=name, **{**dict(head), "week": week}))
    write_text_atomically(out / PAGE, page.render_front(_entries(listed)))
    write_text_atomically(out / FEED, feed(listed, title=title, address=address))
    write_text_atomically(out / CACHE, json.dumps(entries) + "\n")
    return warnings


def _head(path: Path, mark: list[int], cached: Any) -> Head:
    """From the cache, if it is of this very file; else from the file."""
    if isinstance(cached, dict) and cached.get("mark") == mark:
        try:
            return Head.model_validate(cached.get("head"))
        except ValidationError:
            pass  # somebody else's idea of this file
    head = Head.model_validate_json(path.read_bytes())
    return head.model_copy(update={"changes": head.changes[:CHANGES_LISTED]})


def _read_cache(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _unreadable(path: Path, error: Exception) -> str:
    reason = str(error).strip().splitlines()[0]
    return (
        f"{path} cannot be read ({reason}) and is left out of the front page: make it again with "
        f"`gdelphi report --origin {path.parent.name}`, or delete its folder"
    )


def _entries(listed: Sequence[Listed]) -> list[page.FrontEntry]:
    return [
        page.FrontEntry(
            folder=report.folder,
            title=report.title,
            origin=report.origin,
            target_day=report.target_day,
            banners=report.banners,
            changes=report.changes[: page.HEADLINE_CHANGES],
            week=report.week,
        )
        for report in listed
    ]
