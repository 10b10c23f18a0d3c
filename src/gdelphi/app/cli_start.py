"""Commands for the first hour: doctor and demo."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gdelphi.app import console_start
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    parse_day,
    settings_from,
)


def doctor_command(
    as_of: Annotated[
        date | None,
        typer.Option(
            "--as-of", parser=parse_day, metavar="DAY", help="Judge as if it were this day [today]."
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Check the machine and the settings, and say what to do about each failure.

    Python, torch and its device, the encoder, disk, archive, store, measures, the model in use,
    Prefect. Exits with 1 if something would stop a run; warnings do not count.
    """
    from gdelphi.app.doctor import examine

    settings = settings_from(config, store=store).settings
    with console_start.Checks(quiet=json) as checks:
        findings = [
            checks.show(each) for each in examine(settings, as_of=as_of, on_check=checks.begin)
        ]
    if json:
        typer.echo(console_start.as_json(findings))
    raise typer.Exit(1 if any(each.state == "failure" for each in findings) else 0)


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder; it must be empty, or of an earlier demo.")] = (
        Path("data/demo")
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the world and of the model.")] = 7,
) -> None:
    """A small simulated world, from its archive to the morning report.

    Creates a world whose true probabilities are known, reads it, trains a model, takes it into use,
    forecasts, judges the forecasts beside the baselines and the oracles, and writes the report.
    """
    with console_start.DemoSteps() as steps:
        from gdelphi.app.demo import demo

        shown = demo(out, seed=seed, on_step=steps.step)
    console_start.show_demo(shown)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {"doctor": doctor_command, "demo": demo_command}
