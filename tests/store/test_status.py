"""The state of the store: gaps told apart, volumes judged, an alarm when it is due."""

import random
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from gdelphi.common.files import text_digest
from gdelphi.common.sections import StatusSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt.layouts import QUARTER
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestRequest, ingest
from gdelphi.store.status import (
    DayStatus,
    complete_days,
    data_fingerprint,
    odd_volumes,
    read_days,
    read_status,
)
from helpers.archives import ArchiveMaker, event_line, event_lines, rows, settings_for

START = date(2014, 1, 6)


def days_after(number: int) -> date:
    return START + timedelta(days=number)


@pytest.fixture
def maker(tmp_path: Path) -> ArchiveMaker:
    """Ten days; the fourth is missing, the sixth is empty, the eighth is spoiled."""
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(10):
        day = days_after(number)
        lines = event_lines(range(100 * number + 1, 100 * number + 11), day)
        maker.day(day, [] if number == 5 else lines)
    missing = f"{days_after(3):%Y%m%d}.export.CSV.zip"
    (maker.folder / missing).unlink()
    maker.names.remove(missing)
    maker.write_lists()
    (maker.folder / f"{days_after(7):%Y%m%d}.export.CSV.zip").write_bytes(b"PK spoiled")
    return maker


def settings_of(maker: ArchiveMaker) -> Settings:
    return settings_for(maker.folder.parent / "s.duckdb", maker.folder)


def test_missing_empty_and_rejected_days_are_told_apart(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    assert not ingest(given).succeeded
    status = read_status(given, days_after(10))
    assert status.days_by_state == {"empty": 1, "missing": 1, "present": 7, "rejected": 1}
    assert [(gap.first, gap.last, gap.state) for gap in status.gaps] == [
        (days_after(3), days_after(3), "missing"),
        (days_after(7), days_after(7), "rejected"),
    ]
    assert status.gaps[1].reason is not None
    assert "bytes where the list says" in status.gaps[1].reason
    assert status.files_by_status == {"loaded": 8, "missing": 1, "rejected": 1}
    assert (status.incomplete, status.stale, status.alarming) == (True, False, True)
    assert (status.first_day, status.last_day) == (START, days_after(9))
    assert status.latest_complete_day == days_after(9)
    with Store(given).reading() as connection:
        complete = complete_days(read_days(connection), days_after(10))
    assert complete == [days_after(number) for number in range(10) if number not in (3, 7)]
    around = [days_after(number) for number in range(-2, 13)]
    assert [day for day in around if status.is_complete(day)] == complete
    assert status.last_run is not None
    assert status.last_successful_run is None


def test_all_is_well_when_only_the_source_lacks_something(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    maker.day(days_after(7), event_lines(range(701, 711), days_after(7)))
    maker.write_lists()
    ingest(given)
    status = read_status(given, days_after(10))
    assert not status.alarming
    assert status.last_successful_run is not None
    assert status.rows == 80


def test_a_store_grows_stale(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given)
    assert not read_status(given, days_after(11)).stale
    assert read_status(given, days_after(12)).stale


def test_days_that_no_run_was_about_were_never_tried(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given, IngestRequest(since=START, until=days_after(1)))
    ingest(given, IngestRequest(since=days_after(8), until=days_after(9)))
    status = read_status(given, days_after(10))
    assert [(gap.first, gap.last, gap.state) for gap in status.gaps] == [
        (days_after(2), days_after(7), "never tried")
    ]
    assert status.incomplete


def test_files_that_a_killed_run_owed_were_never_tried(
    maker: ArchiveMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings_of(maker)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gdelphi.store.prepare.Preparation.deliver", killed)
        with pytest.raises(KeyboardInterrupt):
            ingest(given)
    status = read_status(given, days_after(10))
    assert status.days_by_state == {"missing": 1, "never tried": 9}
    assert status.latest_complete_day is None
    assert status.last_run is not None
    assert status.last_run["finished_at"] is None
    assert status.alarming


def test_the_day_in_progress_is_not_complete(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for number, hour in ((0, 0), (0, 6), (1, 0)):
        moment = datetime(2014, 1, 6 + number, hour)
        ids = range(100 * number + 10 * hour + 1, 100 * number + 10 * hour + 5)
        maker.quarter(moment, event_lines(ids, moment.date(), QUARTER))
    maker.write_lists(second=True)
    given = settings_of(maker)
    ingest(given)
    assert read_status(given, days_after(1)).latest_complete_day == START
    assert read_status(given, days_after(2)).latest_complete_day == days_after(1)
    states = [gap.state for gap in read_status(given, days_after(1)).gaps]
    assert states == ["partial"]  # 94 quarter hours of the first day are in no list


def volumes(*rows: int) -> list[DayStatus]:
    return [
        DayStatus(days_after(i), n, "present", complete=True, loaded=1) for i, n in enumerate(rows)
    ]


def odd(days: list[DayStatus]) -> list[date]:
    return [each.day for each in odd_volumes(days, StatusSettings())]


def test_files_whose_dates_are_phrases_are_counted(tmp_path: Path) -> None:
    """A file of "yesterday", "last week" and "last year" alone has no dates to speak of."""
    maker = ArchiveMaker(tmp_path / "archive")
    backs = {0: (0, 1, 7, 365), 1: (0, 1, 2), 2: (0, 0)}  # phrases, a real date, all of the day
    for number, days_back in backs.items():
        day = days_after(number)
        dates = [f"{day - timedelta(days=back):%Y%m%d}" for back in days_back]
        first = 100 * number + 1
        maker.day(day, [event_line(first + at, day, SQLDATE=on) for at, on in enumerate(dates)])
    maker.write_lists()
    settings = settings_of(maker)
    ingest(settings)
    assert read_status(settings).phrase_dated_files == 1
    query = "SELECT NewsDay, rows, other_days FROM phrase_dates"
    assert rows(settings, query) == [(days_after(0), 4, 3)]


def test_a_weekend_is_not_odd_but_half_a_day_is() -> None:
    week = [1000, 1040, 980, 1010, 990, 600, 610]
    usual = volumes(*week * 6)
    assert odd(usual) == []
    assert odd(volumes(*week * 6, 450)) == [days_after(42)]
    assert odd(volumes(*week * 6, 2100)) == [days_after(42)]
    assert odd(volumes(*week * 6, 700)) == []
    assert odd(volumes(*week * 6, 0)) == [days_after(42)]


def test_a_quiet_streams_noise_is_not_odd() -> None:
    rng = random.Random(3)
    noisy = [round(rng.expovariate(1 / 6)) for _ in range(200)]
    assert odd(volumes(*noisy)) == []


def test_too_short_a_past_gives_no_judgement() -> None:
    assert odd(volumes(*[1000] * 13, 1)) == []
    assert odd(volumes(*[1000] * 14, 1)) == [days_after(14)]


def test_equal_stores_have_equal_fingerprints(maker: ArchiveMaker, tmp_path: Path) -> None:
    given = settings_of(maker)
    ingest(given)
    other = settings_for(tmp_path / "other.duckdb", maker.folder)
    ingest(other)
    before = read_status(given).fingerprint
    assert read_status(other).fingerprint == before
    maker.day(days_after(9), event_lines([999], days_after(9)))
    maker.write_lists()
    ingest(other)
    assert read_status(other).fingerprint != before


def test_the_fingerprint_is_that_of_the_rows_as_python_writes_them(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(3):
        day = date(2014, 1, 1) + timedelta(days=number)
        maker.day(day, event_lines(range(10 * number, 10 * number + 9), day))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    written = "SELECT name, md5, accepted, rejected, duplicates FROM ledger ORDER BY ALL"
    for change in ("md5 = NULL", "md5 = 'x'", "name = 'it''s \\ odd'"):
        with Store(given).writing() as connection:
            before = text_digest("".join(map(repr, connection.rows(written))))
            assert data_fingerprint(connection) == before
            connection.rows(f"UPDATE ledger SET {change} WHERE name LIKE '20140102%'")
            after = text_digest("".join(map(repr, connection.rows(written))))
            assert data_fingerprint(connection) == after != before
