"""Loading files into the store: the fast way, and what decides between it and the strict one.

The fast way takes the tables of many files at once (`text_table.py`), inserts them, and then
demands proof: every line of every file is there, every value is sound, no id stands twice. If one
file fails the proof, the transaction is rolled back and that file goes the strict way
(`strict_load.py`), which judges each line. So there is one place where a row can be rejected, and
the fast way cannot lose one: a text of which a line cannot be read has no table, and what is left
out on the way into the store, the count tells.

Everything that a file brings, with its ledger row, is one transaction, after removing what an
earlier version of the file had brought. So a run twice, or killed anywhere, gives the same store.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gdelphi.common.errors import StoreError, StoreLost, StoreMemoryError
from gdelphi.gdelt.fetch import Fetched
from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import (
    BACKFILE,
    DAILY,
    QUARTER,
    REDUCED,
    Layout,
)
from gdelphi.gdelt.unpack import UnpackedFile
from gdelphi.store import ledger
from gdelphi.store.connection import Connection
from gdelphi.store.ledger import Counts
from gdelphi.store.rows import (
    mark_story_duplicates,
    news_day,
    remove_files,
    story_duplicate_ids,
)
from gdelphi.store.strict_load import load_strictly
from gdelphi.store.sums import between, in_files
from gdelphi.store.text_table import FileMark, OddText, read_blocks, read_text, schema_of

LARGEST_TABLE = 1 << 27  # bytes of text that are read at once; more pass block by block
FEW_ROWS = 4 * 122_880  # four groups of rows of DuckDB's: fewer are inserted by one thread


@dataclass(frozen=True)
class ReadyFile:
    """A file that was fetched, verified and unpacked, and waits to be loaded."""

    file_id: int
    archive: str
    file: SourceFile
    fetched: Fetched
    stamp: str | None
    text: UnpackedFile
    layout: Layout | None  # None: the file is empty
    table: pa.Table | None = None  # its rows, if they were read while it was unpacked


class _NotFast(Exception):
    """Files of a batch that the fast way cannot load."""

    def __init__(self, file_ids: Iterable[int]) -> None:
        super().__init__()
        self.file_ids = frozenset(file_ids)


def load_files(connection: Connection, batch: Sequence[ReadyFile]) -> dict[int, Counts | Exception]:
    """Load files, all in as few transactions as possible.

    Returns by file id their counts, or the error for which a file brought nothing. Errors of the
    store are raised: they are not about one file.
    """
    fast = [ready for ready in batch if _can_load_fast(ready)]
    strict = [ready for ready in batch if not _can_load_fast(ready)]
    counts: dict[int, Counts | Exception] = {}
    while fast:
        try:
            counts |= _load_fast(connection, fast)
            break
        except _NotFast as failed:
            strict += [ready for ready in fast if ready.file_id in failed.file_ids]
            fast = [ready for ready in fast if ready.file_id not in failed.file_ids]
    for ready in strict:
        try:
            counts[ready.file_id] = _load_strict(connection, ready)
        except StoreMemoryError as error:  # what one file needs says nothing about the others
            counts[ready.file_id] = error
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - its own transaction is rolled back
            counts[ready.file_id] = error
    return counts


def _load_strict(connection: Connection, ready: ReadyFile) -> Counts:
    with connection.transaction():
        days = _remove_earlier(connection, [ready])
        counts, touched = load_strictly(
            connection, ready.file_id, ready.archive, ready.file, ready.text, ready.layout
        )
        mark_story_duplicates(connection, days | touched)
        connection.renew_sums(days | touched, [ready.file_id])
        _note_loaded(connection, [ready], {ready.file_id: counts})
    return counts


def _remove_earlier(connection: Connection, batch: Sequence[ReadyFile]) -> set[Any]:
    """Remove what the store has of these files; returns the days touched.

    The ledger is asked inside the transaction: between two of them another process may have loaded
    the same files.
    """
    ids = ", ".join(str(ready.file_id) for ready in batch)
    loaded = f"SELECT file_id FROM ledger WHERE file_id IN ({ids}) AND status = 'loaded'"
    return remove_files(connection, [number for (number,) in connection.rows(loaded)])


def _can_load_fast(ready: ReadyFile) -> bool:
    return ready.layout is not None and ready.layout is not REDUCED and ready.text.plain


def _note_loaded(
    connection: Connection, batch: Sequence[ReadyFile], counts: Mapping[int, Counts]
) -> None:
    loaded = []
    for ready in batch:
        counts[ready.file_id].check(ready.file.name)
        layout = ready.layout or _usual_layout(ready.file)
        loaded.append(
            ledger.LoadedFile(
                ready.file_id,
                ready.fetched.size,
                ready.fetched.md5,
                ready.stamp,
                layout.name,
                ready.text.size,
                counts[ready.file_id],
            )
        )
    ledger.note_loaded(connection, loaded)
    for ready in batch:
        if ready.file.span == "open":
            ledger.note_days_of_rows(connection, ready.file_id)


def _usual_layout(file: SourceFile) -> Layout:
    if file.kind == "reduced":
        return REDUCED
    return {"year": BACKFILE, "month": BACKFILE, "day": DAILY, "open": DAILY, "quarter": QUARTER}[
        file.span
    ]


def _load_fast(connection: Connection, batch: Sequence[ReadyFile]) -> dict[int, Counts]:
    groups: dict[Any, list[ReadyFile]] = defaultdict(list)
    for ready in batch:
        groups[_group_of(ready)].append(ready)
    few = sum(ready.text.lines for ready in batch) < FEW_ROWS
    with connection.one_thread() if few else contextlib.nullcontext(), connection.transaction():
        days = _remove_earlier(connection, batch)
        for group in groups.values():
            try:
                _insert(connection, group)
            except OddText as odd:
                raise _NotFast([odd.file_id]) from None
            except StoreLost:
                raise
            except StoreError:
                if len(batch) == 1:
                    raise _NotFast([batch[0].file_id]) from None
                raise _NotFast(ready.file_id for ready in group) from None
        brought = _prove(connection, batch)
        mark_story_duplicates(connection, days | _shared_days(connection, brought, batch))
        counts = {ready.file_id: Counts(ready.text.lines, ready.text.lines) for ready in batch}
        connection.renew_sums(days | brought, counts)
        _note_loaded(connection, batch, counts)
    return counts


def _group_of(ready: ReadyFile) -> tuple[Any, ...]:
    """Files that one statement can read have the same answer to this."""
    by_name = ready.file.span in ("day", "quarter")
    return ready.layout and ready.layout.name, ready.text.spaced, by_name


def _insert(connection: Connection, group: Sequence[ReadyFile]) -> None:
    """Read the texts of files of one layout into `events`."""
    layout = group[0].layout
    assert layout is not None  # noqa: S101
    unread = sum(ready.text.size for ready in group if ready.table is None)
    large = unread > LARGEST_TABLE
    arrived = _streamed(group, layout) if large else pa.concat_tables(_tables(group, layout))
    names = ", ".join(layout.columns)
    columns = ", ".join(
        f"{_column(name, kind, layout, trimmed=group[0].text.spaced)} AS {name}"
        for name, kind in layout.columns.items()
    )
    # A table can be read twice, for rows and stories; a stream is kept on the way.
    kept = "MATERIALIZED" if large else "NOT MATERIALIZED"
    with connection.registered("arrived", arrived):
        connection.rows(
            f"""
            INSERT INTO events ({names}, NewsDay, FileId, StoryDuplicate)
            WITH text AS {kept} (
                SELECT {names}, {news_day(layout, group[0].file)} AS NewsDay, file_id
                FROM (
                    SELECT {columns}, file_id, file_day, arrived.DATEADDED AS added FROM arrived
                ) WHERE SQLDATE IS NOT NULL AND (DATEADDED IS NULL) = (added IS NULL)
            )
            SELECT {names}, NewsDay, file_id, GLOBALEVENTID IN ({story_duplicate_ids("text")})
            FROM text
            """
        )


def _tables(group: Sequence[ReadyFile], layout: Layout) -> Iterator[pa.Table]:
    for ready in group:
        yield ready.table or read_text(ready.text.path, _mark(ready), layout)


def _streamed(group: Sequence[ReadyFile], layout: Layout) -> pa.RecordBatchReader:
    batches = (
        batch
        for ready in group
        for batch in (
            ready.table.to_batches()
            if ready.table
            else read_blocks(ready.text.path, _mark(ready), layout)
        )
    )
    return pa.RecordBatchReader.from_batches(schema_of(layout), batches)


def _mark(ready: ReadyFile) -> FileMark:
    return FileMark(ready.file_id, ready.file.first_day)


def _column(name: str, kind: str, layout: Layout, *, trimmed: bool) -> str:
    """How a column is taken from its table; what is no day of the calendar becomes NULL, and the
    row is left out, which the count of lines tells."""
    if kind in ("DATE", "TIMESTAMP"):
        form = "%Y%m%d" if kind == "DATE" else layout.time_format
        return f"try_strptime(arrived.{name}, '{form}')::{kind}"
    return f"nullif(trim({name}), '')" if trimmed and kind == "VARCHAR" else name


def _prove(connection: Connection, batch: Sequence[ReadyFile]) -> set[Any]:
    """The days of the new rows, if all lines are in and sound and no id stands twice; else raises
    _NotFast."""
    lines = {ready.file_id: ready.text.lines for ready in batch}
    ours = in_files(list(lines))
    floats = [name for name, kind in QUARTER.columns.items() if kind == "DOUBLE"]
    unsound = " OR ".join(["SQLDATE IS NULL", *(f"NOT isfinite({name})" for name in floats)])
    checked = {
        row[0]: row[1:]
        for row in connection.rows(
            f"""
            SELECT FileId, count(GLOBALEVENTID), count(*) FILTER (WHERE {unsound}),
                min(GLOBALEVENTID), max(GLOBALEVENTID), list(DISTINCT NewsDay)
            FROM events WHERE {ours} GROUP BY FileId
            """
        )
    }
    failed = {
        number
        for number, expected in lines.items()
        if number not in checked or checked[number][0] != expected or checked[number][1] > 0
    }
    if failed:
        raise _NotFast(failed)
    lowest = min(row[2] for row in checked.values())
    highest = max(row[3] for row in checked.values())
    near = f"GLOBALEVENTID BETWEEN {lowest} AND {highest}"
    failed = {number for (number,) in connection.rows(_repeated(ours, near))}
    if failed:
        raise _NotFast(failed)
    return {day for row in checked.values() for day in row[4]}


def _shared_days(connection: Connection, days: set[Any], batch: Sequence[ReadyFile]) -> set[Any]:
    """The days on which both these files and others have rows: their story marks are due.

    Files of one batch that are read by several statements are strangers to each other too.
    """
    if len({_group_of(ready) for ready in batch}) > 1:
        return days
    ours = in_files([ready.file_id for ready in batch])
    # The sums know: those of the files themselves are not made yet.
    others = connection.rows(
        f"SELECT DISTINCT NewsDay FROM file_days WHERE {between(min(days), max(days))} "
        f"AND NOT ({ours})"
    )
    return days & {day for (day,) in others}


def _repeated(ours: str, near: str) -> str:
    """The new files that bring an id twice, or one that the store has from another file.

    Ids grow with time, so the bounds of the new ones let DuckDB skip nearly all of a large store.
    """
    return f"""
        SELECT FileId FROM (
            SELECT FileId, count(*) OVER (PARTITION BY GLOBALEVENTID) AS times
            FROM events WHERE {ours}
        ) WHERE times > 1
        UNION
        SELECT DISTINCT new.FileId
        FROM (SELECT FileId, GLOBALEVENTID FROM events WHERE {ours}) new
        JOIN (SELECT GLOBALEVENTID FROM events WHERE {near} AND NOT ({ours})) old
        USING (GLOBALEVENTID)
    """
