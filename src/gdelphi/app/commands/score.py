"""`gdelphi score`: stored forecasts whose day has come. The stage is `judge/score.py`."""

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import grid, number, out, skill_cells, table
from gdelphi.app.options import (
    ConfigOption,
    ForecastsOption,
    JsonOption,
    StoreOption,
    WaitOption,
    parse_day,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.judge.score import ScoreResult
    from gdelphi.judge.score_week import WeekScoreResult


def command(
    forecasts: ForecastsOption = None,
    as_of: Annotated[
        date | None,
        typer.Option(
            "--as-of", parser=parse_day, metavar="DAY", help="Judge as if it were this day."
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Score stored forecasts whose day has come.

    Scores lie in scores/ of the folder of forecasts, a file for each. Run again, it scores only
    what is new, and what was made from days that have changed since. Forecasts in hindsight are
    scored and kept out of the table. Exits with 1 if a forecast is damaged, which is passed over.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    from gdelphi.forecast.archive import forecasts_folder
    from gdelphi.judge.score import score_forecasts

    result = score_forecasts(settings, forecasts or forecasts_folder(settings), as_of=as_of)
    show_scored(result, json=json)
    raise typer.Exit(1 if result.damaged else 0)


def show_scored(result: "ScoreResult", *, json: bool) -> None:
    """Print how many were scored, and how the published probabilities stand."""
    if json:
        from gdelphi.judge.files import as_json

        print(as_json(asdict(result)), end="")  # noqa: T201
        return
    about = grid(f"forecasts in {result.folder}")
    about.add_row("scored now", f"{len(result.scored):,}")
    about.add_row("before", f"{result.known:,}")
    about.add_row("waiting", f"{result.waiting:,} for their day")
    weeks = result.weeks
    if weeks.scored or weeks.known or weeks.waiting:
        about.add_row(
            "weeks", f"{len(weeks.scored):,} scored now, {weeks.known:,} before, {weeks.waiting:,} "
            "not over yet",
        )  # fmt: skip
    if result.hindsight:
        about.add_row("in hindsight", f"{result.hindsight:,}, not in the table")
    for problem in result.damaged:
        about.add_row("damaged", Text(problem))
    out.print(about)
    if not result.standings:
        return
    shown = table(
        "level", "target", ">days", ">cells", ">Brier", ">stack", ">skill", ">95%",
        title="\npublished against the stack", no_wrap=True,
    )  # fmt: skip
    for line in result.standings:
        skill = {"value": line.skill.value, "low": line.skill.low, "high": line.skill.high}
        shown.add_row(
            line.level, line.target, f"{line.days:,}", f"{line.cells:,}", number(line.published),
            number(line.stack), *skill_cells(skill),
        )  # fmt: skip
    out.print(shown)
    _show_weeks(weeks)


def _show_weeks(weeks: "WeekScoreResult") -> None:
    """The published week at each horizon, against the simple stack."""
    lines = [line for line in weeks.standings if line.forecaster == "published"]
    if not lines:
        return
    shown = table(
        "horizon", "target", "cells", ">days", ">came true", ">Brier", ">skill", ">95%",
        title="\nthe published week against the simple stack", no_wrap=True,
    )  # fmt: skip
    for line in lines:
        skill = {"value": line.skill.value, "low": line.skill.low, "high": line.skill.high}
        shown.add_row(
            f"day {line.horizon}" if line.horizon else "within the week", line.target, line.cells,
            f"{line.days:,}", f"{line.rate:.1%}", number(line.brier), *skill_cells(skill),
        )  # fmt: skip
    out.print(shown)
