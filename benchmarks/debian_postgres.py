"""A PostgreSQL of one's own from the programs that a Linux distribution installs, for a while.

Prefect's database needs the extension pg_trgm, which the server of `local_postgres.py` does not
have. PostgreSQL refuses to run as root: started by root, it runs as the user postgres, which its
package makes. It listens on a socket in its folder only, and that folder is its owner's alone.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

USER = "postgres"
WHERE = Path("/usr/lib/postgresql")
INSTALL = "apt-get install --no-install-recommends postgresql"


def find_programs() -> Path | None:
    """The folder of the newest PostgreSQL that is installed here."""
    named = shutil.which("pg_ctl")
    found = [Path(named).parent] if named else []
    found += sorted(WHERE.glob("*/bin"), key=lambda path: float(path.parent.name))
    return found[-1] if found else None


class DebianPostgres:
    """A server with one database and one user."""

    def __init__(self, name: str) -> None:
        programs = find_programs()
        if programs is None:
            raise SystemExit(f"no PostgreSQL in {WHERE}, and no pg_ctl: {INSTALL}")
        self._programs, self.name = programs, name
        self._as = USER if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="gdelphi-postgres-"))
        if self._as:
            shutil.chown(self.folder, self._as)
        self.folder.chmod(0o711)  # who knows the name of the socket may ask
        self._run("initdb", "--auth=trust", "-D", "data", "--username=prefect", "--no-sync")
        options = f"-c listen_addresses= -c fsync=off -k {self.folder}"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")
        self._run("createdb", "-h", str(self.folder), "-U", "prefect", name)

    @property
    def version(self) -> str:
        return self._run("postgres", "--version").strip()

    @property
    def url(self) -> str:
        """The database as SQLAlchemy names it."""
        return f"postgresql+asyncpg://prefect@/{self.name}?host={self.folder}"

    def rows(self, query: str) -> list[list[str]]:
        """The rows of a query, as text."""
        words = ["-h", str(self.folder), "-U", "prefect", "-At", "-F", "\t", "-c", query, self.name]
        return [line.split("\t") for line in self._run("psql", *words).splitlines()]

    def remove(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *words: str) -> str:
        # Into a file: a server that is started keeps what it was given as its output open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                [self._programs / program, *words], cwd=self.folder, user=self._as, text=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            said.seek(0)
            text = said.read()
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(words)}: {text}")
        return text
