"""How long work tells whoever watches where it stands.

A stage takes a callback (`OnStep`), or an object with a method for each kind of event, whose
protocol stands beside the stage. Where nobody watches, `SILENT` takes the place of any of them.
"""

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
