"""The report as Markdown: a document of its own, for mail, for chat, for whoever has no browser.

Text from data is escaped, so that a name cannot become a heading, a link or a picture; a source is
a link only if it is a plain http or https address.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from gdelphi.common import percent as rounding
from gdelphi.report.content import (
    Change,
    CountryReport,
    Event,
    Probability,
    Record,
    Report,
    WeightedPhrase,
)
from gdelphi.report.plain import counted

_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>|~&]|^[-+#])")
_NUMBER: Final = re.compile(r"^(\d+)([.)])(?=\s|$)")
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


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    marked = _MARKS.sub(r"\\\1", " ".join(text.split()))
    return _NUMBER.sub(r"\1\\\2", marked)


def _lines(report: Report) -> Iterator[str]:
    day = report.target_day if report.provenance.forecast else report.origin
    yield f"# {escape(report.title)}: {day:%A} {day}"
    yield ""
    for banner in report.banners:
        yield f"> **{_sentence(banner)}**"
        yield ">"
    yield f"> {escape(report.note)}"
    yield ""
    yield from _times(report)
    yield f"**The record:** {_sentence(report.record.verdict)}"
    yield ""
    yield from _changes(report)
    for country in report.countries:
        yield from _country(country)
    yield from _record(report.record)
    yield from _missing(report)
    yield from _provenance(report)


def _sentence(text: str) -> str:
    """Our own sentences name commands in backquotes: these stay, all else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    escaped = [f"`{part}`" if at % 2 else _escape_part(part) for at, part in enumerate(parts)]
    return "".join(escaped)


def _escape_part(part: str) -> str:
    """Escaped, with its blanks at both ends."""
    return f"{' ' * part.startswith(' ')}{escape(part)}{' ' * (part.endswith(' ') and part != ' ')}"


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
    before = "yesterday" if change.against == "yesterday" else "usually"
    yield (
        f"{place}. **{escape(change.name)}: {escape(change.label)}** as {_TARGETS[change.target]}: "
        f"{_percent(change.published)}, {before} {_percent(change.before)}"
    )
    for reason in change.reasons:
        yield f"   - {escape(reason)}"


# --- a country ------------------------------------------------------------------------------------


def _country(country: CountryReport) -> Iterator[str]:
    yield f"## {escape(country.name)} ({escape(country.stream)})"
    yield ""
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
        yield f"**{title}**"
        yield ""
        for phrase in phrases:
            drawn = f" (drawn from: {escape(phrase.drawn)})" if phrase.drawn else ""
            yield f"- {_percent(phrase.weight)} {escape(phrase.words)}{drawn}"
        yield ""


def _headlines(probabilities: Iterable[Probability]) -> Iterator[str]:
    roots = [p for p in probabilities if p.level == "root"]
    if not roots:
        return
    by_cell = {(p.code, p.target): p for p in roots}
    likely = sorted((p for p in roots if p.target == "headline"), key=lambda p: -p.published)
    yield "| event | headline | stack | usual | yesterday | surge | occurs |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for p in likely[:HEADLINES]:
        others = (by_cell.get((p.code, target)) for target in ("surge", "occurs"))
        cells = [
            _percent(p.published), *map(_or_none, (p.stack, p.usual, p.yesterday)),
            *(_or_none(other.published if other else None) for other in others),
        ]  # fmt: skip
        yield f"| {escape(p.label)} ({escape(p.code)}) | {' | '.join(cells)} |"
    yield ""


def _percent(value: float) -> str:
    """As everywhere, without opening a tag."""
    return escape(rounding.percent(value))


def _or_none(value: float | None) -> str:
    return "" if value is None else _percent(value)


def _events(events: Sequence[Event]) -> Iterator[str]:
    if not events:
        return
    roots = [event for event in events if event.level == "root"] or events
    yield "**Likely, and who**"
    yield ""
    for event in roots[:EVENTS]:
        yield f"- {escape(event.label)}, a headline with {_percent(event.headline)}{_who(event)}"
        for row in event.evidence[:REPORTS]:
            yield (
                f"  - {row.day}: {escape(row.words)} "
                f"({counted(row.mentions, 'mention')}; {_source(row.source)})"
            )
    yield ""


def _who(event: Event) -> str:
    parts = [
        f"{title} {escape(candidates[0].words)} {_percent(candidates[0].probability)}"
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
    yield _sentence(record.note)
    yield ""
    if record.windows:
        yield "| last days | judged | target | published | stack | skill | 95% interval | cells |"
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
            stack = "" if verdict.stack is None else f", the stack {_percent(verdict.stack)}"
            yield (
                f"- {verdict.day} {escape(verdict.name)}: {escape(verdict.label)} as "
                f"{_TARGETS[verdict.target]}: said {_percent(verdict.published)}{stack}; "
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
        yield f"- {gap.first}{until}: {_sentence(gap.why)}"
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
