"""The data that the page's script draws countries from: a report in short.

A country's section is drawn when a reader opens it, from this: whole numbers (thousandths) in plain
lists, codes by their number in one list. Not the report's own JSON: with the names of its fields on
each of 50,000 points of futures a page would weigh 10 MB. Codes that nobody expects, and the
smaller shares, are left to the tables beside the page.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gdelphi.common import percent
from gdelphi.common.types import TARGETS
from gdelphi.report.content import (
    CountryReport,
    Event,
    Fan,
    Probability,
    Report,
    Share,
    Timeline,
    WeightedPhrase,
)
from gdelphi.report.plain import (
    anchor,
    one_line,
    web_address,
)
from gdelphi.report.views import bounds_of, risk_of
from gdelphi.report.week import target_order
from gdelphi.report.week_content import CountryWeek, WeekTarget

WORTH: Final = 0.01
"""a finer code is on the page if a probability or what is usual for it is at least this"""
SHARES: Final = 9
EVIDENCE: Final = 3
_KINDS: Final = ((1, 5, 0), (6, 8, 1), (9, 13, 2), (14, 20, 3))


def kind(code: str) -> int:
    """Class of a code: verbal or material cooperation, verbal or material conflict; or none: 4."""
    if not (code[:2].isascii() and code[:2].isdigit()):
        return 4
    root = int(code[:2])
    return next((number for low, high, number in _KINDS if low <= root <= high), 4)


def thousandths(value: float | None) -> int | None:
    return None if value is None else percent.thousandths(value)


class CodeNumbers:
    """Numbers for codes, given in the order in which they are met."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, code: str, label: str | None = None, level: str = "root") -> int:
        """The number of a code; its label is taken from where one is known."""
        key = (level, code)
        if key not in self._numbers:
            self._numbers[key] = len(self.entries)
            self.entries.append(
                [one_line(code, 12), one_line(label or code, 80), level, kind(code)]
            )
        elif label:
            self.entries[self._numbers[key]][1] = one_line(label, 80)
        return self._numbers[key]


def _phrases(phrases: Iterable[WeightedPhrase]) -> list[Any]:
    return [
        [thousandths(p.weight), one_line(p.words, 140), kind(p.code), one_line(p.root, 60)]
        for p in phrases
    ]


def _probabilities(probabilities: list[Probability], codes: CodeNumbers) -> list[Any]:
    """A line for each code that is worth showing: its number, and its values by target."""
    worth = {
        (p.level, p.code)
        for p in probabilities
        if p.level == "root" or p.published >= WORTH or (p.usual or 0) >= WORTH
    }
    lines: dict[int, list[Any]] = {}
    for p in probabilities:
        if (p.level, p.code) not in worth:
            continue
        number = codes.number(p.code, p.label, p.level)
        line = lines.setdefault(number, [number, None, None, None])
        values = [thousandths(v) for v in (p.published, p.stack, p.usual, p.yesterday)]
        members = {one_line(name, 30): thousandths(v) for name, v in p.members.items()}
        more = [members if p.level == "root" else None] if p.level == "root" or p.beyond else []
        line[1 + TARGETS.index(p.target)] = [*values, *more, *([1] if p.beyond else [])]
    return list(lines.values())


def _shares(shares: list[Share], codes: CodeNumbers) -> list[Any]:
    largest = sorted(shares, key=lambda s: max(s.mean, s.q95 / 2), reverse=True)[:SHARES]
    return [
        [
            codes.number(s.code, s.label),
            [thousandths(v) for v in (s.q05, s.q25, s.q50, s.q75, s.q95)],
            [thousandths(v) for v in s.past],
        ]
        for s in largest
    ]


def _event(event: Event, codes: CodeNumbers) -> dict[str, Any]:
    return {
        "code": codes.number(event.code, event.label, event.level),
        "headline": thousandths(event.headline),
        "occurs": thousandths(event.occurs),
        "arguments": [
            [[one_line(a.words, 60), thousandths(a.probability)] for a in part[:4]]
            for part in (event.who, event.whom, event.where)
        ],
        "evidence": [
            {
                "day": e.day.isoformat(),
                "words": one_line(e.words, 140),
                "place": one_line(e.place, 60) if e.place else None,
                "mentions": e.mentions,
                "source": one_line(e.source, 60) if e.source else None,
                "address": web_address(e.source),
            }
            for e in event.evidence[:EVIDENCE]
        ],
    }


def _fan(fan: Fan | None, codes: CodeNumbers) -> dict[str, Any] | None:
    if fan is None:
        return None
    futures = []
    for future in fan.futures:
        points: list[int] = []
        for p in future.points:
            numbers = (round(v * 1000) for v in (p.x, p.y, p.size))
            points += [*numbers, codes.number(p.root)]
        futures.append([future.day.isoformat(), round(future.weight * 10_000), points])
    return {
        "futures": futures,
        "effective": round(fan.effective, 1),
        "explained": thousandths(fan.explained),
        "landmarks": [
            [codes.number(code), round(x * 1000), round(y * 1000)]
            for code, (x, y) in fan.landmarks.items()  # roots
        ],
    }


def _week(week: CountryWeek | None, codes: CodeNumbers) -> dict[str, Any] | None:
    """The strip of a country: of the roots that are shown, days and behind them the week."""
    if week is None:
        return None
    chosen = [root for root in week.roots if root.code in week.shown]
    return {
        "possible": week.possible,
        "escalation": week.escalation
        and [thousandths(week.escalation.published), thousandths(week.escalation.usual)],
        "roots": [
            {
                "code": codes.number(root.code, root.label),
                "onset": root.onset,
                "rows": [_tenths(root.rows), _tenths(root.usual_rows)],
                "having": [root.possible, thousandths(root.weight)],
                "targets": [target and _strip(target) for target in target_order(root.targets)],
            }
            for root in chosen
        ],
    }


def _strip(target: WeekTarget) -> list[list[int | None]]:
    """What is published, and what is usual."""
    chances = [*target.days, target.within]
    return [
        [thousandths(chance.published) for chance in chances],
        [thousandths(chance.usual) for chance in chances],
    ]


def _tenths(rows: Sequence[float | None]) -> float:
    """Reports within the week."""
    return round(sum(value or 0.0 for value in rows), 1)


def _published(country: CountryReport) -> list[str | None]:
    """For each target: whether the combination or the stack is what is published."""
    which: list[str | None] = []
    for target in TARGETS:
        used = {p.which for p in country.probabilities if p.target == target}
        which.append(used.pop() if len(used) == 1 else ("mixed" if used else None))
    return which


def _country(country: CountryReport, codes: CodeNumbers) -> dict[str, Any]:
    return {
        "stream": one_line(country.stream, 12),
        "anchor": anchor(country.stream),
        "name": one_line(country.name, 60),
        "risk": thousandths(risk_of(country)),
        "riskUsual": thousandths(
            country.week.conflict.usual if country.week and country.week.conflict else None
        ),
        "surge": thousandths(country.conflict_surge),
        "surgeCode": codes.number(country.conflict_code) if country.conflict_code else None,
        "change": thousandths(country.change),
        "changeCode": codes.number(country.change_code) if country.change_code else None,
        "brief": _phrases(country.brief),
        "latest": _phrases(country.latest),
        "rows": country.rows,
        "which": _published(country),
        "probabilities": _probabilities(country.probabilities, codes),
        "shares": _shares(country.shares, codes),
        "events": [_event(event, codes) for event in country.events],
        "fan": _fan(country.fan, codes),
        "week": _week(country.week, codes),
        "timeline": _timeline(country.timeline, codes),
    }


def _timeline(timeline: Timeline | None, codes: CodeNumbers) -> list[Any] | None:
    if timeline is None:
        return None
    return [
        [
            codes.number(line.code, line.label),
            [thousandths(value) for value in line.published],
            [None if came is None else int(came) for came in line.came],
        ]
        for line in timeline.lines
    ]


def _judged(report: Report) -> dict[str, Any] | None:
    """The days of all time lines."""
    found = next((country.timeline for country in report.countries if country.timeline), None)
    if found is None:
        return None
    return {
        "days": [day.isoformat() for day in found.days],
        "backtest": found.source == "backtest",
    }


def payload(report: Report) -> dict[str, Any]:
    """All that the page's script needs, ready for JSON."""
    codes = CodeNumbers()
    return {
        "countries": [_country(country, codes) for country in report.countries],
        "codes": codes.entries,
        "days": [day.isoformat() for day in report.days],
        "origin": report.origin.isoformat(),
        "target": report.target_day.isoformat(),
        "week": [day.isoformat() for day in report.week.days] if report.week else None,
        "forecast": any(country.probabilities for country in report.countries),
        "judged": _judged(report),
        "riskBounds": [round(1000 * bound) for bound in bounds_of(report.countries)],
    }
