"""The sums beside the events are what a fresh aggregate gives, whatever happened to the files.

`content_of` compares them in every test that asks for the content of a store: files that shrink,
come again or in another order, killed runs (test_load.py, test_kill.py, test_real_archives.py).
"""

from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gdelphi.app.verify import verify
from gdelphi.common import progress
from gdelphi.common.settings import Settings
from gdelphi.gdelt.layouts import BACKFILE, QUARTER
from gdelphi.measures.profiles import read_profiles
from gdelphi.store import migrate as store_module
from gdelphi.store import sums
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestRequest, ingest
from gdelphi.store.schema import MIGRATIONS, SUMS
from gdelphi.store.status import read_status
from gdelphi.store.sums import TABLES, wrong_sums
from helpers.archives import ArchiveMaker, content_of, event_line, event_lines, rows, settings_for

DAY = date(2014, 1, 1)
FRESH = {
    "daily_counts": """
        SELECT if(grouping(ActionGeo_CountryCode) = 1, 'WORLD', ActionGeo_CountryCode), NewsDay,
            count(*), count(*) FILTER (NOT StoryDuplicate), sum(NumMentions),
            count(*) FILTER (QuadClass = 1), count(*) FILTER (QuadClass = 2),
            count(*) FILTER (QuadClass = 3), count(*) FILTER (QuadClass = 4)
        FROM events GROUP BY GROUPING SETS ((ActionGeo_CountryCode, NewsDay), (NewsDay))""",
    "phrase_dates": """
        SELECT FileId, any_value(NewsDay), count(*), count_if(SQLDATE <> NewsDay)
        FROM events GROUP BY FileId HAVING count_if(SQLDATE <> NewsDay) > 0
            AND bool_and(NewsDay - SQLDATE IN (0, 1, 7, 30, 365, 3650))""",
    "(SELECT NewsDay, rows FROM days WHERE rows > 0)": (
        "SELECT NewsDay, count(*) FROM events GROUP BY NewsDay"
    ),
}
"""views, and how they would be read from the events alone"""


def make_archive(folder: Path, rows_of_first: int = 30) -> ArchiveMaker:
    """Days with shared ids, stories told twice, odd codes, blank and unknown places."""
    maker = ArchiveMaker(folder)
    for number in range(4):
        day = DAY + timedelta(days=number)
        amount = rows_of_first if number == 0 else 30
        lines = event_lines([*range(5), *range(100 * number + 10, 100 * number + 10 + amount)], day)
        lines.append(event_line(900 + number, day, EventCode="1213", Actor1Type1Code="XYZ"))
        lines.append(event_line(910 + number, day, Actor1Code="ROUGOV", ActionGeo_CountryCode=""))
        lines.append(event_line(920 + number, day, NumMentions="", EventCode="", QuadClass=""))
        yesterday = f"{day - timedelta(days=1):%Y%m%d}"
        twice = {"Actor1Code": "DEU", "Actor2Code": "FRA", "EventCode": "042", "SQLDATE": yesterday}
        place = {"ActionGeo_FullName": "Germany", "ActionGeo_CountryCode": "GM"}
        lines += [event_line(930 + 2 * number + n, day, **twice, **place) for n in (0, 1)]
        maker.day(day, lines)
    maker.month(date(2012, 3, 7), event_lines([*range(3), 990], date(2012, 3, 7), BACKFILE))
    for slot in range(3):
        moment = datetime(2014, 1, 3) + timedelta(minutes=15 * slot)
        maker.quarter(moment, event_lines(range(700 + 9 * slot, 709 + 9 * slot), DAY, QUARTER))
    maker.write_lists()
    return maker


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("sums")
    maker = make_archive(folder / "archive")
    given = settings_for(folder / "s.duckdb", maker.folder)
    assert ingest(given).succeeded
    return given


@pytest.mark.parametrize("view", FRESH)
def test_views_say_what_the_events_say(loaded: Settings, view: str) -> None:
    fresh = rows(loaded, f"{FRESH[view]} ORDER BY ALL")
    assert len(fresh) > 2
    assert rows(loaded, f"FROM {view} ORDER BY ALL") == fresh


def test_the_status_says_what_the_events_say(loaded: Settings) -> None:
    status = read_status(loaded)
    count, twice = rows(loaded, "SELECT count(*), count_if(StoryDuplicate) FROM events")[0]
    assert (status.rows, status.story_duplicates) == (count, twice)
    assert twice >= 4
    assert status.unknown_codes["event"]["1213"] == 4
    assert status.unknown_codes["type"]["XYZ"] == 4
    told = rows(loaded, "SELECT told, count(*) FROM blank_countries GROUP BY ALL")
    assert status.blank_countries == dict(told)
    assert status.blank_countries["ROM"] == 4
    assert "ROM" not in [code for codes in status.unknown_codes.values() for code in codes]


def test_a_file_that_shrinks_takes_its_sums_with_it(tmp_path: Path) -> None:
    maker = make_archive(tmp_path / "archive")
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    before = rows(given, "FROM day_sums ORDER BY ALL")
    make_archive(tmp_path / "archive", rows_of_first=3)
    ingest(given)
    fresh = settings_for(tmp_path / "fresh.duckdb", maker.folder)
    ingest(fresh)
    assert content_of(given) == content_of(fresh)
    after = rows(given, "FROM day_sums ORDER BY ALL")
    assert after == rows(fresh, "FROM day_sums ORDER BY ALL") != before


def test_the_same_ids_with_other_codes_change_the_sums(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    moments = [datetime(2014, 1, 3) + timedelta(minutes=15 * slot) for slot in range(3)]
    for slot, moment in enumerate(moments):
        maker.quarter(moment, event_lines(range(9 * slot, 9 * slot + 9), DAY, QUARTER))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    assert "1213" not in read_status(given).unknown_codes.get("event", {})
    maker.quarter(moments[1], event_lines(range(9, 18), DAY, QUARTER, EventCode="1213"))
    ingest(given, IngestRequest(force=True))
    assert read_status(given).unknown_codes["event"]["1213"] == 9
    # an id of the last file moves to the first: both of them change
    moved = event_line(20, DAY, QUARTER, EventCode="106")
    maker.quarter(moments[0], [*event_lines(range(9), DAY, QUARTER), moved])
    ingest(given, IngestRequest(force=True))
    assert read_status(given).unknown_codes["event"] == {"1213": 9, "106": 1}
    content_of(given)


def as_before_the_sums(given: Settings) -> None:
    """Make the store what the version before the sums left."""
    with Store(given).writing() as connection:
        for name in ("daily_counts", "days", "phrase_dates", "unknown_codes"):
            connection.rows(f"DROP VIEW {name}")
        for name in TABLES:
            connection.rows(f"DROP TABLE {name}")
        connection.rows("DELETE FROM migrations WHERE name = ?", [SUMS])
        earlier = [m for m in MIGRATIONS if m.name in ("views", "what sources leave out")]
        for statement in (text for migration in earlier for text in migration.statements):
            if "country_linked" not in statement:
                connection.rows(statement)


def test_an_older_store_is_summed_up_with_a_word_about_it(
    loaded: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    older = loaded.model_copy(update={"store": tmp_path / "older.duckdb"})
    older.store.write_bytes(loaded.store.read_bytes())
    as_before_the_sums(older)
    profiles = read_profiles(loaded, "full")
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sums, "ROWS_AT_ONCE", 40)
    assert (read_profiles(older, "full").weights == profiles.weights).all()
    assert f"... {older.store}: summing up its rows, once: 100% after" in capsys.readouterr().err
    for table in TABLES:
        assert rows(older, f"FROM {table} ORDER BY ALL") == rows(
            loaded, f"FROM {table} ORDER BY ALL"
        )
    assert content_of(older) == content_of(loaded)


def test_new_code_tables_make_other_codes_odd(
    loaded: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = loaded.model_copy(update={"store": tmp_path / "codes.duckdb"})
    given.store.write_bytes(loaded.store.read_bytes())
    assert "042" not in read_status(given).unknown_codes["event"]
    monkeypatch.setattr(store_module, "tables_fingerprint", lambda: "another")
    columns, known = store_module.table_rows("events")
    shorter = columns, [row for row in known if row[0] != "042"]
    real = store_module.table_rows
    monkeypatch.setattr(
        store_module, "table_rows", lambda name: shorter if name == "events" else real(name)
    )
    assert "042" in read_status(given).unknown_codes["event"]
    with Store(given).reading() as connection:
        assert wrong_sums(connection.rows) == {}


def test_sums_that_are_wrong_are_found(loaded: Settings, tmp_path: Path) -> None:
    given = loaded.model_copy(update={"store": tmp_path / "wrong.duckdb"})
    given.store.write_bytes(loaded.store.read_bytes())
    with Store(given).writing() as connection:
        connection.rows("UPDATE day_sums SET rows = rows + 1 WHERE Stream = 'KE'")
        connection.rows("DELETE FROM odd_codes WHERE code = '1213'")
        assert set(wrong_sums(connection.rows)) == {"day_sums", "odd_codes"}
    said = [damage.says for part in verify(given) for damage in part.damages]
    assert any("sums in day_sums that are not those of its rows" in words for words in said)
