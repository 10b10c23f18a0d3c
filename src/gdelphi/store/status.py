"""The state of the store: what is there, what is lacking and why, and whether to worry.

A store is stale when its last complete news day lies too far back, and incomplete when files that
an archive has are not in it. Files that the source does not have make neither: nothing can be done.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Any

from gdelphi.common.files import text_digest
from gdelphi.common.sections import StatusSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt.file_names import possible_until, tomorrow_of
from gdelphi.store.connection import Connection, Store
from gdelphi.store.rows import REASON_KIND
from gdelphi.store.sums import TOLD

NEVER_TRIED = "never tried"
LACKING = ("rejected", "failed", NEVER_TRIED)  # states that make a store incomplete
FEWEST_DAYS = 14  # of past volumes that a judgement needs
ROBUST = 1.4826  # median absolute deviation -> standard deviation of a normal distribution
FAR_OFF = 4.0  # standard deviations


@dataclass(frozen=True)
class Gap:
    """A stretch of days that are not whole, and the reason that the ledger gives."""

    first: date
    last: date
    state: str
    reason: str | None = None

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


@dataclass(frozen=True)
class OddVolume:
    """A day with far more or fewer rows than its weekday in the past weeks."""

    day: date
    rows: int
    usual: float


@dataclass(frozen=True)
class DayStatus:
    """A line of the store's `days` view."""

    day: date
    rows: int
    state: str
    complete: bool
    loaded: int


@dataclass(frozen=True)
class Status:
    """All that `gdelphi status` shows."""

    store: str
    as_of: date
    first_day: date | None
    last_day: date | None
    latest_complete_day: date | None
    stale: bool
    incomplete: bool
    days_by_state: dict[str, int]
    gaps: list[Gap]
    files_by_status: dict[str, int]
    rows: int
    story_duplicates: int
    id_duplicates: int
    rejects: dict[str, int]
    unknown_codes: dict[str, dict[str, int]]
    odd_volumes: list[OddVolume]
    last_run: dict[str, Any] | None
    last_successful_run: dict[str, Any] | None
    fingerprint: str
    blank_countries: dict[str, int] = field(default_factory=dict)
    """actors without a country code whose actor code tells one: by the country"""
    phrase_dated_files: int = 0
    """files whose event dates are resolved phrases ("last year") and no dates"""
    clock_behind: bool = False
    """this machine's clock stands before the store's days: nothing can be said of freshness"""

    duckdb: dict[str, str | None] = field(default_factory=dict)
    """the format of the store's file, and the versions that made it and that wrote it last"""

    @property
    def alarming(self) -> bool:
        return self.stale or self.incomplete or self.clock_behind

    def is_complete(self, day: date) -> bool:
        """Whether a day is one of `complete_days`."""
        lacking = any(gap.first <= day <= gap.last for gap in self.gaps if gap.state != "partial")
        if self.first_day is None or self.latest_complete_day is None:
            return False
        return self.first_day <= day <= self.latest_complete_day and not lacking


def read_status(settings: Settings, as_of: date | None = None) -> Status:
    """Look at the store as it is."""
    with Store(settings).reading() as connection:
        return read_status_from(connection, settings, as_of)


def read_status_from(
    connection: Connection, settings: Settings, as_of: date | None = None
) -> Status:
    """The same with a store that is open."""
    today = datetime.now(UTC).date()
    status = _read(connection, settings.status, as_of or today)
    behind = as_of is None and status.last_day is not None and status.last_day > tomorrow_of(today)
    return replace(status, clock_behind=behind)


def read_days(connection: Connection) -> list[DayStatus]:
    """The days that files in the ledger speak for, in their order."""
    limit = possible_until() or date.max
    rows = connection.rows(
        "SELECT NewsDay, rows, state, complete, loaded FROM days WHERE NewsDay <= ? "
        "ORDER BY NewsDay",
        [limit],
    )
    return [DayStatus(*row) for row in rows]


def complete_days(days: Sequence[DayStatus], as_of: date) -> list[date]:
    """The days from which a forecast can be made, in their order.

    Such a day has a loaded file, all its other files are loaded or known to be missing at the
    source, and it is over: the next one has begun, by the calendar or because the store has some
    of it.
    """
    loaded = [day for day in days if day.loaded]
    newest = max((day.day for day in loaded), default=date.min)
    return [day.day for day in loaded if day.complete and (day.day < as_of or day.day < newest)]


def data_fingerprint(connection: Connection) -> str:
    """A short name for the content: equal where the same files brought the same rows."""
    loaded = "FROM ledger WHERE status = 'loaded'"
    # Written by DuckDB as Python would write the rows: there may be half a million files.
    lines = connection.rows(
        "SELECT concat('(', chr(39), name, chr(39), ', ', "
        "coalesce(chr(39) || md5 || chr(39), 'None'), ', ', "
        f"concat_ws(', ', accepted, rejected, duplicates), ')') {loaded} "
        "ORDER BY name, md5, accepted, rejected, duplicates"
    )
    if connection.value(f"SELECT count(*) {loaded} AND NOT regexp_full_match(name, '[\\w.+-]*')"):
        rows = connection.rows(
            f"SELECT name, md5, accepted, rejected, duplicates {loaded} ORDER BY ALL"
        )
        lines = [(repr(row),) for row in rows]
    return text_digest("".join(line for (line,) in lines))


def _read(connection: Connection, settings: StatusSettings, as_of: date) -> Status:
    days = list(_every_day(connection))
    latest = max(complete_days(days, as_of), default=None)
    gaps = list(_gaps(connection, days))
    loaded = [day.day for day in days if day.loaded]
    totals = connection.rows(
        "SELECT coalesce(sum(rows), 0)::BIGINT, coalesce(sum(story_duplicates), 0)::BIGINT "
        "FROM file_days"
    )[0]
    states = sorted({day.state for day in days})
    return Status(
        store=connection.name,
        as_of=as_of,
        first_day=min(loaded, default=None),
        last_day=max(loaded, default=None),
        latest_complete_day=latest,
        stale=latest is None or (as_of - latest).days > settings.stale_after_days,
        incomplete=any(gap.state in LACKING for gap in gaps),
        days_by_state={state: sum(day.state == state for day in days) for state in states},
        gaps=gaps,
        files_by_status=dict(
            connection.rows("SELECT status, count(*) FROM ledger GROUP BY ALL ORDER BY ALL")
        ),
        rows=totals[0],
        story_duplicates=totals[1],
        id_duplicates=connection.value("SELECT count(*) FROM duplicates"),
        rejects=dict(
            connection.rows(
                f"SELECT {REASON_KIND}, sum(rows)::BIGINT FROM rejects "
                "GROUP BY ALL ORDER BY 2 DESC, 1"
            )
        ),
        unknown_codes=_unknown_codes(connection),
        odd_volumes=list(odd_volumes(days, settings)),
        blank_countries=dict(
            connection.rows(
                f"SELECT code, sum(rows)::BIGINT FROM odd_codes WHERE kind = '{TOLD}' "
                "GROUP BY ALL ORDER BY 2 DESC, 1"
            )
        ),
        duckdb=_versions(connection),
        phrase_dated_files=connection.value("SELECT count(*) FROM phrase_dates"),
        last_run=_run(connection, "true"),
        last_successful_run=_run(connection, "succeeded"),
        fingerprint=data_fingerprint(connection),
    )


def _unknown_codes(connection: Connection) -> dict[str, dict[str, int]]:
    """By kind: codes, and the rows that have them."""
    unknown: dict[str, dict[str, int]] = {}
    for kind, code, rows in connection.rows(
        "SELECT kind, code, sum(rows)::BIGINT FROM unknown_codes GROUP BY ALL ORDER BY 3 DESC, 2"
    ):
        unknown.setdefault(kind, {})[code] = rows
    return unknown


def _versions(connection: Connection) -> dict[str, str | None]:
    stored, maker = connection.store.place.made(connection.rows)
    writer = connection.rows("SELECT value FROM meta WHERE key = 'duckdb'")
    return {
        "format": stored,
        "made_by": maker,
        "written_by": writer[0][0] if writer else None,
    }


def _every_day(connection: Connection) -> Iterator[DayStatus]:
    """The days view without holes: days that no file speaks for were never tried."""
    expected = None
    for day in read_days(connection):
        while expected is not None and expected < day.day:
            yield DayStatus(expected, 0, NEVER_TRIED, complete=False, loaded=0)
            expected += timedelta(days=1)
        yield replace(day, state=NEVER_TRIED) if day.state == "untried" else day
        expected = day.day + timedelta(days=1)


def _gaps(connection: Connection, days: Sequence[DayStatus]) -> Iterator[Gap]:
    """Days that are not whole, in stretches of one state."""
    reasons: dict[tuple[date, str], str] = {
        (day, status): reason
        for day, status, reason in connection.rows(
            "SELECT first_day, status, min(reason) FROM ledger "
            "WHERE status IN ('rejected', 'failed', 'missing') GROUP BY ALL"
        )
    }
    start: DayStatus | None = None
    before: DayStatus | None = None
    for day in [*days, None]:
        if start and before and (day is None or day.state != start.state):
            if start.state not in ("present", "empty"):
                status = "missing" if start.state == "partial" else start.state
                reason = reasons.get((start.day, status))
                yield Gap(start.day, before.day, start.state, reason)
            start = None
        start, before = start or day, day


def odd_volumes(days: Sequence[DayStatus], settings: StatusSettings) -> Iterator[OddVolume]:
    """Days whose volume is abnormal: held against the same weekday of the past weeks.

    News volume falls by 40% at weekends, so a day's usual volume is the median of its weekday. A
    day is odd when it is both `volume_factor` times off and four robust standard deviations out of
    what the past weeks show, and of what counting alone would give, so that a small stream's
    ordinary noise raises no alarm.
    """
    there = [day for day in days if day.state in ("present", "partial", "empty")]
    start, weeks = 0, timedelta(weeks=settings.volume_weeks)
    same_weekday: list[deque[DayStatus]] = [deque() for _ in range(7)]
    for index, day in enumerate(there):
        since, weekday = day.day - weeks, day.day.weekday()
        while there[start].day < since:
            start += 1
        same = same_weekday[weekday]
        while same and same[0].day < since:
            same.popleft()
        if index - start >= FEWEST_DAYS:
            past = there[start:index]
            expected = _usual(same, past)
            off = abs(_log_ratio(day, expected))
            if off > math.log(settings.volume_factor):  # few: the rest costs ten times as much
                spread = max(_spread(past), 1 / math.sqrt(expected + 1))
                if off > FAR_OFF * spread:
                    yield OddVolume(day.day, day.rows, expected)
        same.append(day)


def _spread(past: Sequence[DayStatus]) -> float:
    """The robust standard deviation of days from the usual volumes of their weekdays."""
    same = [[day for day in past if day.day.weekday() == weekday] for weekday in range(7)]
    usual = [_usual(days, past) for days in same]
    return ROBUST * median(abs(_log_ratio(day, usual[day.day.weekday()])) for day in past)


def _usual(same: Collection[DayStatus], past: Sequence[DayStatus]) -> float:
    """The median volume of a weekday in the past, of all days if it has come less than twice."""
    return median(day.rows for day in (same if len(same) >= 2 else past))


def _log_ratio(day: DayStatus, usual: float) -> float:
    """How far a day is from a usual volume, as a logarithm."""
    return math.log((day.rows + 1) / (usual + 1))


def _run(connection: Connection, condition: str) -> dict[str, Any] | None:
    columns = (
        "archive", "since", "until", "started_at", "finished_at", "planned", "loaded", "accepted",
        "missing", "rejected", "failed", "succeeded",
    )  # fmt: skip
    rows = connection.rows(
        f"SELECT {', '.join(columns)} FROM runs WHERE {condition} ORDER BY started_at DESC LIMIT 1"
    )
    return dict(zip(columns, rows[0], strict=True)) if rows else None
