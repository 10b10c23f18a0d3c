"""The PostgreSQL that keeps a lake's catalog, asked directly: is it there, and who may write.

One process at a time may commit to a lake, whichever machine it runs on: that is what keeps an id
from standing twice, since a lake has no keys, and two appends do not contradict each other in it.
The right is an advisory lock of PostgreSQL: given in the order of asking, and free again when its
holder's connection ends, however that comes about. Beside the lock stands a row that says who
holds it. Readers take no part in this.
"""

import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gdelphi.common.errors import StoreBusy, StoreError
from gdelphi.common.settings import HIDDEN, without_password

LOCK_KEY: Final = 0x6764656C  # one lake for a database, so one key will do
CONNECT_SECONDS: Final = 10
RETRY_SECONDS: Final = 0.5
WHO_TRIES: Final = 10
_HELD = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 0 "
    f"AND objid = {LOCK_KEY} AND pid = pg_backend_pid()"
)
_WAITING = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 0 "
    f"AND objid = {LOCK_KEY} "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_WHO = (
    "SELECT host, writer.pid, command, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') "
    "FROM gdelphi_writer writer JOIN pg_locks held ON held.pid = backend "
    f"WHERE locktype = 'advisory' AND granted AND objid = {LOCK_KEY}"
)


class Catalog:
    """A database of PostgreSQL, by libpq's words or URL."""

    def __init__(self, address: str) -> None:
        psycopg = _psycopg()
        self.name = without_password(address)
        try:
            words = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise StoreError(
                f"{self.name} is no address of PostgreSQL ({self.plain(error)}): write it as "
                "ducklake:postgres:dbname=... host=... user=..."
            ) from None
        self.password = str(words.pop("password", "") or "")
        self.words = psycopg.conninfo.make_conninfo("", **words)
        """the address without its password"""
        self.address = address

    def plain(self, error: object) -> str:
        """The first line of an error, without the password."""
        lines = str(error).strip().splitlines()
        words = without_password(lines[0] if lines else type(error).__name__)
        password = getattr(self, "password", "")
        return words.replace(password, HIDDEN) if password else words

    def connect(self) -> Any:
        """A connection of its own, every statement of which is committed at once."""
        psycopg = _psycopg()
        try:
            return psycopg.connect(
                self.address,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name="gdelphi",
            )
        except psycopg.Error as error:
            raise StoreError(
                f"the catalog {self.name} is out of reach ({self.plain(error)}): start PostgreSQL, "
                "make the database (`createdb`), or mend `store`"
            ) from None

    def tables(self) -> set[str] | None:
        """The tables of the lake; None if there is no lake."""
        with self.connect() as connection:
            if connection.execute("SELECT to_regclass('ducklake_table')").fetchone()[0] is None:
                return None
            rows = connection.execute(
                "SELECT table_name FROM ducklake_table WHERE end_snapshot IS NULL"
            )
            return {name for (name,) in rows.fetchall()}

    def latest_snapshot(self) -> int:
        """The number of the last commit."""
        with self.connect() as connection:
            found = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone()
            return int(found[0])


class WriterLock:
    """The right to commit, of one process."""

    def __init__(self, catalog: Catalog, wait_seconds: float) -> None:
        self._catalog = catalog
        self._wait_seconds = wait_seconds
        self._connection: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take it, waiting for others up to the limit; given back at the end."""
        self._connection = self._catalog.connect()
        try:
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS gdelphi_writer "
                "(backend integer, host text, pid integer, command text, since timestamptz)"
            )
            self._take()
            yield
        finally:
            self._connection.close()  # which gives the lock back
            self._connection = None

    def lost(self) -> str | None:
        """Why it is lost, if it is: PostgreSQL was restarted, or the line to it broke."""
        psycopg = _psycopg()
        if self._connection is None:
            return None
        try:
            if self._connection.execute(_HELD).fetchone():
                return None
            reason = "the lock is not held"
        except psycopg.Error as error:
            reason = self._catalog.plain(error)
        return (
            f"{self._catalog.name} has ended the connection that held the right to write "
            f"({reason}): this transaction was not committed; run the command again"
        )

    def regain(self) -> None:
        """Take it anew, when PostgreSQL is there again."""
        deadline = time.monotonic() + self._wait_seconds
        self._connection.close()
        while True:
            try:
                self._connection = self._catalog.connect()
                break
            except StoreError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)
        self._take()

    def wanted(self) -> bool:
        """Whether another process waits for it."""
        with self._catalog.connect() as connection:
            return bool(connection.execute(_WAITING).fetchone()[0])

    def pass_on(self) -> None:
        """Give it to those who wait, and take it again after them."""
        self._connection.execute(f"SELECT pg_advisory_unlock({LOCK_KEY})")
        self._take()

    def _take(self) -> None:
        run = self._connection.execute
        if not run(f"SELECT pg_try_advisory_lock({LOCK_KEY})").fetchone()[0]:
            self._wait()
        run("DELETE FROM gdelphi_writer")
        run(
            "INSERT INTO gdelphi_writer VALUES (pg_backend_pid(), %s, %s, %s, now())",
            [socket.gethostname(), os.getpid(), _command()],
        )

    def _wait(self) -> None:
        psycopg = _psycopg()
        who = self._who()
        if self._wait_seconds > 0:
            sys.stderr.write(f"... waiting for {who}, which writes to {self._catalog.name}\n")
            sys.stderr.flush()
            milliseconds = max(1, round(self._wait_seconds * 1000))
            try:
                self._connection.execute(f"SET lock_timeout = {milliseconds}")
                self._connection.execute(f"SELECT pg_advisory_lock({LOCK_KEY})")
                self._connection.execute("SET lock_timeout = 0")
                return
            except psycopg.errors.LockNotAvailable:
                who = self._who()
        raise StoreBusy(
            f"{self._catalog.name} is being written by {who}; waited {self._wait_seconds:g} s. "
            "Wait for it to finish, or raise store_wait_seconds (--wait)"
        )

    def _who(self) -> str:
        for _ in range(WHO_TRIES):
            found = self._connection.execute(_WHO).fetchone()
            if found:
                host, pid, command, since = found
                return f"process {pid} on {host} ({command}; since {since} UTC)"
            time.sleep(RETRY_SECONDS / 5)  # who has just taken it says so in a moment
        return "another process"


def _command() -> str:
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return without_password(shlex.join(words))[:120]


def _psycopg() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise StoreError("a lake needs the package psycopg: pip install 'gdelphi[lake]'") from None
    return psycopg
