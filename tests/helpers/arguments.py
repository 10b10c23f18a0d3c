"""Shared by tests: arguments."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.settings import Settings
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for

DAY = date(2014, 2, 24)


KENYA = {
    "ActionGeo_CountryCode": "KE", "ActionGeo_ADM1Code": "KE07", "ActionGeo_Type": 4,
    "ActionGeo_FullName": "Kisumu, Nyanza, Kenya",
}  # fmt: skip


POLICE = {"Actor1CountryCode": "KEN", "Actor1Type1Code": "COP"}


RIOT = {"EventCode": "145", "EventBaseCode": "145", "EventRootCode": "14"}


PRAISE = {"EventCode": "051", "EventBaseCode": "051", "EventRootCode": "05"}


STRANGE = {"EventCode": "9X", "EventBaseCode": "9X", "EventRootCode": "9X"}


BLANK = {"Actor1CountryCode": "", "Actor1Type1Code": ""}


def row(number: int, **values: Any) -> str:
    """A row of police who riot in Kisumu, mentioned three times in a lead, but for `values`."""
    day = DAY + timedelta(days=number // 100)
    given = {**KENYA, **POLICE, **RIOT, "NumMentions": 3, "IsRootEvent": 1}
    return event_line(number, day, **{**given, **values})


def store_of(folder: Path, days: list[list[str]]) -> Settings:
    """A store whose days have these rows."""
    maker = ArchiveMaker(folder / "archive")
    for number, lines in enumerate(days):
        maker.day(DAY + timedelta(days=number), lines)
    maker.write_lists()
    settings = settings_for(folder / "s.duckdb", maker.folder)
    ingest(settings)
    return settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    elsewhere = {"ActionGeo_CountryCode": "UP", "ActionGeo_ADM1Code": "UP12"}
    nowhere = dict.fromkeys(KENYA, "")
    first = [
        row(0),
        row(1, IsRootEvent=0, NumMentions=7),
        row(2, Actor1Type1Code="COP", Actor1Type2Code="COP"),
        row(3, **BLANK, **PRAISE),
        row(4, **STRANGE),
        row(5, **elsewhere, ActionGeo_FullName="Kyiv, Kyyiv, Misto, Ukraine"),
        row(6, **nowhere),
        row(7, NumMentions=0, Actor1Type1Code="REB"),
    ]
    codes = ["KE", "KE00", "UP12", "KE7", "KE-7", "", " ke07"]
    second = [row(100 + at, ActionGeo_ADM1Code=code) for at, code in enumerate(codes)]
    second += [
        row(120 + at, ActionGeo_ADM1Code="KE09", ActionGeo_FullName=name, ActionGeo_Type=kind)
        for at, (name, kind) in enumerate([("Busia, Kenya", 4), ("Western**, Kenya", 5)])
    ]
    third = [row(200 + at, ActionGeo_FullName="X, Lake Province, Kenya") for at in range(9)]
    third.append(row(220, Actor1Type1Code="MIL"))
    folder = tmp_path_factory.mktemp("arguments")
    return store_of(folder, [first, second, third])
