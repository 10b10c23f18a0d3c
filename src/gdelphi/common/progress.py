"""How long work tells whoever watches where it stands.

A stage takes a callback (`OnStep`), or an object with a method for each kind of event, whose
protocol stands beside the stage. Where nobody watches, `SILENT` takes the place of any of them.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final

OnStep = Callable[[str], None]
"""called with a few words when a stage begins"""


def silent(*_: object) -> None:
    """Nobody watches."""


class Silent:
    """Has every method that is asked for; none does anything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):  # what copying and pickling look for
            raise AttributeError(name)
        return silent


SILENT: Final[Any] = Silent()


QUIET_SECONDS: Final = 2.0  # work that is shorter needs no words


def announce(what: str) -> Callable[[int, int], None]:
    """For work that no caller asked for, such as bringing an older store up to date: a line on the
    error stream now and then, once it takes long. Call what is returned with done and total."""
    began = said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= QUIET_SECONDS:
            said = now
            percent = f"{done / max(total, 1):.0%}"
            sys.stderr.write(f"... {what}: {percent} after {now - began:.0f} s\n")
            sys.stderr.flush()

    return tell
