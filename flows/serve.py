"""What `gdelphi serve` does: start a Prefect server and the process of flows, and watch both.

Prefect's server within a process fires no schedules, so a server of its own is started unless the
settings name one. This process imports neither Prefect nor the flows, it only watches the two:
whatever they are doing, to stop is to end two groups of processes, and none is left behind.
Server and flows share a secret (`access.py`), and the settings file is fixed here, for all runs.
"""

import importlib
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx

from gdelphi.app.notify import notify
from gdelphi.common.errors import ServeError
from gdelphi.common.settings import ENV_CONFIG, Settings
from gdelphi_flows import access
from gdelphi_flows.processes import Child

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 300.0  # a server makes its database first, and machines may be slow
LOOK_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 120.0  # a process that has run for so long did not fail at its start
RESTARTS: Final = 5  # in a row
ONCE: Final = {"daily": "forecast", "train": "train", "ingest": "ingest"}
"""flows that `--once` can run, and their modules"""
Say = Callable[[str], None]
T = TypeVar("T")


def prefect_home(settings: Settings) -> Path:
    """Prefect's own files lie beside the store, not in the user's home."""
    return settings.store.parent.resolve() / "prefect"


def environment(
    settings: Settings, api: str | None, config: Path | None = None, secret: str | None = None
) -> dict[str, str]:
    """Variables that Prefect and the flows run with; a server of our own knows a secret."""
    variables = {
        "PREFECT_HOME": str(prefect_home(settings)),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600",  # busy machines take long
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),  # see `gdelphi train`
    }
    if api:
        variables["PREFECT_API_URL"] = api
    if config:
        variables[ENV_CONFIG] = str(config.resolve())
    if secret:
        variables |= access.protection(secret, _own_page(settings))
    return {**os.environ, **variables}


def configured_server(settings: Settings) -> str | None:
    """URL of the API of a server that somebody else looks after."""
    url = settings.flows.server or os.environ.get("PREFECT_API_URL")
    return (
        None if not url else url if url.rstrip("/").endswith("/api") else f"{url.rstrip('/')}/api"
    )


# --- one run now ----------------------------------------------------------------------------------


def run_once(settings: Settings, name: str, config: Path | None) -> None:
    """Run a flow in this process; a server that is being served is told of it.

    Else one of our own is there for the time of the run. Prefect would start one by itself, which
    stays behind when this process is killed; ours ends with it.
    """
    _require_prefect()
    if name not in ONCE:
        raise ServeError(f"no flow {name!r} to run once: there are {', '.join(ONCE)}")
    with _some_server(settings, config):
        module = importlib.import_module(f"gdelphi_flows.{ONCE[name]}")
        getattr(module, name)()


def run_shared(settings: Settings, name: str, work: Callable[[], T], config: Path | None) -> T:
    """What a command does, shared among the workers that flows.runner names."""
    _require_prefect()
    if importlib.util.find_spec("prefect_dask") is None:
        raise ServeError(
            f"flows.runner = {settings.flows.runner!r} needs Dask, which is not installed: "
            'pip install "gdelphi[dask]", on all machines'
        )
    host = urlsplit(settings.flows.runner.removeprefix("dask:")).hostname
    if host and host not in (HOST, "localhost") and not configured_server(settings):
        raise ServeError(
            f"flows.runner: the workers of {host} cannot reach a Prefect server that runs here "
            "only: set flows.server to one that all machines reach"
        )
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")  # a line for each portion otherwise
    with _some_server(settings, config, "--no-services"):  # nobody looks at its page
        module = importlib.import_module("gdelphi_flows.as_flow")
        result: T = module.run_as_flow(name, settings, work)
        return result


@contextmanager
def _some_server(settings: Settings, config: Path | None, *options: str) -> Iterator[None]:
    """Prefect's variables are set within the block, for the server that is there or one of ours,
    which is started with these options."""
    api, secret = configured_server(settings), None
    with ExitStack() as stack:
        if not api:
            api, secret = _running(settings)
        if not api:
            api = stack.enter_context(_temporary_server(settings, config, secret, *options))
        os.environ.update(environment(settings, api, config, secret))
        yield


@contextmanager
def _temporary_server(
    settings: Settings, config: Path | None, secret: str | None, *options: str
) -> Iterator[str]:
    """The API of a server on a port that is free, which ends with the block or with us."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    flows = settings.flows.model_copy(update={"port": port})
    own = settings.model_copy(update={"flows": flows})
    api = _own_api(own)
    server = _server(own, environment(own, api, config, secret), *options)
    server.start()
    try:
        if not _await(server, api, threading.Event()):
            raise ServeError(f"{server.name} has not started: {_last_line(server.log)}")
        yield api
    finally:
        server.stop()


def _running(settings: Settings) -> tuple[str | None, str]:
    """The server that is being served and its secret; if there is none, one for Prefect's own."""
    home, api = prefect_home(settings), _own_api(settings)
    secret = access.secret_in_force(home)
    if secret and _answers(api, {os.getuid(), home.stat().st_uid}):
        return api, secret
    access.make_private(home)
    return None, access.new_secret()


def _require_prefect() -> None:
    if importlib.util.find_spec("prefect") is None:
        raise ServeError('Prefect is not installed: pip install "gdelphi[flows]"')


# --- the schedule ---------------------------------------------------------------------------------


def serve(settings: Settings, config: Path | None, *, every: float | None, say: Say) -> None:
    """Fire schedules until a signal asks to stop."""
    _require_prefect()
    configured, home, secret = configured_server(settings), prefect_home(settings), None
    with ExitStack() as stack:
        if not configured:
            secret = stack.enter_context(access.guarded(home))
            say(f"the password for Prefect's page is in {access.auth_file(home)}")
        api = configured or _own_api(settings)
        variables = environment(settings, api, config, secret)
        server = None if configured else _server(settings, variables)
        _look_after(settings, server, _flows(every, variables), api, say)
    say("stopped")


def _look_after(settings: Settings, server: Child | None, flows: Child, api: str, say: Say) -> None:
    """Run server and flows until a signal comes, then end both."""
    with _until_signal() as stop:
        try:
            _watch([server, flows] if server else [flows], api, stop, say)
        except ServeError as error:
            notify(settings.flows, f"gdelphi serve has stopped: {error}")
            raise
        finally:
            say("stopping")
            flows.stop()
            if server:
                server.stop()


def _own_page(settings: Settings) -> str:
    return f"http://{HOST}:{settings.flows.port}"


def _own_api(settings: Settings) -> str:
    return f"{_own_page(settings)}/api"


def _flows(every: float | None, variables: dict[str, str]) -> Child:
    command = [sys.executable, "-m", "gdelphi_flows.schedule"]
    command += ["--every", str(every)] if every else []
    return Child("the process that runs flows", command, variables)


def _server(settings: Settings, variables: dict[str, str], *options: str) -> Child:
    port = settings.flows.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ServeError(
                f"port {port} of {HOST} is taken ({error.strerror}): set another in flows.port or, "
                "if a Prefect server of yours is there, its URL in flows.server"
            ) from None
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", HOST]
    log = prefect_home(settings) / "server.log"
    own = {name: value for name, value in variables.items() if name != "PREFECT_API_URL"}
    return Child("the Prefect server", [*command, "--port", str(port), *options], own, log)


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """An event that a signal sets; the handlers from before come back."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {sign: signal.signal(sign, handle) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _watch(children: list[Child], api: str, stop: threading.Event, say: Say) -> None:
    """Start them one after another, and again when one ends."""
    failures = dict.fromkeys((child.name for child in children), 0)
    while not stop.is_set():
        for child in children:
            if stop.is_set():
                return
            code = child.ended()
            if child.pid and code is None:
                continue
            if child.pid:
                steady = time.monotonic() - child.since > STEADY_SECONDS
                failures[child.name] = 0 if steady else failures[child.name] + 1
                _give_up(child, failures[child.name], code)
                say(f"{child.name} has ended with {code}: starting it again")
                child.stop()  # what it has started
                stop.wait(_pause(failures[child.name]))
            child.start()
            if child.log:
                if not _await(child, api, stop):
                    break  # without a server the others have nobody to talk to
                say(f"Prefect's page is at {api.removesuffix('/api')}")
        stop.wait(LOOK_SECONDS)


def _pause(failures: int) -> float:
    """Seconds before another try."""
    return 2.0**failures - 1


def _give_up(child: Child, failures: int, code: int | None) -> None:
    if failures >= RESTARTS:
        reason = f": {_last_line(child.log)}" if child.log else ""
        raise ServeError(f"{child.name} has failed {failures} times, the last with {code}{reason}")


def _await(server: Child, api: str, stop: threading.Event) -> bool:
    """Whether it has come to answer; one that ends is left to whoever watches."""
    limit = time.monotonic() + START_SECONDS
    while not stop.is_set() and server.ended() is None:
        if _answers(api, {os.getuid()}):
            return True
        if time.monotonic() > limit:
            raise ServeError(f"{server.name} does not answer after {START_SECONDS:.0f} seconds")
        stop.wait(LOOK_SECONDS)
    return False


def _answers(api: str, users: Collection[int]) -> bool:
    """Whether a server of ours does; a stranger who was quicker to take the port is not to learn
    the secret, nor to say what is run."""
    try:
        healthy = httpx.get(f"{api}/health", timeout=5.0).is_success  # asks for no password
    except httpx.HTTPError:
        return False
    return healthy and access.listened_to_by(httpx.URL(api).port or 0, users)


def _last_line(log: Path | None) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log and log.exists() else []
    return lines[-1] if lines else "it said nothing"
