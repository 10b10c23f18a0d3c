"""A small simulated world with gaps, ingested, embedded and packed once for all tests."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.measures.clouds import (
    Cloud,
    Clouds,
    Coded,
    Numbers,
    measures_folder,
)
from gdelphi.measures.embed import (
    EmbedResult,
    embed,
    training_phrases,
)
from gdelphi.measures.encoder import (
    EmbeddingCache,
    HashingEncoder,
    open_cache,
)
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import Packed, pack_days
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.measures.space import (
    PhraseWeights,
    Points,
    Space,
)
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import world_config
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.made_once import make_once

FIRST = date(2021, 1, 4)
DAYS = 80
GONE = (20, 66)  # days whose files are taken out of the archive
DAY = date(2014, 1, 6)


def day_at(number: int) -> date:
    return FIRST + timedelta(days=number)


def file_of(archive: Path, number: int) -> Path:
    return archive / f"{day_at(number):%Y%m%d}.export.CSV.zip"


def make_archive(folder: Path, **changes: Any) -> Path:
    """Four streams for 80 days, one of them so quiet that it is empty now and then."""
    given = {"days": DAYS, "streams": 4, "volume_median": 12.0, "volume_deviation": 1.0, "seed": 5}
    config = world_config("demo", {**given, **changes})
    archive = create_world(config, folder / "world").folder
    for number in GONE:
        remove_day(archive, number)
    return archive


def remove_day(archive: Path, number: int) -> None:
    """Take a day's file away, and its name out of the lists."""
    path = file_of(archive, number)
    path.unlink()
    for name in ("md5sums", "filesizes"):
        lines = (archive / name).read_text().splitlines(keepends=True)
        (archive / name).write_text("".join(line for line in lines if path.name not in line))


def in_one_process() -> Any:
    """Starting processes takes longer than the work of a small world."""
    return mock.patch("gdelphi.common.workers.os.cpu_count", return_value=1)


@dataclass(frozen=True, eq=False)
class Measured:
    """A store whose measures are up to date."""

    settings: Settings
    result: EmbedResult

    @property
    def space(self) -> Space:
        return self.result.space

    @cached_property
    def clouds(self) -> Clouds:
        return Clouds(measures_folder(self.settings))

    @cached_property
    def cache(self) -> EmbeddingCache:
        return open_cache(self.settings)

    @cached_property
    def phrases(self) -> PhraseWeights:
        return training_phrases(self.settings, self.clouds)

    @cached_property
    def history(self) -> Profiles:
        """The pack's streams and days over the roots."""
        last = day_at(DAYS - 1)
        streams = self.pack.facts.streams
        return read_profiles(self.settings, "root", streams, since=day_at(0), until=last)

    @cached_property
    def packed(self) -> Packed:
        return pack_quietly(self.settings, self.space)

    @cached_property
    def pack(self) -> Pack:
        return Pack(self.packed.folder)

    def points(self) -> Points:
        """That have not looked anything up yet."""
        return Points(self.space, self.cache)

    def cloud(self, stream: str, number: int) -> Cloud:
        return self.clouds.cloud(stream, day_at(number))


def pack_quietly(settings: Settings, space: Space, seed: int = 0) -> Packed:
    with in_one_process():
        return pack_days(settings, space, seed=seed)


def represent_quietly(settings: Settings, **options: Any) -> EmbedResult:
    with in_one_process():
        return embed(settings, **options)


@cache
def _archive(base: Path) -> Path:
    return make_once(base, "world", make_archive, copied=False) / "world"


def measured(factory: pytest.TempPathFactory) -> Measured:
    """The world with its measures; not to be changed, for all tests share it."""
    return _measured(factory.getbasetemp())


@cache
def _measured(base: Path) -> Measured:
    def settings_in(folder: Path) -> Settings:
        return settings_for(
            folder / "s.duckdb",
            _archive(base),
            embed__encoder="hashing",
            measures__folder=folder / "measures",
            sequences__variants=2,
        )

    def make(folder: Path) -> None:
        ingest(settings_in(folder))
        assert Measured(settings_in(folder), represent_quietly(settings_in(folder))).packed.made

    settings = settings_in(make_once(base, "measured", make))
    return Measured(settings, represent_quietly(settings))


def changed(settings: Settings, section: str, **values: Any) -> Settings:
    """The settings with other values in a section."""
    part = getattr(settings, section).model_copy(update=values)
    return settings.model_copy(update={section: part})


def hashing_cache(folder: Path) -> EmbeddingCache:
    return EmbeddingCache(folder, HashingEncoder())


# --- clouds by hand -------------------------------------------------------------------------------


def cloud_of(
    weights: Mapping[tuple[str, str, str], float],
    *,
    stream: str = "KE",
    rows: int | list[int] = 1,
    **given: Any,
) -> Cloud:
    """A cloud with the weights of its phrases (actor 1, code, actor 2), in their order."""
    slots = [_coded(column) for column in zip(*weights, strict=True)] if weights else []
    units = np.array([round(weight * 1e9) for weight in weights.values()], dtype=np.int64)
    each = np.ones(len(units), np.int64)
    numbers = Numbers(units, each * np.int64(rows), 3 * each, 1.0 * each, -1.0 * each, each)
    nothing = Coded((), np.zeros(0, np.int64))
    first, code, second = slots or (nothing, nothing, nothing)
    known, partial, backfile = (given.get(name, name == "known") for name in _FLAGS)
    return Cloud(stream, given.get("day", DAY), known, partial, backfile, first, code, second,
                 numbers)  # fmt: skip


_FLAGS = ("known", "partial", "backfile")


def _coded(column: tuple[str, ...]) -> Coded:
    keys = tuple(sorted(set(column)))
    return Coded(keys, np.array([keys.index(key) for key in column], dtype=np.int64))


# --- archives by hand -----------------------------------------------------------------------------

CODES = ("010", "0211", "036", "042", "0841", "112", "1233", "1411", "145", "173", "190", "193")
COUNTRIES = ("KEN", "UKR", "DEU", "RUS", "UGA", "")
ROLES = ("GOV", "MIL", "COP", "")


def lines_of(number: int, count: int = 14, **values: Any) -> list[str]:
    """Rows of a day of its own, in three streams of falling size; the same for the same number."""
    random = np.random.default_rng(number)
    lines = []
    for place in range(count):
        code = str(random.choice(CODES))
        given = {
            "Actor1CountryCode": random.choice(COUNTRIES),
            "Actor1Type1Code": random.choice(ROLES),
            "Actor2CountryCode": random.choice(COUNTRIES),
            "Actor2Type1Code": random.choice(ROLES),
            "EventCode": code,
            "EventBaseCode": code[:3],
            "EventRootCode": code[:2],
            "ActionGeo_CountryCode": random.choice(["KE", "UP", "GM"], p=[0.6, 0.3, 0.1]),
        }
        day = DAY + timedelta(days=number)
        lines.append(event_line(1000 * number + place, day, **{**given, **values}))
    return lines


def small_store(folder: Path, days: int = 10, **flags: Any) -> tuple[ArchiveMaker, Settings]:
    """A store of a few days by hand, which a test may change."""
    maker = ArchiveMaker(folder / "archive")
    for number in range(days):
        maker.day(DAY + timedelta(days=number), lines_of(number))
    maker.write_lists()
    given = {"embed__encoder": "hashing", "split__embargo_days": 0, "sequences__variants": 2}
    settings = settings_for(folder / "s.duckdb", maker.folder, **{**given, **flags})
    ingest(settings)
    return maker, settings


@cache
def _small(base: Path, days: int) -> Settings:
    folder = base / f"small-{days}"
    return small_store(folder, days, **({"split__train": 0.5} if days < 10 else {}))[1]


def copied_store(factory: pytest.TempPathFactory, folder: Path, days: int = 10) -> Settings:
    """A copy of such a store for a test that does not ingest: that is quicker."""
    settings = _small(factory.getbasetemp(), days)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(settings.store, folder / "s.duckdb")
    return settings.model_copy(update={"store": folder / "s.duckdb"})


def tree_of(folder: Path) -> dict[str, bytes]:
    """The files under a folder by their names, but those that others may add at any time."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", "surges.npz", "checksums.txt")
    }
