"""Files that are whole or not there: atomic writes, digests, a folder for one process at a time.

A file is written under a hidden name of this process beside its place and then moved there, so a
reader sees the old file or the new one, and a killed process leaves nothing but `.NAME.PID.part`.
A folder goes the same way back: it gets such a name, and then its files are deleted one by one.

A folder is locked by the file `.lock` in it, which the system releases when a process dies, however
it died. Not chosen: a file that is there or not, which a killed process leaves behind.

The checksum of a file is noted before it takes its place (`checksums.py`).
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from gdelphi.common.checksums import file_digest, note_file
from gdelphi.common.errors import GdelphiError

__all__ = [
    "DIGEST_LENGTH", "alone", "atomic_write", "file_digest", "is_alive", "is_left_over",
    "remove_folder", "remove_left_over", "text_digest", "weights_digest",
    "write_json_atomically", "write_text_atomically",
]  # fmt: skip

DIGEST_LENGTH: Final = 16  # hexadecimal digits that fingerprints are shortened to


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path to write a file or a folder at; it takes its place when the block ends without error.

    A folder takes only a place where none is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    _remove(part)  # of an earlier process with this number
    try:
        yield part
        note_file(path, part)
        part.replace(path)
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder, if it is there, so that nobody ever sees half of it."""
    part = path.with_name(f".{path.name}.old.{os.getpid()}.part")
    _remove(part)
    with suppress(FileNotFoundError):  # not there, or another process was faster
        path.rename(part)
        shutil.rmtree(part)


def remove_left_over(folder: Path) -> None:
    """Remove what killed processes have left in a folder, half written or half removed."""
    for path in folder.glob(".*.part"):
        if is_left_over(path):
            with suppress(FileNotFoundError):  # another process was faster
                _remove(path)


def is_left_over(path: Path) -> bool:
    """Whether it was left half done by a process that lives no more."""
    *_, pid, end = path.name.rsplit(".", 2)
    return end == "part" and pid.isdecimal() and not is_alive(int(pid))


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file as a whole."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json_atomically(path: Path, content: Any, *, indent: int | None = 2) -> None:
    """Write a JSON file as a whole, with a line break at its end."""
    write_text_atomically(path, json.dumps(content, indent=indent) + "\n")


def text_digest(text: str) -> str:
    """Fingerprint of a text: the first digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def weights_digest(folder: Path) -> str:
    """Fingerprint of the weights in a model's folder: what was fitted to others does not fit."""
    return file_digest(folder / "model.safetensors")[:DIGEST_LENGTH]


@contextmanager
def alone(folder: Path, otherwise: GdelphiError | None = None) -> Iterator[None]:
    """No other process is in the folder during the block. One that is there already is waited for,
    or, if an error is given, that is raised."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if otherwise else 0))
        except BlockingIOError:
            assert otherwise is not None  # noqa: S101 - else it would have been waited for
            raise otherwise from None
        yield


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs: what it has left half done is not to be touched."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
