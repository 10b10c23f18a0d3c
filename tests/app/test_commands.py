"""`gdelphi X` is app/commands/X.py, which names the stage behind it and is quick to import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gdelphi.app.cli import COMMANDS, GROUPS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src" / "gdelphi" / "app" / "commands").glob("[!_]*.py"))
HEAVY = ("torch", "numpy", "scipy", "pandas", "pyarrow", "duckdb", "prefect", "httpx", "jinja2")


def test_every_command_has_its_file_and_every_file_is_a_command() -> None:
    commands = {**COMMANDS, **GROUPS}
    assert sorted(commands) == [path.stem for path in FILES]
    for name, command in COMMANDS.items():
        assert command.__module__ == f"gdelphi.app.commands.{name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_command_names_the_stage_that_it_calls(path: Path) -> None:
    source = path.read_text()
    docstring = ast.get_docstring(ast.parse(source)) or ""
    assert docstring.startswith(f"`gdelphi {path.stem}")
    stages = re.findall(r"`(\w+)/(\w+)\.py`", docstring)
    assert stages, "the docstring names a file such as `store/ingest.py`"
    for package, module in stages:
        folder = ROOT / "flows" if package == "flows" else ROOT / "src" / "gdelphi" / package
        assert (folder / f"{module}.py").is_file(), f"{package}/{module}.py is not there"
        name = "gdelphi_flows" if package == "flows" else f"gdelphi.{package}"
        used = rf"{name}\.{module}\b|from {name} import .*\b{module}\b"
        assert re.search(used, source), f"{package}/{module}.py is named and not used"


def test_the_command_line_starts_without_what_only_stages_need() -> None:
    code = f"import sys, gdelphi.app.cli; print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
