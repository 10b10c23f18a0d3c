"""A file of texts and their vectors, in which every text stands once.

SQLite from the standard library: a chunk of texts is one transaction, so a process that is killed
at any moment leaves whole chunks behind. The DuckDB store would be the obvious place, but it lets
one writing process in and nobody beside it, while encoding takes hours.

Chosen by measuring 200,000 texts of 384 numbers: an ordinary table with an index on the text. A
table that is its own index (WITHOUT ROWID) is twice as large and answers three times slower, since
its long rows crowd the index. Pages of 16 KiB, because in pages of 4 KiB a fifth lies idle.

The rollback journal and not the write-ahead log: writers take turns by a lock of their own (see
`VectorFile.turn`) and readers wait milliseconds for a commit. So there is one file to copy, and it
can be read where nothing can be written.
"""

import contextlib
import fcntl
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import CacheError
from gdelphi.common.types import BoolArray, VectorArray
from gdelphi.store.seal import break_seal, seal

FORMAT = "1"
PAGE_BYTES = 16384
BUSY_SECONDS = 60.0  # a commit takes milliseconds: this is for disks that hang
ASKED_AT_ONCE = 500  # texts in one query
STORED = np.dtype("<f4")
WORD = np.dtype("<u4")


@dataclass(frozen=True)
class VectorFile:
    """The vectors of one encoder. Connections are short, so any thread or process may use it."""

    path: Path
    encoder: str
    revision: str
    dimension: int

    def read(self, texts: Sequence[str], into: VectorArray) -> BoolArray:
        """Fill the rows of those texts that are here, [text, dimension]; say which they are."""
        known = np.zeros(len(texts), dtype=np.bool_)
        for start, part, rows in self._answers("text, vector", texts):
            vectors: dict[str, bytes] = dict(rows)
            here = [number for number, text in enumerate(part) if text in vectors]
            content = b"".join(vectors[part[number]] for number in here)
            places = start + np.array(here, dtype=np.int64)
            into[places] = self._unpacked(content, len(here))
            known[places] = True
        return known

    def known(self, texts: Sequence[str]) -> BoolArray:
        """Whether each text is here."""
        known = np.zeros(len(texts), dtype=np.bool_)
        for start, part, rows in self._answers("text", texts):
            found = {text for (text,) in rows}
            known[start : start + len(part)] = [text in found for text in part]
        return known

    def size(self) -> int:
        """Number of texts."""
        with self._open() as connection:
            if connection is None:
                return 0
            count: int = connection.execute("SELECT count(*) FROM texts").fetchone()[0]
            return count

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process has its turn, then have it.

        Who looks, encodes and adds in one turn encodes nothing that another process encodes too.
        The system ends the turn of a process that dies.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_name(self.path.name + ".lock").open("ab")
        except OSError as error:
            raise CacheError(
                f"new texts cannot be kept in {self.path}: {error.strerror}. Make its folder "
                "writable, or set embed.cache to another one"
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def add(self, texts: Sequence[str], vectors: VectorArray) -> None:
        """Put texts in, all or none. To be called in a turn, for texts that are not here."""
        blobs = [row.tobytes() for row in _packed(vectors)]
        break_seal(self.path)
        with self._explained(), contextlib.closing(self._connect("rwc")) as connection:
            if not _tables(connection):
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            with _transaction(connection):
                if not _tables(connection):
                    self._make_tables(connection)
                self._check(connection)
                rows = zip(texts, blobs, strict=True)
                connection.executemany("INSERT INTO texts (text, vector) VALUES (?, ?)", rows)

    def seal(self) -> None:
        """Leave a checksum of the whole file, once all has been put in: `gdelphi verify` reads it.

        What is read of a file without one is still held against its check words.
        """
        with self.turn():
            seal(self.path)

    def _unpacked(self, content: bytes, count: int) -> VectorArray:
        words = np.frombuffer(content, dtype=WORD)
        if words.size != count * (self.dimension + 1):
            raise CacheError(self._remedy("it holds vectors of a wrong length"))
        words = words.reshape(count, self.dimension + 1)
        if not np.array_equal(_check_words(words[:, :-1]), words[:, -1]):
            raise CacheError(self._remedy("it holds vectors that were changed"))
        return words[:, :-1].view(STORED)

    def _identity(self) -> Mapping[str, str]:
        return {
            "format": FORMAT,
            "encoder": self.encoder,
            "revision": self.revision,
            "dimension": str(self.dimension),
        }

    def _answers(
        self, columns: str, texts: Sequence[str]
    ) -> Iterator[tuple[int, Sequence[str], list[Any]]]:
        """Part by part: its start, its texts, the rows of those that are here."""
        with self._open() as connection:
            if connection is None:
                return
            for start in range(0, len(texts), ASKED_AT_ONCE):
                part = texts[start : start + ASKED_AT_ONCE]
                marks = ", ".join("?" * len(part))
                query = f"SELECT {columns} FROM texts WHERE text IN ({marks})"
                yield start, part, connection.execute(query, part).fetchall()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        """For reading; None if nothing was ever put in. Nothing is made."""
        if not self.path.exists():
            yield None
            return
        # "rw" falls back to reading where the file is write-protected; "ro" could not undo a
        # transaction that a killed process left half done.
        with self._explained(), contextlib.closing(self._connect("rw")) as connection:
            if not _tables(connection):  # killed while it was made
                yield None
                return
            self._check(connection)
            yield connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", self._identity().items())
        connection.execute(
            "CREATE TABLE texts (text TEXT PRIMARY KEY NOT NULL, vector BLOB NOT NULL "
            f"CHECK (length(vector) = {WORD.itemsize * (self.dimension + 1)}))"
        )

    def _check(self, connection: sqlite3.Connection) -> None:
        if not _tables(connection) >= {"meta", "texts"}:
            raise CacheError(self._remedy("it is a database of something else"))
        found = dict(connection.execute("SELECT key, value FROM meta"))
        for key, value in self._identity().items():
            if found.get(key) != value:
                raise CacheError(self._remedy(f"its {key} is {found.get(key)}, not {value}"))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, out of reach: not damaged
            raise CacheError(
                f"embedding cache {self.path}: {error}. If it is damaged, delete it: it is made "
                "again"
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CacheError(self._remedy(str(error))) from error

    def _remedy(self, problem: str) -> str:
        return (
            f"{self.path} is no sound embedding cache of this encoder: {problem}. Delete it or "
            "move it away; it is made again, and its texts are encoded again"
        )


def check_texts(texts: Sequence[str]) -> None:
    """Refuse lone surrogates. They are no text: SQLite does not take them, nor do tokenizers."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 20) : error.end + 20]
        raise CacheError(f"a text holds half a character (a lone surrogate): {around!r}") from None


def _packed(vectors: VectorArray) -> npt.NDArray[np.uint32]:
    """A row's numbers and its check word: SQLite itself does not notice a changed bit."""
    words = np.ascontiguousarray(vectors, dtype=STORED).view(WORD)
    return np.column_stack([words, _check_words(words)]).astype(WORD, copy=False)


def _check_words(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The inverted sum, so that zeros do not confirm themselves."""
    total: npt.NDArray[np.uint32] = ~words.sum(axis=1, dtype=np.uint32)
    return total


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
