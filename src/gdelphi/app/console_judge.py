"""What `gdelphi backtest` and `gdelphi score` show. No decision is made here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import TaskID
from rich.table import Table

from gdelphi.app.console import (
    Bars,
    err,
    grid,
    out,
)

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.judge.score import ForecastsScored

LINES = 10  # without a terminal: how often a run says how far it is


class BacktestBar(Bars):
    """A bar of judged days; without a terminal a line for every few."""

    def __init__(self) -> None:
        super().__init__()
        self._task: TaskID | None = None
        self._said = -1

    def step(self, what: str) -> None:
        if not err.is_terminal:
            err.print(what, soft_wrap=True)
        elif self._task is None:
            self._task = self._bars.add_task(what, total=None, amount="")
        else:
            self._bars.update(self._task, description=what)

    def day_done(self, done: int, total: int) -> None:
        self._days("judged", done, total)

    def lesson_done(self, done: int, total: int) -> None:
        self._days("asked about", done, total)

    def _days(self, what: str, done: int, total: int) -> None:
        amount = f"{done:,} of {total:,} days"
        if err.is_terminal and self._task is not None:
            self._bars.update(
                self._task, description=what, completed=done, total=total, amount=amount
            )
        elif done * LINES // total != self._said or done == total:
            self._said = done * LINES // total
            err.print(f"{what} {amount}", soft_wrap=True)


# --- backtest -------------------------------------------------------------------------------------


def show_backtest(summary: Mapping[str, Any], folder: Path, *, json: bool) -> None:
    """The main tables of a backtest."""
    if json:
        from gdelphi.judge.files import as_json

        print(as_json(summary), end="")  # noqa: T201
        return
    days, asked = summary["days"], summary["origin"]["asked"]
    about = grid(f"backtest in {folder}")
    about.add_row("days", f"{days['number']:,} from {days['first']} to {days['last']}")
    about.add_row("streams", f"{len(summary['origin']['streams']):,}, level {asked['level']}")
    if asked.get("refit"):
        about.add_row("refitted", f"every {asked['refit']:,} days, on all days known by then")
    fitted = summary["days_in_what_was_fitted"]
    if fitted:
        about.add_row("not honest", f"{fitted:,} of these days took part in fitting")
    out.print(about)
    for cells in ("all", "active"):
        out.print(_scores(summary, cells))
    if summary["shares"]:
        out.print(_shares(summary["shares"]))
    if summary["futures"]:
        out.print(_futures(summary["futures"]))


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    return table


def _scores(summary: Mapping[str, Any], cells: str) -> Table:
    lines = [line for line in summary["scores"] if line["cells"] == cells]
    title = f"\n{cells} cells, skill against the stack"
    columns = ("target", "forecaster", "Brier", "log score", "calibration", "skill", "95%", "p")
    table = _table(title, columns)
    for line in lines:
        table.add_row(
            line["target"], line["forecaster"], number(line["brier"]), number(line["log_score"]),
            number(line["calibration_error"], 4), *skill_cells(line["skill"]),
            chance(line["p_value"]),
        )  # fmt: skip
    return table


def _shares(lines: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("shares", "", "CRPS", "skill against recency", "95%", "50% held", "90% held")
    table = _table("\nshares", columns)
    for line in lines:
        held = [number(line["coverage"][level], 3) for level in ("50", "90")]
        cells = (number(line["crps"]), *skill_cells(line["skill"]), *held)
        table.add_row(line["forecaster"], "", *cells)
    return table


def _futures(lines: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("futures", "", "energy score", "skill against recency", "95%", "p", "Sinkhorn",
               "ROUGE-1", "ROUGE-2", "ROUGE-L")  # fmt: skip
    table = _table("\nwhole futures", columns)
    for line in lines:
        rouge = [number(line["rouge"][kind], 3) for kind in ("rouge1", "rouge2", "rougeL")]
        table.add_row(
            line["ensemble"], "", number(line["energy"]), *skill_cells(line["skill"]),
            chance(line["p_value"]), number(line["sinkhorn"], 4), *rouge,
        )  # fmt: skip
    return table


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


# --- stored forecasts -----------------------------------------------------------------------------


def show_scored(result: "ForecastsScored", *, json: bool) -> None:
    """What `gdelphi score` has found."""
    if json:
        from gdelphi.judge.files import as_json

        print(as_json(asdict(result)), end="")  # noqa: T201
        return
    about = grid(f"forecasts in {result.folder}")
    about.add_row("scored now", f"{len(result.scored):,}")
    about.add_row("before", f"{result.known:,}")
    about.add_row("waiting", f"{result.waiting:,} for their day")
    if result.hindsight:
        about.add_row("in hindsight", f"{result.hindsight:,}, not in the table")
    out.print(about)
    if not result.standings:
        return
    columns = ("level", "target", "days", "cells", "Brier", "stack", "skill", "95%")
    table = _table("\npublished against the stack", columns)
    for line in result.standings:
        skill = {"value": line.skill.value, "low": line.skill.low, "high": line.skill.high}
        table.add_row(
            line.level, line.target, f"{line.days:,}", f"{line.cells:,}", number(line.published),
            number(line.stack), *skill_cells(skill),
        )  # fmt: skip
    out.print(table)
