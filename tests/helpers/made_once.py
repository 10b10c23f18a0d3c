"""What many tests need is made by one of the processes that run them."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def make_once(
    base: Path, name: str, make: Callable[[Path], object], *, copied: bool = True
) -> Path:
    """A folder below `base`, the temporary folder of this process. Whichever process comes first
    makes it; the others wait, and have a copy of their own, or all the same one."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        make(base / name)
        return base / name
    made = base.parent / name
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            part = made.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)  # of a test that failed
            make(part)
            part.rename(made)
    return Path(shutil.copytree(made, base / name, symlinks=True)) if copied else made
