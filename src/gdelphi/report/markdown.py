"""The report as Markdown: a document of its own, for mail, for chat, for whoever has no browser.

Text from data is escaped (`markdown_text.py`); a source is a link only if it is a plain http or
https address.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from gdelphi.report.content import (
    Change,
    CountryReport,
    Event,
    Probability,
    Record,
    Report,
    WeightedPhrase,
)
from gdelphi.report.markdown_text import escape, percent_or_none, sentence, shown_percent
from gdelphi.report.markdown_week import country_week_lines, week_lines
from gdelphi.report.plain import AGAINST, counted
from gdelphi.report.week_content import WeekReport

_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`()\[\]{}|\\^]+", re.ASCII)
HEADLINES: Final = 8
EVENTS: Final = 3
REPORTS: Final = 2
_TARGETS: Final = {"headline": "a headline", "surge": "a surge", "occurs": "occurs"}


def markdown(report: Report) -> str:
    """The whole document."""
    lines = list(_lines(report))
    kept = [line for before, line in pairwise(["", *lines]) if before or line]
    return "\n".join(kept).rstrip() + "\n"


def _lines(report: Report) -> Iterator[str]:
    day = report.target_day if report.provenance.forecast else report.origin
    yield f"# {escape(report.title)}: {day:%A} {day}"
    yield ""
    for banner in report.banners:
        yield f"> **{sentence(banner)}**"
        yield ">"
    yield f"> {escape(report.note)}"
    yield ""
    yield from week_lines(report.week, forecast=report.provenance.forecast is not None)
    yield from _times(report)
    yield f"**The record:** {sentence(report.record.verdict)}"
    yield ""
    yield from _changes(report)
    for country in report.countries:
        yield from _country(country, report.week)
    yield from _record(report.record)
    yield from _missing(report)
    yield from _provenance(report)


def _times(report: Report) -> Iterator[str]:
    complete = f"{report.complete_at:%Y-%m-%d %H:%M} UTC" if report.complete_at else "not known"
    yield f"- news up to: {report.origin}, complete at {complete}"
    if report.provenance.forecast:
        yield f"- forecast made: {report.issued_at:%Y-%m-%d %H:%M} UTC"
        yield f"- forecast of: {report.target_day:%A} {report.target_day}"
    yield f"- report made: {report.published_at:%Y-%m-%d %H:%M} UTC"
    yield f"- about: {counted(len(report.countries), 'stream')}"
    yield ""


# --- changes --------------------------------------------------------------------------------------


def _changes(report: Report) -> Iterator[str]:
    if not report.changes:
        return
    yield "## The largest changes"
    yield ""
    for place, change in enumerate(report.changes, start=1):
        yield from _change(place, change)
    yield ""


def _change(place: int, change: Change) -> Iterator[str]:
    before = AGAINST[change.against]
    yield (
        f"{place}. **{escape(change.name)}: {escape(change.label)}** as {_TARGETS[change.target]}: "
        f"{shown_percent(change.published)}, {before} {shown_percent(change.before)}"
    )
    for reason in change.reasons:
        yield f"   - {escape(reason)}"


# --- a country ------------------------------------------------------------------------------------


def _country(country: CountryReport, week: WeekReport | None) -> Iterator[str]:
    yield f"## {escape(country.name)} ({escape(country.stream)})"
    yield ""
    yield from country_week_lines(country.week, week)
    yield from _phrases("Tomorrow in brief", country.brief)
    yield from _phrases("The last day in brief", country.latest)
    yield from _headlines(country.probabilities)
    yield from _events(country.events)
    known = [rows for rows in country.rows if rows is not None]
    if known:
        usual = sorted(known)[len(known) // 2]
        yield (
            f"Reports on the last day: {known[-1]:,}; median of {counted(len(known), 'day')}: "
            f"{usual:,}."
        )
        yield ""


def _phrases(title: str, phrases: Sequence[WeightedPhrase]) -> Iterator[str]:
    if phrases:
        unit = "shares of the weight of all reports; each phrase stands for its own kind alone"
        yield f"**{title}** ({unit})"
        yield ""
        for phrase in phrases:
            drawn = f" (drawn from: {escape(phrase.drawn)})" if phrase.drawn else ""
            kind = f" ({escape(phrase.root.lower())})" if phrase.root else ""
            yield f"- {shown_percent(phrase.weight)} {escape(phrase.words)}{kind}{drawn}"
        yield ""


def _headlines(probabilities: Iterable[Probability]) -> Iterator[str]:
    roots = [p for p in probabilities if p.level == "root"]
    if not roots:
        return
    by_cell = {(p.code, p.target): p for p in roots}
    likely = sorted((p for p in roots if p.target == "headline"), key=lambda p: -p.published)
    yield "| event | headline | stack | usual | a day ago, of the same day | surge | occurs |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for p in likely[:HEADLINES]:
        others = (by_cell.get((p.code, target)) for target in ("surge", "occurs"))
        cells = [
            shown_percent(p.published), *map(percent_or_none, (p.stack, p.usual, p.yesterday)),
            *(percent_or_none(other.published if other else None) for other in others),
        ]  # fmt: skip
        yield f"| {escape(p.label)} ({escape(p.code)}) | {' | '.join(cells)} |"
    yield ""


def _events(events: Sequence[Event]) -> Iterator[str]:
    if not events:
        return
    roots = [event for event in events if event.level == "root"] or events
    yield "**Likely, and who**"
    yield ""
    for event in roots[:EVENTS]:
        headline = shown_percent(event.headline)
        yield f"- {escape(event.label)}, a headline with {headline}{_who(event)}"
        for row in event.evidence[:REPORTS]:
            yield (
                f"  - {row.day}: {escape(row.words)} "
                f"({counted(row.mentions, 'mention')}; {_source(row.source)})"
            )
    yield ""


def _who(event: Event) -> str:
    parts = [
        f"{title} {escape(candidates[0].words)} {shown_percent(candidates[0].probability)}"
        for title, candidates in (
            ("who:", event.who),
            ("to whom:", event.whom),
            ("where:", event.where),
        )
        if candidates
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _source(source: str | None) -> str:
    if source is None:
        return "no source given"
    return f"<{source}>" if _ADDRESS.fullmatch(source) else escape(source)


# --- the record, and what the report was made from ------------------------------------------------


def _record(record: Record) -> Iterator[str]:
    yield "## How good these forecasts have been"
    yield ""
    yield sentence(record.note)
    yield ""
    if record.windows:
        yield (
            "| last days | judged | target | published | simple stack | skill | 95% interval "
            "| cells |"
        )
        yield "|--:|--:|---|--:|--:|--:|---|--:|"
    for window in record.windows:
        for line in window.lines:
            yield (
                f"| {window.days} | {window.judged} | {line.target} | {line.published:.5f} | "
                f"{line.stack:.5f} | {line.skill:.1%} | {line.low:.1%} to {line.high:.1%} | "
                f"{line.cells:,} |"
            )
    yield ""
    for title, verdicts in (("Hits", record.hits), ("Misses", record.misses)):
        if verdicts:
            yield f"**{title}**"
            yield ""
        for verdict in verdicts:
            outcome = "came" if verdict.came else "did not come"
            stack = (
                ""
                if verdict.stack is None
                else f", the simple stack {shown_percent(verdict.stack)}"
            )
            yield (
                f"- {verdict.day} {escape(verdict.name)}: {escape(verdict.label)} as "
                f"{_TARGETS[verdict.target]}: said {shown_percent(verdict.published)}{stack}; "
                f"it {outcome}"
            )
        yield ""


def _missing(report: Report) -> Iterator[str]:
    yield "## What data was missing"
    yield ""
    if not report.missing:
        yield f"Nothing, over the last {counted(len(report.days), 'day')}."
    for gap in report.missing:
        until = f" to {gap.last}" if gap.last != gap.first else ""
        yield f"- {gap.first}{until}: {sentence(gap.why)}"
    yield ""


def _provenance(report: Report) -> Iterator[str]:
    yield "## What this was made from"
    yield ""
    if report.naming:
        yield escape(report.naming)
        yield ""
    for name, value in report.provenance.model_dump(mode="json").items():
        if value is not None:
            yield f"- {name.replace('_', ' ')}: {escape(str(value))}"
