"""Writes docs/cli.md from the program itself; a test checks that the page is up to date."""

import sys
from pathlib import Path
from typing import Any

import typer.main

from gdelphi.app.cli import app

PAGE = Path(__file__).with_name("cli.md")


def reference() -> str:
    """The command line reference as Markdown."""
    lines = ["# Command line", "", "Written by `docs/make_cli.py` from the program itself.", ""]
    group: Any = typer.main.get_command(app)
    for name, command in _commands(group, "gdelphi"):
        lines += [f"## `{name}`", "", (command.help or "").strip(), ""]
        rows = [_row(parameter) for parameter in command.params if not parameter.hidden]
        if rows:
            lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _commands(command: Any, name: str) -> list[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(name, command)]
    return [leaf for word, child in children.items() for leaf in _commands(child, f"{name} {word}")]


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = (parameter.metavar or parameter.name).upper()
    else:
        shown = ", ".join(parameter.opts)
        if not parameter.is_flag:
            shown += f" {parameter.metavar or parameter.name.upper()}"
    text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| `{shown}` | {text} |"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
