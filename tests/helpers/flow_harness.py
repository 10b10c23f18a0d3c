"""What tests of flows share: a small world whose archive grows, a model in use, Prefect apart."""

import hashlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from gdelphi.app.promote import promote
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.predictor import Predictor
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.embed import embed
from gdelphi.store.ingest import ingest
from helpers.measured_world import in_one_process
from helpers.training_world import SEQUENCES

PATIENCE = 600.0  # seconds to wait for what takes ten: machines may be busy
Seen = TypeVar("Seen")
SITE = """import os
os.cpu_count = lambda: 1
from gdelphi.common.garbage import collect_rarely
collect_rarely()
"""
"""what each process of a run does first, also those of Prefect and Dask"""


def skip_without(package: str) -> None:
    """Skip a file whose processes need a package; it is not imported here."""
    if find_spec(package) is None:
        pytest.skip(f"no {package}: install gdelphi[dev]", allow_module_level=True)


class Patient(httpx.HTTPTransport):
    """Asks again while the server's database is busy (503), as Prefect's own client does."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        last = time.monotonic() + PATIENCE
        while True:
            response = super().handle_request(request)
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > last:
                return response
            response.close()
            time.sleep(0.5)


@dataclass(eq=False)
class Stage:
    """A folder with all that runs need; its archive shows one day more when asked to."""

    folder: Path
    config: Path
    settings: Settings
    hidden: list[Path] = field(default_factory=list)

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    @property
    def notifications(self) -> list[str]:
        """Notifications that were sent."""
        path = self.folder / "notifications"
        return path.read_text().splitlines() if path.exists() else []

    def grow(self) -> str:
        """One more day in the archive; its name as in a report's folder."""
        source = self.hidden.pop(0)
        shutil.copyfile(source, self.archive / source.name)
        write_lists(self.archive)
        return f"{source.name[:4]}-{source.name[4:6]}-{source.name[6:8]}"

    def reports(self) -> list[str]:
        """Origins that have a report."""
        pages = (self.folder / "reports").glob("*-*-*/index.html")
        return sorted(page.parent.name for page in pages)

    @property
    def page(self) -> str:
        """Where Prefect's page is."""
        return f"http://127.0.0.1:{self.settings.flows.port}"

    @property
    def secret(self) -> str:
        """User and password of the server, as its file says them."""
        return (self.folder / "prefect" / "auth").read_text().strip()

    @cached_property
    def api(self) -> httpx.Client:
        """Somebody who may talk to the server: has the password, and a token against forgery."""
        user, password = self.secret.split(":")
        client = httpx.Client(
            base_url=f"{self.page}/api", auth=(user, password), timeout=60, transport=Patient()
        )
        client.headers.update(token_for(client, "tests"))
        return client

    def processes(self) -> list[int]:
        """Everything that lives and was started for this folder: its name is in the variables."""
        wanted = str(self.folder).encode()
        living = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                ended = (path / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                if not ended and wanted in (path / "environ").read_bytes():
                    living.append(int(path.name))
            except OSError:  # it has ended meanwhile, or is not ours
                continue
        return sorted(set(living) - {os.getpid()})


def token_for(client: httpx.Client, name: str) -> dict[str, str]:
    """Headers by which the server knows that a change is not asked for by another page."""
    token = client.get("csrf-token", params={"client": name}).raise_for_status().json()["token"]
    return {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": name}


def write_lists(archive: Path) -> None:
    """md5sums and filesizes of the files that are there."""
    files = {path.name: path.read_bytes() for path in sorted(archive.glob("*.zip"))}
    sums = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    (archive / "md5sums").write_text("".join(f"{sums[name]}  {name}\n" for name in files))
    (archive / "filesizes").write_text("".join(f"{len(files[name])} {name}\n" for name in files))


def make_stage(folder: Path, settings: Settings, *, hidden: int) -> Stage:
    """The small world without its last days, nothing ingested, its model in use."""
    source = Path(settings.ingest.archive)
    files = sorted(source.glob("*.zip"))
    (folder / "archive").mkdir(parents=True)
    for path in files[:-hidden]:
        shutil.copyfile(path, folder / "archive" / path.name)
    write_lists(folder / "archive")
    shutil.copytree(measures_folder(settings) / "space", folder / "s.measures" / "space")
    config = folder / "gdelphi.toml"
    config.write_text(toml_of(folder, settings))
    return Stage(folder, config, load_settings(config).settings, files[-hidden:])


def toml_of(folder: Path, settings: Settings) -> str:
    """A settings file for processes of their own."""
    sent = str(folder / "notifications")
    script = f"import sys; open({sent!r}, 'a').write(sys.stdin.read() + chr(10))"
    lines = ['store = "s.duckdb"', "[ingest]", 'archive = "archive"', "attempts = 1"]
    lines += ["[embed]", 'encoder = "hashing"', "[measures]", 'folder = "s.measures"']
    lines += ["[split]", "embargo_days = 2", "[sequences]", "variants = 0"]
    lines += [f"{name} = {value}" for name, value in SEQUENCES.items()]
    train = settings.train.model_dump(mode="json")
    lines += ["[train]", *(f"{name} = {_toml(value)}" for name, value in train.items())]
    lines += ["[text]", "namer_steps = 2", "width = 8", "heads = 2", "inner = 16"]
    lines += ["layers = 1"]
    command = f'{sys.executable} -c "{script}"'
    lines += [
        "[flows]",
        'models = "models"',
        'streams = "top2"',
        f"port = {free_port()}",
        f"notify_command = '''{command}'''",
    ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def put_in_use(stage: Stage, predictor: Predictor) -> None:
    """The small world's model, after the days that are there have been measured."""
    ingest(stage.settings)
    with in_one_process():
        embed(stage.settings)
        promote(stage.settings, predictor.folder)


def alone_variables(folder: Path) -> dict[str, str]:
    """Variables of a machine where nothing is set for Prefect, and that has one core: starting
    further processes takes longer than the work of a small world."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    paths = [str(site), *filter(None, [kept.get("PYTHONPATH")])]
    given = {"HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    return {**kept, **given, "PYTHONPATH": os.pathsep.join(paths)}


def wait_for(look: Callable[[], Seen], what: str, process: Any = None) -> Seen:
    """What `look` returns, once it is something; no fixed time is waited."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if seen := look():
            return seen
        if process is not None and process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode} while waiting for {what}")
        time.sleep(0.1)
    raise AssertionError(f"waited {PATIENCE:.0f} seconds for {what}")
