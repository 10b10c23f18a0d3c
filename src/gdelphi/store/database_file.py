"""A store in one DuckDB file.

DuckDB lets one writing process in, or any number of reading ones. Readers ask the one that writes
(`served_reads.py`), and wait for nobody. Writers, and readers whom it does not answer, take turns:
connections are short, a process that finds the store taken waits for a while and then says who
holds it, and a long writer looks between its transactions whether somebody waits and lets them in.
Waiting is announced by a shared lock on a file beside the store: the system releases it when a
process dies, so it cannot go stale.
"""

import fcntl
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import Settings
from gdelphi.store.read_place import ReadPlace
from gdelphi.store.schema import quoted
from gdelphi.store.seal import break_seal, seal
from gdelphi.store.sums import RunSql

POLL_SECONDS: Final = 0.05
LET_IN_SECONDS: Final = 5.0  # how long a writer stands aside for those who wait
VACUUM_TASKS: Final = 100  # DuckDB's own default

VERSION_PLACE, VERSION_LENGTH = 52, 32  # of the maker's version in the header of a file
_OURSELVES = "same database file with a different configuration"
"""in DuckDB's words on a file that another thread of this process writes to, or reads"""
_DAMAGED = re.compile("corrupt|checksum|deserialize", re.IGNORECASE)


class DatabaseFile:
    """The place of a store that is one file."""

    takes_turns: Final = True

    def __init__(self, settings: Settings) -> None:
        if settings.store_as_of:
            raise ConfigError(
                f"{settings.store} is a file, which has no past states: store_as_of (--as-of) "
                "needs a lake (docs/lake.md)"
            )
        self.path = settings.store
        self.name = str(self.path)
        self.scratch = self.path.with_name(self.path.name + ".work")
        self._wait_seconds = settings.store_wait_seconds
        self.reads = (
            ReadPlace(self.path, self.path.with_name(self.path.name + ".serving"))
            if settings.store_serve_reads
            else None
        )
        self._waiting = self.path.with_name(self.path.name + ".waiting")

    def exists(self) -> bool:
        return self.path.exists()

    def database(self) -> str:
        return str(self.path)

    def config(self, *, read_only: bool, shut_off: bool) -> dict[str, Any]:
        if read_only:
            return {"enable_external_access": False}  # a query must not write files either
        return {
            # The questions of readers come here too.
            "enable_external_access": not shut_off or self.reads is None,
            "temp_directory": str(self.path.with_name(self.path.name + ".tmp")),
            "preserve_insertion_order": False,  # rows have ids: their order says nothing
            "max_vacuum_tasks": 0,  # see compact
        }

    def enter(self, run: RunSql, *, read_only: bool) -> None:  # noqa: ARG002
        if not read_only:
            break_seal(self.path)

    def attach(self, run: RunSql, name: str) -> None:
        run(f"ATTACH {quoted(str(self.path))} AS {name} (READ_ONLY)")

    def begin(self) -> Iterator[str]:
        yield from ()

    def identity(self) -> object:
        return self.path

    @contextmanager
    def writing(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            seal(self.path)

    def before_commit(self) -> None:
        """DuckDB has let nobody else in."""

    def lost(self) -> str | None:
        return None

    def regain(self) -> None:
        """It cannot be lost."""

    def is_busy(self, error: str) -> bool:
        # Any "lock" is too much: damage is told of blocks.
        return "set lock on file" in error or _OURSELVES in error

    def is_in_use(self, error: str) -> bool:
        return "Cannot CHECKPOINT" in error

    @contextmanager
    def waiting(self) -> Iterator[None]:
        mark: IO[bytes] | None = None
        try:
            mark = self._waiting.open("ab")
            fcntl.flock(mark, fcntl.LOCK_SH)
        except OSError:  # a reader without write permission waits unannounced
            pass
        try:
            yield
        finally:
            if mark is not None:
                mark.close()

    def someone_waits(self) -> bool:
        try:
            with self._waiting.open("rb") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def stand_aside(self) -> None:
        deadline = time.monotonic() + LET_IN_SECONDS
        while self.someone_waits() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def who_holds(self, error: str) -> str:
        match = re.search(r"PID (\d+)", error)
        other = "this process itself" if _OURSELVES in error else "another process"
        who = _describe_process(int(match[1])) if match else other
        return (
            f"{self.path} is held by {who}; waited {self._wait_seconds:g} s. Wait for it to "
            "finish, or raise store_wait_seconds (--wait)"
        )

    def explain(self, words: str, *, damage: bool) -> str:
        if not damage:
            return f"{self.path}: {words}"
        maker = created_by(self.path)
        if "database file with version number" in words and maker:
            return (
                f"{self.path} was made by DuckDB {maker}, and the one installed, "
                f"{version('duckdb')}, cannot read it: install `duckdb>={maker[1:]}`, or take the "
                "store from before `gdelphi store upgrade`"
            )
        state = "is damaged" if _DAMAGED.search(words) else "cannot be read as a store"
        return (
            f"{self.path} {state}: {words}. If it is damaged, restore it from a backup and "
            "`gdelphi ingest` what has come since, or move it away and ingest all again "
            "(docs/operations.md)"
        )

    def dialect(self, statement: str) -> Iterator[str]:
        yield statement

    def state(self) -> object:
        """When the file and its log were written."""
        return tuple(
            path.stat().st_mtime_ns if path.exists() else 0
            for path in (self.path, self.path.with_name(f"{self.path.name}.wal"))
        )

    def made(self, run: RunSql) -> tuple[str | None, str | None]:
        stored = run(
            "SELECT tags['storage_version'] FROM duckdb_databases() "
            "WHERE database_name = current_database()"
        )
        return stored[0][0], created_by(self.path)

    def snapshot(self, run: RunSql) -> int | None:  # noqa: ARG002
        return None

    def snapshot_time(self, run: RunSql) -> datetime | None:  # noqa: ARG002
        return None

    def compact(self, run: RunSql) -> None:
        """Write the log into the file and merge what small transactions have left.

        DuckDB would do this at every closing, and on a store of 50 million rows it takes a minute
        to write one row that way; so it is done only when it is due.
        """
        run(f"SET max_vacuum_tasks = {VACUUM_TASKS}")
        try:
            run("CHECKPOINT")
        finally:
            run("SET max_vacuum_tasks = 0")


def _describe_process(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        began = time.time() - Path(f"/proc/{pid}").stat().st_ctime
    except OSError:
        return f"process {pid}"
    command = " ".join(" ".join([Path(words[0]).name, *words[1:]]).split())
    return f"process {pid} ({command[:120]}; running for {began:.0f} s)"


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
