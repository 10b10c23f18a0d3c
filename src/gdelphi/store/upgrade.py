"""Moving a store into the newest format of the DuckDB that is installed: copy, verify, swap.

DuckDB writes a file in the format that it was made in, and a file of a newer format cannot be read
by an older DuckDB. So the format changes only here, when asked for. The copy is made beside the
store, every table is compared with its original by number and digest of rows, and then one rename
puts it in place. Killed anywhere, the store is either the old one or the new one, whole. The writer
holds the store from the first row to the rename, so nothing can be written in between and lost.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gdelphi.common.errors import StoreError
from gdelphi.common.files import is_alive
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.store.connection import Connection, Store
from gdelphi.store.schema import quoted

NEW: Final = "upgraded"
OLD_SUFFIX: Final = ".before-upgrade"
ROOM: Final = 1.2  # of the store's size that must be free
_PARTS: Final = {
    "views": "SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal",
    "columns": "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() "
    "WHERE NOT internal",
    "sequences": "SELECT sequence_name, sql FROM duckdb_sequences() WHERE true",
    "tables": "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal",
}
"""what a copy must have besides rows"""


@dataclass(frozen=True)
class Upgraded:
    """What `gdelphi store upgrade` did."""

    store: Path
    before: str
    """format, as DuckDB names it"""
    after: str
    done: bool
    """false: it was in the newest format"""
    tables: int
    rows: int
    bytes_before: int
    bytes_after: int
    kept: Path | None
    """the store as it was"""
    seconds: float


def upgrade(
    settings: Settings, *, force: bool = False, keep: bool = True, on_step: OnStep = silent
) -> Upgraded:
    """Rewrite a store in the newest format; with `force` also if it has it, to pack it densely."""
    began = time.monotonic()
    store = Store(settings)
    if not store.place.takes_turns:
        raise StoreError(f"{store.place.name} is a lake: its files have no format of DuckDB's")
    store.must_exist()
    size = store.path.stat().st_size
    free = shutil.disk_usage(store.path.parent).free
    if free < ROOM * size:
        raise StoreError(
            f"{store.path}: a copy needs {ROOM * size / 1e9:.1f} GB beside it, and "
            f"{free / 1e9:.1f} GB are free: make room"
        )
    with store.writing(alone=True) as connection:
        connection.rows("CHECKPOINT")  # a log beside the file must not outlive the swap
        old = connection.value("SELECT current_database()")
        with _copy_beside(connection) as part:
            before, after = (_format(connection, name) for name in (old, NEW))
            if before == after and not force:
                return Upgraded(
                    store.path, before, after, False, 0, 0, size, size, None,
                    time.monotonic() - began,
                )  # fmt: skip
            on_step(f"copying {size / 1e9:.1f} GB from format {before} to {after}")
            connection.rows("SET preserve_insertion_order = true")  # days lie together, and stay so
            connection.rows(f'COPY FROM DATABASE "{old}" TO {NEW}')
            tables, rows = _compare(connection, old, on_step)
            connection.rows(f"DETACH {NEW}")
            on_step("putting it in place")
            kept = _swap(part, store.path, keep=keep)
    after_size = store.path.stat().st_size
    return Upgraded(
        store.path, before, after, True, tables, rows, size, after_size, kept,
        time.monotonic() - began,
    )  # fmt: skip


@contextmanager
def _copy_beside(connection: Connection) -> Iterator[Path]:
    """Attach an empty database of the newest format; whatever is left of it goes at the end."""
    path = connection.store.path
    for left in path.parent.glob(f".{path.name}.*.part*"):  # of a process that was killed
        owner = left.name.removeprefix(f".{path.name}.").partition(".")[0]
        if not (owner.isdigit() and is_alive(int(owner))):
            left.unlink()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        connection.rows(f"ATTACH {quoted(str(part))} AS {NEW} (STORAGE_VERSION 'latest')")
        yield part
    finally:
        attached = connection.rows(
            f"SELECT 1 FROM duckdb_databases() WHERE database_name = '{NEW}'"
        )
        if attached:
            connection.rows(f"DETACH {NEW}")
        for left in (part, part.with_name(part.name + ".wal")):
            left.unlink(missing_ok=True)


def _format(connection: Connection, database: str) -> str:
    return str(
        connection.value(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = ?",
            [database],
        )
    )


def _compare(connection: Connection, old: str, on_step: OnStep) -> tuple[int, int]:
    """Number of tables and rows, if both databases hold the same; else an error."""
    for what, sql in _PARTS.items():
        one, other = (
            connection.rows(f"{sql} AND database_name = {quoted(name)} ORDER BY ALL")
            for name in (old, NEW)
        )
        if one != other:
            raise StoreError(
                f"{connection.store.path}: the copy has other {what} than the store, so it was "
                "thrown away; the store is as it was"
            )
    tables = [
        name
        for (name,) in connection.rows(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND database_name = ? "
            "ORDER BY ALL",
            [old],
        )
    ]
    total = 0
    for table in tables:
        on_step(f"comparing {table}")
        digests = [
            connection.rows(
                "SELECT count(*), bit_xor(hash(rows)), sum(hash(rows)::HUGEINT) "
                f'FROM "{name}".main."{table}" AS rows'
            )
            for name in (old, NEW)
        ]
        if digests[0] != digests[1]:
            raise StoreError(
                f"{connection.store.path}: the copy of {table} differs from it, so it was thrown "
                "away; the store is as it was. `gdelphi verify` says whether it is damaged"
            )
        total += digests[0][0][0]
    return len(tables), total


def _swap(part: Path, place: Path, *, keep: bool) -> Path | None:
    """Put the copy in the store's place; the old one stays under another name, if asked for."""
    for path in (part, place):
        log = path.with_name(path.name + ".wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{place}: {log.name} was not written to its end; the store is as it was"
            )
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    kept = place.with_name(place.name + OLD_SUFFIX) if keep else None
    if kept:
        kept.unlink(missing_ok=True)
        os.link(place, kept)
    part.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return kept
