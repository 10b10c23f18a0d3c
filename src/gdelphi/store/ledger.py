"""The ledger: what became of every file of an archive.

A file is known by the archive's label and its name. Its row is written in the same transaction as
the rows it brought, so the two cannot contradict each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from gdelphi.gdelt.file_names import FIRST_YEAR, LAST_YEAR, SourceFile, possible_until
from gdelphi.store.connection import (
    Connection,
    arrow_table,
)
from gdelphi.store.migrate import utc_now


@dataclass(frozen=True)
class Entry:
    """What the ledger says about a file."""

    file_id: int
    name: str
    status: str
    md5: str | None
    stamp: str | None


@dataclass(frozen=True)
class Counts:
    """Where the rows of a file went."""

    rows_in: int
    accepted: int
    rejected: int = 0
    duplicates: int = 0
    repaired: int = 0

    def check(self, name: str) -> None:
        """Every row is accounted for, or it is a bug."""
        total = self.accepted + self.rejected + self.duplicates
        if total != self.rows_in:
            raise AssertionError(
                f"{name}: {self.rows_in} rows in, but {self.accepted} accepted + "
                f"{self.rejected} rejected + {self.duplicates} duplicates = {total}"
            )


def entries(connection: Connection, archive: str) -> dict[str, Entry]:
    """All files of an archive that the ledger knows, by name."""
    rows = connection.rows(
        "SELECT file_id, name, status, md5, stamp FROM ledger WHERE archive = ?", [archive]
    )
    return {row[1]: Entry(*row) for row in rows}


def loaded_elsewhere(connection: Connection, archive: str) -> set[tuple[str, str]]:
    """Name and md5 of files that came in whole from another archive: a mirror has the same."""
    rows = connection.rows(
        "SELECT name, md5 FROM ledger WHERE archive <> ? AND status = 'loaded'", [archive]
    )
    return {(name, md5) for name, md5 in rows}


def loaded_days(connection: Connection, archive: str) -> tuple[date, date] | None:
    """The first and the last day that a loaded file of this archive speaks for."""
    first, last = connection.rows(
        "SELECT min(first_day), max(last_day) FROM ledger WHERE archive = ? AND status = 'loaded'",
        [archive],
    )[0]
    return (first, last) if first and last else None


def enter(
    connection: Connection,
    archive: str,
    files: Iterable[SourceFile],
    status: str,
    reason: str | None = None,
) -> None:
    """Add files that the ledger does not know yet."""
    now = utc_now()
    columns = (
        "file_id", "archive", "name", "kind", "span", "first_day", "last_day", "status", "reason",
        "listed", "tries", "first_seen",
    )  # fmt: skip
    files = list(files)
    # Not from a sequence, which a lake does not have: nothing is ever deleted from the ledger.
    first = connection.value("SELECT coalesce(max(file_id), 0) + 1 FROM ledger")
    rows = [
        (number, archive, file.name, file.kind, file.span, file.first_day, file.last_day, status,
         reason, file.listed, 0, now)
        for number, file in enumerate(files, start=first)
    ]  # fmt: skip
    connection.insert_rows("ledger", columns, rows)


@dataclass(frozen=True)
class LoadedFile:
    """What the ledger notes about a file that was loaded."""

    file_id: int
    size: int
    md5: str
    stamp: str | None
    layout: str
    text_bytes: int
    counts: Counts


def note_loaded(connection: Connection, files: Iterable[LoadedFile]) -> None:
    """Note that files are loaded."""
    columns = (
        "file_id", "size", "md5", "stamp", "layout", "text_bytes",
        "rows_in", "accepted", "rejected", "duplicates", "repaired",
    )  # fmt: skip
    rows = [
        (
            new.file_id, new.size, new.md5, new.stamp, new.layout, new.text_bytes,
            new.counts.rows_in, new.counts.accepted, new.counts.rejected, new.counts.duplicates,
            new.counts.repaired,
        )
        for new in files
    ]  # fmt: skip
    with connection.registered("arrived", arrow_table(columns, rows)):
        connection.rows(
            """
            UPDATE ledger SET status = 'loaded', reason = NULL, size = new.size, md5 = new.md5,
                stamp = new.stamp, layout = new.layout, text_bytes = new.text_bytes,
                rows_in = new.rows_in, accepted = new.accepted, rejected = new.rejected,
                duplicates = new.duplicates, repaired = new.repaired, tries = tries + 1,
                last_tried = $now, loaded_at = $now
            FROM arrived new WHERE ledger.file_id = new.file_id
            """,
            {"now": utc_now()},
        )


def note_days_of_rows(connection: Connection, file_id: int) -> None:
    """A file whose name tells no day speaks for the days of its rows."""
    connection.rows(
        """
        UPDATE ledger SET first_day = days.first, last_day = days.last
        FROM (
            SELECT min(NewsDay) AS first, max(NewsDay) AS last FROM events
            WHERE FileId = $id AND NewsDay BETWEEN $earliest AND $latest
        ) days
        WHERE file_id = $id AND span = 'open'
        """,
        {
            "id": file_id,
            "earliest": date(FIRST_YEAR, 1, 1),
            "latest": possible_until() or date(LAST_YEAR, 12, 31),
        },
    )


def note_problem(connection: Connection, file_id: int, status: str, reason: str) -> None:
    """Note why a file could not be loaded; what an earlier version of it brought stays."""
    connection.rows(
        """
        UPDATE ledger SET
            status = if(status = 'loaded', 'loaded', $status),
            reason = if(status = 'loaded', 'not loaded again: ' || $reason, $reason),
            tries = tries + 1, last_tried = $now
        WHERE file_id = $file_id
        """,
        {"file_id": file_id, "status": status, "reason": reason, "now": utc_now()},
    )


def shift_to_duplicates(connection: Connection, moved: Iterable[tuple[int, int]]) -> None:
    """Count rows of loaded files as duplicates of others (or, if negative, as accepted again)."""
    for file_id, number in moved:
        connection.rows(
            "UPDATE ledger SET accepted = accepted - $n, duplicates = duplicates + $n "
            "WHERE file_id = $id",
            {"n": number, "id": file_id},
        )
