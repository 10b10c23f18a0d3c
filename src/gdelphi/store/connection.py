"""The store: the one place that opens DuckDB.

Where the rows lie is another matter: in one file (`database_file.py`), where writers take turns and
answer readers meanwhile (`served_reads.py`), or in a lake (`lake.py`). Connections are short,
whichever it is.
"""

import contextlib
import copy
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from gdelphi.common.errors import (
    QueryError,
    StoreBusy,
    StoreCrowded,
    StoreError,
    StoreLost,
    StoreMemoryError,
)
from gdelphi.common.settings import Settings
from gdelphi.store.asked_reads import AskedDuck, Asking, Duck
from gdelphi.store.database_file import POLL_SECONDS, DatabaseFile
from gdelphi.store.lake import MEMORY, Lake
from gdelphi.store.migrate import is_behind, migrate, schema_mark
from gdelphi.store.place import StorePlace
from gdelphi.store.served_reads import CLOSING_SECONDS, COMPACTED, ReadServer
from gdelphi.store.sums import renew_sums, wrong_sums

Row = tuple[Any, ...]
Done = TypeVar("Done")

DAMAGE = (
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.SerializationException,
    duckdb.FatalException,
)
"""what DuckDB raises on files that are not as it wrote them"""
RETRIES: Final = 3  # of work during which the catalog of a lake was lost
WRITING: Final = {"COPY", "COPY_DATABASE", "EXPORT", "PREPARE", "EXECUTE"}
"""statements of a user's that are refused: a lake's folder is open to whoever reads it"""


def arrow_table(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Rows of Python values as an Arrow table."""
    values = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(columns, values, strict=True)})


ANSWER_SECONDS: Final = 1.0
"""that a writer may take to let a reader in who stands in line, before he tries the file again"""
SLOW_PARAMETERS: Final = duckdb.__version__.startswith("1.")
"""whether `sql` with parameters takes its rows through Python, 27 times as long as `execute`"""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """A signal that DuckDB has met within a statement is a signal again, not a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt) or str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


class Connection:
    """An open store. Rows come as lists of tuples; errors as StoreError."""

    def __init__(self, store: "Store", *, read_only: bool, alone: bool = False) -> None:
        self.store = store
        self.read_only = read_only
        self._alone = alone
        self._server: ReadServer | None = None
        self._served: duckdb.DuckDBPyConnection | None = None
        self._duck: Duck = self._open()

    def _open(self) -> Duck:
        return self.store.open_duckdb(read_only=self.read_only, alone=self._alone)

    @property
    def is_answered(self) -> bool:
        """Whether another process, which writes, answers what is asked here."""
        return isinstance(self._duck, AskedDuck)

    def serve_reads(self) -> None:
        """Answer those who read while this connection has the store; it must be up to date."""
        place = self.store.place.reads
        if place is None or self._alone or isinstance(self._duck, AskedDuck):
            return
        self._served = self._duck.cursor()
        with contextlib.suppress(OSError):  # no way to: readers take turns
            self._server = ReadServer(place, schema_mark(), self._served.cursor)

    def _close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._served is not None:
            self._served.close()
            self._served = None
        self._duck.close()

    def duplicate(self) -> "Connection":
        """Another one to the same opened database, for another thread."""
        other = copy.copy(self)
        try:
            other._duck = self._duck.cursor()
            for statement in self.store.place.begin():
                other._duck.execute(statement)
        except duckdb.Error as error:
            raise self._what_failed(error) from None
        return other

    @property
    def name(self) -> str:
        """What messages call the store."""
        return self.store.place.name

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        try:
            with _interruptible():
                return self._duck.execute(sql, parameters).fetchall()
        except duckdb.OutOfMemoryException as error:
            if self._server is not None and self._server.has_readers:
                raise StoreCrowded(
                    f"{self.name}: the memory (store_memory) was too little beside those who read; "
                    "nothing was written"
                ) from error
            raise StoreMemoryError(
                f"{self.name}: more memory is needed than store_memory allows: raise it "
                f"({_first_line(error)})"
            ) from error
        except duckdb.Error as error:
            raise self._what_failed(error) from error

    def value(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """The first value of the first row."""
        return self.rows(sql, parameters)[0][0]

    def arrow(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Run a query and return its rows as an Arrow table: for many rows."""
        try:
            with _interruptible():
                if parameters and SLOW_PARAMETERS:
                    return self._duck.execute(sql, list(parameters)).to_arrow_table()
                # Not `execute`, of which DuckDB 2 says that it copies the rows once more.
                return self._duck.sql(sql, params=list(parameters) or None).to_arrow_table()
        except duckdb.Error as error:
            raise self._what_failed(error) from error

    def table(self, sql: str) -> tuple[list[str], list[Row]]:
        """Column names and rows of a user's query; a signal ends it, however long it may be.

        DuckDB looks for signals only where the calling thread waits, not where it works itself, and
        a handler of Python's runs only in the main thread: so the query runs in another one.
        """
        result: Future[tuple[list[str], list[Row]]] = Future()
        given_up = threading.Event()

        def run() -> None:
            if given_up.is_set():
                return
            try:
                result.set_result(self._table(sql))
            except BaseException as error:  # noqa: BLE001 - raised again where it is asked for
                result.set_exception(error)

        worker = threading.Thread(target=run, daemon=True)
        try:
            worker.start()
            return result.result()
        except KeyboardInterrupt:  # also from within `start`, with the thread begun or not
            given_up.set()
            while worker.is_alive():  # an interrupt between two statements stops nothing
                self._duck.interrupt()
                worker.join(POLL_SECONDS)
            raise
        except DAMAGE as error:
            raise self._what_failed(error) from None
        except duckdb.Error as error:
            raise QueryError(str(error).strip()) from None

    def _table(self, sql: str) -> tuple[list[str], list[Row]]:
        if self.read_only:
            kinds = {statement.type.name for statement in self._duck.extract_statements(sql)}
            if kinds & WRITING:
                raise QueryError("a query may read only, and this one would write a file")
        result = self._duck.execute(sql)
        if result is None:  # of a text without a statement, whatever DuckDB's types say
            raise QueryError('there is no query: `gdelphi sql "select ..."`')
        columns = [column[0] for column in result.description or ()]
        return columns, result.fetchall() if columns else []

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows of Python values (as one Arrow table: statement by statement is slow)."""
        if rows:
            names = ", ".join(columns)
            with self.registered("given", arrow_table(columns, rows)):
                self.rows(f"INSERT INTO {table} ({names}) SELECT {names} FROM given")

    @contextlib.contextmanager
    def registered(self, name: str, table: Any) -> Iterator[None]:
        """Let SQL see an Arrow table under a name."""
        self._duck.register(name, table)
        try:
            yield
        finally:
            # After an error within a transaction DuckDB 2 refuses even this; the next replaces it.
            with contextlib.suppress(duckdb.TransactionException):
                self._duck.unregister(name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        if self.is_answered:  # one state is what it sees anyway
            yield
            return
        self.rows("BEGIN TRANSACTION")
        try:
            yield
            if not self.read_only:
                self.store.place.before_commit()
        except BaseException:
            with contextlib.suppress(StoreError):  # a fatal error has rolled back already
                self.rows("ROLLBACK")
            raise
        self.rows("COMMIT")

    @contextlib.contextmanager
    def one_thread(self) -> Iterator[None]:
        """Let DuckDB work in one thread, for inserts that hardly fill a group of rows: several
        threads would each begin a group, put what they have together again, which is inserting it
        twice, and then wait in a loop for the one that writes it."""
        before = self.value("SELECT current_setting('threads')")
        self.rows("SET threads = 1")
        try:
            yield
        finally:
            with contextlib.suppress(StoreError):
                self.rows(f"SET threads = {before}")

    def let_others_in(self) -> bool:
        """Between two transactions: close the store for those who wait, if any; True if so."""
        if not self.store.someone_waits():
            return False
        self._close()
        self.store.place.stand_aside()
        self._duck = self._open()
        self.serve_reads()
        return True

    def retry(self, transactions: Callable[[], Done]) -> Done:
        """Do something that is whole transactions, and again if the store was lost meanwhile; or
        alone, if those who read have taken the memory that it needs."""
        for attempt in range(1, RETRIES + 1):
            try:
                return transactions()
            except StoreCrowded as error:
                assert self._server is not None  # noqa: S101 - it has had readers
                sys.stderr.write(f"... {error}; those who read are interrupted\n")
                with self._server.alone():
                    return transactions()
            except StoreLost as error:
                sys.stderr.write(f"... {error}; trying again, {attempt} of {RETRIES}\n")
                self._close()
                self.store.place.regain()
                self._duck = self._open()
        return transactions()

    def define(self, statement: str) -> None:
        """Run a statement of the schema, as it is written where this store lies."""
        for own in self.store.place.dialect(statement):
            self.rows(own)

    def renew_sums(self, days: Iterable[date], file_ids: Iterable[int]) -> None:
        """Make the sums of some days anew, inside a transaction in which some files changed."""
        renew_sums(self.rows, days, file_ids, one_scan=not self.store.place.takes_turns)

    def wrong_sums(self) -> dict[str, int]:
        """How many rows of each table of sums differ from a fresh aggregate."""
        return wrong_sums(self.rows, one_scan=not self.store.place.takes_turns)

    def snapshot(self) -> int | None:
        """The number of the state that is read, if states have one."""
        return self.store.place.snapshot(self.rows)

    def snapshot_time(self) -> datetime | None:
        """When it was committed."""
        return self.store.place.snapshot_time(self.rows)

    def compact(self) -> None:
        """Merge what small transactions have left."""
        deadline = time.monotonic() + CLOSING_SECONDS
        while self._server is not None and self._server.has_readers:
            try:
                self.store.place.compact(self.rows)
            except StoreError as error:
                # Readers who began before the last commit may keep its transaction from ending.
                if not self.store.place.is_in_use(str(error)):
                    raise
            else:
                return
            if time.monotonic() > deadline:
                with self._server.alone(COMPACTED):
                    self.store.place.compact(self.rows)
                return
            time.sleep(POLL_SECONDS)
        self.store.place.compact(self.rows)

    def _what_failed(self, error: Exception) -> StoreError:
        """A statement of ours has failed: its catalog is gone, the store is damaged, or the
        statement is at fault."""
        lost = None if self.read_only else self.store.place.lost()
        if lost:
            return StoreLost(lost)
        place = self.store.place
        return StoreError(place.explain(_first_line(error), damage=isinstance(error, DAMAGE)))

    def close(self) -> None:
        self._close()


_KEPT: dict[tuple[object, ...], Connection] = {}
"""connections that this process reads lakes by"""


class Store:
    """A store and the way in."""

    def __init__(self, settings: Settings) -> None:
        self.place: StorePlace = (
            Lake(settings) if settings.store_catalog else DatabaseFile(settings)
        )
        self.wait_seconds = settings.store_wait_seconds
        self._memory = settings.store_memory
        self._threads = settings.store_threads

    @property
    def path(self) -> Path:
        """The file, or the folder of the data."""
        return self.place.path

    def exists(self) -> bool:
        return self.place.exists()

    def must_exist(self) -> None:
        """Raise StoreError where no store is."""
        if not self.exists():
            raise StoreError(f"no store at {self.place.name}: `gdelphi ingest` makes one")

    @contextlib.contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[Connection]:
        """Open for writing; make the store or bring its schema up to date first. Readers are
        answered meanwhile; who writes alone answers nobody, and may open other files."""
        with self.place.writing():
            connection = Connection(self, read_only=False, alone=alone)
            try:
                migrate(connection)
                connection.serve_reads()
                yield connection
            finally:
                connection.close()

    @contextlib.contextmanager
    def reading(self, *, alone: bool = False) -> Iterator[Connection]:
        """Open for reading only; nothing can be written, here or elsewhere on the disk. While
        another process writes it answers, as long as it has the store; who reads for minutes
        should read alone: wait for a turn, and then have the store until he is done."""
        connection = self._kept_open() or self._open_to_read(alone=alone)
        try:
            yield connection
        finally:
            connection.close()

    def _open_to_read(self, *, alone: bool) -> Connection:
        self.must_exist()
        connection = Connection(self, read_only=True, alone=alone)
        try:
            if connection.is_answered:
                return connection  # by one whose schema is ours
            if is_behind(connection):
                connection.close()
                with self.writing():
                    pass
                connection = Connection(self, read_only=True, alone=alone)
            if not self.place.takes_turns:
                _KEPT[self._key()] = connection
                return connection.duplicate()  # closing the first would close all
        except BaseException:
            connection.close()
            raise
        return connection

    def _kept_open(self) -> Connection | None:
        """To read what nobody has to wait for, a process keeps its first connection: the next ones
        take a hundredth of the time. One that its catalog has dropped is thrown away."""
        kept = _KEPT.get(self._key())
        if kept is None:
            return None
        try:
            connection = kept.duplicate()
            connection.rows("SELECT 1 FROM migrations LIMIT 1")
        except StoreError:
            _KEPT.pop(self._key()).close()
            return None
        return connection

    def _key(self) -> tuple[object, ...]:
        return os.getpid(), self.place.identity(), self._memory, self._threads

    def someone_waits(self) -> bool:
        """Whether another process waits for this store."""
        return self.place.someone_waits()

    def is_served(self) -> bool:
        """Whether a process that writes answers those who read."""
        return self.place.reads is not None and self.place.reads.is_served()

    def open_duckdb(self, *, read_only: bool, alone: bool = False) -> Duck:
        """Connect, or ask the process that writes; waiting for others up to the limit."""
        deadline = time.monotonic() + self.wait_seconds
        place = self.place.reads if read_only and not alone else None
        with contextlib.ExitStack() as announced:
            asking = announced.enter_context(Asking(place, schema_mark() if place else ""))
            waits = False
            while True:
                # First: in a taken file DuckDB finds out that it is taken ten times as slowly.
                patience = min(ANSWER_SECONDS, max(0.0, deadline - time.monotonic()))
                asked = asking.session(patience, lambda: self.open_duckdb(read_only=True))
                if asked is not None:
                    return asked
                try:
                    return self._connect(read_only=read_only, shut_off=not alone)
                except duckdb.Error as error:
                    if not self.place.is_busy(str(error)):
                        words = self.place.explain(_first_line(error), damage=True)
                        raise StoreError(words) from None
                    if time.monotonic() >= deadline:
                        raise StoreBusy(self.place.who_holds(str(error))) from None
                if not waits and not asking.is_in_line:
                    waits = True
                    announced.enter_context(self.place.waiting())
                time.sleep(POLL_SECONDS)

    def _connect(self, *, read_only: bool, shut_off: bool) -> duckdb.DuckDBPyConnection:
        own = self.place.config(read_only=read_only, shut_off=shut_off)
        config = {"memory_limit": self._memory, **own}
        if self._threads is not None:
            config["threads"] = self._threads
        file = self.place.database()
        connection = duckdb.connect(file, read_only=read_only and file != MEMORY, config=config)
        try:
            self.place.enter(lambda sql: connection.execute(sql).fetchall(), read_only=read_only)
        except BaseException:
            connection.close()
            raise
        # A process that multiprocessing has started looks interactive to DuckDB, which then draws.
        # In a notebook without ipywidgets it cannot be told so, but does not draw.
        with contextlib.suppress(duckdb.InvalidInputException):
            connection.execute("SET enable_progress_bar = false")
        return connection


def at_one_state(settings: Settings) -> Settings:
    """Settings that read one state of a lake, by its number, whatever is committed meanwhile; those
    of a file are returned as they are."""
    if settings.store_catalog is None:
        return settings
    with Store(settings).reading() as connection:
        return settings.model_copy(update={"store_as_of": str(connection.snapshot())})


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
