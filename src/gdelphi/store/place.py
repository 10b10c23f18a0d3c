"""What a store must be able to do wherever it lies: the face of `DatabaseFile` and `Lake`.

`Connection` and `Store` (connection.py) know nothing else about where rows are kept. A place does
not import DuckDB: it is handed what runs a statement, and says which statements are to be run.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from gdelphi.store.read_place import ReadPlace
from gdelphi.store.sums import RunSql


class StorePlace(Protocol):
    """Where a store lies, and the ways in."""

    @property
    def path(self) -> Path:
        """The file, or the folder of the data; what belongs to the store lies beside it."""

    @property
    def scratch(self) -> Path:
        """A folder of this machine for unpacked texts."""

    @property
    def name(self) -> str:
        """What messages call the store; without passwords."""

    @property
    def takes_turns(self) -> bool:
        """Whether readers wait for a writer, and a writer for readers."""

    @property
    def reads(self) -> ReadPlace | None:
        """Where a writer says that it answers readers; None: nobody does."""

    def exists(self) -> bool:
        """Whether a store is there."""

    def database(self) -> str:
        """What DuckDB is to open."""

    def config(self, *, read_only: bool, shut_off: bool) -> dict[str, Any]:
        """DuckDB's settings for an opening; one that is shut off sees no other files."""

    def enter(self, run: RunSql, *, read_only: bool) -> None:
        """What is to be done with a fresh connection."""

    def attach(self, run: RunSql, name: str) -> None:
        """Let a connection to another store read this one, under a name."""

    def begin(self) -> Iterator[str]:
        """Statements for one more connection to what was entered."""

    def identity(self) -> object:
        """Equal for places of which one opening serves all readers."""

    def writing(self) -> AbstractContextManager[None]:
        """Around everything that writes: ready before, left in order after."""

    def before_commit(self) -> None:
        """Raise StoreLost if nothing may be committed now."""

    def lost(self) -> str | None:
        """Of a writer: why he has lost the right to write, if so."""

    def regain(self) -> None:
        """With the store closed: take the right to write again."""

    def is_busy(self, error: str) -> bool:
        """Whether an opening failed because another process has the store."""

    def is_in_use(self, error: str) -> bool:
        """Whether the store could not be compacted because of those who read."""

    def waiting(self) -> AbstractContextManager[None]:
        """While this process waits, others may know."""

    def someone_waits(self) -> bool:
        """Whether another process waits for this store."""

    def stand_aside(self) -> None:
        """With the store closed: let those in who wait."""

    def who_holds(self, error: str) -> str:
        """Of an error that `is_busy`: the message for the user."""

    def explain(self, words: str, *, damage: bool) -> str:
        """DuckDB's words on a statement that failed, as a message for the user."""

    def dialect(self, statement: str) -> Iterator[str]:
        """A statement of the schema as it is run here; none if there is no such thing here."""

    def state(self) -> object:
        """Differs whenever the content does; cheap."""

    def made(self, run: RunSql) -> tuple[str | None, str | None]:
        """The format that the store is in, and what made it."""

    def snapshot(self, run: RunSql) -> int | None:
        """The number of the state that a connection reads, where states have one."""

    def snapshot_time(self, run: RunSql) -> datetime | None:
        """When that state was committed."""

    def compact(self, run: RunSql) -> None:
        """Merge what small transactions have left."""
