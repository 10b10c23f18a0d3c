"""The store open for many threads of one process, without keeping a writer out.

DuckDB lets a writing process in only when no reading one has the store. Threads that read one after
the other would overlap for ever, and an ingestion would wait until it gives up. So who comes while
another process waits lets those who have the file finish, and gives the writer the time to get in.
Once it is in, it answers readers, who are in nobody's way then. Only one thread opens the store at
a time, so that whoever else is waiting is known to be another process.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Condition, Lock
from typing import Final

from gdelphi.common.settings import Settings
from gdelphi.store.connection import Connection, Store
from gdelphi.store.database_file import POLL_SECONDS

STAND_ASIDE: Final = 10 * POLL_SECONDS
"""seconds that a waiting writer is given to get in; it looks every POLL_SECONDS"""


class SharedReading:
    """Opens a store for threads that read."""

    def __init__(self, settings: Settings, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = Store(settings)
        self._door = Lock()
        self._inside = Condition()
        self._readers = 0
        self._pause = pause

    def state(self) -> object:
        """Differs whenever the store's content does."""
        return self._store.place.state()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The store, open for reading; briefly."""
        with self._door:
            if self._is_wanted():
                self._stand_aside()
            opened = ExitStack()
            connection = opened.enter_context(self._store.reading())
            in_the_way = not connection.is_answered
            with self._inside:
                self._readers += in_the_way
        try:
            yield connection
        finally:
            opened.close()
            with self._inside:
                self._readers -= in_the_way
                self._inside.notify_all()

    def _is_wanted(self) -> bool:
        """Whether another process waits for a store that those who read keep it out of."""
        store = self._store
        if not store.place.takes_turns or not store.exists() or store.is_served():
            return False
        return store.someone_waits()

    def _stand_aside(self) -> None:
        """Wait for this process to be out of the store, and then a moment."""
        with self._inside:
            self._inside.wait_for(lambda: self._readers == 0)
        waited = 0.0
        while waited < STAND_ASIDE and self._store.someone_waits():
            self._pause(POLL_SECONDS)
            waited += POLL_SECONDS
