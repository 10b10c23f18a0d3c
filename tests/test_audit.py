"""The audit of packages: what differs, what is vulnerable, and what nobody could be asked about."""

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "docs")
    return importlib.import_module("audit")


def test_versions_are_compared_with_those_that_were_tested(audit: Any) -> None:
    wanted = audit.pinned("# tested together\nTorch==2.13.0  # no GPU\nnumpy==2.1.0\n\n")
    installed = {"torch": "2.13.0+cpu", "numpy": "2.2.0", "pip": "23.2.1"}
    assert audit.untested(installed, wanted) == ["numpy is 2.2.0, constraints.txt has 2.1.0"]


def test_a_package_that_nobody_could_be_asked_about_is_not_taken_for_sound(audit: Any) -> None:
    known = {"id": "PYSEC-1", "fix_versions": ["3.1.4"]}
    answer = audit.read_answer(
        {
            "dependencies": [
                {"name": "jinja2", "version": "3.1.2", "vulns": [known]},
                {"name": "rich", "version": "14.0", "vulns": []},
                {"name": "duckdb", "skip_reason": "not found and could not be audited"},
            ]
        }
    )
    assert answer.vulnerable == ["jinja2 3.1.2: PYSEC-1, mended in 3.1.4"]
    assert answer.unasked == ["duckdb"]


def test_the_list_of_packages_is_what_is_installed(audit: Any) -> None:
    components = {each["name"]: each["version"] for each in audit.sbom()["components"]}
    assert components["duckdb"] == importlib.import_module("duckdb").__version__
    assert "gdelphi" not in components
