"""Makes small GDELT archives for tests, and reads a store's content for comparison."""

import hashlib
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gdelphi.common.settings import Settings, load_settings
from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import (
    DAILY,
    QUARTER,
    Layout,
)
from gdelphi.store.connection import Store
from gdelphi.store.schema import event_comments

DAY_FILE = SourceFile(
    "20140101.export.CSV.zip", "events", "day", date(2014, 1, 1), date(2014, 1, 1)
)
CODES = ("010", "042", "1411", "190", "036", "112")


def event_line(number: int, day: date, layout: Layout = DAILY, **values: Any) -> str:
    """A line of an event file: sound by default, `values` put in by column name."""
    rng = random.Random(number)
    code = rng.choice(CODES)
    place = rng.choice([("Nairobi, Kenya", "KE"), ("Kyiv, Ukraine", "UP"), ("Germany", "GM")])
    row: dict[str, Any] = {
        "GLOBALEVENTID": number,
        "SQLDATE": f"{day:%Y%m%d}",
        "MonthYear": f"{day:%Y%m}",
        "Year": day.year,
        "FractionDate": f"{day.year + (day.timetuple().tm_yday - 1) / 365:.4f}",
        "Actor1Code": rng.choice(["GOVMIL", "REB", "MED", ""]),  # of no country
        "Actor1Name": "SOMEBODY",
        "IsRootEvent": rng.randint(0, 1),
        "EventCode": code,
        "EventBaseCode": code[:3],
        "EventRootCode": code[:2],
        "QuadClass": 1,
        "GoldsteinScale": "-6.5",
        "NumMentions": rng.randint(1, 30),
        "NumSources": 1,
        "NumArticles": 2,
        "AvgTone": f"{rng.uniform(-9, 9):.12f}",
        "ActionGeo_Type": 4,
        "ActionGeo_FullName": place[0],
        "ActionGeo_CountryCode": place[1],
        "ActionGeo_Lat": "-1.2833",
        "ActionGeo_Long": "36.8167",
        "DATEADDED": f"{day:%Y%m%d}" + ("120000" if layout is QUARTER else ""),
        "SOURCEURL": f"https://news.example/{number}",
    }
    unknown = set(values) - set(layout.columns)
    assert not unknown, f"no such columns: {unknown}"
    row |= values
    return "\t".join(str(row.get(name, "")) for name in layout.columns)


def event_lines(
    numbers: Iterable[int], day: date, layout: Layout = DAILY, **values: Any
) -> list[str]:
    return [event_line(number, day, layout, **values) for number in numbers]


def text_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    """A zip with a fixed time, so that the same content gives the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2013, 4, 1, 6, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


@dataclass
class ArchiveMaker:
    """A folder that becomes an archive: files are written at once, lists by `write_lists`."""

    folder: Path
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, member: str, lines: Sequence[str]) -> Path:
        if name not in self.names:
            self.names.append(name)
        return write_zip(self.folder / name, {member: text_of(lines)})

    def day(self, day: date, lines: Sequence[str]) -> Path:
        """A daily file of GDELT 1.0 (58 columns)."""
        return self.add(f"{day:%Y%m%d}.export.CSV.zip", f"{day:%Y%m%d}.export.CSV", lines)

    def month(self, day: date, lines: Sequence[str]) -> Path:
        """A monthly backfile (57 columns)."""
        return self.add(f"{day:%Y%m}.zip", f"{day:%Y%m}.csv", lines)

    def quarter(self, moment: datetime, lines: Sequence[str]) -> Path:
        """A 15-minute file of GDELT 2.0 (61 columns)."""
        stem = f"{moment:%Y%m%d%H%M%S}.export.CSV"
        return self.add(f"{stem}.zip", stem, lines)

    def write_lists(self, *, second: bool = False) -> None:
        """md5sums and filesizes, or the master list of GDELT 2.0."""
        rows = []
        for name in sorted(self.names):
            content = (self.folder / name).read_bytes()
            rows.append((name, len(content), hashlib.md5(content).hexdigest()))
        if second:
            site = "http://data.gdeltproject.org/gdeltv2"
            lines = [f"{size} {md5} {site}/{name}\n" for name, size, md5 in rows]
            (self.folder / "masterfilelist.txt").write_text("".join(lines))
            return
        (self.folder / "md5sums").write_text("".join(f"{m}  {n}\n" for n, _, m in rows))
        (self.folder / "filesizes").write_text("".join(f"{s} {n}\n" for n, s, _ in rows))


def settings_for(store: Path | str, archive: Path | str, **flags: Any) -> Settings:
    """Settings for a test: dotted keys may be given with two underscores."""
    beside = Path(flags.get("store_data", store)).parent
    given = {"store": store, "ingest.archive": str(archive), "ingest.downloads": beside / "d"}
    given |= {key.replace("__", "."): value for key, value in flags.items()}
    return load_settings(flags=given).settings


def rows(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    """What a query finds in a store."""
    with Store(settings).reading() as connection:
        return connection.rows(sql)


def content_of(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """All that a store holds, without times and running numbers, in a fixed order; its sums are
    what a fresh aggregate gives."""
    columns = ", ".join(f"events.{name}" for name in event_comments() if name != "FileId")
    kept = columns.replace("events.StoryDuplicate", "place").replace("events.", "duplicates.")
    queries = {
        "events": f"SELECT {columns}, name FROM events JOIN ledger ON file_id = FileId",
        "duplicates": f"SELECT {kept}, name FROM duplicates JOIN ledger ON file_id = FileId",
        "rejects": "SELECT file, line, reason, raw FROM rejects",
        "ledger": "SELECT name, kind, span, first_day, last_day, status, listed, size, md5, "
        "layout, text_bytes, rows_in, accepted, rejected, duplicates, repaired FROM ledger",
        "reduced_events": "SELECT * EXCLUDE (FileId) FROM reduced_events",
    }
    with Store(settings).reading() as connection:
        assert connection.wrong_sums() == {}
        return {name: connection.rows(f"{sql} ORDER BY ALL") for name, sql in queries.items()}
