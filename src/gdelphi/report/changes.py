"""The watchlist's largest changes, each with reasons that a reader can check.

A change is the distance of a root's published probability, as a headline or a surge, from what was
published a day earlier, or from what is usual where nothing was. Reasons are put together from what
stands in the report or the store: what members say, what the last days had, the strongest report,
and the past days that futures were drawn from. They say where a number comes from, not why the
world is so: nothing here knows that.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gdelphi.report.content import (
    Change,
    CountryReport,
    Probability,
)
from gdelphi.report.past import RECENT, PastNews
from gdelphi.report.plain import percent

MOST: Final = 10
LEAST: Final = 0.005  # a smaller change is none
CHANGE_TARGETS: Final = ("headline", "surge")
MEMBERS: Final = {
    "profiles": "the model's day attention",
    "direct": "its direct head",
    "atoms": "its moved atoms",
    "text": "the text forecaster",
}
"""members of the model, as a reader is told"""
BASELINES_SHOWN: Final = 2
OFTEN: Final = 2  # futures from one day that are worth telling


def changes_of(
    countries: Sequence[CountryReport], watched: Sequence[str], past: PastNews
) -> list[Change]:
    """The largest changes of the streams that are watched."""
    found = [
        (country, each)
        for country in countries
        if country.stream in watched
        for each in country.probabilities
        if each.level == "root" and each.target in CHANGE_TARGETS and _moved(each) >= LEAST
    ]
    found.sort(key=lambda pair: (-_moved(pair[1]), pair[0].stream, pair[1].code, pair[1].target))
    return [_change(country, each, past) for country, each in found[:MOST]]


def _before(said: Probability) -> float | None:
    return said.usual if said.yesterday is None else said.yesterday


def _moved(said: Probability) -> float:
    before = _before(said)
    return 0.0 if before is None else abs(said.published - before)


def _change(country: CountryReport, said: Probability, past: PastNews) -> Change:
    return Change(
        stream=country.stream,
        name=country.name,
        code=said.code,
        label=said.label,
        target=said.target,
        published=said.published,
        before=_before(said) or 0.0,
        against="usual" if said.yesterday is None else "yesterday",
        reasons=list(_reasons(country, said, past)),
    )


def _reasons(country: CountryReport, said: Probability, past: PastNews) -> Iterator[str]:
    """First what the news were like, then how the number came about."""
    yield from _last_days(country, said, past)
    yield from _strongest_report(country, said)
    yield from _drawn_days(country, said)
    yield _members(said)


def _members(said: Probability) -> str:
    """What the members say, the model's first."""
    own = [f"{MEMBERS[name]} says {percent(said.members[name])}" for name in _own(said)]
    own = [own[0], *(each.replace(" says", "") for each in own[1:])] if own else []
    stack = "" if said.stack is None else f"the baselines' stack {percent(said.stack)}"
    others = sorted(set(said.members) - set(MEMBERS), key=lambda name: -said.members[name])
    extremes = [f"{name} {percent(said.members[name])}" for name in others[:BASELINES_SHOWN]]
    within = f" (highest: {', '.join(extremes)})" if extremes and stack else ""
    parts = "; ".join(part for part in (", ".join(own), stack + within) if part)
    which = "what is published is their combination" if own else ""
    if said.which == "stack":
        which = "what is published is the stack, since no combination was better on past days"
    return "; ".join(part for part in (parts, which) if part)


def _own(said: Probability) -> list[str]:
    return [name for name in MEMBERS if name in said.members]


def _last_days(country: CountryReport, said: Probability, past: PastNews) -> Iterator[str]:
    times, known = past.headlines(country.stream, said.code)
    standing = past.standing(country.stream, said.code)
    if known:
        told = f"a headline on {times} of the last {RECENT} days"
        missing = f" ({RECENT - known} of them missing)" if known < RECENT else ""
        if standing:
            told += (
                f"{missing}; its share of the news was {standing.share:.1%} on {past.origin}, "
                f"against a median of {standing.median:.1%} over the {standing.days} days before"
            )
        yield told


def _strongest_report(country: CountryReport, said: Probability) -> Iterator[str]:
    evidence = [
        row
        for event in country.events
        if (event.level, event.code) == ("root", said.code)
        for row in event.evidence
    ]
    if evidence:
        row = max(evidence, key=lambda each: (each.mentions, each.day))
        times = "once" if row.mentions == 1 else f"{row.mentions:,} times"
        yield f"the strongest report of it, mentioned {times} on {row.day}: {row.words}"


def _drawn_days(country: CountryReport, said: Probability) -> Iterator[str]:
    """The futures with an atom of this root, and the day that most of them come from."""
    if country.fan is None or not country.fan.futures:
        return
    having = [
        future
        for future in country.fan.futures
        if any(point.root == said.code for point in future.points)
    ]
    total = len(country.fan.futures)
    told = f"among the phrases of {len(having)} of {total} futures"
    days = Counter(future.day for future in having)
    if days:
        day, times = max(days.items(), key=lambda item: (item[1], item[0]))
        if times >= OFTEN:
            told += f", {times} of them drawn from {day}"
    yield told
