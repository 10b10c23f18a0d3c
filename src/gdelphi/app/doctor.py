"""What `gdelphi doctor` looks at: everything that a night's run needs, and what to do about it.

Each check does the real thing in small: it encodes a sentence, opens the store, asks the archive
for the head of its list, binds the port. A check never raises and never changes anything. A failure
is what stops a run; a warning is what makes one poorer, or what only some runs need.
"""

import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

import httpx

from gdelphi.common.checksums import CHECKSUMS, damaged_files
from gdelphi.common.errors import EncoderError, FetchFailed, GdelphiError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.sections import IngestSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt.addresses import base_address, file_address, hide_secrets, public_address
from gdelphi.gdelt.archive import (
    ALIASES,
    MASTER_LIST,
    open_archive,
)
from gdelphi.gdelt.fetch import open_client
from gdelphi.measures.clouds import measures_folder
from gdelphi.store.connection import Store
from gdelphi.store.status import read_status

FindingState = Literal["ok", "warning", "failure"]
OLDEST_PYTHON: Final = (3, 11)
LEAST_GIGABYTES: Final = 2.0
ENOUGH_GIGABYTES: Final = 20.0
LISTS: Final = ("md5sums", MASTER_LIST)
MOST_SECONDS: Final = 10.0
MODEL_EXTRA: Final = 'pip install "gdelphi[model]"'
FLOWS_EXTRA: Final = 'pip install "gdelphi[flows]"'


@dataclass(frozen=True)
class Finding:
    """The result of a check, and what to do unless all is well."""

    name: str
    state: FindingState
    says: str
    remedy: str = ""


def examine(
    settings: Settings,
    *,
    as_of: date | None = None,
    deep: bool = False,
    on_check: OnStep = silent,
) -> Iterator[Finding]:
    """Yield all findings, one by one as they are made; `on_check` is told each check's name. With
    `deep`, all files are held against their checksums too."""
    checks: dict[str, Callable[[], Finding]] = {
        "python": _python,
        "torch": _torch,
        "encoder": lambda: _encoder(settings),
        "disk": lambda: _disk(settings),
        "archive": lambda: _archive(settings.ingest),
        "store": lambda: _store(settings, as_of),
        "measures": lambda: _measures(settings),
        "model": lambda: _model(settings),
        "prefect": lambda: _prefect(settings),
    }
    if settings.alerts.rules:
        checks["alerts"] = lambda: _alerts(settings)
    for name, check in checks.items():
        on_check(name)
        yield check()
    if deep:
        yield from _files(settings, on_check)


def _files(settings: Settings, on_check: OnStep) -> Iterator[Finding]:
    from gdelphi.app.verify import verify

    for part in verify(settings, on_step=on_check):
        says = f"{part.name}: {part.sound:,} sound"
        if part.damages:
            first = part.damages[0]
            says += f", {len(part.damages):,} damaged; the first: {first.path} {first.says}"
            yield Finding("files", "failure", says, first.remedy)
        elif part.unknown:
            says += f", {part.unknown:,} without a checksum (from an earlier version, or others)"
            yield Finding("files", "ok", says)
        else:
            yield Finding("files", "ok", says)


def _python() -> Finding:
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:  # pragma: no cover - pip refuses to install it there
        return Finding("python", "failure", python, "install Python 3.11 or later")
    return Finding("python", "ok", f"{python}, gdelphi {_version('gdelphi')}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _torch() -> Finding:
    try:
        import torch
    except ImportError:
        return Finding(
            "torch", "failure", "not installed: no embedding, training or forecast", MODEL_EXTRA
        )
    if torch.cuda.is_available():  # pragma: no cover - where there is a GPU
        name = torch.cuda.get_device_name()
        precision = "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
        return Finding("torch", "ok", f"{torch.__version__} on {name}, {precision}")
    return Finding(
        "torch", "ok", f"{torch.__version__} on the CPU, {torch.get_num_threads()} threads (no GPU)"
    )


def _encoder(settings: Settings) -> Finding:
    from gdelphi.measures.encoder import open_encoder

    name = settings.embed.encoder
    try:
        vectors = open_encoder(settings.embed).encode(["police arrest protesters in Kenya"])
    except (EncoderError, ImportError) as error:
        remedy = f"{MODEL_EXTRA} carries minilm; embed.encoder may name a folder"
        return Finding("encoder", "failure", f"{name}: {error}", remedy)
    if name == "hashing":
        return Finding(
            "encoder", "warning", "hashing knows no meaning", 'set embed.encoder = "minilm"'
        )
    return Finding("encoder", "ok", f"{name}, vectors of {vectors.shape[1]} numbers")


def _disk(settings: Settings) -> Finding:
    store = settings.store.resolve()
    place = next(path for path in (store, *store.parents) if path.is_dir())
    free = shutil.disk_usage(place).free / 1e9
    says = f"{free:.0f} GB free at {place}"
    remedy = "a year of GDELT 1.0 takes about 8 GB: make room, or set store to a larger disk"
    if free < LEAST_GIGABYTES:
        return Finding("disk", "failure", says, remedy)
    return Finding("disk", "ok" if free >= ENOUGH_GIGABYTES else "warning", says, remedy)


def _archive(settings: IngestSettings) -> Finding:
    place = ALIASES.get(settings.archive, settings.archive)
    remedy = "set ingest.archive to a folder or mirror with the same layout, or mend the network"
    if not place.startswith(("http://", "https://")):
        try:
            archive = open_archive(settings)
            number = len(archive.list_files(settings).files)
        except (GdelphiError, OSError) as error:
            return Finding("archive", "failure", str(error), remedy)
        return Finding("archive", "ok" if number else "warning", f"{place}: {number:,} files",
                       "" if number else "is it the right folder?")  # fmt: skip
    problem, site = "", public_address(place)
    for name in LISTS:
        try:
            with open_client(settings) as client:
                address = file_address(base_address(place), name)
                answer = client.head(address, timeout=MOST_SECONDS)
        except (httpx.HTTPError, FetchFailed) as error:
            problem = hide_secrets(f"{type(error).__name__} {error}".strip(), place)
            break
        if answer.is_success:
            return Finding("archive", "ok", f"{site} answers")
        problem = f"{answer.status_code} for {name}"
    return Finding("archive", "failure", f"{site} is out of reach ({problem})", remedy)


def _store(settings: Settings, as_of: date | None) -> Finding:
    try:
        if not Store(settings).exists():
            says = f"{settings.store_name} is not there yet"
            return Finding("store", "warning", says, "gdelphi ingest makes it")
        status = read_status(settings, as_of)
    except (GdelphiError, OSError) as error:
        return Finding("store", "failure", str(error), "docs/operations.md: a damaged store")
    says = f"{status.store}: {status.rows:,} rows, last complete day {status.latest_complete_day}"
    if status.stale or status.incomplete:
        faults = ["stale"] * status.stale + ["incomplete"] * status.incomplete
        says += f", {' and '.join(faults)}"
        return Finding("store", "warning", says, "gdelphi ingest; gdelphi status says more")
    return Finding("store", "ok", says)


def _measures(settings: Settings) -> Finding:
    folder = measures_folder(settings)
    days = len(list((folder / "clouds").glob("*/*.parquet"))) if folder.is_dir() else 0
    if not days:
        return Finding("measures", "warning", f"{folder}: no days yet", "gdelphi embed")
    return Finding("measures", "ok", f"{folder}: {days:,} days")


def _model(settings: Settings) -> Finding:
    current = settings.flows.models / "current"
    if not current.exists():
        remedy = "gdelphi train, then gdelphi promote"
        return Finding("model", "warning", f"no model in use ({current})", remedy)
    lacking = [
        name for name in ("config.json", "model.safetensors") if not (current / name).is_file()
    ]
    if lacking:
        says = f"{current} lacks {', '.join(lacking)}"
        return Finding("model", "failure", says, "gdelphi promote --rollback")
    folder = current.resolve()
    damaged = damaged_files(folder)
    if damaged:
        names = ", ".join(str(path.relative_to(folder)) for path in damaged)
        says = f"{current}: not what was written: {names}"
        remedy = "gdelphi promote --rollback, or bring it back from a copy"
        return Finding("model", "failure", says, remedy)
    says = f"{current} -> {folder.name}"
    if not (folder / CHECKSUMS).exists():
        remedy = "from an earlier version: damage to it cannot be told; promote a new model"
        return Finding("model", "warning", f"{says}, without checksums", remedy)
    return Finding("model", "ok", says)


def _alerts(settings: Settings) -> Finding:
    from gdelphi.alerts.watch import meant_by

    try:
        for rule in settings.alerts.rules:
            meant_by(rule)
    except GdelphiError as error:
        return Finding("alerts", "failure", str(error), "mend the rule (docs/alerts.md)")
    if not (settings.flows.notify_url or settings.flows.notify_command):
        remedy = "set flows.notify_url or flows.notify_command"
        return Finding("alerts", "warning", "there are rules, and nobody is told", remedy)
    return Finding("alerts", "ok", f"{len(settings.alerts.rules)} rules")


def _prefect(settings: Settings) -> Finding:
    installed = _version("prefect")
    if installed is None:
        return Finding("prefect", "warning", "not installed: no schedules", FLOWS_EXTRA)
    if settings.flows.server:
        return _server(installed, settings.flows.server)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", settings.flows.port))
        except OSError:
            says = f"{installed}; port {settings.flows.port} is taken"
            remedy = "well if gdelphi serve is running; else set flows.port"
            return Finding("prefect", "warning", says, remedy)
    says = f"{installed}; gdelphi serve would use port {settings.flows.port}"
    return Finding("prefect", "ok", says)


def _server(installed: str, address: str) -> Finding:
    try:
        httpx.get(f"{address.rstrip('/')}/health", timeout=MOST_SECONDS).raise_for_status()
    except httpx.HTTPError as error:
        remedy = "start it, or unset flows.server: gdelphi serve then starts one of its own"
        return Finding("prefect", "failure", f"{address} does not answer ({error})", remedy)
    return Finding("prefect", "ok", f"{installed}; server {address}")
