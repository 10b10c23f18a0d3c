"""Who may talk to the Prefect server: whoever can read one file, and nobody else.

Left to itself the server asks for no password and lets every web page read its answers, and whoever
talks to it can have commands run. So a password is made anew whenever a server is started. Our own
processes get it as a variable, never as an argument, which all users of a machine can see; people
find it in a file that only its owner can read. That file is locked while a server is looked after:
another process that wants to talk to it knows by the lock that the password is in force.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from gdelphi.common.errors import AccessError

USER: Final = "gdelphi"
SOCKETS: Final = Path("/proc/net/tcp")
LISTENING: Final = "0A"  # as the system writes it there
LOCK_TRIES: Final = 10  # somebody who only looks holds the lock for a moment
LOCK_SECONDS: Final = 0.1


def auth_file(home: Path) -> Path:
    """Where the user and password of the server in a folder of Prefect can be read."""
    return home / "auth"


def new_secret() -> str:
    """A user and a password, as Prefect wants them."""
    return f"{USER}:{secrets.token_urlsafe(32)}"


def protection(secret: str, origin: str) -> dict[str, str]:
    """Variables of a server that knows a secret, and of all who talk to it.

    The names are those that Prefect looks at first: others that are set change nothing.
    """
    return {
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_API_AUTH_STRING": secret,
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origin,
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "true",
    }


def make_private(home: Path) -> None:
    """A folder that is closed to others: its database holds what is run, too."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as error:
        raise AccessError(f"{home} cannot be closed to others: {error.strerror}") from None


@contextmanager
def guarded(home: Path) -> Iterator[str]:
    """A new secret, to be read in the file of a folder until the end; one server at a time."""
    make_private(home)
    path = auth_file(home)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise AccessError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        _lock(file, home)
        secret = new_secret()
        _write(file, f"{secret}\n")
        try:
            yield secret
        finally:
            _write(file, "")


def _lock(file: IO[str], home: Path) -> None:
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_SECONDS)
        else:
            return
    raise AccessError(f"another `gdelphi serve` is at work, with its files in {home}")


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def secret_in_force(home: Path) -> str | None:
    """What the file says, while somebody guards it."""
    path = auth_file(home)
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AccessError(f"{path} cannot be read: {error.strerror}") from None
    return None


def listened_to_by(port: int, users: Collection[int]) -> bool:
    """Whether nobody but some users listens to a port: what answers there may be a stranger's.

    Where the system does not tell (it does on Linux), it is taken to be so.
    """
    try:
        rows = [line.split() for line in SOCKETS.read_text().splitlines()[1:]]
    except OSError:
        return True
    wanted = f":{port:04X}"
    return all(
        int(row[7]) in users for row in rows if row[1].endswith(wanted) and row[3] == LISTENING
    )
