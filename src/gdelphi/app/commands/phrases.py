"""`gdelphi phrases`: a day as weighted phrases. The stage is `measures/cloud_update.py`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import out, show_rows
from gdelphi.app.options import (
    ConfigOption,
    DayOption,
    FormatOption,
    RowFormat,
    StoreOption,
    StreamOption,
    WaitOption,
    settings_from,
)
from gdelphi.common.texts import CODE

if TYPE_CHECKING:
    from gdelphi.measures.clouds import Cloud


def command(
    stream: StreamOption,
    day: DayOption,
    most: Annotated[int, typer.Option("--most", min=1, help="Phrases shown.")] = 40,
    form: FormatOption = RowFormat.table,
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
    show_phrases(cloud_on(settings, stream, day), most, form.value)


def show_phrases(cloud: "Cloud", most: int, form: str) -> None:
    """Print the heaviest phrases of a day."""
    from gdelphi.measures.phrases import sentence
    from gdelphi.measures.space import place_of

    place = place_of(cloud.stream)
    numbers = cloud.numbers
    shown = list(cloud.phrases())[:most]
    rows = [
        (
            round(float(cloud.weights[point]), 6) if form != "table" else f"{weight:.2%}",
            int(numbers.rows[point]),
            int(numbers.mentions[point]),
            round(float(numbers.tone[point]), 2),
            f"{CODE}{phrase[1]}" if form == "csv" else phrase[1],
            sentence(*phrase, place),
        )
        for point, (phrase, weight) in enumerate(zip(shown, cloud.weights, strict=False))
    ]
    if form == "table":
        flags: list[str] = [cloud.state] if cloud.state != "full" else []
        flags += ["partial"] * cloud.partial + ["backfile"] * cloud.backfile
        head = f"{cloud.stream} on {cloud.day}: {cloud.volume:,} rows, {len(cloud):,} distinct "
        out.print(Text(f"{head}phrases" + (f" ({', '.join(flags)})" if flags else "")))
    show_rows(["weight", "rows", "mentions", "tone", "code", "phrase"], rows, form)
    if form == "table" and len(cloud) > most:
        rest = float(cloud.weights[most:].sum())
        out.print(f"... and {len(cloud) - most:,} more ({rest:.1%} of the weight): --most")
