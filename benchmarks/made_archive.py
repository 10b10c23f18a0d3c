"""Makes GDELT archives of any size out of nothing, the same bytes every time.

Widths, blanks and skew are those of real files: about 410 bytes a row, a 7-fold zip, articles that
give several rows with one address, one tone and one place, Zipf-like codes, names and places. Rows
are put together from pools of ready blocks (an actor's ten fields, a place's seven), so that a
daily of 150,000 rows takes seconds to make.
"""

import hashlib
import random
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gdelphi.gdelt.cameo import (
    Country,
    actor_types,
    countries,
    event_codes,
)

DAILY_ROWS = 150_000
QUARTER_ROWS = 1_300
QUARTERS_A_DAY = 96
FIRST_ID = 250_000_000
SITE = "http://data.gdeltproject.org/gdeltv2"

Indices = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """What rows are made of: ready blocks of fields, tab-separated, the most frequent first."""

    actors: Sequence[str]
    events: Sequence[str]
    daily_places: Sequence[str]
    quarter_places: Sequence[str]  # the same places with an ADM2 code
    words: Sequence[str]
    sites: Sequence[str]


@cache
def world() -> World:
    """The one world of all made files."""
    rng = random.Random(1979)
    words = _words(rng, 4_000)
    lands = [land for land in countries() if land.fips and land.cameo]
    rng.shuffle(lands)
    lands.sort(key=lambda land: land.fips not in ("US", "IN", "UK", "IS"))
    actors = [_actor(rng, words, lands) for _ in range(3_500)]
    places = [_place(rng, words, lands) for _ in range(15_000)]
    sites = [f"www.{rng.choice(words)}{rng.choice(words)}.com" for _ in range(1_500)]
    daily, quarter = zip(*places, strict=True)
    return World(actors, _events(rng), daily, quarter, words, sites)


def _words(rng: random.Random, number: int) -> list[str]:
    beginnings, ends = "bcdfghklmnprstvw", ("a", "e", "i", "o", "u", "an", "er", "il", "on")
    return sorted(
        {
            "".join(rng.choice(beginnings) + rng.choice(ends) for _ in range(rng.randint(1, 3)))
            for _ in range(number)
        }
    )


def _one(rng: random.Random, pool: Sequence[T]) -> T:
    """One of a pool, the first ones far more often."""
    return pool[int(len(pool) ** rng.random()) - 1]


def _actor(rng: random.Random, words: Sequence[str], lands: Sequence[Country]) -> str:
    """Code, name, country, group, ethnic, two religions, three types."""
    land = _one(rng, lands).cameo if rng.random() < 0.6 else ""
    role = _one(rng, list(actor_types())) if not land or rng.random() < 0.4 else ""
    name = " ".join(rng.choice(words) for _ in range(rng.randint(1, 2))).upper()
    return f"{land}{role}\t{name}\t{land}\t\t\t\t\t{role}\t\t"


def _place(rng: random.Random, words: Sequence[str], lands: Sequence[Country]) -> tuple[str, str]:
    """Type, name, country, ADM1, (ADM2), latitude, longitude, feature."""
    land = _one(rng, lands)
    fips = land.fips
    at = f"{rng.uniform(-60, 70):.4f}\t{rng.uniform(-180, 180):.4f}"
    if rng.random() < 0.1:
        start, end = f"1\t{land.name}\t{fips}\t{fips}\t", f"{at}\t{fips}"
        return start + end, f"{start}\t{end}"
    full = f"{rng.choice(words)}{rng.choice(words)}, {rng.choice(words)}, {land.name}".title()
    start = f"4\t{full}\t{fips}\t{fips}{rng.randint(1, 40):02d}\t"
    end = f"{at}\t{rng.randint(-3_000_000, 3_000_000)}"
    return start + end, f"{start}{rng.randint(1_000, 90_000)}\t{end}"


def _events(rng: random.Random) -> list[str]:
    """Code, base, root, quad class, Goldstein value."""
    codes = [code for code in event_codes().values() if code.base]
    rng.shuffle(codes)
    return [f"{c.code}\t{c.base}\t{c.root}\t{c.quad_class}\t{c.goldstein}" for c in codes]


def _draw(rng: Generator, pool: int, number: int, power: float = 1.0) -> Indices:
    """Indices below `pool`, the n-th one drawn in proportion to (n + 3)^-power."""
    weights = np.cumsum((np.arange(pool) + 3.0) ** -power)
    return np.searchsorted(weights, rng.random(number) * weights[-1])


def make_text(first_id: int, rows: int, moment: datetime, *, quarter: bool) -> bytes:
    """The text of a file: 61 columns for a quarter of an hour, 58 for a day."""
    rng = np.random.default_rng([first_id, rows])
    made = world()
    geo = made.quarter_places if quarter else made.daily_places
    blank = "\t" * (7 if quarter else 6)
    lengths = rng.geometric(0.2, rows)
    article = np.repeat(np.arange(rows), lengths)[:rows]
    about = int(article[-1]) + 1
    ends = _article_ends(rng, made, moment, about)
    near = _sticky(rng, article, len(geo), 0.75)
    first = _sticky(rng, article, len(made.actors), 0.6)
    second = _sticky(rng, article, len(made.actors), 0.6)
    event = _sticky(rng, article, len(made.events), 0.5)
    away = _draw(rng, len(geo), rows)
    chance = rng.random((4, rows))
    mentions = rng.geometric(0.15, rows)
    stamp = f"{moment:%Y%m%d%H%M%S}" if quarter else f"{moment:%Y%m%d}"
    days = _dates(moment.date())
    lines = []
    for n in range(rows):
        action = geo[near[n]]
        one, two, blank_one, blank_two = chance[:, n]
        place1 = blank if one < 0.11 else action if one < 0.88 else geo[away[n]]
        place2 = blank if two < 0.28 else action if two < 0.86 else geo[away[n]]
        actor1 = "\t" * 9 if blank_one < 0.09 else made.actors[first[n]]
        actor2 = "\t" * 9 if blank_two < 0.27 else made.actors[second[n]]
        m = mentions[n]
        tone, url = ends[article[n]]
        lines.append(
            f"{first_id + n}\t{days[0 if two < 0.97 else 1 if two < 0.985 else 2]}\t{actor1}\t"
            f"{actor2}\t{int(one < 0.6)}\t{made.events[event[n]]}\t{m}\t1\t{m}\t{tone}\t"
            f"{place1}\t{place2}\t{action if blank_two > 0.02 else blank}\t{stamp}\t{url}\n"
        )
    return "".join(lines).encode()


def _sticky(rng: Generator, article: Indices, pool: int, share: float) -> Indices:
    """Drawn once for each article, and for a part of its rows anew."""
    shared = _draw(rng, pool, int(article[-1]) + 1)[article]
    return np.where(rng.random(len(article)) < share, shared, _draw(rng, pool, len(article)))


def _article_ends(
    rng: Generator, made: World, moment: datetime, number: int
) -> list[tuple[str, str]]:
    """Tone and address of each article."""
    words = _draw(rng, len(made.words), 8 * number, 0.7).reshape(number, 8)
    sites, tones = _draw(rng, len(made.sites), number), rng.normal(-1.5, 3.5, number)
    codes = rng.integers(10**7, 10**8, number)
    return [
        (
            f"{tones[n]:.13f}",
            f"https://{made.sites[sites[n]]}/{moment:%Y/%m/%d}/"
            f"{'-'.join(made.words[word] for word in words[n])}-{codes[n]}.html",
        )
        for n in range(number)
    ]


def _dates(day: date) -> tuple[str, str, str]:
    """Date, month, year and fraction: of the day, of a week before, of a year before."""
    days = (day, day - timedelta(days=7), day - timedelta(days=365))
    return tuple(  # type: ignore[return-value]
        f"{d:%Y%m%d}\t{d:%Y%m}\t{d.year}\t{d.year + d.timetuple().tm_yday / 366:.4f}" for d in days
    )


def write_zip(path: Path, text: bytes) -> None:
    """A zip with a fixed time, so that the same text gives the same bytes."""
    info = zipfile.ZipInfo(path.name.removesuffix(".zip"), (2013, 4, 1, 6, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, text)


@dataclass
class MadeArchive:
    """A folder of made files, each with ids after those of the one before."""

    folder: Path
    quarter: bool
    next_id: int = FIRST_ID
    names: list[str] = field(default_factory=list)
    rows: int = 0

    def add(self, moment: datetime, rows: int) -> Path:
        stem = f"{moment:%Y%m%d%H%M%S}" if self.quarter else f"{moment:%Y%m%d}"
        path = self.folder / f"{stem}.export.CSV.zip"
        write_zip(path, make_text(self.next_id, rows, moment, quarter=self.quarter))
        self.next_id += rows
        self.rows += rows
        self.names.append(path.name)
        return path

    def write_lists(self) -> None:
        write_lists(self.folder, self.names, quarter=self.quarter)


def write_lists(folder: Path, names: Sequence[str], *, quarter: bool) -> None:
    """The lists of GDELT 2.0 or 1.0 for files of a folder."""
    lines = [list_lines(folder / name) for name in names]
    if quarter:
        (folder / "masterfilelist.txt").write_text("".join(line[0] for line in lines))
    else:
        (folder / "md5sums").write_text("".join(line[1] for line in lines))
        (folder / "filesizes").write_text("".join(line[2] for line in lines))


def list_lines(path: Path) -> tuple[str, str, str]:
    """A file's line in masterfilelist.txt, md5sums and filesizes."""
    content = path.read_bytes()
    md5, size = hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content)
    return f"{size} {md5} {SITE}/{path.name}\n", f"{md5}  {path.name}\n", f"{size} {path.name}\n"


def make_dailies(
    folder: Path, number: int, *, first: date, next_id: int = FIRST_ID, rows: int = DAILY_ROWS
) -> MadeArchive:
    """Dailies of GDELT 1.0, one after the other."""
    return _make(
        MadeArchive(folder, quarter=False, next_id=next_id),
        number,
        rows,
        lambda n: datetime(first.year, first.month, first.day) + timedelta(days=n),  # noqa: DTZ001
    )


def make_quarters(
    folder: Path, number: int, *, first: date, next_id: int = FIRST_ID, rows: int = QUARTER_ROWS
) -> MadeArchive:
    """15-minute files of GDELT 2.0, without a gap from the first day's midnight."""
    return _make(
        MadeArchive(folder, quarter=True, next_id=next_id),
        number,
        rows,
        lambda n: datetime(first.year, first.month, first.day) + timedelta(minutes=15 * n),  # noqa: DTZ001
    )


def _make(
    archive: MadeArchive, number: int, rows: int, moment: Callable[[int], datetime]
) -> MadeArchive:
    archive.folder.mkdir(parents=True, exist_ok=True)
    for n in range(number):
        archive.add(moment(n), rows)
    archive.write_lists()
    return archive
