"""Settings: `gdelphi.toml`, then `GDELPHI_...` variables, then flags, each over the one before.

One frozen object holds everything that can be set. The three layers are read one by one instead of
letting pydantic-settings merge them, because `gdelphi config` has to say where a value came from,
and because an unknown key must be an error that names the nearest known one: a misspelt key that
is silently ignored is found at night.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gdelphi.common.errors import ConfigError
from gdelphi.common.flow_settings import FlowSettings, ReportSettings
from gdelphi.common.text_settings import TextSettings
from gdelphi.common.train_settings import TrainSettings

CONFIG_NAME = "gdelphi.toml"
ENV_PREFIX = "GDELPHI_"
ENV_CONFIG = "GDELPHI_CONFIG"  # where the TOML file is; not itself a setting

GDELT1 = "http://data.gdeltproject.org/events/"
GDELT2 = "http://data.gdeltproject.org/gdeltv2/"

PATHS = (
    "store", "ingest.downloads", "embed.cache", "measures.folder", "report.folder",
    "report.backtest", "flows.models", "text.pretrained",
)  # fmt: skip

MemorySize = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?\s*[KMGT]i?B$")]


class IngestSettings(BaseModel):
    """How archives are read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    archive: str = Field(GDELT1, description="URL or folder; gdelt1 and gdelt2 name GDELT's site")
    label: str | None = Field(
        None, description="name of the archive in the ledger, so that a mirror may take its place"
    )
    translated: bool = Field(False, description="read the feed of translated news too (GDELT 2.0)")
    reduced: bool = Field(False, description="read MASTERREDUCEDV2 too, where the archive has it")
    jobs: int = Field(4, ge=1, le=64, description="files fetched and unpacked at the same time")
    default_days: int = Field(
        400, ge=1, description="days taken from a large archive when nothing says since when"
    )
    default_gigabytes: float = Field(
        2.0,
        ge=0,
        description="an archive up to this size is taken whole when nothing says since when",
    )
    downloads: Path = Field(Path("data/downloads"), description="folder for files being fetched")
    keep_downloads: bool = Field(False, description="keep fetched files after loading them")
    attempts: int = Field(5, ge=1, description="tries for each file before the run gives it up")
    backoff_seconds: float = Field(1.0, ge=0, description="first pause between tries; it doubles")
    timeout_seconds: float = Field(30.0, gt=0, description="silence after which a server stalls")
    max_unpacked_gigabytes: float = Field(8.0, gt=0, description="cap on one file's text")


class StatusSettings(BaseModel):
    """When `gdelphi status` raises the alarm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stale_after_days: int = Field(
        2, ge=0, description="days that the last complete news day may lie behind today (UTC)"
    )
    volume_weeks: int = Field(8, ge=2, description="past weeks that a day's volume is held against")
    volume_factor: float = Field(
        2.0, gt=1, description="a volume this many times off its usual is always looked at"
    )


class EmbedSettings(BaseModel):
    """How texts become vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: str = Field(
        "minilm",
        description="minilm (the packaged all-MiniLM-L6-v2), a folder, a hub name, or hashing "
        "(for tests only)",
    )
    cache: Path | None = Field(
        None, description="folder of the embedding cache; `embeddings` beside the store if unset"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|(cpu|cuda|mps|xpu)(:\d+)?)$",
        description="auto, cpu, cuda, cuda:1, mps",
    )
    precision: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="of the encoder; halves are quicker on a GPU, and other vectors"
    )
    batch_size: int = Field(256, ge=1, description="texts encoded at once")


class MeasureSettings(BaseModel):
    """How a day becomes a measure on the sphere, and a descriptor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path | None = Field(
        None, description="clouds, space and descriptors; <store>.measures beside it if unset"
    )
    verb_weight: float = Field(0.65, gt=0, lt=1, description="share of the verb in a point")
    actor1_weight: float = Field(
        0.2, ge=0, lt=1, description="share of actor 1; the rest is actor 2's"
    )
    verb_dimensions: int = Field(32, ge=2, description="dimensions kept of a verb")
    actor_dimensions: int = Field(32, ge=2, description="dimensions kept of an actor")
    fewest_atoms: int = Field(3, ge=1, description="atoms of a descriptor, at least")
    most_atoms: int = Field(10, ge=1, le=10, description="atoms of a descriptor, at most")
    explained: float = Field(
        0.6, gt=0, le=1, description="a descriptor takes atoms until it explains this much"
    )

    @model_validator(mode="after")
    def _leave_room(self) -> Self:
        if self.verb_weight + self.actor1_weight > 1:
            raise ValueError("verb_weight and actor1_weight leave nothing for actor 2")
        if self.fewest_atoms > self.most_atoms:
            raise ValueError("fewest_atoms is more than most_atoms")
        return self


class SplitSettings(BaseModel):
    """Which days are for what, by the day that is forecast."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: float = Field(0.6, gt=0, lt=1, description="share of days for training")
    validation_a: float = Field(
        0.1, gt=0, lt=1, description="share for validation A: early stopping"
    )
    validation_b: float = Field(0.1, gt=0, lt=1, description="share for validation B: calibration")
    train_until: date | None = Field(None, description="last day of training, in place of a share")
    validation_a_until: date | None = Field(None, description="last day of validation A")
    validation_b_until: date | None = Field(None, description="last day of validation B")
    embargo_days: int = Field(7, ge=0, description="days left out between two parts")


class SequenceSettings(BaseModel):
    """What training reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    streams: int = Field(
        50, ge=1, description="countries, those with the most rows on training days"
    )
    only: tuple[str, ...] = Field((), description="these streams, in place of the largest")
    context_days: int = Field(50, ge=1, description="days of clouds that a forecast looks back on")
    memory_days: int = Field(365, ge=1, description="days of descriptors that it may draw from")
    variants: int = Field(
        4, ge=0, description="random descriptors of each day, beside the day's own"
    )


class Settings(BaseSettings):
    """Everything that can be set, frozen."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    store: Path = Field(Path("data/gdelphi.duckdb"), description="the DuckDB file")
    store_wait_seconds: float = Field(
        30.0, ge=0, description="how long to wait for another process that holds the store"
    )
    store_memory: MemorySize = Field("512MB", description="memory DuckDB may use")
    store_threads: int | None = Field(
        None, ge=1, description="DuckDB's threads; all cores if unset"
    )
    ingest: IngestSettings = IngestSettings()
    embed: EmbedSettings = EmbedSettings()
    measures: MeasureSettings = MeasureSettings()
    sequences: SequenceSettings = SequenceSettings()
    split: SplitSettings = SplitSettings()
    train: TrainSettings = TrainSettings()
    text: TextSettings = TextSettings()
    status: StatusSettings = StatusSettings()
    report: ReportSettings = ReportSettings()
    flows: FlowSettings = FlowSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what load_settings passes: it merges the layers itself and keeps their origin."""
        return (init_settings,)


@dataclass(frozen=True)
class Loaded:
    """Settings and, for each dotted key, where its value came from."""

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Key, value and origin of every setting, in the order of their definition."""
        for key in known_keys():
            value: Any = self.settings
            for part in key.split("."):
                value = getattr(value, part)
            yield key, value, self.origins.get(key, "default")


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> tuple[str, ...]:
    """The dotted names of all settings."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += known_keys(field.annotation, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return tuple(keys)


def description_of(key: str) -> str:
    """What a setting means, as written at its definition."""
    model: Any = Settings
    *sections, name = key.split(".")
    for section in sections:
        model = model.model_fields[section].annotation
    return model.model_fields[name].description or ""


def env_name(key: str) -> str:
    """The environment variable of a setting: `ingest.jobs` is GDELPHI_INGEST_JOBS."""
    return ENV_PREFIX + key.replace(".", "_").upper()


def load_settings(
    config: Path | str | None = None, flags: Mapping[str, Any] | None = None
) -> Loaded:
    """Read the layers in rising order and validate the result once.

    `flags` maps dotted keys to values given on the command line; None means "not given". Relative
    paths in the TOML file are meant from that file's folder, all others from the current one.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in _layers(Path(config) if config is not None else None, flags or {}):
        for key, value in layer.items():
            values[key] = value
            origins[key] = origin.format(key=key, env=env_name(key))
    try:
        return Loaded(Settings(**_nest(values)), origins)
    except ValidationError as error:
        raise ConfigError(_explain(error, origins)) from None


def _layers(config: Path | None, flags: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    path = config or (Path(os.environ[ENV_CONFIG]) if os.environ.get(ENV_CONFIG) else None)
    if path is None and Path(CONFIG_NAME).is_file():
        path = Path(CONFIG_NAME)
    if path is not None:
        yield str(path), _from_toml(path)
    yield "environment {env}", _from_environment()
    yield "flag", {key: value for key, value in flags.items() if value is not None}


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"no settings file at {path}: name an existing one, or leave it out"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from None
    flat = _flatten(table, where=str(path))
    for key in PATHS:
        if isinstance(flat.get(key), str):
            flat[key] = path.parent / Path(flat[key]).expanduser()
    for key in ("ingest.archive", "embed.encoder"):
        place = flat.get(key)
        if isinstance(place, str) and (path.parent / place).is_dir():
            flat[key] = str(path.parent / place)
    return flat


def _flatten(table: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    sections = {key.split(".")[0] for key in known_keys() if "." in key}
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key in sections:
            flat |= _flatten(value, where, f"{key}.")
        elif key in known_keys():
            flat[key] = value
        else:
            known = [*known_keys(), *sections]
            raise ConfigError(f"{where}: unknown setting {key!r}{_nearest(key, known)}")
    return flat


def _from_environment() -> dict[str, Any]:
    by_env = {env_name(key): key for key in known_keys()}
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in by_env and name != ENV_CONFIG:
            hint = _nearest(name, [*by_env, ENV_CONFIG])
            raise ConfigError(f"environment: unknown variable {name}{hint}")
    given = EnvSettingsSource(Settings)()
    return {key: _dig(given, key) for name, key in by_env.items() if name in os.environ}


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.0)
    return f"; the nearest known one is {close[0]!r}" if close else ""


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        level = nested
        for section in sections:
            level = level.setdefault(section, {})
        level[name] = value
    return nested


def _dig(nested: Mapping[str, Any], key: str) -> Any:
    value: Any = nested
    for part in key.split("."):
        value = value[part]
    return value


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    problems = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        problems.append(f"{key} = {item['input']!r} ({origins.get(key, 'default')}): {item['msg']}")
    return "; ".join(problems)
