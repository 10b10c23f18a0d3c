"""Takes the pictures of a report: python docs/make_report_figures.py A/index.html [B/index.html]

The page is opened in chromium without network, on a desk, on a phone and in the dark; the pictures
of docs/figures/report-*.png are parts of it. The second page is one of a store without a model.
"""

import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).with_name("figures")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass(frozen=True)
class Picture:
    """One view of the page: its name, window, and the element to begin at."""

    name: str
    width: int
    height: int
    start: str = "body"
    scheme: str = "light"


PICTURES = (
    Picture("desktop", 1280, 1400),
    Picture("map", 1280, 760, "#section-map"),
    Picture("yesterday", 820, 900, "#section-yesterday"),
    Picture("timeline", 1280, 620, "#country .past-said"),
    Picture("countries", 1280, 1300, "#section-countries"),
    Picture("country", 1280, 2000, "#section-country"),
    Picture("record", 1280, 1500, "#section-record"),
    Picture("phone", 390, 1500),
    Picture("phone-country", 390, 1500, "#section-country"),
    Picture("dark", 1280, 1400, "#section-map", scheme="dark"),
    Picture("dark-fan", 1280, 800, "#country .fan", scheme="dark"),
)


def take(browser: Any, page_file: Path, picture: Picture) -> Path:
    """Open the page afresh and write one picture."""
    window = {"width": picture.width, "height": 900}
    context = browser.new_context(viewport=window, color_scheme=picture.scheme)
    page = context.new_page()
    page.goto(page_file.resolve().as_uri())
    top = page.evaluate(
        "start => document.querySelector(start).getBoundingClientRect().top + scrollY",
        picture.start,
    )
    whole = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    context.close()
    begin = max(0, int(top) - (24 if top else 0))
    part = whole.crop((0, begin, whole.width, min(begin + picture.height, whole.height)))
    path = FOLDER / f"report-{picture.name}.png"
    part.convert("RGB").save(path, optimize=True)
    return path


BARE = (
    Picture("without-model", 1280, 1500),
    Picture("without-model-phone", 390, 1500),
    Picture("without-model-dark", 820, 1300, scheme="dark"),
)


def main(page_file: Path, bare_file: Path | None = None) -> None:
    """All pictures of a page, and of one without a model."""
    FOLDER.mkdir(exist_ok=True)
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        pictures = [(page_file, picture) for picture in PICTURES]
        pictures += [(bare_file, picture) for picture in BARE if bare_file]
        for file, picture in pictures:
            path = take(browser, file, picture)
            print(f"{path} {path.stat().st_size // 1000} kB")  # noqa: T201
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
