"""What the commands of the command line share: options, and settings from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import (
    Loaded,
    Settings,
    load_settings,
)


def parse_day(text: str) -> date:
    """A day as a user writes it."""
    for form in ("%Y-%m-%d", "%Y%m%d"):
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a calendar day
        except ValueError:
            continue
    raise typer.BadParameter(f"{text!r} is not a day like 2025-05-16")


StoreOption = Annotated[
    Path | None, typer.Option("--store", help="The DuckDB file [data/gdelphi.duckdb].")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file [./gdelphi.toml if there is one].")
]
WaitOption = Annotated[
    float | None,
    typer.Option("--wait", help="Seconds to wait for a process that holds the store [30]."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Folder of a trained model [the one in use, models/current]."),
]
ModelSeedOption = Annotated[int | None, typer.Option(help="The same seed, the same model [0].")]
BoardOption = Annotated[
    bool,
    typer.Option("--tensorboard", help="Show metrics in TensorBoard too, from OUT/tensorboard."),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume/--fresh", help="Go on from the folder's last state, or start anew (--fresh)."
    ),
]
StreamOption = Annotated[
    str, typer.Option("--stream", help="A country's two letters (FIPS 10-4), or WORLD.")
]
DayOption = Annotated[
    date, typer.Option("--day", parser=parse_day, metavar="DAY", help="A news day.")
]


class RowFormat(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def settings_from(config: Path | None, **flags: Any) -> Loaded:
    """The settings in force; `a__b` names the setting a.b."""
    return load_settings(config, {key.replace("__", "."): value for key, value in flags.items()})


def model_folder(settings: Settings, given: Path | None) -> Path:
    """The model that is meant: without one given, the one in use."""
    if given is not None:
        return given
    current = settings.flows.models / "current"
    if not current.exists():
        raise ConfigError(
            f"no model is in use, {current} is not there: `gdelphi promote` takes a trained one "
            "into use, --model names another"
        )
    return current


@contextmanager
def goes_on_from(where: str) -> Iterator[None]:
    """Around long work that can go on: stopped by hand, it says so."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"gdelphi: interrupted; run it again to go on from {where}", err=True)
        raise typer.Exit(130) from None
