"""Sums of the events, kept so that nothing that is asked often looks at all of them.

Three tables beside `events`, each the plain aggregate of the rows of a news day:

    file_days   rows of each file on each day: how many, a mark of which, how their dates lie
    day_sums    rows, stories, mentions and cloud weight of a day by stream and code
    odd_codes   codes that no table has, and countries that only an actor's code tells

Whoever changes events in a transaction makes the sums of the days touched anew in the same one, so
they are taken back with the rows. Made anew, not counted up and down: what a file brings also
changes rows of others (an id that moves, a story that was told before), and a day's rows lie
together, so its aggregate takes some hundredths of a second. Not kept for each file: 15-minute
files have nearly as many combinations of stream and code as rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final

from gdelphi.store.actor_countries import BLANK_COUNTRIES

RunSql = Callable[[str], list[tuple[Any, ...]]]
"""runs a statement, as `Connection.rows` does"""
OnFilled = Callable[[int, int], None]
"""rows done, rows to do"""

ROWS_AT_ONCE: Final = 4_000_000  # that one statement sums up: bounds the memory of its groups

UNITS: Final = 1e9  # whole units in a cloud weight of 1
MENTIONS: Final = "greatest(coalesce(NumMentions, 1), 0)::BIGINT"
"""SQL for a row's mentions: 1 where they are unknown, none where they are fewer than that."""
ROW_UNITS: Final = f"""(round({UNITS} * ln(1 + {MENTIONS}) / 2)::BIGINT
            * if(IsRootEvent = 1, 2, 1))"""
"""SQL for the cloud weight of a row, in whole units: sums of whole numbers know no order"""
WEIGHT_UNITS: Final = f"sum({ROW_UNITS})::BIGINT"
"""of rows together"""

PHRASE_DAYS: Final = "(0, 1, 7, 30, 365, 3650)"
TOLD: Final = "country (told by the code)"
"""the kind of odd codes that are known countries, of actors whose own country code is blank"""

TABLES: Final[dict[str, tuple[str, str]]] = {
    "file_days": (
        "FileId BIGINT, NewsDay DATE, rows BIGINT, story_duplicates BIGINT, ids HUGEINT, "
        "squared_ids HUGEINT, other_days BIGINT, phrase_dated BOOLEAN",
        "rows of each file on each news day: their number, sums of their ids, odd event dates",
    ),
    "day_sums": (
        "NewsDay DATE, Stream VARCHAR, EventCode VARCHAR, EventBaseCode VARCHAR, "
        "EventRootCode VARCHAR, QuadClass TINYINT, rows BIGINT, stories BIGINT, mentions HUGEINT, "
        "weight_units BIGINT",
        "rows, stories, mentions and cloud weight (in 1e-9) by news day, stream and code",
    ),
    "odd_codes": (
        "FileId BIGINT, NewsDay DATE, kind VARCHAR, column_name VARCHAR, code VARCHAR, rows BIGINT",
        "codes of each file and day that no table has, or that tell a country",
    ),
}
"""columns and comment of each table"""

CODE_COLUMNS: Final = {
    "event": ("cameo_events", "code", ("EventCode", "EventBaseCode", "EventRootCode")),
    "country (CAMEO)": ("countries", "cameo", ("Actor1CountryCode", "Actor2CountryCode")),
    "country (FIPS)": (
        "countries",
        "fips",
        ("Actor1Geo_CountryCode", "Actor2Geo_CountryCode", "ActionGeo_CountryCode"),
    ),
    "known group": ("cameo_groups", "code", ("Actor1KnownGroupCode", "Actor2KnownGroupCode")),
    "ethnic group": ("cameo_ethnics", "code", ("Actor1EthnicCode", "Actor2EthnicCode")),
    "religion": (
        "cameo_religions",
        "code",
        tuple(f"Actor{a}Religion{n}Code" for a in (1, 2) for n in (1, 2)),
    ),
    "type": (
        "cameo_types",
        "code",
        tuple(f"Actor{a}Type{n}Code" for a in (1, 2) for n in (1, 2, 3)),
    ),
}


_LOOKED_AT: Final = ", ".join(
    sorted(
        {"GLOBALEVENTID", "FileId", "NewsDay", "Actor1Code", "Actor2Code"}.union(
            *(columns for _, _, columns in CODE_COLUMNS.values())
        )
    )
)
"""columns that odd codes are found by"""


def select_sums(table: str, near: str, *, one_scan: bool = False) -> str:
    """SQL for what a table of sums holds of the rows under a condition, from the events alone.

    Odd codes take many scans of the rows, which is quickest where they lie in a file; in a lake the
    opening of a scan takes longer than a day's rows, so there one scan is kept for all of them.
    """
    if table == "file_days":
        return f"""
            SELECT FileId, NewsDay, count(*) AS rows,
                count_if(StoryDuplicate)::BIGINT AS story_duplicates,
                sum(GLOBALEVENTID)::HUGEINT AS ids,
                sum(GLOBALEVENTID::HUGEINT * GLOBALEVENTID) AS squared_ids,
                count_if(SQLDATE <> NewsDay)::BIGINT AS other_days,
                bool_and(NewsDay - SQLDATE IN {PHRASE_DAYS}) AS phrase_dated
            FROM events WHERE {near} GROUP BY ALL"""
    if table == "day_sums":
        return f"""
            SELECT NewsDay, ActionGeo_CountryCode AS Stream, EventCode, EventBaseCode,
                EventRootCode, QuadClass, count(*) AS rows,
                count_if(NOT StoryDuplicate)::BIGINT AS stories,
                sum(NumMentions)::HUGEINT AS mentions, {WEIGHT_UNITS} AS weight_units
            FROM events WHERE {near} GROUP BY ALL"""
    odd = " UNION ALL ".join([*_unknown_codes(near), _told_countries(near)])
    if not one_scan:
        return odd
    kept = f"WITH looked_at AS MATERIALIZED (SELECT {_LOOKED_AT} FROM events WHERE {near}) "
    return kept + odd.replace("FROM events WHERE", "FROM looked_at WHERE")


def _unknown_codes(near: str) -> Iterator[str]:
    """Codes that only data uses, as those of South Sudan's actors (SSD) and of Serbia once (RB),
    are in the packaged tables, so known."""
    for kind, (table, key, columns) in CODE_COLUMNS.items():
        known = f"SELECT {key} FROM {table} WHERE {key} IS NOT NULL"
        for column in columns:
            yield (
                f"SELECT FileId, NewsDay, '{kind}' AS kind, '{column}' AS column_name, "
                f"{column} AS code, count(*) AS rows FROM events WHERE {near} "
                f"AND {column} IS NOT NULL AND {column} NOT IN ({known}) GROUP BY ALL"
            )


def _told_countries(near: str) -> str:
    return (
        f"SELECT FileId, NewsDay, '{TOLD}' AS kind, 'Actor' || actor || 'Code' AS column_name, "
        f"told AS code, count(*) AS rows FROM ({BLANK_COUNTRIES}) WHERE {near} GROUP BY ALL"
    )


def runs_of_days(days: Iterable[date]) -> Iterator[tuple[date, date]]:
    """Days as stretches without holes, so that a batch of 100 days is not 100 statements."""
    ordered = sorted(set(days))
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or (ordered[index] - ordered[index - 1]).days > 1:
            yield ordered[start], ordered[index - 1]
            start = index


def between(first: date, last: date) -> str:
    """SQL condition for rows of a stretch of days; a plain comparison lets DuckDB skip the rest."""
    return f"NewsDay BETWEEN DATE '{first}' AND DATE '{last}'"


def in_files(file_ids: Sequence[int]) -> str:
    """SQL condition for the rows of some files.

    Bounds first: they let DuckDB skip most of a large store. A list of ids is only added where the
    bounds hold others too.
    """
    lowest, highest = min(file_ids), max(file_ids)
    bounds = f"FileId BETWEEN {lowest} AND {highest}"
    if highest - lowest + 1 == len(set(file_ids)):
        return bounds
    return f"{bounds} AND FileId IN ({', '.join(map(str, file_ids))})"


def renew_sums(
    rows: RunSql, days: Iterable[date], file_ids: Iterable[int], *, one_scan: bool = False
) -> None:
    """Make the sums of some days anew, inside the caller's transaction, in which some files came,
    went or changed. Odd codes are a file's own, and to look for them takes the longest: so those of
    other files on these days are left, unless rows of theirs came or went too."""
    ours = set(file_ids)
    for first, last in runs_of_days(days):
        near = between(first, last)
        held = f"SELECT FileId, NewsDay, rows, ids, squared_ids FROM file_days WHERE {near}"
        before = set(rows(held))
        _make(rows, ("file_days", "day_sums"), near)
        moved = {row[0] for row in before ^ set(rows(held))}
        if ours | moved:
            changed = f"{near} AND {in_files(sorted(ours | moved))}"
            _make(rows, ("odd_codes",), changed, one_scan=one_scan)


def fill_sums(rows: RunSql, tables: Sequence[str], on_filled: OnFilled) -> None:
    """Make the sums of all days, inside the caller's transaction."""
    for table in tables:
        rows(f"DELETE FROM {table}")
    days = rows("SELECT NewsDay, count(*) FROM events GROUP BY NewsDay ORDER BY NewsDay")
    total, done, held = sum(number for _, number in days), 0, 0
    first = None
    for place, (day, number) in enumerate(days, start=1):
        first, held = first or day, held + number
        if held >= ROWS_AT_ONCE or place == len(days):
            _make(rows, tables, between(first, day))
            done, held, first = done + held, 0, None
            on_filled(done, total)


def _make(rows: RunSql, tables: Sequence[str], near: str, *, one_scan: bool = False) -> None:
    for table in tables:
        rows(f"DELETE FROM {table} WHERE {near}")
        order = "NewsDay, Stream" if table == "day_sums" else "NewsDay"
        found = select_sums(table, near, one_scan=one_scan)
        rows(f"INSERT INTO {table} {found} ORDER BY {order}")


def wrong_sums(rows: RunSql, *, one_scan: bool = False) -> dict[str, int]:
    """How many rows of each table of sums differ from a fresh aggregate; none if all is well.

    Reads all events: for tests and `gdelphi verify`.
    """
    wrong = {}
    for table in TABLES:
        fresh = f"FROM ({select_sums(table, 'true', one_scan=one_scan)})"
        found = rows(
            f"SELECT (SELECT count(*) FROM (FROM {table} EXCEPT ALL {fresh})) "
            f"+ (SELECT count(*) FROM ({fresh} EXCEPT ALL FROM {table}))"
        )[0][0]
        if found:
            wrong[table] = found
    return wrong
