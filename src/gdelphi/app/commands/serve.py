"""`gdelphi serve`: the flows at their times. The stage is `flows/serve.py`."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from gdelphi.app.elsewhere import found_config, import_flows
from gdelphi.app.options import ConfigOption, settings_from


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
    config = config or found_config()
    serving = import_flows("gdelphi_flows.serve")
    if once:
        serving.run_once(settings, once, config)
        return
    serving.serve(settings, config, every=every, say=say)


def say(message: str) -> None:
    """Print a line with its time, for whoever reads a log."""
    print(f"{datetime.now(UTC):%H:%M:%S} gdelphi: {message}", flush=True)  # noqa: T201
