"""Whole reports out of hostile rows, forecasts, labels and addresses, and what must not be in them.

A target of `fuzz.py`: a small store is filled with rows whose names, places and sources are
attacks, forecasts with attacks in every text are stored beside it, and all files of the report are
written. Each is then read as its readers read it. An attack is markup, a formula, a link that is a
program, an end of what it stands in, or a character that is obeyed and not seen.
"""

import csv
import io
import json
import random
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import Settings, load_settings
from gdelphi.common.texts import clean
from gdelphi.common.types import TARGETS
from gdelphi.forecast.archive import ForecastArchive, Recipe, forecasts_folder
from gdelphi.forecast.tables import ARGUMENTS, BRIEF, EVENTS, EVIDENCE, FUTURES
from gdelphi.gdelt.layouts import DAILY
from gdelphi.measures.profiles import standard_events
from gdelphi.report.content import Report
from gdelphi.report.report import ReportRequest, make_report
from gdelphi.store.ingest import IngestRequest, ingest

FIRST = date(2014, 1, 1)
DAYS = 12
ORIGIN = FIRST + timedelta(days=DAYS - 2)
STREAMS = ("KE", "UG")
ATTACKS = (
    "<evil>", "</evil>", '<img src=x onerror="evil()">', "<script>evil()</script>", "</script>",
    "</style>", "</title>", "</textarea>", "<!--", "-->", "<![CDATA[", "]]>", "<?xml?>",
    "&lt;evil&gt;", '" onload="evil()', "' onload='evil()", "`", "${evil()}", "{{ 7*7 }}",
    "{% evil %}", "{#", "%s",
    "[x](javascript:evil())", "![x](http://evil.example/x.png)", "<http://evil.example>", "# evil",
    "\n# evil", "\n\n| evil |", "|", "\\", "\\|", "***", "___", "~~~", "```", "=1+1", "+1", "-1",
    "@x", "\t=1", "\uff1d1", "'", '"', '""', ",", ";", "\r\n", "\n", "\r", "\x00", "\x07",
    "\x1b[2J",
    "\x7f", "\x85", "\x9b31m", "\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2028", "\u2029",
    "\u2066", "\u2069", "\ufeff", "\ufffe", "\uffff", "\U000e0041", "\u0301" * 20, "a" * 3000, " ",
    "__proto__", "constructor", "null", "NaN", "../../x", "%0d%0a", "&#x6a;",
)  # fmt: skip
ADDRESSES = (
    "javascript:evil()", "JaVaScRiPt:evil()", "java\tscript:evil()", "data:text/html,<evil>",
    "//evil", "vbscript:evil()", "file:///etc/passwd", "http://", "https://a b/",
    "https://x/\"onload='evil()'",
    "https://x/<evil>", "https://x/\u202egpj.exe", "https://[::1", "https://u:p@x/", "https://x/)",
    "https://x/?a=1&b=2", "https://x/>", "http://x/|", "https://x/\r\nevil: 1",
)  # fmt: skip
OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
"""characters that no file may have"""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def attack(rng: random.Random) -> str:
    """One to four attacks, with plain words between."""
    return "".join(
        rng.choice((rng.choice(ATTACKS), "plain words")) + rng.choice(("", "", " "))
        for _ in range(rng.randrange(1, 5))
    )


def address(rng: random.Random) -> str:
    return rng.choice((rng.choice(ADDRESSES), "https://news.example/1", attack(rng)))


# --- what goes in ---------------------------------------------------------------------------------


def fill_store(folder: Path, rng: random.Random) -> Settings:
    """A store whose rows say what they should not."""
    archive = folder / "archive"
    archive.mkdir(parents=True)
    for number in range(DAYS):
        day = FIRST + timedelta(days=number)
        with zipfile.ZipFile(archive / f"{day:%Y%m%d}.export.CSV.zip", "w") as zipped:
            lines = [_row(100 * number + line + 1, day, rng) for line in range(30)]
            text = "".join(lines).encode("utf-8", "replace")
            zipped.writestr(f"{day:%Y%m%d}.export.CSV", text)
    flags = {
        "store": folder / "s.duckdb", "ingest.archive": str(archive), "store_threads": 1,
        "report.title": attack(rng),
    }  # fmt: skip
    settings = load_settings(flags=flags).settings
    ingest(settings, IngestRequest())
    return settings


def _row(number: int, day: date, rng: random.Random) -> str:
    code = rng.choice(standard_events("base"))
    values = {
        "GLOBALEVENTID": number, "SQLDATE": f"{day:%Y%m%d}", "MonthYear": f"{day:%Y%m}",
        "Year": day.year, "FractionDate": day.year, "Actor1Name": attack(rng),
        "Actor1Code": rng.choice(("KEN", "KENGOV", attack(rng))), "Actor2Code": attack(rng),
        "EventCode": code, "EventBaseCode": code, "EventRootCode": code[:2], "QuadClass": 3,
        "IsRootEvent": 1, "GoldsteinScale": -5, "NumMentions": 4, "NumSources": 1,
        "NumArticles": 4, "AvgTone": 1, "ActionGeo_Type": 1, "ActionGeo_FullName": attack(rng),
        "ActionGeo_CountryCode": rng.choice(STREAMS), "DATEADDED": f"{day:%Y%m%d}",
        "SOURCEURL": address(rng),
    }  # fmt: skip
    cells = (str(values.get(name, "")) for name in DAILY.columns)
    return "\t".join(re.sub(r"[\t\n\r\x00]", " ", cell) for cell in cells) + "\n"


def forecast_tables(rng: random.Random) -> dict[str, pa.Table]:
    """The tables of a stored forecast with attacks in all texts."""
    say, before = partial(attack, rng), ORIGIN - timedelta(days=3)
    probabilities, shares, futures, brief, events, evidence = ([] for _ in range(6))
    for stream in STREAMS:
        for level in ("root", "base", "full"):
            for code in standard_events(level):  # type: ignore[arg-type]
                key = {"stream": stream, "level": level, "code": code}
                quantiles = {"q05": 0.0, "q25": 0.02, "q50": 0.04, "q75": 0.07, "q95": 0.1}
                shares.append({**key, "mean": 0.05, **quantiles})
                for target in TARGETS:
                    said = {"published": rng.random() if level == "root" else 0.01, "stack": 0.5}
                    members = {"climatology": 0.2, "ewma": 0.4, "profiles": 0.6, "direct": 0.7}
                    more = {"which": "combined", "futures": 0.5, "target": target}
                    probabilities.append({**key, **more, **said, **members})
        for number in range(4):
            futures.append(
                {
                    "stream": stream, "future": number, "day": before, "weight": 0.25,
                    "roots": ["19"], "points": [[rng.random() for _ in range(6)]] * 2,
                    "weights": [0.75, 0.25], "gates": [1.0, 1.0], "spare": [False, False],
                    "actor1": [say(), ""], "code": ["190", rng.choice(("042", say()))],
                    "actor2": ["", say()],
                }
            )  # fmt: skip
        for rank in (1, 2):
            event = {"stream": stream, "level": "root", "code": "19", "rank": rank}
            words = {"actor1": say(), "code": rng.choice(("190", say())), "actor2": say()}
            brief.append({"stream": stream, "rank": rank, "weight": 0.5, "phrase": say(), **words})
            for argument in ARGUMENTS:
                said = {"value": say(), "words": say(), "probability": 0.5 / rank}
                events.append({**event, "argument": argument, **said})
            told = {"phrase": say(), "place": rng.choice((None, say())), "source": address(rng)}
            evidence.append({**event, "event_id": rank, "day": before, "mentions": 10, **told})
    return {
        "probabilities": pa.Table.from_pylist(probabilities),
        "shares": pa.Table.from_pylist(shares),
        "futures": pa.Table.from_pylist(futures, FUTURES),
        "brief": pa.Table.from_pylist(brief, BRIEF),
        "events": pa.Table.from_pylist(events, EVENTS),
        "evidence": pa.Table.from_pylist(evidence, EVIDENCE),
    }


class PageFuzz:
    """Reports of one store after another; each serves for some pages."""

    PAGES_EACH = 25

    def __init__(self, folder: Path) -> None:
        self._folder, self._pages = folder, 0
        self.refused = 0
        """pages that were refused in one line"""
        self._settings: Settings | None = None

    def fuzz_page(self, rng: random.Random) -> None:
        """A report of a hostile forecast, or of hostile rows alone."""
        if self._settings is None or self._pages % self.PAGES_EACH == 0:
            self._settings = fill_store(self._folder / f"pages-{self._pages}", rng)
        self._pages += 1
        settings = self._settings
        origin = FIRST + timedelta(days=DAYS - 1)
        if rng.random() < 0.9:
            origin = ORIGIN
            recipe = Recipe(
                origin=origin, horizon=1, streams=STREAMS, partial=False, data=attack(rng),
                model=attack(rng), futures=4, seed=self._pages, gdelphi=attack(rng),
            )  # fmt: skip
            recipe = replace(recipe, data=_storable(recipe.data), model=_storable(recipe.model))
            recipe = replace(recipe, gdelphi=_storable(recipe.gdelphi))
            archive = ForecastArchive(forecasts_folder(settings))
            archive.put(recipe, forecast_tables(rng), fitted_until=FIRST)
        request = ReportRequest(origin=origin, as_of=ORIGIN + timedelta(days=1))
        try:
            written = make_report(settings, request)
        except GdelphiError as error:
            assert "\n" not in str(error), "an error is one line"
            self.refused += 1
            return
        check_report(written.folder)
        check_lists(written.folder.parent)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# --- what comes out -------------------------------------------------------------------------------


def check_report(folder: Path) -> None:
    """All files of a report, each as its readers read it."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert Report.model_validate(report).model_dump(mode="json") == report
    for place, text in texts_in(report):
        assert clean(text) == text, f"{place} of report.json: {text!r}"
    found = set()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "checksums.txt":
            text = path.read_bytes().decode()  # strictly
            assert not OBEYED.search(text), f"{path.name}: {OBEYED.search(text)!r}"
            CHECKS[path.suffix](text)
            found.add(path.suffix)
    assert found - {".svg"} == {".html", ".md", ".json", ".csv"}, found
    assert ".svg" in found or not report["provenance"]["forecast"], "no charts"


def check_lists(folder: Path) -> None:
    """The front page and the feed."""
    for name in ("index.html", "feed.xml"):
        text = (folder / name).read_bytes().decode()
        assert not OBEYED.search(text), name
        CHECKS[Path(name).suffix](text)


class Page(HTMLParser):
    """Holds a page against what may be in one."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[str | None, str]] = []
        self._within: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("evil", "img", "iframe", "object", "embed", "base"), f"<{tag}>"
        for name, value in given.items():
            assert not name.startswith("on"), f"{name} of <{tag}>"
            assert "evil" not in name, name
            if name in ("href", "src", "action", "formaction", "xlink:href"):
                safe = re.match(r"(https?://|#|[\w./-]+(#.*)?$)", value or "")
                assert safe, f"{name}={value!r}"
        self._within = tag
        if tag == "script":
            self.scripts.append((given.get("type"), ""))

    def handle_endtag(self, _tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = kind, text + data

    def handle_comment(self, data: str) -> None:
        assert "evil" not in data, "a comment"

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")


def check_html(text: str) -> None:
    """No element, attribute, comment or program but those of the templates."""
    page = Page(text)
    for kind, script in page.scripts:
        if kind == "application/json":
            for place, value in texts_in(json.loads(script)):
                if place.endswith(".address"):  # the page makes links of them
                    assert re.match(r"https?://[^\s<>\"']+$", value), f"a link to {value!r}"
        else:
            assert "evil" not in script, "a program"


def check_markdown(text: str) -> None:
    """No markup, link, picture, heading or table but those of the document."""
    assert not re.search(r"(?<!\\)<(?!https?://[^\s<>]+>)", text), "markup"
    assert not re.search(r"(?<!\\)\]\(", text), "a link"
    assert "![" not in text.replace(r"!\[", ""), "a picture"
    for line in text.splitlines():
        assert not re.match(r"#+ evil|\s*(```|~~~|===)", line), line
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table in tables:
        cells = {row.replace(r"\|", "").count("|") for row in table.splitlines()}
        assert len(cells) == 1, "a table, rows of several lengths"


def check_csv(text: str) -> None:
    """As many cells in all rows, and none that a spreadsheet would run."""
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])}, "rows of several lengths"
    for cell in (cell for row in rows for cell in row):
        if cell.lstrip(" ").startswith(FORMULA):
            float(cell)  # or it is no number


def check_xml(text: str) -> None:
    """Well-formed, without anything that runs or is fetched."""
    for element in ET.fromstring(text).iter():
        tag = element.tag.rpartition("}")[2]
        assert tag not in ("evil", "script", "image", "foreignObject", "use"), tag
        assert not any(name.startswith("on") for name in element.attrib)


def check_json(text: str) -> None:
    """One value, without numbers that JSON does not have."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads(text, parse_constant=refuse)


def texts_in(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """All texts of a JSON value with their places, its names too."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield place, name
            yield from texts_in(each, f"{place}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each, place)


CHECKS = {
    ".html": check_html, ".md": check_markdown, ".csv": check_csv, ".svg": check_xml,
    ".xml": check_xml, ".json": check_json,
}  # fmt: skip
