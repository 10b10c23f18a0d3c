"""The commands that judge: backtest, score."""

import os
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gdelphi.app import console_judge
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    ModelOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    model_folder,
    parse_day,
    settings_from,
)

# What they call imports torch and more, so it is imported when a command runs.


class JudgedLevel(StrEnum):
    """Level of the standard events that are judged."""

    root = "root"
    base = "base"
    full = "full"


def backtest_command(
    out: Annotated[Path, typer.Option("--out", help="Folder of the backtest.")] = Path(
        "backtests/latest"
    ),
    model: ModelOption = None,
    since: Annotated[
        date | None,
        typer.Option(
            "--from", parser=parse_day, metavar="DAY", help="First day judged [the first test day]."
        ),
    ] = None,
    until: Annotated[
        date | None,
        typer.Option(
            "--to", parser=parse_day, metavar="DAY", help="Last day judged [the last known]."
        ),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Take every n-th day only.")] = 1,
    forecasters: Annotated[
        str | None, typer.Option(help="Names, as published,profiles,ewma [all].")
    ] = None,
    level: Annotated[
        JudgedLevel, typer.Option(help="20 roots, 146 bases, or all codes.")
    ] = JudgedLevel.root,
    world: Annotated[
        Path | None,
        typer.Option(help="Archive of a simulated world: its oracles are asked too."),
    ] = None,
    futures: Annotated[int, typer.Option(min=2, max=10_000, help="Futures of a stream.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same futures.")] = 0,
    text: Annotated[
        bool | None,
        typer.Option("--text/--no-text", help="ROUGE of futures [if its libraries are there]."),
    ] = None,
    text_model: Annotated[
        Path | None,
        typer.Option("--text-model", help="Folder of a text forecaster: one more member."),
    ] = None,
    refit: Annotated[
        int | None,
        typer.Option(min=1, help="Fit what is published again every so many days [never]."),
    ] = None,
    allow_fitted: Annotated[
        bool,
        typer.Option("--allow-fitted", help="Judge days that took part in fitting, and say so."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that share the days [all cores].")
    ] = None,
    summarise: Annotated[
        bool,
        typer.Option("--summarise", help="Make the tables of --out anew, and forecast nothing."),
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Judge a model beside all baselines, on days that nothing was fitted on.

    At each origin every forecaster is asked with the days up to it and scored against the day
    after. Run again, it does only the days that are missing. Tables: Brier and log scores with
    their skill against the stack, calibration, shares, whole futures.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see `gdelphi train`
    with console_judge.BacktestBar() as bar:
        from gdelphi.judge.backtest import (
            BacktestRequest,
            backtest,
            summarise_folder,
        )
        from gdelphi.judge.day import BacktestOptions
        from gdelphi.judge.futures import text_can_be_scored

        if summarise:
            summary = summarise_folder(out)
        else:
            names = tuple(name.strip() for name in (forecasters or "").split(",") if name.strip())
            asked = BacktestOptions(
                level.value, names, world, futures, seed,
                text_can_be_scored() if text is None else text, text_model,
            )  # fmt: skip
            chosen = model_folder(settings, model)
            request = BacktestRequest(
                chosen, out, since, until, every, asked, allow_fitted, processes, refit
            )
            with goes_on_from("here"):
                summary = backtest(settings, request, bar)
    console_judge.show_backtest(summary, out, json=json)


def score_command(
    forecasts: Annotated[
        Path | None, typer.Option(help="Folder of forecasts [forecasts, beside the store].")
    ] = None,
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
    what is new. Forecasts in hindsight are scored and kept out of the table.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    from gdelphi.forecast.forecast import forecasts_folder
    from gdelphi.judge.score import score_forecasts

    result = score_forecasts(settings, forecasts or forecasts_folder(settings), as_of=as_of)
    console_judge.show_scored(result, json=json)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "backtest": backtest_command,
    "score": score_command,
}
