"""What axe-core finds on the pages: nothing serious, in no scheme; and what is planted."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from gdelphi.report.page import FrontEntry, render, render_front
from helpers.browser import browser, opened
from helpers.report_example import STREAMS, example_report
from helpers.report_hostile import hostile_report
from helpers.report_past import with_past

__all__ = ["browser"]


@pytest.fixture(scope="module")
def checker() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "docs")
        return importlib.import_module("check_accessibility")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    full = with_past(example_report(streams=tuple(STREAMS[:5]), futures=10))
    for name, report in (
        ("full", full),
        ("none", example_report(streams=tuple(STREAMS[:3]), forecast=False)),
        ("hostile", hostile_report()),
    ):
        (folder / f"{name}.html").write_text(render(report), encoding="utf-8")
    front = render_front([FrontEntry.of(full, "2023-03-14")])
    (folder / "front.html").write_text(front, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("full", 1280, "light"),
        ("full", 390, "dark"),
        ("none", 390, "light"),
        ("hostile", 390, "dark"),
        ("front", 1280, "dark"),
    ],
)
def test_nothing_serious_is_found_on_a_page(
    browser: Any, pages: Path, checker: Any, name: str, width: int, scheme: str
) -> None:
    path = pages / f"{name}.html"
    with opened(browser, path, width=width, color_scheme=scheme) as (page, _):
        passed, findings = checker.look_at(page, checker.axe_script())
    assert passed > 20
    assert [each for each in findings if each.is_grave] == []


def test_what_is_planted_is_found(browser: Any, tmp_path: Path, checker: Any) -> None:
    path = tmp_path / "planted.html"
    path.write_text(
        '<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><select></select>'
        '<p style="color: #bbb; background: #fff">pale</p></main></html>'
    )
    with opened(browser, path) as (page, _):
        _, findings = checker.look_at(page, checker.axe_script())
    assert {each.rule for each in findings if each.is_grave} == {"select-name", "color-contrast"}
