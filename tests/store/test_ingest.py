"""Runs: which days, what is done again, what is said at the end."""

import errno
import os
import random
import struct
import zipfile
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.errors import ConfigError, SystemExhausted
from gdelphi.common.sections import IngestSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt import unpack as unpack_module
from gdelphi.gdelt.archive import FolderArchive, Listing
from gdelphi.gdelt.fetch import Fetched
from gdelphi.gdelt.file_names import SourceFile
from gdelphi.store.ingest import (
    IngestRequest,
    IngestResult,
    ingest,
    plan_ingest,
)
from gdelphi.store.plan import choose_window
from helpers.archives import ArchiveMaker, content_of, event_lines, rows, settings_for

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
    result = ingest(given, IngestRequest(since=date(2014, 1, 8), until=date(2014, 1, 10)))
    assert (result.loaded, result.accepted, result.plan.outside) == (3, 30, 7)
    days = rows(given, "SELECT min(NewsDay), max(NewsDay) FROM events")
    assert days == [(date(2014, 1, 8), date(2014, 1, 10))]


def test_without_since_it_goes_on_from_the_last_day(maker: ArchiveMaker) -> None:
    given = settings_of(maker)
    ingest(given, IngestRequest(until=date(2014, 1, 8)))
    result = ingest(given)
    assert (result.loaded, result.plan.had) == (7, 3)
    assert result.plan.window.chosen.startswith("from the last day in the store")


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
    ingest(given, IngestRequest(since=date(2014, 1, 10)))
    assert ingest(given).loaded == 0
    assert ingest(given, IngestRequest(since=START)).loaded == 4


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
    result = ingest(given, IngestRequest(since=START, force=True))
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
    result = plan_ingest(given, IngestRequest(since=date(2014, 1, 8)))
    assert len(result.plan.tasks) == 8
    assert not given.store.exists()
    ingest(given, IngestRequest(until=date(2014, 1, 8)))
    before = given.store.read_bytes()
    assert len(plan_ingest(given).plan.tasks) == 7
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
        ingest(settings_of(maker), IngestRequest(since=date(2014, 1, 9), until=date(2014, 1, 8)))


def listing_of(days: int, size: int) -> Listing:
    listing = Listing()
    for number in range(days):
        listing.add(f"{START + timedelta(days=number):%Y%m%d}.export.CSV.zip", size=size)
    return listing


def test_a_small_archive_is_taken_whole_and_the_end_of_a_large_one() -> None:
    plain = IngestSettings(default_days=30)
    small = choose_window(listing_of(100, 1000), plain, since=None, until=None, loaded=None)
    assert small.since is None
    large = choose_window(listing_of(100, 10**9), plain, since=None, until=None, loaded=None)
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


@pytest.mark.slow
def test_many_small_runs_are_merged_when_it_is_due(
    maker: ArchiveMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdelphi.store.ingest.SMALL_RUNS", 6)
    given = settings_of(maker)
    pieces = []
    for number in range(8):
        day = START + timedelta(days=number)
        ingest(given, IngestRequest(since=day, until=day))
        pieces.append(row_groups(given))
    assert pieces == [1, 2, 3, 4, 5, 1, 2, 3]
    assert rows(given, "SELECT count(*) FROM events") == [(80,)]


# One bad file is its own problem.


def statuses_by_name(result: IngestResult) -> dict[str, str]:
    return {each.name: each.status for each in result.problems}


def test_a_listed_name_too_long_for_a_file_is_told_and_the_others_come(
    maker: ArchiveMaker,
) -> None:
    long = f"20140110-{'x' * 300}.export.CSV.zip"
    with (maker.folder / "md5sums").open("a") as stream:
        stream.write(f"{'1' * 32}  {long}\n")
    given = settings_of(maker)
    for _ in range(2):
        result = ingest(given, IngestRequest(since=START))
        assert not result.succeeded
        assert list(statuses_by_name(result)) == [long]
    assert rows(given, "SELECT count(*) FROM events") == [(100,)]
    ((reason,),) = rows(given, "SELECT reason FROM ledger WHERE status <> 'loaded'")
    assert reason == f"{long}: File name too long"


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, None],
)
@pytest.mark.parametrize("place", [(FolderArchive, "fetch"), (unpack_module, "_copy")])
def test_a_system_that_is_full_or_exhausted_ends_the_run_in_one_line(
    maker: ArchiveMaker,
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[Any, str],
    number: int | None,
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError if number is None else OSError(number, os.strerror(number), "/a/place")

    given = settings_of(maker)
    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        with pytest.raises(SystemExhausted, match=r"export\.CSV\.zip") as caught:
            ingest(given)
    assert "\n" not in str(caught.value)
    assert rows(given, "SELECT DISTINCT status FROM ledger") == [("listed",)]
    assert ingest(given).loaded == 10


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EINVAL, errno.ENAMETOOLONG])
def test_any_other_error_is_that_of_its_file(
    maker: ArchiveMaker, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fetch = FolderArchive.fetch

    def fail(self: FolderArchive, file: SourceFile, on_bytes: Callable[[int], None]) -> Fetched:
        if file.name == maker.names[4]:
            raise OSError(number, os.strerror(number))
        return fetch(self, file, on_bytes)

    monkeypatch.setattr(FolderArchive, "fetch", fail)
    result = ingest(settings_of(maker))
    assert (result.loaded, result.succeeded) == (9, False)
    assert statuses_by_name(result) == {maker.names[4]: "failed"}
    assert result.problems[0].reason == f"{maker.names[4]}: {os.strerror(number)}"


METHODS = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def sound_zip(rng: random.Random, path: Path, member: str, content: bytes) -> bytearray:
    """A zip of any method, some with the fields of large files and some with odd names."""
    method = rng.choice(METHODS)
    if rng.random() < 0.1:
        member = rng.choice(["../" + member, "x" * 300, "", "\u00e9" + member, member + "/"])
    with zipfile.ZipFile(path, "w", method) as archive:
        with archive.open(member, "w", force_zip64=rng.random() < 0.3) as stream:
            stream.write(content)
        if rng.random() < 0.1:
            archive.comment = rng.randbytes(50)
    return bytearray(path.read_bytes())


def flip(rng: random.Random, content: bytearray, places: range) -> None:
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        content[rng.choice(places)] ^= 1 << rng.randrange(8)


def spoil(rng: random.Random, content: bytearray) -> None:
    """One of many kinds of damage; some of them hurt nothing."""
    size = len(content)
    central, end = content.rindex(b"PK\x01\x02"), content.rindex(b"PK\x05\x06")
    kind = rng.randrange(10)
    if kind == 0:
        flip(rng, content, range(size))
    elif kind == 1:
        flip(rng, content, range(end, size))
    elif kind == 2:
        flip(rng, content, range(central, end))
    elif kind == 3:
        flip(rng, content, range(min(80, size)))
    elif kind == 4:
        del content[rng.randrange(size) :]
    elif kind == 5:
        del content[(start := rng.randrange(size)) : start + rng.randrange(1, 60)]
    elif kind == 6:  # encrypted, or other flags
        struct.pack_into("<H", content, central + 8, 1 << rng.randrange(16))
    elif kind == 7:  # another method
        struct.pack_into("<H", content, central + 10, rng.choice([0, 8, 9, 12, 14, 93, 99]))
    elif kind == 8:  # absurd sizes: packed, unpacked, of names, or the member's place
        field, width = rng.choice(
            [(20, "I"), (24, "I"), (28, "H"), (30, "H"), (32, "H"), (42, "I")]
        )
        value = rng.choice([0, 1, 0x7FFF, (1 << 8 * struct.calcsize("<" + width)) - 1])
        struct.pack_into("<" + width, content, central + field, value)
    else:  # the directory's size and place, or the number of members
        field, width = rng.choice([(8, "H"), (10, "H"), (12, "I"), (16, "I"), (20, "H")])
        struct.pack_into("<" + width, content, end + field, rng.randrange(1 << 16))


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
def test_a_spoiled_zip_is_loaded_right_or_refused_by_name(tmp_path: Path, listed: bool) -> None:
    """150 spoiled zips between sound ones; a list may vouch for them as they are."""
    rng = random.Random(20140106 + listed)
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(165):
        add_day(maker, number)
    sound = settings_for(tmp_path / "sound.duckdb", maker.folder)
    assert ingest(sound).loaded == 165
    for number, name in enumerate(maker.names):
        if number % 11:
            path, member = maker.folder / name, name.removesuffix(".zip")
            with zipfile.ZipFile(path) as archive:
                lines = archive.read(member)
            content = sound_zip(rng, path, member, lines)
            spoil(rng, content)
            path.write_bytes(content)
    if listed:
        maker.write_lists()
    given = settings_of(maker)

    result = ingest(given)

    refused = statuses_by_name(result)
    assert (result.loaded + len(refused), result.not_tried) == (165, 0)
    assert set(refused.values()) == {"rejected"}
    assert not set(refused) & set(maker.names[::11])
    assert 50 < len(refused) < 150  # the damage is real, and some of it hurts nothing
    assert all(each.reason.startswith(each.name) for each in result.problems)
    assert all(len(each.reason) < 1000 for each in result.problems)
    expected = [row for row in content_of(sound)["events"] if row[-1] not in refused]
    assert content_of(given)["events"] == expected
    assert rows(given, "SELECT count(*) FROM rejects") == [(0,)]
