"""The real archives come in whole, and the odd files behave as they should."""

import json
import random
import shutil
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.settings import Settings
from gdelphi.store.ingest import IngestRequest, ingest
from helpers.archives import content_of, rows, settings_for

ROWS = {"gdelt1-georgia": 105_438, "gdelt1-icews": 415_646, "gdelt2-world": 366_175}


def lines_in_zips(folder: Path) -> dict[str, int]:
    counts = {}
    for path in folder.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            counts[path.name] = archive.read(archive.namelist()[0]).count(b"\n")
    return counts


@pytest.fixture(scope="module")
def world(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """One store with all three archives."""
    store = tmp_path_factory.mktemp("real") / "s.duckdb"
    for name, expected in ROWS.items():
        result = ingest(settings_for(store, shared_data / name))
        assert result.accepted == result.rows_in == expected
        assert result.succeeded
    return settings_for(store, shared_data / "gdelt1-georgia")


@pytest.mark.parametrize("name", ROWS)
def test_every_line_of_every_zip_is_accepted(world: Settings, shared_data: Path, name: str) -> None:
    found = rows(
        world,
        "SELECT name, count(GLOBALEVENTID) FROM ledger LEFT JOIN events ON FileId = file_id "
        f"WHERE archive LIKE '%{name}' AND status = 'loaded' GROUP BY name",
    )
    assert dict(found) == lines_in_zips(shared_data / name)


def test_the_ledger_agrees_with_the_tables(world: Settings) -> None:
    wrong = rows(
        world,
        "SELECT name FROM ledger LEFT JOIN "
        "(SELECT FileId, count(*) AS n FROM events GROUP BY 1) ON FileId = file_id "
        "WHERE status = 'loaded' AND (accepted <> coalesce(n, 0) "
        "OR rows_in <> accepted + rejected + duplicates)",
    )
    assert wrong == []


def test_a_second_run_loads_nothing_and_changes_nothing(world: Settings, shared_data: Path) -> None:
    before = rows(world, "SELECT count(*), bit_xor(hash(events)) FROM events")
    for name in ROWS:
        result = ingest(settings_for(world.store, shared_data / name))
        assert (result.loaded, len(result.plan.tasks)) == (0, 0)
        assert result.succeeded
    assert rows(world, "SELECT count(*), bit_xor(hash(events)) FROM events") == before


def test_what_is_known_of_the_missing_days_is_found(world: Settings) -> None:
    found = rows(
        world,
        "SELECT name, reason FROM ledger WHERE status = 'missing' AND archive LIKE '%georgia'",
    )
    assert found == [("201303.zip", "in no list of the archive")]
    assert rows(
        world, "SELECT count(*) FROM ledger WHERE status = 'missing' AND archive LIKE '%world'"
    ) == [(7 * 96 - 286,)]


def test_spaces_before_codes_are_gone_and_blanks_are_null(world: Settings) -> None:
    columns = [name for (name,) in rows(
        world,
        "SELECT column_name FROM duckdb_columns() WHERE table_name = 'events' "
        "AND data_type = 'VARCHAR'",
    )]  # fmt: skip
    edges = " OR ".join(f"{c} = '' OR {c} LIKE ' %' OR {c} LIKE '% '" for c in columns)
    assert rows(world, f"SELECT count(*) FROM events WHERE {edges}") == [(0,)]


def test_codes_outside_the_tables_are_kept_and_reported(world: Settings) -> None:
    unknown = dict(rows(world, "SELECT code, sum(rows)::INT FROM unknown_codes GROUP BY 1"))
    assert unknown["106"] == 124
    assert unknown["1213"] == 26
    # Serbia, South Sudan and the oceans: not in the published tables, but in the packaged ones.
    assert not {"RB", "OC", "YI", "SSD"} & set(unknown)
    assert rows(world, "SELECT count(*) FROM events WHERE ActionGeo_CountryCode = 'RB'") != [(0,)]


def test_the_country_linked_view_has_its_columns(world: Settings) -> None:
    columns = [name for name, *_ in rows(world, "DESCRIBE country_linked")]
    assert columns == [
        "GLOBALEVENTID", "SQLDATE", "MonthYear", "Year", "FractionDate", "IsRootEvent",
        "EventCode", "EventBaseCode", "EventRootCode", "QuadClass", "GoldsteinScale",
        "Actor1Geo_CountryCode", "Actor2Geo_CountryCode", "Multi_Country_Flag", "Stream", "NewsDay",
    ]  # fmt: skip
    wrong = rows(
        world,
        "SELECT count(*) FROM country_linked JOIN events USING (GLOBALEVENTID) WHERE "
        "Multi_Country_Flag <> (len(list_distinct([events.Actor1Geo_CountryCode, "
        "events.Actor2Geo_CountryCode, ActionGeo_CountryCode])) > 1)",
    )
    assert wrong == [(0,)]
    assert len(rows(world, "SELECT DISTINCT Multi_Country_Flag FROM country_linked")) == 2


def test_daily_counts_add_up_to_the_world(world: Settings) -> None:
    found = rows(
        world,
        "SELECT sum(rows) FILTER (WHERE Stream = 'WORLD'), "
        "sum(rows) FILTER (WHERE Stream IS DISTINCT FROM 'WORLD') FROM daily_counts",
    )
    assert found == [(sum(ROWS.values()), sum(ROWS.values()))]


RECENT = date(2012, 7, 1)


def recent_files(archive: Path, folder: Path) -> Path:
    """An archive's files since a month, and their lines of its lists."""
    folder.mkdir()
    for path in archive.glob("*.zip"):
        if path.name >= f"{RECENT:%Y%m}":
            shutil.copyfile(path, folder / path.name)
    for name in ("md5sums", "filesizes"):
        lines = (archive / name).read_text().splitlines(keepends=True)
        kept = [line for line in lines if (folder / line.split()[-1]).exists()]
        (folder / name).write_text("".join(kept))
    return folder


def test_shuffled_files_and_one_that_shrank_end_like_a_fresh_load(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = recent_files(shared_data / "gdelt1-georgia", tmp_path / "georgia")
    shuffled = settings_for(tmp_path / "shuffled.duckdb", folder)
    paths = sorted(folder.glob("*.zip"))
    random.Random(7).shuffle(paths)
    for chunk in (paths[:30], paths[30:50], paths[50:]):
        ingest(shuffled, IngestRequest(files=tuple(chunk)))
    ingest(shuffled, IngestRequest(since=RECENT))
    fresh = settings_for(tmp_path / "fresh.duckdb", folder)
    whole = ingest(fresh).accepted
    assert whole > 10_000
    assert content_of(shuffled) == content_of(fresh)

    shrunk = folder / "201209.zip"
    with zipfile.ZipFile(shrunk) as archive:
        name = archive.namelist()[0]
        kept = archive.read(name).splitlines(keepends=True)[:-700]
    shrunk.unlink()
    with zipfile.ZipFile(shrunk, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"".join(kept))
    for name in ("md5sums", "filesizes"):
        (folder / name).unlink()
    assert ingest(shuffled).loaded == 1
    after = settings_for(tmp_path / "after.duckdb", folder)
    assert ingest(after).accepted == whole - 700
    expected, found = content_of(after), content_of(shuffled)
    # The first store met the files in a list, the second in a folder without one.
    del expected["ledger"], found["ledger"]
    assert found == expected


# The odd files, one by one.


@pytest.fixture
def odd(shared_data: Path) -> Path:
    return shared_data / "odd"


def single(tmp_path: Path, path: Path, **flags: Any) -> tuple[Settings, Any]:
    given = settings_for(tmp_path / "s.duckdb", path.parent, **flags)
    return given, ingest(given, IngestRequest(files=(path,)))


def test_the_2013_excerpt_has_spaces_citations_and_future_dates(odd: Path, tmp_path: Path) -> None:
    given, result = single(tmp_path, odd / "20130401-excerpt.export.CSV.zip")
    assert (result.rows_in, result.accepted) == (14_346, 14_346)
    assert rows(given, "SELECT DISTINCT NewsDay FROM events") == [(date(2013, 4, 1),)]
    assert rows(given, "SELECT count(*) > 0 FROM events WHERE SOURCEURL = 'BBC Monitoring'") == [
        (True,)
    ]
    assert rows(given, "SELECT count(*) > 0 FROM events WHERE SQLDATE > NewsDay") == [(True,)]
    assert rows(given, "SELECT count(*) FROM events WHERE Actor2Code LIKE ' %'") == [(0,)]


def test_the_2015_excerpt_and_the_2019_quarter_hour_come_in_whole(
    odd: Path, tmp_path: Path
) -> None:
    given, result = single(tmp_path, odd / "20151207-excerpt.export.CSV.zip")
    assert (result.rows_in, result.accepted) == (5_000, 5_000)
    given, result = single(tmp_path, odd / "20190121220000.export.CSV.zip")
    assert (result.rows_in, result.accepted) == (1_629, 1_629)
    found = rows(
        given,
        "SELECT DISTINCT NewsDay, DATEADDED::VARCHAR, layout FROM events "
        "JOIN ledger ON FileId = file_id WHERE layout = 'quarter-hour'",
    )
    assert found == [(date(2019, 1, 21), "2019-01-21 22:00:00", "quarter-hour")]


def test_the_reduced_head_has_a_table_of_its_own(odd: Path, tmp_path: Path) -> None:
    given, result = single(tmp_path, odd / "MASTERREDUCEDV2-first-1000.txt")
    assert (result.rows_in, result.accepted, result.rejected) == (999, 998, 1)
    assert rows(given, "SELECT line, reason FROM rejects") == [
        (2, "11 columns where 17 were expected")
    ]
    assert rows(given, "SELECT count(*) FROM events") == [(0,)]
    assert rows(given, "SELECT Date, Source, CAMEOCode, Goldstein FROM reduced_events LIMIT 1") == [
        (date(1979, 1, 1), "AFR", "050", 3.5)
    ]


def test_a_file_of_mixed_widths_keeps_one_and_rejects_the_other(odd: Path, tmp_path: Path) -> None:
    given, result = single(tmp_path, odd / "mixed-57-and-58-columns.csv")
    assert (result.rows_in, result.accepted, result.rejected) == (710, 509, 201)
    assert rows(given, "SELECT reason, count(*) FROM rejects GROUP BY 1") == [
        ("57 columns where 58 were expected", 201)
    ]
    assert rows(given, "SELECT DISTINCT NewsDay FROM events") == [(date(2016, 7, 28),)]


def test_a_mentions_file_is_refused(odd: Path, tmp_path: Path) -> None:
    given, result = single(tmp_path, odd / "20250808181500.mentions.CSV")
    assert (result.loaded, result.succeeded) == (0, False)
    found = rows(given, "SELECT status, reason FROM ledger")
    assert found[0][0] == "rejected"
    assert "16 columns, a GDELT 2.0 mentions file" in found[0][1]


def test_rows_of_the_excerpt_and_of_georgia_are_the_same_rows(
    odd: Path, shared_data: Path, tmp_path: Path
) -> None:
    """17 ids stand in both, on the same news day: whichever comes first, the name decides."""
    given = settings_for(tmp_path / "a.duckdb", shared_data / "gdelt1-georgia")
    april = IngestRequest(since=date(2013, 4, 1), until=date(2013, 4, 2))
    ingest(given, april)
    assert (
        ingest(given, IngestRequest(files=(odd / "20130401-excerpt.export.CSV.zip",))).duplicates
        == 0
    )
    other = settings_for(tmp_path / "b.duckdb", shared_data / "gdelt1-georgia")
    ingest(other, IngestRequest(files=(odd / "20130401-excerpt.export.CSV.zip",)))
    assert ingest(other, april).duplicates == 17
    first, second = content_of(given), content_of(other)
    assert len(first["duplicates"]) == 17
    assert first == second


def test_a_list_promises_what_the_folder_does_not_have(odd: Path, tmp_path: Path) -> None:
    given = settings_for(tmp_path / "s.duckdb", odd)
    result = ingest(given, IngestRequest(since=date(2013, 3, 20), until=date(2013, 4, 3)))
    assert result.loaded == 1  # the excerpt of 2013-04-01
    assert [problem.status for problem in result.problems] == ["missing"] * 4
    assert not result.succeeded
    again = ingest(given, IngestRequest(since=date(2013, 3, 20), until=date(2013, 4, 3)))
    assert again.succeeded  # known by now


def test_what_a_run_did_can_be_kept_as_json(world: Settings) -> None:
    found = rows(world, "SELECT to_json(runs)::VARCHAR FROM runs WHERE succeeded LIMIT 1")
    assert json.loads(found[0][0])["failed"] == 0
