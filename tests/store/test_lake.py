"""A store in a lake: the same content, commands and promises as a store in a file.

One PostgreSQL is started for this file, and stopped after it.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.errors import ConfigError, QueryError, StoreBusy, StoreError, StoreLost
from gdelphi.common.settings import Settings, load_settings, shown_value
from gdelphi.store import compact as compact_module
from gdelphi.store import lake as lake_module
from gdelphi.store import migrate as migrate_module
from gdelphi.store.compact import compact
from gdelphi.store.connection import Store, at_one_state
from gdelphi.store.copy import copy_store
from gdelphi.store.ingest import ingest
from gdelphi.store.schema import MIGRATIONS
from gdelphi.store.status import Status, read_status
from helpers.archives import ArchiveMaker, content_of, event_lines, rows, settings_for
from helpers.postgres import postgres

__all__ = ["postgres"]

MakeLake = Callable[..., Settings]
START = date(2014, 1, 31)
DAYS = 3
DRIVER = """
from gdelphi.store import prepare
prepare.BATCH_FILES = 1
from gdelphi.app.cli import main
print("ready", flush=True)
main()
"""


@pytest.fixture
def make_lake(postgres: Any, tmp_path: Path) -> MakeLake:
    """Makes settings of an empty lake for an archive."""

    def make(archive: Path, name: str, **flags: Any) -> Settings:
        given = postgres.make_lake(f"{tmp_path.name}_{name}".replace("-", "_"), tmp_path)
        return settings_for(given["store"], archive, store_data=given["store_data"], **flags)

    return make


def make_archive(folder: Path, version: int = 0) -> ArchiveMaker:
    """Days over two months that share ids and hold bad lines; another version has fewer rows."""
    maker = ArchiveMaker(folder)
    for number in range(DAYS):
        day = date.fromordinal(START.toordinal() + number)
        ids = range(1000 * number + 1000, 1000 * number + 1060 - 20 * version)
        lines = event_lines([*range(number, number + 4 - version), *ids], day, NumMentions=number)
        maker.day(day, [*lines, "broken"] if number % 2 else lines)
    maker.write_lists()
    return maker


def comparable(status: Status) -> Status:
    """Without what differs by place and time."""
    return replace(status, store="", duckdb={}, last_run=None, last_successful_run=None)


def flags_of(settings: Settings, archive: Path) -> list[str]:
    assert settings.store_catalog is not None
    address = settings.store_catalog.get_secret_value()
    return ["--store", address, "--archive", str(archive), "--since", "2014-01-01"]


def test_it_holds_what_a_file_holds(make_lake: MakeLake, tmp_path: Path) -> None:
    maker = make_archive(tmp_path / "archive")
    file, lake = settings_for(tmp_path / "s.duckdb", maker.folder), make_lake(maker.folder, "same")
    for settings in (file, lake):
        ingest(settings)
    assert content_of(lake) == content_of(file)
    assert comparable(read_status(lake)) == comparable(read_status(file))
    assert str(read_status(lake).duckdb["format"]).startswith("DuckLake 1.")
    exact = "SELECT NewsDay, ids, squared_ids, rows FROM file_days ORDER BY ALL"
    assert rows(lake, exact) == rows(file, exact)
    daily = "SELECT * FROM daily_counts ORDER BY ALL"
    assert [tuple(map(type, row)) for row in rows(lake, daily)] == [
        tuple(map(type, row)) for row in rows(file, daily)
    ]
    before, content = at_one_state(lake), content_of(lake)
    make_archive(tmp_path / "archive", version=1)  # files shrink at their source
    for settings in (file, lake):
        ingest(settings)
    now = content_of(file)
    assert content_of(lake) == now != content
    months = {path.parent.name for path in lake.store.glob("main/events/*/*/*.parquet")}
    assert months == {"month=1", "month=2"}
    check_reading(lake)
    check_past(lake, before, content, now)


def check_reading(lake: Settings) -> None:
    with Store(lake).reading() as connection:
        with connection.transaction():  # two questions about one state
            assert connection.rows("FROM days") and connection.rows("FROM daily_counts")
        for written in ("COPY events TO 'x.csv'", f"EXPORT DATABASE '{lake.store}/x'"):
            with pytest.raises(QueryError, match="read only"):
                connection.table(written)
        with pytest.raises(QueryError, match="read-only"):
            connection.table("DELETE FROM events")
        with pytest.raises(QueryError, match="disabled"):
            connection.table("FROM read_text('/etc/hostname')")


def check_past(lake: Settings, before: Settings, content: Any, now: Any) -> None:
    """A past state stays as it was, merged or not, until it is let go."""
    with pytest.raises(StoreError, match="the past is not written"), Store(before).writing():
        pass
    done = compact(lake).after
    assert content_of(before) == content and content_of(lake) == now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact_module, "GRACE_MINUTES", 0)
        let_go = compact(lake, keep_days=0).after
    assert done is not None and let_go is not None
    assert let_go.snapshots == 1 < done.snapshots and content_of(lake) == now
    files = list(lake.store.rglob("*.parquet"))
    assert len(files) == let_go.files, "nothing is left behind"
    with pytest.raises(StoreError, match="has no state of 2020-01-31"):
        rows(lake.model_copy(update={"store_as_of": "2020-01-31"}), "FROM events")


def test_the_second_writer_waits_and_says_for_whom(make_lake: MakeLake, tmp_path: Path) -> None:
    maker = make_archive(tmp_path / "archive")
    lake = make_lake(maker.folder, "two", store_wait_seconds=0)
    ingest(lake)
    with Store(lake).writing() as connection:
        with pytest.raises(StoreBusy, match=r"is being written by process \d+ on \S+ \(.*since 2"):
            ingest(lake)
        with connection.transaction():
            connection.rows("INSERT INTO meta VALUES ('unfinished', '1')")
            assert rows(lake, "FROM meta WHERE key = 'unfinished'") == [], "readers do not wait"
    both = [*flags_of(lake, maker.folder), "--wait", "600"]
    make_archive(tmp_path / "archive", version=1)
    command = [sys.executable, "-c", DRIVER, "ingest", *both]
    variables = {**os.environ, "GDELPHI_STORE_DATA": str(lake.store)}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=600)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert any("... waiting for process" in words for words in said), said
    file = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(file)
    assert content_of(lake) == content_of(file)


def test_killed_and_without_its_catalog_it_ends_in_the_same_content(
    make_lake: MakeLake, postgres: Any, tmp_path: Path
) -> None:
    maker = make_archive(tmp_path / "archive")
    lake = make_lake(maker.folder, "killed")
    arguments = flags_of(lake, maker.folder)
    variables = {**os.environ, "GDELPHI_STORE_DATA": str(lake.store)}
    rng = random.Random(3)
    for number in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, "ingest", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
        )
        with process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.5, 3))
            if number == 1:
                postgres.restart()
            process.kill()
    ingest(lake)
    file = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(file)
    assert content_of(lake) == content_of(file)


def test_a_writer_whose_lock_is_lost_commits_nothing_and_may_try_again(
    make_lake: MakeLake, postgres: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = make_lake(Path("none"), "lost")
    ends = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    with Store(lake).writing() as connection:
        lost = pytest.raises(StoreLost, match=r"was not committed; run the command again")
        with lost, connection.transaction():
            connection.rows("INSERT INTO meta VALUES ('late', '1')")
            postgres.run(ends)
        assert rows(lake, "FROM meta WHERE key = 'late'") == []
        disturbances = [ends, "SELECT 1"]

        def work() -> str:
            with connection.transaction():
                connection.rows("INSERT INTO meta VALUES ('late', '2')")
                postgres.run(disturbances.pop(0))
            return "done"

        assert connection.retry(work) == "done" and not disturbances
    assert rows(lake, "FROM meta WHERE key = 'late'") == [("late", "2")]
    assert "trying again, 1 of 3" in capfd.readouterr().err


def test_bad_input_gets_one_line_with_the_remedy(
    make_lake: MakeLake, postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path / "archive").folder
    lake = make_lake(archive, "bad")

    def told(store: str, data: Path | str) -> str:
        settings = settings_for(store, archive, store_data=data, ingest__downloads=tmp_path / "d")
        with pytest.raises(StoreError) as error:
            ingest(settings)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert lake.store_catalog is not None
    there = lake.store_catalog.get_secret_value()
    assert "createdb" in told("ducklake:postgres:dbname=absent host=/absent", lake.store)
    assert "mount it" in told(there, tmp_path / "absent")
    assert "mend its mount" in told(there, "/sys")
    assert "only PostgreSQL" in told("ducklake:catalog.sqlite", lake.store)
    assert "no address" in told("ducklake:postgres:dbname='x", lake.store)
    assert not Store(lake).exists(), "nothing was made"
    with monkeypatch.context() as patch:
        patch.setattr(lake_module, "find_spec", lambda _: None)
        assert "pip install 'gdelphi[lake]'" in told(there, lake.store)
    with monkeypatch.context() as patch:
        patch.setattr(lake_module, "version", lambda name: "9.9" if name == "duckdb" else "1.5")
        assert "is for DuckDB 1.5, not 9.9: pip install" in told(there, lake.store)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        assert "psycopg: pip install 'gdelphi[lake]'" in told(there, lake.store)
    assert not Store(lake).exists() and not any(lake.store.iterdir()), "nothing was made"
    with Store(lake).writing():
        pass
    with monkeypatch.context() as patch:
        patch.setattr(migrate_module, "MIGRATIONS", MIGRATIONS[:-1])
        assert "newer gdelphi" in told(there, lake.store)
    other = tmp_path / "other"
    other.mkdir()
    assert "other" in told(there, other)
    assert rows(lake, "FROM ledger") == [], "nothing of all this has been begun"


def test_the_lake_of_another_program_is_left_alone(
    make_lake: MakeLake, postgres: Any, tmp_path: Path
) -> None:
    lake = make_lake(make_archive(tmp_path / "archive").folder, "strange")
    database = f"{tmp_path.name}_strange".replace("-", "_")
    postgres.run("CREATE TABLE ducklake_table (table_name text, end_snapshot bigint)", database)
    postgres.run("INSERT INTO ducklake_table VALUES ('theirs', NULL)", database)
    with pytest.raises(StoreError, match=r"another program \(it has 'theirs'\): give gdelphi a"):
        ingest(lake)
    with pytest.raises(StoreError, match=r"no store at .*: `gdelphi ingest` makes one"):
        read_status(lake)
    assert not any(lake.store.iterdir())


def test_a_catalog_or_a_folder_that_goes_away_is_one_line_with_the_remedy(
    make_lake: MakeLake, postgres: Any, tmp_path: Path
) -> None:
    lake = make_lake(make_archive(tmp_path / "archive").folder, "gone")
    ingest(lake)
    away = lake.store.rename(lake.store.with_name("away"))
    lake.store.mkdir()
    with pytest.raises(StoreError, match="mount the folder that it was written to") as error:
        rows(lake, "SELECT count(*), max(NumMentions) FROM events")
    assert "\n" not in str(error.value)
    lake.store.rmdir()
    away.rename(lake.store)
    with Store(lake).reading() as connection:
        postgres.stop()
        try:
            with pytest.raises(StoreError, match=r"out of reach .*: .*start PostgreSQL") as error:
                connection.rows("SELECT max(NumMentions) FROM events")
            assert "\n" not in str(error.value)
            with pytest.raises(StoreError, match=r"out of reach .*: start PostgreSQL, make the"):
                ingest(lake)
        finally:
            postgres.start()
    assert rows(lake, "SELECT count(*) FROM events")[0][0] > 0, "and it is there again"


def test_the_password_is_told_nowhere(
    make_lake: MakeLake, postgres: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = make_lake(tmp_path, "secret")
    assert lake.store_catalog is not None
    address = f"{lake.store_catalog.get_secret_value()} password=geheim"
    settings = settings_for(address, tmp_path, store_data=lake.store)
    with Store(settings).writing() as connection:
        databases = connection.rows("SELECT path FROM duckdb_databases()")
    assert read_status(settings).store.endswith("password=***")
    absent = settings_for(f"{address} port=1", tmp_path, store_data=lake.store)
    with pytest.raises(StoreError, match=r"password=\*\*\*") as error:
        read_status(absent)
    loaded = load_settings(flags={"store": address, "store_data": lake.store})
    shown = {key: shown_value(key, value) for key, value, _ in loaded.rows()}
    assert shown["store"] == f"{address.removesuffix('geheim')}***"
    for words in (databases, error.value, settings, shown, capfd.readouterr()):
        assert "geheim" not in str(words) + repr(words)


def test_a_store_moves_into_a_lake_and_back(make_lake: MakeLake, tmp_path: Path) -> None:
    maker = make_archive(tmp_path / "archive")
    file = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(file)
    lake, back = make_lake(maker.folder, "moved"), settings_for(tmp_path / "b.duckdb", maker.folder)
    into = copy_store(file, lake)
    assert (
        into.rows == copy_store(lake, back).rows
        and into.rows["events"] == rows(file, "SELECT count(*) FROM events")[0][0]
    )
    assert content_of(lake) == content_of(file) == content_of(back)
    exact = "SELECT ids, squared_ids FROM file_days ORDER BY ALL"
    assert rows(back, exact) == rows(file, exact)
    with pytest.raises(StoreError, match="is not empty"):
        copy_store(file, lake)
    with pytest.raises(StoreError, match="both source and target"):
        copy_store(lake, lake)
    with pytest.raises(ConfigError, match="is a file"):
        Store(settings_for(file.store, maker.folder, store_as_of="2026-01-31"))
