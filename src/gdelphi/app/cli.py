"""The command line: a thin shell over the library's functions.

Exit codes: 0 all is well, 1 something failed or `status` raises the alarm, 2 the call or the
settings are wrong, 130 interrupted. Errors are one line on the error stream. `gdelphi X` is
commands/X.py. What a command calls imports numpy, torch and more, so a command imports it when it
runs: `gdelphi --help` is to answer at once.
"""

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from gdelphi import __version__
from gdelphi.app.commands import (
    alerts,
    api,
    backtest,
    calibrate,
    config,
    demo,
    descriptor,
    doctor,
    embed,
    explain,
    forecast,
    ingest,
    inspect,
    mcp,
    phrases,
    promote,
    report,
    score,
    sequences,
    serve,
    sql,
    status,
    store,
    sweep,
    text,
    train,
    verify,
    world,
)
from gdelphi.common.errors import ConfigError, GdelphiError
from gdelphi.common.garbage import collect_rarely
from gdelphi.gdelt.faults import describe_error

NO_SPACE: Final = os.strerror(errno.ENOSPC)
COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "ingest": ingest.command,
    "status": status.command,
    "sql": sql.command,
    "config": config.command,
    "embed": embed.command,
    "phrases": phrases.command,
    "descriptor": descriptor.command,
    "sequences": sequences.command,
    "train": train.command,
    "sweep": sweep.command,
    "calibrate": calibrate.command,
    "forecast": forecast.command,
    "explain": explain.command,
    "backtest": backtest.command,
    "score": score.command,
    "inspect": inspect.command,
    "report": report.command,
    "promote": promote.command,
    "alerts": alerts.command,
    "serve": serve.command,
    "api": api.command,
    "mcp": mcp.command,
    "doctor": doctor.command,
    "verify": verify.command,
    "demo": demo.command,
}
"""in the order of the help"""

GROUPS: Final[dict[str, typer.Typer]] = {
    "store": store.app,
    "text": text.app,
    "world": world.app,
}
"""commands that have commands below them"""

app = typer.Typer(
    help="Read the world's coded news events and forecast what is likely to happen next.",
    no_args_is_help=True,
    rich_markup_mode=None,  # brackets in a text are brackets
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name)(command)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


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


def main() -> None:
    """Run the command line; errors are one line, not a traceback."""
    collect_rarely()
    try:
        app()
    except ConfigError as error:
        _fail(str(error), 2)
    except GdelphiError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        if NO_SPACE not in str(error):  # libraries wrap the system's error in their own
            raise
        _fail(f"the disk is full: make room, and run it again ({describe_error(error)})", 1)


def _fail(message: str, code: int) -> None:
    typer.echo(f"gdelphi: {message}", err=True)
    sys.exit(code)
