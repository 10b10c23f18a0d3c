"""The schedule, for real: a server, three days, a run that is killed, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from flow_harness import Stage, alone_variables, make_stage, put_in_use, wait_for
from forecast_world import desk, settings
from gdelphi.config import Settings
from gdelphi.desk import Desk
from gdelphi.turns import turn_file
from gdelphi_flows import processes, serve
from gdelphi_flows.processes import Child
from gdelphi_flows.serve import ServeError
from measured_world import changed
from training_world import one_thread

pytest.importorskip("prefect")
__all__ = ["desk", "one_thread", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = 8  # seconds from one run to the next


class Serving:
    """`gdelphi serve` in a process of its own."""

    def __init__(self, stage: Stage, *arguments: str) -> None:
        self.stage = stage
        self.log = stage.folder / "serve.log"
        command = [sys.executable, "-m", "gdelphi.cli", "serve", "--config", str(stage.config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], cwd=stage.folder, env=alone_variables(stage.folder),
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def wait_for(self, look: Any, what: str) -> Any:
        try:
            return wait_for(look, what, self.process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-5000:]}") from None

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(120)


def running(stage: Stage) -> int | None:
    """The process of the run at work."""
    try:
        said = turn_file(stage.settings).read_text()
    except FileNotFoundError:
        return None
    return int(said.partition("process ")[2].partition(",")[0]) if "process " in said else None


def states(stage: Stage) -> list[str]:
    """Of all runs that have ended, as the server tells them."""
    url = f"http://127.0.0.1:{stage.settings.flows.port}/api/flow_runs/filter"
    found = httpx.post(url, json={"sort": "START_TIME_ASC"}, timeout=60).json()
    return [run["state_name"] for run in found if run["end_time"]]


def artifacts(stage: Stage) -> set[str]:
    """Names of all that runs have left on Prefect's page."""
    url = f"http://127.0.0.1:{stage.settings.flows.port}/api/artifacts/filter"
    return {each["key"] for each in httpx.post(url, json={}, timeout=60).json()}


def kill_run(stage: Stage, done: list[str]) -> int | None:
    """Kill the run at work in its middle, if it has not written a report yet."""
    pid = running(stage)
    if pid is None or stage.reports() != done:
        return None
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it was quicker
        return None
    return pid


def test_three_runs_and_a_killed_one_end_with_three_reports(
    settings: Settings, desk: Desk, tmp_path: Path
) -> None:
    stage = make_stage(tmp_path / "stage", settings, hidden=2)
    put_in_use(stage, desk)
    serving = Serving(stage, "--every", str(EVERY))
    try:
        serving.wait_for(lambda: len(stage.reports()) == 1, "the first report")
        serving.wait_for(lambda: "Completed" in states(stage), "the end of the first run")
        first = stage.reports()
        second = stage.grow()
        struck = serving.wait_for(lambda: kill_run(stage, first), "a run to kill")
        serving.wait_for(lambda: second in stage.reports(), "the report that the kill delayed")
        third = stage.grow()
        serving.wait_for(lambda: third in stage.reports(), "the third report")
        serving.wait_for(lambda: states(stage).count("Completed") >= 3, "three completed runs")
        serving.wait_for(lambda: "Crashed" in states(stage), "the state of the killed run")
        serving.wait_for(lambda: stage.told, "the message")
        assert stage.reports() == [*first, second, third]
        assert f"process {struck}" in " ".join(stage.told), "which run was killed is told"
        assert artifacts(stage) >= {"ingest", "forecast-summary", "report", "progress"}
    finally:
        code = serving.stop()
    said = serving.log.read_text()
    assert code == 0, said[-3000:]
    assert "Prefect's page is at" in said and "stopped" in said and "every 8 seconds" in said
    assert "Traceback" not in said, said
    assert stage.processes() == []
    assert not (stage.folder / "home").exists(), "nothing is written into the user's home"


# --- looking after processes ----------------------------------------------------------------------

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[1], "second"])
print("ready", flush=True)
time.sleep(600)
"""


def child_of(tmp_path: Path, script: str, *arguments: str) -> Child:
    command = [sys.executable, "-c", script, *arguments]
    return Child("a process", command, dict(os.environ), tmp_path / "log")


def said_by(child: Child) -> str:
    assert child.log is not None
    return child.log.read_text() if child.log.exists() else ""


def test_a_child_is_ended_with_all_that_it_started_even_if_it_will_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.5)
    child = child_of(tmp_path, STUBBORN, STUBBORN)
    child.start()
    wait_for(lambda: said_by(child).count("ready") == 2, "both processes")
    os.kill(child.pid, signal.SIGKILL)  # the one that is looked after; what it started lives on
    wait_for(lambda: child.ended() is not None, "its end")
    assert child._members()
    child.stop()
    assert not child._members()
    child.stop()  # again: nothing to do


def test_a_child_ends_with_whoever_looks_after_it(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from gdelphi_flows.processes import Child\n"
        "child = Child('x', [sys.executable, '-c', 'import time; time.sleep(600)'], os.environ)\n"
        "child.start(); print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    pid = int(ran.stdout)
    wait_for(lambda: processes._group_of(Path(f"/proc/{pid}/stat")) is None, "its end")


def test_a_child_that_ends_is_started_again_and_one_that_fails_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "RESTARTS", 3)
    monkeypatch.setattr(serve, "_pause", lambda failures: 0.0)
    child = child_of(tmp_path, "import sys; sys.exit('no database')")
    child.log, log = None, child.log
    said: list[str] = []
    with pytest.raises(ServeError, match="a process has failed 3 times, the last with 1"):
        serve._watch([child], "http://127.0.0.1:9/api", threading.Event(), said.append)
    assert said == ["a process has ended with 1: starting it again"] * 2
    log.write_text("first\nno database\n")
    child.log = log
    with pytest.raises(ServeError, match="with 2: no database"):
        serve._give_up(child, 3, 2)


def test_a_port_that_is_taken_is_told_of(settings: Settings) -> None:
    with socket.socket() as other:
        other.bind((serve.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServeError, match=rf"port {port} .*taken.*flows\.port.*flows\.server"):
            serve._server(changed(settings, "flows", port=port), {})
