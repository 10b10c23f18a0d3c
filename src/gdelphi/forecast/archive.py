"""Forecasts on disk: each in a folder of its own, written once and never changed.

    2014-06-01/3f9c2a71b0d4e586/  origin, and a name made from all that decides the content
        forecast.json             what it was made from and when, and a checksum of each file
        probabilities.parquet     and the other tables (see `forecast_tables`)

The name is a hash of origin, horizon, streams, data, model, futures and seed, but not of the time:
who makes the same forecast again finds it there. A forecast that could be written over would be
worth nothing as a record, so a changed byte is an error, and another model or another day of data
is another folder. Chosen over rows of the store: a file can be copied, sent and checked by itself,
and the store is rebuilt from archives, which know nothing of forecasts.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS

FORMAT: Final = 1
MANIFEST: Final = "forecast.json"
ID_LENGTH: Final = 16
ARGUMENTS_FILE: Final = "arguments.json"
NAMES_FILE: Final = "names.json"
FUTURES_FILE: Final = "futures.json"  # is there only if names were chosen: see `name_choice`
MODEL_FILES: Final = ("model.safetensors", "config.json", "training.json", ARGUMENTS_FILE)


def forecasts_folder(settings: Settings) -> Path:
    """Where a store's forecasts lie."""
    return settings.store.parent / "forecasts"


def model_fingerprint(folder: Path, horizon: int = 1) -> str:
    """Of a model's weights and of what was fitted and chosen beside them; names.json has the digest
    of the namer."""
    digest = hashlib.sha256()
    further = f"-{horizon}" if horizon > 1 else ""
    published = [f"published-{level}{further}.json" for level in LEVELS]
    chosen = [name for name in (NAMES_FILE, FUTURES_FILE) if (folder / name).exists()]
    for name in (*MODEL_FILES, *published, *chosen):
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Recipe:
    """All that decides what a forecast says."""

    origin: date
    horizon: int
    streams: tuple[str, ...]
    partial: bool
    """the origin's news day was not complete"""
    data: str
    """fingerprint of the days up to the origin"""
    model: str
    """fingerprint of the model and of what is published"""
    futures: int
    seed: int
    gdelphi: str
    """version"""

    @property
    def id(self) -> str:
        """A short name that no other recipe has."""
        text = json.dumps([FORMAT, self.plain()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]

    def plain(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        return {**asdict(self), "origin": self.origin.isoformat(), "streams": list(self.streams)}


@dataclass(frozen=True)
class NamingInfo:
    """How the atoms of a forecast's futures are called: see `names`."""

    by: Literal["origin", "nearest", "namer"]
    atoms: int
    """that are heavy enough to be named"""
    renamed: int
    """of these, called other than what they come from"""
    unreadable: int
    """of these, not named, so that they keep the phrase that they come from"""


@dataclass(frozen=True)
class ForecastManifest:
    """What forecast.json says."""

    recipe: Recipe
    issued_at: datetime
    """UTC"""
    fitted_until: date
    """last day that something in the forecast was fitted on; after the origin: in hindsight"""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each"""
    named: NamingInfo | None = None
    """None: made before futures could be named"""

    @property
    def id(self) -> str:
        return self.recipe.id

    @property
    def target_day(self) -> date:
        return self.recipe.origin + timedelta(days=self.recipe.horizon)

    @property
    def hindsight(self) -> bool:
        """Whether something was fitted on days that lay ahead at the origin."""
        return self.fitted_until > self.recipe.origin

    def plain(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        return {
            "format": FORMAT,
            "id": self.id,
            **self.recipe.plain(),
            "target_day": self.target_day.isoformat(),
            "issued_at": self.issued_at.isoformat(timespec="seconds"),
            "fitted_until": self.fitted_until.isoformat(),
            "hindsight": self.hindsight,
            "names": asdict(self.named) if self.named else None,
            "files": dict(self.files),
        }


@dataclass(frozen=True)
class StoredForecast:
    """A forecast whose files are as they were written."""

    folder: Path
    manifest: ForecastManifest

    def __contains__(self, name: str) -> bool:
        return f"{name}.parquet" in self.manifest.files

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """One of its tables, or columns of it: probabilities, shares, futures, brief, events,
        evidence."""
        if name not in self:
            there = ", ".join(sorted(Path(each).stem for each in self.manifest.files))
            raise ForecastError(f"{self.folder} has no table {name}: it has {there}")
        chosen = None if columns is None else list(columns)
        return pq.read_table(self.folder / f"{name}.parquet", columns=chosen)


class ForecastStore:
    """A folder of forecasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, origin: date, id: str) -> Path:  # noqa: A002 - what it is called everywhere
        return self.folder / origin.isoformat() / id

    def list(self) -> list[ForecastManifest]:
        """All forecasts that are there, by origin and then by the time of issue."""
        found = [read_manifest(path.parent) for path in self.folder.glob(f"*-*-*/[!.]*/{MANIFEST}")]
        return sorted(found, key=lambda each: (each.recipe.origin, each.issued_at, each.id))

    def find(self, recipe: Recipe) -> StoredForecast | None:
        """The forecast of a recipe, checked, if it has been made."""
        folder = self.path(recipe.origin, recipe.id)
        return _checked(folder) if folder.exists() else None

    def load(self, origin: date, id: str | None = None) -> StoredForecast:  # noqa: A002
        """A forecast, checked; without an id the one that was issued last."""
        there = [each for each in self.list() if each.recipe.origin == origin]
        wanted = [each for each in there if id is None or each.id == id]
        if not wanted:
            known = ", ".join(each.id for each in there) or "none"
            what = f"no forecast {id} at {origin}" if id else f"no forecast at {origin}"
            raise ForecastError(
                f"{what} in {self.folder} (there: {known}): `gdelphi forecast --origin {origin}` "
                "makes one"
            )
        return _checked(self.path(origin, wanted[-1].id))

    def put(
        self,
        recipe: Recipe,
        tables: Mapping[str, pa.Table],
        *,
        fitted_until: date,
        named: NamingInfo | None = None,
    ) -> StoredForecast:
        """Write a forecast, whole or not at all; one that is there stays as it is."""
        folder = self.path(recipe.origin, recipe.id)
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            for name, table in tables.items():
                _write(table, beside / f"{name}.parquet")
            files = {path.name: _sha256(path) for path in sorted(beside.iterdir())}
            manifest = ForecastManifest(recipe, datetime.now(UTC), fitted_until, files, named)
            text = json.dumps(manifest.plain(), indent=2) + "\n"
            (beside / MANIFEST).write_text(text, encoding="utf-8")
            _move(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return _checked(folder)


def _move(beside: Path, folder: Path) -> None:
    """Into its place in one moment; where another process was quicker, its forecast stays."""
    try:
        beside.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- reading --------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> ForecastManifest:
    """What a forecast's folder says of itself; its tables are not looked at."""
    path = folder / MANIFEST
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise ForecastError(
                f"{path} has format {said['format']}, this gdelphi reads {FORMAT}: read it with "
                f"gdelphi {said.get('gdelphi')}"
            )
        manifest = _manifest(said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({error!r})") from None
    if not manifest.id == said["id"] == folder.name:
        raise _damaged(folder, f"{MANIFEST} is of the forecast {manifest.id}")
    return manifest


def _manifest(said: Mapping[str, Any]) -> ForecastManifest:
    given = {name: said[name] for name in Recipe.__dataclass_fields__}
    given |= {"origin": date.fromisoformat(given["origin"]), "streams": tuple(given["streams"])}
    issued = datetime.fromisoformat(said["issued_at"])
    fitted = date.fromisoformat(said["fitted_until"])
    named = NamingInfo(**said["names"]) if said.get("names") else None
    return ForecastManifest(Recipe(**given), issued, fitted, dict(said["files"]), named)


def _checked(folder: Path) -> StoredForecast:
    """A forecast after its files were held against their checksums."""
    manifest = read_manifest(folder)
    there = {path.name for path in folder.iterdir()} - {MANIFEST}
    strange = sorted(there.symmetric_difference(manifest.files))
    if strange:
        raise _damaged(folder, f"{', '.join(strange)}: missing, or not of it")
    for name, checksum in manifest.files.items():
        if _sha256(folder / name) != checksum:
            raise _damaged(folder, f"{name} is not what was written")
    return StoredForecast(folder, manifest)


def _damaged(folder: Path, what: str) -> ForecastError:
    return ForecastError(
        f"the forecast in {folder} is damaged, or was edited ({what}): bring it back from a copy, "
        "or move it away and make it again"
    )
