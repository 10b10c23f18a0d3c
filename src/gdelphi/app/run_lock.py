"""Turns: one run at a time works on a store, and a run that did not end is noticed.

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
from gdelphi.common.settings import Settings

PAUSE: Final = 0.5  # seconds between two looks at the lock

OnMessage = Callable[[str], None]


def _silent(_: str) -> None: ...


def lock_file(settings: Settings) -> Path:
    """Whose turn it is."""
    return settings.store.with_name(settings.store.name + ".run")


@contextmanager
def run_lock(
    settings: Settings,
    what: str,
    *,
    on_wait: OnMessage = _silent,
    on_unended: OnMessage = _silent,
) -> Iterator[None]:
    """Work on the store while no other run does; tells of one that never ended."""
    path = lock_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        _wait(file, settings, on_wait)
        if left := _read(file):
            on_unended(_unended(left))
        _write(file, f"{what}, process {os.getpid()}, since {_now()}")
        try:
            yield
        finally:  # a run that fails has ended too, and tells of it in its own way
            _write(file, "")


def take_unended(settings: Settings) -> str | None:
    """A run that did not end, in words, and forget it; None if all is well or one is at work."""
    path = lock_file(settings)
    if not path.exists():
        return None
    with path.open("a+", encoding="utf-8") as file:
        if not _locked(file):
            return None
        left = _read(file)
        _write(file, "")
    return _unended(left) if left else None


def _wait(file: IO[str], settings: Settings, on_wait: OnMessage) -> None:
    limit = time.monotonic() + settings.flows.timeout_hours * 3600
    told = False
    while not _locked(file):
        if not told:
            on_wait(f"waiting for another run: {_read(file) or 'it has just begun'}")
            told = True
        if time.monotonic() > limit:
            raise RunLockError(
                f"another run still works on {settings.store} ({_read(file)}): end it, or raise "
                "flows.timeout_hours"
            )
        time.sleep(PAUSE)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> str:
    file.seek(0)
    try:
        said = json.loads(file.read() or "{}")
        return str(said.get("run", ""))
    except (ValueError, AttributeError):
        return "a run whose name cannot be read"


def _write(file: IO[str], run: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"run": run}) + "\n" if run else "")
    file.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _unended(run: str) -> str:
    return (
        f"a run did not end ({run}): it was killed, or the machine stopped. What it had done is "
        "kept, and the next run goes on from there"
    )
