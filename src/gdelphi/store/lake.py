"""A store in a lake: rows in Parquet files, their catalog in PostgreSQL (DuckLake).

Any number of processes on any number of machines read it while one writes: a reader sees the last
commit before it began, and waits for nobody. The schema is that of the file store, its statements
differ where DuckLake does (`Lake.dialect`): it has no sequences, no comments on columns of views,
and keeps whole numbers beyond 64 bits exactly only as decimals. Events are partitioned by the month
of their news day and sorted by day and stream. Every row goes into a file: DuckLake could keep a
few in the catalog, but then, as of 1.0, merging files spoils what past states show.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gdelphi.common.errors import StoreError, StoreLost
from gdelphi.common.settings import LAKE, Settings
from gdelphi.store.postgres import Catalog, WriterLock
from gdelphi.store.schema import quoted
from gdelphi.store.sums import RunSql

MEMORY: Final = ":memory:"
DATABASE: Final = "store"  # what the lake is called inside DuckDB
EXTENSIONS: Final = ("postgres_scanner", "ducklake")
_OUT_OF_REACH: Final = "onnect(ion)? to (the )?(Postgres|server)|server closed|terminating conn"
"""in DuckDB's words on a catalog that does not answer; a path may have any word in it"""
LAID_OUT: Final = (
    "ALTER TABLE events SET PARTITIONED BY (year(NewsDay), month(NewsDay))",
    "ALTER TABLE events SET SORTED BY (NewsDay ASC, ActionGeo_CountryCode ASC)",
)


class Lake:
    """The place of a store whose catalog is in PostgreSQL."""

    takes_turns: Final = False
    reads: Final = None

    def __init__(self, settings: Settings) -> None:
        assert settings.store_catalog is not None  # noqa: S101
        kind, _, address = (
            settings.store_catalog.get_secret_value().removeprefix(LAKE).partition(":")
        )
        if kind not in ("postgres", "postgresql"):
            raise StoreError(
                f"{settings.store_name}: only PostgreSQL can keep the catalog of a lake for many "
                "writers and readers: write ducklake:postgres:dbname=... host=..."
            )
        self.path = settings.store.absolute()
        self.name = settings.store_name
        self._as_of = settings.store_as_of
        self._catalog = Catalog(address)
        self._lock = WriterLock(self._catalog, settings.store_wait_seconds)
        self.scratch = Path(tempfile.gettempdir()) / "gdelphi.work"

    def exists(self) -> bool:
        return "migrations" in (self._catalog.tables() or ())

    def database(self) -> str:
        return MEMORY

    def config(self, *, read_only: bool, shut_off: bool) -> dict[str, Any]:  # noqa: ARG002
        spill = Path(tempfile.gettempdir()) / f"gdelphi-{os.getpid()}.tmp"
        return {"temp_directory": str(spill), "preserve_insertion_order": read_only}

    def enter(self, run: RunSql, *, read_only: bool) -> None:
        self._attach(run, DATABASE, read_only=read_only)
        for statement in self.begin():
            run(statement)
        if read_only:  # a query must not write or read files of others
            run(f"SET allowed_directories = [{quoted(str(self.path))}]")
            run("SET enable_external_access = false")

    def attach(self, run: RunSql, name: str) -> None:
        self._attach(run, name, read_only=True)

    def _attach(self, run: RunSql, name: str, *, read_only: bool) -> None:
        self._find_data()
        for extension in EXTENSIONS:
            run(f"LOAD {quoted(str(_extension_file(extension)))}")
        secret = f"{name}_catalog"
        run(f"CREATE SECRET {secret} (TYPE postgres, PASSWORD {quoted(self._catalog.password)})")
        options = [f"DATA_PATH {quoted(str(self.path))}", f"META_SECRET '{secret}'"]
        if read_only:
            options += ["READ_ONLY", *_at(self._as_of)]
        else:
            options.append("DATA_INLINING_ROW_LIMIT 0")
        address = quoted(f"{LAKE}postgres:{self._catalog.words}")
        run(f"ATTACH {address} AS {name} ({', '.join(options)})")

    def begin(self) -> Iterator[str]:
        yield f"USE {DATABASE}"

    def identity(self) -> object:
        return self._catalog.address, self.path, self._as_of

    def _find_data(self) -> None:
        if not self.path.is_dir():
            raise StoreError(
                f"{self.path}: the folder of the lake's data (store_data) is not there: mount it, "
                "or make it if the lake is new"
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        if self._as_of:
            raise StoreError(f"{self.name} is read as of {self._as_of}: the past is not written")
        self._find_data()
        try:
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise StoreError(
                f"{self.path}: nothing can be written into the folder of the lake's data "
                f"(store_data; {error.strerror}): mend its mount or permissions"
            ) from None
        tables = self._catalog.tables()
        if tables and "migrations" not in tables:
            raise StoreError(
                f"{self.name} is the lake of another program (it has {min(tables)!r}): give "
                "gdelphi a database of its own"
            )
        with self._lock.held():
            yield

    def before_commit(self) -> None:
        reason = self.lost()
        if reason:
            raise StoreLost(reason)

    def lost(self) -> str | None:
        return self._lock.lost()

    def regain(self) -> None:
        self._lock.regain()

    def is_busy(self, error: str) -> bool:  # noqa: ARG002
        return False

    def is_in_use(self, error: str) -> bool:  # noqa: ARG002
        return False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        yield

    def someone_waits(self) -> bool:
        return self._lock.wanted()

    def stand_aside(self) -> None:
        self._lock.pass_on()

    def who_holds(self, error: str) -> str:
        return self.explain(error, damage=False)

    def explain(self, words: str, *, damage: bool) -> str:
        words = self._catalog.plain(words)
        # First: a socket that is not there is "No such file" too.
        if damage and re.search(_OUT_OF_REACH, words):
            return (
                f"{self.name}: the catalog is out of reach ({words}): nothing was committed; "
                "start PostgreSQL and run the command again"
            )
        if "No such file" in words or "Cannot open file" in words:
            return (
                f"{self.name}: a file of the lake is not in {self.path} ({words}): mount the "
                "folder that it was written to, or restore it from a backup"
            )
        if "No snapshot found" in words:
            return (
                f"{self.name} has no state of {self._as_of} (store_as_of, --as-of): it began "
                f'later, or expired; `gdelphi sql "from {DATABASE}.snapshots()"` lists them'
            )
        return f"{self.name}: {words}"

    def dialect(self, statement: str) -> Iterator[str]:
        words = statement.split()
        if words[:2] == ["CREATE", "SEQUENCE"]:
            return
        if words[:3] == ["COMMENT", "ON", "COLUMN"] and words[3].startswith("country_linked."):
            return
        exact = (
            statement.replace("HUGEINT", "DECIMAL(38, 0)") if "TABLE" in words[:4] else statement
        )
        yield exact.replace("sum(mentions) AS", "sum(mentions)::HUGEINT AS")
        if words[:3] == ["CREATE", "TABLE", "events"]:
            yield from LAID_OUT

    def state(self) -> object:
        return self._as_of or self._catalog.latest_snapshot()

    def made(self, run: RunSql) -> tuple[str | None, str | None]:
        known: dict[str, str] = dict(run(f"SELECT option_name, value FROM {DATABASE}.options()"))
        return f"DuckLake {known.get('version')}", known.get("created_by")

    def snapshot(self, run: RunSql) -> int | None:
        return int(run(f"SELECT id FROM {DATABASE}.current_snapshot()")[0][0])

    def snapshot_time(self, run: RunSql) -> datetime | None:
        found = run(
            f"SELECT epoch_us(snapshot_time) FROM {DATABASE}.snapshots() "
            f"WHERE snapshot_id = {self.snapshot(run)}"
        )
        return datetime.fromtimestamp(found[0][0] / 1e6, UTC) if found else None

    def compact(self, run: RunSql) -> None:
        run(f"CALL {DATABASE}.merge_adjacent_files()")


def _at(as_of: str | None) -> Iterator[str]:
    """ATTACH's option for a past state: a day means its end."""
    if as_of is None:
        return
    if as_of.isdigit():
        yield f"SNAPSHOT_VERSION {as_of}"
    else:
        time = as_of if len(as_of) > len("2026-01-31") else f"{as_of} 23:59:59.999999"
        yield f"SNAPSHOT_TIME '{time}+00'"


def _extension_file(name: str) -> Path:
    """The file of a DuckDB extension, as its package brings it: nothing is fetched."""
    package = f"duckdb_extension_{name}"
    found = find_spec(package)
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        file = Path(place) / "extensions" / f"v{version('duckdb')}" / f"{name}.duckdb_extension"
        if file.is_file():
            return file
    try:
        has = f"is for DuckDB {version(package)}, not {version('duckdb')}"
    except PackageNotFoundError:
        has = "is not installed"
    raise StoreError(
        f"a lake needs DuckDB's extension {name}, and the package {package.replace('_', '-')} "
        f"{has}: pip install 'gdelphi[lake]' {package.replace('_', '-')}=={version('duckdb')}"
    )
