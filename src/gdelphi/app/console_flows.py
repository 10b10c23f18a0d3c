"""What the commands around flows show. No decision is made here."""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gdelphi.app.console import as_json, out
from gdelphi.common.settings import CONFIG_NAME, ENV_CONFIG

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.app.promote import Decided


def show_decided(decided: "Decided", *, json: bool) -> None:
    """Which model is in use, and why."""
    if json:
        compared = decided.compared
        scores = (
            {"challenger": compared.challenger, "incumbent": compared.incumbent} if compared else {}
        )
        print(as_json({**asdict(decided), **scores}))  # noqa: T201
        return
    out.print(Text(f"{decided.action}: {decided.current}", style="bold"))
    out.print(Text(decided.reason))
    if decided.compared:
        _show_scores(decided)
    if decided.previous and decided.action in ("promoted", "rolled back"):
        out.print(Text(f"before: {decided.previous} (`gdelphi promote --rollback` goes back)"))


def _show_scores(decided: "Decided") -> None:
    compared = decided.compared
    if compared is None:
        return
    out.print(
        f"Brier scores over the stack's, {compared.days} days of validation B from "
        f"{compared.since} to {compared.until}, {compared.streams} streams; less is better"
    )
    table = Table(box=None, pad_edge=False)
    for name in ("target", "challenger", "in use"):
        table.add_column(name, justify="left" if name == "target" else "right")
    for target, (ours, theirs) in compared.targets.items():
        table.add_row(target, f"{ours:.4f}", f"{theirs:.4f}")
    table.add_row("mean", f"{compared.challenger:.4f}", f"{compared.incumbent:.4f}", style="bold")
    out.print(table)


def config_path(given: Path | None) -> Path | None:
    """The settings file in force: a run that starts elsewhere has to be told."""
    if given:
        return given
    named = os.environ.get(ENV_CONFIG)
    found = Path(named) if named else Path(CONFIG_NAME)
    return found if named or found.is_file() else None


def say(message: str) -> None:
    """A line with its time, for whoever reads a log."""
    print(f"{datetime.now(UTC):%H:%M:%S} gdelphi: {message}", flush=True)  # noqa: T201
