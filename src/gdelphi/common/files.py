"""A folder for one process at a time.

By a lock on the file `.lock` in it, which the system releases when a process dies, whatever killed
it. Not chosen: a file that is there or not, which a killed process leaves behind.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdelphi.common.errors import GdelphiError


@contextmanager
def alone(folder: Path, otherwise: GdelphiError | None = None) -> Iterator[None]:
    """Nobody else is in the folder meanwhile; another who is, is waited for, unless there is an
    error to raise."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if otherwise else 0))
        except BlockingIOError:
            assert otherwise is not None  # noqa: S101 - else it would have been waited for
            raise otherwise from None
        yield
