"""The page of an inspection in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from gdelphi.inspect.page import InspectedPart, render
from gdelphi.inspect.result import Chart, PartResult, ResultTable, series
from helpers.browser import browser, is_too_wide, opened

__all__ = ["browser"]

HOSTILE = "<script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chart = Chart(
        f"Found {HOSTILE}", "points", "expansion",
        (series("found", [8, 64, 512], [1, 2, 5]), series("bound", [8, 512], [9, 90], "guide")),
        log_x=True, log_y=True,
    )  # fmt: skip
    table = ResultTable("Bounds", tuple("abcdefg"), (tuple(f"column {n}" for n in range(7)),) * 3)
    result = PartResult("no layer expands", "Words. " * 60, (chart,) * 3, (table,), alarm=True)
    parts = [
        InspectedPart(1, "Lipschitz", result, "", 1.5),
        InspectedPart(3, "Reports", None, f"the model speaks of another space {HOSTILE}", 0.0),
    ]
    path = tmp_path_factory.mktemp("page") / "inspect.html"
    facts = [("Kept", "step 1"), ("Days", "x" * 200)]
    path.write_text(render(f"models/{HOSTILE}", facts, parts, "2026-11-17"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [380, 820, 1280])
def test_the_page_is_quiet_and_fits(browser: Any, page: Path, width: int) -> None:
    with opened(browser, page, width=width) as (shown, watch):
        assert not is_too_wide(shown)
        assert shown.locator("main > section").count() == 2
        assert shown.locator("figure svg.chart").count() == 3
        assert shown.locator(".verdict.warned").inner_text() == "No layer expands."
        assert "another space" in shown.locator("#part-3").inner_text()
        drawn = shown.eval_on_selector(
            "path.guide.c1", "path => getComputedStyle(path).strokeDasharray"
        )
        assert drawn != "none"  # the style is let in by the policy
        assert shown.evaluate("window.hacked") is None
        assert watch.trouble == []
