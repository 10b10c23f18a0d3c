"""Files that grow by lines: several processes may add to one, and one that is killed may cut a line
off. The system keeps apart what is appended in one call."""

import os
from pathlib import Path


def append_line(path: Path, line: str, *, sync: bool = True) -> None:
    """Add a line, or several, in one call; with `sync` it is on the disk when this returns.

    After a line that was cut off it begins anew, so that the two do not become one.
    """
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        cut = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
        file.write(("\n" * cut + line + "\n").encode())
        if sync:
            os.fsync(file.fileno())
