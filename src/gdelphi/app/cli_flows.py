"""The commands around what runs by itself: promote, serve."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gdelphi.app import console_flows
from gdelphi.app.console_forecast import ForecastSteps
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WaitOption,
    settings_from,
)
from gdelphi.common.errors import GdelphiError


def promote_command(
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Folder of the challenger [latest, in flows.models]."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Put it in use without a comparison.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to the model that was in use before.")
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Put a model in use, if it is not worse than the one that is.

    Both are asked for the same days of validation B. What is in use is a copy in models/, named by
    its fingerprint; models/current points to it, and models/promotions.jsonl tells why. Exits with
    1 if the model in use stays.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    if rollback and (model or force):
        raise typer.BadParameter("--rollback goes with neither --model nor --force")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see `gdelphi train`
    with ForecastSteps() as steps:
        from gdelphi.app import promote

        if rollback:
            decided = promote.rollback(settings)
        else:
            challenger = model or settings.flows.models / "latest"
            decided = promote.promote(settings, challenger, force=force, on_step=steps.step)
    console_flows.show_decided(decided, json=json)
    raise typer.Exit(1 if decided.action == "kept" else 0)


def serve_command(
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
    config = console_flows.config_path(config)
    serving = _flows()
    if once:
        serving.run_once(settings, once, config)
        return
    serving.serve(settings, config, every=every, say=console_flows.say)


def _flows() -> Any:
    """The package of flows, which not everybody installs."""
    try:
        return importlib.import_module("gdelphi_flows.serve")
    except ModuleNotFoundError as error:
        raise GdelphiError(
            f'the flows are not installed ({error}): pip install "gdelphi[flows]"'
        ) from None


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "promote": promote_command,
    "serve": serve_command,
}
