"""A month under `gdelphi serve`: a day comes, something goes wrong, and the report is awaited.

    gdelphi demo --out data/demo
    python benchmarks/month.py --demo data/demo --days 31 --work /tmp/month

A real Prefect server and schedule (`gdelphi serve --every 20`) work on an archive to which a day is
added whenever the report of the day before is there. On each day one kind of fault happens, in
turn. At the end there must be one forecast from each day and a report of each, none missing and
none doubled, and `gdelphi verify` must find nothing but what was damaged on purpose. Prints a line
a day.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from trial_folder import Trial, change_a_day, damages, make_trial, write_lists

PATIENCE = 900.0  # seconds for a day, on a busy machine
ON_PURPOSE = "2021-01-04/0123456789abcdef"


class Month:
    """The served folder and what is done to it."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial, self.rng = trial, random.Random(seed)
        self.log = trial.folder / "serve.log"
        self.served = self._serve()
        self.late: Path | None = None

    def _serve(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.trial.command("serve", "--every", "20"), stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def children(self, words: str) -> list[int]:
        """Processes of this folder whose command has some words."""
        wanted, found = str(self.trial.folder).encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                ours = wanted in (path / "environ").read_bytes()
                if ours and words.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    # What goes wrong, each in a function whose name says it.

    def nothing(self) -> None: ...

    def the_runner_is_killed(self) -> None:
        for pid in self.children("gdelphi_flows.schedule")[:1]:
            os.kill(pid, signal.SIGKILL)

    def a_run_is_killed(self) -> None:
        time.sleep(self.rng.uniform(5, 25))
        for pid in self.children("prefect.flow_engine") or self.children("prefect"):
            os.kill(pid, signal.SIGKILL)

    def the_server_is_killed(self) -> None:
        for pid in self.children("uvicorn") or self.children("server"):
            os.kill(pid, signal.SIGKILL)

    def all_is_stopped_and_served_again(self) -> None:
        self.served.send_signal(signal.SIGTERM)
        self.served.wait(120)
        self.served = self._serve()

    def gdelphi_serve_is_killed(self) -> None:
        self.served.kill()
        self.served.wait()
        deadline = time.monotonic() + 120
        while self.children("prefect") and time.monotonic() < deadline:
            time.sleep(0.5)
        self.served = self._serve()

    def a_day_is_replaced_at_the_source(self) -> None:
        change_a_day(self.trial.archive, self.rng, among=10)

    def a_day_is_late(self) -> None:
        path = sorted(self.trial.archive.glob("*.zip"))[-2]
        self.late = path.rename(self.trial.folder / path.name)
        write_lists(self.trial.archive)

    def a_file_is_garbage_for_a_while(self) -> None:
        path = self.trial.archive / "20200101.export.CSV.zip"
        path.write_bytes(self.rng.randbytes(3000))
        write_lists(self.trial.archive)

    def the_archive_is_gone_for_a_while(self) -> None:
        away = self.trial.archive.rename(self.trial.folder / "away")
        time.sleep(30)
        away.rename(self.trial.archive)

    def an_old_forecast_is_damaged(self) -> None:
        folder = self.trial.folder / "forecasts" / ON_PURPOSE
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "forecast.json").write_bytes(self.rng.randbytes(200))

    def the_pack_is_damaged(self) -> None:
        for path in (self.trial.folder / "store.measures" / "packs").glob("*/atom_points.bin"):
            with path.open("r+b") as file:
                file.seek(self.rng.randrange(path.stat().st_size))
                file.write(b"\xff")

    def downloads_are_full_of_rests(self) -> None:
        folder = self.trial.folder / "downloads" / "rest" / "4194303"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "20210901.export.CSV.zip.part").write_bytes(b"rest")

    def mend(self) -> None:
        """What lasts a day only."""
        (self.trial.archive / "20200101.export.CSV.zip").unlink(missing_ok=True)
        shutil.rmtree(self.trial.folder / "forecasts" / ON_PURPOSE, ignore_errors=True)
        if self.late is not None:
            self.late.rename(self.trial.archive / self.late.name)
            self.late = None
        write_lists(self.trial.archive)

    @property
    def faults(self) -> list[Callable[[], None]]:
        """All kinds of faults, in the order in which they come."""
        return [
            self.nothing, self.the_runner_is_killed, self.a_day_is_replaced_at_the_source,
            self.a_run_is_killed, self.an_old_forecast_is_damaged, self.the_server_is_killed,
            self.a_file_is_garbage_for_a_while, self.the_pack_is_damaged, self.a_day_is_late,
            self.all_is_stopped_and_served_again, self.the_archive_is_gone_for_a_while,
            self.gdelphi_serve_is_killed, self.downloads_are_full_of_rests,
        ]  # fmt: skip

    def await_report(self, day: str) -> float:
        """Wait for the report of a day; returns the seconds that it took."""
        began = time.monotonic()
        page = self.trial.folder / "reports" / day / "index.html"
        while not page.exists():
            if time.monotonic() - began > PATIENCE:
                sys.exit(f"no report of {day} after {PATIENCE:.0f} s: see {self.log}")
            time.sleep(0.5)
        return time.monotonic() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def judge(trial: Trial, days: list[str]) -> list[str]:
    """What is missing or doubled."""
    made = Counter(path.parent.name for path in (trial.folder / "forecasts").glob("*-*-*/[!.]*/"))
    made.pop("scores", None)
    problems = [f"no forecast from {day}" for day in days if not made[day]]
    problems += [f"no report of {day}" for day in days if not page_of(trial, day).exists()]
    # A day that was replaced at its source may be forecast from again, by its new rows.
    problems += [f"{made[day]} forecasts from {day}" for day in days if made[day] > 2]
    return problems + damages(trial)


def page_of(trial: Trial, day: str) -> Path:
    return trial.folder / "reports" / day / "index.html"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, default=Path("data/demo"))
    parser.add_argument("--work", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--days", type=int, default=31)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    trial = make_trial(given.demo, given.work, hidden=given.days + 1, port=free_port())
    month = Month(trial, given.seed)
    days: list[str] = []
    try:
        for number in range(given.days):
            fault = month.faults[number % len(month.faults)]
            days.append(trial.grow())
            fault()
            seconds = month.await_report(days[-1])
            print(f"day {number + 1}, {days[-1]}: {fault.__name__}; {seconds:.0f} s", flush=True)
            month.mend()
        days.append(trial.grow())
        month.await_report(days[-1])
    finally:
        month.served.send_signal(signal.SIGTERM)
        month.served.wait(120)
    done = trial.run("serve", "--once", "daily")
    problems = judge(trial, days)
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print(f"{len(days)} days, {len(problems)} problems; the last run ended with {done.returncode}")
    sys.exit(1 if problems or done.returncode else 0)


if __name__ == "__main__":
    main()
