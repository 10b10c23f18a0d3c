"""`gdelphi inspect`: what the theory says about a model. The stage is `inspect/inspect.py`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Bars, duration, out, print_json
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WaitOption,
    let_threads_sleep,
    model_folder,
    parse_names,
    settings_from,
)
from gdelphi.common.errors import ConfigError

if TYPE_CHECKING:
    from gdelphi.inspect.inspect import InspectResult


def command(
    model: Annotated[
        Path | None,
        typer.Argument(help="Folder of a trained model [the one in use, models/current]."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Parts by their numbers, as 1,4 [all of them].")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the page [inspect/MODEL, beside the store]."),
    ] = None,
    alpha: Annotated[
        str, typer.Option(help="Orders of the Renyi entropies: above 0, not 1.")
    ] = "0.5,2",
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same page.")] = 0,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Say what the theory of attention tells about a model.

    How much its layers expand errors, how many points of a day are enough, what missing or wrong
    reports do to the forecast, whether points collapse, where information is lost, and what the
    past that it is shown is worth. Writes one page (HTML) and its numbers (JSON). A part that
    does not apply to a model says why.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    orders = _orders(alpha)
    let_threads_sleep()
    with Bars() as bars:
        from gdelphi.inspect.inspect import inspect_model

        result = inspect_model(
            settings, model_folder(settings, model), folder, only=parse_names(only), seed=seed,
            orders=orders, on_packed=bars.packed,
            on_part=lambda title, done, total: bars.show(title, done, total, f"{done}/{total}"),
        )  # fmt: skip
    show_inspection(result, json=json)


def _orders(text: str) -> tuple[float, ...]:
    try:
        orders = tuple(float(word) for word in parse_names(text))
    except ValueError:
        orders = ()
    if not orders or any(not 0 < order < 100 or order == 1 for order in orders):
        raise ConfigError(f"--alpha {text}: numbers above 0 other than 1 are meant, as 0.5,2")
    return orders


def show_inspection(result: "InspectResult", *, json: bool) -> None:
    """Print the verdicts."""
    inspection = result.inspection
    if json:
        print_json(inspection.plain())
        return
    out.print(Text(f"model in {inspection.model}", style="bold"))
    for part in inspection.parts:
        found = part.result
        style = "yellow" if found and found.alarm else ""
        told = found.verdict if found else f"does not apply: {part.reason}"
        out.print(Text(f"{part.number}. {part.title}: {told}", style=style))
    out.print(Text(f"\nwritten in {duration(inspection.seconds)}: {result.page}"))
