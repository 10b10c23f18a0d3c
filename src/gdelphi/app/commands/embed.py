"""`gdelphi embed`: days become points on the sphere. The stage is `measures/embed.py`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gdelphi.app.console import Bars, grid, out, print_json
from gdelphi.app.elsewhere import carry_out
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, WaitOption, settings_from

if TYPE_CHECKING:
    from gdelphi.measures.embed import EmbedResult


def command(
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit a new space; models must be trained again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Make again what is there.")] = False,
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
        embed__encoder=encoder,
        embed__device=device,
    ).settings
    with EmbedBars() as bars:
        result = carry_out(
            settings,
            "embed",
            lambda settings: embed(settings, refit=refit, force=force, progress=bars),
            config,
        )
    show_result(result, json=json)


class EmbedBars(Bars):
    """Three bars: days gathered, texts encoded, days described."""

    def gathered(self, done: int, total: int, rows: int) -> None:
        """Set the bar of days whose clouds were gathered."""
        self.show("clouds", done, total, f"{rows:,} rows")

    def encoded(self, done: int, total: int) -> None:
        """Set the bar of texts."""
        self.show("encoding", done, total, f"{done:,} of {total:,} texts")

    def described(self, done: int, total: int, made: int) -> None:
        """Set the bar of days whose descriptors were made."""
        self.show("descriptors", done, total, f"{made:,} stream-days")


def show_result(result: "EmbedResult", *, json: bool) -> None:
    """Print what was made."""
    space, gathered, described = result.space, result.gathered, result.described
    if json:
        print_json(
            {
                "folder": str(result.folder),
                "gathered": vars(gathered),
                "texts": result.texts,
                "encoded": result.encoded,
                "space": space.fingerprint,
                "fitted": result.fitted,
                "described": vars(described),
                "seconds": result.seconds,
            }
        )
        return
    table = grid(f"measures in {result.folder}")
    removed = f", {gathered.removed:,} removed" if gathered.removed else ""
    table.add_row(
        "clouds",
        f"{gathered.built:,} days made ({gathered.rows:,} rows), {gathered.had:,} there "
        f"before{removed}",
    )
    table.add_row("texts", f"{result.encoded:,} encoded, of {result.texts:,} that were needed")
    how = "fitted now" if result.fitted else "as fitted before"
    table.add_row(
        "space",
        f"{space.fingerprint} ({space.dimension} dimensions, encoder "
        f"{space.encoder}), {how} on {space.fitted.since} to {space.fitted.until}",
    )
    kept = ", ".join(f"{name} {block.kept:.1%}" for name, block in space.blocks.items())
    table.add_row("", f"variance kept: {kept}")
    atoms = described.atoms / described.descriptors if described.descriptors else 0.0
    table.add_row(
        "descriptors",
        f"{described.built:,} days made ({described.descriptors:,} stream-days, {atoms:.1f} atoms "
        f"each), {described.had:,} there before",
    )
    table.add_row("time", f"{result.seconds:,.1f} s")
    out.print(table)
