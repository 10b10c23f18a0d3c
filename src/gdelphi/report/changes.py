"""The watchlist's largest changes, each with reasons that a reader can check.

A change is the distance of a root's published probability, as a headline or a surge, from what the
forecast of a day earlier said of the same day, or, where there is none, from how often it came on
such days of the week: of different days one would see weekdays, not news. Rises and falls are
ranked apart: before a weekend most of the largest changes are falls. Reasons are put together from
what stands in the report or the store: what members say, what the last days had, the strongest
report, and the past days that futures were drawn from. They say where a number comes from, not why
the world is so: nothing here knows that.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gdelphi.common.percent import percent
from gdelphi.report.content import (
    Change,
    CountryReport,
    Probability,
)
from gdelphi.report.past import RECENT, PastNews

RISES: Final = 6
FALLS: Final = 4
LEAST: Final = 0.005  # a smaller change is none
CHANGE_TARGETS: Final = ("headline", "surge")
MEMBERS: Final = {
    "profiles": "the model's day attention",
    "direct": "its direct head",
    "atoms": "its moved atoms",
    "text": "the text forecaster",
}
"""members of the model, as a reader knows them"""
BASELINES_SHOWN: Final = 2
OFTEN: Final = 2  # futures from one day that are worth a word


def changes_of(
    countries: Sequence[CountryReport], watched: Sequence[str], past: PastNews
) -> list[Change]:
    """The largest rises of the streams that are watched, and then the largest falls."""
    changes = [
        (country, probability)
        for country in countries
        if country.stream in watched
        for probability in country.probabilities
        if probability.level == "root"
        and probability.target in CHANGE_TARGETS
        and abs(_moved(probability)) >= LEAST
    ]
    changes.sort(
        key=lambda pair: (-abs(_moved(pair[1])), pair[0].stream, pair[1].code, pair[1].target)
    )
    rises = [pair for pair in changes if _moved(pair[1]) > 0][:RISES]
    falls = [pair for pair in changes if _moved(pair[1]) < 0][:FALLS]
    return [_change(country, probability, past) for country, probability in rises + falls]


def _before(probability: Probability) -> float | None:
    return probability.usual_then if probability.yesterday is None else probability.yesterday


def _moved(probability: Probability) -> float:
    before = _before(probability)
    return 0.0 if before is None else probability.published - before


def _change(country: CountryReport, probability: Probability, past: PastNews) -> Change:
    return Change(
        stream=country.stream,
        name=country.name,
        code=probability.code,
        label=probability.label,
        target=probability.target,
        published=probability.published,
        before=_before(probability) or 0.0,
        against="usual" if probability.yesterday is None else "last forecast",
        reasons=list(_reasons(country, probability, past)),
    )


def _reasons(country: CountryReport, probability: Probability, past: PastNews) -> Iterator[str]:
    """First what the news were like, then how the number came about."""
    yield from _last_days(country, probability, past)
    yield from _strongest_report(country, probability)
    yield from _drawn_days(country, probability)
    yield _members(probability)


def _members(probability: Probability) -> str:
    """What the members say, the model's first."""
    members = probability.members
    own = [
        f"{name} says {percent(members[member])}"
        for member, name in MEMBERS.items()
        if member in members
    ]
    own = [own[0], *(part.replace(" says", "") for part in own[1:])] if own else []
    stack = ""
    if probability.stack is not None:
        stack = f"without the network {percent(probability.stack)}"
    others = sorted(set(members) - set(MEMBERS), key=lambda name: -members[name])
    extremes = [f"{name} {percent(members[name])}" for name in others[:BASELINES_SHOWN]]
    within = f" (highest: {', '.join(extremes)})" if extremes and stack else ""
    parts = "; ".join(part for part in (", ".join(own), stack + within) if part)
    which = "what is published is their combination" if own else ""
    if probability.which == "stack":
        which = "what is published is the stack, since no combination was better on past days"
    return "; ".join(part for part in (parts, which) if part)


def _last_days(country: CountryReport, probability: Probability, past: PastNews) -> Iterator[str]:
    times, known = past.headlines(country.stream, probability.code)
    standing = past.standing(country.stream, probability.code)
    if known:
        reason = f"a headline on {times} of the last {RECENT} days"
        missing = f" ({RECENT - known} of them missing)" if known < RECENT else ""
        if standing:
            reason += (
                f"{missing}; its share of the news was {standing.share:.1%} on {past.origin}, "
                f"against a median of {standing.median:.1%} over the {standing.days} days before"
            )
        yield reason


def _strongest_report(country: CountryReport, probability: Probability) -> Iterator[str]:
    evidence = [
        row
        for event in country.events
        if (event.level, event.code) == ("root", probability.code)
        for row in event.evidence
    ]
    if evidence:
        row = max(evidence, key=lambda report: (report.mentions, report.day))
        times = "once" if row.mentions == 1 else f"{row.mentions:,} times"
        yield f"the strongest report of it, mentioned {times} on {row.day}: {row.words}"


def _drawn_days(country: CountryReport, probability: Probability) -> Iterator[str]:
    """The futures with an atom of this root, and the day that most of them come from."""
    if country.fan is None or not country.fan.futures:
        return
    having = [
        future
        for future in country.fan.futures
        if any(point.root == probability.code for point in future.points)
    ]
    total = len(country.fan.futures)
    weight = sum(future.weight for future in having)
    reason = f"{len(having)} of {total} futures have it, {percent(weight)} of the weight"
    days = Counter(future.day for future in having)
    if days:
        day, times = max(days.items(), key=lambda item: (item[1], item[0]))
        if times >= OFTEN:
            reason += f"; {times} of them drawn from {day}"
    yield reason
