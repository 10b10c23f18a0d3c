"""What the campaigns share: a folder in which a model is at work on an archive that changes.

The archive, the space and the model come from a demo (`gdelphi demo`); the last days of its archive
are held back, to come one by one. `digests` is what two folders are compared by: all that is to be
the same however often a command was killed, and nothing that tells of times.
"""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from gdelphi.app.verify import verify
from gdelphi.common.checksums import file_digest
from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures.clouds import measures_folder
from gdelphi.store.connection import Store

AS_OF = "2021-12-31"
VALIDATION_B = 25  # days, with the embargo: the last days are held back
TABLES = {
    "events": "SELECT events.* EXCLUDE (FileId), name FROM events JOIN ledger ON file_id = FileId",
    "duplicates": "SELECT duplicates.* EXCLUDE (FileId), name FROM duplicates "
    "JOIN ledger ON file_id = FileId",
    "rejects": "SELECT file, line, reason, raw, rejects.rows FROM rejects",
    "ledger": "SELECT name, status, size, md5, rows_in, accepted, rejected, duplicates FROM ledger",
}


@dataclass
class Trial:
    """A folder at work; `hidden` are the days that are still to come."""

    folder: Path
    archive: Path
    hidden: list[Path] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "gdelphi.toml"

    @property
    def settings(self) -> Settings:
        return load_settings(self.config).settings

    def command(self, *words: str) -> list[str]:
        """A command of gdelphi in this folder."""
        return [sys.executable, "-m", "gdelphi", *words, "--config", str(self.config)]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False)

    def grow(self) -> str:
        """One more day in the archive; its name."""
        source = self.hidden.pop(0)
        shutil.copyfile(source, self.archive / source.name)
        write_lists(self.archive)
        return f"{source.name[:4]}-{source.name[4:6]}-{source.name[6:8]}"


def make_trial(demo: Path, folder: Path, *, hidden: int, port: int = 4299) -> Trial:
    """A new folder from a demo, its model in use, all but the hidden days measured."""
    archive = folder / "archive"
    archive.mkdir(parents=True)
    files = sorted((demo / "archive").glob("*.zip"))
    for path in files[: len(files) - hidden]:
        shutil.copyfile(path, archive / path.name)
    write_lists(archive)
    shutil.copytree(demo / "store.measures" / "space", folder / "store.measures" / "space")
    shutil.copytree(demo / "embeddings", folder / "embeddings")
    shutil.copytree((demo / "models" / "current").resolve(), folder / "models" / "latest")
    split = json.loads((folder / "models" / "latest" / "training.json").read_text())["origin"][
        "split"
    ]
    until_b = date.fromisoformat(split["validation_a"][1]) + timedelta(days=VALIDATION_B)
    text = f"""store = "store.duckdb"
[split]
train_until = {split["train"][1]}
validation_a_until = {split["validation_a"][1]}
validation_b_until = {until_b}
[ingest]
archive = {json.dumps(str(archive))}
label = "trial"
attempts = 1
downloads = "downloads"
[report]
folder = "reports"
[sequences]
variants = 0
[flows]
models = "models"
streams = "top2"
port = {port}
"""
    (folder / "gdelphi.toml").write_text(text, encoding="utf-8")
    trial = Trial(folder, archive, files[len(files) - hidden :])
    for words in (("ingest",), ("embed",), ("promote",)):
        done = trial.run(*words)
        if done.returncode:
            sys.exit(f"{words[0]} failed: {done.stderr}")
    return trial


def write_lists(archive: Path) -> None:
    """md5sums and filesizes of the files that are there."""
    sums, sizes = [], []
    for path in sorted(archive.glob("*.zip")):
        content = path.read_bytes()
        sums.append(f"{hashlib.md5(content).hexdigest()}  {path.name}\n")
        sizes.append(f"{len(content)} {path.name}\n")
    (archive / "md5sums").write_text("".join(sums))
    (archive / "filesizes").write_text("".join(sizes))


def change_a_day(archive: Path, rng: random.Random, among: int = 20) -> str:
    """Another version of one of the last days, with some rows fewer; its name."""
    path = rng.choice(sorted(archive.glob("*.zip"))[-among:])
    with zipfile.ZipFile(path) as zipped:
        (member,) = zipped.namelist()
        lines = zipped.read(member).splitlines(keepends=True)
    kept = [line for line in lines if rng.random() > 0.01]
    part = path.with_name(f".{path.name}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(member, b"".join(kept))
    part.replace(path)
    write_lists(archive)
    return path.name


def digests(trial: Trial) -> dict[str, Any]:
    """Everything that is to be the same in two folders that have met the same archive."""
    settings, found = trial.settings, dict[str, Any]()
    with Store(settings).reading() as connection:
        for name, rows in TABLES.items():
            found[name] = connection.rows(
                f"SELECT count(*), sum(hash(r)::HUGEINT) FROM ({rows}) AS r"
            )[0]
    for kind in ("clouds", "descriptors"):
        for path in (measures_folder(settings) / kind).glob("*/*.parquet"):
            found[f"{kind}/{path.name}"] = file_digest(path)
    for path in (measures_folder(settings) / "packs").glob("*/*.bin"):
        found[f"packs/{path.parent.name}/{path.name}"] = file_digest(path)
    forecasts = trial.folder / "forecasts"
    for path in forecasts.rglob("*.parquet"):
        found[str(path.relative_to(trial.folder))] = file_digest(path)
    for path in (trial.folder / "reports").glob("*-*-*/report.json"):
        report = json.loads(path.read_text())
        for name in ("published_at", "issued_at", "complete_at"):
            report.pop(name, None)
        text = json.dumps(report, sort_keys=True).replace(str(trial.folder), "")
        found[f"report {path.parent.name}"] = hashlib.sha256(text.encode()).hexdigest()
    current = trial.folder / "models" / "current"
    found["model in use"] = current.resolve().name if current.exists() else None
    return found


def damages(trial: Trial) -> list[str]:
    """What `gdelphi verify` says of a folder."""
    return [f"{each.path} {each.says}" for part in verify(trial.settings) for each in part.damages]
