"""The run lock: one run at a time works on a store, and a run that did not end is noticed.

A lock on a file beside the store (`<store>.run`) is held while a run works, and the file says which
run that is. The system lets go of the lock when a process dies, whatever killed it, but what the
file says stays: whoever comes next finds a run that never said that it ended. Chosen over a limit
kept by a Prefect server: a killed run would hold its place there until a lease runs out, and the
command line would know nothing of it. Machines that share a store need that limit beside it.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from gdelphi.common.errors import RunLockError
from gdelphi.common.progress import silent
from gdelphi.common.settings import Settings

PAUSE: Final = 0.5  # seconds between two tries to take the lock

OnMessage = Callable[[str], None]


def lock_file(settings: Settings) -> Path:
    """The file beside the store that is locked, and that names the run that holds it."""
    return settings.store.with_name(settings.store.name + ".run")


@contextmanager
def run_lock(
    settings: Settings,
    what: str,
    *,
    on_wait: OnMessage = silent,
    on_unended: OnMessage = silent,
) -> Iterator[None]:
    """Hold the lock while a block runs; messages tell of waiting, and of a run that never ended."""
    path = lock_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        _wait(file, settings, on_wait)
        if unended := _read(file):
            on_unended(_unended(unended))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(file, f"{what}, process {os.getpid()}, since {now}")
        try:
            yield
        finally:  # a run that fails has ended too, and tells of it in its own way
            _write(file, "")


def take_unended(settings: Settings) -> str | None:
    """A message about a run that did not end, once; None if all is well or a run is at work."""
    path = lock_file(settings)
    if not path.exists():
        return None
    with path.open("a+", encoding="utf-8") as file:
        if not _try_lock(file):
            return None
        unended = _read(file)
        _write(file, "")
    return _unended(unended) if unended else None


def _wait(file: IO[str], settings: Settings, on_wait: OnMessage) -> None:
    limit = time.monotonic() + settings.flows.timeout_hours * 3600
    told = False
    while not _try_lock(file):
        if not told:
            on_wait(f"waiting for another run: {_read(file) or 'it has just begun'}")
            told = True
        if time.monotonic() > limit:
            raise RunLockError(
                f"another run still works on {settings.store} ({_read(file)}): end it, or raise "
                "flows.timeout_hours"
            )
        time.sleep(PAUSE)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> str:
    """The run that the file names; nothing if the last one has ended."""
    file.seek(0)
    try:
        content = json.loads(file.read() or "{}")
        return str(content.get("run", ""))
    except (ValueError, AttributeError):
        return "a run whose name cannot be read"


def _write(file: IO[str], run: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"run": run}) + "\n" if run else "")
    file.flush()


def _unended(run: str) -> str:
    return (
        f"a run did not end ({run}): it was killed, or the machine stopped. What it had done is "
        "kept, and the next run goes on from there"
    )
