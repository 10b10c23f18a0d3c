"""Precedents: past reports that support a reconstructed event.

The rows of a stream that carry the event up to the origin, those first that are recent, much
mentioned and have the arguments that are thought likely; and the phrases that they make. Chosen: a
look into the store for the few events that are shown, by the very codes that were counted; rows are
not kept in memory beside the arguments, since nobody asks about most of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

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
from gdelphi.store.connection import Connection

RECENT_DAYS = 365  # looked at first; days before only if these have too little
HALF_LIFE = 30.0  # days in which a report loses half its claim to be shown
ROWS_LOOKED_AT = 500

_COLUMNS: Final[Mapping[Level, str]] = {
    "root": "EventRootCode",
    "base": "EventBaseCode",
    "full": "EventCode",
}
_ROWS = """
    SELECT *, ln(1 + mentions) * pow(0.5, (?::DATE - day) / ?) AS claim FROM (
        SELECT NewsDay AS day, {actor1} AS actor1, coalesce(EventCode, '') AS code,
            {actor2} AS actor2, {region} AS region, ActionGeo_CountryCode AS country,
            GLOBALEVENTID AS id, greatest(coalesce(NumMentions, 1), 0) AS mentions,
            ActionGeo_FullName AS place, SOURCEURL AS source
        FROM events WHERE NewsDay BETWEEN ? AND ? AND {level} = ?
            AND (? OR ActionGeo_CountryCode = ?)
            AND NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0))
    ORDER BY claim DESC, day DESC, id LIMIT ?"""

Likely = Mapping[ArgumentKind, Mapping[str, float]]
"""For each kind of argument the likely values and their probabilities."""


@dataclass(frozen=True)
class Precedent(SourceRow):
    """A past report of the event."""

    day: date
    phrase: str
    """who did what to whom, and where"""


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
    rows = _rows(connection, stream, code, level=level or level_of(code), origin=origin, most=most)
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


def _rows(
    connection: Connection, stream: str, code: str, *, level: Level, origin: date, most: int
) -> list[tuple[float, dict[ArgumentKind, str], Precedent]]:
    if code not in standard_events(level):
        raise ArgumentsError(f"no standard event {code!r} at level {level}")
    sql = _ROWS.format(
        actor1=actor_key_sql(1), actor2=actor_key_sql(2), region=REGION_SQL, level=_COLUMNS[level]
    )
    rows = []
    for since in (origin - timedelta(days=RECENT_DAYS), date.min):
        rows = connection.rows(
            sql,
            [origin, HALF_LIFE, since, origin, code, stream == WORLD, stream, ROWS_LOOKED_AT],
        )
        if len(rows) >= most:
            break
    return [_row(*row) for row in rows]


def _row(
    day: date,
    actor1: str,
    code: str,
    actor2: str,
    region: str,
    country: str | None,
    *rest: object,
) -> tuple[float, dict[ArgumentKind, str], Precedent]:
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
