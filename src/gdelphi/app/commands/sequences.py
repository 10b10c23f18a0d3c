"""`gdelphi sequences`: what training reads. The stage is `measures/packing.py`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gdelphi.app.console import Bars, first_of, grid, out, print_json
from gdelphi.app.elsewhere import carry_out
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, WaitOption, settings_from

if TYPE_CHECKING:
    from gdelphi.measures.packing import SequencesMade


def command(
    seed: Annotated[int, typer.Option(help="The same seed gives the same random descriptors.")] = 0,
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
    """Pack the days for training.

    What training reads: clouds and descriptors of the largest countries, memory-mapped. Training
    draws its sequences of 50 days from them. Needs `gdelphi embed` first.
    """
    from gdelphi.measures.packing import make_sequences

    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        sequences__streams=streams,
        sequences__variants=variants,
    ).settings
    with Bars() as bars:
        result = carry_out(
            settings,
            "sequences",
            lambda settings: make_sequences(settings, seed=seed, on_day=bars.packed),
            config,
        )
    show_result(result, json=json)


def show_result(result: "SequencesMade", *, json: bool) -> None:
    """Print what was packed."""
    packed = result.packed
    if json:
        print_json(
            {
                "pack": str(packed.folder),
                "made": packed.made,
                "streams": packed.streams,
                "days": packed.days,
                "present": packed.present,
                "points": packed.points,
                "atoms": packed.atoms,
                "bytes": packed.bytes,
                "targets": result.targets,
                "seconds": result.seconds,
            }
        )
        return
    table = grid(f"pack {packed.folder}" + ("" if packed.made else " (was there)"))
    table.add_row("streams", f"{len(packed.streams):,}: {first_of(packed.streams)}")
    table.add_row("days", f"{packed.days:,}, of which {packed.days - packed.present:,} are missing")
    table.add_row(
        "points",
        f"{packed.points:,} in clouds, {packed.atoms:,} atoms, {packed.bytes / 1e6:,.0f} MB",
    )
    for part, targets in result.targets.items():
        first, last = result.splits.days(part)
        table.add_row(part, f"{targets:,} target days, {first} to {last}")
    table.add_row("time", f"{result.seconds:,.1f} s")
    out.print(table)
