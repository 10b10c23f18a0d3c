"""A store in a lake beside a store in a file: equal content, times, kills; readers of both.

    python benchmarks/lake.py equal --demo data/demo
    python benchmarks/lake.py kills --kills 50
    python benchmarks/lake.py readers --demo data/demo --days 40 --readers 8 --seconds 600
    python benchmarks/lake.py readers --demo world --ways served turns    # no PostgreSQL

equal runs ingest, status, embed, forecast and report of a demo on both, compares what they left by
digest, and prints wall time and CPU time (of gdelphi, without PostgreSQL) with their ratios.

kills ends an ingestion into a lake at random moments, restarts PostgreSQL twice on the way, brings
other versions of files meanwhile, has two of them at once at the end, and compares with an
undisturbed run. Prints what they said of waiting and of trying again.

readers ingests the demo's archive, then all of it again and again in small transactions, alone and
beside readers who look at an answer for 0.2 to 1 seconds before they ask again (`--pause`; 0 0 is
without pause): of a file whose writer answers them (served), of one that they wait for (turns), of
a lake. Prints their errors and times, and how much longer the writer took. Any folder with an
archive/ will do: `gdelphi world create --out world` makes one.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import Settings, load_settings
from gdelphi.questions.shared_reading import SharedReading
from gdelphi.store.connection import Store
from gdelphi.store.status import read_status_from
from local_postgres import LocalPostgres
from made_archive import make_text, write_zip

KINDS = ("file", "lake")
WAYS = {"served": "file", "turns": "file", "lake": "lake"}
"""in which readers get at a store beside its writer"""
DAYS = 24  # of the archive of `kills`
# Few files in a transaction, so that there are many moments to be killed or to read at.
DRIVER = """
import sys
from gdelphi.store import prepare
prepare.BATCH_FILES = int(sys.argv.pop(1))
from gdelphi.app.cli import main
print("ready", flush=True)
main()
"""
TABLES = {
    "events": "SELECT * EXCLUDE (FileId), name FROM events JOIN (SELECT file_id, name FROM ledger) "
    "ON file_id = FileId",
    "duplicates": "SELECT GLOBALEVENTID, place, NewsDay FROM duplicates",
    "rejects": "SELECT file, line, reason, raw FROM rejects",
    "ledger": "SELECT name, status, md5, rows_in, accepted, rejected, duplicates FROM ledger",
    "day_sums": "SELECT * REPLACE (mentions::HUGEINT AS mentions) FROM day_sums",
}


@contextmanager
def surroundings() -> Iterator[tuple[Path, LocalPostgres]]:
    """A folder and a server, for a while."""
    server = LocalPostgres()
    try:
        with tempfile.TemporaryDirectory(prefix="gdelphi-lake-") as name:
            yield Path(name), server
    finally:
        server.remove()


def write_config(folder: Path, kind: str, server: LocalPostgres | None, archive: Path) -> Path:
    """The settings file of an empty store of a kind."""
    folder.mkdir(parents=True)
    lines = {"store": str(folder / "store.duckdb")}
    if kind == "lake":
        assert server is not None
        lines = server.make_lake(f"lake_{folder.name}".replace("-", "_"), folder)
        Path(lines["store_data"]).rename(folder / "store")
        lines["store_data"] = str(folder / "store")
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    text += f'[ingest]\narchive = "{archive}"\ndownloads = "{folder / "downloads"}"\n'
    text += f'[flows]\nmodels = "{folder / "models"}"\n[embed]\ncache = "{folder / "cache"}"\n'
    (folder / "gdelphi.toml").write_text(text)
    return folder / "gdelphi.toml"


def digests(settings: Settings) -> dict[str, Any]:
    """Number and digest of the rows of each table, without running numbers and times."""
    with Store(settings).reading() as connection:
        if connection.wrong_sums():
            raise SystemExit(f"{connection.name}: wrong sums {connection.wrong_sums()}")
        return {
            table: connection.rows(
                f"SELECT count(*), bit_xor(hash(r)), sum(hash(r)::HUGEINT) FROM ({sql}) r"
            )[0]
            for table, sql in TABLES.items()
        }


def folder_digest(folder: Path, patterns: tuple[str, ...]) -> str:
    """One digest of the files of a folder, by their names."""
    found = hashlib.sha256()
    for path in sorted(p for pattern in patterns for p in folder.rglob(pattern) if p.is_file()):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


# --- equal ----------------------------------------------------------------------------------------


def run_timed(*words: str) -> tuple[float, float, str]:
    """Wall and CPU seconds of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "gdelphi", *words], capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - began
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise SystemExit(f"gdelphi {' '.join(words)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def equal(demo: Path) -> int:
    """Everything on both; the number of stages that differ."""
    times: dict[str, dict[str, tuple[float, float]]] = {}
    marks: dict[str, dict[str, Any]] = {}
    with surroundings() as (folder, server):
        for kind in KINDS:
            config = write_config(folder / kind, kind, server, demo.absolute() / "archive")
            beside = config.parent
            shutil.copytree(demo / "models", beside / "models", symlinks=True)
            shutil.copytree(demo / "embeddings", beside / "cache")
            shutil.copytree(demo / "store.measures" / "space", beside / "store.measures" / "space")
            for stage, words in {
                "ingest": ["ingest"],
                "status": ["status", "--json"],
                "embed": ["embed"],
                "forecast": ["forecast"],
                "report": ["report"],
            }.items():
                print(f"{kind}: {stage}", file=sys.stderr, flush=True)
                wall, cpu, said = run_timed(*words, "--config", str(config))
                times.setdefault(stage, {})[kind] = wall, cpu
                marks.setdefault(stage, {})[kind] = stage_mark(stage, config, said)
    different = 0
    print(f"{'':10}{'file: wall, CPU s':>22}{'lake: wall, CPU s':>22}{'ratio':>14}  content")
    for stage, by in times.items():
        same = marks[stage]["file"] == marks[stage]["lake"]
        different += not same
        file, lake = by["file"], by["lake"]
        ratios = ", ".join(f"{two / one:.2f}" for one, two in zip(file, lake, strict=True))
        cells = [f"{one:.1f}, {two:.1f}" for one, two in (file, lake)]
        print(f"{stage:10}{cells[0]:>22}{cells[1]:>22}{ratios:>14}  {'equal' if same else 'OTHER'}")
        if not same:
            print(f"  {marks[stage]}")
    return different


def stage_mark(stage: str, config: Path, said: str) -> Any:
    """What a stage has left, without times and places."""
    settings = load_settings(config).settings
    if stage == "ingest":
        return digests(settings)
    if stage == "status":
        status = json.loads(said)
        for key in ("store", "duckdb", "last_run", "last_successful_run"):
            status.pop(key)
        return status
    folders = {"embed": config.parent / "store.measures", "forecast": config.parent / "forecasts"}
    if stage in folders:
        return folder_digest(folders[stage], ("*.parquet", "*.npy"))
    found = sorted((config.parent / "reports").rglob("report.json"))
    report = json.loads(found[-1].read_text())
    for key in ("complete_at", "issued_at", "published_at"):
        report.pop(key)
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()[:16]


# --- kills ----------------------------------------------------------------------------------------


def kills(number: int, seed: int) -> int:
    """Kill an ingestion that often; 1 if what it ends in is not what an undisturbed run gives."""
    rng = random.Random(seed)
    struck = ended = restarts = 0
    said: list[str] = []
    with surroundings() as (folder, server):
        archive = folder / "archive"
        make_versions(archive, 0)
        config = write_config(folder / "killed", "lake", server, archive)
        for place in range(number):
            if place and place % max(1, number // 5) == 0:
                make_versions(archive, place)  # other rows at the source: there is work again
            with Writer(config, folder / "said") as writer:
                time.sleep(rng.uniform(0.2, 6.0))
                if place in (number // 3, 2 * number // 3):
                    server.restart()
                    restarts += 1
                    writer.await_words("trying again")
                done = writer.kill()
                said += writer.notes()
            struck, ended = struck + (not done), ended + done
            print(f"{place + 1} of {number}: {struck} struck", file=sys.stderr, flush=True)
        make_versions(archive, 2)
        said += two_writers(config, folder)
        calm = write_config(folder / "calm", "file", server, archive)
        run_timed("ingest", "--config", str(calm), "--since", "2014-01-01")
        one, other = (digests(load_settings(folder / name / "gdelphi.toml").settings)
                      for name in ("killed", "calm"))  # fmt: skip
        left = len(list((folder / "killed" / "store").rglob("*.parquet")))
        words = ("store", "compact", "--json", "--keep-days", "0", "--config", str(config))
        kept = json.loads(run_timed(*words)[2])["after"]["files"]
        same = one == other == digests(load_settings(config).settings)
    for line in said:
        print(f"  {line}")
    print(
        f"{number} runs, {struck} killed on the way, {ended} had ended; PostgreSQL restarted "
        f"{restarts} times; {one['events'][0]:,} events, {left} files, {kept} when compacted: "
        f"{'the content of an undisturbed run' if same else 'OTHER CONTENT'}"
    )
    waited = any("waiting for process" in line for line in said)
    return not (same and waited)


class Writer:
    """An ingestion in small transactions, in a process of its own."""

    def __init__(self, config: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, "2", "ingest", "--config", str(config),
                 "--since", "2014-01-01", "--wait", "600"],
                stdout=subprocess.PIPE, stderr=said,
            )  # fmt: skip
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has imported all

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def await_words(self, words: str) -> None:
        """Until it has said something, or has ended."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit and self._process.poll() is None:
            if words in self._log.read_text():
                return
            time.sleep(0.1)

    def kill(self) -> bool:
        """True if it had ended by itself."""
        done = self._process.poll() is not None
        self._process.kill()
        return done

    def end(self) -> None:
        """Wait for it."""
        if self._process.wait():
            raise SystemExit(self._log.read_text())

    def notes(self) -> list[str]:
        """What it said of waiting, of trying again, and of giving up."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if line.startswith(("... ", "gdelphi: "))]


def two_writers(config: Path, folder: Path) -> list[str]:
    """Two ingestions at once: both end well, and what they said of each other."""
    with Writer(config, folder / "first") as one, Writer(config, folder / "second") as other:
        one.end()
        other.end()
        return [f"two writers: {line}" for line in (*one.notes(), *other.notes())]


def make_versions(archive: Path, version: int) -> None:
    """Days that share ids with their neighbours; each version has other rows in some of them."""
    archive.mkdir(exist_ok=True)
    for number in range(DAYS):
        day = datetime(2014, 1, 20, tzinfo=UTC) + timedelta(days=number)
        path = archive / f"{day:%Y%m%d}.export.CSV.zip"
        if version == 0 or (number + version) % 3 == 0:
            rows = 1_000 - version
            write_zip(path, make_text(1_000_000 + 990 * number, rows, day, quarter=False))


# --- readers --------------------------------------------------------------------------------------


def readers(archive: Path, habits: "Habits", ways: list[str], seconds: float) -> int:
    """Readers beside a writer, in each way; the number of errors."""
    errors = 0
    with contextlib.ExitStack() as opened:
        if "lake" in ways:
            folder, server = opened.enter_context(surroundings())
        else:
            made = tempfile.TemporaryDirectory(prefix="gdelphi-readers-")
            folder, server = Path(opened.enter_context(made)), None
        for kind in ways:
            config = write_config(folder / kind, WAYS[kind], server, archive)
            if kind == "turns":
                config.write_text(f"store_serve_reads = false\n{config.read_text()}")
            ingest_all(config)
            alone = min(ingest_all(config, "--force") for _ in range(2))
            asked = Readers(load_settings(config).settings, habits)
            asked.start()
            beside: list[float] = []
            try:
                while sum(beside) < seconds:
                    beside.append(ingest_all(config, "--force"))
            finally:
                asked.stop()
            errors += len(asked.errors)
            asked.show(kind)
            mean = statistics.mean(beside)
            print(
                f"  writer: {alone:.1f} s alone; {len(beside)} times beside them, {mean:.1f} s "
                f"each, {mean / alone:.2f} times as long; load {os.getloadavg()[1]:.1f}",
                flush=True,
            )
    return errors


def first_days(archive: Path, folder: Path, days: int) -> Path:
    """A folder with the first files of an archive."""
    folder.mkdir()
    files = sorted(archive.glob("*.zip"))[:days]
    for path in files:
        shutil.copyfile(path, folder / path.name)
    return folder


def ingest_all(config: Path, *words: str) -> float:
    """Ingest the whole archive, eight files in a transaction; seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-c", DRIVER, "8", "ingest", "--config", str(config), *words]
    done = subprocess.run(
        [*command, "--since", "2000-01-01", "--wait", "600"], capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return time.perf_counter() - began


class Habits(NamedTuple):
    """How many readers there are, and how long each looks at an answer."""

    readers: int
    pause: tuple[float, float]


class Readers:
    """Threads that ask, as those of the API do."""

    def __init__(self, settings: Settings, habits: Habits) -> None:
        self._pause = habits.pause
        self._settings = settings.model_copy(update={"store_wait_seconds": 120.0})
        self._shared = SharedReading(self._settings)
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=[n]) for n in range(habits.readers)
        ]
        self.times: list[float] = []
        self.errors: list[str] = []

    def _ask(self, number: int) -> None:
        place, rng = number, random.Random(number)
        while not self._end.wait(rng.uniform(*self._pause)):
            place += 1
            began = time.perf_counter()
            try:
                with self._shared.reading() as connection:
                    if place % 2:
                        read_status_from(connection, self._settings)
                    else:
                        connection.rows(
                            "SELECT Stream, sum(rows) FROM daily_counts GROUP BY ALL ORDER BY ALL"
                        )
            except GdelphiError as error:
                self.errors.append(str(error))
            self.times.append(time.perf_counter() - began)

    def start(self) -> None:
        self._began = time.perf_counter()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def show(self, kind: str) -> None:
        taken = sorted(self.times)
        p95 = taken[min(len(taken) - 1, int(len(taken) * 0.95))]
        print(
            f"{kind}: {len(self._threads)} readers, {time.perf_counter() - self._began:.0f} s, "
            f"{len(taken):,} answers, {len(self.errors)} errors; median "
            f"{statistics.median(taken):.3f} s, p95 {p95:.3f} s, longest {taken[-1]:.3f} s"
        )
        for error in self.errors[:5]:
            print(f"  {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["equal", "kills", "readers"])
    parser.add_argument("--demo", type=Path, default=Path("data/demo"))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--days", type=int, default=40, help="of the demo, for the readers")
    parser.add_argument("--pause", type=float, nargs=2, default=[0.2, 1.0], metavar="SECONDS")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}")
    if asked.what == "equal":
        sys.exit(bool(equal(asked.demo)))
    if asked.what == "kills":
        sys.exit(bool(kills(asked.kills, asked.seed)))
    habits = Habits(asked.readers, (asked.pause[0], asked.pause[1]))
    with tempfile.TemporaryDirectory(prefix="gdelphi-archive-") as name:
        archive = first_days(asked.demo / "archive", Path(name) / "archive", asked.days)
        sys.exit(bool(readers(archive, habits, asked.ways, asked.seconds)))


if __name__ == "__main__":
    main()
