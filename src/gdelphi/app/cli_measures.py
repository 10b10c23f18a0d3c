"""Commands from events to measures: phrases, embed, descriptor, sequences."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from gdelphi.app import console, console_measures
from gdelphi.app.options import (
    ConfigOption,
    DayOption,
    JsonOption,
    RowFormat,
    StoreOption,
    StreamOption,
    WaitOption,
    settings_from,
)

# What they call imports numpy, pyarrow and more, so it is imported when a command runs.


class Layout(StrEnum):
    """How a phrase becomes a point."""

    slots = "slots"
    sentence = "sentence"


def phrases_command(
    stream: StreamOption,
    day: DayOption,
    most: Annotated[int, typer.Option("--most", min=1, help="Phrases shown.")] = 40,
    form: Annotated[
        RowFormat, typer.Option("--format", help="How to print the rows.")
    ] = RowFormat.table,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Show a day as phrases with their weights, the heaviest first.

    Straight from the store: every row is turned into a short sentence, rows that read the same are
    one phrase, and its weight is the sum of ln(1 + mentions), halved outside an article's lead.
    """
    from gdelphi.measures.cloud_update import cloud_on

    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    cloud = cloud_on(settings, stream, day)
    console_measures.show_phrases(cloud, most, form.value)


def embed_command(
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit a new space; models must be trained again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Make again what is there.")] = False,
    layout: Annotated[
        Layout | None, typer.Option(help="Points from slots or whole sentences [slots].")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="minilm, a folder, or a hub name [minilm].")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps [auto].")] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Turn the store's days into clouds, points and descriptors.

    Gathers the clouds of new or changed days, encodes texts never met before, fits the space on the
    training days if there is none yet, and describes the days. Run again, it does only what is
    missing; killed, it goes on where it was.
    """
    from gdelphi.measures.embed import embed

    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        measures__layout=layout.value if layout else None,
        embed__encoder=encoder,
        embed__device=device,
    ).settings
    with console_measures.EmbedBars() as bars:
        result = embed(settings, refit=refit, force=force, progress=bars)
    console_measures.show_represented(result, json=json)


def descriptor_command(
    stream: StreamOption,
    day: DayOption,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Show a day in brief: 3 to 10 phrases with their share, and the reports behind them."""
    from gdelphi.measures.brief import day_in_brief

    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    brief = day_in_brief(settings, stream, day)
    if json:
        typer.echo(console.as_json(brief))
    else:
        console_measures.show_brief(brief)


def sequences_command(
    number: Annotated[int, typer.Option(min=0, help="Training sequences to draw.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sequences.")] = 0,
    streams: Annotated[
        int | None, typer.Option(help="Countries, the largest on training days [50].")
    ] = None,
    variants: Annotated[
        int | None, typer.Option(help="Random descriptors of each day [4].")
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Pack the days for training and draw sequences of 50 days from them.

    What training reads: clouds and descriptors of the largest countries, memory-mapped, and a list
    of drawn sequences. Needs `gdelphi embed` first.
    """
    from gdelphi.measures.packing import make_sequences

    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        sequences__streams=streams,
        sequences__variants=variants,
    ).settings
    with console_measures.PackBar() as bar:
        result = make_sequences(settings, number, seed=seed, on_day=bar.day_done)
    console_measures.show_sequences(result, json=json)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "embed": embed_command,
    "phrases": phrases_command,
    "descriptor": descriptor_command,
    "sequences": sequences_command,
}
