"""`gdelphi status`: what the store has and lacks. The stage is `store/status.py`."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdelphi.app.console import MOST_LINES, grid, out, print_json, unknown_codes
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WaitOption,
    parse_day,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.store.status import Gap, Status


def command(
    json: JsonOption = False,
    as_of: Annotated[
        date | None,
        typer.Option(
            parser=parse_day, metavar="DAY", help="Judge as if it were this day [today, UTC]."
        ),
    ] = None,
    stale_after: Annotated[
        int | None, typer.Option(help="Days that the last complete day may lie back [2].")
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Say what the store has and lacks; exit with 1 when it is stale or incomplete."""
    from gdelphi.store.status import read_status

    settings = settings_from(
        config, store=store, store_wait_seconds=wait, status__stale_after_days=stale_after
    ).settings
    status = read_status(settings, as_of)
    if json:
        print_json(status)
    else:
        show_status(status)
    raise typer.Exit(1 if status.alarming else 0)


def show_status(status: "Status") -> None:
    """Print the state of the store for a person."""
    table = grid(status.store)
    verdict = []
    if status.stale:
        verdict.append(f"STALE on {status.as_of}")
    if status.incomplete:
        verdict.append("INCOMPLETE")
    if status.clock_behind:
        verdict.append(f"CLOCK BEHIND: it says {status.as_of}, before the store's last day")
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
    for reason, count in list(status.rejects.items())[:MOST_LINES]:
        table.add_row("rejected", Text(f"{count:,} x {reason}"))
    if status.unknown_codes:
        codes = [
            (kind, code, rows)
            for kind, counts in status.unknown_codes.items()
            for code, rows in counts.items()
        ]
        table.add_row("unknown codes", Text(unknown_codes(codes)))
    if status.blank_countries:
        most = list(status.blank_countries.items())[:8]
        table.add_row(
            "blank countries",
            f"{sum(status.blank_countries.values()):,} actors, told by their code: "
            + ", ".join(f"{country} ({count:,})" for country, count in most),
        )
    if status.phrase_dated_files:
        table.add_row("event dates", f"{status.phrase_dated_files:,} files have phrases for dates")
    table.add_row("last run", _run(status.last_run))
    table.add_row("last good run", _run(status.last_successful_run))
    table.add_row("fingerprint", status.fingerprint)
    versions = status.duckdb
    table.add_row(
        "DuckDB",
        f"format {versions['format']}, made by {versions['made_by']}, last written by "
        f"{versions['written_by'] or 'an earlier gdelphi'}",
    )
    out.print(table)
    _show_gaps(status.gaps)
    if status.odd_volumes:
        out.print("\ndays of abnormal volume (rows; usual for the weekday in the past weeks)")
        for odd in status.odd_volumes[-MOST_LINES:]:
            out.print(f"  {odd.day}  {odd.rows:>9,}  {odd.usual:>11,.0f}")


def _show_gaps(gaps: "Sequence[Gap]") -> None:
    if gaps:
        out.print("\ngaps")
    for gap in gaps[-MOST_LINES:]:
        dates = str(gap.first) if gap.days == 1 else f"{gap.first} to {gap.last}"
        out.print(Text(f"  {dates}  {gap.state}{f': {gap.reason}' if gap.reason else ''}"))
    if len(gaps) > MOST_LINES:
        out.print(f"  ... and {len(gaps) - MOST_LINES:,} earlier ones (--json has them all)")


def _listed(counts: dict[str, int], noun: str = "") -> str:
    return ", ".join(f"{count:,} {noun}{name}" for name, count in counts.items()) or "none"


def _run(run: dict[str, Any] | None) -> str:
    if run is None:
        return "none"
    if run["finished_at"] is None:
        return f"{run['started_at']:%Y-%m-%d %H:%M} UTC, not finished (killed, or still running)"
    return (
        f"{run['finished_at']:%Y-%m-%d %H:%M} UTC, {run['loaded']:,} of {run['planned']:,} files, "
        f"{run['accepted']:,} rows"
    )
