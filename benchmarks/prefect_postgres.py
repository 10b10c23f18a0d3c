"""A command shared among Dask workers, with Prefect's database on PostgreSQL.

    python benchmarks/prefect_postgres.py --days 60

Starts a PostgreSQL (`debian_postgres.py`), a Prefect server on it, a Dask scheduler and two
workers, as docs/scale.md has them for several machines. A small world is embedded and packed by one
process, by the workers, and by workers of which one is killed (SIGKILL) in the middle. Prints what
Prefect's database knows of each run, and whether all left the same bytes.

Everything runs as the documentation says, by commands: nothing here imports Prefect or Dask.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from debian_postgres import DebianPostgres
from gdelphi.common.settings import load_settings
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config

HOST = "127.0.0.1"
PATIENCE = 300.0
COMMANDS = ("embed", "sequences")
RUNS = ("one process", "two workers", "two workers, one killed")
PATTERNS = ("**/*.parquet", "**/manifest.json", "packs/**/*.bin")
KILL_AT = 0.3  # of the days, after which a worker is killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--days", type=int, default=60)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gdelphi-prefect-")))
        world = create_world(world_config("demo", {"days": asked.days}), folder / "archive")
        sys.exit(not all_alike(stack, folder, asked.days, world.rows))


def all_alike(stack: ExitStack, folder: Path, days: int, rows: int) -> bool:
    """All runs, one after the other; whether they left the same."""
    database = DebianPostgres("prefect")
    stack.callback(database.remove)
    cluster = stack.enter_context(started(folder, database))
    print(f"{database.version}; {days} days, {rows:,} rows", flush=True)
    left = {}
    for name in RUNS:
        config = write_config(folder / name.replace(" ", "-").replace(",", ""), folder / "archive")
        shared = {} if name == RUNS[0] else cluster.variables
        before, began = children_seconds(), time.perf_counter()
        for command in COMMANDS:
            kill = cluster.kill_worker if (name, command) == (RUNS[2], "embed") else None
            run(config, command, shared, days, kill)
        cpu, wall = children_seconds() - before, time.perf_counter() - began
        left[name] = digests(config.parent / "measures")
        print(
            f"{name}: {wall:.0f} s, {cpu:.0f} CPU s of its own, {len(left[name])} files", flush=True
        )
        if shared:
            tell_runs(database)
    other = {name for one in left.values() for name in one if one[name] != left[RUNS[0]].get(name)}
    same = all(one == left[RUNS[0]] for one in left.values()) and len(left[RUNS[0]]) > days
    twice = database.rows(
        "SELECT count(*) FROM task_run_state WHERE type = 'COMPLETED' "
        "GROUP BY task_run_id HAVING count(*) > 1"
    )
    known = database.rows("SELECT state_type, count(*) FROM task_run GROUP BY 1 ORDER BY 1")
    states = {state: int(number) for state, number in known}
    print(f"portions by their state: {states}; completed twice: {len(twice)}")
    alike = "the same bytes" if same else f"OTHER BYTES: {sorted(other)}"
    print(f"workers killed: {len(cluster.killed)}; {alike}")
    return same and not twice and len(cluster.killed) == 1


def write_config(folder: Path, archive: Path) -> Path:
    """A folder with its own store and nothing measured."""
    folder.mkdir()
    lines = [f'store = "{folder}/store.duckdb"', "[ingest]", f'archive = "{archive}"']
    lines += ["[embed]", 'encoder = "hashing"', "[measures]", f'folder = "{folder}/measures"']
    lines += ["[sequences]", "variants = 1", "[split]", "embargo_days = 2"]
    config = folder / "gdelphi.toml"
    config.write_text("\n".join(lines) + "\n")
    ingest(load_settings(config).settings)
    return config


def run(
    config: Path,
    command: str,
    variables: dict[str, str],
    days: int,
    kill: Callable[[], None] | None,
) -> None:
    """A command to its end; a worker is killed when some of the days have been described."""
    log = config.parent / f"{command}.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "gdelphi", command, "--config", str(config)],
            env={**os.environ, **variables}, stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
    while process.poll() is None:
        there = sum(1 for _ in config.parent.glob("measures/descriptors/**/*.parquet"))
        if kill and there >= KILL_AT * days:
            print(f"  a worker is killed with {there} of {days} days described", flush=True)
            kill()
            kill = None
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"gdelphi {command}: {log.read_text()[-2000:]}")


def digests(folder: Path) -> dict[str, str]:
    """Of the files that the commands leave."""
    found = {path for pattern in PATTERNS for path in folder.glob(pattern) if path.is_file()}
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(found)
    }


def tell_runs(database: DebianPostgres) -> None:
    """What Prefect's database has of the last run of each command."""
    rows = database.rows(
        "SELECT flow.name, flow_run.state_type, count(task_run.id) FROM flow_run "
        "JOIN flow ON flow.id = flow_run.flow_id "
        "LEFT JOIN task_run ON task_run.flow_run_id = flow_run.id "
        "GROUP BY flow_run.id, flow.name, flow_run.state_type, flow_run.created "
        f"ORDER BY flow_run.created DESC LIMIT {len(COMMANDS)}"
    )
    for name, state, tasks in reversed(rows):
        print(f"  in PostgreSQL: {name} {state}, {tasks} portions", flush=True)


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- servers --------------------------------------------------------------------------------------


class Cluster:
    """The Prefect server, the Dask scheduler and its workers."""

    def __init__(self, variables: dict[str, str], workers: list["subprocess.Popen[bytes]"]) -> None:
        self.variables, self._workers = variables, workers
        self.killed: list[int] = []

    def kill_worker(self) -> None:
        worker = self._workers[0]
        os.kill(worker.pid, signal.SIGKILL)
        self.killed.append(worker.pid)


@contextmanager
def started(folder: Path, database: DebianPostgres) -> Iterator[Cluster]:
    """All servers, for the time of the block."""
    page, scheduler = free_port(), free_port()
    given = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.url,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
    }
    api = f"http://{HOST}:{page}/api"
    address = f"tcp://{HOST}:{scheduler}"
    at_work = {**given, "PREFECT_API_URL": api}
    del at_work["PREFECT_SERVER_DATABASE_CONNECTION_URL"]  # only the server asks PostgreSQL
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, variables: dict[str, str], *words: str) -> "subprocess.Popen[bytes]":
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *words], env={**os.environ, **variables}, stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        processes.append(process)
        return process

    try:
        start(
            "prefect",
            given,
            "-m",
            "prefect",
            "server",
            "start",
            "--host",
            HOST,
            "--port",
            str(page),
        )
        wait_for(lambda: answers(f"{api}/health"), folder / "prefect.log")
        dask = ["-m", "distributed.cli.dask_scheduler", "--host", HOST, "--port", str(scheduler)]
        start("scheduler", given, *dask, "--no-dashboard")
        wait_for(lambda: listens(scheduler), folder / "scheduler.log")
        worker = ["-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        workers = [start(f"worker{n}", at_work, *worker, "--no-dashboard") for n in range(2)]
        for number in range(2):
            wait_for(lambda n=number: "Registered to" in (folder / f"worker{n}.log").read_text(),
                     folder / f"worker{number}.log")  # fmt: skip
        yield Cluster({**at_work, "GDELPHI_FLOWS_RUNNER": f"dask:{address}"}, workers)
    finally:
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(look: Callable[[], bool], log: Path) -> None:
    limit = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > limit:
            raise SystemExit(f"{log.name} has not come to answer: {log.read_text()[-2000:]}")
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(json.load(answer) is True)
    except OSError:
        return False


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
