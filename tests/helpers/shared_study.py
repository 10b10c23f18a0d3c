"""A study that one process does, or two Dask workers: what it makes, as digests."""

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from gdelphi.app.elsewhere import carry_out
from gdelphi.common import workers
from gdelphi.common.errors import GdelphiError
from gdelphi.common.files import file_digest
from gdelphi.common.progress import Silent
from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures import cloud_update
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.embed import embed
from gdelphi.measures.packing import make_sequences
from helpers.flow_harness import free_port

KILL_AT = 8
"""days described, after which a worker is killed"""
ROWS_AT_ONCE = 1500
"""so few that several workers gather the clouds"""


class Watch(Silent):
    """Keeps what it is told, and kills a worker."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = {}
        self.processes: set[int] = set()
        self.killed: list[int] = []

    def gathered(self, done: int, total: int, rows: int) -> None:
        self.steps.setdefault("gathered", []).append(done)

    def described(self, done: int, total: int, made: int) -> None:
        self.steps.setdefault("described", []).append(done)
        crew: Any = workers._workers.get()
        if done == KILL_AT and crew:
            self.processes = set(crew._runner.client.run(os.getpid).values())
            self.killed = [min(self.processes)]
            os.kill(self.killed[0], signal.SIGKILL)

    def day_done(self, done: int, total: int) -> None:
        self.steps.setdefault("judged", []).append(done)


def digests(folder: Path, *patterns: str) -> dict[str, str]:
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): file_digest(path)[:16] for path in found}


def study(settings: Settings, folder: Path) -> dict[str, Any]:
    """Embed, pack, forecast, judge and sweep."""
    # Here: Dask's workers import this file when they begin, and one is killed before that matters.
    from gdelphi.forecast.forecast import (
        ForecastRequest,
        ForecastResult,
        forecasts,
        open_predictor,
    )
    from gdelphi.judge.backtest import BacktestRequest, backtest
    from gdelphi.judge.day import BacktestOptions
    from gdelphi.model.sweep import SweepRequest, sweep

    cloud_update.ROWS_AT_ONCE = ROWS_AT_ONCE
    watch, measures = Watch(), measures_folder(settings)
    made = embed(settings, progress=watch)
    packed = make_sequences(settings).packed
    model, last = settings.flows.models / "current", Clouds(measures).days[-1]
    origins = [last - timedelta(days=number) for number in (2, 1, 0)]
    request = ForecastRequest(model, origins[0], futures=5, as_of=last + timedelta(days=9))
    opened = open_predictor(settings, request)
    asked = [*origins, last + timedelta(days=99)]
    told = [*forecasts(settings, request, asked, opened)]
    again = [*forecasts(settings, request, origins[:1], opened)]
    kept = [one for one in (*told, *again) if isinstance(one, ForecastResult)]
    out = folder / "backtest"
    options = BacktestOptions(futures=5)
    backtest(settings, BacktestRequest(model, out, every=4, options=options), watch)
    ran = sweep(settings, SweepRequest(folder / "sweep", (0, 1), {"train.steps": ("2",)}))
    return {
        "built": [made.gathered.built, made.gathered.rows, made.described.built],
        "days": digests(measures, "clouds/*/*.parquet", "descriptors/*/*/*.parquet"),
        "manifests": digests(measures, "clouds/manifest.json", "descriptors/*/manifest.json"),
        "pack": digests(packed.folder, "*.bin"),
        "forecasts": {one.forecast.folder.name: dict(one.forecast.manifest.files) for one in kept},
        "made": [one.made for one in kept],
        "refused": str(told[-1]),
        "backtest": digests(out, "scores/*/*.parquet"),
        "sweep": {run.name: [run.choice, run.seed, run.score, run.steps] for run in ran},
        "models": digests(folder / "sweep", "*/model.safetensors"),
        "steps": watch.steps, "processes": len(watch.processes), "killed": watch.killed,
    }  # fmt: skip


def no_scheduler() -> str:
    """What is said where none answers."""
    import dask

    from gdelphi_flows.dask_workers import DaskWorkers

    dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with DaskWorkers(f"dask:tcp://127.0.0.1:{free_port()}") as crew:
        try:
            return str(crew.number)
        except GdelphiError as error:
            return str(error)


def main(config: Path) -> None:
    """With two workers."""
    os.cpu_count = lambda: 2
    settings = load_settings(config, {"flows.runner": "dask"}).settings
    found = carry_out(settings, "study", lambda given: study(given, config.parent), config)
    found["no scheduler"] = no_scheduler()
    print("RESULTS" + json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
