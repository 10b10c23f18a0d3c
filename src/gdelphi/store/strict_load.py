"""The strict way into the store: every line is judged, and a bad one is kept with its reason.

Lines are handed to DuckDB with their numbers, split and cast there (TRY_CAST, like the fast way's
reader), so both ways agree on what a value is. Slower than the fast way, and taken only by files
in which something is odd: a line of another width, a value of the wrong type, an id seen before, a
carriage return, bytes that are no UTF-8.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa

from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import REDUCED, Layout
from gdelphi.gdelt.unpack import UnpackedFile
from gdelphi.store import ledger
from gdelphi.store.connection import Connection
from gdelphi.store.ledger import Counts
from gdelphi.store.rows import (
    COLUMNS,
    REASON_KIND,
    news_day,
)
from gdelphi.store.schema import quoted

LINES_AT_ONCE = 20_000
BYTES_AT_ONCE = 1 << 26  # lines may be long
INTEGER = "[+-]?[0-9]+"
BLANK = "blank line"
MOST_REJECTS = 10_000  # rows of one file that are kept with their text; of others the number is
LONGEST_RAW = 1 << 16  # characters of a rejected row that are kept


def load_strictly(
    connection: Connection,
    file_id: int,
    archive: str,
    file: SourceFile,
    text: UnpackedFile,
    layout: Layout | None,
) -> tuple[Counts, set[date]]:
    """Load one file inside the caller's transaction; returns its counts and the days touched."""
    if layout is None:  # an empty file: a day without events
        return Counts(0, 0), set()
    connection.rows("DROP TABLE IF EXISTS staged")
    connection.rows(f"CREATE TEMP TABLE staged ({_staged_columns(layout)})")
    repaired = rows_in = 0
    rejects = _Rejects(connection, file_id, file.name)
    for piece in _numbered_lines(text, skip_header=layout.has_header):
        repaired += piece.undecodable
        rows_in += len(piece.lines) + len(piece.blank)
        rejects.add_blank(piece.blank)
        arrived = pa.table({"line": piece.numbers, "raw": piece.lines})
        with connection.registered("arrived", arrived):
            judged = connection.arrow(_judge(layout, file))
        # Not by way of a table: what is deleted from one takes memory until the transaction ends.
        with connection.registered("judged", judged):
            connection.rows("INSERT INTO staged SELECT * FROM judged WHERE reason IS NULL")
            rejects.take()
    rejected = rejects.finish()
    if layout is REDUCED:
        names = ", ".join(layout.columns)
        connection.rows(
            f"INSERT INTO reduced_events SELECT {names}, ? FROM staged WHERE reason IS NULL",
            [file_id],
        )
        duplicates, days = 0, set[date]()
    else:
        duplicates, days = _resolve_ids(connection, file_id, archive, file, layout)
    connection.rows("DROP TABLE staged")
    accepted = rows_in - rejected - duplicates
    stored = connection.value(
        f"SELECT count(*) FROM {'reduced_events' if layout is REDUCED else 'events'} "
        "WHERE FileId = ?",
        [file_id],
    )
    if stored != accepted:
        raise AssertionError(f"{file.name}: {accepted} rows expected in the store, {stored} found")
    return Counts(rows_in, accepted, rejected, duplicates, repaired), days


class _Rejects:
    """Moves rejected rows from `staged` to `rejects`, piece by piece: a file of a billion blank
    lines must cost neither the memory nor the disk. Beyond MOST_REJECTS they are counted, and one
    row for each reason says how many more there were."""

    def __init__(self, connection: Connection, file_id: int, name: str) -> None:
        self._connection, self._file = connection, [file_id, name]
        self._kept = 0
        self._counted: Counter[str] = Counter()

    def add_blank(self, lines: Sequence[int]) -> None:
        """Blank lines, which need no judgement: there may be a billion of them."""
        kept = lines[: MOST_REJECTS - self._kept]
        columns = ("file_id", "file", "line", "reason", "raw")
        rows = [(*self._file, line, BLANK, "") for line in kept]
        self._connection.insert_rows("rejects", columns, rows)
        self._kept += len(kept)
        if len(lines) > len(kept):
            self._counted[BLANK] += len(lines) - len(kept)

    def take(self) -> None:
        """Those among the lines that were just judged."""
        bad = self._connection.value("SELECT count(*) FROM judged WHERE reason IS NOT NULL")
        if not bad:
            return
        room = min(bad, MOST_REJECTS - self._kept)
        if room:
            self._connection.rows(
                "INSERT INTO rejects (file_id, file, line, reason, raw) "
                f"SELECT ?, ?, line, reason, raw[:{LONGEST_RAW}] FROM judged "
                f"WHERE reason IS NOT NULL ORDER BY line LIMIT {room}",
                self._file,
            )
            self._kept += room
        for reason, number in self._connection.rows(
            f"SELECT {REASON_KIND.replace('rejects.', '')}, count(*) FROM (SELECT reason "
            f"FROM judged WHERE reason IS NOT NULL ORDER BY line OFFSET {room}) GROUP BY ALL"
        ):
            self._counted[reason] += number

    def finish(self) -> int:
        """Note the numbers of those that were not kept; returns how many there were in all."""
        for reason, number in sorted(self._counted.items()):
            self._connection.rows(
                "INSERT INTO rejects (file_id, file, reason, rows) VALUES (?, ?, ?, ?)",
                [*self._file, f"{reason}: {number:,} more such rows", number],
            )
        return self._kept + self._counted.total()


class _Piece(NamedTuple):
    """Some lines with their numbers from 1."""

    numbers: list[int]
    lines: list[str]
    blank: list[int]
    """numbers of blank lines, which are not among the others"""
    undecodable: int
    """lines with bytes that are no UTF-8"""


def _numbered_lines(text: UnpackedFile, *, skip_header: bool) -> Iterator[_Piece]:
    """All lines, in pieces."""
    numbers: list[int] = []
    lines: list[str] = []
    blank: list[int] = []
    undecodable = size = 0
    with text.path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            if skip_header and number == 1:
                continue
            raw = raw.rstrip(b"\r\n")
            if not raw.strip(b" "):
                blank.append(number)
            else:
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError:
                    line = raw.decode("utf-8", errors="replace")
                    undecodable += 1
                numbers.append(number)
                lines.append(line)
                size += len(raw)
            full = max(len(lines), len(blank) // 10) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE
            if full:
                yield _Piece(numbers, lines, blank, undecodable)
                numbers, lines, blank, undecodable, size = [], [], [], 0, 0
    if lines or blank:
        yield _Piece(numbers, lines, blank, undecodable)


def _staged_columns(layout: Layout) -> str:
    typed = ", ".join(f"{name} {kind}" for name, kind in layout.columns.items())
    return f"line BIGINT, raw VARCHAR, reason VARCHAR, {typed}, NewsDay DATE"


def _cast(value: str, kind: str, layout: Layout) -> str:
    if kind == "VARCHAR":
        return value
    if kind == "DATE":
        digits, cast = "[0-9]{8}", f"try_strptime({value}, '%Y%m%d')::DATE"
    elif kind == "TIMESTAMP":
        digits, cast = "[0-9]{8,14}", f"try_strptime({value}, '{layout.time_format}')"
    elif kind == "DOUBLE":
        return f"TRY_CAST({value} AS {kind})"
    else:
        digits, cast = INTEGER, f"TRY_CAST({value} AS {kind})"
    # DuckDB itself takes infinity for a date, and 1e5, 0x10, 1_000 and 1.5 for whole numbers.
    return f"CASE WHEN regexp_full_match({value}, '{digits}') THEN {cast} END"


def _judge(layout: Layout, file: SourceFile) -> str:
    """Split, trim and cast the lines that arrived, and say of a bad one what is wrong with it."""
    texts, casts, wrong = [], [], []
    for position, (name, kind) in enumerate(layout.columns.items(), start=1):
        texts.append(f"nullif(trim(fields[{position}], ' \r'), '') AS text_{position}")
        casts.append(f"{_cast(f'text_{position}', kind, layout)} AS {name}")
        value = f"chr(34) || text_{position}[:40] || chr(34)"
        if kind != "VARCHAR":
            wrong.append(
                f"WHEN text_{position} IS NOT NULL AND {name} IS NULL "
                f"THEN '{name} is no {kind}: ' || {value}"
            )
        if kind == "DOUBLE":
            wrong.append(f"WHEN NOT isfinite({name}) THEN '{name} is not finite: ' || {value}")
        if name in layout.required:
            wrong.append(f"WHEN {name} IS NULL THEN '{name} is blank'")
    day = news_day(layout, file) if layout is not REDUCED else "NULL"
    return f"""
        WITH split AS (SELECT line, raw, string_split(raw, '\t') AS fields FROM arrived),
        cut AS (SELECT line, raw, len(fields) AS width, {", ".join(texts)} FROM split),
        typed AS (
            SELECT *, {", ".join(casts)},
                {f"DATE '{file.first_day}'" if file.first_day else "NULL::DATE"} AS file_day
            FROM cut
        )
        SELECT line, raw,
            CASE
                WHEN width <> {layout.width}
                    THEN width || ' columns where {layout.width} were expected'
                WHEN contains(raw, chr(0)) THEN 'a NUL byte in the line'
                {" ".join(wrong)}
            END AS reason,
            {", ".join(layout.columns)}, {day} AS NewsDay
        FROM typed
    """


def _resolve_ids(
    connection: Connection, file_id: int, archive: str, file: SourceFile, layout: Layout
) -> tuple[int, set[date]]:
    """Insert the staged rows; of those with one id, the first in order stays, wherever it is.

    Returns how many staged rows are duplicates, and the days touched.
    """
    names = ", ".join(layout.columns)
    staged = f"(staged.NewsDay, {quoted(file.name)}, {quoted(archive)})"
    stored = "(events.NewsDay, ledger.name, ledger.archive)"
    connection.rows("DROP TABLE IF EXISTS settled")
    connection.rows(
        f"""
        CREATE TEMP TABLE settled AS
        WITH good AS (SELECT * FROM staged WHERE reason IS NULL),
        bounds AS (SELECT min(GLOBALEVENTID) AS lowest, max(GLOBALEVENTID) AS highest FROM good)
        SELECT staged.line, staged.GLOBALEVENTID,
            row_number() OVER (
                PARTITION BY staged.GLOBALEVENTID ORDER BY staged.NewsDay, staged.line
            ) AS place,
            events.FileId AS rival, events.NewsDay AS rival_day,
            events.FileId IS NOT NULL AND {staged} < {stored} AS wins
        FROM good AS staged
        LEFT JOIN (
            SELECT GLOBALEVENTID, FileId, NewsDay FROM events
            WHERE GLOBALEVENTID BETWEEN (SELECT lowest FROM bounds) AND (SELECT highest FROM bounds)
        ) events ON events.GLOBALEVENTID = staged.GLOBALEVENTID
        LEFT JOIN ledger ON ledger.file_id = events.FileId
        """
    )
    days = _displace_rows(connection)
    stays = "place = 1 AND (rival IS NULL OR wins)"
    connection.rows(
        f"""
        INSERT INTO events ({names}, NewsDay, FileId, StoryDuplicate)
        SELECT {names}, NewsDay, ?, false FROM staged
        WHERE line IN (SELECT line FROM settled WHERE {stays}) ORDER BY line
        """,
        [file_id],
    )
    connection.rows(
        f"""
        INSERT INTO duplicates ({names}, NewsDay, FileId, place)
        SELECT {", ".join(f"staged.{name}" for name in layout.columns)}, NewsDay, ?, place
        FROM staged JOIN settled USING (line) WHERE NOT ({stays})
        """,
        [file_id],
    )
    duplicates: int = connection.value(f"SELECT count(*) FROM settled WHERE NOT ({stays})")
    days |= {
        day
        for (day,) in connection.rows("SELECT DISTINCT NewsDay FROM staged WHERE reason IS NULL")
    }
    connection.rows("DROP TABLE settled")
    return duplicates, days


def _displace_rows(connection: Connection) -> set[Any]:
    """Rows in the store that lose their id to the staged file become duplicates."""
    losers = connection.rows(
        "SELECT rival, count(*), list(DISTINCT rival_day) FROM settled "
        "WHERE place = 1 AND wins GROUP BY rival"
    )
    if not losers:
        return set()
    lost = "GLOBALEVENTID IN (SELECT GLOBALEVENTID FROM settled WHERE place = 1 AND wins)"
    connection.rows(
        f"INSERT INTO duplicates ({COLUMNS}, place) SELECT {COLUMNS}, 1 FROM events WHERE {lost}"
    )
    connection.rows(f"DELETE FROM events WHERE {lost}")
    ledger.shift_to_duplicates(connection, [(row[0], row[1]) for row in losers])
    return {day for row in losers for day in row[2]}
