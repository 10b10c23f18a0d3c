"""A real browser for tests of pages: Debian's chromium, driven by Playwright, without network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REMEDY = "no chromium on this machine: apt-get install chromium"


@dataclass
class Watch:
    """What a page did that it should not."""

    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    @property
    def trouble(self) -> list[str]:
        return [*self.requests[1:], *self.messages, *self.dialogs]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a module, with an empty profile; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(REMEDY)
    with playwright.sync_playwright() as driver:
        # Playwright makes the empty profile itself, and removes it
        made = driver.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield made
        made.close()


@contextmanager
def opened(browser: Any, path: Path, *, width: int = 1280, **options: Any) -> Iterator[Any]:
    """(page, watch) of a file in a fresh context; `#` and what follows may be given as `hash`."""
    fragment = options.pop("hash", "")
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, reduced_motion="reduce", **options)
    page, watch = context.new_page(), Watch()
    page.on("request", lambda request: watch.requests.append(request.url))
    page.on("console", lambda message: watch.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: watch.messages.append(str(error)))
    page.on("dialog", lambda dialog: (watch.dialogs.append(dialog.message), dialog.dismiss()))
    page.set_default_timeout(float(os.environ.get("BROWSER_TIMEOUT", "60")) * 1000)
    try:
        page.goto(path.as_uri() + fragment)
        yield page, watch
    finally:
        context.close()


def is_too_wide(page: Any) -> bool:
    """Whether a reader would have to scroll sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
