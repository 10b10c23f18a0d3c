"""`gdelphi ingest`: what an archive has comes into the store. The stage is `store/ingest.py`."""

import threading
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text

from gdelphi.app.console import MOST_LINES, Bars, err, grid, out, unknown_codes
from gdelphi.app.options import (
    ConfigOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    parse_day,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.store.ingest import IngestResult
    from gdelphi.store.plan import Plan


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Single files to read, in place of an archive.", show_default=False),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(help="URL or folder; gdelt1 and gdelt2 name GDELT's own site [gdelt1]."),
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(
            parser=parse_day,
            metavar="DAY",
            help="First news day [the last one that this archive brought; into an empty store "
            "everything, or the last 400 days of an archive over 2 GB].",
        ),
    ] = None,
    until: Annotated[
        date | None, typer.Option(parser=parse_day, metavar="DAY", help="Last news day [no end].")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load again what is loaded.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Files fetched at the same time [4].")] = None,
    translated: Annotated[
        bool | None, typer.Option("--translated", help="The feed of translated news too.")
    ] = None,
    reduced: Annotated[
        bool | None, typer.Option("--reduced", help="MASTERREDUCEDV2 too (a table of its own).")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Name of the archive in the ledger, so that a mirror may replace it."),
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Bring what an archive has, and the store lacks, into the store.

    Lists the archive, subtracts what the ledger has, fetches, verifies and loads the rest. Run
    again, it does only what is missing. Exits with 1 if anything failed, after doing all it could.
    """
    from gdelphi.store.ingest import IngestRequest, ingest, plan_ingest

    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        ingest__archive=archive,
        ingest__jobs=jobs,
        ingest__translated=translated,
        ingest__reduced=reduced,
        ingest__label=label,
    ).settings
    request = IngestRequest(tuple(files or ()), since, until, force)
    if dry_run:
        show_plan(plan_ingest(settings, request))
        return
    with goes_on_from("here"), IngestBars() as bars:
        result = ingest(settings, request, bars)
    show_result(result)
    raise typer.Exit(0 if result.succeeded else 1)


class IngestBars(Bars):
    """Two bars on the error stream: bytes fetched, files loaded."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._rows = self._bytes = 0
        self._fetch: TaskID | None = None
        self._load: TaskID | None = None

    def planned(self, plan: "Plan") -> None:
        """Begin both bars, if there is something to do."""
        if plan.tasks:
            self._fetch = self._bars.add_task("fetching", total=plan.size, amount="")
            self._load = self._bars.add_task("loading", total=len(plan.tasks), amount="")

    def fetched(self, size: int) -> None:
        """Count bytes that have come; called by several threads."""
        with self._lock:
            self._bytes += size
            if self._fetch is not None:
                amount = f"{self._bytes / 1e6:,.1f} MB"
                self._bars.update(self._fetch, completed=self._bytes, amount=amount)

    def file_done(self, rows: int) -> None:
        """Count a file and its rows."""
        with self._lock:
            self._rows += rows
            if self._load is not None:
                self._bars.update(self._load, advance=1, amount=f"{self._rows:,} rows")


def show_result(result: "IngestResult") -> None:
    """Print the closing summary of a run."""
    plan = result.plan
    table = grid(f"ingested from {result.archive}")
    table.add_row("days", _window(plan))
    counts = dict.fromkeys(("missing", "rejected", "failed"), 0)
    for problem in result.problems:
        counts[problem.status] += 1
    files = f"{result.loaded:,} loaded, {plan.had:,} in the store before"
    files += "".join(f", {count:,} {status}" for status, count in counts.items() if count)
    files += f", {result.not_tried:,} not tried" if result.not_tried else ""
    table.add_row("files", files)
    table.add_row(
        "rows",
        f"{result.rows_in:,} in = {result.accepted:,} accepted + {result.rejected:,} rejected + "
        f"{result.duplicates:,} duplicates",
    )
    if result.repaired:
        table.add_row("", f"{result.repaired:,} with bytes that are no UTF-8, replaced")
    for reason, count in result.reject_reasons.most_common(5):
        table.add_row("rejected", Text(f"{count:,} x {reason}"))
    if plan.gaps:
        table.add_row("gaps", f"{len(plan.gaps):,} files are in no list of the archive")
    _add_oddities(table, result)
    if result.unknown_codes:
        table.add_row("unknown codes", Text(unknown_codes(result.unknown_codes)))
    rate = result.rows_in / result.seconds if result.seconds else 0.0
    table.add_row("time", f"{result.seconds:,.1f} s, {rate:,.0f} rows/s")
    out.print(table)
    for problem in result.problems[:MOST_LINES]:
        known = "" if problem.is_new else " (as before)"
        err.print(Text(f"{problem.status}{known}: {problem.reason}", style="red"))
    if len(result.problems) > MOST_LINES:
        err.print(f"... and {len(result.problems) - MOST_LINES} more: the ledger has them all")
    if result.not_tried:
        err.print(
            Text("The archive is out of reach: the rest is left for the next run.", style="red")
        )


def show_plan(result: "IngestResult") -> None:
    """Print what a run would do."""
    plan = result.plan
    table = grid(f"would ingest from {result.archive}")
    table.add_row("days", _window(plan))
    size = "" if plan.size is None else f", {plan.size / 1e6:,.1f} MB"
    table.add_row("to fetch", f"{len(plan.tasks):,} files{size}")
    for why, count in plan.reasons.most_common():
        table.add_row("", f"{count:,} {why}")
    table.add_row("in the store", f"{plan.had:,} files")
    table.add_row("other days", f"{plan.outside:,} files")
    if plan.gaps:
        table.add_row("gaps", f"{len(plan.gaps):,} files are in no list of the archive")
    _add_oddities(table, result)
    out.print(table)
    for task in plan.tasks[:MOST_LINES]:
        out.print(Text(f"  {task.file.name}  ({task.why})"))
    if len(plan.tasks) > MOST_LINES:
        out.print(f"  ... and {len(plan.tasks) - MOST_LINES:,} more")


def _add_oddities(table: Table, result: "IngestResult") -> None:
    """Add what the archive's list has and is not read."""
    for what, count in result.listing.passed_over.items():
        table.add_row("passed over", f"{count:,} {what}")
    if result.listing.unknown:
        names = ", ".join(result.listing.unknown[:5])
        table.add_row("not recognised", Text(f"{names}: `gdelphi ingest FILE` reads a single file"))
    if result.listing.damaged_lines:
        table.add_row("list", f"{result.listing.damaged_lines:,} lines could not be read")


def _window(plan: "Plan") -> str:
    days = [day for task in plan.tasks for day in (task.file.first_day, task.file.last_day) if day]
    dates = f"{min(days)} to {max(days)}" if days else "none"
    return f"{dates} ({plan.window.chosen})"
