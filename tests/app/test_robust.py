"""Whatever a command meets, it says one line: no traceback, no secret, no text that is obeyed."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from safetensors import SafetensorError
from typer.testing import CliRunner

from gdelphi.app import cli
from gdelphi.app.cli import app
from gdelphi.app.notify import notify
from gdelphi.common.sections import FlowSettings
from gdelphi.gdelt import file_names
from gdelphi.measures.encoder import EmbeddingCache, HashingEncoder
from gdelphi.store import status as store_status
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from gdelphi.store.status import read_status
from helpers.archives import ArchiveMaker, event_line, event_lines, rows, settings_for

DAY = date(2014, 1, 1)
run = CliRunner()


def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """What a command that fails says, in one line."""
    monkeypatch.setattr(sys, "argv", ["gdelphi", *words])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Traceback" not in said
    return said


# --- one line -------------------------------------------------------------------------------------


def test_the_status_of_a_store_without_events_is_told(tmp_path: Path) -> None:
    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing():
        pass
    said = run.invoke(app, ["status", "--store", str(tmp_path / "s.duckdb")])
    assert said.exit_code == 1 and "0 events, of which 0 tell a story again" in said.stdout


@pytest.mark.parametrize("query", ["", "  ", ";", "-- nothing"])
def test_a_query_that_is_none_is_told(
    query: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing():
        pass
    monkeypatch.setattr(sys, "stdin", io.StringIO(query))
    said = call(capsys, monkeypatch, "sql", "-", "--store", str(tmp_path / "s.duckdb"))
    assert "there is no query" in said


INTERRUPTED = """
import signal
from gdelphi.app import cli
from gdelphi.store import connection

class Told:  # says when the query begins
    def __init__(self, duck):
        self.duck = duck
    def __getattr__(self, name):
        return getattr(self.duck, name)
    def execute(self, sql, *rest):
        if "100000000" in sql:
            print("ready", flush=True)
        return self.duck.execute(sql, *rest)

opened = connection.Store.open_duckdb
connection.Store.open_duckdb = lambda store, **how: Told(opened(store, **how))
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
cli.main()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.0, 0.001, 0.5])
def test_an_interrupted_query_ends_with_130(seconds: float, tmp_path: Path) -> None:
    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing():
        pass
    query = "select count(*) from range(100000000) a, range(100000000) b where a.range <> b.range"
    words = ["sql", query, "--store", str(tmp_path / "s.duckdb")]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(seconds)  # at the query's beginning, and in the midst of its work
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130 and b"Traceback" not in said


def test_a_signal_within_a_statement_of_ours_is_a_signal(tmp_path: Path) -> None:
    class Interrupted:
        def execute(self, *_: object) -> None:
            raise RuntimeError("Query interrupted") from KeyboardInterrupt()

        def sql(self, *_: object, **__: object) -> None:
            raise RuntimeError("Query interrupted")  # so says DuckDB 2

        def close(self) -> None:
            pass

    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing() as connection:
        duck, connection._duck = connection._duck, Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            connection.rows("SELECT 1")
        with pytest.raises(KeyboardInterrupt):
            connection.arrow("SELECT 1")
        connection._duck = duck


def test_a_full_disk_is_told_whatever_library_met_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(cli, "app", full)
    assert "the disk is full: make room" in call(capsys, monkeypatch, "train")


def test_brackets_in_a_label_are_brackets(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, event_lines([1], DAY))
    words = ["ingest", "--archive", str(maker.folder), "--store", str(tmp_path / "s.duckdb")]
    said = run.invoke(app, [*words, "--label", "[/red] [bold]"])
    assert said.exit_code == 0 and "ingested from [/red] [bold]" in said.stdout


def test_a_blank_command_for_notifications_is_a_problem_and_no_crash() -> None:
    (problem,) = notify(FlowSettings(notify_command="  "), "news")
    assert "flows.notify_command is blank" in problem


def test_a_clock_that_stands_before_the_store_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, event_lines([1], DAY))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Clock":
            return cls(1970, 1, 1, tzinfo=UTC)

    for module in (store_status, file_names):
        monkeypatch.setattr(module, "datetime", Clock)
    status = read_status(given)
    assert status.rows == 1 and status.last_day == DAY
    assert status.clock_behind and status.alarming
    said = run.invoke(app, ["status", "--store", str(given.store)])
    assert said.exit_code == 1 and "CLOCK BEHIND: it says 1970-01-01" in said.stdout


# --- nothing without end --------------------------------------------------------------------------


def test_many_rejected_rows_are_counted_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.store.strict_load.MOST_REJECTS", 50)
    monkeypatch.setattr("gdelphi.store.strict_load.LINES_AT_ONCE", 40)
    good = event_lines(range(1, 4), DAY)
    bad = [event_line(number, DAY, SQLDATE="soon") for number in range(10, 90)]
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, [*good, *bad, *[""] * 500])
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    result = ingest(given)
    assert (result.rows_in, result.accepted, result.rejected) == (583, 3, 580)
    assert result.reject_reasons == {"SQLDATE is no DATE": 80, "blank line": 500}
    assert read_status(given).rejects == {"blank line": 500, "SQLDATE is no DATE": 80}
    assert rows(given, "SELECT count(*), count(raw), sum(rows) FROM rejects") == [(52, 50, 580)]
    assert rows(given, "SELECT reason, rows FROM rejects WHERE rows > 1 ORDER BY 2") == [
        ("SQLDATE is no DATE: 30 more such rows", 30),
        ("blank line: 500 more such rows", 500),
    ]


def test_files_of_days_to_come_make_no_gaps_and_are_passed_over(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for day in (DAY, date(2099, 12, 31)):
        maker.day(day, event_lines([day.year], day))
    maker.write_lists()
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    result = ingest(given)
    assert result.loaded == 1 and not result.plan.gaps
    assert sum(result.listing.passed_over.values()) == 1
    single = tmp_path / "some.csv"
    far = event_lines([7, 8], DAY)
    single.write_text("\n".join([far[0], far[1].replace("\t20140101\t", "\t99990101\t")]) + "\n")
    run.invoke(app, ["ingest", str(single), "--store", str(given.store)])
    status = read_status(given, date(2014, 1, 3))
    assert status.rows == 3 and status.last_day == DAY and not status.gaps


# --- nothing told, nothing obeyed -----------------------------------------------------------------


def test_settings_are_shown_without_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "INGEST_ARCHIVE": "https://reader:pa55@mirror.example/events/?sig=t0ken",
        "FLOWS_NOTIFY_URL": "https://hooks.example/services/T0/B0/t0ken",
        "FLOWS_NOTIFY_COMMAND": "curl -H t0ken https://hooks.example",
        "FLOWS_SERVER": "http://user:pa55@prefect.example:4200",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"GDELPHI_{name}", value)
    for words in (["config"], ["config", "--json"]):
        said = run.invoke(app, words)
        assert said.exit_code == 0
        assert not {"pa55", "t0ken", "reader"} & set(said.stdout.replace("/", " ").split())
        assert "pa55" not in said.stdout and "t0ken" not in said.stdout
    shown = json.loads(run.invoke(app, ["config", "--json"]).stdout)
    assert shown["ingest.archive"]["value"] == "https://***@mirror.example/events/?***"
    assert shown["flows.notify_url"]["value"] == "https://hooks.example/***"


def test_texts_of_others_are_neither_obeyed_by_a_terminal_nor_by_a_spreadsheet(
    tmp_path: Path,
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    names = ["\x1b[2Jgone", "=cmd|' /C calc'!A1", "a\u202egpj.exe", "-1+1"]
    maker.day(DAY, [event_line(n, DAY, Actor1Name=name) for n, name in enumerate(names, start=1)])
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    words = ["sql", "select Actor1Name from events order by GLOBALEVENTID", "--store"]
    for form in ("table", "csv", "json"):
        said = run.invoke(app, [*words, str(given.store), "--format", form]).stdout
        assert "\x1b" not in said and "\u202e" not in said, form
        if form == "csv":
            cells = [row[0] for row in csv.reader(io.StringIO(said))][1:]
            assert cells == ["[2Jgone", "'=cmd|' /C calc'!A1", "agpj.exe", "'-1+1"]


def test_a_store_that_was_copied_without_its_checksum_is_read(tmp_path: Path) -> None:
    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing():
        pass
    (tmp_path / "s.duckdb.sha256").unlink()
    said = run.invoke(app, ["verify", "--store", str(tmp_path / "s.duckdb")])
    assert said.exit_code == 0 and "1 without a checksum" in said.stdout


def test_an_older_copy_that_was_put_back_is_told_from_damage(tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    for number in range(2):
        with Store(settings_for(store, tmp_path)).writing() as connection:
            connection.rows(f"CREATE TABLE more{number} AS SELECT range FROM range(9)")
        if not number:
            copy = store.read_bytes()
    store.write_bytes(copy)
    said = run.invoke(app, ["verify", "--store", str(store)])
    words = " ".join(said.stdout.split())
    assert said.exit_code == 1 and "if a copy was put back" in words, words
    (tmp_path / "s.duckdb.sha256").unlink()
    assert run.invoke(app, ["verify", "--store", str(store)]).exit_code == 0


def test_a_flipped_bit_in_the_cache_of_vectors_is_found(tmp_path: Path) -> None:
    with Store(settings_for(tmp_path / "s.duckdb", tmp_path)).writing():
        pass
    cache = EmbeddingCache(tmp_path / "embeddings", HashingEncoder())
    for number in range(2):  # what is added to has a new checksum
        cache.embed([f"police arrest {number}", f"police arrest {number + 1}"])
    content = cache.path.read_bytes()
    for place in (60, len(content) // 2, len(content) - 1):  # header, free space, a vector
        cache.path.write_bytes(content[:place] + bytes([content[place] ^ 8]) + content[place + 1 :])
        said = run.invoke(app, ["verify", "--store", str(tmp_path / "s.duckdb")])
        assert said.exit_code == 1 and "encoded again" in " ".join(said.stdout.split()), place
    cache.path.write_bytes(content)
    assert run.invoke(app, ["verify", "--store", str(tmp_path / "s.duckdb")]).exit_code == 0
