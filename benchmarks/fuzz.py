"""Random damage to everything that comes from outside, and whether it is met as it should be.

    python benchmarks/fuzz.py --cases 100000
    python benchmarks/fuzz.py --cases 1000 --only zip row

    zip      bytes of a zip: the right text, or refused by name
    list     lines of md5sums, filesizes, master list: read, or counted as damaged
    row      fields of event rows: accepted + rejected + duplicates = rows
    name     names of files: known or not, days within two centuries
    config   gdelphi.toml: settings, or one line of ConfigError
    grammar  sentences: the phrase that it says, or none
    text     texts of rows on their way to a reader: nothing in them is obeyed
    page     whole reports of hostile rows and forecasts: HTML, Markdown, JSON, CSV, SVG, feed

A page takes thousands of times as long as another case: there is one for every hundred (`--pages`).
Each target is a function of a random generator that raises on what must not be; so a case is found
again by its number. Prints a line a target.
"""

import argparse
import contextlib
import csv
import hashlib
import io
import random
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

from fuzz_pages import PageFuzz
from gdelphi.common.errors import ConfigError, FileRefused, GdelphiError
from gdelphi.common.settings import load_settings
from gdelphi.common.texts import clean, guarded
from gdelphi.gdelt.archive import READERS, Listing
from gdelphi.gdelt.cameo import event_codes
from gdelphi.gdelt.file_names import FIRST_YEAR, LAST_YEAR, SourceFile, gaps, parse_name
from gdelphi.gdelt.layouts import DAILY
from gdelphi.gdelt.unpack import layout_of, unpack
from gdelphi.measures.grammar import parse
from gdelphi.measures.phrases import sentence
from gdelphi.report.plain import one_line, script_json, web_address
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestRequest, ingest

DAY = date(2014, 1, 1)
FILE = SourceFile("20140101.export.CSV.zip", "events", "day", DAY, DAY)
TEXT = b"".join(b"\t".join(b"%d" % (n * 7 + k) for k in range(58)) + b"\n" for n in range(40))
STRANGE = (
    "", " ", "\x00", "\x1b[2J", "\u202e", "\ufeff", "\ud800", "²", "٣", "=1+1", "@x", "-",
    "infinity", "NaN", "1e308", "0x10", "1_0", "-1", "99999999999999999999", "'", '"', "\\",
    "</script>", "{{", "%s", "../../etc/passwd", "a" * 5000, "\r", "\t", "\n", "20140230",
    "00000000", "KEN", "14", "0" * 400,
)  # fmt: skip
"""what breaks programs"""


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bits flipped, bytes cut, doubled, moved or replaced."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        what = rng.randrange(5)
        if what == 0 and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[place : place + rng.choice((1, 2, 30, 1000))]
        elif what == 2:
            data[place:place] = rng.randbytes(rng.choice((1, 4, 50)))
        elif what == 3:
            data[place:place] = data[: rng.randrange(200)]
        else:
            word = rng.choice(STRANGE).encode("utf-8", "surrogatepass")
            data[place : place + len(word)] = word
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def a_word(rng: random.Random) -> str:
    """Something strange, something plain, or both."""
    plain = "".join(
        chr(rng.choice((rng.randrange(32, 127), rng.randrange(1, 0x3000)))) for _ in "123"
    )
    return "".join(rng.choice((plain, rng.choice(STRANGE))) for _ in range(rng.randrange(1, 4)))


class Fuzz:
    """The targets; what takes long to make is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("20140101.export.CSV", TEXT)
        self.zip = buffer.getvalue()
        self.codes = sorted(event_codes())

    def fuzz_zip(self, rng: random.Random) -> None:
        path = self.folder / FILE.name
        path.write_bytes(damaged(self.zip, rng))
        try:
            text = unpack(path, FILE, self.folder, most=1 << 24)
        except FileRefused as error:
            assert FILE.name in str(error) and "\n" not in str(error)
            return
        content = text.path.read_bytes()
        assert content == TEXT, "other bytes than were packed"
        assert layout_of(text, FILE) is DAILY
        text.remove()

    def fuzz_list(self, rng: random.Random) -> None:
        read = READERS[rng.choice(sorted(READERS))]
        md5 = hashlib.md5(rng.randbytes(4)).hexdigest()
        day = f"2014{rng.randrange(1, 13):02}{rng.randrange(1, 29):02}"
        line = f"{rng.randrange(10**6)} {md5} http://a.example/{day}.export.CSV.zip\n"
        text = damaged(line.encode() * 3, rng).decode(errors="replace")
        listing = Listing()
        read(text, listing)
        for file in listing.files.values():
            assert file.size is None or 0 <= file.size < 10**15
            assert file.md5 is None or len(file.md5) == 32
        assert len(list(gaps(list(listing.files.values()), None, None))) < 50_000

    def fuzz_name(self, rng: random.Random) -> None:
        name = damaged(rng.choice(("20140101.export.CSV.zip", "201401.zip",
            "20150218000000.translation.export.CSV.zip", "2005.zip")).encode(), rng)  # fmt: skip
        file = parse_name(name.decode(errors="replace"))
        if file is not None and file.first_day is not None:
            assert FIRST_YEAR <= file.first_day.year <= LAST_YEAR

    def fuzz_config(self, rng: random.Random) -> None:
        path = self.folder / "damaged.toml"
        text = '[ingest]\njobs = 3\narchive = "a"\n[status]\nstale_after_days = 2\n[flows]\n'
        path.write_bytes(damaged(text.encode(), rng))
        with contextlib.suppress(ConfigError):
            load_settings(path)

    def fuzz_grammar(self, rng: random.Random) -> None:
        code, actor = rng.choice(self.codes), rng.choice(("KEN|||||GOV", "", "DEU", "|UNO"))
        text = sentence(actor, code, "USA")
        text = damaged(text.encode(), rng).decode(errors="replace") if rng.random() < 0.9 else text
        with contextlib.suppress(GdelphiError):
            parse(text)

    def fuzz_text(self, rng: random.Random) -> None:
        word = a_word(rng)
        plain = clean(word)
        assert not any(
            (ord(code) < 32 and code not in "\t\n") or ord(code) == 0x202E for code in plain
        )
        assert "\n" not in one_line(word) and len(one_line(word)) <= 160
        assert "<" not in str(script_json({"x": plain}))
        cells = io.StringIO()
        csv.writer(cells).writerow([guarded(plain)])
        for row in csv.reader(io.StringIO(cells.getvalue(), newline="")):
            assert not row or not row[0].lstrip(" ").startswith(("=", "+", "@", "-"))
        address = web_address(word)
        assert address is None or address.startswith(("http://", "https://"))

    def fuzz_rows(self, rng: random.Random, number: int) -> None:
        """Many rows at once: a store takes longer than a row."""
        place = self.folder / f"rows-{rng.randrange(10**9)}"
        place.mkdir()
        lines = []
        for line in range(number):
            fields = [str(line + 1), "20140101", "201401", "2014", "2014.0"] + [""] * 53
            fields[26:32] = ["141", "141", "14", "3", "-6.5", "1"]
            for _ in range(rng.choice((0, 1, 1, 2))):
                fields[rng.randrange(58)] = a_word(rng)
            lines.append("\t".join(fields).encode("utf-8", "surrogatepass"))
        content = b"\n".join(lines) + b"\n"
        with zipfile.ZipFile(place / FILE.name, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("20140101.export.CSV", content)
        given = {"store": place / "s.duckdb", "ingest.archive": str(place), "store_threads": 1}
        settings = load_settings(flags=given).settings
        result = ingest(settings, IngestRequest())
        assert not result.problems, result.problems
        assert result.rows_in == content.count(b"\n")
        assert result.accepted + result.rejected + result.duplicates == result.rows_in
        with Store(settings).reading() as connection:
            assert connection.value("SELECT count(*) FROM events") == result.accepted
            assert connection.value("SELECT coalesce(sum(rows), 0) FROM rejects") == result.rejected


def run_cases(name: str, case: Callable[[random.Random], None], cases: int, seed: int) -> int:
    """Run the cases of a target; returns how many failed, and prints the first."""
    began, failed = time.monotonic(), 0
    for number in range(cases):
        try:
            case(random.Random(f"{name}-{seed}-{number}"))
        except Exception:  # noqa: BLE001 - whatever it is, it is counted
            failed += 1
            if failed == 1:
                print(f"{name}, case {number}:\n{traceback.format_exc()}")
    print(
        f"{name:8} {cases:,} cases, {failed} failed, {time.monotonic() - began:.0f} s", flush=True
    )
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--pages", type=int, help="whole reports (default: a hundredth)")
    given = parser.parse_args()
    pages = max(given.cases // 100, 1) if given.pages is None else given.pages
    with tempfile.TemporaryDirectory() as folder:
        failed = fuzz_all(Path(folder), given.cases, given.seed, given.only, pages)
        sys.exit(1 if failed else 0)


def fuzz_all(
    folder: Path, cases: int, seed: int = 0, only: list[str] | None = None, pages: int = 3
) -> int:
    """All targets, each with so many cases; returns how many failed."""
    fuzz, failed = Fuzz(folder), 0
    for name in ("zip", "list", "name", "config", "grammar", "text"):
        if not only or name in only:
            failed += run_cases(name, getattr(fuzz, f"fuzz_{name}"), cases, seed)
    if not only or "row" in only:
        at_once = min(2000, cases)
        batches = -(-cases // at_once)
        print(f"row      in batches of {at_once:,}")
        failed += run_cases("row", lambda rng: fuzz.fuzz_rows(rng, at_once), batches, seed)
    if not only or "page" in only:
        made = PageFuzz(folder)
        failed += run_cases("page", made.fuzz_page, pages, seed)
        print(f"page     {made.refused} refused in one line")
    return failed


if __name__ == "__main__":
    main()
