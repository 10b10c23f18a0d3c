"""What commands share when they print: consoles, progress bars, tables, numbers in words.

No decision is made here. What only one command prints stands in that command's file.
"""

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
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

from gdelphi.common.texts import clean, guarded

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.model.loop import Trained

PIPE_WIDTH = 160  # where there is no terminal to ask

# Without markup: a name or a label may hold brackets.
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False, markup=False)

MOST_LINES = 20  # of a list that could be endless


# --- progress -------------------------------------------------------------------------------------


class Bars:
    """Bars on the error stream while a block runs; none where it is no terminal."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
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

    def show(self, name: str, done: int, total: int, amount: str) -> None:
        """Set the bar of a name, which appears when it is first shown."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, amount="")
        self._bars.update(self._tasks[name], completed=done, total=total, amount=amount)

    def packed(self, done: int, total: int, points: int) -> None:
        """Set the bar of days packed."""
        self.show("packing", done, total, f"{points:,} points")

    def stage(self, what: str) -> None:
        """Say what has begun, on a line of its own."""
        self._bars.console.print(f"... {what}", soft_wrap=True)


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
        """Say which step has begun."""
        if err.is_terminal:
            self._status.update(name)
        else:
            err.print(f"... {name}")

    def packed(self, done: int, total: int, points: int) -> None:
        """Say how far packing is; on a terminal only, as it changes many times a second."""
        if err.is_terminal:
            self._status.update(f"packing day {done:,} of {total:,} ({points:,} points)")


# --- tables ---------------------------------------------------------------------------------------


def grid(title: str) -> Table:
    """A table of names and values under a title."""
    rows = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    rows.add_column(style="dim")
    rows.add_column()
    return rows


def table(*headings: str, title: str | None = None, no_wrap: bool = False) -> Table:
    """A table; columns whose heading begins with > hold numbers and are set to the right."""
    rows = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        justify: Any = "right" if heading.startswith(">") else "left"
        rows.add_column(Text(heading.removeprefix(">")), justify=justify, no_wrap=no_wrap)
    return rows


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """Print the result of a query as a table, CSV or JSON."""
    if form == "json":
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([guarded(name) for name in columns])
        writer.writerows([_harmless(value) for value in row] for row in rows)
        print(text.getvalue(), end="")  # noqa: T201
    else:
        shown = table(*columns)
        for row in rows:
            shown.add_row(*(Text("" if value is None else clean(str(value))) for value in row))
        wide = out if out.is_terminal else Console(highlight=False, markup=False, width=1_000_000)
        wide.print(shown)


def _harmless(value: Any) -> Any:
    """A cell of CSV: no spreadsheet takes it for a formula, no terminal obeys it."""
    return guarded(clean(value)) if isinstance(value, str) else value


def add_training_steps(rows: Table, result: "Trained") -> None:
    """Add how many steps a training took, and which it keeps."""
    why = "all steps done" if result.stopped == "steps" else "no improvement any more"
    before = f", of which {result.began_at:,} were done before" if result.began_at else ""
    rows.add_row("steps", f"{result.steps:,}{before} ({why})")
    rows.add_row("kept", f"the EMA weights of step {result.best_step:,}")


# --- numbers and names ----------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def number(value: float | None, digits: int = 5) -> str:
    """A number of a table; nothing where there is none."""
    return "" if value is None or value != value else f"{value:.{digits}f}"


def chance(p_value: float | None) -> str:
    """A p-value of a table."""
    return "<.001" if p_value is not None and p_value < 0.001 else number(p_value, 3)


def skill_cells(skill: Mapping[str, float | None]) -> tuple[str, str]:
    """A skill and its interval."""
    value, low, high = (skill[name] for name in ("value", "low", "high"))
    if value is None or value != value:
        return "", ""
    if low is None or high is None or low != low:
        return f"{value:+.2%}", ""
    return f"{value:+.2%}", f"{low:+.2%} to {high:+.2%}"


def unknown_codes(codes: Iterable[Sequence[Any]]) -> str:
    """(kind, code, rows) in words, a few of each kind."""
    by_kind: dict[str, list[str]] = {}
    for kind, code, rows in codes:
        by_kind.setdefault(kind, []).append(f"{code} ({rows:,})")
    return "; ".join(f"{kind}: {', '.join(shown[:8])}" for kind, shown in by_kind.items())


def first_of(names: Sequence[str], most: int = 12) -> str:
    """The first few names of a list that may be long."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def mentions_and_place(mentions: int, place: str | None) -> str:
    """How often a report was mentioned, and where it was."""
    return f"{mentions:,} mention{'s' if mentions != 1 else ''}" + (f", {place}" if place else "")


# --- JSON -----------------------------------------------------------------------------------------


def as_json(thing: Any) -> str:
    """JSON of a dataclass, or of rows."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        thing = dataclasses.asdict(thing)
    return clean(json.dumps(thing, default=_plain, ensure_ascii=False, indent=2))


def print_json(thing: Any) -> None:
    """Print the JSON of a dataclass, or of rows."""
    print(as_json(thing))  # noqa: T201


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return str(value)
