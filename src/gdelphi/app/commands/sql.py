"""`gdelphi sql`: a read-only query. The stage is `store/connection.py`."""

import sys
from typing import Annotated

import typer

from gdelphi.app.console import show_rows
from gdelphi.app.options import (
    ConfigOption,
    FormatOption,
    RowFormat,
    StoreOption,
    WaitOption,
    settings_from,
)


def command(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    form: FormatOption = RowFormat.table,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="WHEN",
            help="The lake as it was at the end of a day, at a time (UTC), or by snapshot number.",
        ),
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Run a read-only query.

    Tables and views: events, country_linked, daily_counts, days, ledger, rejects, duplicates, runs,
    unknown_codes, reduced_events, cameo_events, cameo_types, cameo_groups, cameo_religions,
    cameo_ethnics, countries. DESCRIBE and "from duckdb_columns()" show their columns and comments.
    """
    from gdelphi.store.connection import Store

    settings = settings_from(
        config, store=store, store_wait_seconds=wait, store_as_of=as_of
    ).settings
    text = sys.stdin.read() if query == "-" else query
    with Store(settings).reading() as connection:
        columns, rows = connection.table(text)
    show_rows(columns, rows, form.value)
