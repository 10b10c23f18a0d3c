"""Commands from a model to forecasts: calibrate, forecast, explain."""

import os
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from gdelphi.app import console_forecast
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    ModelOption,
    StoreOption,
    StreamOption,
    WaitOption,
    model_folder,
    parse_day,
    settings_from,
)
from gdelphi.common.types import Level

# What they call imports torch and more, so it is imported when a command runs.


class EventLevel(StrEnum):
    """Level of a standard event."""

    root = "root"
    base = "base"
    full = "full"


def _parse_origin(text: str) -> date | Literal["latest"]:
    return "latest" if text == "latest" else parse_day(text)


OriginOption = Annotated[
    Any,
    typer.Option(
        "--origin",
        parser=_parse_origin,
        metavar="DAY",
        help="Last day that may be known: a news day, or latest, the last complete one.",
    ),
]
AsOfOption = Annotated[
    date | None,
    typer.Option(
        "--as-of", parser=parse_day, metavar="DAY", help="Judge what is complete as of this day "
        "[today, UTC].",
    ),
]  # fmt: skip
PartialOption = Annotated[
    bool,
    typer.Option("--allow-partial", help="Take an origin that is not complete, and mark it."),
]
FuturesOption = Annotated[int, typer.Option(min=1, max=10_000, help="Days drawn for a stream.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed, the same futures.")]


def _settle() -> None:
    """Threads of torch that wait asleep: see `gdelphi train`."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def calibrate_command(
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

    Combines the model's readings with all baselines, and publishes for each target the combination
    where it is better than the stack of the baselines, else the stack. Where there is a namer
    (`gdelphi text train --kind namer`), futures are named in the way whose words came true most.
    Kept beside the model. `gdelphi forecast` does it by itself when it has not been done.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    _settle()
    with console_forecast.ForecastSteps() as steps:
        from gdelphi.forecast.forecast import calibrate
        from gdelphi.forecast.predictor import Predictor

        steps.step("opening the model and the measures")
        desk = Predictor(settings, model_folder(settings, model), on_packed=steps.packed)
        result = calibrate(desk, steps.step, namer=namer)
    console_forecast.show_calibrated(result, json=json)


def forecast_command(
    model: ModelOption = None,
    origin: OriginOption = "latest",
    streams: Annotated[
        str, typer.Option(help="Codes as KE,UP; the largest, as top50; or all.")
    ] = "all",
    horizon: Annotated[int, typer.Option(min=1, max=7, help="Days ahead.")] = 1,
    futures: FuturesOption = 100,
    seed: SeedOption = 0,
    allow_partial: PartialOption = False,
    as_of: AsOfOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of forecasts [forecasts, beside the store].")
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Say what is likely to happen next, and keep it.

    For each stream a hundred possible next days, the probability of every standard event, and who
    is likely to do what to whom. A forecast is a folder of its own that is never written over; the
    same one asked for again is found.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    _settle()
    with console_forecast.ForecastSteps() as steps:
        from gdelphi.forecast.forecast import ForecastRequest, forecast

        request = ForecastRequest(
            model=model_folder(settings, model), origin=origin, streams=streams, horizon=horizon,
            futures=futures, seed=seed, allow_partial=allow_partial, as_of=as_of, out=out,
        )  # fmt: skip
        issued = forecast(settings, request, on_step=steps.step, on_packed=steps.packed)
    console_forecast.show_issued(issued, json=json)


def explain_command(
    stream: StreamOption,
    event: Annotated[str, typer.Option(help="A CAMEO code: 14, 145 or 1451.")],
    model: ModelOption = None,
    origin: OriginOption = "latest",
    level: Annotated[
        EventLevel | None, typer.Option(help="Of the code; full: 145 and no finer [by its length].")
    ] = None,
    futures: FuturesOption = 100,
    seed: SeedOption = 0,
    allow_partial: PartialOption = False,
    as_of: AsOfOption = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Show where a probability comes from, down to the reports.

    What is published, what each member adds to it, the futures that have the event, the days that
    those were drawn from, their phrases and the reports behind them.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    _settle()
    with console_forecast.ForecastSteps() as steps:
        from gdelphi.forecast.explain import explain
        from gdelphi.forecast.origin import resolve_origin
        from gdelphi.forecast.predictor import Predictor

        at = resolve_origin(settings, origin, as_of=as_of, allow_partial=allow_partial)
        steps.step("opening the model and the measures")
        folder = model_folder(settings, model)
        desk = Predictor(settings, folder, number=futures, seed=seed, on_packed=steps.packed)
        chosen: Level | None = level.value if level else None
        found = explain(desk, stream.upper(), event, at, level=chosen, on_step=steps.step)
    console_forecast.show_explanation(found, json=json)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "calibrate": calibrate_command,
    "forecast": forecast_command,
    "explain": explain_command,
}
