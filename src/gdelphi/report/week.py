"""The week of a stored forecast as content of a report: countries, and what is unusual over all.

Numbers are those of the forecast's tables. What is unusual is decided in `forecast/unusual.py`;
here it gets its words.
"""

from datetime import date
from typing import Final

from gdelphi.common.percent import percent
from gdelphi.common.types import TARGETS, WITHIN
from gdelphi.forecast.stored_week import Chances, PossibleWeeks, StoredWeek, WeekCell
from gdelphi.forecast.unusual import (
    LEAST,
    bits,
    escalating,
    most_unusual,
    onsets,
    ranked_cells,
    unusual_roots,
    unusual_streams,
)
from gdelphi.gdelt.countries import stream_name
from gdelphi.report.content import Record
from gdelphi.report.plain import clean, counted, label_of, number
from gdelphi.report.record import FEWEST_FOR_SKILL
from gdelphi.report.week_content import (
    Chance,
    CountryWeek,
    Escalation,
    UnusualCountry,
    UnusualEvent,
    WeekReport,
    WeekRoot,
    WeekSkill,
    WeekTarget,
)
from gdelphi.report.week_record import JudgedRecord

ROOTS_SHOWN: Final = 8  # of a country's strip
COUNTRIES: Final = 6
EVENTS: Final = 2  # of each of them
ESCALATIONS: Final = 5
ONSETS: Final = 5
NO_WEEK: Final = (
    "The model behind this forecast speaks of tomorrow only: of the days after it, and of the "
    "week, nothing is said."
)
RANKED_BY: Final = (
    "Countries are ranked by how much more than the usual the forecast says about conflict within "
    "the week: the information, in bits, of its probabilities against the usual ones, added up "
    "over protest, show of force, coercion, assault, fighting and mass violence, as headlines and "
    "as surges. Events with less than one report in a usual week are left out. Usual is how often "
    "it came in the last 52 weeks."
)
RANKED_BY_ANY: Final = (
    "Countries are ranked by one number: the probability that any kind of conflict surges within "
    "the week (protest, show of force, coercion, assault, fighting or mass violence), by the "
    "information, in bits, that it has against its usual, which is how often any did in the last "
    "52 weeks. Events with less than one report in a usual week are left out."
)
WILL: Final = {
    "occurs": "is reported",
    "headline": "is a headline on at least one day",
    "surge": "surges on at least one day",
}
"""what a target says of an event within the week"""


# --- a country ------------------------------------------------------------------------------------


def country_week(week: StoredWeek, stream: str) -> CountryWeek:
    """All that is said of a stream's week."""
    chances = week.escalations.get(stream)
    possible = [found for (own, _), found in week.possible.items() if own == stream]
    return CountryWeek(
        roots=[_root(week, stream, code) for code in week.codes(stream)],
        shown=unusual_roots(week, stream, ROOTS_SHOWN),
        possible=possible[0].of if possible else 0,
        escalation=None if chances is None else _chance(chances),
        conflict=_chance(week.conflict[stream]) if stream in week.conflict else None,
    )


def _root(week: StoredWeek, stream: str, code: str) -> WeekRoot:
    rows = week.rows[stream, code]
    found = week.possible.get((stream, code), PossibleWeeks(0, 0, 0.0))
    return WeekRoot(
        code=code,
        label=label_of(code),
        onset=rows.onset,
        targets=[_target(cell) for cell in week.of_root(stream, code)],
        rows=[number(value) for value in rows.expected],
        usual_rows=[number(value) for value in rows.usual],
        possible=found.having,
        weight=number(found.weight) or 0.0,
    )


def _target(cell: WeekCell) -> WeekTarget:
    return WeekTarget.model_validate(
        {
            "target": cell.target,
            "days": [_chance(day) for day in cell.days],
            "within": _chance(cell.within),
        }
    )


def _chance(chances: Chances) -> Chance:
    return Chance(**{name: number(value) for name, value in chances._asdict().items()})


# --- all of them ----------------------------------------------------------------------------------


def week_report(
    week: StoredWeek,
    record: Record,
    judged: JudgedRecord | None = None,
    earlier: StoredWeek | None = None,
) -> WeekReport:
    """What is likely and unusual within the week. `judged` says how good forecasts of the week have
    been, if that is known; `record` is that of tomorrow; `earlier` is the week as it was forecast a
    day before."""
    quiet, above = onsets(week), escalating(week)
    return WeekReport(
        days=week.days,
        sentences=[_where(week), _what(week, earlier), _trust(record, judged)],
        ranked_by=RANKED_BY_ANY if week.conflict else RANKED_BY,
        looked_at=sum(1 for stream in week.streams for _ in ranked_cells(week, stream)),
        unusual=[
            UnusualCountry(
                stream=clean(one.stream),
                name=clean(stream_name(one.stream)),
                bits=number(one.bits) or 0.0,
                published=number(one.chances.published) if one.chances else None,
                usual=number(one.chances.usual) if one.chances else None,
                events=[_event(week, cell) for cell in one.cells[:EVENTS]],
            )
            for one in unusual_streams(week)[:COUNTRIES]
        ],
        escalations=[
            Escalation(
                stream=clean(stream),
                name=clean(stream_name(stream)),
                published=number(chances.published) or 0.0,
                usual=number(chances.usual),
            )
            for stream, chances in above[:ESCALATIONS]
        ],
        escalations_asked=len(week.escalations),
        onsets=[_event(week, cell) for cell in quiet[:ONSETS]],
        onset_cells=len(quiet),
        onsets_expected=number(sum(cell.within.published or 0.0 for cell in quiet)) or 0.0,
        record=judged.record if judged else None,
        record_source=judged.source if judged else None,
    )


def _event(week: StoredWeek, cell: WeekCell) -> UnusualEvent:
    best = cell.best_day
    return UnusualEvent.model_validate(
        {
            "stream": clean(cell.stream),
            "name": clean(stream_name(cell.stream)),
            "code": cell.code,
            "label": label_of(cell.code),
            "target": cell.target,
            "published": number(cell.within.published) or 0.0,
            "usual": number(cell.within.usual),
            "best_day": None if best is None else week.days[best],
            "best": None if best is None else number(cell.days[best].published),
        }
    )


# --- the three sentences --------------------------------------------------------------------------


def _where(week: StoredWeek) -> str:
    over = f"In the seven days to {_long_day(week.days[-1])} {week.days[-1].year} conflict is"
    ranked = unusual_streams(week)
    if not ranked:
        return f"{over} in no country clearly above its usual."
    first = ranked[0]
    where = clean(stream_name(first.stream))
    most = _words(first.cells[0])
    if first.chances is None:
        return f"{over} furthest above its usual in {where}: {most}."
    said, usual = percent(first.chances.published), percent(first.chances.usual)
    any_kind = f"some kind of it surges with {said}, usually {usual}"
    return f"{over} furthest above its usual in {where}: {any_kind}; above all {most}."


def _what(week: StoredWeek, earlier: StoredWeek | None) -> str:
    """What has risen most since the forecast of a day before; without one, what is most unusual."""
    risen = largest_rise(week, earlier) if earlier else None
    if risen:
        cell, before = risen
        said, where = percent(cell.within.published), clean(stream_name(cell.stream))
        what = f"“{label_of(cell.code)}” {WILL[cell.target]} with {said}"
        return f"Since the last forecast most has risen in {where}: {what}, a day ago {before}."
    named = {ranked.cells[0] for ranked in unusual_streams(week)[:1]}
    cells = [cell for cell in most_unusual(week) if cell not in named]
    if not cells:
        return "Nothing else is far above its usual."
    cell = cells[0]
    best = cell.best_day
    likeliest = "" if best is None else f", likeliest on {_long_day(week.days[best])}"
    where = clean(stream_name(cell.stream))
    return f"The most unusual of all events is in {where}: {_words(cell)}{likeliest}."


def largest_rise(week: StoredWeek, earlier: StoredWeek) -> tuple[WeekCell, str] | None:
    """The cell whose probability within the week has risen most in bits, and what it was."""
    rises = []
    for stream in week.streams:
        for cell in ranked_cells(week, stream, conflict=False):
            before = earlier.cells.get((cell.stream, cell.code, cell.target))
            if before is not None and before.within.published is not None:
                chances = cell.within._replace(usual=before.within.published)
                rises.append((bits(chances), cell, percent(before.within.published)))
    rises.sort(key=lambda rise: (-rise[0], rise[1].stream, rise[1].code, rise[1].target))
    return rises[0][1:] if rises and rises[0][0] >= LEAST else None


def _words(cell: WeekCell) -> str:
    said, usual = percent(cell.within.published), percent(cell.within.usual)
    return f"“{label_of(cell.code)}” {WILL[cell.target]} with {said}, usually {usual}"


def _trust(record: Record, judged: JudgedRecord | None) -> str:
    known = judged.record.get(WITHIN, {}).get("headline") if judged else None
    if judged is None or known is None:
        return (
            f"How far to trust it: no forecast of a week has been judged yet; {_of_days(record)}."
        )
    weeks = f"over {counted(known.days, 'overlapping week')}"
    if judged.source == "backtest":
        weeks = f"in a backtest of {counted(known.days, 'overlapping week')}"
    better = "better" if known.skill >= 0 else "worse"
    return (
        f"How far to trust it: {weeks} headlines within the week were forecast "
        f"{abs(known.skill):.1%} {better} than by the simple stack ({interval_words(known)})."
    )


def interval_words(skill: WeekSkill) -> str:
    """The interval of a skill, and what it does not prove."""
    if skill.low is None or skill.high is None:
        return "too few to tell"
    proof = ", which is no proof" if skill.low <= 0 <= skill.high else ""
    return f"95% interval {skill.low:.1%} to {skill.high:.1%}{proof}"


def _of_days(record: Record) -> str:
    """How good forecasts of tomorrow have been, in short."""
    if not record.windows:
        return "nor has any of a single day"
    number_of_days = record.windows[-1].judged
    days = f"over {counted(number_of_days, 'judged day')}"
    if record.source == "backtest":
        days = f"in a backtest of {counted(number_of_days, 'day')}"
    if record.skilful is None:
        early = number_of_days < FEWEST_FOR_SKILL
        return f"those of tomorrow are {'too few to tell' if early else 'mixed'}, {days}"
    shown = "were better than the baselines" if record.skilful else "have shown no skill"
    return f"those of tomorrow {shown}, {days}"


def span(first: date, last: date) -> str:
    """Saturday 11 to Friday 17 September 2021."""
    same = (first.year, first.month) == (last.year, last.month)
    month = "" if same else f" {first:%B}"
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first:%A} {first.day}{month}{year} to {_long_day(last)} {last.year}"


def _long_day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B}"


def target_order(targets: list[WeekTarget]) -> list[WeekTarget | None]:
    """Targets in the order of TARGETS."""
    by_name = {one.target: one for one in targets}
    return [by_name.get(target) for target in TARGETS]
