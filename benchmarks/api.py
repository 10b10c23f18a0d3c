"""The HTTP API under strange requests, and under readers while an ingestion runs.

    python benchmarks/api.py fuzz --config data/demo/gdelphi.toml --requests 10000
    python benchmarks/api.py load --config data/demo/gdelphi.toml --readers 8

fuzz sends requests that Schemathesis makes up from the schema, good and bad, and addresses of its
own: real ones with letters changed, so that half of all questions reach an answer. Every answer is
held against the schema; an answer of 500 or more is a fault. In this process, without a network.

load copies the demo's forecasts, reports and archive, ingests the first half of the archive, starts
`gdelphi api`, and lets readers ask without pause while `gdelphi ingest` brings the other half, file
by file. Prints errors and times by kind of question; beside it the same without an ingestion.
"""

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings

from gdelphi.api.server import make_app
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.archive import forecasts_folder
from gdelphi.questions.questions import Questions
from gdelphi.report.report import reports_folder

LETTERS = "01249KEaz %/?&=#.,:;'\"<>\\\x00\x1b\u202e\ud7ff²ß-_~[]{}"
HOST = "http://localhost"


def open_settings(config: Path) -> Settings:
    """The settings of a demo, without a limit on requests."""
    settings = load_settings(config).settings
    api = settings.api.model_copy(update={"requests_per_minute": 0})
    return settings.model_copy(update={"api": api})


# --- fuzz -----------------------------------------------------------------------------------------


def real_addresses(settings: Settings, rng: random.Random) -> Callable[[], str]:
    """Makes up addresses that have an answer."""
    questions = Questions(settings)
    streams = [one.stream for one in questions.streams()]
    codes = [one.code for one in questions.events_known()]
    origins = ["latest", *(str(one.origin) for one in questions.forecast_list().forecasts)]
    last = questions.status().latest_complete_day

    def make() -> str:
        origin, stream = rng.choice(origins), rng.choice(streams)
        code, target = rng.choice(codes), rng.choice(("occurs", "headline", "surge"))
        horizon = rng.choice(("1", "3", "7", "week"))
        below = f"/api/forecasts/{origin}"
        return rng.choice(
            (
                "/api/status", "/api/streams", "/api/codes?level=base", "/", "/reports/",
                f"/reports/{last}/index.html", below, "/api/scores?level=full",
                f"{below}/probabilities?stream={stream}&event={code}&target={target}",
                f"{below}/probabilities?horizon={horizon}&order=above+usual&limit=20",
                f"{below}/outcomes?stream={stream}&horizon={horizon}",
                f"{below}/futures?stream={stream}&limit=3",
                f"{below}/futures?stream={stream}&horizon=week&offset=5&limit=3",
                f"{below}/explanation?stream={stream}&event={code}&target={target}",
                f"{below}/explanation?stream={stream}&event={code[:2]}&horizon={horizon}",
                f"/api/events?day={last}&stream={stream}&limit=5",
                f"/api/events?day={last}&stream=WORLD&event={code}",
            )
        )  # fmt: skip

    return make


def changed(address: str, rng: random.Random) -> str:
    """With a few letters replaced, doubled, left out or moved."""
    letters = list(address)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(1, len(letters) + 1)
        what = rng.randrange(4)
        if what == 0:
            letters[place : place + 1] = [quote(rng.choice(LETTERS))]
        elif what == 1:
            letters[place:place] = [quote(rng.choice(LETTERS))] * rng.choice((1, 2, 50))
        elif what == 2:
            del letters[place : place + rng.choice((1, 3))]
        else:
            letters[place:place] = letters[: rng.randrange(len(letters))]
    return "".join(letters) or "/"


def fuzz(settings: Settings, requests: int, seed: int) -> int:
    """Send requests; the number of faults."""
    import schemathesis

    app = make_app(settings)
    client = TestClient(app, base_url=HOST, raise_server_exceptions=False)
    rng, statuses, faults = random.Random(seed), Counter[int](), []
    make = real_addresses(settings, rng)
    for number in range(requests // 2):
        address = make() if number % 2 else changed(make(), rng)
        try:
            request = client.build_request("GET", f"{HOST}{address}")
        except Exception:  # noqa: BLE001 - the client itself refuses such an address
            continue
        answer = client.send(request)
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            faults.append(f"{address!r}: {answer.status_code} {answer.text}")
    refused = {"negative_data_rejection": {"expected-statuses": ["4xx"]}}  # 414 is one, too
    config = schemathesis.Config.from_dict({"checks": refused})
    schema = schemathesis.openapi.from_dict(app.openapi(), config=config)
    schema.app = app
    schema.config.update(base_url=HOST)
    operations = [found.ok() for found in schema.get_all_operations()]
    asked = [one for one in operations if one.query]
    for operation in asked:
        for mode in schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE:

            @hypothesis_settings(
                max_examples=requests // 4 // len(asked), deadline=None, database=None,
                phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: schemathesis.Case) -> None:
                statuses[case.call_and_validate(headers={"Host": "localhost"}).status_code] += 1

            try:
                check()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is a fault
                faults.append(f"{operation.label} {mode}: {error}")
    total = sum(statuses.values())
    while total < requests:  # small questions have few forms
        answer = client.get(make())
        statuses[answer.status_code] += 1
        total += 1
        if answer.status_code >= 500:
            faults.append(f"{answer.url}: {answer.status_code}")
    print(f"{total:,} requests; {dict(sorted(statuses.items()))}; {len(faults)} faults")
    for fault in faults[:10]:
        print(f"  {fault}")
    return len(faults)


# --- load -----------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_trial(settings: Settings, folder: Path) -> tuple[Path, list[Path]]:
    """A folder with half of the archive ingested; the settings file, and the files to come."""
    shutil.copytree(forecasts_folder(settings), folder / "forecasts")
    shutil.copytree(reports_folder(settings), folder / "reports")
    files = sorted(Path(settings.ingest.archive).glob("*.zip"))
    (folder / "archive").mkdir()
    half = len(files) // 2
    for path in files[:half]:
        shutil.copyfile(path, folder / "archive" / path.name)
    config = folder / "gdelphi.toml"
    config.write_text('store = "s.duckdb"\n[ingest]\narchive = "archive"\n')
    run_ingest(config)
    return config, files[half:]


def run_ingest(config: Path) -> int:
    command = [sys.executable, "-m", "gdelphi", "ingest", "--config", str(config)]
    return subprocess.run(command, capture_output=True, check=False).returncode


class Reader(threading.Thread):
    """Asks without pause until it is told to stop."""

    def __init__(self, base: str, make: Callable[[], str], stop: threading.Event) -> None:
        super().__init__()
        self._base, self._make, self._stop_asking = base, make, stop
        self.times: list[tuple[str, float]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._base, timeout=120) as client:
            while not self._stop_asking.is_set():
                address = self._make()
                began = time.perf_counter()
                try:
                    answer = client.get(address)
                    if answer.status_code != 200:
                        self.errors.append(f"{address}: {answer.status_code} {answer.text[:200]}")
                except httpx.HTTPError as error:
                    self.errors.append(f"{address}: {error!r}")
                kind = "store" if address.startswith(("/api/events", "/api/status")) else "files"
                self.times.append((kind, time.perf_counter() - began))


def load(settings: Settings, readers: int, rounds: int, seed: int) -> int:
    """Readers with and without an ingestion; the number of errors."""
    with tempfile.TemporaryDirectory() as name:
        config, coming = make_trial(settings, Path(name))
        port = free_port()
        command = [sys.executable, "-m", "gdelphi", "api", "--config", str(config)]
        command += ["--port", str(port), "--requests-per-minute", "0"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            base = f"http://127.0.0.1:{port}"
            await_server(base)
            own = open_settings(config)
            quiet = measure(own, base, readers, seed, lambda: time.sleep(20))
            failed: list[int] = []

            def bring() -> None:
                step = max(1, len(coming) // rounds)
                for first in range(0, len(coming), step):
                    for path in coming[first : first + step]:
                        shutil.copyfile(path, config.parent / "archive" / path.name)
                    failed.append(run_ingest(config))

            busy = measure(own, base, readers, seed + 1, bring)
        finally:
            server.terminate()
            server.wait()
    print(f"{readers} readers, {os.cpu_count()} cores, seconds")
    show("nothing else runs", quiet)
    show(f"{len(failed)} ingestions of {len(coming)} files", busy)
    print(f"ingestions that failed: {sum(code != 0 for code in failed)}")
    return len(quiet[1]) + len(busy[1]) + sum(code != 0 for code in failed)


Measured = tuple[list[tuple[str, float]], list[str], float]


def measure(
    settings: Settings, base: str, readers: int, seed: int, meanwhile: Callable[[], None]
) -> Measured:
    """Times, errors and duration while something runs."""
    make = [
        real_addresses_of_answers(settings, random.Random(seed + place)) for place in range(readers)
    ]
    stop = threading.Event()
    threads = [Reader(base, one, stop) for one in make]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    meanwhile()
    stop.set()
    for thread in threads:
        thread.join()
    times = [one for thread in threads for one in thread.times]
    return times, [one for thread in threads for one in thread.errors], time.perf_counter() - began


def real_addresses_of_answers(settings: Settings, rng: random.Random) -> Callable[[], str]:
    """Addresses that are answered with 200."""
    make = real_addresses(settings, rng)

    def answered() -> str:
        while True:
            address = make()
            if not ("explanation" in address and "horizon=" not in address) and (
                "/reports/20" not in address
            ):
                return address

    return answered


def await_server(base: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{base}/live/live.js")
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server does not answer")


def show(title: str, measured: Measured) -> None:
    times, errors, seconds = measured
    print(f"{title}: {len(times):,} requests in {seconds:.0f} s, {len(errors)} errors")
    for kind in ("files", "store"):
        own = sorted(taken for of, taken in times if of == kind)
        if own:
            p95, p99 = (own[min(len(own) - 1, int(len(own) * q))] for q in (0.95, 0.99))
            half = statistics.median(own)
            print(f"  {kind}: median {half:.3f}, p95 {p95:.3f}, p99 {p99:.3f}, max {own[-1]:.3f}")
    for error in errors[:5]:
        print(f"  {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["fuzz", "load"])
    parser.add_argument("--config", type=Path, default=Path("data/demo/gdelphi.toml"))
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4, help="ingestions one after the other")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    settings = open_settings(asked.config)
    if asked.what == "fuzz":
        sys.exit(bool(fuzz(settings, asked.requests, asked.seed)))
    sys.exit(bool(load(settings, asked.readers, asked.rounds, asked.seed)))


if __name__ == "__main__":
    main()
