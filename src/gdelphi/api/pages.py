"""Pages beside the API: the reports as they lie in their folder, and one that shows the newest.

No path of a request reaches the disk: a request names a report's day and a file, both are looked up
among those that are there, and what is found must lie in the folder of reports, links followed.
"""

import re
from importlib import resources
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from gdelphi.api.guard import POLICY
from gdelphi.common.errors import NothingStored, ReportError
from gdelphi.report.charts import chart_png
from gdelphi.report.lists import PAGE

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".xml": "application/atom+xml; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
"""of files that are served; others are not"""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
DEEPEST: Final = 3
PNG: Final = ".png"
OWN: Final = ("live.html", "live.css", "live.js")
FRAMED: Final = {"content-security-policy": "frame-ancestors 'self'"}
"""of reports: they have a policy of their own within"""


def make_pages(reports: Path) -> APIRouter:
    """The front page, its parts, and the reports."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    def live() -> Response:
        return _own("live.html")

    @router.get("/live/{name}")
    def part(name: str) -> Response:
        return _own(name)

    @router.get("/reports")
    def front() -> Response:
        return RedirectResponse("/reports/")

    @router.get("/reports/{path:path}")
    def report(path: str) -> Response:
        if path.endswith(PNG):
            return Response(chart_picture(reports, path), media_type=TYPES[PNG], headers=FRAMED)
        file = find_report_file(reports, path)
        if file.name == PAGE and not path.endswith(("/", PAGE)) and path:
            return RedirectResponse(f"/reports/{file.parent.name}/")  # links on it are relative
        return Response(file.read_bytes(), media_type=TYPES[file.suffix], headers=FRAMED)

    return router


def _own(name: str) -> Response:
    if name not in OWN:
        raise NothingStored("there is no such page")
    file = resources.files("gdelphi.api") / "static" / name
    kind = TYPES[Path(name).suffix]
    headers = {"content-security-policy": POLICY}
    return Response(file.read_bytes(), media_type=kind, headers=headers)


def find_report_file(folder: Path, path: str) -> Path:
    """The file of a report that a request names; its page where a folder is named."""
    names = [name for name in path.split("/") if name]
    place = folder
    if len(names) > DEEPEST or not all(NAME.fullmatch(name) for name in names):
        raise NothingStored("there is no such report")
    for name in names:
        place = _among(place, name)
    if place.is_dir():
        place = _among(place, PAGE)
    root = folder.resolve()
    if place.suffix not in TYPES or not place.is_file() or root not in place.resolve().parents:
        raise NothingStored("there is no such file of a report")
    return place


def chart_picture(folder: Path, path: str) -> bytes:
    """A chart as a picture of points: as it lies there, or else made from its SVG file."""
    try:
        return find_report_file(folder, path).read_bytes()
    except NothingStored:
        drawn = find_report_file(folder, f"{path.removesuffix(PNG)}.svg")
    try:
        return chart_png(drawn.read_text(encoding="utf-8"))
    except ReportError as error:
        raise NothingStored(str(error)) from None


def _among(folder: Path, name: str) -> Path:
    """What a folder has under a name."""
    found = [path for path in folder.iterdir() if path.name == name] if folder.is_dir() else []
    if not found:
        raise NothingStored("there is no such report")
    return found[0]
