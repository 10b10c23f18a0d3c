"""`gdelphi report`: the morning report of a stored forecast. The stage is `report/report.py`."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdelphi.app.console import Steps, err, out, print_json
from gdelphi.app.options import (
    ConfigOption,
    ForecastsOption,
    JsonOption,
    ModelOption,
    SnapshotOption,
    StoreOption,
    WaitOption,
    parse_day,
    parse_origin,
    settings_from,
)
from gdelphi.common.checksums import CHECKSUMS
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from gdelphi.report.report import ReportWritten

CHANGES_SHOWN = 5


def command(
    origin: Annotated[
        Any,
        typer.Option(
            "--origin",
            parser=parse_origin,
            metavar="DAY",
            help="Last day that the forecast knew, or latest: the newest with a forecast; without "
            "any, the last complete news day.",
        ),
    ] = "latest",
    model: ModelOption = None,
    forecasts: ForecastsOption = None,
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
    as_of_snapshot: SnapshotOption = None,
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
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, store_as_of=as_of_snapshot
    ).settings
    with Steps() as steps:
        from gdelphi.report.report import ReportRequest, make_report

        request = ReportRequest(
            origin=origin, forecasts=forecasts, out=out, as_of=as_of, model=model
        )
        written = make_report(settings, request, on_step=steps.step)
    show_written(written, json=json)


def show_written(written: "ReportWritten", *, json: bool) -> None:
    """Print where the report is, and what stands at its top."""
    report = written.report
    for warning in written.warnings:
        err.print(Text(f"warning: {warning}", style="yellow"))
    if json:
        print_json(_as_plain(written))
        return
    head = f"report of {report.target_day:%A} {report.target_day} from {report.origin}"
    out.print(Text(head, style="bold"))
    for banner in report.banners:
        out.print(Text(banner, style="yellow"))
    for sentence in report.week.sentences if report.week else ():
        out.print(Text(sentence))
    out.print(Text(report.record.verdict))
    for change in report.changes[:CHANGES_SHOWN]:
        told = f"  {change.name}: {change.label} ({change.target}) {percent(change.published)}, "
        out.print(Text(f"{told}{change.against} {percent(change.before)}"))
    out.print(Text(f"\n{written.folder / 'index.html'}"))


def _as_plain(written: "ReportWritten") -> dict[str, object]:
    report = written.report
    return {
        "folder": str(written.folder),
        "files": sorted({path.name for path in written.folder.iterdir()} - {CHECKSUMS}),
        "origin": report.origin,
        "target_day": report.target_day,
        "forecast": report.provenance.forecast,
        "streams": len(report.countries),
        "partial": report.partial,
        "hindsight": report.hindsight,
        "stale": report.stale,
        "banners": report.banners,
        "week": report.week.sentences if report.week else None,
        "changes": [change.model_dump() for change in report.changes],
        "record": {
            "source": report.record.source,
            "skilful": report.record.skilful,
            "verdict": report.record.verdict,
        },
        "warnings": written.warnings,
    }
