"""The week in Markdown: what is unusual over all countries, and each country's days."""

from collections.abc import Iterator, Sequence
from typing import Final

from gdelphi.common.types import WITHIN
from gdelphi.report.markdown_text import escape, percent_or_none, sentence, shown_percent
from gdelphi.report.plain import counted
from gdelphi.report.week import NO_WEEK, WILL, span
from gdelphi.report.week_content import (
    CountryWeek,
    UnusualEvent,
    WeekRecord,
    WeekReport,
    WeekRoot,
    WeekSkill,
)

TARGET: Final = "headline"
"""of which a country's days are shown; all targets are in week.csv"""
NOT_JUDGED: Final = "How good forecasts of the week have been is not known yet."


def week_lines(week: WeekReport | None, *, forecast: bool) -> Iterator[str]:
    """The first section; without a week a line that says so, if there is a forecast."""
    if week is None:
        if forecast:
            yield NO_WEEK
            yield ""
        return
    yield f"## The next seven days: {span(week.days[0], week.days[-1])}"
    yield ""
    for number, words in enumerate(week.sentences, start=1):
        yield f"{number}. {sentence(words)}"
    yield ""
    yield from _unusual(week)
    yield from _escalations(week)
    yield from _onsets(week)
    yield from _record(week.record)


def _unusual(week: WeekReport) -> Iterator[str]:
    if week.unusual:
        yield "| conflict above its usual | within the week | published | usual | likeliest day |"
        yield "|---|---|--:|--:|---|"
    for country in week.unusual:
        for event in country.events:
            yield _event_row(event)
    yield ""
    yield f"{escape(week.ranked_by)} Such probabilities: {week.looked_at:,}."
    yield ""


def _event_row(event: UnusualEvent) -> str:
    best = "" if event.best_day is None else f"{event.best_day:%a} {event.best_day}"
    return (
        f"| {escape(event.name)} | {escape(event.label)} {WILL[event.target]} | "
        f"{shown_percent(event.published)} | {percent_or_none(event.usual)} | "
        f"{best} {percent_or_none(event.best)} |"
    )


def _escalations(week: WeekReport) -> Iterator[str]:
    yield (
        "**Material conflict at least doubles** against the last 28 days, likelier than usual in "
        f"{len(week.escalations) or 'none'} of {counted(week.escalations_asked, 'stream')}"
    )
    yield ""
    for one in week.escalations:
        usual = percent_or_none(one.usual)
        yield f"- {escape(one.name)}: {shown_percent(one.published)}, usually {usual}"
    yield ""


def _onsets(week: WeekReport) -> Iterator[str]:
    yield (
        f"**Nothing for 30 days, yet possible**: {counted(week.onset_cells, 'event')}, of which "
        f"{week.onsets_expected:.1f} are expected within the week; the likeliest"
    )
    yield ""
    for event in week.onsets:
        yield (
            f"- {escape(event.name)}: {escape(event.label)} {shown_percent(event.published)}, "
            f"usually {percent_or_none(event.usual)}"
        )
    yield ""


def _record(record: WeekRecord | None) -> Iterator[str]:
    if not record:
        yield NOT_JUDGED
        yield ""
        return
    yield "| record of the week | target | Brier | skill | 95% interval | judged |"
    yield "|---|---|--:|--:|---|--:|"
    for horizon, by_target in sorted(record.items(), key=lambda item: item[0] or 8):
        when = "within the week" if horizon == WITHIN else f"day {horizon}"
        for target, skill in by_target.items():
            yield (
                f"| {when} | {target} | {skill.brier:.5f} | {skill.skill:.1%} | "
                f"{_interval(skill)} | {skill.days:,} |"
            )
    yield ""


def _interval(skill: WeekSkill) -> str:
    known = skill.low is not None and skill.high is not None
    return f"{skill.low:.1%} to {skill.high:.1%}" if known else "too few"


# --- a country ------------------------------------------------------------------------------------


def country_week_lines(country: CountryWeek | None, week: WeekReport | None) -> Iterator[str]:
    """The days of the roots that are furthest from their usual, as headlines."""
    if country is None or week is None:
        return
    yield "**The week, as headlines** (usual in brackets)"
    yield ""
    days = " | ".join(f"{day:%a} {day.day}" for day in week.days)
    yield f"| event | {days} | within | reports | possible weeks |"
    yield f"|---|{'--:|' * (len(week.days) + 3)}"
    for root in country.roots:
        if root.code in country.shown:
            yield _root_row(root, country.possible)
    yield ""
    if country.escalation is not None:
        said, usual = country.escalation.published, country.escalation.usual
        yield (
            f"Material conflict at least doubles: {percent_or_none(said)}, usually "
            f"{percent_or_none(usual)}."
        )
        yield ""


def _root_row(root: WeekRoot, possible: int) -> str:
    target = next(one for one in root.targets if one.target == TARGET)
    chances = [*target.days, target.within]
    cells = [
        f"{percent_or_none(chance.published)} ({percent_or_none(chance.usual)})"
        for chance in chances
    ]
    rows = f"{_sum(root.rows):.1f} ({_sum(root.usual_rows):.1f})"
    having = f"{root.possible} of {possible}, {shown_percent(root.weight)} of the weight"
    quiet = ", nothing for 30 days" if root.onset else ""
    name = f"{escape(root.label)} ({escape(root.code)}){quiet}"
    return f"| {name} | {' | '.join(cells)} | {rows} | {having} |"


def _sum(values: Sequence[float | None]) -> float:
    return sum(value or 0.0 for value in values)
