"""Imports follow the order of docs/architecture.md, and no circles are inside a package."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONLY_IN = {
    "duckdb": "store",
    "psycopg": "store.postgres",
    "sentence_transformers": "measures.encoder",
    "prefect": "flows",
    "prefect_dask": "flows",
    "dask": "flows",
    "distributed": "flows",
    "typer": "app",
    "fastapi": "api",
    "uvicorn": "api",
    "mcp": "api",
}
"""packages that one place alone imports"""


def layers() -> list[str]:
    """The packages in the documented order, the lowest first."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"```layers\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return [line.split()[0] for line in block[1].strip().splitlines()]


@cache
def sources() -> tuple[tuple[str, str], ...]:
    """(dotted name below gdelphi, source) of every module; `flows` stands beside the package."""
    return tuple(read_sources())


def read_sources() -> Iterator[tuple[str, str]]:
    package = ROOT / "src" / "gdelphi"
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts not in (("__init__",), ("__main__",)):
            yield ".".join(parts).removesuffix(".__init__"), path.read_text()
    for path in sorted((ROOT / "flows").rglob("*.py")):
        yield f"flows.{path.stem}", path.read_text()


@cache
def imported(source: str) -> tuple[str, ...]:
    """Dotted names that a source imports, in functions too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def problems(order: list[str], modules: Mapping[str, str]) -> list[str]:
    """What is against the order."""
    found = [
        f"{layer} is listed and does not exist"
        for layer in order
        if not any(name.split(".")[0] == layer for name in modules)
    ]
    rank = {layer: number for number, layer in enumerate(order)}
    uses: dict[str, set[str]] = {name: set() for name in modules}
    for name, source in modules.items():
        package = name.split(".")[0]
        if package not in rank:
            found.append(f"{package} has no place in docs/architecture.md")
            continue
        for target in imported(source):
            top, _, rest = target.partition(".")
            allowed = ONLY_IN.get(top, name)
            if name != allowed and not name.startswith(f"{allowed}."):
                found.append(f"{name} imports {top}, which only {allowed} may")
            rest = f"flows.{rest}" if top == "gdelphi_flows" else rest if top == "gdelphi" else ""
            if rest.split(".")[0] not in rank:
                continue
            if rank[rest.split(".")[0]] > rank[package]:
                found.append(f"{name} imports {rest}, which stands below it")
            # `from gdelphi.a.b import c`: a module is c, b or, for what a package exports, a.
            used = next((m for m in (rest, rest.rpartition(".")[0]) if m in modules), None)
            if used and used != name and used.split(".")[0] == package:
                uses[name].add(used)
    return found + [f"{name} imports itself in a circle" for name in uses if circles(name, uses)]


def circles(start: str, uses: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    todo = list(uses[start])
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            todo += uses[name]
    return False


def test_the_code_follows_the_order() -> None:
    assert problems(layers(), dict(sources())) == []


@pytest.mark.parametrize(
    ("name", "planted", "complaint"),
    [
        ("common.new", "import gdelphi.store.ingest", "common.new imports store.ingest"),
        ("gdelt.new", "from gdelphi.app import cli", "gdelt.new imports app.cli"),
        ("model.new", "def f():\n    from gdelphi.judge.backtest import backtest", "model.new imp"),
        ("measures.new", "import duckdb", "which only store may"),
        ("app.new", "from prefect import flow", "which only flows may"),
        ("report.new", "import typer", "which only app may"),
        ("questions.new", "import fastapi", "which only api may"),
        ("gadgets.new", "", "gadgets has no place"),
        ("app.new", "from gdelphi_flows.serve import serve", "app.new imports flows.serve"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, planted: str, complaint: str) -> None:
    found = problems(layers(), {**dict(sources()), name: planted})
    assert any(complaint in problem for problem in found), found


def test_a_circle_inside_a_package_is_found() -> None:
    planted = {
        "store.new": "from gdelphi.store.newer import something",
        "store.newer": "from gdelphi.store import new",
    }
    found = problems(layers(), {**dict(sources()), **planted})
    assert "store.new imports itself in a circle" in found


def test_a_listed_layer_must_exist() -> None:
    found = problems([*layers(), "inspection"], dict(sources()))
    assert found == ["inspection is listed and does not exist"]


def public_types() -> Iterator[tuple[str, str]]:
    """(name, package) of every class and type alias that is public."""
    for module, source in sources():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name.isupper() or not name[0].isupper():
                    continue
            else:
                continue
            if not name.startswith("_"):
                yield name, module.split(".")[0]


def test_no_two_public_types_of_one_name_in_two_packages() -> None:
    homes: dict[str, set[str]] = {}
    for name, package in public_types():
        homes.setdefault(name, set()).add(package)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
