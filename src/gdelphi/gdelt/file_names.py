"""What the name of a GDELT file says: its kind and the days that it covers.

Names are read leniently (an excerpt may carry a suffix, a file may lie unzipped), since the number
of columns decides about the content anyway; what a zip may hold inside is read strictly.
"""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

FileKind = Literal["events", "translated", "reduced"]
Span = Literal["year", "month", "day", "quarter", "open"]

FIRST_YEAR, LAST_YEAR = 1900, 2100  # a year beyond them is a misprint, and no gap of 8,000 years

CLOCK_IS_WRONG_BEFORE = date(2026, 1, 1)  # this was written later
SECOND_GDELT = date(2015, 2, 18)  # its first quarter of an hour

QUARTER_HOUR = timedelta(minutes=15)

_DATED = re.compile(
    r"^(?P<digits>\d{14}|\d{8}|\d{6}|\d{4})(?P<suffix>[-_][\w-]+)?"
    r"(?P<translated>\.translation)?(?P<export>\.export)?(?P<csv>\.csv)?(?P<zip>\.zip)?$",
    re.IGNORECASE,
)
_REDUCED = re.compile(r"^(GDELT\.)?MASTERREDUCEDV2[\w.-]*\.(zip|txt)$", re.IGNORECASE)
_OTHER = re.compile(r"\.(mentions|gkg|gkgcounts)\.csv(\.zip)?$", re.IGNORECASE)


@dataclass(frozen=True)
class SourceFile:
    """A file of an archive: what its name says, and what the archive's list says about it."""

    name: str
    kind: FileKind
    span: Span
    first_day: date | None  # None where the name does not tell ("open")
    last_day: date | None
    size: int | None = None
    md5: str | None = None
    listed: bool = False

    def with_listing(self, *, size: int | None = None, md5: str | None = None) -> "SourceFile":
        """The same file with the size and checksum that a list gives."""
        return replace(
            self,
            size=self.size if size is None else size,
            md5=self.md5 if md5 is None else md5,
            listed=True,
        )

    def overlaps(self, since: date | None, until: date | None) -> bool:
        """Whether a part of the file lies in the days asked for; open files always do."""
        if self.first_day is None or self.last_day is None:
            return True
        return (since is None or self.last_day >= since) and (
            until is None or self.first_day <= until
        )

    @property
    def members(self) -> re.Pattern[str]:
        """The names that the one member of this file's zip may have."""
        if self.kind == "reduced":
            return re.compile(r"(GDELT\.)?MASTERREDUCEDV2[\w.-]*\.txt", re.IGNORECASE)
        digits = _DATED.match(self.name)
        if digits is None:
            return re.compile(
                r"\d{4}(\d\d)?\.csv|(\d{8}|\d{14})(\.translation)?\.export\.csv", re.IGNORECASE
            )
        stem = re.escape(digits["digits"]) + (r"\.translation" if self.kind == "translated" else "")
        export = r"(\.export)?" if self.span in ("year", "month") else r"\.export"
        return re.compile(f"{stem}{export}\\.csv", re.IGNORECASE)


def parse_name(name: str) -> SourceFile | None:
    """The event file of this name, or None where it does not name one."""
    if _REDUCED.match(name):
        return SourceFile(name, "reduced", "open", None, None)
    match = _DATED.match(name)
    if match is None or not (match["csv"] or match["zip"]):
        return None
    digits = match["digits"]
    if (len(digits) >= 8) != bool(match["export"]) or (match["translated"] and len(digits) != 14):
        return None
    days = _days_of(digits)
    if days is None:
        return None
    span: Span = {4: "year", 6: "month", 8: "day", 14: "quarter"}[len(digits)]  # type: ignore[assignment]
    return SourceFile(name, "translated" if match["translated"] else "events", span, *days)


def tomorrow_of(today: date) -> date:
    """The last day that a file may be of: GDELT's stamps run some minutes ahead of the clock."""
    return today + timedelta(days=1)


def possible_until() -> date | None:
    """The last day that a file may be of, by the clock; None: the clock is wrong."""
    today = datetime.now(UTC).date()
    return tomorrow_of(today) if today >= CLOCK_IS_WRONG_BEFORE else None


def is_other_file(name: str) -> bool:
    """Whether the name is that of a mentions or knowledge-graph file, which are not read."""
    return _OTHER.search(name) is not None


def open_file(name: str) -> SourceFile:
    """A file whose name says nothing: the rows themselves must tell their day."""
    return SourceFile(name, "events", "open", None, None)


def _days_of(digits: str) -> tuple[date, date] | None:
    year, month = int(digits[:4]), int(digits[4:6] or 1)
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    try:
        if len(digits) == 4:
            return date(year, 1, 1), date(year, 12, 31)
        if len(digits) == 6:
            return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])
        day = _moment(digits)
    except (ValueError, calendar.IllegalMonthError):
        return None
    return day.date(), day.date()


def expected_file(day: date) -> SourceFile:
    """The file of GDELT 1.0 in which a day's events ought to be."""
    if day.year <= 2005:
        name = f"{day:%Y}.zip"
    elif (day.year, day.month) <= (2013, 3):
        name = f"{day:%Y%m}.zip"
    else:
        name = f"{day:%Y%m%d}.export.CSV.zip"
    parsed = parse_name(name)
    assert parsed is not None  # noqa: S101 - the names above are well-formed
    return parsed


def gaps(files: list[SourceFile], since: date | None, until: date | None) -> Iterator[SourceFile]:
    """Files that ought to be between the first and the last of a list and are not.

    Days before the first or after the last are not gaps: the archive has not begun, or the day is
    not published yet. Nor are days to come: a misprint of a year, 2099 for 2009, is no reason to
    expect three million files.
    """
    limit = possible_until()
    if limit is not None:
        files = [file for file in files if file.first_day is None or file.first_day <= limit]
        until = min(until or limit, limit)
    for kind in ("events", "translated"):
        quarters = [file for file in files if file.span == "quarter" and file.kind == kind]
        yield from _missing_quarters(quarters, since, until)
    yield from _missing_days(
        [file for file in files if file.span in ("year", "month", "day")], since, until
    )


def _missing_days(
    files: list[SourceFile], since: date | None, until: date | None
) -> Iterator[SourceFile]:
    spans = [(f.first_day, f.last_day) for f in files if f.first_day and f.last_day]
    if not spans:
        return
    covered: set[date] = set()
    for first, last in spans:
        covered.update(_days(first, last))
    named: set[str] = set()
    first = max(min(first for first, _ in spans), since or date.min)
    last = min(max(last for _, last in spans), until or date.max)
    for day in _days(first, last):
        expected = expected_file(day)
        if day not in covered and expected.name not in named:
            named.add(expected.name)
            yield expected


def _missing_quarters(
    files: list[SourceFile], since: date | None, until: date | None
) -> Iterator[SourceFile]:
    stamps = {file.name[:14] for file in files}  # as text: a full list has hundreds of thousands
    if not stamps:
        return
    tail = ".translation.export.CSV.zip" if files[0].kind == "translated" else ".export.CSV.zip"
    first, last = (_moment(edge(stamps)) for edge in (min, max))
    if last.date() >= SECOND_GDELT:  # else it is an archive of something else
        first = max(first, datetime.combine(SECOND_GDELT, time.min))
    slot = datetime.combine(max(first.date(), since or date.min), time.min)
    last = min(last, datetime.combine(until or date.max, time.max))
    while slot <= last:
        stamp = f"{slot:%Y%m%d%H%M%S}"
        if stamp not in stamps and (file := parse_name(stamp + tail)):
            yield file
        slot += QUARTER_HOUR


def _moment(digits: str) -> datetime:
    """From 8 or 14 digits; three times as fast as strptime, and lists are long."""
    parts = [int(digits[:4]), *(int(digits[n : n + 2]) for n in range(4, len(digits), 2))]
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)
