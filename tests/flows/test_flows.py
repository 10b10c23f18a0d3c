"""The flows: thin, installed, deployable, and honest about what failed."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.sections import FlowSettings
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.predictor import Predictor
from helpers.flow_harness import Stage, alone_variables, make_stage, put_in_use, skip_without
from helpers.forecast_world import predictor, settings
from helpers.training_world import one_thread

skip_without("prefect")
__all__ = ["one_thread", "predictor", "settings"]
pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
FLOWS = {
    "daily": "forecast", "train": "train", "ingest": "ingest", "backfill": "backfill",
    "backtest": "backtest",
}  # fmt: skip


# --- the package ----------------------------------------------------------------------------------


def test_no_package_is_missing_from_what_is_installed() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    source = ROOT / "src"
    there = {
        ".".join(path.parent.relative_to(source).parts) for path in source.rglob("__init__.py")
    }
    there.add("gdelphi_flows")
    assert set(tool["packages"]) == there
    assert tool["package-dir"] == {"": "src", "gdelphi_flows": "flows"}
    assert not list((ROOT / "flows").glob("*/*.py")), "a folder in flows/ would be a package too"


def test_flows_can_be_imported_outside_of_the_checkout_and_load_nothing_heavy(
    tmp_path: Path,
) -> None:
    script = (
        "import sys, gdelphi_flows.serve\n"
        "light = 'prefect' not in sys.modules\n"
        "import gdelphi_flows.schedule\n"
        "print(light, [name for name in ('torch', 'duckdb', 'pyarrow') if name in sys.modules])\n"
        "import gdelphi.app.bring; print('torch' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=alone_variables(tmp_path),
    )  # fmt: skip
    assert ran.stdout.split() == ["True", "[]", "False"], "nor does the flow that ingests"


@pytest.mark.parametrize("module", FLOWS.values())
def test_flows_are_thin(module: str) -> None:
    assert len((ROOT / "flows" / f"{module}.py").read_text().splitlines()) < 80


# --- one process that runs them all ---------------------------------------------------------------

DRIVER = """
import json, os, shutil, sys, time
from datetime import date
from pathlib import Path
from gdelphi.common.settings import load_settings
config, results = sys.argv[1], {}
settings = load_settings(Path(config)).settings
from gdelphi_flows import serve
api, secret = serve._running(settings)
os.environ.update(serve.environment(settings, api, Path(config), secret))
import httpx
from prefect.server.api.server import SubprocessASGIServer
from prefect.flows import load_flow_from_entrypoint
from prefect.client.orchestration import get_client
from gdelphi_flows import artifacts, shared
from gdelphi_flows.schedule import deployments, next_runs
from gdelphi_flows.forecast import daily
from gdelphi_flows.ingest import ingest
from gdelphi_flows.train import train
from gdelphi_flows.backfill import backfill
from gdelphi_flows.backtest import backtest

def described(made):
    schedules = [scheduled.schedule for scheduled in made.schedules or []]
    times = [getattr(when, "cron", None) or when.interval.total_seconds() for when in schedules]
    parameters = sorted(made._parameter_openapi_schema.properties)
    return [made.flow_name, made.entrypoint, made.parameters, parameters, times]

def strangers():
    url = f"{SubprocessASGIServer().api_url}/deployments/filter"
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answers = [
        httpx.post(url, json={}), httpx.post(url, json={}, auth=("gdelphi", "wrong")),
        httpx.get(url.replace("deployments/filter", "csrf-token?client=evil")),
        httpx.options(url, headers=headers),
    ]
    allowed = "access-control-allow-origin"
    return [[answer.status_code, answer.headers.get(allowed)] for answer in answers]

def recorded(client, flow_run):
    # The server records the ends of tasks a moment after the flow has seen them.
    for _ in range(120):
        runs = client.read_task_runs()
        own = [run.name for run in runs if run.flow_run_id == flow_run]
        ended = all(run.state and run.state.is_final() for run in runs)
        if ended and any(name.startswith("alerts") for name in own):
            break
        time.sleep(0.25)
    return runs

results["served"] = {made.name: described(made) for made in deployments(settings)}
results["often"] = {made.name: described(made) for made in deployments(settings, 9.0)}
results["next"] = next_runs(settings)
results["loaded"] = {
    name: load_flow_from_entrypoint(f"gdelphi_flows.{module}.{name}").name
    for name, module in json.loads(sys.argv[2]).items()
}
shared.DELAYS[:] = [0.0, 0.0]
ingest()
results["strangers"] = strangers()
train(as_of=date(2021, 6, 1), name="challenger-a")
backfill(date(2021, 3, 23), date(2021, 3, 23))
backtest(every=9)
results["namer"] = (settings.flows.models / "text-namer" / "model.safetensors").exists()
shutil.rmtree(settings.ingest.archive)
failed = daily(return_state=True)
results["failed"] = [failed.name, failed.message]
with get_client(sync_client=True) as client:
    runs = recorded(client, failed.state_details.flow_run_id)
    results["tasks"] = {
        run.name.rpartition("-")[0]: [run.run_count, sorted(run.tags), run.state.name]
        for run in runs if run.flow_run_id == failed.state_details.flow_run_id
    }
    results["retries"] = {run.name.rpartition("-")[0]: run.empirical_policy.retries for run in runs}
    results["artifacts"] = sorted({left.key for left in client.read_artifacts() if left.key})
print("RESULTS" + json.dumps(results))
"""


RULES = """
[alerts]
summary = ""
most = 1

[[alerts.rules]]
name = "likely tomorrow"
event = "all"
horizon = 1
threshold = 0.3
"""


@pytest.fixture(scope="module")
def stage(
    settings: Settings, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    made = make_stage(tmp_path_factory.mktemp("flows") / "stage", settings, hidden=1)
    with made.config.open("a") as config:
        config.write(RULES)
    made.settings = load_settings(made.config).settings
    put_in_use(made, predictor)
    return made


@pytest.fixture(scope="module")
def results(stage: Stage) -> dict[str, Any]:
    """What all flows did, in a process of its own with a Prefect of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(stage.config), json.dumps(FLOWS)],
        cwd=stage.folder, env=alone_variables(stage.folder), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert stage.processes() == [], "the server inside it has ended with it"
    reported: dict[str, Any] = json.loads(ran.stdout.rpartition("RESULTS")[2])
    return reported


def test_a_run_without_an_archive_fails_publishes_and_tells(
    stage: Stage, results: dict[str, Any]
) -> None:
    name, message = results["failed"]
    assert name == "Failed" and "PipelineError: ingest: " in message
    sent = [line for line in stage.notifications if "gdelphi-daily" in line]
    assert len(sent) == 1 and "Failed" in sent[0] and "ingest" in sent[0]
    assert stage.reports() == ["2021-03-23"], "made by the backfill, and again with its banner"
    page = (stage.folder / "reports" / "2021-03-23" / "report.json").read_text()
    assert json.loads(page)["stale"]


def test_alerts_are_a_task_of_the_daily_flow_and_are_sent(
    stage: Stage, results: dict[str, Any]
) -> None:
    """Of the backfill's forecast, though this run could not ingest; once, and kept as sent."""
    assert results["tasks"]["alerts"] == [1, ["gdelphi-writer"], "Completed"]
    told = "\n".join(stage.notifications)
    assert told.count("gdelphi alert 'likely tomorrow': ") == 1 and "more alerts" in told
    state = json.loads((stage.folder / "alerts" / "state.json").read_text())
    assert state["until"] == "2021-03-23" and state["pending"] == [] and len(state["on"]) > 1


def test_training_makes_a_namer_too(results: dict[str, Any]) -> None:
    assert results["namer"]
    assert "names" in results["retries"], "as a task of its own"


def test_only_downloads_are_tried_again(results: dict[str, Any]) -> None:
    assert results["tasks"]["ingest"] == [3, ["gdelphi-writer"], "Failed"]
    assert results["tasks"]["embed"] == [1, ["gdelphi-writer"], "Completed"]
    assert {name for name, retries in results["retries"].items() if retries} == {"ingest"}


def test_training_leaves_a_decision_and_the_others_their_tables(
    stage: Stage, results: dict[str, Any]
) -> None:
    log = (stage.folder / "models" / "promotions.jsonl").read_text().splitlines()
    assert [json.loads(line)["source"].rpartition("/")[2] for line in log][1:] == ["challenger-a"]
    wanted = ["backtest", "forecast-summary", "ingest", "progress", "promotion", "report"]
    assert results["artifacts"] == wanted
    assert list((stage.folder / "backtests").glob("*/summary.json"))


def test_the_server_of_a_single_run_refuses_strangers(
    stage: Stage, results: dict[str, Any]
) -> None:
    assert results["strangers"] == [[403, None], [403, None], [401, None], [400, None]]
    assert (stage.folder / "prefect").stat().st_mode & 0o777 == 0o700


# --- deployments ----------------------------------------------------------------------------------


def test_served_flows_have_the_times_of_the_settings(stage: Stage, results: dict[str, Any]) -> None:
    served, flows = results["served"], stage.settings.flows
    assert set(served) == set(FLOWS)
    for name, (flow, entrypoint, defaults, parameters, times) in served.items():
        assert flow == f"gdelphi-{name}"
        assert defaults == {} and "as_of" in parameters and "config" not in parameters
        assert entrypoint == f"gdelphi_flows.{FLOWS[name]}.{name}"
        wanted = {"daily": [flows.daily], "train": [flows.training]}.get(name, [])
        assert times == wanted
    assert [times for *_, times in results["often"].values() if times] == [[9.0]]
    assert len(results["next"]) == 2 and all("UTC" in line for line in results["next"])


def test_the_same_flows_are_deployed_to_work_pools(results: dict[str, Any]) -> None:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    deployed = {entry["name"]: entry for entry in content["deployments"]}
    assert {name: entry["entrypoint"] for name, entry in deployed.items()} == {
        name: entrypoint for name, (_, entrypoint, *_) in results["served"].items()
    }
    assert results["loaded"] == {name: f"gdelphi-{name}" for name in FLOWS}
    for entry in deployed.values():
        assert "parameters" not in entry, "which settings file is used is none"
        variables = entry["work_pool"]["job_variables"]["env"]
        assert variables == {"GDELPHI_CONFIG": "{{ $GDELPHI_CONFIG }}"}
    crons = {
        name: entry["schedules"][0]["cron"]
        for name, entry in deployed.items()
        if "schedules" in entry
    }
    assert crons == {"daily": FlowSettings().daily, "train": FlowSettings().training}
    assert all(entry["concurrency_limit"]["limit"] == 1 for entry in deployed.values())


# --- what cannot be served ------------------------------------------------------------------------


def test_bad_times_and_servers_are_refused(stage: Stage, tmp_path: Path) -> None:
    from gdelphi.common.errors import GdelphiError, ServeError
    from gdelphi_flows.serve import configured_server, run_once

    with pytest.raises(ServeError, match=r"no flow 'weekly'.*daily, train, ingest"):
        run_once(stage.settings, "weekly", None)
    settings = load_settings(flags={"flows.server": "http://host:4200/"}).settings
    assert configured_server(settings) == "http://host:4200/api"
    assert issubclass(ServeError, GdelphiError)
    assert shutil.which("prefect", path=str(Path(sys.executable).parent))
