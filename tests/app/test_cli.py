"""The command line: what a user types, sees and gets as an exit code."""

import csv
import io
import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from helpers.archives import ArchiveMaker, event_line, event_lines
from helpers.command_line import gdelphi, gdelphi_process

START = date(2014, 1, 6)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    maker = ArchiveMaker(tmp_path_factory.mktemp("cli") / "archive")
    for number in range(4):
        day = START + timedelta(days=number)
        lines = event_lines(range(100 * number + 1, 100 * number + 11), day)
        maker.day(day, [*lines, event_line(999, day, SQLDATE="x")] if number == 1 else lines)
    maker.write_lists()
    return maker.folder


@pytest.fixture(scope="module")
def store(archive: Path) -> str:
    """A store that a run has filled."""
    path = str(archive.parent / "s.duckdb")
    done = gdelphi_process("ingest", "--archive", str(archive), "--store", path)
    assert done.returncode == 0, done.stderr
    assert "41 in = 40 accepted + 1 rejected + 0 duplicates" in done.stdout
    assert "1 x SQLDATE is no DATE" in done.stdout
    return path


def test_a_dry_run_lists_the_files(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    done = gdelphi("ingest", "--archive", str(archive), "--dry-run", GDELPHI_STORE=str(path))
    assert done.returncode == 0
    assert "4 files" in done.stdout
    assert "20140106.export.CSV.zip  (new)" in done.stdout
    assert not path.exists()


def test_the_default_store_is_in_data(archive: Path, tmp_path: Path) -> None:
    day = ["--since", "20140106", "--until", "2014-01-06"]
    assert gdelphi("ingest", "--archive", str(archive), *day).returncode == 0
    assert (tmp_path / "data" / "gdelphi.duckdb").exists()


def test_a_run_with_a_failure_does_the_rest_and_exits_with_1(archive: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in archive.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "20140107.export.CSV.zip").write_bytes(b"PK\x03\x04")
    done = gdelphi("ingest", "--archive", str(broken))
    assert done.returncode == 1
    assert "3 loaded" in done.stdout
    assert "1 rejected" in done.stdout
    assert "20140107.export.CSV.zip has 4 bytes where the list says" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_is_an_alarm(store: str) -> None:
    fresh = gdelphi("status", "--store", store, "--as-of", "2014-01-10")
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
    assert "complete and fresh" in fresh.stdout
    stale = gdelphi("status", "--store", store, "--json")
    assert stale.returncode == 1
    told = json.loads(stale.stdout)
    assert (told["stale"], told["incomplete"]) == (True, False)
    assert told["latest_complete_day"] == "2014-01-09"
    assert told["rejects"] == {"SQLDATE is no DATE": 1}
    patient = gdelphi("status", "--store", store, "--as-of", "2014-02-09", "--stale-after", "31")
    assert patient.returncode == 0


QUERY = "select NewsDay, rows from daily_counts where Stream = 'WORLD' order by 1 limit 2"


def test_sql_prints_tables_csv_and_json(store: str) -> None:
    table = gdelphi("sql", QUERY, "--store", store)
    assert table.stdout.split() == ["NewsDay", "rows", "2014-01-06", "10", "2014-01-07", "10"]
    text = gdelphi("sql", QUERY, "--store", store, "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[1] == ["2014-01-06", "10"]
    asked = gdelphi_process("sql", "-", "--store", store, "--format", "json", given=QUERY)
    rows = json.loads(asked.stdout)
    assert rows[1] == {"NewsDay": "2014-01-07", "rows": 10}


def test_sql_values_are_shown_as_they_are(store: str) -> None:
    done = gdelphi("sql", "select '[red]x[/red]' as \"[b]\", null as n", "--store", store)
    assert "[red]x[/red]" in done.stdout
    assert "[b]" in done.stdout


def test_sql_cannot_write(store: str) -> None:
    done = gdelphi("sql", "delete from events", "--store", store)
    assert done.returncode == 1
    assert "read-only" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_query_is_told_in_words(store: str) -> None:
    done = gdelphi("sql", "selec 1", "--store", store)
    assert done.returncode == 1
    assert done.stderr.startswith("gdelphi: Parser Error")


def test_config_says_where_values_come_from(tmp_path: Path) -> None:
    (tmp_path / "gdelphi.toml").write_text("[ingest]\njobs = 2\n")
    done = gdelphi("config", "--json", "--store", "a.duckdb", GDELPHI_INGEST_ATTEMPTS="9")
    told = json.loads(done.stdout)
    assert told["ingest.jobs"] == {"value": 2, "from": "gdelphi.toml"}
    assert told["ingest.attempts"]["from"] == "environment GDELPHI_INGEST_ATTEMPTS"
    assert told["store"] == {"value": "a.duckdb", "from": "flag"}
    assert told["ingest.label"] == {"value": None, "from": "default"}
    assert "files fetched" in gdelphi("config").stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["ingest", "--archive", "nowhere"], 1, "no archive at nowhere"),
        (["ingest", "absent.csv"], 1, "no file at absent.csv"),
        (["ingest", "--since", "yesterday"], 2, "is not a day like"),
        (["ingest", "--jobs", "0"], 2, "ingest.jobs = 0 (flag)"),
        (["status"], 1, "no store at data/gdelphi.duckdb"),
        (["sql", "select 1", "--format", "xml"], 2, "xml"),
        (["phrases", "--stream", "Keny", "--day", "2021-01-01"], 2, "nearest are KE (Kenya)"),
        (["config", "--config", "absent.toml"], 2, "no settings file at absent.toml"),
    ],
)
def test_mistakes_are_one_line_and_no_traceback(words: list[str], code: int, message: str) -> None:
    done = gdelphi(*words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_that_fails_says_it_in_one_line_and_by_its_exit_code() -> None:
    for words, code in ((["status"], 1), (["ingest", "--jobs", "0"], 2)):
        done = gdelphi_process(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("gdelphi: ") and done.stderr.count("\n") == 1


def test_a_misspelt_variable_stops_everything() -> None:
    done = gdelphi("status", GDELPHI_STOER="x")
    assert done.returncode == 2
    assert "'GDELPHI_STORE'" in done.stderr


def test_interrupted_it_says_how_to_go_on(archive: Path, tmp_path: Path) -> None:
    code = (
        "from gdelphi.store import ingest\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "assert ingest.load_files\n"  # a new name must come here too
        "ingest.load_files = stop\n"
        "from gdelphi.app.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "ingest", "--archive", str(archive)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert "run it again" in done.stderr
    assert gdelphi("ingest", "--archive", str(archive)).returncode == 0


def test_version_and_help() -> None:
    assert gdelphi("--version").stdout.startswith("gdelphi 0.")
    told = gdelphi("--help").stdout
    assert all(command in told for command in ("ingest", "status", "sql", "config"))
