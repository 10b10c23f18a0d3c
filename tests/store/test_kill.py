"""An ingestion that is killed anywhere, and started again, ends like an undisturbed one."""

import json
import random
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gdelphi.gdelt.layouts import BACKFILE, QUARTER
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, content_of, event_lines, settings_for
from helpers.command_line import gdelphi
from helpers.faulty_server import FaultyServer

KILLS = 8
# Children of one process, which has imported everything. Small batches, so that there are many
# moments between and inside transactions to be killed at.
DRIVER = """
import json, os, signal, sys, time
from gdelphi.store import ingest, prepare
from gdelphi.app.cli import main
prepare.BATCH_FILES = 3
waits, nothing = json.loads(sys.argv.pop(1)), os.open(os.devnull, os.O_WRONLY)
struck = 0
for seconds in waits:
    child = os.fork()
    if child == 0:
        os.dup2(nothing, 1), os.dup2(nothing, 2)
        main()
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        break
    struck += 1
print(struck)
"""
TOGETHER = """
from gdelphi.store import prepare
prepare.BATCH_FILES = 3
from gdelphi.app.cli import main
main()
"""


def make_archive(folder: Path, version: int = 0, days: int = 15) -> ArchiveMaker:
    """Files that share ids and hold bad lines; another version has other rows in some of them."""
    maker = ArchiveMaker(folder)
    start = date(2014, 1, 1)
    for number in range(days):
        day = start + timedelta(days=number)
        rows = 60 - 10 * version if number % 4 == 0 else 60
        ids = range(1000 * number + 1000, 1000 * number + 1000 + rows)
        shared = range(number, number + 5 - version)
        lines = event_lines([*shared, *ids], day, NumMentions=number)
        maker.day(day, [*lines, "broken"] if number % 5 == 0 else lines)
    for month in (3, 4):
        day = date(2012, month, 7)
        ids = range(90_000 + 1000 * month, 90_100 + 1000 * month)
        maker.month(day, event_lines([*range(10), *ids], day, BACKFILE))
    for slot in range(days // 3):
        moment = datetime(2014, 1, 20) + timedelta(minutes=15 * slot)
        ids = range(99_000 + 100 * slot, 99_030 + 100 * slot)
        maker.quarter(moment, event_lines(ids, moment.date(), QUARTER))
    maker.write_lists()
    return maker


def kill_until_done(arguments: list[str], rng: random.Random, kills: int) -> int:
    """Kill ingestions after a while, or until one gets through; how often a kill struck."""
    waits = json.dumps([rng.uniform(0, 0.6) for _ in range(kills)])
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, waits, "ingest", *arguments],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(ran.stdout)


def test_killed_at_many_moments_it_ends_in_the_same_content(tmp_path: Path) -> None:
    rng = random.Random(11)
    maker = make_archive(tmp_path / "archive", version=0)
    store = tmp_path / "killed" / "s.duckdb"
    since = ["--since", "2012-01-01", "--archive", str(maker.folder), "--store", str(store)]
    struck = kill_until_done(since, rng, KILLS // 2)
    make_archive(tmp_path / "archive", version=1)  # some files change at the source meanwhile
    struck += kill_until_done(since, rng, KILLS // 2)
    assert struck >= 5, "too few kills struck to show anything"

    killed = settings_for(store, maker.folder)
    final = gdelphi("ingest", *since)
    assert final.returncode == 0 and "rows" in final.stdout, final.stderr
    calm = settings_for(tmp_path / "calm" / "s.duckdb", maker.folder)
    ingest(calm)
    assert content_of(killed) == content_of(calm)
    left = {path.name for path in store.parent.iterdir()} - {"s.duckdb.sha256"}
    assert left == {"s.duckdb"}, "work folders and logs of killed runs are gone"


def test_killed_while_fetching_it_goes_on_from_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    maker = make_archive(tmp_path / "archive", days=9)
    store = tmp_path / "killed" / "s.duckdb"
    monkeypatch.setenv("GDELPHI_INGEST_DOWNLOADS", str(store.parent / "d"))
    with FaultyServer(maker.folder) as server:
        arguments = ["--since", "2012-01-01", "--archive", server.url, "--store", str(store)]
        kill_until_done(arguments, rng, 4)
        killed = settings_for(store, server.url)
        ingest(killed)
        calm = settings_for(tmp_path / "calm" / "s.duckdb", server.url)
        ingest(calm)
    assert content_of(killed) == content_of(calm)


def test_two_ingestions_at_once_take_turns_and_end_alike(tmp_path: Path) -> None:
    maker = make_archive(tmp_path / "archive", days=9)
    store = tmp_path / "both" / "s.duckdb"
    arguments = ["--since", "2012-01-01", "--archive", str(maker.folder), "--store", str(store)]
    command = [sys.executable, "-c", TOGETHER, "ingest", *arguments, "--wait", "600"]
    first, second = (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    )
    for process in (first, second):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors.decode()
    calm = settings_for(tmp_path / "calm" / "s.duckdb", maker.folder)
    ingest(calm)
    assert content_of(settings_for(store, maker.folder)) == content_of(calm)
