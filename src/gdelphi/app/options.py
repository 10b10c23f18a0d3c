"""What the commands share before their work: options, settings from them, how they are stopped."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import (
    Loaded,
    Settings,
    load_settings,
)

FURTHEST = 7  # days ahead that are forecast
CURRENT = "current"  # among the models: the one in use


def parse_day(text: str) -> date:
    """A day as a user writes it."""
    for form in ("%Y-%m-%d", "%Y%m%d"):
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a calendar day
        except ValueError:
            continue
    raise typer.BadParameter(f"{text!r} is not a day like 2025-05-16")


def parse_origin(text: str) -> date | Literal["latest"]:
    """A day, or the word latest."""
    return "latest" if text == "latest" else parse_day(text)


def parse_horizon(text: str | int) -> int:
    """Days ahead, 1 to 7; the word week is 0, as tables have it."""
    if text == "week":
        return 0
    if str(text).isascii() and str(text).isdigit() and 1 <= int(text) <= FURTHEST:
        return int(text)
    raise typer.BadParameter(f"{text!r} is neither a number of days from 1 to {FURTHEST} nor week")


def parse_names(text: str | None) -> tuple[str, ...]:
    """Names as a user writes them in one word: KE,UP."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def parse_stream(text: str) -> str:
    """A country as a user writes it, as its stream; what they should know is told."""
    from gdelphi.gdelt.countries import find_stream

    found = find_stream(text)
    if found.note:
        typer.echo(f"gdelphi: {found.note}", err=True)
    return found.stream


class RowFormat(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


class EventLevel(StrEnum):
    """Level of standard events."""

    root = "root"
    base = "base"
    full = "full"


StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="The DuckDB file, or a lake [data/gdelphi.duckdb]."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file [./gdelphi.toml if there is one].")
]
WaitOption = Annotated[
    float | None,
    typer.Option("--wait", help="Seconds to wait for a process that holds the store [30]."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FormatOption = Annotated[RowFormat, typer.Option("--format", help="How to print the rows.")]
StreamOption = Annotated[
    str,
    typer.Option(
        "--stream",
        parser=parse_stream,
        metavar="COUNTRY",
        help="A country by name or code (FIPS 10-4, ISO 3166 or CAMEO), or WORLD.",
    ),
]
DayOption = Annotated[
    date, typer.Option("--day", parser=parse_day, metavar="DAY", help="A news day.")
]

# --- of models and their training -----------------------------------------------------------------

ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Folder of a trained model [the one in use, models/current]."),
]
ModelSeedOption = Annotated[int | None, typer.Option(help="The same seed, the same model [0].")]
TensorBoardOption = Annotated[
    bool,
    typer.Option("--tensorboard", help="Show metrics in TensorBoard too, from OUT/tensorboard."),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume/--fresh", help="Go on from the folder's last checkpoint, or start anew (--fresh)."
    ),
]

# --- of forecasts ---------------------------------------------------------------------------------

OriginOption = Annotated[
    Any,
    typer.Option(
        "--origin",
        parser=parse_origin,
        metavar="DAY",
        help="Last day that may be known: a news day, or latest, the last complete one.",
    ),
]
CompleteAsOfOption = Annotated[
    date | None,
    typer.Option(
        "--as-of",
        parser=parse_day,
        metavar="DAY",
        help="Judge what is complete as of this day [today, UTC].",
    ),
]
SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--as-of-snapshot",
        metavar="STATE",
        help="Of a lake: make it again from a past state, by snapshot number, time or day (UTC).",
    ),
]
PartialOption = Annotated[
    bool,
    typer.Option("--allow-partial", help="Take an origin that is not complete, and mark it."),
]
FuturesOption = Annotated[int, typer.Option(min=1, max=10_000, help="Days drawn for a stream.")]
FuturesSeedOption = Annotated[int, typer.Option(min=0, help="The same seed, the same futures.")]
ForecastsOption = Annotated[
    Path | None, typer.Option(help="Folder of forecasts [forecasts, beside the store].")
]


def settings_from(config: Path | None, **flags: Any) -> Loaded:
    """The settings in force; `a__b` names the setting a.b. Countries are streams in them."""
    from gdelphi.gdelt.countries import with_streams

    loaded = load_settings(config, {key.replace("__", "."): value for key, value in flags.items()})
    return replace(loaded, settings=with_streams(loaded.settings))


def model_folder(settings: Settings, given: Path | None) -> Path:
    """The model that is meant: without one given, the one in use."""
    if given is not None:
        return given
    current = settings.flows.models / CURRENT
    if not model_in_use(settings):
        raise ConfigError(
            f"no model is in use, {current} is not there: `gdelphi promote` takes a trained one "
            "into use, --model names another"
        )
    return current


def model_in_use(settings: Settings) -> bool:
    """Whether a model has been taken into use."""
    return (settings.flows.models / CURRENT).exists()


def let_threads_sleep() -> None:
    """Make torch's threads wait for each other asleep; to be called before torch is imported.

    They wait spinning otherwise: a training step takes 0.2 s on an idle machine of 2 cores and 5 to
    11 s beside one or two other programs. Asleep it takes 0.3 to 0.4 s on either. The variable is
    read when torch is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def goes_on_from(where: str) -> Iterator[None]:
    """Around long work that can go on: stopped by hand, it says so."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"gdelphi: interrupted; run it again to go on from {where}", err=True)
        raise typer.Exit(130) from None
