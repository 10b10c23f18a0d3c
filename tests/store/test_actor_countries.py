"""Actors whose country stands in their code alone: counted, and named wherever somebody acts."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.settings import Settings
from gdelphi.measures.cloud_update import cloud_on, day_fingerprints
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.count_panel import read_count_panel
from gdelphi.measures.phrases import actor_key_sql, sentence
from gdelphi.measures.profiles import read_profiles
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from gdelphi.store.status import read_status
from gdelphi.store.sums import fill_sums
from helpers.archives import ArchiveMaker, event_line, rows, settings_for

DAY = date(2014, 1, 6)
ROWS: tuple[tuple[dict[str, str], str], ...] = (
    ({"Actor1Code": "ROUGOV", "Actor1Type1Code": "GOV", "Actor2Code": "ROU"}, "ROM|||||GOV"),
    ({"Actor1Code": "TWN", "Actor2Code": "UKRCOP", "Actor2CountryCode": "UKR",
      "Actor2Type1Code": "COP"}, "TWN"),
    ({"Actor1Code": "SHN", "Actor1Religion1Code": "SHN"}, "|||SHN"),  # Shinto, no Saint Helena
    ({"Actor1Code": "KOR", "Actor1EthnicCode": "kor"}, "||kor"),  # Koreans of whatever country
    ({"Actor1Code": "GOV", "Actor1Type1Code": "GOV"}, "|||||GOV"),
    ({"Actor1Code": "EURGOV", "Actor1Type1Code": "GOV"}, "|||||GOV"),  # Europe is no country
    ({"Actor1Code": "ROU", "Actor1CountryCode": "KEN"}, "KEN"),  # what is given stays
    ({"Actor1Code": ""}, ""),
    ({"Actor1Code": "RO"}, ""),
)  # fmt: skip
"""columns of a row, and the key of its first actor"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("told")
    known: dict[str, Any] = {"EventCode": "190", "EventRootCode": "19", "QuadClass": 4}
    known |= {"ActionGeo_CountryCode": "RO", "Actor1Name": ""}
    lines = [event_line(n, DAY, **known | given) for n, (given, _) in enumerate(ROWS, start=1)]
    return stored(folder, lines)


def stored(folder: Path, lines: list[str]) -> Settings:
    maker = ArchiveMaker(folder / "archive")
    maker.day(DAY, lines)
    maker.write_lists()
    settings = settings_for(folder / "s.duckdb", maker.folder)
    ingest(settings)
    return settings


def test_the_code_tells_the_country_where_its_column_is_blank(settings: Settings) -> None:
    found = rows(settings, f"SELECT {actor_key_sql(1)} FROM events ORDER BY GLOBALEVENTID")
    assert [key for (key,) in found] == [key for _, key in ROWS]
    assert rows(settings, f"SELECT {actor_key_sql(2)} FROM events WHERE GLOBALEVENTID < 3") == [
        ("ROM",), ("UKR|||||COP",),
    ]  # fmt: skip


def test_the_row_stays_as_it_came(settings: Settings) -> None:
    given = rows(settings, "SELECT DISTINCT Actor1CountryCode FROM events ORDER BY 1")
    assert given == [("KEN",), (None,)]


def test_they_are_counted(settings: Settings) -> None:
    assert read_status(settings).blank_countries == {"ROM": 2, "TWN": 1}
    query = "SELECT actor, code, told FROM blank_countries ORDER BY GLOBALEVENTID, actor"
    assert rows(settings, query) == [
        (1, "ROUGOV", "ROM"), (2, "ROU", "ROM"), (1, "TWN", "TWN"),
    ]  # fmt: skip


def test_sentences_of_the_day_name_the_country(settings: Settings) -> None:
    phrases = set(cloud_on(settings, "RO", DAY).phrases())
    assert ("ROM|||||GOV", "190", "ROM") in phrases
    assert sentence("ROM|||||GOV", "190", "ROM").startswith("the Romanian government")


def test_counts_between_countries_have_them(settings: Settings) -> None:
    panel = read_count_panel(settings, read_profiles(settings, "root", ("RO", "TW", "UP", "WORLD")))
    fight = panel.roots.codes.index("19")
    assert panel.acted[:, 0, fight].tolist() == [1, 1, 1, len(ROWS)]
    assert panel.pairs[0, 1, 2].tolist() == [0, 0, 0, 1]  # Taiwan and Ukrainian police


def test_days_are_made_again_where_a_country_was_not_told_before(tmp_path: Path) -> None:
    """Clouds of earlier versions lack it: such a day has another fingerprint, and no other has."""
    settings = stored(tmp_path, [event_line(1, DAY, Actor1Code="MIL")])
    before = day_fingerprints(settings)
    for code, same in (("REB", True), ("ROU", False)):
        with Store(settings).writing() as connection:
            connection.rows("UPDATE events SET Actor1Code = ?", [code])
            fill_sums(connection.rows, ("odd_codes",), lambda *_: None)
        (measures_folder(settings) / "days.json").unlink()  # it is not known that rows changed
        assert (day_fingerprints(settings) == before) is same
