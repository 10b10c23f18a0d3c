"""A process that is looked after, in a session of its own with all that it starts.

Its group is what is ended, not the process alone: whatever it has started goes with it. Should the
process that looks after it be killed, the system ends it too (Linux only).
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

GRACE_SECONDS: Final = 20.0  # between asking a process to end and ending it
LOOK_SECONDS: Final = 0.1
PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
LONGEST_LOG: Final = 10_000_000  # bytes; a longer one is begun anew


class Child:
    """A command that runs until it is stopped."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None = None,
    ) -> None:
        self.name, self.log = name, log
        self._command, self._environment = list(command), dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self.since = 0.0

    def start(self) -> None:
        """Start it; its output goes to the log, or where ours goes."""
        with self._output() as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT if self.log else None, start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )  # fmt: skip
        self.since = time.monotonic()

    def _output(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        if self.log is None:
            return contextlib.nullcontext()
        fresh = not self.log.exists() or self.log.stat().st_size > LONGEST_LOG
        return self.log.open("wb" if fresh else "ab")

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def ended(self) -> int | None:
        """Its exit code, if it has ended."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """End it and all that it has started; the second signal cannot be refused."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self._signal(sign):
                return
            limit = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < limit and self._members():
                time.sleep(LOOK_SECONDS)

    def _signal(self, sign: signal.Signals) -> bool:
        """Send it to the group; false if nobody is left there."""
        if not self._process or not self._members():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, sign)
        return True

    def _members(self) -> bool:
        """Whether a process of the group lives; one that has ended and waits to be noticed by
        another process is no longer ours to end."""
        process = self._process
        if process is None or process.poll() is None:
            return process is not None
        if not Path("/proc/self/stat").exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 0)
                return True
            return False
        return any(_group_of(path) == process.pid for path in Path("/proc").glob("[0-9]*/stat"))


def _group_of(stat: Path) -> int | None:
    """The process group that a line of /proc tells; None for one that has ended."""
    try:
        state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return int(group) if state not in "ZX" else None


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
