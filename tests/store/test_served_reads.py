"""Readers of a store in a file are answered by the process that writes to it."""

import contextlib
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from datetime import time as day_time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from gdelphi.common.errors import (
    GdelphiError,
    QueryError,
    ReadingEnded,
    StoreBusy,
    StoreError,
    StoreMemoryError,
)
from gdelphi.common.settings import Settings
from gdelphi.questions.shared_reading import SharedReading
from gdelphi.store import asked_reads, served_reads
from gdelphi.store.connection import Connection, Store, arrow_table
from gdelphi.store.read_place import ReadPlace
from gdelphi.store.status import read_status_from
from gdelphi.store.sums import RunSql
from helpers.archives import settings_for

LONG = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"
OTHER = """
import sys
from pathlib import Path
from gdelphi.common.settings import load_settings
from gdelphi.store.connection import Store
settings = load_settings(flags={"store": Path(sys.argv[1]), "store_wait_seconds": 30.0}).settings
"""
WRITES = f"""{OTHER}
with Store(settings).writing() as writer:
    writer.rows("BEGIN TRANSACTION")
    writer.rows("INSERT INTO numbers SELECT range FROM range(100000)")
    print("written", flush=True)
    sys.stdin.read()
"""
ASKS = f"""{OTHER}
with Store(settings).reading() as reader:
    print("answered" if reader.is_answered else "in turn", flush=True)
    try:
        print(reader.table(sys.argv[2]))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture
def given(tmp_path: Path) -> Settings:
    """Settings of a store with ten numbers; nobody waits long for it."""
    made = settings_for(tmp_path / "s.duckdb", tmp_path, store_wait_seconds=0.2)
    with Store(made).writing() as writer:
        writer.rows("CREATE TABLE numbers AS SELECT range n FROM range(10)")
    return made


@pytest.fixture
def writer(given: Settings) -> Iterator[Connection]:
    """Who has the store open to write."""
    with Store(given).writing() as connection:
        yield connection


@contextmanager
def other_process(words: str, *given: object) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", words, *map(str, given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def place_of(given: Settings) -> ReadPlace:
    place = Store(given).place.reads
    assert place is not None
    return place


def count(given: Settings) -> int:
    with Store(given).reading() as reader:
        assert reader.is_answered
        return int(reader.value("SELECT count(*) FROM numbers"))


def wait_for_end(writer: Connection) -> None:
    """Until nobody is answered; not for long."""
    limit = time.monotonic() + 5
    assert writer._server is not None
    while writer._server.has_readers:
        assert time.monotonic() < limit, "a session goes on"
        time.sleep(0.01)


# --- what is read ---------------------------------------------------------------------------------


def test_the_last_commit_is_read_at_once_amid_a_transaction(given: Settings) -> None:
    with other_process(WRITES, given.store) as process:
        assert said(process) == "written"
        assert count(given) == 10
        began = time.monotonic()
        for _ in range(5):
            assert count(given) == 10
        assert time.monotonic() - began < 2.5


def test_a_session_sees_one_state_and_the_next_one_the_next(
    given: Settings, writer: Connection
) -> None:
    with Store(given).reading() as reader:
        writer.rows("INSERT INTO numbers VALUES (11)")  # after the session began
        assert reader.value("SELECT count(*) FROM numbers") == 10
        with writer.transaction():
            writer.rows("DELETE FROM numbers WHERE n < 5")
            assert count(given) == 11
        assert reader.value("SELECT count(*) FROM numbers") == 10
        with reader.transaction():  # as some do who want one state
            assert reader.value("SELECT sum(n) FROM numbers") == 45
        writer.compact()
        assert reader.value("SELECT count(*) FROM numbers") == 10
        assert count(given) == 6
    assert writer.wrong_sums() == {}


def test_values_are_those_of_the_file(given: Settings) -> None:
    queries = [
        f'SELECT "{name}" FROM test_all_types()'
        for (name,) in _rows(given, "SELECT column_name FROM (DESCRIBE FROM test_all_types())")
    ]
    queries += [
        "SELECT 1 AS a, 2 AS a, 'x' AS \"c0\"",
        "SELECT n FROM numbers WHERE n < 0",
        "SELECT range, md5(range::VARCHAR) FROM range(150000)",
        "SELECT sum(n), avg(n), max(n)::HUGEINT * 10000000000000000000000, NULL FROM numbers",
        "SELECT 'nan'::DOUBLE, 'inf'::FLOAT, -0.0::DOUBLE, 0.1::DECIMAL(18, 3)",
        "DESCRIBE numbers",
        "SHOW TABLES",
    ]
    direct = _all_ways(given, queries)
    with Store(given).writing():
        answered = _all_ways(given, queries)
        for query, found, expected in zip(queries, answered, direct, strict=True):
            assert repr(found[:2]) == repr(expected[:2]), query
            assert found[2].schema == expected[2].schema, query
            assert found[2].equals(expected[2]) or "nan" in repr(expected[0]), query


def _rows(given: Settings, query: str) -> list[tuple[object, ...]]:
    with Store(given).reading() as reader:
        return reader.rows(query)


def _all_ways(given: Settings, queries: list[str]) -> list[tuple[Any, Any, Any]]:
    with Store(given).reading() as reader:
        return [(reader.rows(one), reader.table(one), reader.arrow(one)) for one in queries]


def test_parameters_and_tables_arrive_as_they_are(given: Settings) -> None:
    values = [
        None, True, 3, 1 << 80, 0.1, float("inf"), "é'", b"\0x", date(2014, 1, 20),
        datetime(2014, 1, 20, 3, 4, 5, 6), datetime(2014, 1, 20, 3, tzinfo=UTC), day_time(3, 4, 5),
        timedelta(days=2, microseconds=7), Decimal("1.50"), UUID(int=7), [date(2014, 1, 1), None],
        np.float64(0.3),
    ]  # fmt: skip
    query = f"SELECT {', '.join('?' * len(values))}"
    table = arrow_table(["day", "n"], [(date(2014, 1, 1), 1), (date(2014, 1, 2), None)])

    def ask() -> list[object]:
        with Store(given).reading() as reader:
            found: list[object] = [reader.rows(query, values)]
            found.append(reader.rows("SELECT $a + 1, $b", {"a": 2, "b": "x"}))
            with reader.registered("asked", table):
                found.append(reader.rows("SELECT * FROM asked JOIN numbers USING (n)"))
            with pytest.raises(StoreError, match="asked does not exist"):
                reader.rows("FROM asked")
            found.append(reader.arrow("SELECT n FROM numbers WHERE n IN ?", [[1, 2]]).to_pydict())
            return found

    direct = ask()
    with Store(given).writing():
        assert repr(ask()) == repr(direct)
        with Store(given).reading() as reader, pytest.raises(StoreError, match="cannot be a set"):
            reader.rows("SELECT ?", [{1}])


def test_errors_are_those_of_the_file(given: Settings) -> None:
    queries = ["FROM nowhere", "SELEC", "SELECT error('odd')", "SELECT 'x'::INT", "", "SELECT nope"]

    def complaints() -> list[tuple[type, str]]:
        found = []
        for query in queries:
            for way in ("table", "rows", "arrow"):
                if not query and way != "table":
                    continue
                with Store(given).reading() as reader, pytest.raises(GdelphiError) as error:
                    getattr(reader, way)(query)
                found.append((type(error.value), str(error.value)))
        return found

    direct = complaints()
    with Store(given).writing():
        assert complaints() == direct
        with Store(given).reading() as reader, pytest.raises(QueryError, match="late"):
            reader.table("SELECT if(range = 140000, error('late'), range) FROM range(150000)")


def test_a_status_is_read_beside_a_writer(given: Settings, writer: Connection) -> None:
    del writer
    with Store(given).reading() as reader:
        assert reader.is_answered
        assert read_status_from(reader, given).rows == 0
        assert reader.wrong_sums() == {}


# --- what is not answered -------------------------------------------------------------------------

HOSTILE = (
    "INSERT INTO numbers VALUES (99)",
    "DELETE FROM numbers",
    "UPDATE numbers SET n = 1",
    "DROP TABLE numbers",
    "TRUNCATE numbers",
    "ALTER TABLE numbers ADD COLUMN m INT",
    "CREATE TABLE more (n INT)",
    "CREATE TEMP TABLE more (n INT)",
    "CREATE OR REPLACE VIEW more AS SELECT 1",
    "CREATE SECRET (TYPE http, BEARER_TOKEN 'x')",
    "SELECT nextval('file_ids')",
    "EXPLAIN ANALYZE INSERT INTO numbers VALUES (99)",
    "EXPLAIN ANALYZE FROM checkpoint()",
    "/* */ EXPLAIN (ANALYZE) FROM force_checkpoint()",
    "SELECT 1; INSERT INTO numbers VALUES (99)",
    "ROLLBACK; INSERT INTO numbers VALUES (99)",
    "COMMIT; INSERT INTO numbers VALUES (99)",
    "ROLLBACK",
    "COMMIT",
    "BEGIN",
    "SET threads = 1",
    "SET GLOBAL memory_limit = '1TB'",
    "SET enable_external_access = true",
    "RESET memory_limit",
    "PRAGMA memory_limit = '1TB'",
    "PRAGMA enable_profiling",
    "CALL force_checkpoint()",
    "CALL enable_logging()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "USE memory",
    "PREPARE p AS INSERT INTO numbers VALUES (99)",
    "EXECUTE p",
    "FROM checkpoint()",
    "SELECT (FROM checkpoint())",
    'FROM system.main."Force_Checkpoint"()',
    "SELECT * FROM numbers, LATERAL (FROM force_checkpoint('s'))",
    "FROM enable_logging()",
    "FROM query('FROM force_checkpoint()')",
    "FROM query_table('numbers')",
    "FROM json_execute_serialized_sql('{}')",
    "FROM arrow_scan(1, 2, 3)",
    "ATTACH ':memory:' AS m",
    "ATTACH '{folder}/other.duckdb'",
    "DETACH s",
    "INSTALL httpfs",
    "LOAD json",
    "LOAD '{folder}/mine.duckdb_extension'",
    "COPY numbers TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.parquet'",
    "EXPORT DATABASE '{folder}/out'",
    "IMPORT DATABASE '{folder}/out'",
    "COPY numbers FROM '{folder}/secret.csv'",
    "FROM read_text('{folder}/secret.csv')",
    "FROM read_csv('{folder}/secret.csv')",
    "FROM read_blob('/etc/hostname')",
    "FROM glob('{folder}/*')",
    "FROM sniff_csv('{folder}/secret.csv')",
    "FROM parquet_metadata('{folder}/secret.csv')",
    "FROM '{folder}/secret.csv'",
    "FROM table_of_python",
    "FROM self",
)

table_of_python = arrow_table(["n"], [(1,)])


def test_nothing_but_questions_is_answered(
    given: Settings, writer: Connection, tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("n\n1\n")
    marks = (
        "SELECT list((name, value) ORDER BY name) FROM duckdb_settings()",
        "SELECT list(table_name ORDER BY ALL) FROM duckdb_tables()",
        "SELECT list(view_name ORDER BY ALL) FROM duckdb_views() WHERE NOT internal",
        "SELECT list(database_name ORDER BY ALL) FROM duckdb_databases()",
        "SELECT (count(*), sum(n)) FROM numbers",
    )
    before, files = [writer.rows(mark) for mark in marks], sorted(tmp_path.iterdir())
    for words in HOSTILE:
        text = words.replace("{folder}", str(tmp_path))
        with Store(given).reading() as reader, pytest.raises(QueryError):
            reader.table(text)
        with Store(given).reading() as reader, pytest.raises(StoreError):
            reader.rows(text)
    assert [writer.rows(mark) for mark in marks] == before
    assert sorted(tmp_path.iterdir()) == files
    writer.rows("INSERT INTO numbers VALUES (10)")
    assert count(given) == 11


def test_it_is_told_what_may_be_asked(given: Settings, writer: Connection) -> None:
    del writer
    with (
        Store(given).reading() as reader,
        pytest.raises(QueryError, match=r"may be SELECT, .*, not SET: .*store_serve_reads = false"),
    ):
        reader.table("SET threads = 1")


def test_a_reader_that_speaks_nonsense_costs_nothing(given: Settings, writer: Connection) -> None:
    evil = pickle.dumps(os.system)
    for nonsense in (
        evil,
        b"[]",
        b"{}",
        b'{"ask": "execute"}',
        b'{"ask": "execute", "sql": 3}',
        b"\xff",
    ):
        channel = place_of(given).call()
        assert channel is not None
        with contextlib.closing(channel):
            assert channel.receive().words.keys() == {"schema"}
            channel._bytes.send_bytes(nonsense)
    wait_for_end(writer)
    assert count(given) == 10


def test_only_the_same_user_gets_to_the_socket(
    given: Settings, writer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    del writer
    words = place_of(given).read()
    assert words is not None
    path = Path(words["socket"])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(str(path)) < 100
    path.parent.chmod(0o755)  # as somebody else would have made it
    assert place_of(given).call() is None
    path.parent.chmod(0o700)
    monkeypatch.setattr(served_reads, "same_user", lambda _: False)
    with pytest.raises(StoreError):
        count(given)


# --- ends -----------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_query_on_the_other_side_too(given: Settings, writer: Connection) -> None:
    with other_process(ASKS, given.store, LONG) as process:
        assert said(process) == "answered"
        time.sleep(0.3)
        assert writer._server is not None and writer._server.has_readers
        process.send_signal(signal.SIGINT)
        assert said(process) == "interrupted"
    wait_for_end(writer)


def test_a_reader_that_is_killed_is_not_worked_for(given: Settings, writer: Connection) -> None:
    with other_process(ASKS, given.store, LONG) as process:
        assert said(process) == "answered"
        time.sleep(0.2)
        process.kill()
    wait_for_end(writer)


def test_sessions_may_end_before_the_store_is_closed(given: Settings) -> None:
    with contextlib.ExitStack() as open_:
        writing = open_.enter_context(Store(given).writing())
        reading = Store(given).reading()
        reader = reading.__enter__()
        assert reader.value("SELECT 1 FROM numbers LIMIT 1") == 1
        threading.Timer(0.3, lambda: reading.__exit__(None, None, None)).start()
        began = time.monotonic()
        writing.close()
        assert 0.2 < time.monotonic() - began < 2.0


def test_who_reads_too_long_is_told_to_ask_again(
    given: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_reads, "CLOSING_SECONDS", 0.2)
    complaints: list[BaseException] = []

    def ask() -> None:
        with Store(given).reading() as busy:
            busy.rows("SELECT 1")
            try:
                busy.table(LONG)
            except GdelphiError as error:
                complaints.append(error)

    with Store(given).writing() as writing:
        idle_reading = Store(given).reading()
        idle = idle_reading.__enter__()
        idle.rows("SELECT 1")
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.2)
        began = time.monotonic()
        writing.close()
        assert time.monotonic() - began < 2.0
        thread.join()
        for _ in range(2):
            with pytest.raises(ReadingEnded, match="has closed it: ask again"):
                idle.rows("SELECT 1")
        idle_reading.__exit__(None, None, None)
    assert [str(error) for error in complaints] == [served_reads.CLOSED]
    assert not place_of(given).note.exists()


def test_a_session_without_an_answer_yet_is_opened_anew(
    given: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_reads, "CLOSING_SECONDS", 0.1)
    table = arrow_table(["n"], [(3,)])
    with Store(given).writing() as writing:
        reading = Store(given).reading()
        reader = reading.__enter__()
        with reader.registered("asked", table):
            writing.rows("INSERT INTO numbers VALUES (10)")
            writing.close()
            assert reader.rows("SELECT * FROM numbers JOIN asked USING (n)") == [(3,)]
            assert reader.value("SELECT count(*) FROM numbers") == 11
        reading.__exit__(None, None, None)


def test_another_writer_is_let_in_beside_open_sessions(
    given: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_reads, "CLOSING_SECONDS", 0.2)
    patient = given.model_copy(update={"store_wait_seconds": 30.0})
    with Store(patient).writing() as writing:
        reading = Store(given).reading()
        reader = reading.__enter__()
        reader.rows("SELECT 1")
        with other_process(WRITES, given.store) as process:
            while not writing.store.someone_waits():
                time.sleep(0.01)
            threading.Timer(1.0, lambda: process.stdin and process.stdin.close()).start()
            assert writing.let_others_in()
            assert said(process) == "written"
        assert count(given) == 10  # it did not commit
        with pytest.raises(ReadingEnded):
            reader.rows("SELECT 1")
        reading.__exit__(None, None, None)


def test_an_error_that_ends_the_transaction_ends_the_session(
    given: Settings, writer: Connection
) -> None:
    with Store(given).reading() as reader:
        with pytest.raises(QueryError, match="does not exist"):
            reader.table("FROM nowhere")
        assert reader.value("SELECT count(*) FROM numbers") == 10
        with pytest.raises(QueryError, match="odd"):
            reader.table("SELECT error('odd')")
        writer.rows("DELETE FROM numbers")
        with pytest.raises(ReadingEnded, match="open it again"):  # not another state in silence
            reader.rows("SELECT count(*) FROM numbers")


def test_a_killed_writer_leaves_nothing_that_stops_others(given: Settings) -> None:
    with other_process(WRITES, given.store) as process:
        assert said(process) == "written"
        words = place_of(given).read()
        assert words is not None and count(given) == 10
        reading = Store(given).reading()
        reader = reading.__enter__()
        reader.rows("SELECT 1")
        process.kill()
        process.wait()
        with pytest.raises(ReadingEnded, match="has ended: ask again"):
            reader.rows("SELECT 1")
        reading.__exit__(None, None, None)
    folder = Path(words["socket"]).parent
    assert place_of(given).note.exists() and folder.exists()
    with Store(given).reading() as reader:
        assert not reader.is_answered and reader.value("SELECT count(*) FROM numbers") == 10
    with Store(given).writing() as writing:
        assert not folder.exists()
        writing.rows("INSERT INTO numbers VALUES (10)")
        assert count(given) == 11
    assert not place_of(given).note.exists()


def test_readers_of_before_the_last_commit_hold_no_compaction_up(
    given: Settings, writer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.store.connection.CLOSING_SECONDS", 0.2)
    refused: list[str] = []
    compact = writer.store.place.compact

    def refuse(run: RunSql) -> None:
        """As DuckDB does at times beside a transaction that is older than the last commit."""
        if writer._server is not None and writer._server.has_readers:
            refused.append("once more")
            raise StoreError("TransactionContext Error: Cannot CHECKPOINT: there are other ...")
        compact(run)

    monkeypatch.setattr(writer.store.place, "compact", refuse)
    with Store(given).reading() as reader:
        assert reader.value("SELECT count(*) FROM numbers") == 10
        writer.compact()
        assert len(refused) > 1
        with pytest.raises(ReadingEnded, match="puts it in order: ask again"):
            reader.rows("SELECT 1")
    assert count(given) == 10
    with pytest.raises(StoreError, match="nowhere"):
        monkeypatch.setattr(writer.store.place, "compact", lambda run: run("FROM nowhere"))
        writer.compact()


# --- room -----------------------------------------------------------------------------------------


def test_a_writer_without_memory_interrupts_readers_and_goes_on(
    given: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    small = given.model_copy(update={"store_memory": "60MB"})
    complaints: list[str] = []
    begun = threading.Event()

    def ask() -> None:
        with Store(given).reading() as busy:
            begun.set()
            try:
                busy.table(LONG)
            except ReadingEnded as error:
                complaints.append(str(error))

    tries = []

    def write() -> int:
        tries.append(1)
        with writing.transaction():
            if len(tries) == 1:
                writing.rows("SELECT list(range) FROM range(20000000)")
            writing.rows("INSERT INTO numbers VALUES (10)")
        return len(tries)

    with Store(small).writing() as writing:
        thread = threading.Thread(target=ask)
        thread.start()
        begun.wait()
        time.sleep(0.1)
        assert writing.retry(write) == 2
        thread.join()
        assert complaints == [served_reads.NO_MEMORY]
        assert "those who read are interrupted" in capsys.readouterr().err
        assert count(given) == 11
        wait_for_end(writing)
        with pytest.raises(StoreMemoryError):  # alone it is no fault of readers
            writing.rows("SELECT list(range) FROM range(20000000)")


def test_more_readers_than_there_is_room_for_wait_at_the_door(
    given: Settings, writer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    del writer
    monkeypatch.setattr(served_reads, "MOST", 2)
    with contextlib.ExitStack() as first:
        for _ in range(2):
            inside = first.enter_context(Store(given).reading())
            assert inside.value("SELECT count(*) FROM numbers") == 10
        with pytest.raises(StoreBusy), Store(given).reading():
            pass
        patient = given.model_copy(update={"store_wait_seconds": 30.0})
        threading.Timer(0.2, first.close).start()
        assert count(patient) == 10


def test_a_large_answer_is_not_held_by_the_writer(given: Settings, writer: Connection) -> None:
    """It leaves as its reader takes it; one that takes nothing more is in nobody's way."""
    channel = place_of(given).call()
    assert channel is not None
    with contextlib.closing(channel):
        channel.receive()
        sql = "SELECT range, md5(range::VARCHAR) FROM range(1000000000)"
        channel.send({"ask": "execute", "sql": sql, "parameters": []})
        for _ in range(3):
            channel.receive()
        writer.rows("INSERT INTO numbers VALUES (10)")
        assert count(given) == 11
    wait_for_end(writer)


def test_threads_are_answered_side_by_side(given: Settings, writer: Connection) -> None:
    shared, found = SharedReading(given), []

    def ask() -> None:
        for _ in range(5):
            with shared.reading() as reader:
                found.append(reader.value("SELECT count(*) FROM numbers"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(20):
        writer.rows("INSERT INTO numbers VALUES (?)", [number])
    for thread in threads:
        thread.join()
    assert len(found) == 40 and found[0] >= 10 and max(found) <= 30


# --- turns ----------------------------------------------------------------------------------------


def test_without_sockets_readers_take_turns(
    given: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.store.read_place.HAS_SOCKETS", False)
    with other_process(WRITES, given.store) as process:
        assert said(process) == "written"
        with pytest.raises(StoreBusy), Store(given).reading():
            pass
    with Store(given).writing() as writing:
        assert writing._server is None


def test_who_asks_nobody_takes_turns(given: Settings) -> None:
    off = given.model_copy(update={"store_serve_reads": False})
    with other_process(WRITES, given.store) as process:
        assert said(process) == "written"
        with pytest.raises(StoreBusy, match=f"held by process {process.pid}"), Store(off).reading():
            pass
        with pytest.raises(StoreBusy), Store(given).reading(alone=True):
            pass


def test_a_writer_that_answers_nobody_is_waited_for(given: Settings) -> None:
    with other_process(WRITES.replace("writing()", "writing(alone=True)"), given.store) as process:
        assert said(process) == "written"
        assert not place_of(given).note.exists()
        with pytest.raises(StoreBusy), Store(given).reading():
            pass


def test_another_version_takes_turns(given: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with other_process(WRITES, given.store) as process:
        assert said(process) == "written"
        monkeypatch.setattr("gdelphi.store.connection.schema_mark", lambda: "another")
        with pytest.raises(StoreBusy), Store(given).reading():
            pass


def test_a_copy_of_a_served_store_is_read_for_itself(
    given: Settings, writer: Connection, tmp_path: Path
) -> None:
    writer.rows("CHECKPOINT")
    copy = tmp_path / "copy.duckdb"
    shutil.copyfile(given.store, copy)
    shutil.copyfile(place_of(given).note, copy.with_name("copy.duckdb.serving"))
    writer.rows("DELETE FROM numbers")
    with Store(given.model_copy(update={"store": copy})).reading() as reader:
        assert not reader.is_answered and reader.value("SELECT count(*) FROM numbers") == 10


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"pid": 1, "socket": "/nowhere/x"}'])
def test_a_note_that_says_nothing_is_passed_over(given: Settings, note: str) -> None:
    place_of(given).note.write_text(note)
    with Store(given).reading() as reader:
        assert not reader.is_answered


def test_values_come_from_a_duckdb_without_files() -> None:
    with contextlib.closing(asked_reads._local()) as duck, pytest.raises(Exception, match="disab"):
        duck.execute("FROM read_text('/etc/hostname')")
