"""`gdelphi calibrate`: fit what a model publishes. The stage is `forecast/calibrate.py`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, out, print_json, table
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    ModelOption,
    StoreOption,
    WaitOption,
    let_threads_sleep,
    model_folder,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.forecast.calibrate import CalibrationResult
    from gdelphi.forecast.decoded_day import ExpectedDayChoice
    from gdelphi.forecast.future_choice import FutureChoice
    from gdelphi.forecast.naming import NamingChoice


def command(
    model: ModelOption = None,
    namer: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a namer to try [text-namer in the folder of models, if it fits]."
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Fit what a model publishes, on validation B.

    Combines the model's readings with the stack, and publishes for each target the combination
    where it is better than the stack alone by more than chance, else the stack. Futures are past
    days recombined or moved on, whichever has the better energy score. Where there is a namer
    (`gdelphi text train --kind namer`), futures are named in the way whose words came true most.
    Kept beside the model. `gdelphi forecast` does it by itself when it has not been done.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    let_threads_sleep()
    with Steps() as steps:
        from gdelphi.forecast.calibrate import calibrate
        from gdelphi.forecast.predictor import Predictor

        steps.step("opening the model and the measures")
        predictor = Predictor(settings, model_folder(settings, model), on_packed=steps.packed)
        result = calibrate(predictor, steps.step, namer=namer)
    show_calibrated(result, json=json)


def show_calibrated(result: "CalibrationResult", *, json: bool) -> None:
    """Print what is published, and why."""
    if json:
        print_json(result)
        return
    out.print(Text(f"published from {result.folder}", style="bold"))
    out.print(f"Brier scores on validation B, {result.since} to {result.until}")
    choices = table("level", "target", ">combined", ">stack", ">cells", "published")
    for level, target, choice in result.choices:
        scores = [_score(choice.combined), _score(choice.stack), f"{choice.cells:,}"]
        choices.add_row(level, target, *scores, choice.published)
    out.print(choices)
    _show_futures(result.futures)
    if result.names:
        _show_names(result.names)
    if result.expected:
        _show_expected(result.expected)
    if result.conflict:
        fit = result.conflict
        out.print(
            f"any kind of conflict surges within a week: joined with theta {fit.theta:.2f}, Brier "
            f"score {fit.joint:.4f} on {fit.weeks} weeks of streams, that of the largest of six "
            f"{fit.largest:.4f}"
        )


def _show_futures(choice: "FutureChoice") -> None:
    scores = {"moved": choice.moved, "recombined": choice.recombined}
    _show_choice("energy score of futures", choice.days, "futures", scores, choice.way)


def _show_expected(choice: "ExpectedDayChoice") -> None:
    scores = {"decoder": choice.decoder, "start": choice.start}
    what = "divergence of the expected day"
    _show_choice(what, choice.days, "expected day by", scores, choice.shown)


def _show_choice(
    what: str, days: int, heading: str, scores: Mapping[str, float], chosen: str
) -> None:
    """A score of things that were chosen between, on so many days."""
    out.print(f"\n{what}, on {days} of these days (less is better)")
    shown = table(heading, f">{what.split(' of ')[0]}", "")
    for name, score in scores.items():
        shown.add_row(name, _score(score), "used" if name == chosen else "")
    out.print(shown)


def _show_names(names: "NamingChoice") -> None:
    out.print(
        f"\nROUGE-1, 2 and L of names of futures, on {names.days} of these days "
        f"({names.since} to {names.until})"
    )
    head = (">futures", ">2", ">L", ">expected day", ">2", ">L", ">renamed", ">unreadable", "")
    scores = table("names by", *head)
    for by, score in names.scores.items():
        rouge = [f"{value:.3f}" for value in (*score.futures, *score.brief)]
        shares = [f"{score.renamed:.1%}", f"{score.unreadable:.2%}"]
        scores.add_row(by, *rouge, *shares, "used" if by == names.by else "")
    out.print(scores)


def _score(value: float) -> str:
    return "none" if value != value else f"{value:.5f}"
