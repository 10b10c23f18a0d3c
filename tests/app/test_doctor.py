"""The doctor finds what would stop a run, and says what to do."""

import json
import socket
from collections.abc import Iterator
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from gdelphi.app.cli import app
from gdelphi.app.doctor import Finding, examine
from gdelphi.common.settings import Settings
from helpers.measured_world import changed, copied_store

STALE = 30


@pytest.fixture
def settings(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A small store with its archive, and a free port."""
    copied = copied_store(tmp_path_factory, tmp_path / "here")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return changed(copied, "flows", port=port, models=tmp_path / "models")


def findings(settings: Settings, as_of: date | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(settings, as_of=as_of)}


def last_day(settings: Settings) -> date:
    from gdelphi.store.status import read_status

    day = read_status(settings).last_day
    assert day is not None
    return day


def test_a_good_machine_has_no_failure(settings: Settings) -> None:
    by_name = findings(settings, last_day(settings) + timedelta(days=1))
    assert not [finding for finding in by_name.values() if finding.state == "failure"]
    assert {"python", "torch", "disk", "archive", "store", "prefect"} <= {
        name for name, finding in by_name.items() if finding.state == "ok"
    }
    assert by_name["measures"].remedy == "gdelphi embed"
    assert "gdelphi promote" in by_name["model"].remedy


def test_a_stale_store_is_a_warning(settings: Settings) -> None:
    finding = findings(settings, last_day(settings) + timedelta(days=STALE))["store"]
    assert finding.state == "warning"
    assert "stale" in finding.says


def test_a_store_that_is_no_database_is_a_failure(settings: Settings) -> None:
    settings.store.write_bytes(b"not a database" * 1_000)
    finding = findings(settings)["store"]
    assert finding.state == "failure"
    assert str(settings.store) in finding.says


def test_an_archive_that_is_not_there_is_a_failure(settings: Settings, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    finding = findings(changed(settings, "ingest", archive=gone))["archive"]
    assert finding.state == "failure"
    assert gone in finding.says
    assert "mirror" in finding.remedy


class _Site(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/events/md5sums" else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Site)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("place", "state"), [("events/", "ok"), ("elsewhere/", "failure")])
def test_a_site_is_asked_for_its_list(
    settings: Settings, site: str, place: str, state: str
) -> None:
    finding = findings(changed(settings, "ingest", archive=f"{site}/{place}"))["archive"]
    assert finding.state == state


def test_a_server_that_does_not_answer_is_a_failure(settings: Settings) -> None:
    server = f"http://127.0.0.1:{settings.flows.port}/api"
    finding = findings(changed(settings, "flows", server=server))["prefect"]
    assert finding.state == "failure"
    assert "flows.server" in finding.remedy


def test_a_port_that_is_taken_is_a_warning(settings: Settings) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", settings.flows.port))
        other.listen()
        finding = findings(settings)["prefect"]
    assert finding.state == "warning"
    assert "flows.port" in finding.remedy


def test_half_a_model_is_a_failure(settings: Settings) -> None:
    current = settings.flows.models / "current"
    current.mkdir(parents=True)
    (current / "config.json").write_text("{}")
    finding = findings(settings)["model"]
    assert finding.state == "failure"
    assert "model.safetensors" in finding.says
    assert "--rollback" in finding.remedy


def test_the_command_tells_all_and_fails_where_a_run_would(
    settings: Settings, tmp_path: Path
) -> None:
    config = tmp_path / "gdelphi.toml"
    config.write_text(f'store = "{settings.store}"\n[ingest]\narchive = "{tmp_path / "gone"}"\n')
    done = CliRunner().invoke(app, ["doctor", "--config", str(config), "--json"])
    assert done.exit_code == 1
    told = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert told["archive"]["state"] == "failure"
    shown = CliRunner().invoke(app, ["doctor", "--config", str(config)])
    assert "FAILURE" in shown.stdout
    assert told["archive"]["remedy"] in shown.stdout
