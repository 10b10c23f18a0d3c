"""What `gdelphi doctor` and `gdelphi demo` show. No decision is made here."""

from collections.abc import Sequence
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gdelphi.app.console import (
    Steps,
    err,
    grid,
    out,
)
from gdelphi.app.console import as_json as console_json

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.app.demo import Demo
    from gdelphi.app.doctor import Finding

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failure": ("FAILURE", "red")}
NAME_WIDTH, MARK_WIDTH = 10, 9


class Checks(Steps):
    """A line for each finding as it is made."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def begin(self, name: str) -> None:
        if err.is_terminal:
            self.step(f"checking {name}")

    def show(self, finding: "Finding") -> "Finding":
        if not self._quiet:
            mark, style = MARKS[finding.state]
            line = Text(f"{finding.name:{NAME_WIDTH}}")
            line.append(f"{mark:{MARK_WIDTH}}", style=style).append(finding.says)
            out.print(line, soft_wrap=True)
            if finding.remedy and finding.state != "ok":
                out.print(Text(" " * (NAME_WIDTH + MARK_WIDTH) + f"-> {finding.remedy}"),
                          soft_wrap=True)  # fmt: skip
        return finding


def as_json(findings: Sequence["Finding"]) -> str:
    """All findings."""
    return console_json([asdict(each) for each in findings])


class DemoSteps(Steps):
    """Says which step is being done, and how long each took."""

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._since = monotonic()

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self._done()

    def step(self, name: str) -> None:
        self._done()
        self._name, self._since = name, monotonic()
        super().step(name)

    def _done(self) -> None:
        if self._name and err.is_terminal:
            err.print(f"{monotonic() - self._since:5.0f} s  {self._name}")


def show_demo(shown: "Demo") -> None:
    """The skill table, what it cost, and where to look."""
    from gdelphi.app.console_judge import show_backtest

    show_backtest(shown.backtest, shown.folder / "backtest", json=False)
    table = grid("\nthe demo is done")
    table.add_row("time", f"{shown.seconds / 60:.1f} minutes")
    table.add_row("report", _link(shown))
    table.add_row("settings", str(shown.config))
    table.add_row("go on", f"gdelphi explain --stream {shown.stream} --event 14 --as-of "
                           f"{shown.as_of} --config {shown.config}")  # fmt: skip
    out.print(table)


def _link(shown: "Demo") -> Any:
    place = shown.report / "index.html"
    return Text(str(place), style=f"link {place.resolve().as_uri()}")
