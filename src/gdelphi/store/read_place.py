"""Where readers of a store in a file find the writer that answers them.

A socket in a folder of the machine's temporary files that only its user can open, since the name of
a socket may not be long; beside the store a file that says where it is. What a killed writer leaves
of both leads nowhere. The folder's mode keeps other users out, and both sides ask the system, where
it can be asked, whose process the other one is.
"""

import json
import os
import shutil
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from gdelphi.common.files import is_alive
from gdelphi.store.read_wire import Channel

TICK: Final = 0.05  # seconds that a full queue is waited for
LONGEST_PATH: Final = 100  # bytes of a socket's name; systems take 104 to 108
FOLDER: Final = "gdelphi-reads-"
HAS_SOCKETS: Final = hasattr(socket, "AF_UNIX")


def private_folder() -> Path:
    """A new folder for a socket, which nobody else can look into."""
    if not HAS_SOCKETS:
        raise OSError("no sockets of the machine's own on this platform")
    place = tempfile.gettempdir()
    if len(place) + len(FOLDER) + 30 > LONGEST_PATH:
        place = "/tmp"  # noqa: S108 - the folder made in it is private
    for left in Path(place).glob(f"{FOLDER}*"):  # by writers that were killed
        pid = left.name.removeprefix(FOLDER).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and _is_ours(left):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=place))


class ReadPlace(NamedTuple):
    """Where readers of a store learn whether its writer answers, and where."""

    store: Path
    note: Path

    def write(self, path: Path) -> dict[str, Any]:
        """Say where the socket is; returns what is written."""
        words = {"pid": os.getpid(), "socket": str(path), "store": self._mark()}
        part = self.note.with_name(f".{self.note.name}.part")
        part.write_text(json.dumps(words), encoding="utf-8")
        part.replace(self.note)
        return words

    def read(self) -> dict[str, Any] | None:
        """What a writer of this very file, not of one that it was copied from, has said."""
        try:
            words = json.loads(self.note.read_text(encoding="utf-8"))
            sound = isinstance(words["socket"], str) and isinstance(words["pid"], int)
            return words if sound and words["store"] == self._mark() else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def is_served(self) -> bool:
        """Whether a writer answers, as far as its note and its process say."""
        words = self.read()
        return words is not None and is_alive(words["pid"])

    def call(self) -> Channel | None:
        """The door of the writer that answers; None if nobody opens it to us."""
        words = self.read() if HAS_SOCKETS else None
        if words is None or not _is_ours(Path(words["socket"]).parent):
            return None
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.settimeout(TICK)  # if even the queue is full
            end.connect(words["socket"])
            end.settimeout(None)
            if same_user(end):
                return Channel(end)
        except OSError:
            pass
        end.close()
        return None

    def _mark(self) -> list[int]:
        found = self.store.stat()
        return [found.st_dev, found.st_ino]


def _is_ours(folder: Path) -> bool:
    """Whether a folder was made by us, for us alone."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o77


def same_user(end: socket.socket) -> bool:
    """Whether the other side is a process of the same user; the folder's mode says so already, and
    here the system does, where it can be asked."""
    if not sys.platform.startswith("linux"):
        return True
    found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.geteuid())
