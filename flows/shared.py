"""What the flows share: steps as Prefect tasks, the run lock, and who is told of a failure."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from prefect import get_run_logger, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from gdelphi.app.notify import notify
from gdelphi.app.run_lock import run_lock, take_unended
from gdelphi.common.garbage import collect_rarely
from gdelphi.common.settings import Settings, load_settings, with_absolute_paths
from gdelphi.common.workers import working_with
from gdelphi.gdelt.countries import with_streams

DOWNLOADS: Final = "ingest"  # the one step that is tried again: others would fail alike
DELAYS: Final = [60.0, 300.0, 900.0]  # seconds before each further try
WRITER: Final = "gdelphi-writer"  # tag of all tasks, for a limit on a server that several share
T = TypeVar("T")

collect_rarely()  # a process that imports flows is there to run them


def flow_settings() -> Settings:
    """The settings that a flow runs with: those of the process that runs it, as the command line
    finds them. Not a parameter of flows: settings name commands to run, and whoever may start a run
    is not to choose those.
    """
    return with_absolute_paths(with_streams(load_settings().settings))


@contextmanager
def chosen_workers(settings: Settings) -> Iterator[None]:
    """Within a flow: the workers that flows.runner names, for all work that is shared."""
    if settings.flows.runner == "local":
        yield
        return
    from gdelphi_flows.dask_workers import DaskWorkers  # not everybody installs Dask

    with DaskWorkers(settings.flows.runner) as workers, working_with(workers):
        yield


def run_day(as_of: date | None) -> date:
    """The day that a run is for; today (UTC) unless another is given."""
    return as_of or datetime.now(UTC).date()


class Tasks:
    """Carries out steps as tasks, within the time that a flow has, and shows how far it is."""

    def __init__(self, settings: Settings, steps: int) -> None:
        self._deadline = time.monotonic() + settings.flows.timeout_hours * 3600
        self._steps, self._done = steps, 0
        artifact: Any = create_progress_artifact(0.0, key="progress", description="of this run")
        self._progress: UUID = artifact

    def __call__(self, name: str, work: Callable[[], T], /) -> T:
        retries = (
            {"retries": len(DELAYS), "retry_delay_seconds": DELAYS} if name == DOWNLOADS else {}
        )
        options: dict[str, Any] = {
            "name": name, "tags": [WRITER], "cache_policy": NO_CACHE, "persist_result": False,
            "timeout_seconds": max(self._deadline - time.monotonic(), 1.0), **retries,
        }  # fmt: skip

        @task(**options)
        def step() -> T:
            return work()

        result = step()
        self._done += 1
        update_progress_artifact(self._progress, min(100.0 * self._done / self._steps, 100.0))
        return result


def locked_run(settings: Settings, what: str) -> AbstractContextManager[None]:
    """The run lock, held while a block runs; sends a notification of a run that did not end."""
    log = get_run_logger()

    def notify_unended(message: str) -> None:
        log.error(message)
        notify(settings.flows, f"gdelphi: {message}")

    return run_lock(settings, what, on_wait=log.info, on_unended=notify_unended)


def notify_failure(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Send a notification of a run that failed or crashed: the hook of all flows."""
    settings = flow_settings()
    unended = take_unended(settings) if state.is_crashed() else None
    message = " ".join(filter(None, (state.message, unended)))
    notify(settings.flows, f"gdelphi: {flow.name} ({flow_run.name}) {state.name}: {message}")
