"""Whole ingestions from a server: what fails is told, and the next run gets it."""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tenacity

from gdelphi.common.errors import ArchiveError
from gdelphi.common.progress import Silent
from gdelphi.common.sections import IngestSettings
from gdelphi.common.settings import Settings
from gdelphi.gdelt.archive import HttpArchive
from gdelphi.gdelt.layouts import QUARTER
from gdelphi.store import prepare
from gdelphi.store.connection import Store
from gdelphi.store.ingest import (
    IngestResult,
    ingest,
    plan_ingest,
)
from helpers.archives import ArchiveMaker, content_of, event_lines, settings_for
from helpers.faulty_server import (
    PAGE,
    Fault,
    FaultyServer,
    hang_up,
    misplaced,
    other_bytes,
    page,
    prepare_clients,
    stall,
    status,
    truncate,
    whole,
)

FIRST = date(2013, 4, 1)
LISTS = ["md5sums", "filesizes"]


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_clients(monkeypatch)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, noted in place of being made."""
    asked: list[float] = []
    monkeypatch.setattr(tenacity, "sleep_using_event", lambda _: asked.append)
    return asked


@pytest.fixture
def maker(tmp_path: Path) -> ArchiveMaker:
    return ArchiveMaker(tmp_path / "site")


@pytest.fixture
def server(maker: ArchiveMaker) -> Iterator[FaultyServer]:
    with FaultyServer(maker.folder) as server:
        yield server


def name_of(number: int) -> str:
    """The file of the day with this number, from 0."""
    return f"{FIRST + timedelta(days=number):%Y%m%d}.export.CSV.zip"


def make_days(maker: ArchiveMaker, count: int, rows: int = 40) -> list[str]:
    """Daily files: two bring an id of the day before again, and one a row that is no row."""
    for number in range(count):
        first = 1 + rows * number
        again = number in (1, 5)
        lines = event_lines(range(first - again, first + rows), FIRST + timedelta(number))
        maker.day(FIRST + timedelta(number), [*lines, "torn"] if number == 1 else lines)
    maker.write_lists()
    return [name_of(number) for number in range(count)]


def settings_of(folder: Path, url: str, **ingest: Any) -> Settings:
    """Settings with a store and downloads of their own below a folder."""
    given = {"backoff_seconds": 0, "attempts": 4, "timeout_seconds": 10.0} | ingest
    folder.mkdir(exist_ok=True)
    flags = {f"ingest__{name}": value for name, value in given.items()}
    return settings_for(folder / "store.duckdb", url, **flags)


def ledger_of(settings: Settings) -> dict[str, tuple[str, str | None]]:
    """Status and reason of each file."""
    with Store(settings).reading() as connection:
        rows = connection.rows("SELECT name, status, reason FROM ledger")
    return {name: (status, reason) for name, status, reason in rows}


def statuses_of(settings: Settings) -> Counter[str]:
    return Counter(status for status, _ in ledger_of(settings).values())


def last_run(settings: Settings) -> tuple[Any, ...]:
    """What the store says about its last run."""
    with Store(settings).reading() as connection:
        return connection.rows(
            "SELECT loaded, missing, rejected, failed, succeeded FROM runs "
            "ORDER BY started_at DESC LIMIT 1"
        )[0]


def left_in(settings: Settings) -> list[str]:
    """Files that wait in the download folder, but for the lists' copies."""
    found = settings.ingest.downloads.rglob("*")
    return sorted(path.name for path in found if path.is_file() and ".zip" in path.name)


def assert_like_undisturbed(settings: Settings, url: str, folder: Path) -> None:
    """The store holds what a single undisturbed run brings."""
    undisturbed = settings_of(folder / "undisturbed", url)
    assert ingest(undisturbed).succeeded
    assert content_of(settings) == content_of(undisturbed)


# --- Faults of files


@pytest.mark.slow
def test_a_run_amid_all_faults_tells_the_rest_and_the_next_run_gets_it(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer, pauses: list[float]
) -> None:
    names = make_days(maker, 16)
    permanent: Mapping[int, tuple[Fault, str, str]] = {
        1: (status(404), "missing", f"{server.url}{names[1]} is not there (HTTP 404)"),
        2: (status(500), "failed", f"{names[2]}: HTTP 500, after 4 tries"),
        3: (other_bytes, "rejected", f"{names[3]} has md5 "),
        4: (stall(50), "failed", f"{names[4]}: no answer in time, after 4 tries"),
        7: (page, "rejected", f"{names[7]} has md5 "),
        10: (status(410), "missing", f"{server.url}{names[10]} is not there (HTTP 410)"),
        12: (status(403), "failed", f"{server.url}{names[12]} answers HTTP 403"),
        14: (status(429, retry_after="86400"), "failed", "asks to wait 86400 s (HTTP 429)"),
    }
    # A page is shorter than the listed size, so it would pass for a file that broke off: here the
    # list of sizes does not know this file.
    sizes = (maker.folder / "filesizes").read_text().splitlines(keepends=True)
    (maker.folder / "filesizes").write_text("".join(sizes[:7] + sizes[8:]))
    passing: Mapping[int, tuple[Fault, ...]] = {
        5: (status(429, retry_after="3"), status(429, retry_after="4")),
        6: (truncate(200), truncate(200)),
        8: (other_bytes,),
        9: (hang_up, status(503)),
        11: (truncate(300), whole),
        13: (truncate(300), misplaced),
        15: (stall(100),),
    }
    for number, (fault, _, _) in permanent.items():
        server.always(names[number], fault)
    for number, faults in passing.items():
        server.script(names[number], *faults)
    settings = settings_of(tmp_path / "run", server.url, timeout_seconds=2.5)

    first = ingest(settings)

    assert not first.succeeded
    assert (first.loaded, first.not_tried) == (8, 0)
    assert len(first.problems) == len(permanent)
    assert last_run(settings) == (8, 2, 2, 4, False)
    ledger = ledger_of(settings)
    for number, (_, expected, words) in permanent.items():
        found, reason = ledger.pop(names[number])
        assert (found, words in str(reason)) == (expected, True), reason
    assert set(ledger.values()) == {("loaded", None)}
    assert {3.0, 4.0} <= set(pauses)
    assert {"bytes=200-", "bytes=400-"} <= set(server.ranges(names[6]))
    assert {names[3], names[7]} <= set(left_in(settings))

    server.heal()
    second = ingest(settings)

    assert second.succeeded
    assert second.loaded == len(permanent)
    assert last_run(settings) == (8, 0, 0, 0, True)
    assert set(server.names()) == {*LISTS, *(names[number] for number in permanent)}
    (rest,) = server.ranges(names[4])
    assert str(rest).startswith("bytes=")  # each stall brought some bytes
    assert_like_undisturbed(settings, server.url, tmp_path)


def test_a_second_run_asks_for_nothing_but_the_lists(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    make_days(maker, 5)
    settings = settings_of(tmp_path / "run", server.url)
    assert ingest(settings).loaded == 5
    before = content_of(settings)
    server.heal()
    result = ingest(settings)
    assert result.succeeded
    assert (result.loaded, result.plan.had) == (0, 5)
    assert server.names() == LISTS
    assert content_of(settings) == before
    assert left_in(settings) == []


def test_downloads_are_kept_where_that_is_asked(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 3)
    settings = settings_of(tmp_path / "run", server.url, keep_downloads=True)
    assert ingest(settings).succeeded
    assert left_in(settings) == names


def test_a_file_that_changed_at_the_source_is_loaded_again(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 4)
    settings = settings_of(tmp_path / "run", server.url)
    ingest(settings)
    maker.day(FIRST + timedelta(2), event_lines(range(1000, 1010), FIRST + timedelta(2)))
    maker.write_lists()
    server.heal()
    server.script(names[2], status(503), truncate(100))
    result = ingest(settings)
    assert result.succeeded
    assert (result.loaded, result.rows_in) == (1, 10)
    assert_like_undisturbed(settings, server.url, tmp_path)


def test_a_changed_file_that_cannot_be_had_leaves_the_old_rows(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 3)
    settings = settings_of(tmp_path / "run", server.url)
    ingest(settings)
    before = content_of(settings)
    maker.day(FIRST, event_lines(range(1000, 1010), FIRST))
    maker.write_lists()
    server.always(names[0], status(500))
    result = ingest(settings)
    assert not result.succeeded
    assert content_of(settings) == before
    state, reason = ledger_of(settings)[names[0]]
    assert (state, str(reason).startswith("not loaded again: ")) == ("loaded", True)


def test_a_listed_file_that_is_missing_alarms_once_and_is_loaded_when_it_appears(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 4)
    server.always(names[1], status(404))
    settings = settings_of(tmp_path / "run", server.url)
    first = ingest(settings)
    assert (first.succeeded, first.loaded) == (False, 3)
    assert [(t.name, t.status, t.is_new) for t in first.problems] == [(names[1], "missing", True)]
    second = ingest(settings)
    assert (second.succeeded, second.loaded) == (True, 0)
    assert [(t.name, t.status, t.is_new) for t in second.problems] == [(names[1], "missing", False)]
    server.heal()
    third = ingest(settings)
    assert (third.succeeded, third.loaded) == (True, 1)
    assert statuses_of(settings) == {"loaded": 4}


def test_a_file_that_fails_or_is_refused_alarms_every_time(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 4)
    server.always(names[1], status(403))
    server.always(names[2], other_bytes)
    settings = settings_of(tmp_path / "run", server.url)
    for _ in range(2):
        result = ingest(settings)
        assert not result.succeeded
        assert {t.name: t.status for t in result.problems} == {
            names[1]: "failed",
            names[2]: "rejected",
        }


def test_a_page_that_the_list_vouches_for_is_refused_kept_and_fetched_again(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    """Someone made the list from a mirror that was itself spoiled."""
    moments = [datetime(2015, 2, 18, 23, minute) for minute in (0, 15)]
    lines = [event_lines(range(n, n + 10), moments[0].date(), QUARTER) for n in (1, 11)]
    for moment, rows in zip(moments, lines, strict=True):
        maker.quarter(moment, rows)
    spoiled = maker.names[1]
    (maker.folder / spoiled).write_bytes(PAGE)
    maker.write_lists(second=True)
    settings = settings_of(tmp_path / "run", server.url)

    for _ in range(2):
        server.heal()
        result = ingest(settings)
        assert not result.succeeded
        state, reason = ledger_of(settings)[spoiled]
        kept = settings.ingest.downloads / "spoiled" / spoiled
        assert state == "rejected"
        assert f"{spoiled} is not a zip: it begins with b'<!DO'; kept as {kept}" == reason
        assert kept.read_bytes() == PAGE
        assert spoiled in server.names()

    maker.quarter(moments[1], lines[1])
    maker.write_lists(second=True)
    result = ingest(settings)
    assert (result.succeeded, result.loaded, result.accepted) == (True, 1, 10)


def test_a_name_too_long_for_a_file_is_told_and_the_others_come(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 4)
    long = f"20130405-{'x' * 300}.export.CSV.zip"
    nearly = f"20130405-{'y' * (255 - 9 - len('.export.CSV.zip'))}.export.CSV.zip"
    for list_name in LISTS:
        with (maker.folder / list_name).open("a") as stream:
            for name in (long, nearly):
                stream.write(f"{'1' * 32 if list_name == 'md5sums' else 9}  {name}\n")
    settings = settings_of(tmp_path / "run", server.url)
    result = ingest(settings)
    assert (result.loaded, result.succeeded, result.not_tried) == (4, False, 0)
    assert {each.name: each.status for each in result.problems} == {
        long: "failed",
        nearly: "failed",
    }
    ledger = ledger_of(settings)
    assert ledger[long] == ("failed", f"{long}: File name too long")
    assert [ledger[name] for name in names] == [("loaded", None)] * 4


def test_many_names_too_long_do_not_pass_for_a_server_that_died(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    make_days(maker, 4)
    with (maker.folder / "md5sums").open("a") as stream:
        for number in range(40):
            stream.write(f"{'1' * 32}  20130401-{number}-{'x' * 300}.export.CSV.zip\n")
    result = ingest(settings_of(tmp_path / "run", server.url, jobs=1))
    assert (result.loaded, len(result.problems), result.not_tried) == (4, 40, 0)


def test_a_line_of_a_list_that_cannot_be_read_is_passed_over_and_told(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    make_days(maker, 4)
    sizes = maker.folder / "filesizes"
    sizes.write_text("² 20130402.export.CSV.zip\n" + sizes.read_text())
    result = ingest(settings_of(tmp_path / "run", server.url))
    assert (result.loaded, result.succeeded, result.listing.damaged_lines) == (4, True, 1)


# --- Faults of the whole server


def test_a_server_that_is_down_is_named_with_what_to_do(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        settings = settings_of(tmp_path / "run", url)
        for run in (ingest, plan_ingest):
            with pytest.raises(ArchiveError) as caught:
                run(settings)
            message = str(caught.value)
            assert f"{url} is out of reach" in message
            assert "connection failed" in message
            assert "give a mirror or a folder: --archive FOLDER" in message
    assert not settings.store.exists()


def test_a_site_without_lists_is_no_archive(tmp_path: Path, server: FaultyServer) -> None:
    with pytest.raises(ArchiveError, match="neither md5sums nor masterfilelist"):
        ingest(settings_of(tmp_path / "run", server.url))


@pytest.mark.parametrize("text", [PAGE, b""], ids=["a page", "nothing"])
def test_lists_without_a_single_event_file_are_an_error(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer, text: bytes
) -> None:
    """A captive portal answers everything with a page: that is not "nothing new"."""
    for name in LISTS:
        (maker.folder / name).write_bytes(text)
    with pytest.raises(ArchiveError, match=server.url):
        ingest(settings_of(tmp_path / "run", server.url))


@pytest.mark.parametrize("fault", [status(500), hang_up], ids=["HTTP 500", "hangs up"])
def test_a_server_that_dies_is_left_alone_and_the_next_run_completes(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer, fault: Fault
) -> None:
    names = make_days(maker, 40, rows=3)
    for name in names[10:]:
        server.always(name, fault)
    settings = settings_of(tmp_path / "run", server.url, attempts=2)

    first = ingest(settings)

    assert not first.succeeded
    assert first.loaded == 10
    assert first.not_tried > 0
    assert len(first.problems) + first.not_tried == 30
    assert statuses_of(settings) == {
        "loaded": 10,
        "failed": len(first.problems),
        "listed": first.not_tried,
    }
    assert len(set(server.names()) - set(LISTS)) == 40 - first.not_tried

    server.heal()
    second = ingest(settings)

    assert (second.succeeded, second.loaded, second.not_tried) == (True, 30, 0)
    assert statuses_of(settings) == {"loaded": 40}
    assert set(server.names()) == {*LISTS, *names[10:]}


def test_failures_among_successes_do_not_end_a_run(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 40, rows=3)
    for name in names[::2]:
        server.always(name, status(403))
    result = ingest(settings_of(tmp_path / "run", server.url, jobs=1))
    assert (result.loaded, len(result.problems), result.not_tried) == (20, 20, 0)


def test_an_interrupted_run_does_not_sit_out_the_pauses(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Silent):
        def file_done(self, rows: int) -> None:
            raise KeyboardInterrupt

    names = make_days(maker, 4)
    server.always(names[3], status(503, retry_after="250"))
    settings = settings_of(tmp_path / "run", server.url)
    monkeypatch.setattr(prepare, "BATCH_SECONDS", 0.0)  # the first file is loaded at once
    began = datetime.now()  # noqa: DTZ005
    with pytest.raises(KeyboardInterrupt):
        ingest(settings, progress=Impatient())
    assert datetime.now() - began < timedelta(seconds=100)  # noqa: DTZ005
    server.heal()
    assert ingest(settings).succeeded
    assert_like_undisturbed(settings, server.url, tmp_path)


# --- Lists, mirrors and addresses


@pytest.mark.parametrize("place", ["", "gdeltv2"])
def test_the_second_gdelt_is_read_by_its_master_list_whatever_host_that_names(
    tmp_path: Path, place: str
) -> None:
    maker = ArchiveMaker(tmp_path / "site" / place)
    midnight = datetime(2015, 2, 18)
    for number in range(6):
        lines = event_lines(range(10 * number, 10 * number + 10), midnight.date(), QUARTER)
        maker.quarter(midnight + number * timedelta(minutes=15), lines)
    maker.write_lists(second=True)
    assert "data.gdeltproject.org" in (maker.folder / "masterfilelist.txt").read_text()
    with FaultyServer(tmp_path / "site") as server:
        server.script(f"{place}/{maker.names[2]}".lstrip("/"), truncate(99), status(500))
        settings = settings_of(tmp_path / "run", server.url + place)
        result = ingest(settings)
        assert (result.succeeded, result.loaded, result.accepted) == (True, 6, 60)
        server.heal()
        maker.quarter(
            midnight + timedelta(minutes=90), event_lines(range(60, 70), midnight.date(), QUARTER)
        )
        maker.write_lists(second=True)
        result = ingest(settings)
        assert (result.succeeded, result.loaded, result.accepted) == (True, 1, 10)
        (asked,) = server.ranges(f"{place}/masterfilelist.txt".lstrip("/"))
        assert str(asked).startswith("bytes=")
    folder = settings_of(tmp_path / "folder", str(maker.folder))
    assert ingest(folder).succeeded
    assert content_of(settings) == content_of(folder)


def test_a_mirror_of_what_is_known_brings_nothing(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    make_days(maker, 5)
    assert ingest(settings_of(tmp_path / "run", server.url)).loaded == 5
    with FaultyServer(maker.folder) as mirror:
        settings = settings_of(tmp_path / "run", mirror.url)
        before = content_of(settings)
        result = ingest(settings)
        assert mirror.names() == LISTS
    assert result.succeeded
    assert (result.loaded, result.plan.had) == (0, 5)
    assert content_of(settings) == before


def test_a_mirror_carries_on_where_the_first_site_failed(
    tmp_path: Path, maker: ArchiveMaker, server: FaultyServer
) -> None:
    names = make_days(maker, 6)
    for name in names[3:]:
        server.always(name, status(403))
    first = ingest(settings_of(tmp_path / "run", server.url, label="events"))
    assert (first.succeeded, first.loaded) == (False, 3)
    with FaultyServer(maker.folder) as mirror:
        settings = settings_of(tmp_path / "run", mirror.url, label="events")
        second = ingest(settings)
        assert sorted(set(mirror.names()) - set(LISTS)) == names[3:]
    assert (second.succeeded, second.loaded) == (True, 3)
    assert statuses_of(settings) == {"loaded": 6}


def test_only_the_host_of_an_address_loses_its_capitals() -> None:
    with contextlib.closing(
        HttpArchive("HTTP://Reader:Secret@Mirror.EXAMPLE/Events", IngestSettings())
    ) as archive:
        assert archive.url == "http://Reader:Secret@mirror.example/Events/"


def test_a_real_archive_comes_whole_through_faults(
    tmp_path: Path, shared_data: Path, pauses: list[float]
) -> None:
    folder = shared_data / "gdelt1-georgia"
    names = sorted(path.name for path in folder.glob("*.zip"))
    with FaultyServer(folder) as server:
        for name in names[::3]:
            server.script(name, truncate(300), status(503, retry_after="30"), truncate(20))
        for name in names[1::7]:
            server.script(name, other_bytes)
        server.always(names[4], status(500))
        server.always(names[40], other_bytes)
        settings = settings_of(tmp_path / "run", server.url, attempts=6)
        first = ingest(settings)
        assert {t.name: t.status for t in first.problems} == {
            names[4]: "failed",
            names[40]: "rejected",
        }
        server.heal()
        second: IngestResult = ingest(settings)
    assert second.succeeded
    assert (first.loaded, second.loaded) == (len(names) - 2, 2)
    assert 30.0 in pauses
    with Store(settings).reading() as connection:
        assert connection.value("SELECT count(*) FROM events") == 105_438
