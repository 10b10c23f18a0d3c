"""The documents say what the program does."""

import re
import runpy
from pathlib import Path

from gdelphi.common.settings import known_keys
from gdelphi.store.schema import CODE_TABLES, MIGRATIONS

ROOT = Path(__file__).parents[1]


def test_the_command_line_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert made["reference"]() == page, "run python docs/make_cli.py"


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    missing = [key for key in known_keys() if f"`{key}`" not in page]
    assert missing == []


def test_every_table_and_view_is_documented() -> None:
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    statements = [line for migration in MIGRATIONS for line in migration.statements]
    made = {
        match[1]
        for line in statements
        if (match := re.match(r"\s*CREATE (?:TABLE|VIEW) (\w+)", line))
    }
    missing = [name for name in (*made, *CODE_TABLES, "unknown_codes") if f"`{name}`" not in page]
    assert missing == []


def test_links_between_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_checks_call_the_readmes_test_command() -> None:
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert commands[-1] == "make test"
