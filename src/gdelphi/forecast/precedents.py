"""Precedents: past reports that support a reconstructed event.

The rows of a stream that carry the event up to the origin, those first that are recent, much
mentioned and have the arguments that are thought likely; and the phrases that they make. Chosen: a
look into the store for the few events that are shown, by the very codes that were counted; rows are
not kept in memory beside the arguments, since nobody asks about most of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.types import WORLD, Level
from gdelphi.forecast.arguments import (
    REGION_SQL,
    ArgumentKind,
    level_of,
)
from gdelphi.measures.evidence import SourceRow
from gdelphi.measures.phrases import (
    actor_key_sql,
    canonical,
    sentence,
)
from gdelphi.measures.profiles import standard_events
from gdelphi.store.connection import Connection, arrow_table

RECENT_DAYS = 365  # looked at first; days before only if these have too little
HALF_LIFE = 30.0  # days in which a report loses half its claim to be shown
ROWS_LOOKED_AT = 500
FEW_DAYS = 200  # that are named one by one, so that others need not be read

_COLUMNS: Final[Mapping[Level, str]] = {
    "root": "EventRootCode",
    "base": "EventBaseCode",
    "full": "EventCode",
}
# Which rows are taken is found out from few columns; only theirs are read whole.
_ROWS = """
    WITH chosen AS MATERIALIZED (
        SELECT place, day, id, claim FROM (
            SELECT asked.place, NewsDay AS day, GLOBALEVENTID AS id,
                ln(1 + greatest(coalesce(NumMentions, 1), 0))
                    * pow(0.5, ($origin::DATE - NewsDay) / $half_life) AS claim
            FROM events JOIN asked ON {level} = asked.code AND {country}
            WHERE NewsDay BETWEEN $since AND $origin AND {days}
                AND NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0))
        QUALIFY row_number() OVER (
            PARTITION BY place ORDER BY claim DESC, day DESC, id) <= $most)
    SELECT chosen.place, NewsDay AS day, {actor1} AS actor1, coalesce(EventCode, '') AS code,
        {actor2} AS actor2, {region} AS region, ActionGeo_CountryCode AS country,
        GLOBALEVENTID AS id, greatest(coalesce(NumMentions, 1), 0) AS mentions,
        ActionGeo_FullName AS named, SOURCEURL AS source, claim
    FROM chosen JOIN events ON GLOBALEVENTID = chosen.id AND NewsDay = chosen.day
    WHERE NewsDay BETWEEN $since AND $origin AND {days}
    ORDER BY chosen.place, claim DESC, day DESC, id"""


class PastEvent(NamedTuple):
    """An event of a stream whose past reports are wanted."""

    stream: str
    level: Level
    code: str


Likely = Mapping[ArgumentKind, Mapping[str, float]]
"""For each kind of argument the likely values and their probabilities."""


@dataclass(frozen=True)
class Precedent(SourceRow):
    """A past report of the event."""

    day: date
    phrase: str
    """who did what to whom, and where"""


PastReport = tuple[float, dict[ArgumentKind, str], Precedent]
"""how much it claims to be shown, its arguments, the row"""


@dataclass(frozen=True)
class Precedents:
    """What supports a reconstructed event."""

    phrases: tuple[tuple[str, float], ...]
    """the phrases that most reports make, with their share of the reports looked at"""
    rows: tuple[Precedent, ...]


def find_precedents(
    connection: Connection,
    stream: str,
    code: str,
    origin: date,
    *,
    most: int = 5,
    likely: Likely | None = None,
    level: Level | None = None,
) -> Precedents:
    """Up to `most` past reports and phrases of an event, none after the origin.

    Of each source one report is taken; of reports without a source, all. `likely` gives reports
    with these arguments precedence.
    """
    asked = PastEvent(stream, level or level_of(code), code)
    return choose_precedents(
        past_reports(connection, [asked], origin, most=most)[asked], most=most, likely=likely
    )


def choose_precedents(
    rows: Sequence[PastReport], *, most: int = 5, likely: Likely | None = None
) -> Precedents:
    """The same from the past reports of an event."""
    ranked = sorted(
        ((claim * _agreement(arguments, likely or {}), row) for claim, arguments, row in rows),
        key=lambda claimed: -claimed[0],
    )
    total = sum(claim for claim, _ in ranked) or 1.0
    phrases: dict[str, float] = {}
    for claim, row in ranked:
        phrases[row.phrase] = phrases.get(row.phrase, 0.0) + claim / total
    largest = sorted(phrases.items(), key=lambda item: (-item[1], item[0]))[:most]
    first: dict[str, int] = {}
    for _, row in ranked:
        if row.source is not None:
            first.setdefault(row.source, row.event_id)
    distinct = [row for _, row in ranked if row.source is None or first[row.source] == row.event_id]
    return Precedents(tuple(largest), tuple(distinct[:most]))


def _agreement(arguments: Mapping[ArgumentKind, str], likely: Likely) -> float:
    """1 for a report with none of the likely arguments, up to 4 with the likeliest of each kind."""
    score = 1.0
    for kind, values in likely.items():
        most = max(values.values(), default=0.0)
        if most > 0:
            score += values.get(arguments[kind], 0.0) / most
    return score


def past_reports(
    connection: Connection, asked: Sequence[PastEvent], origin: date, *, most: int = 5
) -> dict[PastEvent, list[PastReport]]:
    """Up to ROWS_LOOKED_AT past reports of each event, none after the origin. For many events at
    once the store is looked through once for a level, and not once for each event."""
    for _, level, code in asked:
        if code not in standard_events(level):
            raise ArgumentsError(f"no standard event {code!r} at level {level}")
    found: dict[PastEvent, list[PastReport]] = {one: [] for one in asked}
    recent = origin - timedelta(days=RECENT_DAYS)
    for since in (recent, date.min):
        lacking = [one for one in found if len(found[one]) < most]
        groups: dict[tuple[Level, bool], list[PastEvent]] = {}
        for one in lacking:
            groups.setdefault((one.level, one.stream == WORLD), []).append(one)
        for (level, world), group in groups.items():
            days = "true" if since == recent else _days_with(connection, group, level, recent)
            if days is not None:
                found |= _look(connection, group, level, world=world, since=since, origin=origin,
                               days=days)  # fmt: skip
    return found


def _days_with(
    connection: Connection, group: Sequence[PastEvent], level: Level, before: date
) -> str | None:
    """SQL for the days that have such events at all, by the sums of days, if they are few; None if
    there are none before a day, so that another look is of no use."""
    codes, streams = ({getattr(one, name) for one in group} for name in ("code", "stream"))
    # Lists written out, not given: DuckDB then looks at texts by their dictionary.
    days = [
        day
        for (day,) in connection.rows(
            f"SELECT DISTINCT NewsDay FROM day_sums WHERE {_COLUMNS[level]} IN {_texts(codes)}"
            + ("" if WORLD in streams else f" AND Stream IN {_texts(streams)}")
        )
    ]
    if not any(day < before for day in days):
        return None
    if len(days) > FEW_DAYS:
        return "true"
    named = ", ".join(f"DATE '{day}'" for day in sorted(days))
    return f"NewsDay IN ({named})"


def _texts(texts: Iterable[str]) -> str:
    """SQL for a list of texts."""
    quoted = (text.replace("'", "''") for text in sorted(texts))
    return "(" + ", ".join(f"'{text}'" for text in quoted) + ")"


def _look(
    connection: Connection,
    group: Sequence[PastEvent],
    level: Level,
    *,
    world: bool,
    since: date,
    origin: date,
    days: str,
) -> dict[PastEvent, list[PastReport]]:
    sql = _ROWS.format(
        actor1=actor_key_sql(1), actor2=actor_key_sql(2), region=REGION_SQL, level=_COLUMNS[level],
        country="true" if world else "ActionGeo_CountryCode = asked.stream", days=days,
    )  # fmt: skip
    given = arrow_table(
        ("place", "stream", "code"),
        [(place, one.stream, one.code) for place, one in enumerate(group)],
    )
    found: dict[PastEvent, list[PastReport]] = {one: [] for one in group}
    with connection.registered("asked", given):
        for place, *row in connection.rows(
            sql,
            {"origin": origin, "half_life": HALF_LIFE, "since": since, "most": ROWS_LOOKED_AT},
        ):
            found[group[place]].append(_row(*row))
    return found


def _row(
    day: date,
    actor1: str,
    code: str,
    actor2: str,
    region: str,
    country: str | None,
    *rest: object,
) -> PastReport:
    event_id, mentions, place, source, claim = rest
    first, second = canonical(actor1), canonical(actor2)
    return (
        float(str(claim)),
        {"actor1": first, "actor2": second, "region": region},
        Precedent(
            event_id=int(str(event_id)),
            mentions=int(str(mentions)),
            place=None if place is None else str(place),
            source=None if source is None else str(source),
            day=day,
            phrase=sentence(first, code, second, country),
        ),
    )
