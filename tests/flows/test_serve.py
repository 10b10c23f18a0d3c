"""The schedule, for real: a server that strangers get nothing from, two days, a run that is
killed, and nothing left behind. All tests of the server share one; the last of them stops it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gdelphi.app.run_lock import lock_file
from gdelphi.common.errors import AccessError, ServeError
from gdelphi.common.settings import Settings
from gdelphi.forecast.predictor import Predictor
from gdelphi_flows import access, processes, serve
from gdelphi_flows.processes import Child
from helpers.flow_harness import (
    Patient,
    Stage,
    alone_variables,
    make_stage,
    put_in_use,
    skip_without,
    token_for,
    toml_of,
    wait_for,
)
from helpers.forecast_world import predictor, settings
from helpers.measured_world import changed
from helpers.training_world import one_thread

skip_without("prefect")
__all__ = ["one_thread", "predictor", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = 25  # seconds from one run to the next


class Serving:
    """`gdelphi serve` in a process of its own."""

    def __init__(self, stage: Stage, *arguments: str) -> None:
        self.stage = stage
        self.log = stage.folder / "serve.log"
        command = [sys.executable, "-m", "gdelphi", "serve", "--config", str(stage.config)]
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

    def once(self, name: str) -> str:
        """What a single run says, beside all that is served."""
        command = [sys.executable, "-m", "gdelphi", "serve", "--once", name, "--config"]
        ran = subprocess.run(
            [*command, str(self.stage.config)], cwd=self.stage.folder, capture_output=True,
            env=alone_variables(self.stage.folder), text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-5000:]
        return ran.stdout + ran.stderr

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(120)


@pytest.fixture(scope="module")
def serving(
    settings: Settings, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """A server that is up, with a run every few seconds."""
    stage = make_stage(tmp_path_factory.mktemp("serve") / "stage", settings, hidden=2)
    put_in_use(stage, predictor)
    made = Serving(stage, "--every", str(EVERY))
    try:
        made.wait_for(lambda: "Prefect's page is at" in made.log.read_text(), "the server")
        yield made
    finally:
        if "api" in vars(stage):
            stage.api.close()
        if made.process.poll() is None:
            made.stop()


def running(stage: Stage) -> int | None:
    """The process of the run at work."""
    try:
        holder = lock_file(stage.settings).read_text()
    except FileNotFoundError:
        return None
    return int(holder.partition("process ")[2].partition(",")[0]) if "process " in holder else None


def states(stage: Stage, flow: str = "daily") -> list[str]:
    """Of all runs of a flow that have ended, as the server tells them."""
    query = {"sort": "START_TIME_ASC", "flows": {"name": {"any_": [f"gdelphi-{flow}"]}}}
    runs = stage.api.post("flow_runs/filter", json=query).raise_for_status().json()
    return [run["state_name"] for run in runs if run["end_time"]]


def deployment(stage: Stage, name: str) -> str | None:
    """Its id, once the server knows it."""
    rows = stage.api.post("deployments/filter", json={}).raise_for_status().json()
    return next((row["id"] for row in rows if row["name"] == name), None)


def artifacts(stage: Stage) -> set[str]:
    """Names of all that runs have left on Prefect's page."""
    rows = stage.api.post("artifacts/filter", json={}).raise_for_status().json()
    return {row["key"] for row in rows}


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


# --- strangers ------------------------------------------------------------------------------------

EVIL_PAGE = "http://evil.example"
SHELL = {"prefect.deployments.steps.run_shell_script": {"script": "touch struck"}}


def attacks(client: httpx.Client, target: str) -> list[int]:
    """What the server answers to who wants to see, to start a run, and to change what it does."""
    answers = [
        client.get(f"deployments/{target}"),
        client.post("deployments/filter", json={}),
        client.post(f"deployments/{target}/create_flow_run", json={}),
        client.patch(f"deployments/{target}", json={"pull_steps": [SHELL]}),
    ]
    return [answer.status_code for answer in answers]


def test_who_has_no_password_can_neither_look_nor_change_anything(serving: Serving) -> None:
    stage, base = serving.stage, f"{serving.stage.page}/api"
    with httpx.Client(base_url=base, timeout=60, transport=Patient()) as stranger:
        assert stranger.post("deployments/filter", json={}).status_code in (401, 403)
        target = serving.wait_for(lambda: deployment(stage, "ingest"), "the deployments")
        assert attacks(stranger, target) == [401, 403, 403, 403]
        assert stranger.get("csrf-token", params={"client": "evil"}).status_code == 401
        stranger.headers.update(token_for(stage.api, "stolen"))
        assert attacks(stranger, target) == [401] * 4, "even with a token"
        stranger.auth = httpx.BasicAuth("gdelphi", "wrong")
        assert attacks(stranger, target) == [401] * 4
        assert stranger.get("health").status_code == 200, "that it is there is no secret"
    user, password = stage.secret.split(":")
    with httpx.Client(
        base_url=base, auth=(user, password), timeout=60, transport=Patient()
    ) as forged:
        assert attacks(forged, target) == [200, 403, 403, 403], "a page that has no token"
    assert not stage.api.get(f"deployments/{target}").json()["pull_steps"]


def test_other_pages_are_told_nothing(serving: Serving) -> None:
    stage = serving.stage
    url, allowed = f"{stage.page}/api/deployments/filter", "access-control-allow-origin"
    asks = {"Access-Control-Request-Method": "POST"}
    for origin, wanted in ((EVIL_PAGE, None), ("null", None), (stage.page, stage.page)):
        answer = httpx.options(url, headers={**asks, "Origin": origin}, timeout=60)
        assert answer.headers.get(allowed) == wanted
        assert answer.is_success == bool(wanted)
        seen = httpx.get(f"{stage.page}/api/health", headers={"Origin": origin}, timeout=60)
        assert seen.headers.get(allowed) == wanted


def test_the_password_is_in_one_file_that_nobody_else_can_read(serving: Serving) -> None:
    home = serving.stage.folder / "prefect"
    assert (home / "auth").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    password = serving.stage.secret.partition(":")[2]
    assert len(password) > 40
    assert str(home / "auth") in serving.log.read_text(), "where it is, is told"
    shown = httpx.get(f"{serving.stage.page}/ui-settings", timeout=60).json()
    assert shown["auth"] == "BASIC" and shown["csrf_enabled"], "Prefect's page asks for it"
    for log in (serving.log, home / "server.log"):
        assert password not in log.read_text()
    commands = [Path(f"/proc/{pid}/cmdline") for pid in serving.stage.processes()]
    started = [path.read_bytes() for path in commands if path.exists()]
    assert len(started) >= 3 and not any(password.encode() in command for command in started)


def test_a_run_cannot_choose_its_settings(
    serving: Serving, settings: Settings, tmp_path: Path
) -> None:
    stage, other = serving.stage, tmp_path / "evil.toml"
    other.write_text(toml_of(tmp_path, settings))  # names a command, for runs that fail
    scheduled = {"state": {"type": "SCHEDULED"}}
    forged = {**scheduled, "parameters": {"config": str(other)}}
    for name, request in (("backtest", forged), ("ingest", scheduled)):
        target = serving.wait_for(lambda name=name: deployment(stage, name), "the deployments")
        stage.api.post(f"deployments/{target}/create_flow_run", json=request).raise_for_status()
    assert "temporary server" not in serving.once("ingest"), "it talks to the one that is there"
    serving.wait_for(lambda: len(states(stage, "ingest")) == 2, "the runs that were asked for")
    serving.wait_for(lambda: states(stage, "backtest"), "the run with other settings")
    assert states(stage, "ingest") == ["Completed"] * 2
    assert states(stage, "backtest") == ["Crashed"]
    serving.wait_for(lambda: "gdelphi-backtest" in " ".join(stage.notifications), "who is told")
    assert list(tmp_path.iterdir()) == [other], "nothing was run for it"


def test_one_server_at_a_time_has_its_password_in_the_file(tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    assert access.secret_in_force(home) is None
    with access.guarded(home) as secret:
        assert access.secret_in_force(home) == secret
        with pytest.raises(AccessError, match="another `gdelphi serve`"), access.guarded(home):
            pass
    assert access.secret_in_force(home) is None and access.auth_file(home).read_text() == ""
    access.auth_file(home).chmod(0o644)
    with access.guarded(home) as another:
        assert another != secret
        assert access.auth_file(home).stat().st_mode & 0o777 == 0o600
    access.auth_file(home).unlink()
    access.auth_file(home).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AccessError, match="cannot be written"), access.guarded(home):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(AccessError, match="closed to others"):
        access.make_private(tmp_path / "file" / "prefect")


def test_a_server_of_somebody_else_is_not_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind((serve.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        assert access.listened_to_by(port, {os.getuid()})
        assert not access.listened_to_by(port, {os.getuid() + 1})
    api = f"http://{serve.HOST}:{port}/api"
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200))
    monkeypatch.setattr(access, "listened_to_by", lambda *_: False)
    assert not serve._answers(api, {os.getuid()})


# --- two days -------------------------------------------------------------------------------------


def test_two_runs_and_a_killed_one_end_with_two_reports(serving: Serving) -> None:
    stage, before = serving.stage, len(serving.log.read_text())
    try:
        serving.wait_for(lambda: len(stage.reports()) == 1, "the first report")
        serving.wait_for(lambda: "Completed" in states(stage), "the end of the first run")
        first = stage.reports()
        second = stage.grow()
        struck = serving.wait_for(lambda: kill_run(stage, first), "a run to kill")
        serving.wait_for(lambda: second in stage.reports(), "the report that the kill delayed")
        serving.wait_for(lambda: states(stage).count("Completed") >= 2, "two completed runs")
        serving.wait_for(lambda: "Crashed" in states(stage), "the state of the killed run")
        killed = f"process {struck}"
        serving.wait_for(lambda: killed in " ".join(stage.notifications), "the message")
        assert stage.reports() == [*first, second]
        assert artifacts(stage) >= {"ingest", "forecast-summary", "report", "progress"}
    finally:
        stage.api.close()
        code = serving.stop()
    log = serving.log.read_text()
    assert code == 0, log[-3000:]
    assert "Prefect's page is at" in log and "stopped" in log and f"every {EVERY} seconds" in log
    assert "Traceback" not in log[before:], log
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


def output_of(child: Child) -> str:
    assert child.log is not None
    return child.log.read_text() if child.log.exists() else ""


def test_a_child_is_ended_with_all_that_it_started_even_if_it_will_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.5)
    child = child_of(tmp_path, STUBBORN, STUBBORN)
    child.start()
    wait_for(lambda: output_of(child).count("ready") == 2, "both processes")
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


def test_a_run_without_a_server_has_one_that_ends_with_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not Prefect's own, which a killed run leaves behind."""
    here = settings.model_copy(update={"store": tmp_path / "data" / "s.duckdb"})  # not there yet
    started: list[Child] = []
    seen: list[tuple[str | None, int | None]] = []

    def server(_settings: Settings, variables: dict[str, str]) -> Child:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(Child("the server", command, variables, tmp_path / "log"))
        return started[0]

    def run() -> None:
        seen.append((os.environ.get("PREFECT_API_URL"), started[0].ended()))

    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("PREFECT_API_URL", None)
    monkeypatch.setattr(serve, "_server", server)
    monkeypatch.setattr(serve, "_await", lambda *_: True)
    stub = SimpleNamespace(ingest=run)
    monkeypatch.setattr(serve.importlib, "import_module", lambda _: stub)
    serve.run_once(here, "ingest", None)
    assert serve.prefect_home(here).is_dir(), "its database has a place"
    assert len(started) == 1 and len(seen) == 1
    api, ended = seen[0]
    assert api and api.startswith("http://127.0.0.1:") and ended is None
    assert started[0].ended() is not None, "it has ended with the run"


def test_a_child_that_ends_is_started_again_and_one_that_fails_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "RESTARTS", 3)
    monkeypatch.setattr(serve, "_pause", lambda failures: 0.0)
    child = child_of(tmp_path, "import sys; sys.exit('no database')")
    child.log, log = None, child.log
    messages: list[str] = []
    with pytest.raises(ServeError, match="a process has failed 3 times, the last with 1"):
        serve._watch([child], "http://127.0.0.1:9/api", threading.Event(), messages.append)
    assert messages == ["a process has ended with 1: starting it again"] * 2
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
