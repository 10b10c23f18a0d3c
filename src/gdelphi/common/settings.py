"""Settings: `gdelphi.toml`, then `GDELPHI_...` variables, then flags, each over the one before.

One frozen object holds everything that can be set; `sections.py` has its parts. The three layers
are read one by one instead of letting pydantic-settings merge them, because `gdelphi config` has to
say where a value came from, and because an unknown key must be an error that names the nearest
known one: a misspelt key that is silently ignored is found at night.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import (
    BaseModel,
    Field,
    SecretStr,
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
from gdelphi.common.sections import (
    AlertSettings,
    ApiSettings,
    EmbedSettings,
    FlowSettings,
    IngestSettings,
    MeasureSettings,
    ReportSettings,
    SequenceSettings,
    SplitSettings,
    StatusSettings,
    TextSettings,
    TrainSettings,
)

CONFIG_NAME = "gdelphi.toml"
HIDDEN = "***"  # in place of what is not shown
ENV_PREFIX = "GDELPHI_"
ENV_CONFIG = "GDELPHI_CONFIG"  # where the TOML file is; not itself a setting
ENV_TOKEN = "GDELPHI_API_TOKEN"  # noqa: S105 - its name; in no file, so that none has to be kept
LAKE: Final = "ducklake:"  # how the address of a store that is no file begins
PATHS = (
    "store", "store_data", "ingest.downloads", "embed.cache", "measures.folder", "report.folder",
    "report.backtest", "flows.models", "text.pretrained",
)  # fmt: skip

Snapshot = Annotated[
    str, StringConstraints(pattern=r"^(\d{1,18}|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?)$")
]
MemorySize = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?\s*[KMGT]i?B$")]


class Settings(BaseSettings):
    """Everything that can be set, frozen."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    store: Path = Field(
        Path("data/gdelphi.duckdb"),
        description="the DuckDB file; or a lake, as ducklake:postgres:dbname=... host=...",
    )
    store_data: Path | None = Field(
        None, description="of a lake: the folder of its data, which every machine sees"
    )
    store_as_of: Snapshot | None = Field(
        None, description="of a lake: read it as it was, by day, time (UTC) or snapshot number"
    )
    store_wait_seconds: float = Field(
        30.0, ge=0, description="how long to wait for another process that holds the store"
    )
    store_memory: MemorySize = Field("512MB", description="memory DuckDB may use")
    store_threads: int | None = Field(
        None, ge=1, description="DuckDB's threads; all cores if unset"
    )
    store_serve_reads: bool = Field(
        True, description="of a file: who writes answers readers, and they ask it; else they wait"
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
    api: ApiSettings = ApiSettings()
    alerts: AlertSettings = AlertSettings()
    store_catalog: SecretStr | None = None
    """the address of a lake, given as `store`: that is its data folder then, which everything else
    lies beside; secret, since a password may be in it"""

    @model_validator(mode="before")
    @classmethod
    def _take_lake_apart(cls, values: dict[str, Any]) -> dict[str, Any]:
        address = str(values.get("store", ""))
        if not address.startswith(LAKE):
            return values
        if not values.get("store_data"):
            raise ValueError("a lake needs store_data: a folder that every machine sees")
        return {**values, "store": values["store_data"], "store_catalog": address}

    @property
    def store_name(self) -> str:
        """The store's file, or the lake's address without its password."""
        if self.store_catalog is None:
            return str(self.store)
        return without_password(self.store_catalog.get_secret_value())

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
                value = getattr(value, "store_name" if key == "store" else part)
            yield key, value, self.origins.get(key, "default")


SECRET_ADDRESSES = ("ingest.archive", "flows.server", "flows.notify_url")
SECRET_COMMANDS = ("flows.notify_command",)


def without_password(address: str) -> str:
    """The address of a catalog as it may be shown, as words or as a URL."""
    words = re.sub(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", rf"\1{HIDDEN}", address)
    return re.sub(r"(://[^:/@\s]*):[^/\s]*@", rf"\1:{HIDDEN}@", words)


def shown_value(key: str, value: Any) -> Any:
    """A setting's value as it may be shown: without passwords, signatures and tokens.

    Who knows a webhook's address may post there, so of that the host alone is told; of a command
    its first word, since tokens are among the others.
    """
    if key in SECRET_COMMANDS and isinstance(value, str) and len(value.split()) > 1:
        return f"{value.split()[0]} {HIDDEN}"
    if key not in SECRET_ADDRESSES or not isinstance(value, str) or "://" not in value:
        return value
    parts = urlsplit(value)
    user, _, host = parts.netloc.rpartition("@")
    path = parts.path
    if key == "flows.notify_url":
        path = f"/{HIDDEN}"
    query = HIDDEN if parts.query else ""
    return urlunsplit((parts.scheme, f"{HIDDEN}@{host}" if user else host, path, query, ""))


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> tuple[str, ...]:
    """The dotted names of all settings."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += known_keys(field.annotation, f"{prefix}{name}.")
        elif name != "store_catalog":
            keys.append(prefix + name)
    return tuple(keys)


def description_of(key: str) -> str:
    """What a setting means, as written at its definition."""
    model: Any = Settings
    *sections, name = key.split(".")
    for section in sections:
        model = model.model_fields[section].annotation
    return model.model_fields[name].description or ""


def with_absolute_paths(settings: Settings) -> Settings:
    """The same for a process whose current folder is another."""
    changes: dict[str, Any] = {}
    for key in PATHS:
        section, _, name = key.rpartition(".")
        part = getattr(settings, section) if section else settings
        path: Path | None = getattr(part, name)
        if path is not None:
            changes.setdefault(section, {})[name] = path.absolute()
    top = changes.pop("", {})
    parts = {
        section: getattr(settings, section).model_copy(update=given)
        for section, given in changes.items()
    }
    return settings.model_copy(update={**top, **parts})


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
        if isinstance(flat.get(key), str) and not flat[key].startswith(LAKE):
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
        if name.startswith(ENV_PREFIX) and name not in {*by_env, ENV_CONFIG, ENV_TOKEN}:
            hint = _nearest(name, [*by_env, ENV_CONFIG, ENV_TOKEN])
            raise ConfigError(f"environment: unknown variable {name}{hint}")
    nested = EnvSettingsSource(Settings)()
    return {key: _value_at(nested, key) for name, key in by_env.items() if name in os.environ}


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


def _value_at(nested: Mapping[str, Any], key: str) -> Any:
    value: Any = nested
    for part in key.split("."):
        value = value[part]
    return value


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    problems = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if not key:  # of the whole: its values may be secret
            problems.append(f"store = {LAKE}... ({origins.get('store')}): {item['msg']}")
            continue
        problems.append(f"{key} = {item['input']!r} ({origins.get(key, 'default')}): {item['msg']}")
    return "; ".join(problems)
