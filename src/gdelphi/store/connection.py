"""The store: the one place that opens DuckDB.

DuckDB lets one writing process in, or any number of reading ones. So connections are short, a
process that finds the store taken waits for a while and then says who holds it, and a long writer
looks between its transactions whether somebody waits and lets them in (`Connection.let_others_in`).
Waiting is announced by a shared lock on a file beside the store: the system releases it when a
process dies, so it cannot go stale.
"""

import contextlib
import fcntl
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

from gdelphi.common.errors import (
    QueryError,
    StoreBusy,
    StoreError,
    StoreMemoryError,
)
from gdelphi.common.files import text_digest
from gdelphi.common.progress import announce
from gdelphi.common.settings import Settings
from gdelphi.gdelt.cameo import table_rows, tables_fingerprint
from gdelphi.store.schema import (
    CODE_TABLES,
    CODE_VIEWS,
    MIGRATIONS,
    SUMS,
    create_code_table,
)
from gdelphi.store.seal import break_seal, seal
from gdelphi.store.sums import TABLES, fill_sums

POLL_SECONDS = 0.05
VACUUM_TASKS = 100  # DuckDB's own default
LET_IN_SECONDS = 5.0  # how long a writer stands aside for those who wait

VERSION_PLACE, VERSION_LENGTH = 52, 32  # of the maker's version in the header of a file

DAMAGE = (
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.SerializationException,
    duckdb.FatalException,
)
"""what DuckDB raises on files that are not as it wrote them"""
_DAMAGED = re.compile("corrupt|checksum|deserialize", re.IGNORECASE)

Row = tuple[Any, ...]


def utc_now() -> datetime:
    """Now, in UTC, as the store keeps times."""
    return datetime.now(UTC).replace(tzinfo=None)


def arrow_table(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Rows of Python values as an Arrow table."""
    values = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(columns, values, strict=True)})


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

    def __init__(self, store: "Store", *, read_only: bool) -> None:
        self.store = store
        self.read_only = read_only
        self._duck = store.open_duckdb(read_only=read_only)

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        try:
            with _interruptible():
                return self._duck.execute(sql, parameters).fetchall()
        except duckdb.OutOfMemoryException as error:
            raise StoreMemoryError(
                f"{self.store.path}: more memory is needed than store_memory allows: raise it "
                f"({_first_line(error)})"
            ) from error
        except duckdb.Error as error:
            raise StoreError(_what_failed(self.store.path, error)) from error

    def value(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """The first value of the first row."""
        return self.rows(sql, parameters)[0][0]

    def arrow(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Run a query and return its rows as an Arrow table: for many rows."""
        try:
            with _interruptible():
                # Not `execute`, of which DuckDB 2 says that it copies the rows once more.
                return self._duck.sql(sql, params=list(parameters) or None).to_arrow_table()
        except duckdb.Error as error:
            raise StoreError(_what_failed(self.store.path, error)) from error

    def table(self, sql: str) -> tuple[list[str], list[Row]]:
        """Column names and rows of a user's query; a signal ends it, however long it may be.

        DuckDB looks for signals only where the calling thread waits, not where it works itself, and
        a handler of Python's runs only in the main thread: so the query runs in another one.
        """
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._table, sql)
            try:
                return running.result()
            except KeyboardInterrupt:
                while not running.done():  # an interrupt between two statements stops nothing
                    self._duck.interrupt()
                    wait([running], POLL_SECONDS)
                raise
            except DAMAGE as error:
                raise StoreError(_what_failed(self.store.path, error)) from None
            except duckdb.Error as error:
                raise QueryError(str(error).strip()) from None

    def _table(self, sql: str) -> tuple[list[str], list[Row]]:
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
            self._duck.unregister(name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self.rows("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            with contextlib.suppress(StoreError):  # a fatal error has rolled back already
                self.rows("ROLLBACK")
            raise
        self.rows("COMMIT")

    def let_others_in(self) -> bool:
        """Between two transactions: close the store for those who wait, if any; True if so."""
        if not self.store.someone_waits():
            return False
        self._duck.close()
        deadline = time.monotonic() + LET_IN_SECONDS
        while self.store.someone_waits() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._duck = self.store.open_duckdb(read_only=self.read_only)
        return True

    def compact(self) -> None:
        """Write the store's log into its file and merge what small transactions have left.

        DuckDB would do this at every closing, and on a store of 50 million rows it takes a minute
        to write one row that way; so it is done only when it is due.
        """
        self.rows(f"SET max_vacuum_tasks = {VACUUM_TASKS}")
        self.rows("CHECKPOINT")
        self.rows("SET max_vacuum_tasks = 0")

    def close(self) -> None:
        self._duck.close()


class Store:
    """A store's place and the way in."""

    def __init__(self, settings: Settings) -> None:
        self.path = settings.store
        self.wait_seconds = settings.store_wait_seconds
        self._memory = settings.store_memory
        self._threads = settings.store_threads
        self._waiting = self.path.with_name(self.path.name + ".waiting")

    def exists(self) -> bool:
        return self.path.exists()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open for writing; make the store or bring its schema up to date first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = Connection(self, read_only=False)
        try:
            _migrate(connection)
            _note_version(connection)
            yield connection
        finally:
            connection.close()
            seal(self.path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open for reading only; nothing can be written, here or elsewhere on the disk."""
        if not self.exists():
            raise StoreError(f"no store at {self.path}: `gdelphi ingest` makes one")
        connection = Connection(self, read_only=True)
        try:
            if _pending(connection):
                connection.close()
                with self.writing():
                    pass
                connection = Connection(self, read_only=True)
            yield connection
        finally:
            connection.close()

    def someone_waits(self) -> bool:
        """Whether another process waits for this store."""
        try:
            with self._waiting.open("rb") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def open_duckdb(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Connect, waiting for other processes up to the limit."""
        deadline = time.monotonic() + self.wait_seconds
        mark: IO[bytes] | None = None
        try:
            while True:
                try:
                    return self._connect(read_only=read_only)
                except duckdb.Error as error:
                    # Not any "lock": what is told of damage speaks of blocks.
                    if "set lock on file" not in str(error):
                        raise StoreError(_unreadable(self.path, error)) from None
                    if time.monotonic() >= deadline:
                        raise StoreBusy(self._who_holds(str(error))) from None
                mark = mark or self._announce()
                time.sleep(POLL_SECONDS)
        finally:
            if mark is not None:
                mark.close()

    def _connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        config: dict[str, Any] = {"memory_limit": self._memory}
        if self._threads is not None:
            config["threads"] = self._threads
        if read_only:
            config["enable_external_access"] = False  # a query must not write files either
        else:
            config["temp_directory"] = str(self.path.with_name(self.path.name + ".tmp"))
            config["preserve_insertion_order"] = False  # rows have ids: their order says nothing
            config["max_vacuum_tasks"] = 0  # see Connection.compact
        connection = duckdb.connect(str(self.path), read_only=read_only, config=config)
        if not read_only:
            break_seal(self.path)
        # A process that multiprocessing has started looks interactive to DuckDB, which then draws.
        # In a notebook without ipywidgets it cannot be told so, but does not draw.
        with contextlib.suppress(duckdb.InvalidInputException):
            connection.execute("SET enable_progress_bar = false")
        return connection

    def _announce(self) -> IO[bytes] | None:
        try:
            mark = self._waiting.open("ab")
        except OSError:  # a reader without write permission waits unannounced
            return None
        fcntl.flock(mark, fcntl.LOCK_SH)
        return mark

    def _who_holds(self, error: str) -> str:
        match = re.search(r"PID (\d+)", error)
        who = _describe_process(int(match[1])) if match else "another process"
        return (
            f"{self.path} is held by {who}; waited {self.wait_seconds:g} s. Wait for it to finish, "
            "or raise store_wait_seconds (--wait)"
        )


def _describe_process(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        began = time.time() - Path(f"/proc/{pid}").stat().st_ctime
    except OSError:
        return f"process {pid}"
    command = " ".join(" ".join([Path(words[0]).name, *words[1:]]).split())
    return f"process {pid} ({command[:120]}; running for {began:.0f} s)"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _what_failed(path: Path, error: Exception) -> str:
    """A statement of ours has failed: the store is damaged, or the statement is at fault."""
    if isinstance(error, DAMAGE):
        return _unreadable(path, error)
    return f"{path}: {_first_line(error)}"


def created_by(path: Path) -> str | None:
    """The DuckDB that made a file, as its header says: read without DuckDB, since an older one
    cannot open what a newer one has made."""
    try:
        with path.open("rb") as file:
            header = file.read(VERSION_PLACE + VERSION_LENGTH)
    except OSError:
        return None
    words = header[VERSION_PLACE:].split(b"\0")[0].decode("ascii", errors="replace")
    return words if header[8:12] == b"DUCK" and re.fullmatch(r"v\d[\w.+-]*", words) else None


def _unreadable(path: Path, error: Exception) -> str:
    words = _first_line(error)
    maker = created_by(path)
    if "database file with version number" in words and maker:
        return (
            f"{path} was made by DuckDB {maker}, and the one installed, {duckdb.__version__}, "
            f"cannot read it: install `duckdb>={maker[1:]}`, or take the store from before "
            "`gdelphi store upgrade`"
        )
    state = "is damaged" if _DAMAGED.search(words) else "cannot be read as a store"
    return (
        f"{path} {state}: {words}. If it is damaged, restore it from a backup and `gdelphi ingest` "
        "what has come since, or move it away and ingest all again (docs/operations.md)"
    )


def _applied(connection: Connection) -> list[str]:
    known = connection.rows(
        "SELECT count(*) FROM information_schema.tables WHERE table_name = 'migrations'"
    )
    if not known[0][0]:
        return []
    return [name for (name,) in connection.rows("SELECT name FROM migrations ORDER BY number")]


def _pending(connection: Connection) -> bool:
    names = [migration.name for migration in MIGRATIONS]
    applied = _applied(connection)
    if applied != names[: len(applied)]:
        unknown = next(name for name in applied if name not in names)
        raise StoreError(
            f"{connection.store.path} was written by a newer gdelphi (it has {unknown!r}): "
            "install that version or a later one"
        )
    if len(applied) < len(names):
        return True
    fingerprint = connection.rows("SELECT value FROM meta WHERE key = 'code_tables'")
    return fingerprint != [(_code_fingerprint(),)]


def _migrate(connection: Connection) -> None:
    if not _pending(connection):
        return
    with connection.transaction():
        pending = MIGRATIONS[len(_applied(connection)) :]
        for number, migration in enumerate(pending, start=len(MIGRATIONS) - len(pending) + 1):
            for statement in migration.statements:
                connection.rows(statement)
            connection.rows(
                "INSERT INTO migrations VALUES (?, ?, ?)", [number, migration.name, utc_now()]
            )
        _refresh_code_tables(connection)
        new = SUMS in {migration.name for migration in pending}
        tell = announce(f"{connection.store.path}: summing up its rows, once")
        # What is odd about codes depends on the code tables, which may have changed.
        fill_sums(connection.rows, tuple(TABLES) if new else ("odd_codes",), tell)


def _note_version(connection: Connection) -> None:
    """Say in the store which DuckDB has written it last."""
    version = duckdb.__version__
    if connection.rows("SELECT value FROM meta WHERE key = 'duckdb'") != [(version,)]:
        with connection.transaction():
            connection.rows("DELETE FROM meta WHERE key = 'duckdb'")
            connection.rows("INSERT INTO meta VALUES ('duckdb', ?)", [version])


def _refresh_code_tables(connection: Connection) -> None:
    """Copy the packaged code tables into the store, where views and queries meet them."""
    for name, table in CODE_TABLES.items():
        columns, rows = table_rows(table.source)
        for statement in create_code_table(name, columns):
            connection.rows(statement)
        connection.insert_rows(name, columns, rows)
    for statement in CODE_VIEWS:
        connection.rows(statement)
    connection.rows("DELETE FROM meta WHERE key = 'code_tables'")
    connection.rows("INSERT INTO meta VALUES ('code_tables', ?)", [_code_fingerprint()])


def _code_fingerprint() -> str:
    """Of the packaged tables, and of the views that are made with them."""
    return text_digest("\n".join((tables_fingerprint(), *CODE_VIEWS)))
