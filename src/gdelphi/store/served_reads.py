"""The writer of a store in a file answers those who read, while it has the store.

DuckDB lets nobody else into a file that is being written. But the process that writes can read as
well, by other cursors, each in a transaction of its own that sees the last committed state and
nothing later. So readers need not wait for a transaction of the writer's to end: they ask its
process, through a socket of the machine that only the same user can open. A file beside the store,
`<store>.serving`, says where the socket is; one that a killed writer has left leads nowhere, and
readers then open the file as ever.

DuckDB's own server (Quack) was tried: who has its token can write, and read files of the server.
Here a session is inside `BEGIN TRANSACTION READ ONLY`, the writer's DuckDB is shut off from files
as a reader's is, and only questions are answered (`plain_questions.py`).

Readers share the writer's memory and cores. There are at most MOST sessions, further ones wait at
the door; results leave batch by batch, as the reader takes them. When the writer has to close the
store, sessions may go on for CLOSING_SECONDS; when its own statement finds no memory, they end at
once (`alone`).
"""

import contextlib
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any, Final

import duckdb
import pyarrow as pa

from gdelphi.store.plain_questions import why_not
from gdelphi.store.read_place import ReadPlace, private_folder, same_user
from gdelphi.store.read_wire import GONE, Channel, from_json

MOST: Final = 16  # sessions at the same time
BATCH: Final = 65_536  # rows of a result that are sent together
TICK: Final = 0.05  # seconds between two looks at who asks, and who has gone
CLOSING_SECONDS: Final = 3.0  # that sessions may go on when the store is to be closed
LEAVING_SECONDS: Final = 10.0  # that interrupted ones are waited for
INTERRUPT: Final = b'{"ask": "interrupt"'
SESSION: Final = (
    "SET SESSION arrow_lossless_conversion = true",
    "SET SESSION preserve_insertion_order = true",
    "SET SESSION python_enable_replacements = false",
    "BEGIN TRANSACTION READ ONLY",
    "SELECT 1 FROM migrations LIMIT 1",  # a transaction sees what is there at its first look
)
CLOSED: Final = "the process that writes to the store has closed it: ask again"
NO_MEMORY: Final = (
    "the process that writes to the store needs the memory (store_memory) for itself: ask again "
    "later"
)
COMPACTED: Final = "the process that writes to the store puts it in order: ask again"
BROKEN: Final = "an error has ended this reading of the store: open it again"
_ERROR_WORDS: Final = re.compile(r"(\w[\w ]*?) Error: ")
_STREAMED: Final = {
    "Out of Memory": "OutOfMemoryException",
    "IO": "IOException",
    "INTERNAL": "InternalException",
    "Serialization": "SerializationException",
    "FATAL": "FatalException",
    "INTERRUPT": "InterruptException",
}
"""errors that Arrow hands on by their words alone, of which the class matters"""


class ReadServer:
    """Answers readers, from its making to `stop`."""

    def __init__(
        self, place: ReadPlace, schema: str, open_cursor: Callable[[], duckdb.DuckDBPyConnection]
    ) -> None:
        """`schema` is what a reader must take the store for; OSError where there is no way."""
        self.schema = schema
        self._place, self._open_cursor = place, open_cursor
        self._lock = threading.Condition()
        self._sessions: set[_Session] = set()
        self._open = True
        self._ends = False
        self._folder = private_folder()
        try:
            path = self._folder / "socket"
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(str(path))
            path.chmod(0o600)
            self._listener.listen(128)
            self._words = place.write(path)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._door = threading.Thread(target=self._watch, name="reads", daemon=True)
        self._door.start()

    @property
    def has_readers(self) -> bool:
        """Whether somebody is being answered."""
        return bool(self._sessions)

    def stop(self) -> None:
        """Answer nobody new; let those who are inside end, for a while, and then end them."""
        self._shut()
        if self._place.read() == self._words:
            self._place.note.unlink(missing_ok=True)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if not self._all_gone(CLOSING_SECONDS):
            self._end(CLOSED, again=True)
        self._ends = True
        self._door.join()

    @contextlib.contextmanager
    def alone(self, reason: str = NO_MEMORY) -> Iterator[None]:
        """Nobody reads meanwhile: those who do are interrupted, others wait at the door."""
        self._shut()
        try:
            self._end(reason, again=False)
            yield
        finally:
            self._open = True

    def _shut(self) -> None:
        with self._lock:  # nobody is on the threshold
            self._open = False

    def _end(self, reason: str, *, again: bool) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.end({"ended": reason, "again": again})
        if not self._all_gone(1.0):
            for session in sessions:  # whose reader does not take what it has asked for
                session.channel.hang_up()
            self._all_gone(LEAVING_SECONDS)

    def _all_gone(self, seconds: float) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: not self._sessions, seconds)

    def _watch(self) -> None:
        """Let readers in, and notice those who give up while they are being answered."""
        while not self._ends:
            with self._lock:
                busy = {one.channel.socket: one for one in self._sessions if one.busy}
                room = self._open and len(self._sessions) < MOST
            if not room and not busy:
                time.sleep(TICK)
                continue
            try:
                listened: list[Any] = [*([self._listener] if room else []), *busy]
                ready: list[Any] = wait(listened, TICK)
            except (OSError, ValueError):  # one of them was closed just now
                time.sleep(TICK)
                continue
            for one in ready:
                if one is self._listener:
                    self._let_in()
                elif busy[one].gives_up():
                    busy[one].interrupt()
            if any(one in busy for one in ready):
                time.sleep(TICK)

    def _let_in(self) -> None:
        with contextlib.suppress(OSError):
            end, _ = self._listener.accept()
            end.setblocking(True)
            session = _Session(self, Channel(end))
            with self._lock:
                if not self._open or not same_user(end):
                    session.channel.close()
                    return
                self._sessions.add(session)
            try:
                session.start()
            except RuntimeError:  # no more threads
                session.channel.close()
                self.gone(session)

    def open_cursor(self) -> duckdb.DuckDBPyConnection:
        """A way of its own into the opened store."""
        with self._lock:
            return self._open_cursor()

    def gone(self, session: "_Session") -> None:
        """A session has ended."""
        with self._lock:
            self._sessions.discard(session)
            self._lock.notify_all()


class _Session(threading.Thread):
    """One reading of the store by another process: all its questions see one state."""

    def __init__(self, server: ReadServer, channel: Channel) -> None:
        super().__init__(name="reading", daemon=True)
        self.channel = channel
        self.busy = False
        self._server = server
        self._duck: duckdb.DuckDBPyConnection | None = None
        self._ended: dict[str, Any] | None = None

    def end(self, words: dict[str, Any]) -> None:
        """Tell the reader that it is over, as soon as what it has asked is interrupted."""
        self._ended = words
        self.channel.hang_up(socket.SHUT_RD)  # who waits for a question hears of it
        self.interrupt()

    def gives_up(self) -> bool:
        """Whether the reader has hung up or asks for an end; not if it only asks the next thing,
        which it may do in the moment in which it has its answer."""
        try:
            said = self.channel.socket.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not said or INTERRUPT in said

    def interrupt(self) -> None:
        """Stop the query that runs, if any."""
        if self.busy and self._duck is not None:
            with contextlib.suppress(duckdb.Error):  # it has ended
                self._duck.interrupt()

    def run(self) -> None:
        try:
            with contextlib.closing(self._server.open_cursor()) as duck:
                self._duck = duck
                for statement in SESSION:
                    duck.execute(statement)
                self.channel.send({"schema": self._server.schema})
                while self._ended is None:
                    self._hear(duck)
        except Exception:  # noqa: BLE001, S110 - a reader has gone, or speaks nonsense: nobody's loss
            pass
        finally:
            if self._ended is not None:
                with contextlib.suppress(*GONE):
                    self.channel.send(self._ended)
            self.channel.close()
            self._server.gone(self)

    def _hear(self, duck: duckdb.DuckDBPyConnection) -> None:
        question, table = self.channel.receive()
        asked = question["ask"]
        self.busy = True
        try:
            if asked == "execute":
                self._answer(duck, question["sql"], from_json(question["parameters"]))
            elif asked == "register":
                duck.register(question["name"], table)
                self.channel.send({"done": True})
            elif asked == "unregister":
                duck.unregister(question["name"])
                self.channel.send({"done": True})
        except (duckdb.Error, pa.ArrowException) as error:
            if self._ended is None:
                self.channel.send({"error": type(error).__name__, "message": str(error)})
            if _is_broken(duck):
                self._ended = self._ended or {"ended": BROKEN, "again": False}
        finally:
            self.busy = False

    def _answer(self, duck: duckdb.DuckDBPyConnection, sql: str, parameters: Any) -> None:
        reason = why_not(duck, sql)
        if reason:
            raise duckdb.PermissionException(reason)
        reader = duck.execute(sql, parameters).to_arrow_reader(BATCH)
        empty = _numbered(pa.Table.from_batches([], reader.schema))
        self.channel.send({"names": reader.schema.names}, empty)
        for batch in _batches(reader):
            self.channel.send({}, _numbered(pa.Table.from_batches([batch])))
        self.channel.send({"done": True})


def _numbered(table: pa.Table) -> pa.Table:
    """With names that are not there twice, as a query's may be."""
    return table.rename_columns([f"c{number}" for number in range(table.num_columns)])


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Its batches; errors amid them as DuckDB's own."""
    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        found = _ERROR_WORDS.match(str(error))
        name = _STREAMED.get(found[1], "Error") if found else "Error"
        raise getattr(duckdb, name)(str(error)) from None


def _is_broken(duck: duckdb.DuckDBPyConnection) -> bool:
    """Whether an error has ended the transaction, and the state that it saw with it."""
    try:
        duck.execute("SELECT 1")
    except duckdb.Error:
        return True
    return False
