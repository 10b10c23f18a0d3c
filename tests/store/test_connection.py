"""The store: one writer at a time, everyone told who; migrations; nothing writable for readers."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from gdelphi.common.errors import (
    QueryError,
    StoreBusy,
    StoreError,
)
from gdelphi.common.settings import Settings
from gdelphi.gdelt.cameo import (
    TABLES,
    event_codes,
    table_rows,
)
from gdelphi.store import migrate as store_module
from gdelphi.store import schema
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from gdelphi.store.schema import (
    CODE_TABLES,
    MIGRATIONS,
    Migration,
    event_comments,
)
from helpers.archives import ArchiveMaker, event_lines, settings_for

HOLD = """
import sys
from pathlib import Path
from gdelphi.common.settings import load_settings
from gdelphi.store.connection import Store
flags = {"store": Path(sys.argv[1]), "store_serve_reads": False}  # as before there was that
settings = load_settings(flags=flags).settings
with (Store(settings).writing() if sys.argv[2] == "write" else Store(settings).reading()) as held:
    print("held", flush=True)
    if len(sys.argv) > 3:
        while not held.let_others_in():
            pass
        print("made way", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def made(tmp_path: Path) -> Settings:
    """Settings of a store that exists and waits for nobody."""
    given = settings_for(tmp_path / "s.duckdb", tmp_path, store_wait_seconds=0.2)
    with Store(given).writing():
        pass
    return given


@contextmanager
def another_process(given: Settings, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the store until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(given.store), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_reader_is_told_who_writes(made: Settings) -> None:
    with (
        another_process(made, "write") as other,
        pytest.raises(StoreBusy, match=rf"held by process {other.pid} \(.*python.*waited 0.2 s"),
        Store(made).reading(),
    ):
        pass


def test_a_writer_is_told_who_reads(made: Settings) -> None:
    with (
        another_process(made, "read") as other,
        pytest.raises(StoreBusy, match=f"process {other.pid}"),
        Store(made).writing(),
    ):
        pass


def test_readers_do_not_disturb_each_other(made: Settings) -> None:
    with another_process(made, "read"), Store(made).reading() as connection:
        assert connection.value("SELECT count(*) FROM events") == 0


def test_a_reader_gets_in_when_the_writer_ends(made: Settings) -> None:
    patient = made.model_copy(update={"store_wait_seconds": 60.0})
    with another_process(made, "write") as other:
        assert other.stdin is not None
        began = time.monotonic()
        threading.Timer(0.5, other.stdin.close).start()
        with Store(patient).reading() as connection:
            assert connection.value("SELECT count(*) FROM events") == 0
        assert time.monotonic() - began >= 0.4


def test_a_long_writer_makes_way_for_those_who_wait(made: Settings) -> None:
    patient = made.model_copy(update={"store_wait_seconds": 60.0})
    with another_process(made, "write", "polite") as other:
        with Store(patient).reading() as connection:
            assert connection.value("SELECT count(*) FROM events") == 0
        assert other.stdout is not None
        assert other.stdout.readline() == "made way\n"


def test_nobody_waits_at_a_free_store(made: Settings) -> None:
    assert not Store(made).someone_waits()
    with Store(made).writing() as connection:
        assert not connection.let_others_in()


def test_a_reader_cannot_write_here_or_elsewhere(made: Settings, tmp_path: Path) -> None:
    with Store(made).reading() as connection:
        for statement in (
            "DELETE FROM events",
            f"COPY events TO '{tmp_path}/out.csv'",
            f"ATTACH '{tmp_path}/other.duckdb'",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SET enable_external_access = true",
        ):
            with pytest.raises(QueryError):
                connection.table(statement)
    assert not (tmp_path / "out.csv").exists()


def test_an_absent_store_says_how_to_make_one(tmp_path: Path) -> None:
    given = settings_for(tmp_path / "absent.duckdb", tmp_path)
    with (
        pytest.raises(StoreError, match=r"no store at .*`gdelphi ingest` makes one"),
        Store(given).reading(),
    ):
        pass
    assert not given.store.exists()


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    given = settings_for(tmp_path / "notes.txt", tmp_path)
    given.store.write_text("my notes\n" * 1000)
    with pytest.raises(StoreError, match="cannot be read as a store"), Store(given).writing():
        pass
    assert given.store.read_text().startswith("my notes")


def test_a_truncated_store_is_told(made: Settings) -> None:
    content = made.store.read_bytes()
    made.store.write_bytes(content[: len(content) // 3])
    with pytest.raises(StoreError, match="cannot be read as a store"), Store(made).reading():
        pass


def test_a_new_migration_is_applied_once_and_keeps_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(date(2014, 1, 1), event_lines([1, 2], date(2014, 1, 1)))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    later = (*MIGRATIONS, Migration("notes", ("CREATE TABLE notes (text VARCHAR)",)))
    monkeypatch.setattr(store_module, "MIGRATIONS", later)
    for _ in range(2):
        with Store(given).reading() as connection:
            assert connection.value("SELECT count(*) FROM notes") == 0
            assert connection.value("SELECT count(*) FROM events") == 2
            names = connection.rows("SELECT name FROM migrations ORDER BY number")
    assert [name for (name,) in names] == [migration.name for migration in later]


def test_a_store_of_a_newer_version_is_not_touched(
    made: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MIGRATIONS", MIGRATIONS[:-1])
    with pytest.raises(StoreError, match="written by a newer gdelphi"), Store(made).writing():
        pass


def test_everything_in_the_store_has_a_comment(made: Settings) -> None:
    with Store(made).reading() as connection:
        bare = connection.rows(
            "SELECT table_name FROM duckdb_tables() WHERE comment IS NULL UNION ALL "
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL"
        )
        columns = connection.rows(
            "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'events'"
        )
    assert bare == []
    assert dict(columns) == event_comments()


def test_the_code_tables_are_in_the_store(made: Settings) -> None:
    assert {table.source for table in CODE_TABLES.values()} == set(TABLES)
    with Store(made).reading() as connection:
        for name, table in CODE_TABLES.items():
            expected = table_rows(table.source)[1]
            assert connection.value(f"SELECT count(*) FROM {name}") == len(expected)
        found = connection.rows("SELECT goldstein, quad_class FROM cameo_events WHERE code = '190'")
    assert found == [(event_codes()["190"].goldstein, 4)]


def test_changed_code_tables_reach_an_old_store(
    made: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "tables_fingerprint", lambda: "another")
    short = {"cameo_types": schema.CODE_TABLES["cameo_types"]}
    monkeypatch.setattr(store_module, "CODE_TABLES", short)
    monkeypatch.setattr(
        store_module, "table_rows", lambda _: (("code", "official"), [("NEW", "1")])
    )
    with Store(made).reading() as connection:
        assert connection.rows("SELECT * FROM cameo_types") == [("NEW", True)]


def test_damage_is_called_damage_at_once_with_the_way_back(tmp_path: Path) -> None:
    given = settings_for(tmp_path / "s.duckdb", tmp_path, store_wait_seconds=600)
    with Store(given).writing() as connection:
        connection.rows("CREATE TABLE more AS SELECT range n, n::VARCHAR t FROM range(200000)")
    content = given.store.read_bytes()
    for places in ([4100], [9000], range(12300, len(content), 1 << 16)):  # headers, and blocks
        damaged = bytearray(content)
        for place in places:
            damaged[place] ^= 0x10
        given.store.write_bytes(damaged)
        with (
            pytest.raises(StoreError, match=r"is damaged: .*restore it.*ingest") as error,
            Store(given).reading() as connection,
        ):
            connection.rows("SELECT sum(n), count(DISTINCT t) FROM more")
        assert not isinstance(error.value, StoreBusy) and "held by" not in str(error.value)
