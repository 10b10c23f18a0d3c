"""What the command line shows: progress bars and tables. No decision is made here."""

import csv
import dataclasses
import io
import json
import sys
import threading
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from gdelphi.common.settings import Loaded, description_of
from gdelphi.store.ingest import IngestResult
from gdelphi.store.plan import Plan
from gdelphi.store.status import Gap, Status

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.judge.simulated import Description
    from gdelphi.world.archive import Created
    from gdelphi.world.simulate import SimulatedDay

PIPE_WIDTH = 160  # where there is no terminal to ask

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False)

MOST_LINES = 20  # of a list that could be endless


class Bars:
    """Bars on the error stream while a block runs; none where it is no terminal."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


class IngestBars(Bars):
    """Two bars on the error stream: bytes fetched, files loaded."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._rows = self._bytes = 0
        self._fetch: TaskID | None = None
        self._load: TaskID | None = None

    def planned(self, plan: Plan) -> None:
        if plan.tasks:
            self._fetch = self._bars.add_task("fetching", total=plan.size, amount="")
            self._load = self._bars.add_task("loading", total=len(plan.tasks), amount="")

    def fetched(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            if self._fetch is not None:
                amount = f"{self._bytes / 1e6:,.1f} MB"
                self._bars.update(self._fetch, completed=self._bytes, amount=amount)

    def file_done(self, rows: int) -> None:
        with self._lock:
            self._rows += rows
            if self._load is not None:
                self._bars.update(self._load, advance=1, amount=f"{self._rows:,} rows")


class WorldBar(Bars):
    """One bar: simulated days written."""

    def __init__(self, days: int) -> None:
        super().__init__()
        self._task = self._bars.add_task("simulating", total=days, amount="")
        self._rows = 0

    def day_done(self, day: "SimulatedDay") -> None:
        self._rows += 0 if day.missing else day.rows
        self._bars.update(self._task, advance=1, amount=f"{self._rows:,} rows")


class Steps:
    """A spinner that says which step is being done; without a terminal, a line for each."""

    def __init__(self) -> None:
        self._status = err.status("")

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def step(self, name: str) -> None:
        if err.is_terminal:
            self._status.update(name)
        else:
            err.print(f"... {name}")


def show_created(created: "Created") -> None:
    """What `world create` has written."""
    table = grid(f"simulated world in {created.folder}")
    table.add_row("days", f"{created.days:,}, of which {len(created.missing_days):,} are missing")
    table.add_row("files", f"{created.files:,}")
    table.add_row("rows", f"{created.rows:,}")
    table.add_row("next", f"gdelphi ingest --archive {created.folder}")
    out.print(table)


def show_description(description: "Description") -> None:
    """Scores of baselines and oracles, and what the world is made of."""
    out.print(
        f"{description.streams} streams, {description.days} days, "
        f"{description.rows_a_day:,.0f} rows a day; scored on the last {description.test_days} "
        "present days, root codes"
    )
    for title, lines in (
        ("all cells", description.lines),
        ("active cells (training rate .05 to .95)", description.active_lines),
    ):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for heading in ("target", "forecaster"):
            table.add_column(heading)
        for heading in ("cells", "Brier", "log score", "skill against the stack", "95%"):
            table.add_column(heading, justify="right")
        for line in lines:
            table.add_row(
                line.target,
                line.forecaster,
                f"{line.cells:,}",
                f"{line.brier:.4f}",
                f"{line.log_score:.4f}",
                f"{line.skill.value:+.1%}",
                f"{line.skill.low:+.1%} to {line.skill.high:+.1%}",
            )
        out.print()
        out.print(table)
    out.print(
        f"\nroom between the stack and the fair oracle: {description.room:.1%} of the stack's "
        f"Brier score of occurs; {description.between:.0%} of the cells have a fair probability "
        "between .05 and .95"
    )
    table = Table(title="ingredients", title_justify="left", box=None, pad_edge=False)
    table.add_column("ingredient")
    table.add_column("loss of an oracle that does not see it", justify="right")
    table.add_column("room in a world without it", justify="right")
    for each in description.contributions:
        room = "" if each.room_without is None else f"{each.room_without:.1%}"
        table.add_row(each.ingredient, f"{each.blind_loss:+.1%}", room)
    out.print()
    out.print(table)


def grid(title: str) -> Table:
    """A table of names and values under a title."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    return table


def show_ingest(result: IngestResult) -> None:
    """The closing summary of a run."""
    plan = result.plan
    table = grid(f"ingested from {result.archive}")
    table.add_row("days", _window(plan))
    counted = dict.fromkeys(("missing", "rejected", "failed"), 0)
    for trouble in result.troubles:
        counted[trouble.status] += 1
    files = f"{result.loaded:,} loaded, {plan.had:,} in the store before"
    files += "".join(f", {number:,} {status}" for status, number in counted.items() if number)
    files += f", {result.not_tried:,} not tried" if result.not_tried else ""
    table.add_row("files", files)
    table.add_row(
        "rows",
        f"{result.rows_in:,} in = {result.accepted:,} accepted + {result.rejected:,} rejected + "
        f"{result.duplicates:,} duplicates",
    )
    if result.repaired:
        table.add_row("", f"{result.repaired:,} with bytes that are no UTF-8, replaced")
    for reason, number in result.reject_reasons.most_common(5):
        table.add_row("rejected", Text(f"{number:,} x {reason}"))
    if plan.gaps:
        table.add_row("gaps", f"{len(plan.gaps):,} files are in no list of the archive")
    _add_asides(table, result)
    if result.unknown_codes:
        table.add_row("unknown codes", Text(_codes(result.unknown_codes)))
    rate = result.rows_in / result.seconds if result.seconds else 0.0
    table.add_row("time", f"{result.seconds:,.1f} s, {rate:,.0f} rows/s")
    out.print(table)
    for trouble in result.troubles[:MOST_LINES]:
        known = "" if trouble.news else " (as before)"
        err.print(Text(f"{trouble.status}{known}: {trouble.reason}", style="red"))
    if len(result.troubles) > MOST_LINES:
        err.print(f"... and {len(result.troubles) - MOST_LINES} more: the ledger has them all")
    if result.not_tried:
        err.print(
            Text("The archive is out of reach: the rest is left for the next run.", style="red")
        )


def show_plan(result: IngestResult) -> None:
    """What a run would do."""
    plan = result.plan
    table = grid(f"would ingest from {result.archive}")
    table.add_row("days", _window(plan))
    size = "" if plan.size is None else f", {plan.size / 1e6:,.1f} MB"
    table.add_row("to fetch", f"{len(plan.tasks):,} files{size}")
    for why, number in plan.reasons.most_common():
        table.add_row("", f"{number:,} {why}")
    table.add_row("in the store", f"{plan.had:,} files")
    table.add_row("other days", f"{plan.outside:,} files")
    if plan.gaps:
        table.add_row("gaps", f"{len(plan.gaps):,} files are in no list of the archive")
    _add_asides(table, result)
    out.print(table)
    for task in plan.tasks[:MOST_LINES]:
        out.print(Text(f"  {task.file.name}  ({task.why})"))
    if len(plan.tasks) > MOST_LINES:
        out.print(f"  ... and {len(plan.tasks) - MOST_LINES:,} more")


def _add_asides(table: Table, result: IngestResult) -> None:
    for what, number in result.listing.passed_over.items():
        table.add_row("passed over", f"{number:,} {what}")
    if result.listing.unknown:
        names = ", ".join(result.listing.unknown[:5])
        table.add_row("not recognised", Text(f"{names}: `gdelphi ingest FILE` reads a single file"))
    if result.listing.damaged_lines:
        table.add_row("list", f"{result.listing.damaged_lines:,} lines could not be read")


def _window(plan: Plan) -> str:
    days = [day for task in plan.tasks for day in (task.file.first_day, task.file.last_day) if day]
    span = f"{min(days)} to {max(days)}" if days else "none"
    return f"{span} ({plan.window.chosen})"


def _codes(codes: Sequence[Sequence[Any]]) -> str:
    by_kind: dict[str, list[str]] = {}
    for kind, code, rows in codes:
        by_kind.setdefault(kind, []).append(f"{code} ({rows:,})")
    return "; ".join(f"{kind}: {', '.join(found[:8])}" for kind, found in by_kind.items())


def show_status(status: Status) -> None:
    """The state of the store for a person."""
    table = grid(status.store)
    verdict = []
    if status.stale:
        verdict.append(f"STALE on {status.as_of}")
    if status.incomplete:
        verdict.append("INCOMPLETE")
    table.add_row("verdict", Text(", ".join(verdict) or "complete and fresh", style="bold"))
    table.add_row("days", f"{status.first_day} to {status.last_day}")
    table.add_row("latest complete", str(status.latest_complete_day))
    table.add_row("", _listed(status.days_by_state, "days "))
    table.add_row("files", _listed(status.files_by_status))
    table.add_row(
        "rows",
        f"{status.rows:,} events, of which {status.story_duplicates:,} tell a story again; "
        f"{status.id_duplicates:,} duplicates set aside",
    )
    for reason, number in list(status.rejects.items())[:MOST_LINES]:
        table.add_row("rejected", Text(f"{number:,} x {reason}"))
    if status.unknown_codes:
        codes = [(k, c, n) for k, found in status.unknown_codes.items() for c, n in found.items()]
        table.add_row("unknown codes", Text(_codes(codes)))
    table.add_row("last run", _run(status.last_run))
    table.add_row("last good run", _run(status.last_successful_run))
    table.add_row("fingerprint", status.fingerprint)
    out.print(table)
    _show_gaps(status.gaps)
    if status.odd_volumes:
        out.print("\ndays of abnormal volume (rows; usual for the weekday in the past weeks)")
        for odd in status.odd_volumes[-MOST_LINES:]:
            out.print(f"  {odd.day}  {odd.rows:>9,}  {odd.usual:>11,.0f}")


def _show_gaps(gaps: Sequence[Gap]) -> None:
    if gaps:
        out.print("\ngaps")
    for gap in gaps[-MOST_LINES:]:
        span = str(gap.first) if gap.days == 1 else f"{gap.first} to {gap.last}"
        out.print(Text(f"  {span}  {gap.state}{f': {gap.reason}' if gap.reason else ''}"))
    if len(gaps) > MOST_LINES:
        out.print(f"  ... and {len(gaps) - MOST_LINES:,} earlier ones (--json has them all)")


def _listed(counts: dict[str, int], noun: str = "") -> str:
    return ", ".join(f"{number:,} {noun}{name}" for name, number in counts.items()) or "none"


def _run(run: dict[str, Any] | None) -> str:
    if run is None:
        return "none"
    if run["finished_at"] is None:
        return f"{run['started_at']:%Y-%m-%d %H:%M} UTC, not finished (killed, or still running)"
    return (
        f"{run['finished_at']:%Y-%m-%d %H:%M} UTC, {run['loaded']:,} of {run['planned']:,} files, "
        f"{run['accepted']:,} rows"
    )


def show_config(loaded: Loaded) -> None:
    """All settings, their values and origins."""
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from", "meaning"):
        table.add_column(heading, style="dim" if heading == "meaning" else None)
    for key, value, origin in loaded.rows():
        table.add_row(key, Text(str(value)), Text(origin), description_of(key))
    out.print(table)


def as_json(thing: Any) -> str:
    """JSON of a dataclass, or of rows."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        thing = dataclasses.asdict(thing)
    return json.dumps(thing, default=_plain, ensure_ascii=False, indent=2)


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return str(value)


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """The result of a query as a table, CSV or JSON."""
    if form == "json":
        print(as_json([dict(zip(columns, row, strict=True)) for row in rows]))  # noqa: T201
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        print(text.getvalue(), end="")  # noqa: T201
    else:
        table = Table(box=None, pad_edge=False)
        for column in columns:
            table.add_column(Text(column))
        for row in rows:
            table.add_row(*(Text("" if value is None else str(value)) for value in row))
        wide = out if out.is_terminal else Console(highlight=False, width=1_000_000)
        wide.print(table)
