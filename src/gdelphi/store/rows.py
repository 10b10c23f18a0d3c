"""What the fast and the strict way of loading share: news days, removal, story duplicates.

An id that two files bring belongs to the earlier news day, then to the file whose name comes
first, whatever the order of loading. The rows that lose are kept in `duplicates`, so that when the
winner's file changes at its source and no longer has the id, the next row in line comes back. This
makes the content of the store a function of the files, and not of their history.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import (
    BACKFILE,
    EVENT_COLUMNS,
    Layout,
)
from gdelphi.store import ledger
from gdelphi.store.connection import Connection
from gdelphi.store.sums import between, in_files, runs_of_days

COLUMNS = ", ".join([*EVENT_COLUMNS, "NewsDay", "FileId"])

REASON_KIND = "split_part(rejects.reason, ': ', 1)"  # the reason without the offending value


def news_day(layout: Layout, file: SourceFile) -> str:
    """SQL for the news day of a row: `file_day` is the day of the file's name.

    Backfiles carry the day of the backfill as DATEADDED, years later, so their rows stand on the
    event's own date. A file of later layout whose name tells no day has it in DATEADDED.
    """
    if layout is BACKFILE:
        return "SQLDATE"
    if file.span in ("day", "quarter"):
        return "file_day"
    return "coalesce(DATEADDED::DATE, SQLDATE)"


def remove_files(connection: Connection, file_ids: Sequence[int]) -> set[Any]:
    """Remove all rows of some files; rows that had lost their id to one of them come back.

    Returns the news days that this touched.
    """
    if not file_ids:
        return set()
    ours = in_files(file_ids)
    days = {day for (day,) in connection.rows(f"SELECT DISTINCT NewsDay FROM events WHERE {ours}")}
    connection.rows(f"DELETE FROM duplicates WHERE {ours}")
    connection.rows("DROP TABLE IF EXISTS returning_rows")
    connection.rows(
        f"""
        CREATE TEMP TABLE returning_rows AS
        SELECT duplicates.* FROM duplicates
        JOIN ledger ON ledger.file_id = FileId
        WHERE GLOBALEVENTID IN (SELECT GLOBALEVENTID FROM events WHERE {ours})
        QUALIFY row_number() OVER (
            PARTITION BY GLOBALEVENTID ORDER BY NewsDay, name, archive, place
        ) = 1
        """
    )
    connection.rows(f"DELETE FROM events WHERE {ours}")
    connection.rows(f"DELETE FROM rejects WHERE {ours.replace('FileId', 'file_id')}")
    connection.rows(f"DELETE FROM reduced_events WHERE {ours}")
    returned = connection.rows(
        "SELECT FileId, -count(*), list(DISTINCT NewsDay) FROM returning_rows GROUP BY FileId"
    )
    if returned:
        connection.rows(
            f"INSERT INTO events ({COLUMNS}, StoryDuplicate) "
            f"SELECT {COLUMNS}, false FROM returning_rows"
        )
        connection.rows(
            "DELETE FROM duplicates WHERE (FileId, GLOBALEVENTID, place) IN "
            "(SELECT (FileId, GLOBALEVENTID, place) FROM returning_rows)"
        )
        ledger.shift_to_duplicates(connection, [(row[0], row[1]) for row in returned])
        days.update(day for row in returned for day in row[2])
    connection.rows("DROP TABLE returning_rows")
    return days


def story_duplicate_ids(rows: str) -> str:
    """SQL for the ids of story duplicates: a row of lower id has the same story.

    A story is: the same actors (by code; by name where there is none), event code and place, on the
    same event date, within a news day. An aggregate, since a window function over whole rows would
    carry all their columns through its sort: half the time of a load.
    """
    return f"""
        SELECT unnest(list(GLOBALEVENTID ORDER BY GLOBALEVENTID)[2:]) FROM {rows}
        GROUP BY NewsDay, SQLDATE, EventCode, coalesce(Actor1Code, Actor1Name),
            coalesce(Actor2Code, Actor2Name), ActionGeo_CountryCode, ActionGeo_FullName
        HAVING count(*) > 1
    """


def mark_story_duplicates(connection: Connection, days: Iterable[date]) -> None:
    """Mark the story duplicates of whole news days anew, and write the marks that differ.

    The marks of a day depend on all its files, so this is due whenever one of several changes.
    """
    for first, last in runs_of_days(days):
        near = between(first, last)
        connection.rows(
            f"""
            UPDATE events SET StoryDuplicate = NOT StoryDuplicate
            WHERE {near} AND StoryDuplicate <> (
                GLOBALEVENTID IN ({story_duplicate_ids(f"(SELECT * FROM events WHERE {near})")})
            )
            """
        )
