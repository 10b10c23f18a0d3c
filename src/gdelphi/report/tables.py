"""The tables of a report as CSV files, for whoever opens them in a spreadsheet.

A spreadsheet takes a text that begins with =, +, - or @ for a formula and runs it; such texts, and
those that begin with a tab or a line break before one, get an apostrophe in front. Numbers are
written as numbers and need none.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import count
from typing import Any, Final

from gdelphi.common.texts import CODE, guarded
from gdelphi.report.content import CountryReport, Report
from gdelphi.report.week_content import Chance, CountryWeek, WeekRoot

QUANTILES: Final = ("q05", "q25", "q50", "q75", "q95")

CsvRow = Sequence[Any]


def as_csv(names: Sequence[str], rows: Iterable[CsvRow]) -> str:
    """Rows under their names. Codes of events are written with CODE before them: a reader that
    takes what looks like a number for one makes 010, another event, of 10."""
    text = io.StringIO()
    coded = [name == "code" for name in names]
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([guarded(name) for name in names])
    for row in rows:
        marked = (
            f"{CODE}{value}" if is_code else value
            for value, is_code in zip(row, coded, strict=True)
        )
        writer.writerow([guarded(value) for value in marked])
    return text.getvalue()


def csv_files(report: Report) -> dict[str, str]:
    """All tables by the names of their files."""
    return {
        "probabilities.csv": _probabilities(report),
        "shares.csv": _shares(report),
        "events.csv": _events(report),
        "changes.csv": _changes(report),
        **week_files(report),
    }


def _probabilities(report: Report) -> str:
    members = sorted(
        {name for country in report.countries for p in country.probabilities for name in p.members}
    )
    names = (
        "target_day", "stream", "name", "level", "code", "label", "target", "published", "which",
        "stack", "usual", "yesterday", *(f"member {name}" for name in members),
    )  # fmt: skip
    rows = (
        (
            report.target_day, country.stream, country.name, p.level, p.code, p.label,
            p.target, p.published, p.which, p.stack, p.usual, p.yesterday,
            *(p.members.get(name) for name in members),
        )
        for country in report.countries
        for p in country.probabilities
    )  # fmt: skip
    return as_csv(names, rows)


def _shares(report: Report) -> str:
    """One row for each past day, and one with the forecast for the target day."""
    names = ("stream", "name", "code", "label", "day", "kind", "share", *QUANTILES)
    return as_csv(
        names, (row for country in report.countries for row in _share_rows(report, country))
    )


def _share_rows(report: Report, country: CountryReport) -> Iterator[CsvRow]:
    forecast = bool(country.probabilities)
    for share in country.shares:
        key = (country.stream, country.name, share.code, share.label)
        for day, value in zip(report.days, share.past, strict=True):
            yield (*key, day, "past", value, *(None for _ in QUANTILES))
        if forecast:
            cuts = (getattr(share, name) for name in QUANTILES)
            yield (*key, report.target_day, "forecast", share.mean, *cuts)


def _events(report: Report) -> str:
    """One row for each argument of a likely event, and for each report that speaks for it."""
    names = (
        "stream", "name", "level", "code", "label", "headline", "occurs", "what", "rank", "words",
        "value", "probability", "day", "place", "mentions", "source",
    )  # fmt: skip
    return as_csv(names, (row for country in report.countries for row in _event_rows(country)))


def _event_rows(country: CountryReport) -> Iterator[CsvRow]:
    for event in country.events:
        key = (
            country.stream, country.name, event.level, event.code, event.label, event.headline,
            event.occurs,
        )  # fmt: skip
        for what in ("who", "whom", "where"):
            for rank, candidate in enumerate(getattr(event, what), start=1):
                argument = (candidate.words, candidate.value, candidate.probability)
                yield (*key, what, rank, *argument, None, None, None, None)
        for rank, row in enumerate(event.evidence, start=1):
            report = (row.day, row.place, row.mentions, row.source)
            yield (*key, "evidence", rank, row.words, None, None, *report)


def _changes(report: Report) -> str:
    names = (
        "stream", "name", "code", "label", "target", "published", "before", "against", "reasons",
    )  # fmt: skip
    rows = (
        (
            change.stream, change.name, change.code, change.label, change.target, change.published,
            change.before, change.against, ". ".join(change.reasons),
        )
        for change in report.changes
    )  # fmt: skip
    return as_csv(names, rows)


# --- the week -------------------------------------------------------------------------------------


def week_files(report: Report) -> dict[str, str]:
    """Tables of the week; without a row where the forecast has none."""
    said = ("published", "stack", "simple stack", "usual")
    of_root = ("stream", "name", "code", "label")
    return {
        "week.csv": as_csv(
            (*of_root, "target", "horizon", "day", *said), _rows_of(report, _week_chances)
        ),
        "week_rows.csv": as_csv(
            (*of_root, "onset", "horizon", "day", "rows", "usual rows"),
            _rows_of(report, _week_reports),
        ),
        "escalations.csv": as_csv(("stream", "name", *said), _rows_of(report, _escalation)),
    }


WeekCsv = Callable[[Report, CountryReport, CountryWeek], Iterator[CsvRow]]


def _rows_of(report: Report, rows: WeekCsv) -> Iterator[CsvRow]:
    for country in report.countries:
        if country.week is not None:
            yield from rows(report, country, country.week)


def _week_chances(report: Report, country: CountryReport, week: CountryWeek) -> Iterator[CsvRow]:
    """A row for each root, target and day, and one for the week."""
    for root in week.roots:
        for target in root.targets:
            key = (*_root_key(country, root), target.target)
            for ahead, day, chance in zip(count(1), _week_days(report), target.days, strict=False):
                yield (*key, ahead, day, *_said(chance))
            yield (*key, "week", None, *_said(target.within))


def _week_reports(report: Report, country: CountryReport, week: CountryWeek) -> Iterator[CsvRow]:
    for root in week.roots:
        key = (*_root_key(country, root), root.onset)
        both = zip(root.rows, root.usual_rows, strict=True)
        for ahead, day, rows in zip(count(1), _week_days(report), both, strict=False):
            yield (*key, ahead, day, *rows)


def _escalation(_: Report, country: CountryReport, week: CountryWeek) -> Iterator[CsvRow]:
    if week.escalation is not None:
        yield (country.stream, country.name, *_said(week.escalation))


def _root_key(country: CountryReport, root: WeekRoot) -> tuple[str, ...]:
    return country.stream, country.name, root.code, root.label


def _said(chance: Chance) -> tuple[float | None, ...]:
    return chance.published, chance.stack, chance.simple, chance.usual


def _week_days(report: Report) -> list[date]:
    return report.week.days if report.week else []
