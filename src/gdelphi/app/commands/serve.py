"""`gdelphi serve`: the flows at their times. The stage is `flows/serve.py`."""

import importlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gdelphi.app.options import ConfigOption, settings_from
from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import CONFIG_NAME, ENV_CONFIG


def command(
    once: Annotated[
        str | None,
        typer.Option("--once", metavar="FLOW", help="Run daily, train or ingest now, and end."),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds between daily runs, for trying out [cron]."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run the flows at their times, until it is stopped.

    Starts a Prefect server, or uses the one in flows.server, and looks after it and the flows: the
    daily run at flows.daily, training at flows.training (UTC). Its page shows what ran; it
    says at its start in which file the password for that page is.
    """
    settings = settings_from(config).settings
    config = config or _found_config()
    serving = _import_flows()
    if once:
        serving.run_once(settings, once, config)
        return
    serving.serve(settings, config, every=every, say=say)


def _found_config() -> Path | None:
    """The settings file in force when none is given: a run that starts elsewhere has to be told."""
    named = os.environ.get(ENV_CONFIG)
    if named:
        return Path(named)
    return Path(CONFIG_NAME) if Path(CONFIG_NAME).is_file() else None


def _import_flows() -> Any:
    """gdelphi_flows.serve, by name: not everybody installs it, and it stands above this package."""
    try:
        return importlib.import_module("gdelphi_flows.serve")
    except ModuleNotFoundError as error:
        raise GdelphiError(
            f'the flows are not installed ({error}): pip install "gdelphi[flows]"'
        ) from None


def say(message: str) -> None:
    """Print a line with its time, for whoever reads a log."""
    print(f"{datetime.now(UTC):%H:%M:%S} gdelphi: {message}", flush=True)  # noqa: T201
