"""`gdelphi backtest`: a model beside all baselines. The stage is `judge/backtest.py`."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TaskID
from rich.table import Table

from gdelphi.app.console import Bars, chance, err, grid, number, out, skill_cells, table
from gdelphi.app.elsewhere import carry_out
from gdelphi.app.options import (
    ConfigOption,
    EventLevel,
    FuturesSeedOption,
    JsonOption,
    ModelOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    let_threads_sleep,
    model_folder,
    parse_day,
    parse_names,
    settings_from,
)

LINES = 10  # without a terminal: how often a run says how far it is


def command(
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
        EventLevel, typer.Option(help="20 roots, 146 bases, or all codes.")
    ] = EventLevel.root,
    horizon: Annotated[
        int, typer.Option(min=1, max=7, help="Days ahead: more than 1 judges the whole week too.")
    ] = 1,
    world: Annotated[
        Path | None,
        typer.Option(help="Archive of a simulated world: its oracles are asked too."),
    ] = None,
    futures: Annotated[int, typer.Option(min=2, max=10_000, help="Futures of a stream.")] = 100,
    seed: FuturesSeedOption = 0,
    text: Annotated[
        bool | None,
        typer.Option("--text/--no-text", help="ROUGE of futures [if its libraries are there]."),
    ] = None,
    only_probabilities: Annotated[
        bool,
        typer.Option(
            "--only-probabilities",
            help="Leave out whole futures and the expected day: a fraction of the time.",
        ),
    ] = False,
    futures_every: Annotated[
        int | None,
        typer.Option(
            "--futures-every",
            min=1,
            help="Judge futures, expected day and shares on every n-th of them [120 at most].",
        ),
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
    let_threads_sleep()
    with BacktestBar() as bar:
        from gdelphi.judge.backtest import BacktestRequest, backtest, summarise_folder
        from gdelphi.judge.day import BacktestOptions
        from gdelphi.judge.futures import text_can_be_scored

        if summarise:
            summary = summarise_folder(out)
        else:
            options = BacktestOptions(
                level.value, parse_names(forecasters), world, futures, seed,
                text_can_be_scored() if text is None else text, text_model, horizon,
                only_probabilities,
            )  # fmt: skip
            request = BacktestRequest(
                model_folder(settings, model), out, since, until, every, options, allow_fitted,
                processes, refit, futures_every,
            )  # fmt: skip
            with goes_on_from("here"):
                summary = carry_out(
                    settings, "backtest", lambda settings: backtest(settings, request, bar), config
                )
    show_backtest(summary, out, json=json)


class BacktestBar(Bars):
    """A bar of judged days; without a terminal a line for every few."""

    def __init__(self) -> None:
        super().__init__()
        self._task: TaskID | None = None
        self._tenth = -1

    def step(self, what: str) -> None:
        """Say which step has begun."""
        if not err.is_terminal:
            err.print(what, soft_wrap=True)
        elif self._task is None:
            self._task = self._bars.add_task(what, total=None, amount="")
        else:
            self._bars.update(self._task, description=what)

    def day_done(self, done: int, total: int) -> None:
        """Count days judged."""
        self._count("judged", done, total)

    def example_done(self, done: int, total: int) -> None:
        """Count days that a refit learns from."""
        self._count("asked about", done, total)

    def _count(self, what: str, done: int, total: int) -> None:
        amount = f"{done:,} of {total:,} days"
        if err.is_terminal and self._task is not None:
            self._bars.update(
                self._task, description=what, completed=done, total=total, amount=amount
            )
        elif done * LINES // total != self._tenth or done == total:
            self._tenth = done * LINES // total
            err.print(f"{what} {amount}", soft_wrap=True)


def show_backtest(summary: Mapping[str, Any], folder: Path, *, json: bool) -> None:
    """Print the main tables of a backtest."""
    if json:
        from gdelphi.judge.files import as_json

        print(as_json(summary), end="")  # noqa: T201
        return
    days, options = summary["days"], summary["origin"]["asked"]
    about = grid(f"backtest in {folder}")
    about.add_row("days", f"{days['number']:,} from {days['first']} to {days['last']}")
    if days.get("whole", days["number"]) < days["number"]:
        about.add_row("whole futures", f"on {days['whole']:,} of them, shares and expected day too")
    about.add_row("streams", f"{len(summary['origin']['streams']):,}, level {options['level']}")
    if options.get("refit"):
        about.add_row("refitted", f"every {options['refit']:,} days, on all days known by then")
    fitted = summary["days_in_what_was_fitted"]
    if fitted:
        about.add_row("not honest", f"{fitted:,} of these days took part in fitting")
    out.print(about)
    for cells in ("all", "active"):
        out.print(_scores(summary, cells))
    if summary.get("network"):
        out.print(_network(summary["network"]))
    if summary["shares"]:
        out.print(_shares(summary["shares"]))
    if summary["futures"]:
        out.print(_futures(summary["futures"]))
    if summary.get("expected"):
        out.print(_expected(summary["expected"]))
    if summary.get("week"):
        show_week(summary["week"])


def show_week(week: Mapping[str, Any]) -> None:
    """Print the tables of the week: by horizon, what the network adds, onsets and escalations."""
    shown = table(
        "target", "forecaster", *(f">day {day}" for day in range(1, 8)), ">within the week",
        title="\nthe week, skill against the simple stack", no_wrap=True,
    )  # fmt: skip
    by_line: dict[tuple[str, str], list[str]] = {}
    for line in week["scores"]:
        if line["cells"] == "all" and line["target"] != "escalation":
            cell = skill_cells(line["skill"])[0]
            by_line.setdefault((line["target"], line["forecaster"]), []).append(cell)
    for line in week["network"]:
        cell = skill_cells(line["skill"])[0]
        by_line.setdefault((line["target"], "what the network adds"), []).append(cell)
    for (target, forecaster), cells in sorted(by_line.items(), key=lambda item: item[0][0]):
        shown.add_row(target, forecaster, *cells)
    out.print(shown)
    rare = table(
        "", "forecaster", ">cells", ">came true", ">Brier", ">skill", ">95%",
        title="\nonset cells and escalations, within the week", no_wrap=True,
    )  # fmt: skip
    for line in week["scores"]:
        if line["cells"] == "onset" or line["target"] == "escalation":
            rare.add_row(
                "onset" if line["cells"] == "onset" else "escalation", line["forecaster"],
                f"{line['number']:,}", f"{line['rate']:.1%}", number(line["brier"]),
                *skill_cells(line["skill"]),
            )  # fmt: skip
    out.print(rare)


def _scores(summary: Mapping[str, Any], cells: str) -> Table:
    lines = [line for line in summary["scores"] if line["cells"] == cells]
    simple = any(line["forecaster"] == "simple stack" for line in lines)
    shown = table(
        "target", "forecaster", ">Brier", ">log score", ">calibration", ">skill", ">95%", ">p",
        *([">over the simple stack"] if simple else []),
        title=f"\n{cells} cells, skill against the stack", no_wrap=True,
    )  # fmt: skip
    for line in lines:
        shown.add_row(
            line["target"], line["forecaster"], number(line["brier"]), number(line["log_score"]),
            number(line["calibration_error"], 4), *skill_cells(line["skill"]),
            chance(line["p_value"]),
            *([skill_cells(line["over_simple"])[0]] if simple else []),
        )  # fmt: skip
    return shown


def _network(lines: Sequence[Mapping[str, Any]]) -> Table:
    shown = table(
        "cells", "target", ">skill", ">95%", ">p",
        title="\nwhat the network adds: published against the same without the network",
        no_wrap=True,
    )  # fmt: skip
    for line in lines:
        cells = (*skill_cells(line["skill"]), chance(line["p_value"]))
        shown.add_row(line["cells"], line["target"], *cells)
    return shown


def _shares(lines: Sequence[Mapping[str, Any]]) -> Table:
    shown = table(
        "shares", "", ">CRPS", ">skill against recency", ">95%", ">50% held", ">90% held",
        title="\nshares", no_wrap=True,
    )  # fmt: skip
    for line in lines:
        held = [number(line["coverage"][level], 3) for level in ("50", "90")]
        cells = (number(line["crps"]), *skill_cells(line["skill"]), *held)
        shown.add_row(line["forecaster"], "", *cells)
    return shown


def _futures(lines: Sequence[Mapping[str, Any]]) -> Table:
    shown = table(
        "futures", "", ">energy score", ">skill against recency", ">95%", ">p", ">Sinkhorn",
        ">ROUGE-1", ">ROUGE-2", ">ROUGE-L", title="\nwhole futures", no_wrap=True,
    )  # fmt: skip
    for line in lines:
        rouge = [number(line["rouge"][kind], 3) for kind in ("rouge1", "rouge2", "rougeL")]
        shown.add_row(
            line["ensemble"], "", number(line["energy"]), *skill_cells(line["skill"]),
            chance(line["p_value"]), number(line["sinkhorn"], 4), *rouge,
        )  # fmt: skip
    return shown


def _expected(lines: Sequence[Mapping[str, Any]]) -> Table:
    shown = table(
        "expected day", "", ">divergence", ">skill against start", ">95%", ">p", ">ROUGE-1",
        ">ROUGE-2", ">ROUGE-L", title="\nthe expected day", no_wrap=True,
    )  # fmt: skip
    for line in lines:
        rouge = [number(line["rouge"][kind], 3) for kind in ("rouge1", "rouge2", "rougeL")]
        shown.add_row(
            line["measure"], "", number(line["divergence"], 4), *skill_cells(line["skill"]),
            chance(line["p_value"]), *rouge,
        )  # fmt: skip
    return shown
