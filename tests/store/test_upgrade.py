"""A store moves into a newer format whole or not at all, and says what wrote it."""

import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from gdelphi.common.errors import StoreError
from gdelphi.common.settings import Settings
from gdelphi.store import connection as store_module
from gdelphi.store import upgrade as module
from gdelphi.store.connection import Store
from gdelphi.store.database_file import created_by
from gdelphi.store.ingest import ingest
from gdelphi.store.seal import seal_state
from gdelphi.store.status import read_status
from gdelphi.store.upgrade import OLD_SUFFIX, upgrade
from helpers.archives import ArchiveMaker, content_of, event_lines, rows, settings_for
from helpers.command_line import gdelphi

DAY = date(2014, 1, 1)
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from gdelphi.common.settings import load_settings
from gdelphi.store.upgrade import upgrade

def on_step(words):
    if words.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

upgrade(load_settings(flags={"store": Path(sys.argv[1])}).settings, force=True, on_step=on_step)
"""


@pytest.fixture
def made(tmp_path: Path) -> Settings:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, [*event_lines(range(1, 60), DAY), "broken"])
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    older = {"storage_compatibility_version": "v1.0.0"}  # newer versions begin with newer formats
    store_module.duckdb.connect(str(given.store), config=older).close()
    ingest(given)
    return given


def files_beside(given: Settings) -> set[str]:
    here = {path.name for path in given.store.parent.iterdir()}
    return here - {"archive", "d", "s.duckdb", "s.duckdb.sha256", "s.duckdb.waiting"}


def test_a_store_is_the_same_in_a_newer_format(made: Settings) -> None:
    before, status = content_of(made), read_status(made)
    result = upgrade(made)
    assert result.done and result.rows > 59 and result.tables > 10
    assert result.before != result.after == read_status(made).duckdb["format"]
    assert status.duckdb["format"] == result.before
    assert content_of(made) == before
    assert seal_state(made.store) == "sound"
    assert files_beside(made) == {"s.duckdb" + OLD_SUFFIX}
    kept = made.model_copy(update={"store": result.kept})
    assert content_of(kept) == before
    again = upgrade(made)
    assert not again.done
    assert content_of(made) == before
    # and it goes on: ids of files are not given twice
    maker = ArchiveMaker(made.store.parent / "archive")
    maker.day(date(2014, 1, 2), event_lines(range(100, 110), date(2014, 1, 2)))
    assert ingest(made).accepted == 10
    assert rows(made, "SELECT count(DISTINCT file_id), count(*) FROM ledger") == [(2, 2)]


def test_the_command_says_what_it_did(made: Settings) -> None:
    said = gdelphi("store", "upgrade", "--store", str(made.store), "--discard")
    assert said.returncode == 0, said.stderr
    assert "tables" in said.stdout and "equal" in said.stdout
    assert files_beside(made) == set()
    said = gdelphi("store", "upgrade", "--store", str(made.store))
    assert "the newest: nothing was done" in said.stdout
    status = gdelphi("status", "--store", str(made.store)).stdout
    assert f"last written by {store_module.duckdb.__version__}" in status


@pytest.mark.parametrize("step", ["copying", "comparing meta", "putting"])
def test_killed_anywhere_the_store_is_as_it_was(made: Settings, step: str) -> None:
    before = content_of(made)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AT, str(made.store), step], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert content_of(made) == before
    left = files_beside(made)
    assert any(name.endswith(".part") for name in left)
    assert upgrade(made, force=True, keep=False).done
    assert files_beside(made) == set(), "what the killed one left is gone"
    assert content_of(made) == before


def test_a_copy_that_differs_is_thrown_away(
    made: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_of(made)
    real = module._compare

    def spoiled(connection: store_module.Connection, old: str, on_step: module.OnStep) -> object:
        connection.rows(f"UPDATE {module.NEW}.main.events SET NumMentions = NumMentions + 1")
        return real(connection, old, on_step)

    monkeypatch.setattr(module, "_compare", spoiled)
    with pytest.raises(StoreError, match=r"the copy of events differs .*the store is as it was"):
        upgrade(made)
    assert content_of(made) == before
    assert files_beside(made) == set()


def test_without_room_or_a_store_nothing_is_begun(
    made: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = made.model_copy(update={"store": tmp_path / "absent.duckdb"})
    with pytest.raises(StoreError, match="no store at"):
        upgrade(absent)
    monkeypatch.setattr(module, "ROOM", 1e12)
    with pytest.raises(StoreError, match="GB are free: make room"):
        upgrade(made)


def test_a_store_of_a_newer_duckdb_is_told_with_the_remedy(made: Settings) -> None:
    assert created_by(made.store) == f"v{store_module.duckdb.__version__}"
    content = bytearray(made.store.read_bytes())
    content[52:60] = b"v99.1.0\0"
    newer = made.store.with_name("newer.duckdb")
    newer.write_bytes(content)
    assert created_by(newer) == "v99.1.0"
    error = (
        "IO Error: Trying to read a database file with version number 9999, but we can only read"
    )
    words = Store(settings_for(newer, "")).place.explain(error, damage=True)
    assert "was made by DuckDB v99.1.0" in words and "install `duckdb>=99.1.0`" in words
    assert created_by(made.store.parent / "absent") is None
    assert created_by(Path(__file__)) is None
    with Store(made).reading() as connection:
        assert connection.value("SELECT value FROM meta WHERE key = 'duckdb'")
