"""Links from a report to those of other days: plain files in one folder, no server.

A page is written when its day is over, so it cannot know the next one. When that is written, the
link is put into the page before it, in the place that is kept for it; nothing else of a page is
touched.
"""

import re
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from gdelphi.common.files import write_text_atomically

PAGE: Final = "index.html"
WEEK: Final = timedelta(days=7)
_NEXT: Final = re.compile(r'<span class="to-next">.*?</span>')
_PREVIOUS: Final = re.compile(r'<span class="to-previous">.*?</span>')


class DayLinks(NamedTuple):
    """Origins of other reports; None where there is none."""

    previous: date | None = None
    following: date | None = None
    week_before: date | None = None


def days_in(folder: Path) -> list[date]:
    """Origins of the reports in a folder, in their order."""
    days = []
    for path in folder.glob(f"[0-9]*-*-*/{PAGE}"):
        try:
            days.append(date.fromisoformat(path.parent.name))
        except ValueError:
            continue
    return sorted(days)


def links_of(origin: date, days: Iterable[date]) -> DayLinks:
    """The days around an origin."""
    others = set(days) - {origin}
    return DayLinks(
        max((day for day in others if day < origin), default=None),
        min((day for day in others if day > origin), default=None),
        origin - WEEK if origin - WEEK in others else None,
    )


def next_link(day: date | None) -> str:
    """The place of the link to the next day."""
    return f'<span class="to-next">{_anchor(day, "next", "Next day →")}</span>'


def previous_link(day: date | None) -> str:
    """The place of the link to the day before."""
    return f'<span class="to-previous">{_anchor(day, "prev", "← Day before")}</span>'


def _anchor(day: date | None, relation: str, words: str) -> str:
    return f'<a rel="{relation}" href="../{day}/{PAGE}">{words}</a>' if day else ""


def tell_neighbours(folder: Path, origin: date) -> None:
    """Put the link to a report into the pages of the days beside it."""
    links = links_of(origin, days_in(folder))
    if links.previous:
        _replace(folder / str(links.previous) / PAGE, _NEXT, next_link(origin))
    if links.following:
        _replace(folder / str(links.following) / PAGE, _PREVIOUS, previous_link(origin))


def _replace(path: Path, place: re.Pattern[str], link: str) -> None:
    """Pages of before there were such links have no place for one, and stay as they are."""
    text = path.read_text(encoding="utf-8")
    changed = place.sub(lambda _: link, text, count=1)
    if changed != text:
        write_text_atomically(path, changed)
