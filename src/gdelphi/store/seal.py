"""A checksum of a whole database, beside it: `<store>.sha256`.

DuckDB has a checksum in every block and looks at it when the block is read. It does not read what
is not in use, so a file may be damaged in places that will matter only after the next write. So
whoever has written leaves a checksum of the file, and takes away the one before when he begins: a
store without one was being written when its process was killed, or is larger than LARGEST, for
which reading it all after every run would take too long. Then the blocks alone speak. The file of
encoded texts (SQLite, which checks nothing) has such a checksum too.
"""

from pathlib import Path
from typing import Final, Literal

from gdelphi.common.checksums import file_digest

LARGEST: Final = 256 << 20  # bytes: a fifth of a second
SealState = Literal["sound", "damaged", "none"]


def seal_path(store: Path) -> Path:
    """Where the checksum of a store lies."""
    return store.with_name(store.name + ".sha256")


def break_seal(store: Path) -> None:
    """To be called by whoever is about to write."""
    seal_path(store).unlink(missing_ok=True)


def seal(store: Path) -> None:
    """To be called by whoever has written, when the store is closed."""
    wal = store.with_name(store.name + ".wal")
    try:
        before = store.stat()
        if before.st_size > LARGEST or wal.exists():
            return
        digest = file_digest(store)
        after = store.stat()
    except OSError:
        return  # moved away, or out of reach: then it has no seal
    if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
        path = seal_path(store)
        part = path.with_name(f".{path.name}.part")
        part.write_text(f"{digest}\n", encoding="utf-8")
        part.replace(path)


def seal_state(store: Path) -> SealState:
    """Whether a store is as whoever wrote last has left it; none: nobody can tell."""
    try:
        noted = seal_path(store).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "none"
    return "sound" if f"{file_digest(store)}\n" == noted else "damaged"
