"""`gdelphi sweep`: trainings over seeds and settings. The stage is `model/sweep.py`."""

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated

import typer

from gdelphi.app.console import Bars, duration, out, print_json, table
from gdelphi.app.elsewhere import carry_out
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    let_threads_sleep,
    parse_names,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.model.sweep import SweepResult


def command(
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the sweep, with a model for each run.")
    ] = Path("sweeps/latest"),
    seeds: Annotated[str, typer.Option(help="As 0,1,2 or 0-4.")] = "0",
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting and what to try, as train.width=64,96; repeatable."),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Train once for each seed and each combination of settings, and compare.

    Runs are shared among workers, if flows.runner names some; else one follows the other. What is
    compared is the log loss on validation A. Run again, it does only the runs that are missing;
    killed, it goes on from their checkpoints.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    let_threads_sleep()
    from gdelphi.model.sweep import SweepRequest, sweep

    request = SweepRequest(out, parse_seeds(seeds), dict(map(parse_values, values or ())))
    with SweepBars() as bars, goes_on_from("the last checkpoints"):
        results = carry_out(
            settings,
            "sweep",
            lambda settings: sweep(
                settings, request, on_step=bars.stage, on_packed=bars.packed, on_run=bars.ran
            ),
            config,
        )
    show_results(results, json=json)


class SweepBars(Bars):
    """A bar of runs."""

    def ran(self, done: int, total: int) -> None:
        """Set the bar of runs that are done."""
        self.show("runs", done, total, f"{done:,} of {total:,} runs")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds as a user writes them."""
    found: list[int] = []
    for part in parse_names(text):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or "0").isdigit():
            raise typer.BadParameter(f"{text!r} are no seeds like 0,1,2 or 0-4")
        found += range(int(first), int(last or first) + 1)
    if not found:
        raise typer.BadParameter(f"{text!r} are no seeds like 0,1,2 or 0-4")
    return tuple(dict.fromkeys(found))


def parse_values(text: str) -> tuple[str, tuple[str, ...]]:
    """A setting and its values as a user writes them."""
    name, _, values = text.partition("=")
    if not name.strip() or not parse_names(values):
        raise typer.BadParameter(f"{text!r} is no setting with values, like train.width=64,96")
    return name.strip(), parse_names(values)


def show_results(results: "list[SweepResult]", *, json: bool) -> None:
    """Print the choices, the best first, and their runs."""
    if json:
        print_json(results)
        return
    choices: dict[str, list[SweepResult]] = {}
    for result in results:
        choices.setdefault(result.choice, []).append(result)
    shown = table("settings", ">runs", ">log loss", ">deviation", ">best seed", ">steps", ">time")
    for choice, runs in sorted(choices.items(), key=lambda item: mean(r.score for r in item[1])):
        scores = [run.score for run in runs]
        shown.add_row(
            choice, str(len(runs)), f"{mean(scores):.5f}",
            f"{stdev(scores):.5f}" if len(runs) > 1 else "",
            f"{runs[0].seed} ({runs[0].score:.5f})", f"{mean(run.steps for run in runs):,.0f}",
            duration(sum(run.seconds for run in runs)),
        )  # fmt: skip
    out.print(shown)
