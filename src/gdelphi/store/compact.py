"""Merging what small transactions have left, and letting old states go.

Every transaction of a lake writes files of its own, and marks of rows that are gone; the catalog
keeps every state since the lake was made. Merging rewrites small files of one month as one, in
transactions of a bounded number of files, so that a reader or a kill meets a lake that is whole.
Past states are kept unless an age is given from which they go. A file of DuckDB has neither: there
it is the log that is written into the file.
"""

import time
from dataclasses import dataclass
from typing import Final

from gdelphi.common.errors import StoreError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.store.connection import Connection, Store
from gdelphi.store.lake import DATABASE

FILES_AT_ONCE: Final = 64  # that one transaction merges
GRACE_MINUTES: Final = 60  # that a file stays which a reader may have begun to read
DELETED: Final = 0.5  # share of a file's rows that are gone for which it is written anew


@dataclass(frozen=True)
class LakeSize:
    """What a lake is made of."""

    files: int
    bytes: int
    snapshots: int


@dataclass(frozen=True)
class Compacted:
    """What `gdelphi store compact` did."""

    store: str
    before: LakeSize | None
    """None: the store is a file"""
    after: LakeSize | None
    seconds: float


def compact(
    settings: Settings, *, keep_days: int | None = None, on_step: OnStep = silent
) -> Compacted:
    """Merge small files; with `keep_days`, let states go that are older."""
    began = time.monotonic()
    store = Store(settings)
    store.must_exist()
    before = after = None
    with store.writing() as connection:
        if store.place.takes_turns:
            if keep_days is not None:
                raise StoreError(f"{store.path} is a file: it has no past states to let go")
            on_step("writing the log into the file")
            connection.retry(connection.compact)
        else:
            before = _size(connection)
            _compact_lake(connection, keep_days, on_step)
            after = _size(connection)
    return Compacted(store.place.name, before, after, time.monotonic() - began)


def _size(connection: Connection) -> LakeSize:
    files, size = connection.rows(
        "SELECT sum(file_count + delete_file_count)::BIGINT, "
        f"sum(file_size_bytes + delete_file_size_bytes)::BIGINT FROM {DATABASE}.table_info()"
    )[0]
    snapshots = connection.value(f"SELECT count(*) FROM {DATABASE}.snapshots()")
    return LakeSize(files, size, snapshots)


def _compact_lake(connection: Connection, keep_days: int | None, on_step: OnStep) -> None:
    place = connection.store.place
    if keep_days is not None:
        on_step(f"letting states go that are older than {keep_days} days")
        connection.rows(
            f"CALL ducklake_expire_snapshots('{DATABASE}', "
            f"older_than => now() - INTERVAL {keep_days} DAY)"
        )
    tables = connection.rows(f"SELECT table_name FROM {DATABASE}.table_info() ORDER BY ALL")
    for (table,) in tables:
        on_step(f"merging files of {table}")
        place.before_commit()
        connection.rows(
            f"CALL ducklake_rewrite_data_files('{DATABASE}', '{table}', "
            f"delete_threshold => {DELETED})"
        )
        while True:  # each call is a transaction of its own
            place.before_commit()
            merged = connection.rows(
                f"CALL ducklake_merge_adjacent_files('{DATABASE}', '{table}', "
                f"max_compacted_files => {FILES_AT_ONCE})"
            )
            if not merged:
                break
    on_step("removing files that no state needs")
    place.before_commit()
    connection.rows(
        f"CALL ducklake_cleanup_old_files('{DATABASE}', "
        f"older_than => now() - INTERVAL {GRACE_MINUTES} MINUTE)"
    )
    # Nobody else writes: what the catalog does not know, a killed writer has left.
    connection.rows(f"CALL ducklake_delete_orphaned_files('{DATABASE}', cleanup_all => true)")
