"""Runs: which days, what is done again, what is said at the end."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gdelphi.config import IngestSettings, Settings
from gdelphi.errors import ConfigError
from gdelphi.events.ingest import Request, ingest, rehearse
from gdelphi.events.plan import choose_window
from gdelphi.gdelt.archive import Listing
from making import ArchiveMaker, event_lines, rows, settings_for

START = date(2014, 1, 6)


@pytest.fixture
def maker(tmp_path: Path) -> ArchiveMaker:
    """Ten days of ten rows."""
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(10):
        add_day(maker, number)
    maker.write_lists()
    return maker


def add_day(maker: ArchiveMaker, number: int, rows: int = 10) -> None:
    day = START + timedelta(days=number)
    maker.day(day, event_lines(range(100 * number + 1, 100 * number + 1 + rows), day))


def settings_of(maker: ArchiveMaker, **flags: Any) -> Settings:
    return settings_for(maker.folder.parent / "s.duckdb", maker.folder, **flags)


def test_the_window_takes_the_files_that_overlap_it(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    result = ingest(given, Request(since=date(2014, 1, 8), until=date(2014, 1, 10)))
    assert (result.loaded, result.accepted, result.plan.outside) == (3, 30, 7)
    days = rows(given, "SELECT min(NewsDay), max(NewsDay) FROM events")
    assert days == [(date(2014, 1, 8), date(2014, 1, 10))]


def test_without_since_it_goes_on_from_the_last_day(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given, Request(until=date(2014, 1, 8)))
    result = ingest(given)
    assert (result.loaded, result.plan.had) == (7, 3)
    assert result.plan.window.chosen == "from the last day in the store"


def test_without_since_what_is_owed_from_before_is_made_good(maker: ArchiveMaker) -> None:
    """A file that was spoiled early on comes in later, though its day lies before the last one."""
    given = settings_of(maker)
    spoiled = maker.folder / "20140108.export.CSV.zip"
    content = spoiled.read_bytes()
    spoiled.write_bytes(content[:50])
    first = ingest(given)
    assert (first.loaded, first.succeeded) == (9, False)
    spoiled.write_bytes(content)
    second = ingest(given)
    assert (second.loaded, second.succeeded) == (1, True)
    assert second.plan.reasons == {"rejected before": 1}
    assert rows(given, "SELECT status, reason, tries FROM ledger WHERE name LIKE '20140108%'") == [
        ("loaded", None, 2)
    ]


def test_days_before_the_first_are_not_taken_unasked(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given, Request(since=date(2014, 1, 10)))
    assert ingest(given).loaded == 0
    assert ingest(given, Request(since=START)).loaded == 4


def test_a_file_that_changed_at_the_source_is_loaded_again(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given)
    add_day(maker, 2, rows=7)
    maker.write_lists()
    result = ingest(given)
    assert result.plan.reasons == {"changed at source": 1}
    assert rows(given, "SELECT count(*) FROM events") == [(97,)]


def test_without_lists_a_change_is_seen_by_size_and_time(maker: ArchiveMaker) -> None:
    for name in ("md5sums", "filesizes"):
        (maker.folder / name).unlink()
    given = settings_of(maker)
    ingest(given)
    assert ingest(given).loaded == 0
    add_day(maker, 2, rows=7)
    assert ingest(given).loaded == 1
    assert rows(given, "SELECT count(*) FROM events") == [(97,)]


def test_a_reload_that_fails_keeps_what_was_there(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given)
    (maker.folder / "20140108.export.CSV.zip").write_bytes(b"PK")
    result = ingest(given, Request(since=START, force=True))
    assert (result.loaded, result.succeeded) == (9, False)
    assert rows(given, "SELECT count(*) FROM events") == [(100,)]
    status, reason = rows(given, "SELECT status, reason FROM ledger WHERE name LIKE '20140108%'")[0]
    assert status == "loaded"
    assert reason.startswith("not loaded again: ")


def test_a_moved_archive_is_recognised_by_its_checksums(
    maker: ArchiveMaker, tmp_path: Path
) -> None:
    given = settings_of(maker)
    ingest(given)
    moved = maker.folder.rename(tmp_path / "elsewhere")
    result = ingest(settings_for(given.store, moved))
    assert (result.loaded, result.plan.had) == (0, 10)


def test_a_label_lets_a_mirror_take_an_archives_place(maker: ArchiveMaker, tmp_path: Path) -> None:
    given = settings_of(maker, ingest__label="mine")
    ingest(given)
    maker.folder.rename(tmp_path / "elsewhere")
    mirror = ArchiveMaker(tmp_path / "elsewhere", maker.names)
    add_day(mirror, 2, rows=7)
    mirror.write_lists()
    moved = settings_for(given.store, mirror.folder, ingest__label="mine")
    assert ingest(moved).plan.reasons == {"changed at source": 1}
    assert rows(given, "SELECT count(*) FROM events") == [(97,)]


def test_a_rehearsal_says_all_and_does_nothing(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    result = rehearse(given, Request(since=date(2014, 1, 8)))
    assert len(result.plan.tasks) == 8
    assert not given.store.exists()
    ingest(given, Request(until=date(2014, 1, 8)))
    before = given.store.read_bytes()
    assert len(rehearse(given).plan.tasks) == 7
    assert given.store.read_bytes() == before


def test_translated_files_are_events_too(tmp_path: Path) -> None:
    from gdelphi.gdelt.layouts import QUARTER

    maker = ArchiveMaker(tmp_path / "archive")
    stem = "20190121220000.translation.export.CSV"
    maker.add(f"{stem}.zip", stem, event_lines([1, 2], date(2019, 1, 21), QUARTER))
    given = settings_of(maker)
    assert ingest(given).loaded == 0
    assert ingest(settings_of(maker, ingest__translated=True)).accepted == 2
    assert rows(given, "SELECT kind, accepted FROM ledger WHERE status = 'loaded'") == [
        ("translated", 2)
    ]


def test_days_the_wrong_way_round_are_refused(maker: ArchiveMaker) -> None:
    with pytest.raises(ConfigError, match="is after --until"):
        ingest(settings_of(maker), Request(since=date(2014, 1, 9), until=date(2014, 1, 8)))


def listing_of(days: int, size: int) -> Listing:
    listing = Listing()
    for number in range(days):
        listing.add(f"{START + timedelta(days=number):%Y%m%d}.export.CSV.zip", size=size)
    return listing


def test_a_small_archive_is_taken_whole_and_the_end_of_a_large_one() -> None:
    plain = IngestSettings(default_days=30)
    small = choose_window(listing_of(100, 1000), plain, since=None, until=None, last_day=None)
    assert small.since is None
    large = choose_window(listing_of(100, 10**9), plain, since=None, until=None, last_day=None)
    assert large.since == START + timedelta(days=70)
    assert "last 30 days" in large.chosen


def test_every_run_is_on_record(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given)
    ingest(given)
    found = rows(given, "SELECT planned, loaded, accepted, succeeded FROM runs ORDER BY started_at")
    assert found == [(10, 10, 100, True), (0, 0, 0, True)]


def row_groups(given: Settings) -> int:
    sql = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('events')"
    number: int = rows(given, sql)[0][0]
    return number


def test_many_small_runs_are_merged_when_it_is_due(
    maker: ArchiveMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.events.ingest.SMALL_RUNS", 6)
    given = settings_of(maker)
    pieces = []
    for number in range(8):
        day = START + timedelta(days=number)
        ingest(given, Request(since=day, until=day))
        pieces.append(row_groups(given))
    assert pieces == [1, 2, 3, 4, 5, 1, 2, 3]
    assert rows(given, "SELECT count(*) FROM events") == [(80,)]
