"""Whose fault an error is: that of the file at hand, or that of the system.

What goes wrong with one file is reported by its name, and the run goes on with the others. A disk
that is full or read-only, and memory or file handles that are used up, would spoil every file in
turn and say nothing about any: such an error ends the run.
"""

import errno
from collections.abc import Mapping
from types import MappingProxyType

from gdelphi.common.errors import GdelphiError, SystemExhausted

LONGEST = 300  # characters of a message
NO_MEMORY = "the memory is used up"
TOO_MANY_OPEN = "too many files are open"
ENDS_A_RUN: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.ENOMEM: NO_MEMORY,
        errno.EMFILE: TOO_MANY_OPEN,
        errno.ENFILE: TOO_MANY_OPEN,
    }
)


def raise_if_exhausted(error: BaseException, name: str) -> None:
    """Raise SystemExhausted where the system is at fault, and not the file of this name.

    Libraries wrap the system's errors, so what lies behind an error is looked at as well; but not
    behind our own, whose raiser has judged it.
    """
    if isinstance(error, SystemExhausted):
        raise error
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, GdelphiError):
        reason = _system_reason(cause)
        if reason is not None:
            raise SystemExhausted(
                f"{reason}, met at {name}. Mend this and ingest again: what is loaded stays"
            ) from error
        cause = cause.__cause__ or cause.__context__


def _system_reason(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, OSError) and error.errno is not None:
        reason = ENDS_A_RUN.get(error.errno)
        place = f" ({error.filename})" if reason and error.filename else ""
        return reason and reason + place
    return None


def describe_error(error: BaseException) -> str:
    """An error in one short line; its message may repeat what stands in a damaged file."""
    words = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror
    if len(words) > LONGEST:
        words = words[:LONGEST] + "..."
    return words or type(error).__name__
