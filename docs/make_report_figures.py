"""Takes the pictures of a report: python docs/make_report_figures.py PAGE BARE

PAGE is the index.html of a report of which another of a week before lies in the same folder, BARE
that of a store without a model. They are opened in chromium without network at three widths, in
the light and in the dark; the pictures of docs/figures/report-*.png are parts of them, in few
colours, so that all together stay below 3 MB.
"""

import io
import shutil
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).with_name("figures")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WINDOWS = ((390, 844), (768, 1024), (1280, 900))
SCHEMES = ("light", "dark")
COLOURS = 80


@dataclass(frozen=True)
class Picture:
    """A part of a page: its name, where it begins, and how many windows it is high."""

    name: str
    page: Path
    start: str = "body"
    windows: float = 1.0


def pictures(page: Path, bare: Path) -> list[Picture]:
    """What is taken at every width and in both schemes."""
    return [
        Picture("first", page),
        Picture("country", page, "#section-country", 1.4),
        Picture("timeline", page, "#country .past-said", 0.75),
        Picture("without-model", bare, windows=1.2),
    ]


def take(browser: Any, picture: Picture, window: tuple[int, int], scheme: str) -> Path:
    """Open the page afresh and write one picture."""
    width, height = window
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(picture.page.resolve().as_uri(), wait_until="networkidle")
    top = page.evaluate(
        "start => document.querySelector(start).getBoundingClientRect().top + scrollY",
        picture.start,
    )
    whole = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    context.close()
    begin = max(0, int(top) - (16 if top else 0))
    end = min(begin + int(height * picture.windows), whole.height)
    part = whole.convert("RGB").crop((0, begin, width, end))
    path = FOLDER / f"report-{picture.name}-{width}-{scheme}.png"
    part.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def main(page: Path, bare: Path) -> None:
    """All pictures."""
    FOLDER.mkdir(exist_ok=True)
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    wanted = [*product(pictures(page, bare), WINDOWS, SCHEMES)]
    wanted.append((Picture("map", page, "#section-map", 0.8), WINDOWS[-1], "light"))
    wanted.append((Picture("beside", page.with_name("beside.html")), WINDOWS[-1], "light"))
    total = 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        for picture, window, scheme in wanted:
            path = take(browser, picture, window, scheme)
            total += path.stat().st_size
            print(f"{path} {path.stat().st_size // 1000} kB")  # noqa: T201
        browser.close()
    print(f"{len(wanted)} pictures, {total / 1e6:.1f} MB")  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
