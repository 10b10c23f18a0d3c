"""Two Dask workers, of which one is killed, do what one process does, and nothing twice."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.errors import ServeError
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures import cloud_update
from gdelphi_flows import serve
from helpers.flow_harness import (
    PATIENCE,
    Stage,
    alone_variables,
    make_stage,
    put_in_use,
    skip_without,
)
from helpers.forecast_world import predictor, settings
from helpers.measured_world import changed, in_one_process
from helpers.shared_study import study
from helpers.training_world import one_thread

skip_without("prefect_dask")
__all__ = ["one_thread", "predictor", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")


def with_workers(config: Path) -> dict[str, Any]:
    """The study in a process of its own, by two workers."""
    variables = alone_variables(config.parent)
    variables["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parents[1]}"
    ran = subprocess.run(
        [sys.executable, "-m", "helpers.shared_study", str(config)],
        cwd=config.parent, env=variables, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    reported: dict[str, Any] = json.loads(ran.stdout.rpartition("RESULTS")[2])
    return reported


def fresh_copy(stage: Stage, folder: Path) -> Stage:
    """The same store and model without measures; the space stays."""
    shutil.copytree(stage.folder, folder, symlinks=True)
    for name in ("clouds", "descriptors", "packs", "stacks"):
        shutil.rmtree(folder / "s.measures" / name, ignore_errors=True)
    config = folder / "gdelphi.toml"
    return Stage(folder, config, load_settings(config).settings)


@pytest.fixture(scope="module")
def both(
    settings: Settings, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the study gives in one process, and with two workers of which one is killed."""
    root = tmp_path_factory.mktemp("dask")
    stage = make_stage(root / "stage", settings, hidden=1)
    put_in_use(stage, predictor)
    alone, shared = (fresh_copy(stage, root / name) for name in ("alone", "shared"))
    with in_one_process(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cloud_update, "ROWS_AT_ONCE", cloud_update.ROWS_AT_ONCE)  # it comes back
        found = json.loads(json.dumps(study(alone.settings, alone.folder)))
    result = with_workers(shared.config)
    assert shared.processes() == [], "workers and server have ended with it"
    return found, result


@pytest.mark.parametrize(
    "what",
    ["built", "days", "manifests", "pack", "forecasts", "made", "refused", "backtest", "sweep",
     "models"],
)  # fmt: skip
def test_workers_give_what_one_process_gives(
    both: tuple[dict[str, Any], dict[str, Any]], what: str
) -> None:
    alone, shared = both
    assert alone[what] and shared[what] == alone[what]


def test_workers_were_at_work_and_one_was_killed(
    both: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    alone, shared = both
    assert alone["killed"] == [] and alone["processes"] == 0
    assert len(shared["killed"]) == 1 and shared["processes"] == 2


def test_nothing_is_done_or_counted_twice(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    alone, shared = both
    for name, steps in shared["steps"].items():
        first = 0 if name == "judged" else 1
        assert steps == list(range(first, len(steps) + first)), name
        assert steps == alone["steps"][name]
    assert shared["made"] == [True, True, True, False], "the last one was there"


def test_what_cannot_work_is_one_line_with_the_remedy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = changed(settings, "flows", runner="dask:tcp://scheduler.example:8786")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with pytest.raises(ServeError, match=r"scheduler\.example cannot reach .* set flows\.server"):
        serve.run_shared(remote, "embed", lambda: None, None)
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: name == "prefect" or None)
    with pytest.raises(ServeError, match=r'pip install "gdelphi\[dask\]"'):
        serve.run_shared(remote, "embed", lambda: None, None)


def test_a_scheduler_that_is_not_there_is_told_of(
    both: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    said = both[1]["no scheduler"]
    assert said.startswith("flows.runner: no Dask scheduler answers at tcp://127.0.0.1:")
    assert "`dask scheduler`" in said
