"""Bringing a store's schema up to date: migrations that it has not seen, code tables, sums."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

from gdelphi.common.errors import StoreError
from gdelphi.common.files import text_digest
from gdelphi.common.progress import announce
from gdelphi.gdelt.cameo import table_rows, tables_fingerprint
from gdelphi.store.schema import (
    CODE_TABLES,
    CODE_VIEWS,
    MIGRATIONS,
    SUMS,
    create_code_table,
)
from gdelphi.store.sums import TABLES, fill_sums


class Opened(Protocol):
    """What a migration needs of a `Connection`."""

    @property
    def name(self) -> str: ...
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def define(self, statement: str) -> None: ...
    def insert_rows(
        self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None: ...
    def transaction(self) -> AbstractContextManager[None]: ...


def utc_now() -> datetime:
    """Now, in UTC, as the store keeps times."""
    return datetime.now(UTC).replace(tzinfo=None)


def _applied(connection: Opened) -> list[str]:
    known = connection.rows(
        "SELECT count(*) FROM duckdb_tables() "
        "WHERE table_name = 'migrations' AND database_name = current_database()"
    )
    if not known[0][0]:
        return []
    return [name for (name,) in connection.rows("SELECT name FROM migrations ORDER BY number")]


def is_behind(connection: Opened) -> bool:
    """Whether a store lacks something of this version's schema; an error if it is a newer one."""
    names = [migration.name for migration in MIGRATIONS]
    applied = _applied(connection)
    if applied != names[: len(applied)]:
        unknown = next(name for name in applied if name not in names)
        raise StoreError(
            f"{connection.name} was written by a newer gdelphi (it has {unknown!r}): "
            "install that version or a later one"
        )
    if len(applied) < len(names):
        return True
    fingerprint = connection.rows("SELECT value FROM meta WHERE key = 'code_tables'")
    return fingerprint != [(_code_fingerprint(),)]


def schema_mark() -> str:
    """Equal for versions of gdelphi to which the same stores are up to date."""
    return text_digest("\n".join((*(one.name for one in MIGRATIONS), _code_fingerprint())))


def migrate(connection: Opened) -> None:
    """Do what is to be done, in one transaction, and note the DuckDB that writes."""
    if is_behind(connection):
        with connection.transaction():
            pending = MIGRATIONS[len(_applied(connection)) :]
            for number, migration in enumerate(pending, start=len(MIGRATIONS) - len(pending) + 1):
                for statement in migration.statements:
                    connection.define(statement)
                connection.rows(
                    "INSERT INTO migrations VALUES (?, ?, ?)", [number, migration.name, utc_now()]
                )
            _refresh_code_tables(connection)
            new = SUMS in {migration.name for migration in pending}
            tell = announce(f"{connection.name}: summing up its rows, once")
            # What is odd about codes depends on the code tables, which may have changed.
            fill_sums(connection.rows, tuple(TABLES) if new else ("odd_codes",), tell)
    _note_version(connection)


def _note_version(connection: Opened) -> None:
    """Say in the store which DuckDB has written it last."""
    if connection.rows("SELECT value FROM meta WHERE key = 'duckdb'") != [(version("duckdb"),)]:
        with connection.transaction():
            connection.rows("DELETE FROM meta WHERE key = 'duckdb'")
            connection.rows("INSERT INTO meta VALUES ('duckdb', ?)", [version("duckdb")])


def _refresh_code_tables(connection: Opened) -> None:
    """Copy the packaged code tables into the store, where views and queries meet them."""
    for name, table in CODE_TABLES.items():
        columns, rows = table_rows(table.source)
        for statement in create_code_table(name, columns):
            connection.define(statement)
        connection.insert_rows(name, columns, rows)
    for statement in CODE_VIEWS:
        connection.define(statement)
    connection.rows("DELETE FROM meta WHERE key = 'code_tables'")
    connection.rows("INSERT INTO meta VALUES ('code_tables', ?)", [_code_fingerprint()])


def _code_fingerprint() -> str:
    """Of the packaged tables, and of the views that are made with them."""
    return text_digest("\n".join((tables_fingerprint(), *CODE_VIEWS)))
