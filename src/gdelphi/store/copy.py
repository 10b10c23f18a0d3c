"""Moving a store to another place: from a file into a lake, and back.

The copy is one transaction into a store that is empty: killed anywhere, nothing is there. Before it
is committed every table is compared with its original by number and digest of rows.
"""

import time
from dataclasses import dataclass
from typing import Final

from gdelphi.common.errors import StoreError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.store.connection import Connection, Store
from gdelphi.store.sums import TABLES

SOURCE: Final = "source"
BY_MONTH: Final = "events"
COPIED: Final = ("ledger", "runs", "duplicates", "rejects", "reduced_events", *TABLES, BY_MONTH)
"""all but what every store makes for itself"""


@dataclass(frozen=True)
class Copied:
    """What `gdelphi store copy` did."""

    source: str
    target: str
    rows: dict[str, int]
    """of each table"""
    seconds: float


def copy_store(source: Settings, target: Settings, on_step: OnStep = silent) -> Copied:
    """Copy all that a store holds into an empty one, and compare."""
    began = time.monotonic()
    given, place = Store(source), Store(target).place
    if given.place.identity() == place.identity():
        raise StoreError(f"{place.name} is both source and target: name another target")
    with given.reading():  # which brings its schema up to date
        pass
    with Store(target).writing(alone=True) as connection:
        if connection.value("SELECT count(*) FROM ledger"):
            raise StoreError(f"{place.name} is not empty: copy into a place where no store is yet")
        given.place.attach(connection.rows, SOURCE)
        with connection.transaction():
            for table in COPIED:
                _copy_table(connection, table, on_step)
            rows = {table: _compare(connection, table, on_step) for table in COPIED}
        connection.rows(f"DETACH {SOURCE}")
    return Copied(given.place.name, place.name, rows, time.monotonic() - began)


def _copy_table(connection: Connection, table: str, on_step: OnStep) -> None:
    names = ", ".join(name for name, _ in _columns(connection, table))
    insert = f"INSERT INTO {table} ({names}) SELECT {names} FROM {SOURCE}.main.{table}"
    if table != BY_MONTH:
        on_step(f"copying {table}")
        connection.rows(insert)
        return
    months = connection.rows(
        f"SELECT DISTINCT date_trunc('month', NewsDay)::DATE FROM {SOURCE}.main.file_days "
        "ORDER BY ALL"
    )
    for (month,) in months:  # bounds the memory of sorting
        on_step(f"copying {table} of {month:%Y-%m}")
        connection.rows(
            f"{insert} WHERE NewsDay >= DATE '{month}' "
            f"AND NewsDay < DATE '{month}' + INTERVAL 1 MONTH ORDER BY NewsDay, FileId"
        )


def _columns(connection: Connection, table: str) -> list[tuple[str, str]]:
    """Names and types."""
    return [
        (name, kind)
        for name, kind in connection.rows(
            "SELECT column_name, data_type FROM duckdb_columns() "
            f"WHERE database_name = '{SOURCE}' AND table_name = ? ORDER BY column_index",
            [table],
        )
    ]


def _compare(connection: Connection, table: str, on_step: OnStep) -> int:
    """The number of rows, if both have the same."""
    on_step(f"comparing {table}")
    # A lake keeps large whole numbers as decimals.
    values = ", ".join(
        f"{name}::HUGEINT AS {name}" if kind in ("HUGEINT", "DECIMAL(38,0)") else name
        for name, kind in _columns(connection, table)
    )
    one, other = (
        connection.rows(
            "SELECT count(*), bit_xor(hash(rows)), sum(hash(rows)::HUGEINT) "
            f"FROM (SELECT {values} FROM {database}) rows"
        )[0]
        for database in (f"{SOURCE}.main.{table}", table)
    )
    if one != other:
        raise StoreError(
            f"{connection.name}: the copy of {table} differs from its source, so nothing was "
            "copied. `gdelphi verify` says whether the source is damaged"
        )
    return int(one[0])
