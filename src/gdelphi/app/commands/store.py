"""`gdelphi store`: the store itself. The stages are `store/upgrade.py`, `compact.py`, `copy.py`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, duration, grid, out, print_json
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, WaitOption, settings_from

if TYPE_CHECKING:
    from gdelphi.store.compact import Compacted
    from gdelphi.store.upgrade import Upgraded

app = typer.Typer(
    help="The store itself: another format, another place, fewer files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Commands about the store itself."""


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


@app.command("compact")
def compact(
    keep_days: Annotated[
        int | None,
        typer.Option(
            "--keep-days", min=0, help="Let states of a lake go that are older [all are kept]."
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Merge what small transactions have left.

    In a lake: small files of one month become one, in small transactions, so that it can be killed
    anywhere; files that no state needs are removed. Readers go on meanwhile, writers wait. States
    that are let go can no longer be asked for with --as-of.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    with Steps() as steps:
        from gdelphi.store.compact import compact as run

        result = run(settings, keep_days=keep_days, on_step=steps.step)
    if json:
        print_json(result)
    else:
        _show_compacted(result)


def _show_compacted(result: "Compacted") -> None:
    table = grid(result.store)
    if result.before and result.after:
        pairs = (result.before, result.after)
        files, states = (
            "{:,} before, {:,} now".format(*(getattr(one, name) for one in pairs))
            for name in ("files", "snapshots")
        )
        table.add_row("files", files)
        table.add_row("size", "{:,.1f} MB before, {:,.1f} MB now".format(
            *(one.bytes / 1e6 for one in pairs)
        ))  # fmt: skip
        table.add_row("states", states)
    table.add_row("time", duration(result.seconds))
    out.print(table)


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(help="A DuckDB file, or a lake (ducklake:...).")],
    target: Annotated[str, typer.Argument(help="Where no store is yet: likewise.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of the lake's data [store_data].")
    ] = None,
    json: JsonOption = False,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Copy a store from a file into a lake, or back.

    Every table is compared with its source before anything can be seen: killed anywhere, the
    target is empty. Clouds, forecasts and reports lie beside the store and are not copied.
    """
    given, wanted = (
        settings_from(config, store=one, store_data=data, store_wait_seconds=wait).settings
        for one in (source, target)
    )
    with Steps() as steps:
        from gdelphi.store.copy import copy_store

        result = copy_store(given, wanted, steps.step)
    if json:
        print_json(result)
        return
    table = grid(result.target)
    table.add_row("copied from", Text(result.source))
    table.add_row(
        "compared", f"{len(result.rows)} tables, {sum(result.rows.values()):,} rows: equal"
    )
    table.add_row("of these events", f"{result.rows['events']:,}")
    table.add_row("time", duration(result.seconds))
    out.print(table)
