"""`gdelphi doctor`: what would stop a run on this machine. The stage is `app/doctor.py`."""

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, err, out, print_json
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, parse_day, settings_from

if TYPE_CHECKING:
    from gdelphi.app.doctor import Finding

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failure": ("FAILURE", "red")}
NAME_WIDTH, MARK_WIDTH = 10, 9


def command(
    as_of: Annotated[
        date | None,
        typer.Option(
            "--as-of", parser=parse_day, metavar="DAY", help="Judge as if it were this day [today]."
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Hold all files against their checksums too.")
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Check the machine and the settings, and say what to do about each failure.

    Python, torch and its device, the encoder, disk, archive, store, measures, the model in use,
    Prefect; with --deep, all that `gdelphi verify` reads. Exits with 1 if something would stop a
    run; warnings do not count.
    """
    from gdelphi.app.doctor import examine

    settings = settings_from(config, store=store).settings
    findings = []
    with Steps() as steps:

        def begin(name: str) -> None:
            if err.is_terminal:
                steps.step(f"checking {name}")

        for finding in examine(settings, as_of=as_of, deep=deep, on_check=begin):
            findings.append(finding)
            if not json:
                show_finding(finding)
    if json:
        print_json([asdict(finding) for finding in findings])
    raise typer.Exit(1 if any(finding.state == "failure" for finding in findings) else 0)


def show_finding(finding: "Finding") -> None:
    """Print a line for a finding, and one with what to do unless all is well."""
    mark, style = MARKS[finding.state]
    line = Text(f"{finding.name:{NAME_WIDTH}}")
    line.append(f"{mark:{MARK_WIDTH}}", style=style).append(finding.says)
    out.print(line, soft_wrap=True)
    if finding.remedy and finding.state != "ok":
        indent = " " * (NAME_WIDTH + MARK_WIDTH)
        out.print(Text(f"{indent}-> {finding.remedy}"), soft_wrap=True)
