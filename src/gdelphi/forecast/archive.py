"""Forecasts on disk: each in a folder of its own, written once and never changed.

    2014-06-01/3f9c2a71b0d4e586/  origin, and a name made from all that decides the content
        forecast.json             what it was made from and when, and a checksum of each file
        probabilities.parquet     and the other tables (see tables.py)

The name is a hash of origin, horizon, streams, data, model, futures and seed, but not of the time:
who makes the same forecast again finds it there. A forecast that could be written over would be
worth nothing as a record, so a changed byte is an error, and another model or another day of data
is another folder. Chosen over rows of the store: a file can be copied, sent and checked by itself,
and the store is rebuilt from archives, which know nothing of forecasts.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.checksums import CHECKSUMS, is_damaged
from gdelphi.common.errors import ForecastError
from gdelphi.common.files import DIGEST_LENGTH, atomic_write, file_digest, text_digest
from gdelphi.common.settings import Settings
from gdelphi.common.types import LEVELS

FORMAT: Final = 1
MANIFEST: Final = "forecast.json"
ARGUMENTS_FILE: Final = "arguments.json"
NAMES_FILE: Final = "names.json"
FUTURES_FILE: Final = "futures.json"
EXPECTED_FILE: Final = "expected.json"
CONFLICT_FILE: Final = "conflict.json"
"""there only if names, what futures are made of, or whose expected day is shown, were chosen"""
MODEL_FILES: Final = ("model.safetensors", "config.json", "training.json", ARGUMENTS_FILE)


def forecasts_folder(settings: Settings) -> Path:
    """Where a store's forecasts lie."""
    return settings.store.parent / "forecasts"


def model_fingerprint(folder: Path) -> str:
    """A short name for a model's weights and what was fitted and chosen beside them. The namer is
    part of it by its digest in names.json."""
    digest = hashlib.sha256()
    published = [f"published-{level}.json" for level in LEVELS]
    chosen = [
        name
        for name in (NAMES_FILE, FUTURES_FILE, EXPECTED_FILE, CONFLICT_FILE)
        if (folder / name).exists()
    ]
    for name in (*MODEL_FILES, *published, *chosen):
        digest.update(bytes.fromhex(file_digest(folder / name)))
    return digest.hexdigest()[:DIGEST_LENGTH]


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
    week: bool = False
    """the seven days after the origin, and not tomorrow alone"""

    @property
    def id(self) -> str:
        """A short name that no other recipe has."""
        return text_digest(json.dumps([FORMAT, self.plain()], sort_keys=True))

    def plain(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        plain = {**asdict(self), "origin": self.origin.isoformat(), "streams": list(self.streams)}
        if not self.week:  # as before there were weeks: who made such a forecast finds it
            del plain["week"]
        return plain


@dataclass(frozen=True)
class NamingInfo:
    """How the atoms of a forecast's futures are named: see naming.py."""

    by: Literal["origin", "nearest", "namer"]
    atoms: int
    """that are heavy enough to be named"""
    renamed: int
    """of these, named other than the phrase that they come from"""
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
    snapshot: str | None = None
    """the state of the lake that it was made from (`store_as_of`); None: the store is a file"""

    @property
    def id(self) -> str:
        """The name of the forecast's folder."""
        return self.recipe.id

    @property
    def target_day(self) -> date:
        """The day that is forecast."""
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
            **({"snapshot": self.snapshot} if self.snapshot else {}),
            "files": dict(self.files),
        }


ManifestsRead = tuple[list[ForecastManifest], list[str]]
"""manifests, and what is wrong with those that cannot be read"""


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
            tables = ", ".join(sorted(Path(file).stem for file in self.manifest.files))
            raise ForecastError(f"{self.folder} has no table {name}: it has {tables}")
        wanted = None if columns is None else list(columns)
        return pq.read_table(self.folder / f"{name}.parquet", columns=wanted)


class ForecastArchive:
    """A folder of forecasts, to which forecasts are added and in which none is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, origin: date, id: str) -> Path:  # noqa: A002 - what it is called everywhere
        """The folder of a forecast."""
        return self.folder / origin.isoformat() / id

    def list(self) -> list[ForecastManifest]:
        """The manifests of all forecasts, by origin and then by the time of issue. One that cannot
        be read is left out: `read` names it."""
        return self.read()[0]

    def read(self) -> ManifestsRead:
        """The same, and what is wrong with those that cannot be read: one damaged folder of last
        year must not cost this morning's forecast."""
        manifests, problems = [], []
        for path in sorted(self.folder.glob(f"*-*-*/[!.]*/{MANIFEST}")):
            try:
                manifests.append(read_manifest(path.parent))
            except ForecastError as error:
                problems.append(str(error))
        manifests.sort(key=lambda one: (one.recipe.origin, one.issued_at, one.id))
        return manifests, problems

    def find(self, recipe: Recipe) -> StoredForecast | None:
        """The forecast of a recipe, checked, if it has been made."""
        folder = self.path(recipe.origin, recipe.id)
        return _checked(folder) if folder.exists() else None

    def load(self, origin: date, id: str | None = None) -> StoredForecast:  # noqa: A002
        """A forecast, checked; without an id the one that was issued last."""
        ids = [manifest.id for manifest in self.list() if manifest.recipe.origin == origin]
        wanted = ids if id is None else [known for known in ids if known == id]
        if not wanted:
            for path in sorted((self.folder / origin.isoformat()).glob(f"[!.]*/{MANIFEST}")):
                if id in (None, path.parent.name):
                    return _checked(path.parent)  # it is there, and damaged: that is told
            known = ", ".join(ids) or "none"
            what = f"no forecast {id} at {origin}" if id else f"no forecast at {origin}"
            raise ForecastError(
                f"{what} in {self.folder} (there: {known}): `gdelphi forecast --origin {origin}` "
                "makes one"
            )
        return _checked(self.path(origin, wanted[-1]))

    def put(
        self,
        recipe: Recipe,
        tables: Mapping[str, pa.Table],
        *,
        fitted_until: date,
        named: NamingInfo | None = None,
        snapshot: str | None = None,
        issued_at: datetime | None = None,
    ) -> StoredForecast:
        """Write a forecast, whole or not at all; one that is there stays as it is. It is issued
        now, or when it was, if it is made again."""
        folder = self.path(recipe.origin, recipe.id)
        try:
            with atomic_write(folder) as part:
                part.mkdir()
                for name, table in tables.items():
                    path = part / f"{name}.parquet"
                    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
                files = {path.name: file_digest(path) for path in sorted(part.iterdir())}
                manifest = ForecastManifest(
                    recipe, issued_at or datetime.now(UTC), fitted_until, files, named, snapshot
                )
                text = json.dumps(manifest.plain(), indent=2) + "\n"
                (part / MANIFEST).write_text(text, encoding="utf-8")
        except OSError:
            if not folder.exists():  # else another process was quicker, and its forecast stays
                raise
        return _checked(folder)


# --- reading --------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> ForecastManifest:
    """The manifest in a forecast's folder; its tables are not looked at."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ForecastError(
                f"{path} has format {content['format']}, this gdelphi reads {FORMAT}: read it with "
                f"gdelphi {content.get('gdelphi')}"
            )
        manifest = _manifest(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({error!r})") from None
    if not manifest.id == content["id"] == folder.name:
        raise _damaged(folder, f"{MANIFEST} is of the forecast {manifest.id}")
    if is_damaged(path):  # times and choices are no part of the name
        raise _damaged(folder, f"{MANIFEST} is not what was written")
    return manifest


def _manifest(content: Mapping[str, Any]) -> ForecastManifest:
    names = [name for name in Recipe.__dataclass_fields__ if name in content or name != "week"]
    fields = {name: content[name] for name in names}
    fields |= {"origin": date.fromisoformat(fields["origin"]), "streams": tuple(fields["streams"])}
    return ForecastManifest(
        recipe=Recipe(**fields),
        issued_at=datetime.fromisoformat(content["issued_at"]),
        fitted_until=date.fromisoformat(content["fitted_until"]),
        files=dict(content["files"]),
        named=NamingInfo(**content["names"]) if content.get("names") else None,
        snapshot=content.get("snapshot"),
    )


def _checked(folder: Path) -> StoredForecast:
    """A forecast after its files were held against their checksums."""
    manifest = read_manifest(folder)
    files = {path.name for path in folder.iterdir()} - {MANIFEST, CHECKSUMS}
    strange = sorted(files.symmetric_difference(manifest.files))
    if strange:
        raise _damaged(folder, f"{', '.join(strange)}: missing, or not of it")
    for name, checksum in manifest.files.items():
        if file_digest(folder / name) != checksum:
            raise _damaged(folder, f"{name} is not what was written")
    return StoredForecast(folder, manifest)


def _damaged(folder: Path, what: str) -> ForecastError:
    return ForecastError(
        f"the forecast in {folder} is damaged, or was edited ({what}): bring it back from a copy, "
        "or move it away and make it again"
    )
