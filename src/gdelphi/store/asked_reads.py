"""A reading of the store that the process that writes to it answers.

`AskedDuck` stands where a connection of DuckDB's would: `Connection` runs its statements by it, and
meets the same values and the same errors. What comes is Arrow that loses nothing, and a DuckDB in
this process makes the Python values of it that it would make of a file.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Union

import duckdb
import pyarrow as pa

from gdelphi.common.errors import ReadingEnded, StoreError
from gdelphi.store.read_place import ReadPlace
from gdelphi.store.read_wire import GONE, Channel, Message, as_json

Duck = Union[duckdb.DuckDBPyConnection, "AskedDuck"]
VANISHED: Final = "the process that writes to the store, and answered, has ended: ask again"
_LOCAL: dict[int, duckdb.DuckDBPyConnection] = {}
"""by process: what makes values of tables, and parses; it has no store and may open no file"""
_MAKING: Final = threading.Lock()


def _local() -> duckdb.DuckDBPyConnection:
    with _MAKING:
        if os.getpid() not in _LOCAL:
            config: dict[str, Any] = {"threads": 1, "enable_external_access": False}
            _LOCAL[os.getpid()] = duckdb.connect(":memory:", config=config)
        return _LOCAL[os.getpid()].cursor()


class Asking:
    """The way in by the writer, for one who waits: asked again and again until it opens."""

    def __init__(self, place: ReadPlace | None, schema: str) -> None:
        self._place, self._schema = place, schema
        self._channel: Channel | None = None

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *raised: object) -> None:
        self._drop()

    @property
    def is_in_line(self) -> bool:
        """Whether a writer that answers will let us in when it has room."""
        return self._channel is not None

    def session(self, seconds: float, reopen: Callable[[], Duck]) -> "AskedDuck | None":
        """A reading, if a writer opens one to us within some seconds."""
        if self._place is None:
            return None
        self._channel = self._channel or self._place.call()
        if self._channel is None:
            return None
        try:
            if not self._channel.has_word(seconds):
                return None
            schema = self._channel.receive().words.get("schema")
        except (*GONE, ValueError):
            self._drop()
            return None
        if schema != self._schema:  # another version of gdelphi: by the file it is told why
            self._drop()
            self._place = None
            return None
        channel, self._channel = self._channel, None
        return AskedDuck(channel, reopen)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class AskedDuck:
    """What `Connection` needs of a connection of DuckDB's, answered by another process.

    If the writer closes the store before anything was answered, the reading is opened anew.
    """

    def __init__(self, channel: Channel, reopen: Callable[[], Duck]) -> None:
        self._channel, self._reopen = channel, reopen
        self._registered: dict[str, Any] = {}
        self._answered = False
        self._over: str | None = None
        self._instead: Duck | None = None

    def cursor(self) -> Duck:
        """Another reading, which may see a later state."""
        return self._instead.cursor() if self._instead else self._reopen()

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        """What DuckDB's `execute` returns, as far as it is used; None without a statement."""
        if self._instead:
            return self._instead.execute(sql, parameters)
        if not self.extract_statements(sql):
            return None
        asked = {"ask": "execute", "sql": sql, "parameters": as_json(_plain(parameters))}
        try:
            first = self._ask(asked)
            tables = [first.table]
            while not (message := self._hear()).words.get("done"):
                tables.append(message.table)
        except _Again:
            return self._open_anew().execute(sql, parameters)
        self._answered = True
        return AskedResult(first.words["names"], pa.concat_tables(tables))

    def sql(self, sql: str, *, params: Sequence[Any] | None = None) -> Any:
        """As `execute`."""
        return self.execute(sql, params or ())

    def extract_statements(self, sql: str) -> list[duckdb.Statement]:
        with contextlib.closing(_local()) as duck:
            return duck.extract_statements(sql)

    def register(self, name: str, table: Any) -> None:
        if self._instead:
            self._instead.register(name, table)
            return
        self._registered[name] = table
        try:
            self._ask({"ask": "register", "name": name}, _as_table(table))
        except _Again:
            self._open_anew()

    def unregister(self, name: str) -> None:
        self._registered.pop(name, None)
        if self._instead:
            self._instead.unregister(name)
            return
        with contextlib.suppress(_Again, StoreError, duckdb.Error):  # then it is gone as well
            self._ask({"ask": "unregister", "name": name})

    def interrupt(self) -> None:
        """Stop the query that another thread waits for."""
        if self._instead:
            self._instead.interrupt()
            return
        with contextlib.suppress(*GONE):
            self._channel.send({"ask": "interrupt"})

    def close(self) -> None:
        if self._instead:
            self._instead.close()
        self._channel.close()

    def _open_anew(self) -> Duck:
        self._channel.close()
        self._instead = self._reopen()
        if isinstance(self._instead, AskedDuck):
            self._instead._answered = True  # once is enough
        for name, table in self._registered.items():
            self._instead.register(name, table)
        return self._instead

    def _ask(self, words: Mapping[str, Any], table: pa.Table | None = None) -> Message:
        if self._over:
            raise ReadingEnded(self._over)
        with contextlib.suppress(*GONE):  # what the writer has said before it went can be heard
            self._channel.send(words, table)
        return self._hear()

    def _hear(self) -> Message:
        """The next message; errors are raised as DuckDB raises them."""
        try:
            message = self._channel.receive()
        except GONE:
            message = Message({"ended": VANISHED, "again": True})
        except BaseException:  # interrupted amid a message: what follows makes no sense
            self._over = VANISHED
            self._channel.hang_up()
            raise
        words = message.words
        if "ended" in words:
            if words["again"] and not self._answered:
                raise _Again
            self._over = words["ended"]
            raise ReadingEnded(self._over)
        if "error" in words:
            self._answered = True
            raise getattr(duckdb, words["error"], duckdb.Error)(words["message"])
        return message


class _Again(Exception):
    """The writer has closed the store before it has answered anything."""


class AskedResult(NamedTuple):
    """The result of a query."""

    names: list[str]
    table: pa.Table
    """with numbered columns"""

    @property
    def description(self) -> list[tuple[str]]:
        """The columns, as DuckDB's `description` begins."""
        return [(name,) for name in self.names]

    def fetchall(self) -> list[tuple[Any, ...]]:
        with contextlib.closing(_local()) as duck:
            return duck.from_arrow(self.table).fetchall()

    def to_arrow_table(self) -> pa.Table:
        with contextlib.closing(_local()) as duck:
            made = duck.from_arrow(self.table).to_arrow_table()
        for number, field in enumerate(self.table.schema):
            if pa.types.is_dictionary(field.type):  # DuckDB makes texts of what was an ENUM
                made = made.set_column(number, field, self.table.column(number))
        return made.rename_columns(self.names)


def _plain(parameters: Any) -> Any:
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def _as_table(table: Any) -> pa.Table:
    return table if isinstance(table, pa.Table) else pa.table(table)
