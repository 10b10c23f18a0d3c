"""A trial: readers who ask a writer by DuckDB's Quack server, beside readers who take turns.

    pip install duckdb-extension-quack==1.5.5 duckdb-extension-httpfs==1.5.5   # as duckdb
    python benchmarks/quack.py --demo data/demo --seconds 60

The same writer (40 days of the demo, again and again in small transactions) and the same readers,
who ask for the daily counts and pause as those of `lake.py readers` do; once each opens the file in
its turn, once all ask the writer's process. Figures are in docs/LOG.md, and what was built in its
place is in `store/served_reads.py`.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import load_settings
from gdelphi.questions.shared_reading import SharedReading
from lake import first_days

EXTENSIONS = ("httpfs", "quack")  # without the first the server answers each request with 500
QUESTION = "SELECT Stream, sum(rows) FROM daily_counts GROUP BY ALL ORDER BY ALL"
WRITER = """
import sys, time
from datetime import date
from pathlib import Path
from gdelphi.store import prepare
prepare.BATCH_FILES = 8
from gdelphi.common.settings import load_settings
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestRequest, ingest
settings = load_settings(Path(sys.argv[1])).settings
if len(sys.argv) > 2:
    kept = Store(settings).open_duckdb(read_only=False)
    for file in sys.argv[3:]:
        kept.execute(f"LOAD '{file}'")
    kept.execute(f"CALL quack_serve('{sys.argv[2]}', token = 'trial')")
print("ready", flush=True)
for line in sys.stdin:
    began = time.perf_counter(), time.process_time()
    ingest(settings, IngestRequest(since=date(2000, 1, 1), force=True))
    print(time.perf_counter() - began[0], time.process_time() - began[1], flush=True)
"""


def extension(name: str) -> Path:
    """The file of an extension, as its package brings it."""
    found = find_spec(f"duckdb_extension_{name}")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        return Path(place) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    raise SystemExit(f"pip install duckdb-extension-{name}=={duckdb.__version__}")


class Asking:
    """Threads that ask, each by its own way in, and pause."""

    def __init__(self, number: int, way: Callable[[], Callable[[], Any]]) -> None:
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=[n, way]) for n in range(number)]
        self.times: list[float] = []
        self.errors: list[str] = []
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int, way: Callable[[], Callable[[], Any]]) -> None:
        rng, ask = random.Random(number), way()
        while not self._end.wait(rng.uniform(0.2, 1.0)):
            began = time.perf_counter()
            try:
                ask()
            except (GdelphiError, duckdb.Error) as error:
                self.errors.append(str(error).splitlines()[0])
            self.times.append(time.perf_counter() - began)

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def trial(config: Path, seconds: float, number: int, *, served: bool) -> None:
    settings = load_settings(config, {"store_wait_seconds": 120}).settings
    address = "quack:localhost:19494"
    words = [address, *map(str, map(extension, EXTENSIONS))] if served else []
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(config), *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert writer.stdin is not None and writer.stdout is not None
    with writer, writer.stdin, writer.stdout:
        writer.stdout.readline()

        def round_() -> tuple[float, float]:
            print("again", file=writer.stdin, flush=True)
            wall, cpu = map(float, writer.stdout.readline().split())  # type: ignore[union-attr]
            return wall, cpu

        round_()
        alone = round_()
        shared = SharedReading(settings)

        def in_turns() -> Callable[[], Any]:
            def ask() -> None:
                with shared.reading() as connection:
                    connection.rows(QUESTION)

            return ask

        def by_quack() -> Callable[[], Any]:
            own = duckdb.connect()
            for name in EXTENSIONS:
                own.execute(f"LOAD '{extension(name)}'")
            own.execute("CREATE SECRET (TYPE quack, TOKEN 'trial')")
            asked = f"FROM quack_query('{address}', '{QUESTION}')"
            return lambda: own.execute(asked).fetchall()

        asking = Asking(number, by_quack if served else in_turns)
        began, beside = time.perf_counter(), []
        try:
            while time.perf_counter() - began < seconds:
                beside.append(round_())
        finally:
            asking.stop()
    taken = sorted(asking.times)
    longer = sum(wall for wall, _ in beside) / len(beside) / alone[0]
    cpu = sum(one for _, one in beside) / len(beside)
    print(
        f"{'asked by Quack' if served else 'in turns'}: {len(taken):,} answers, "
        f"{len(asking.errors)} errors, median {median(taken):.3f} s, p95 "
        f"{taken[int(len(taken) * 0.95)]:.3f} s, longest {taken[-1]:.3f} s; the writer "
        f"{longer:.2f} times as long, {cpu:.1f} CPU s a round for {alone[1]:.1f} alone; "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    for error in asking.errors[:3]:
        print(f"  {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--demo", type=Path, default=Path("data/demo"))
    parser.add_argument("--days", type=int, default=40)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    for served in (False, True):
        with tempfile.TemporaryDirectory(prefix="gdelphi-quack-") as name:
            folder = Path(name)
            archive = first_days(asked.demo / "archive", folder / "archive", asked.days)
            config = folder / "gdelphi.toml"
            config.write_text(
                f'store = "{folder}/s.duckdb"\nstore_serve_reads = false\n'
                f'[ingest]\narchive = "{archive}"\n'
                f'downloads = "{folder}/downloads"\n'
            )
            trial(config, asked.seconds, asked.readers, served=served)


if __name__ == "__main__":
    main()
