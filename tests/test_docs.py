"""The documents say what the program does: their commands, modules and links exist."""

import doctest
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer.main

from gdelphi.app.cli import app
from gdelphi.common.settings import known_keys
from gdelphi.store.schema import CODE_TABLES, MIGRATIONS

ROOT = Path(__file__).parents[1]
CONSOLE = runpy.run_path(str(ROOT / "docs" / "make_console.py"))
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
PAST = {"LOG.md", "CHANGELOG.md"}
"""pages that also speak of what is no longer there"""
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def read(*names: str) -> str:
    return ROOT.joinpath(*names).read_text(encoding="utf-8")


# --- references -----------------------------------------------------------------------------------


def test_the_command_line_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))
    assert made["reference"]() == read("docs", "cli.md"), "run python docs/make_cli.py"


def test_every_setting_is_documented() -> None:
    page = read("docs", "configuration.md")
    missing = [key for key in known_keys() if f"`{key}`" not in page]
    assert missing == []


def test_every_table_and_view_is_documented() -> None:
    page = read("docs", "store.md")
    statements = [line for migration in MIGRATIONS for line in migration.statements]
    made = {
        match[1]
        for line in statements
        if (match := re.match(r"\s*CREATE (?:TABLE|VIEW) (\w+)", line))
    }
    missing = [name for name in (*made, *CODE_TABLES, "unknown_codes") if f"`{name}`" not in page]
    assert missing == []


@EACH_PAGE
def test_links_between_the_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), f"{page.name} links to {target}"
        if heading:
            titles = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, f"{page.name} links to {target}"


def test_the_checks_call_the_readmes_test_command() -> None:
    assert "make test" in read("README.md")
    assert read(".ci", "run").splitlines()[-1] == "make test"


# --- modules --------------------------------------------------------------------------------------


def named_modules(text: str) -> list[str]:
    """Python files that are named as `package/module.py`."""
    return re.findall(r"`((?:\w+/)+\w+\.py)`", text)


def exists(module: str) -> bool:
    return any((folder / module).is_file() for folder in (ROOT / "src" / "gdelphi", ROOT))


@EACH_PAGE
def test_every_module_that_is_named_exists(page: Path) -> None:
    if page.name not in PAST:
        named = named_modules(page.read_text(encoding="utf-8"))
        missing = [module for module in named if not exists(module) and "/X.py" not in module]
        assert missing == []


def test_every_module_is_named_in_the_architecture() -> None:
    named = set(named_modules(read("docs", "architecture.md")))
    package = ROOT / "src" / "gdelphi"
    there = {path.relative_to(package) for path in package.glob("*/*.py")}
    there |= {path.relative_to(ROOT) for path in ROOT.glob("flows/*.py")}
    missing = [str(path) for path in sorted(there) if path.stem != "__init__"]
    assert [path for path in missing if path not in named] == []


def test_a_row_goes_from_zip_to_report_in_twelve_hops_at_most() -> None:
    section = read("docs", "architecture.md").split("## One row's journey")[1].split("\n## ")[0]
    hops = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    assert 2 <= len(hops) <= 12
    assert all(named_modules(hop) for hop in hops)
    assert named_modules(hops[0])[0].startswith("gdelt/")
    assert named_modules(hops[-1])[-1].startswith("report/")


# --- commands -------------------------------------------------------------------------------------


def command_lines(page: str) -> Iterator[str]:
    """What a page tells to type that begins with gdelphi, in blocks and in the midst of text."""
    fenced = re.findall(r"^ *```(?:sh|console)\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4,}\S.*$", page, re.MULTILINE)
    for line in (line for block in (*fenced, *indented) for line in block.splitlines()):
        if match := re.match(r" *(?:\$ |\w+=/\S+/)?(gdelphi [a-z-].*)$", line):
            yield match[1]
    for span in re.findall(r"(?<!`)`(gdelphi [^`]+)`(?!`)", page):
        yield " ".join(span.split())


@cache
def commands() -> Any:
    return typer.main.get_command(app)


def check_command(line: str) -> None:
    """Fail if a command or an option does not exist, without running anything."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    words = list(takewhile(lambda word: word[0] not in ";&|<>", lexer))[1:]
    command = commands()
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            break
        assert words[0] in command.commands, f"no command {words[0]!r}: {line}"
        command = command.commands[words.pop(0)]
    options = [option for option in command.params if option.param_type_name == "option"]
    valued = {name for option in options if not option.is_flag for name in option.opts}
    if words and words[-1] in valued:  # named without its value, in the midst of a sentence
        words.append("VALUE")
    context = type(command).context_class(command)
    _, left, _ = command.make_parser(context).parse_args(words)
    assert not left, f"{left} is too much: {line}"


@EACH_PAGE
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    if page.name in PAST:
        return
    for line in command_lines(page.read_text(encoding="utf-8")):
        if line != "gdelphi X":  # any of them
            check_command(line)


@pytest.mark.parametrize(
    "line", ["gdelphi forecats", "gdelphi forecast --stream KE", "gdelphi demo here"]
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"forecats|stream|here"):
        check_command(line)


@EACH_PAGE
def test_scripts_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for script in re.findall(r"\b((?:benchmarks|docs)/\w+\.py)", text):
        assert page.name in PAST or (ROOT / script).is_file(), script


# --- console blocks -------------------------------------------------------------------------------


@EACH_PAGE
def test_every_console_block_is_made_by_the_script_or_dated(page: Path) -> None:
    for block in CONSOLE["blocks"](page.read_text(encoding="utf-8")):
        assert block.commands and block.printed, "a command and what it prints"
        assert block.made or block.kept_since, f"neither made nor dated: {block.commands}"


PAGE = """Text.

<!-- console: in data/demo; first 2; last 1 -->
```console
$ cd models
$ gdelphi one
old
$ gdelphi two
```

<!-- console of 2026-11-16: on Georgia -->
```console
$ gdelphi three
kept
```
"""


def test_the_script_replaces_outputs_and_keeps_those_with_a_date() -> None:
    asked = []

    def run(command: str, folder: str) -> str:
        asked.append((command, folder))
        return "\n1  \n2\n3\n4\n" if command == "gdelphi one" else "5\n6\n7\n"

    made = CONSOLE["made_anew"](PAGE, run)
    assert asked == [("gdelphi one", "data/demo/models"), ("gdelphi two", "data/demo/models")]
    assert "$ cd models\n$ gdelphi one\n1\n2\n...\n4\n\n$ gdelphi two\n5\n6\n7\n```" in made
    assert made.endswith(PAGE[PAGE.index("<!-- console of") :])
    assert CONSOLE["made_anew"](made, run) == made


def test_an_option_that_the_script_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="middle"):
        list(CONSOLE["blocks"](PAGE.replace("first 2", "middle 2")))


# --- examples ------------------------------------------------------------------------------------


@EACH_PAGE
def test_examples_at_the_prompt_give_what_they_show(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\n```", "\n\n```")
    found = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(verbose=False).run(found).failed == 0
