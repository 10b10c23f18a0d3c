"""Work on many machines: portions of long work as Prefect tasks on the workers of a Dask cluster.

    flows.runner = "dask"                        workers that are started here, one for each core
    flows.runner = "dask:tcp://scheduler:8786"   those of a cluster that somebody else looks after

Commands and flows stay what they are: where the library shares work (`common/workers.py`), its
portions go to the cluster. The process that shares is the only one that commits: workers read the
store and write files of their days, each whole or not at all. Dask gives the portions of a worker
that is lost to another; done twice, a portion writes the same bytes to the same places.
"""

import logging
import os
import pickle
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import dask
from distributed import KilledWorker
from distributed.client import FutureCancelledError
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect_dask.task_runners import DaskTaskRunner

from gdelphi import __version__
from gdelphi.common.errors import ConfigError, GdelphiError
from gdelphi.common.garbage import collect_rarely
from gdelphi.common.workers import Work, do_alone
from gdelphi_flows.serve import HOST

DASK: Final = "dask"
PORTION: Final = "gdelphi-portion"  # tag of its tasks; not that of writers, which may be limited
LOOK_SECONDS: Final = 5.0
LOST_SECONDS: Final = 300.0  # without any worker, after which nobody is waited for


# --- the cluster ----------------------------------------------------------------------------------


class DaskWorkers:
    """The workers of a cluster; one that is ours is started with the first portion, and ends with
    the block."""

    def __init__(self, runner: str) -> None:
        self._address = runner.removeprefix(DASK).removeprefix(":") or None
        self._sent: tuple[Any, str, bytes] | None = None
        self._flow: Context = copy_context()
        self._seen = time.monotonic()
        self._stack = ExitStack()

    def __enter__(self) -> "DaskWorkers":
        if self._address:
            runner = DaskTaskRunner(address=self._address)
        else:
            logging.getLogger("distributed").setLevel(logging.ERROR)
            cluster = {
                "n_workers": os.cpu_count() or 1, "threads_per_worker": 1,
                "dashboard_address": f"{HOST}:0", "host": HOST,
                "silence_logs": logging.ERROR,
                "security": True,  # by keys that nobody else has: who talks to it can run code
            }  # fmt: skip
            # A process that is lost is started again; Dask would soon give up its place for lost.
            dask.config.set({"distributed.deploy.lost-worker-timeout": "7 days"})
            runner = DaskTaskRunner(cluster_kwargs=cluster)
        self._runner = self._stack.enter_context(runner)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    @property
    def number(self) -> int:
        """Of portions that can be done at once; there must be somebody to do them."""
        try:
            threads = self._runner.client.nthreads()
        except (OSError, TimeoutError) as error:
            raise GdelphiError(
                f"flows.runner: no Dask scheduler answers at {self._address} ({_said(error)}): "
                "start one with `dask scheduler`, or set another"
            ) from None
        if not threads:
            raise GdelphiError(
                f"flows.runner: the Dask scheduler at {self._address} has no workers: start some "
                f"with `dask worker {self._address} --nthreads 1`"
            )
        return sum(threads.values())

    def submit(self, work: Work[Any, Any], items: Sequence[Any]) -> "DaskPortion":
        """Have a portion done. The work is pickled once, and unpickled once by each worker."""
        if self._sent is None or self._sent[0] is not work:
            self._sent = (work, uuid4().hex, pickle.dumps(work))
        _, key, content = self._sent
        given = {"key": key, "content": content, "items": list(items), "version": __version__}
        # As a part of the flow, not of a step of it: all around a task is sent along with it.
        future = self._flow.copy().run(self._runner.submit, portion, given)
        return DaskPortion(future, self)

    def wait(self) -> None:
        """Between two looks for a result: an error if there has been nobody for long."""
        if self._runner.client.nthreads():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > LOST_SECONDS:
            raise GdelphiError(
                f"all Dask workers are gone, for {LOST_SECONDS:.0f} seconds: see their logs, start "
                "some, and run it again; what is done stays done"
            )


@dataclass(frozen=True)
class DaskPortion:
    """The results of a portion."""

    _future: Any
    _workers: DaskWorkers

    def result(self) -> list[Any]:
        """Wait for them; what went wrong there is raised here."""
        try:
            while not self._future.wrapped_future.done():
                with suppress(TimeoutError):
                    self._future.wrapped_future.result(timeout=LOOK_SECONDS)
                self._workers.wait()
            results: list[Any] = self._future.result()
            return results
        except KilledWorker as error:
            raise GdelphiError(
                f"{error.allowed_failures + 1} Dask workers have ended over the same portion of "
                "work, most likely for want of memory: see their logs; what is done stays done"
            ) from None
        except FutureCancelledError as error:
            raise GdelphiError(
                f"the Dask scheduler is lost ({_said(error)}): run it again; what is done stays "
                "done"
            ) from None

    def cancel(self) -> None:
        """It is not wanted any more."""
        self._future.wrapped_future.cancel()


def _said(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# --- what a worker does ---------------------------------------------------------------------------

_opened: dict[str, Work[Any, Any]] = {}  # in a worker: the work that it does now
_lock = threading.Lock()


def do_portion(key: str, content: bytes, items: list[Any], version: str) -> list[Any]:
    """Do a portion. Whatever the work opens (a model, a cache) stays open for the next one."""
    if version != __version__:
        raise ConfigError(
            f"a Dask worker has gdelphi {__version__}, and the work comes from {version}: install "
            "the same version on all machines"
        )
    with _lock:
        if key not in _opened:
            collect_rarely()
            _opened.clear()
            _opened[key] = pickle.loads(content)  # noqa: S301 - from whoever may run code here
        work = _opened[key]
    return do_alone(work, items)


# Under a name of its own: what goes by the name of its function is sent as a name, not as code.
portion = task(name="portion", tags=[PORTION], cache_policy=NO_CACHE, persist_result=False)(
    do_portion
)
