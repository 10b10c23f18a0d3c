"""The command that makes the morning report."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from gdelphi.app import console_report
from gdelphi.app.console import Steps
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    ModelOption,
    StoreOption,
    WaitOption,
    parse_day,
    settings_from,
)

# What it calls takes a second to import, so it is imported when the command runs.


def _parse_origin(text: str) -> date | Literal["latest"]:
    return "latest" if text == "latest" else parse_day(text)


def report_command(
    origin: Annotated[
        Any,
        typer.Option(
            "--origin",
            parser=_parse_origin,
            metavar="DAY",
            help="Last day that the forecast knew, or latest: the newest with a forecast; without "
            "any, the last complete news day.",
        ),
    ] = "latest",
    model: ModelOption = None,
    forecasts: Annotated[
        Path | None, typer.Option(help="Folder of forecasts [forecasts, beside the store].")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of reports [reports, beside the store].")
    ] = None,
    as_of: Annotated[
        date | None,
        typer.Option(
            "--as-of",
            parser=parse_day,
            metavar="DAY",
            help="Judge what is stale and complete as of this day [today, UTC].",
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Make the morning report: a page, a document, tables, and a feed.

    Reads a stored forecast and the store, and writes a folder for the origin: index.html,
    report.md, report.json with its schema, and CSV files; beside it a front page and an Atom feed
    of all reports. Without a forecast it says why, and shows what there is. The model is not run;
    naming it only adds when it was trained.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    with Steps() as steps:
        from gdelphi.report.report import ReportRequest, make_report

        request = ReportRequest(
            origin=origin, forecasts=forecasts, out=out, as_of=as_of, model=model
        )
        written = make_report(settings, request, on_step=steps.step)
    console_report.show_written(written, json=json)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {"report": report_command}
