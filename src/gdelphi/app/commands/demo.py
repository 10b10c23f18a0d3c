"""`gdelphi demo`: a simulated world from its archive to its report. The stage is `app/demo.py`."""

import os
import shutil
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from gdelphi.app.commands.backtest import show_backtest
from gdelphi.app.console import Steps, err, grid, out
from gdelphi.app.options import let_threads_sleep

if TYPE_CHECKING:
    from gdelphi.app.demo import DemoResult

NAME: Final = "gdelphi"


def command(
    out: Annotated[Path, typer.Option(help="Folder; it must be empty, or of an earlier demo.")] = (
        Path("data/demo")
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the world and of the model.")] = 7,
) -> None:
    """A small simulated world, from its archive to the morning report.

    Creates a world whose true probabilities are known, reads it, trains a model, takes it into use,
    forecasts, judges the forecasts beside the baselines and the oracles, and writes the report.
    """
    let_threads_sleep()
    with TimedSteps() as steps:
        from gdelphi.app.demo import demo

        result = demo(out, seed=seed, on_step=steps.step)
    show_demo(result)


class TimedSteps(Steps):
    """Says which step is being done, and how long each took."""

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._since = monotonic()

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self._done()

    def step(self, name: str) -> None:
        """Say how long the step before took, and which has begun."""
        self._done()
        self._name, self._since = name, monotonic()
        super().step(name)

    def _done(self) -> None:
        if self._name and err.is_terminal:
            err.print(f"{monotonic() - self._since:5.0f} s  {self._name}")


def program() -> str:
    """How this program is called again from here: by its name, if that finds it, or by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(NAME)
    if called.stem != NAME or not called.exists():
        return NAME if found else f"{sys.executable} -m {NAME}"
    if found and Path(found).resolve() == called.resolve():
        return NAME
    return os.path.relpath(called) if called.resolve().is_relative_to(Path.cwd()) else str(called)


def show_demo(result: "DemoResult") -> None:
    """Print the skill table, what it cost, and where to look."""
    show_backtest(result.backtest, result.folder / "backtest", json=False)
    page = result.report / "index.html"
    about = grid("\nthe demo is done")
    about.add_row("time", f"{result.seconds / 60:.1f} minutes")
    about.add_row("report", Text(str(page), style=f"link {page.resolve().as_uri()}"))
    about.add_row("settings", str(result.config))
    about.add_row("go on", f"{program()} explain --stream {result.stream} --event 14 --as-of "
                           f"{result.as_of} --config {result.config}")  # fmt: skip
    out.print(about)
