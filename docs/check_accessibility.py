"""What axe-core finds on pages: python docs/check_accessibility.py PAGE... [--axe FILE] [--all]

A page is a file or an address (the live page of `gdelphi api`). Each is opened in chromium on a
desk and on a phone, in the light and in the dark, with all that can be folded out folded out, and
axe-core's rules are run on it. Ends with 1 if any finding is serious or critical. axe-core comes
with the `dev` extra (axe-playwright-python); another version of it, from `npm pack axe-core`, by
--axe. With --all the lesser findings are told as well.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
GRAVE = ("serious", "critical")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
UNFOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
RUN = "() => axe.run(document, { resultTypes: ['violations', 'incomplete'] })"


@dataclass(frozen=True)
class Finding:
    """A rule that a page breaks."""

    rule: str
    impact: str
    says: str
    places: tuple[str, ...]
    """where, as the beginning of the markup and axe's reason"""

    @property
    def is_grave(self) -> bool:
        return self.impact in GRAVE


@dataclass(frozen=True)
class Checked:
    """A page that was looked at."""

    page: str
    width: int
    scheme: str
    passed: int
    """rules that had something to look at, and found nothing"""
    findings: tuple[Finding, ...]


def axe_script(path: Path | None = None) -> str:
    """axe-core's source."""
    if path is not None:
        return path.read_text(encoding="utf-8")
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def look_at(page: Any, script: str) -> tuple[int, tuple[Finding, ...]]:
    """What axe finds on an open page. Its source is evaluated, not added as an element: the pages'
    policy refuses scripts of others."""
    page.evaluate(UNFOLD)
    page.evaluate(script)
    result = page.evaluate(RUN)
    found = tuple(
        Finding(
            rule=each["id"],
            impact=each["impact"] or "minor",
            says=each["help"],
            places=tuple(f"{one['html'][:110]} ({_reason(one)})" for one in each["nodes"]),
        )
        for each in result["violations"]
    )
    return len(result["passes"]), found


def _reason(node: dict[str, Any]) -> str:
    return " ".join((node.get("failureSummary") or "").split())[:200]


def check(browser: Any, addresses: list[str], script: str) -> Iterator[Checked]:
    """All pages in all windows."""
    for address, width, scheme in product(addresses, WIDTHS, SCHEMES):
        window = {"width": width, "height": 900}
        context = browser.new_context(viewport=window, color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.goto(address, wait_until="networkidle")
        yield Checked(address, width, scheme, *look_at(page, script))
        context.close()


def main() -> int:
    """Print what was found."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="+", help="files, or addresses")
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    addresses = [
        page if page.startswith("http") else Path(page).resolve().as_uri()
        for page in arguments.pages
    ]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    script, grave = axe_script(arguments.axe), 0
    say(script[: script.index("\n")].strip("/*! "))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for checked in check(browser, addresses, script):
            lesser = [each for each in checked.findings if not each.is_grave]
            own = [each for each in checked.findings if each.is_grave]
            grave += len(own)
            say(f"{checked.page} {checked.width} {checked.scheme}: {checked.passed} rules passed, "
                f"{len(own)} broken gravely, {len(lesser)} slightly")  # fmt: skip
            for finding in checked.findings if arguments.all else own:
                say(f"  {finding.impact}: {finding.rule}: {finding.says}, {len(finding.places)} x")
                for place in finding.places[:5]:
                    say(f"    {place}")
        browser.close()
    return 1 if grave else 0


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
