"""`gdelphi store upgrade`: the store's file itself. The stage is `store/upgrade.py`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, duration, grid, out, print_json
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, WaitOption, settings_from

if TYPE_CHECKING:
    from gdelphi.store.upgrade import Upgraded

app = typer.Typer(
    help="The store's file: move it into the newest format of DuckDB.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Commands about the store's file."""


@app.command("upgrade")
def upgrade(
    force: Annotated[
        bool, typer.Option("--force", help="Rewrite it even if it is in the newest format.")
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep/--discard", help="Keep the store as it was, as STORE.before-upgrade."),
    ] = True,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Move the store into the newest format of the installed DuckDB.

    DuckDB keeps a file in the format that it was made in; an older DuckDB cannot read a newer one.
    The copy is compared with the store, table by table, and then takes its place in one step:
    killed anywhere, the store is the old one or the new one, whole. Nobody can read or write it
    meanwhile. Needs as much disk again as the store takes.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    with Steps() as steps:
        from gdelphi.store.upgrade import upgrade as run

        result = run(settings, force=force, keep=keep, on_step=steps.step)
    if json:
        print_json(result)
    else:
        _show(result)


def _show(result: "Upgraded") -> None:
    table = grid(str(result.store))
    if not result.done:
        table.add_row("format", f"{result.before}, the newest: nothing was done")
        out.print(table)
        return
    table.add_row("format", f"{result.before} before, {result.after} now")
    table.add_row("compared", f"{result.tables} tables, {result.rows:,} rows: equal")
    sizes = (result.bytes_before / 1e6, result.bytes_after / 1e6)
    table.add_row("size", f"{sizes[0]:,.1f} MB before, {sizes[1]:,.1f} MB now")
    if result.kept:
        table.add_row("as it was", Text(f"{result.kept} (delete it when all is well)"))
    table.add_row("time", duration(result.seconds))
    out.print(table)
