"""Imports follow the order of docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONLY_IN = {"duckdb": "store", "sentence_transformers": "embed", "prefect": "flows"}


def layers() -> dict[str, int]:
    """Module or package name -> number of its line in the documented order."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"```layers\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block[1].strip().splitlines()
    return {name.strip(): number for number, line in enumerate(lines) for name in line.split(",")}


def sources() -> Iterator[tuple[str, Path]]:
    """(name in the order, file) of every source file; `flows` stands below the package."""
    package = ROOT / "src" / "gdelphi"
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], path
    for path in sorted((ROOT / "flows").rglob("*.py")):
        yield "flows", path


def imported(source: str) -> set[str]:
    """Dotted names that a source imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def problems(files: list[tuple[str, str]]) -> list[str]:
    """What is against the order in (name, source) pairs."""
    order = layers()
    found: list[str] = []
    uses: dict[str, set[str]] = {}
    for name, source in files:
        if name not in order:
            found.append(f"{name} has no place in docs/architecture.md")
            continue
        for target in imported(source):
            top, _, rest = target.partition(".")
            if top in ONLY_IN and name != ONLY_IN[top]:
                found.append(f"{name} imports {top}, which only {ONLY_IN[top]} may")
            inner = rest.split(".")[0]
            if top == "gdelphi" and inner in order and inner != name:
                uses.setdefault(name, set()).add(inner)
                if order[inner] > order[name]:
                    found.append(f"{name} imports {inner}, which stands below it")
    return found + [f"{name} imports itself in a circle" for name in uses if _circles(name, uses)]


def _circles(start: str, uses: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    todo = list(uses.get(start, ()))
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            todo += uses.get(name, ())
    return False


def real_files() -> list[tuple[str, str]]:
    return [(name, path.read_text()) for name, path in sources()]


def test_the_code_follows_the_order() -> None:
    assert problems(real_files()) == []


@pytest.mark.parametrize(
    ("name", "planted", "complaint"),
    [
        ("errors", "import gdelphi.config\nimport gdelphi.store", "errors imports store"),
        ("cameo", "from gdelphi import cli", "cameo imports cli"),
        ("gdelt", "from gdelphi.console import out", "gdelt imports console"),
        ("events", "import duckdb", "events imports duckdb"),
        ("cli", "from prefect import flow", "cli imports prefect"),
        ("cameo", "from gdelphi.store import Store", "in a circle"),
        ("gadgets", "", "has no place"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, planted: str, complaint: str) -> None:
    found = problems([*real_files(), (name, planted)])
    assert any(complaint in problem for problem in found), found
