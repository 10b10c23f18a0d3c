"""The command line: a thin shell over the library's functions.

Exit codes: 0 all is well, 1 something failed or `status` raises the alarm, 2 the call or the
settings are wrong, 130 interrupted. Errors are one line on the error stream.
"""

import sys
import tempfile
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gdelphi import __version__
from gdelphi.app import (
    cli_flows,
    cli_forecast,
    cli_judge,
    cli_measures,
    cli_report,
    cli_start,
    cli_text,
    cli_train,
    console,
)
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    RowFormat,
    StoreOption,
    WaitOption,
    parse_day,
    settings_from,
)
from gdelphi.common.errors import ConfigError, GdelphiError
from gdelphi.store.connection import Store
from gdelphi.store.ingest import (
    IngestRequest,
    ingest,
    plan_ingest,
)
from gdelphi.store.status import read_status

app = typer.Typer(
    help="Read the world's coded news events and forecast what is likely to happen next.",
    no_args_is_help=True,
    rich_markup_mode=None,  # brackets in a text are brackets
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gdelphi {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("ingest")
def ingest_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Single files to read, in place of an archive.", show_default=False),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(help="URL or folder; gdelt1 and gdelt2 name GDELT's own site [gdelt1]."),
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(
            parser=parse_day,
            metavar="DAY",
            help="First news day [the last one that this archive brought; into an empty store "
            "everything, or the last 400 days of an archive over 2 GB].",
        ),
    ] = None,
    until: Annotated[
        date | None, typer.Option(parser=parse_day, metavar="DAY", help="Last news day [no end].")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load again what is loaded.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Files fetched at the same time [4].")] = None,
    translated: Annotated[
        bool | None, typer.Option("--translated", help="The feed of translated news too.")
    ] = None,
    reduced: Annotated[
        bool | None, typer.Option("--reduced", help="MASTERREDUCEDV2 too (a table of its own).")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Name of the archive in the ledger, so that a mirror may replace it."),
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Bring what an archive has, and the store lacks, into the store.

    Lists the archive, subtracts what the ledger has, fetches, verifies and loads the rest. Run
    again, it does only what is missing. Exits with 1 if anything failed, after doing all it could.
    """
    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        ingest__archive=archive,
        ingest__jobs=jobs,
        ingest__translated=translated,
        ingest__reduced=reduced,
        ingest__label=label,
    ).settings
    request = IngestRequest(tuple(files or ()), since, until, force)
    if dry_run:
        console.show_plan(plan_ingest(settings, request))
        return
    try:
        with console.IngestBars() as bars:
            result = ingest(settings, request, bars)
    except KeyboardInterrupt:
        typer.echo("gdelphi: interrupted; run it again to go on from here", err=True)
        raise typer.Exit(130) from None
    console.show_ingest(result)
    raise typer.Exit(0 if result.succeeded else 1)


@app.command("status")
def status_command(
    json: JsonOption = False,
    as_of: Annotated[
        date | None,
        typer.Option(
            parser=parse_day, metavar="DAY", help="Judge as if it were this day [today, UTC]."
        ),
    ] = None,
    stale_after: Annotated[
        int | None, typer.Option(help="Days that the last complete day may lie back [2].")
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Say what the store has and lacks; exit with 1 when it is stale or incomplete."""
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, status__stale_after_days=stale_after
    ).settings
    status = read_status(settings, as_of)
    if json:
        typer.echo(console.as_json(status))
    else:
        console.show_status(status)
    raise typer.Exit(1 if status.alarming else 0)


@app.command("sql")
def sql_command(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    form: Annotated[
        RowFormat, typer.Option("--format", help="How to print the rows.")
    ] = RowFormat.table,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Run a read-only query.

    Tables and views: events, country_linked, daily_counts, days, ledger, rejects, duplicates, runs,
    unknown_codes, reduced_events, cameo_events, cameo_types, cameo_groups, cameo_religions,
    cameo_ethnics, countries. DESCRIBE and "from duckdb_columns()" show their columns and comments.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    text = sys.stdin.read() if query == "-" else query
    with Store(settings).reading() as connection:
        columns, rows = connection.table(text)
    console.show_rows(columns, rows, form.value)


@app.command("config")
def config_command(
    json: JsonOption = False, store: StoreOption = None, config: ConfigOption = None
) -> None:
    """Print the settings in force and where each value came from.

    Settings come from gdelphi.toml, then from GDELPHI_... variables, then from flags.
    """
    loaded = settings_from(config, store=store)
    if json:
        rows = {key: {"value": value, "from": origin} for key, value, origin in loaded.rows()}
        typer.echo(console.as_json(rows))
    else:
        console.show_config(loaded)


for name, command in {
    **cli_measures.COMMANDS,
    **cli_train.COMMANDS,
    **cli_forecast.COMMANDS,
    **cli_judge.COMMANDS,
    **cli_report.COMMANDS,
    **cli_flows.COMMANDS,
    **cli_start.COMMANDS,
}.items():
    app.command(name)(command)

app.add_typer(cli_text.app, name="text")

world_app = typer.Typer(
    help="A simulated world with a known truth: its archive, and what can be known about it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(world_app, name="world")


class Format(StrEnum):
    """Layout of a simulated archive."""

    v1 = "v1"
    v2 = "v2"


class Preset(StrEnum):
    """Size of a simulated world."""

    demo = "demo"
    default = "default"


@world_app.command("create")
def world_create_command(
    out: Annotated[Path, typer.Option(help="Folder for the archive; it must not exist yet.")],
    preset: Annotated[
        Preset, typer.Option(help="demo: 250 days of 8 streams; default: 800 days of 30.")
    ] = Preset.default,
    days: Annotated[int | None, typer.Option(help="Number of days [the preset's].")] = None,
    streams: Annotated[int | None, typer.Option(help="Number of countries [the preset's].")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 7,
    form: Annotated[
        Format,
        typer.Option("--format", help="v1: a file a day, v2: a file every 15 minutes."),
    ] = Format.v1,
    clean: Annotated[bool, typer.Option("--clean", help="Without the dirt of real files.")] = False,
) -> None:
    """Write a simulated world as a GDELT archive, which `gdelphi ingest` reads like a real one.

    Beside the files lies truth/: the world's equations in numbers and its hidden regimes.
    """
    from gdelphi.world.archive import create_world
    from gdelphi.world.config import world_config

    given = {"days": days, "streams": streams, "seed": seed}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if clean:
        changes["dirt"] = None
    chosen = world_config(preset.value, changes)
    with console.WorldBar(chosen.days) as bar:
        created = create_world(chosen, out, form.value, bar.day_done)
    console.show_created(created)


@world_app.command("describe")
def world_describe_command(
    folder: Annotated[Path, typer.Argument(help="A folder that `world create` has written.")],
    ingredients: Annotated[
        bool,
        typer.Option(
            "--ingredients", help="Also simulate worlds without each ingredient (minutes)."
        ),
    ] = False,
    json: JsonOption = False,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="A store that has the archive [a temporary one is made]."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Score baselines and oracles on the last fifth of a simulated world's days.

    The room between the pooled stack of baselines and the fair oracle, which knows the world's
    equations but sees only what was published, is what a forecaster can hope to gain.
    """
    from gdelphi.judge.simulated import describe, ingested_panel

    with console.Steps() as steps, tempfile.TemporaryDirectory() as scratch:
        settings = settings_from(
            config, store=store or Path(scratch) / "world.duckdb", ingest__archive=str(folder)
        ).settings
        if store is None:
            steps.step("ingesting the archive")
            ingest(settings)
        steps.step("reading the store")
        panel = ingested_panel(settings, folder)
        description = describe(panel, ingredients=ingredients, on_step=steps.step)
    if json:
        typer.echo(console.as_json(description))
    else:
        console.show_description(description)


def main() -> None:
    """Run the command line; errors are one line, not a traceback."""
    try:
        app()
    except ConfigError as error:
        _fail(str(error), 2)
    except GdelphiError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)


def _fail(message: str, code: int) -> None:
    typer.echo(f"gdelphi: {message}", err=True)
    sys.exit(code)
