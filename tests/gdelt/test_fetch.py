"""Fetching from a server that fails in every way it can."""

import contextlib
import errno
import hashlib
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from gdelphi.common.errors import (
    ArchiveError,
    FetchFailed,
    FileMissing,
    FileRefused,
    SystemExhausted,
)
from gdelphi.gdelt import fetch
from gdelphi.gdelt.archive import HttpArchive
from gdelphi.gdelt.fetch import (
    LONGEST_PAUSE,
    Fetched,
    Fetcher,
)
from gdelphi.gdelt.file_names import SourceFile, parse_name
from helpers.archives import settings_for
from helpers.faulty_server import (
    ENDLESS,
    PAGE,
    Answer,
    Fault,
    FaultyServer,
    compressed,
    endless,
    hang_up,
    misplaced,
    other_bytes,
    other_length,
    page,
    prepare_clients,
    redirect,
    stall,
    status,
    trickle,
    truncate,
    whole,
)

NAME = "20130401.export.CSV.zip"
LIST = "masterfilelist.txt"
CONTENT = random.Random(1).randbytes(5000)


class Pauses(threading.Event):
    """Takes the place of a fetcher's event: notes the pauses and makes none."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.asked.append(timeout)
        return self.is_set()


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_clients(monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    with FaultyServer(folder) as server:
        yield server


@contextlib.contextmanager
def fetching(server: FaultyServer, **ingest: Any) -> Iterator[Fetcher]:
    """A fetcher for the server that notes its pauses in place of making them."""
    given = {"timeout_seconds": 10.0, "backoff_seconds": 0, "attempts": 4} | ingest
    flags = {f"ingest__{name}": value for name, value in given.items()}
    settings = settings_for(server.folder.parent / "store.duckdb", server.url, **flags)
    with contextlib.closing(Fetcher(server.url, settings.ingest)) as fetcher:
        fetcher.stop = Pauses()
        yield fetcher


@pytest.fixture
def fetcher(server: FaultyServer) -> Iterator[Fetcher]:
    with fetching(server) as fetcher:
        yield fetcher


def listed(content: bytes = CONTENT, *, size: bool = True, md5: bool = True) -> SourceFile:
    """The file as a list names it."""
    file = parse_name(NAME)
    assert file is not None
    return file.with_listing(
        size=len(content) if size else None,
        md5=hashlib.md5(content).hexdigest() if md5 else None,
    )


def ignore(size: int) -> None:
    """Nobody watches the bytes."""


def part_of(fetcher: Fetcher) -> Path:
    fetcher.folder.mkdir(parents=True, exist_ok=True)
    return fetcher.folder / f"{NAME}.part"


def pauses_of(fetcher: Fetcher) -> list[float]:
    assert isinstance(fetcher.stop, Pauses)
    return fetcher.stop.asked


def assert_whole(fetcher: Fetcher, fetched: Fetched, content: bytes = CONTENT) -> None:
    """The file has its name and its bytes, and nothing else is left of the way there."""
    assert fetched.path.name == NAME and fetcher.folder in fetched.path.parents
    assert fetched.path.read_bytes() == content
    assert (fetched.size, fetched.md5) == (len(content), hashlib.md5(content).hexdigest())
    assert not part_of(fetcher).exists()


def test_file_handles_that_are_used_up_are_not_the_servers_fault(
    server: FaultyServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used_up(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "create_connection", used_up)
    with pytest.raises(SystemExhausted, match=f"too many files are open.*{NAME}"):
        fetcher.fetch(listed(), ignore)
    assert pauses_of(fetcher) == []


# --- A healthy server


def test_a_healthy_file_comes_with_one_request(server: FaultyServer, fetcher: Fetcher) -> None:
    sizes: list[int] = []
    assert_whole(fetcher, fetcher.fetch(listed(), sizes.append))
    assert sum(sizes) == len(CONTENT)
    assert server.ranges(NAME) == [None]
    assert pauses_of(fetcher) == []


def test_threads_may_share_a_fetcher(server: FaultyServer, fetcher: Fetcher) -> None:
    contents = {f"201304{n:02}.export.CSV.zip": CONTENT[n:] for n in range(1, 13)}
    for name, content in contents.items():
        (server.folder / name).write_bytes(content)
        server.script(name, truncate(after=100))

    def fetch(name: str) -> bytes:
        file = parse_name(name)
        assert file is not None
        return fetcher.fetch(file.with_listing(size=len(contents[name])), ignore).path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert dict(zip(contents, pool.map(fetch, contents), strict=True)) == contents


# --- Resuming


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize(("length", "after"), [(5000, 1200), (700_000, 400_000)])
def test_a_file_that_broke_off_is_resumed_where_it_broke(
    server: FaultyServer, fetcher: Fetcher, length: int, after: int, known_size: bool
) -> None:
    content = random.Random(2).randbytes(length)
    (server.folder / NAME).write_bytes(content)
    server.script(NAME, truncate(after))
    fetched = fetcher.fetch(listed(content, size=known_size), ignore)
    assert_whole(fetcher, fetched, content)
    assert server.ranges(NAME) == [None, f"bytes={after}-"]


def test_a_file_may_break_off_again_and_again(server: FaultyServer, fetcher: Fetcher) -> None:
    server.script(NAME, truncate(1000), truncate(1000), truncate(1000))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == [None, "bytes=1000-", "bytes=2000-", "bytes=3000-"]


def test_what_came_before_giving_up_serves_the_next_run(server: FaultyServer) -> None:
    server.always(NAME, truncate(1000))
    with fetching(server, attempts=2) as fetcher, pytest.raises(FetchFailed, match="after 2 tries"):
        fetcher.fetch(listed(), ignore)
    server.heal()
    with fetching(server) as fetcher:
        assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == ["bytes=2000-"]


def test_a_part_that_an_earlier_process_left_is_resumed(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    part_of(fetcher).write_bytes(CONTENT[:1700])
    sizes: list[int] = []
    assert_whole(fetcher, fetcher.fetch(listed(), sizes.append))
    assert server.ranges(NAME) == ["bytes=1700-"]
    assert sum(sizes) == len(CONTENT) - 1700


def test_a_whole_part_needs_no_request(server: FaultyServer, fetcher: Fetcher) -> None:
    part_of(fetcher).write_bytes(CONTENT)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.names() == []


def test_a_whole_part_of_unknown_size_is_fetched_afresh(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    """The server answers 416, since there is nothing after the end."""
    part_of(fetcher).write_bytes(CONTENT)
    assert_whole(fetcher, fetcher.fetch(listed(size=False), ignore))
    assert server.ranges(NAME) == ["bytes=5000-", None]


@pytest.mark.parametrize("length", [1, 1700, 4999, 5000, 5001, 9000])
@pytest.mark.parametrize("known_size", [True, False])
def test_a_part_of_another_version_ends_in_the_right_content(
    fetcher: Fetcher, length: int, known_size: bool
) -> None:
    part_of(fetcher).write_bytes(random.Random(3).randbytes(length))
    assert_whole(fetcher, fetcher.fetch(listed(size=known_size), ignore))


def test_a_part_longer_than_the_listed_file_is_not_resumed(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    part_of(fetcher).write_bytes(CONTENT + b"x")
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == [None]


def test_a_server_that_ignores_ranges_gives_the_whole_file(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    server.script(NAME, truncate(1200), whole)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == [None, "bytes=1200-"]


def test_a_part_from_the_wrong_place_is_not_taken(server: FaultyServer, fetcher: Fetcher) -> None:
    server.script(NAME, truncate(1200), misplaced)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == [None, "bytes=1200-", None]


def test_a_part_that_nobody_asked_for_is_not_taken(server: FaultyServer, fetcher: Fetcher) -> None:
    server.script(NAME, misplaced)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))


# --- Trying again, or not


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_an_overburdened_server_is_asked_again(
    server: FaultyServer, fetcher: Fetcher, code: int
) -> None:
    server.script(NAME, status(code), status(code))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert pauses_of(fetcher) == [0, 0]


def test_a_connection_that_ends_without_an_answer_is_tried_again(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    server.script(NAME, hang_up)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))


@pytest.mark.parametrize("code", [429, 503])
def test_a_pause_asked_for_in_seconds_is_made(
    server: FaultyServer, fetcher: Fetcher, code: int
) -> None:
    server.script(NAME, status(code, retry_after="7"), status(code, retry_after=" 120 "))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert pauses_of(fetcher) == [7, 120]


def test_a_pause_asked_for_until_a_date_is_made(server: FaultyServer, fetcher: Fetcher) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=200)
    server.script(NAME, status(429, retry_after=format_datetime(moment, usegmt=True)))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    (pause,) = pauses_of(fetcher)
    assert 100 < pause <= 200


@pytest.mark.parametrize("asked", ["Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-5", ""])
def test_a_pause_in_the_past_or_unreadable_is_none(
    server: FaultyServer, fetcher: Fetcher, asked: str
) -> None:
    server.script(NAME, status(429, retry_after=asked))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert pauses_of(fetcher) == [0]


def test_the_usual_pause_grows_and_a_longer_one_asked_for_wins(server: FaultyServer) -> None:
    server.script(NAME, status(500), status(500), status(429, retry_after="100"))
    with fetching(server, backoff_seconds=1.5) as fetcher:
        assert_whole(fetcher, fetcher.fetch(listed(), ignore))
        first, second, third = pauses_of(fetcher)
    assert 0 <= first <= 1.5
    assert 0 <= second <= 3
    assert third == 100


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_pause_beyond_the_longest_is_left_for_the_next_run(
    server: FaultyServer, fetcher: Fetcher, form: str
) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=LONGEST_PAUSE + 1000)
    asked = "301" if form == "seconds" else format_datetime(moment, usegmt=True)
    server.script(NAME, status(429, retry_after=asked))
    with pytest.raises(FetchFailed, match=r"asks to wait \d+ s \(HTTP 429\)"):
        fetcher.fetch(listed(), ignore)
    assert pauses_of(fetcher) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("code", [404, 410])
def test_a_missing_file_is_asked_for_once(
    server: FaultyServer, fetcher: Fetcher, code: int
) -> None:
    server.script(NAME, status(code))
    with pytest.raises(FileMissing, match=f"{NAME} is not there .HTTP {code}"):
        fetcher.fetch(listed(), ignore)
    assert len(server.asked) == 1


@pytest.mark.parametrize("code", [400, 401, 403])
def test_a_refusal_is_not_argued_with(server: FaultyServer, fetcher: Fetcher, code: int) -> None:
    server.script(NAME, status(code))
    with pytest.raises(FetchFailed, match=f"{NAME} answers HTTP {code}"):
        fetcher.fetch(listed(), ignore)
    assert len(server.asked) == 1


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_failing_server_is_given_up_after_the_tries_that_are_set(
    server: FaultyServer, attempts: int
) -> None:
    server.always(NAME, status(500))
    with (
        fetching(server, attempts=attempts) as fetcher,
        pytest.raises(FetchFailed, match=f"{NAME}: HTTP 500, after {attempts} tr(y|ies)"),
    ):
        fetcher.fetch(listed(), ignore)
    assert len(server.asked) == attempts


def test_the_last_of_several_reasons_is_told(server: FaultyServer) -> None:
    server.script(NAME, status(500), hang_up, status(503))
    with (
        fetching(server, attempts=3) as fetcher,
        pytest.raises(FetchFailed, match="HTTP 503, after 3 tries"),
    ):
        fetcher.fetch(listed(), ignore)


def test_a_redirection_in_a_circle_is_a_failure_to_fetch(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    server.always(NAME, redirect)
    with pytest.raises(FetchFailed, match=NAME):
        fetcher.fetch(listed(), ignore)


def test_closing_ends_a_pause(server: FaultyServer) -> None:
    """A run that is stopped must not wait for minutes because a server asked it to."""
    pausing = threading.Event()

    class Announced(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pausing.set()
            return super().wait(timeout)

    server.always(NAME, status(503, retry_after="250"))
    with fetching(server) as fetcher, ThreadPoolExecutor(1) as pool:
        fetcher.stop = Announced()
        future = pool.submit(fetcher.fetch, listed(), ignore)
        assert pausing.wait(120)
        fetcher.close()
        with pytest.raises(FetchFailed, match=NAME):
            future.result(timeout=120)


# --- Servers that fall silent


@pytest.mark.parametrize("after", [0, 1200])
def test_a_stalled_file_is_tried_again(server: FaultyServer, after: int) -> None:
    server.script(NAME, stall(after))
    with fetching(server, timeout_seconds=2.0) as fetcher:
        assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == [None, f"bytes={after}-" if after else None]


def test_a_server_that_always_stalls_is_given_up(server: FaultyServer) -> None:
    server.always(NAME, stall(100))
    with (
        fetching(server, timeout_seconds=0.3, attempts=2) as fetcher,
        pytest.raises(FetchFailed, match=f"{NAME}: no answer in time, after 2 tries"),
    ):
        fetcher.fetch(listed(), ignore)


def test_a_trickle_counts_as_a_stall(server: FaultyServer) -> None:
    """Each byte comes in time, but the file would take hours."""
    end = threading.Event()
    server.always(NAME, trickle(end, seconds=0.02))
    with fetching(server, timeout_seconds=2.0, attempts=1) as fetcher:
        alarm = threading.Timer(60, end.set)  # so that the test ends if the stall goes unnoticed
        alarm.start()
        try:
            with pytest.raises(FetchFailed, match=f"{NAME}: stalled: .* after 1 try"):
                fetcher.fetch(listed(), ignore)
        finally:
            end.set()
            alarm.cancel()
            alarm.join()


# --- Wrong bytes


@pytest.mark.parametrize(
    "fault",
    [other_bytes, other_length(7), other_length(-7), page, endless],
    ids=lambda f: f.__name__,
)
def test_wrong_bytes_are_fetched_again(
    server: FaultyServer, fetcher: Fetcher, fault: Fault
) -> None:
    server.script(NAME, fault)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))


@pytest.mark.parametrize("known_size", [True, False])
def test_bytes_that_are_wrong_twice_are_refused_and_kept_aside(
    server: FaultyServer, fetcher: Fetcher, known_size: bool
) -> None:
    server.always(NAME, other_bytes)
    with pytest.raises(
        FileRefused, match=r"md5 .* where the list says .*, twice; kept as"
    ) as caught:
        fetcher.fetch(listed(size=known_size), ignore)
    kept = fetcher.settings.downloads / "spoiled" / NAME
    assert str(kept) in str(caught.value)
    assert kept.read_bytes() == bytes(code ^ 0xFF for code in CONTENT)
    assert not part_of(fetcher).exists()
    assert not (fetcher.folder / NAME).exists()
    assert server.ranges(NAME) == [None, None]


def test_a_file_longer_than_listed_is_refused(server: FaultyServer, fetcher: Fetcher) -> None:
    server.always(NAME, other_length(7))
    with pytest.raises(FileRefused, match="has 5,007 bytes where the list says 5,000"):
        fetcher.fetch(listed(), ignore)


def test_a_file_shorter_than_listed_is_never_taken(server: FaultyServer, fetcher: Fetcher) -> None:
    server.always(NAME, other_length(-7))
    with pytest.raises((FetchFailed, FileRefused), match=r"4,993 .* 5,000"):
        fetcher.fetch(listed(), ignore)
    assert not (fetcher.folder / NAME).exists()


def test_a_file_replaced_by_a_shorter_one_is_never_taken(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    (server.folder / NAME).write_bytes(CONTENT[:-7])
    with pytest.raises((FetchFailed, FileRefused), match=NAME):
        fetcher.fetch(listed(), ignore)
    assert not (fetcher.folder / NAME).exists()


def test_an_endless_answer_does_not_fill_the_disk(server: FaultyServer, fetcher: Fetcher) -> None:
    server.always(NAME, endless)
    with pytest.raises(FileRefused, match="where the list says 5,000"):
        fetcher.fetch(listed(), ignore)
    assert (fetcher.spoiled / NAME).stat().st_size < ENDLESS / 4


def test_a_page_in_place_of_the_file_is_refused_by_its_checksum(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    server.always(NAME, page)
    with pytest.raises(FileRefused, match=r"where the list says .*, twice"):
        fetcher.fetch(listed(size=False), ignore)
    assert (fetcher.spoiled / NAME).read_bytes() == PAGE


def test_wrong_bytes_in_the_only_try_are_refused(server: FaultyServer) -> None:
    server.script(NAME, other_bytes)
    with fetching(server, attempts=1) as fetcher, pytest.raises(FileRefused, match="has md5"):
        fetcher.fetch(listed(), ignore)


def test_a_file_without_size_or_checksum_is_taken_as_it_comes(fetcher: Fetcher) -> None:
    assert_whole(fetcher, fetcher.fetch(listed(size=False, md5=False), ignore))


# --- Files that are kept


def test_a_kept_file_is_not_fetched_again(server: FaultyServer) -> None:
    with fetching(server, keep_downloads=True) as fetcher:
        fetched = fetcher.fetch(listed(), ignore)
        fetcher.discard(fetched.path, spoiled=False)
        assert fetcher.fetch(listed(), ignore) == fetched
    assert len(server.asked) == 1


def test_a_kept_file_that_the_list_no_longer_names_is_fetched_again(server: FaultyServer) -> None:
    with fetching(server, keep_downloads=True) as fetcher:
        fetcher.fetch(listed(), ignore)
        newer = CONTENT[::-1]
        (server.folder / NAME).write_bytes(newer)
        assert_whole(fetcher, fetcher.fetch(listed(newer), ignore), newer)
    assert server.ranges(NAME) == [None, None]


def test_a_file_that_has_done_its_work_is_removed(fetcher: Fetcher) -> None:
    fetched = fetcher.fetch(listed(), ignore)
    fetcher.discard(fetched.path, spoiled=False)
    assert not [path for path in fetcher.folder.rglob("*") if path.is_file()]
    fetcher.close()
    assert list(fetcher.folder.iterdir()) == []


def test_two_sites_do_not_share_their_parts(server: FaultyServer, fetcher: Fetcher) -> None:
    with contextlib.closing(Fetcher(server.url + "mirror/", fetcher.settings)) as other:
        assert other.folder != fetcher.folder


# --- Lists


def lines(count: int) -> bytes:
    """A master list: it grows at its end."""
    rows = (
        f"{1000 + n} {n:032x} http://data.gdeltproject.org/gdeltv2/{20150218000000 + n}.zip\n"
        for n in range(count)
    )
    return "".join(rows).encode()


def test_of_a_known_master_list_only_the_end_is_fetched(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    before, after = lines(200), lines(250)
    (server.folder / LIST).write_bytes(before)
    assert fetcher.fetch_list(LIST) == before.decode()
    (server.folder / LIST).write_bytes(after)
    assert fetcher.fetch_list(LIST) == after.decode()
    assert fetcher.fetch_list(LIST) == after.decode()
    assert server.ranges(LIST) == [
        None,
        f"bytes={len(before) - 4096}-",
        f"bytes={len(after) - 4096}-",
    ]


def test_a_short_master_list_is_extended_too(server: FaultyServer, fetcher: Fetcher) -> None:
    for count in (1, 2, 80):
        (server.folder / LIST).write_bytes(lines(count))
        assert fetcher.fetch_list(LIST) == lines(count).decode()
    assert all(server.ranges(LIST)[1:])


@pytest.mark.parametrize(
    "rewritten",
    [lines(200).replace(b"gdeltproject", b"GDELTPROJECT"), lines(300)[1000:], lines(100), b""],
    ids=["other bytes", "cut at its beginning", "cut at its end", "empty"],
)
def test_a_rewritten_master_list_is_fetched_whole(
    server: FaultyServer, fetcher: Fetcher, rewritten: bytes
) -> None:
    (server.folder / LIST).write_bytes(lines(200))
    fetcher.fetch_list(LIST)
    (server.folder / LIST).write_bytes(rewritten)
    assert fetcher.fetch_list(LIST) == rewritten.decode()
    assert server.ranges(LIST)[-1] is None


@pytest.mark.parametrize(
    "fault",
    [truncate(5000), status(503), hang_up, whole, misplaced],
    ids=["breaks off", "HTTP 503", "hangs up", "ignores the range", "other place"],
)
def test_trouble_with_the_end_of_a_master_list_spoils_nothing(
    server: FaultyServer, fetcher: Fetcher, fault: Fault
) -> None:
    (server.folder / LIST).write_bytes(lines(200))
    fetcher.fetch_list(LIST)
    (server.folder / LIST).write_bytes(lines(300))
    server.script(LIST, fault)
    assert fetcher.fetch_list(LIST) == lines(300).decode()


def test_a_busy_server_does_not_cost_the_whole_master_list(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    """It is asked again for the end, after the pause that it asked for."""
    (server.folder / LIST).write_bytes(lines(200))
    fetcher.fetch_list(LIST)
    server.script(LIST, status(503, retry_after="9"))
    assert fetcher.fetch_list(LIST) == lines(200).decode()
    assert pauses_of(fetcher) == [9]
    assert None not in server.ranges(LIST)[1:]


def test_other_lists_are_fetched_whole_each_time(server: FaultyServer, fetcher: Fetcher) -> None:
    for text in ("a\n" * 5000, "a\n" * 5000 + "b\n"):
        (server.folder / "md5sums").write_text(text)
        assert fetcher.fetch_list("md5sums") == text
    assert server.ranges("md5sums") == [None, None]


def test_a_part_of_a_list_that_an_earlier_process_left_is_not_resumed(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    (server.folder / "md5sums").write_text("new\n" * 100)
    fetcher.folder.mkdir(parents=True)
    (fetcher.folder / "md5sums.part").write_text("old\n" * 50)
    assert fetcher.fetch_list("md5sums") == "new\n" * 100


def test_a_list_that_broke_off_ends_whole(server: FaultyServer, fetcher: Fetcher) -> None:
    (server.folder / LIST).write_bytes(lines(200))
    server.script(LIST, truncate(3000), status(500))
    assert fetcher.fetch_list(LIST) == lines(200).decode()


@pytest.mark.parametrize("name", ["md5sums", LIST])
def test_a_list_from_a_server_that_compresses_is_read(
    server: FaultyServer, fetcher: Fetcher, name: str
) -> None:
    (server.folder / name).write_bytes(lines(200))
    server.always(name, compressed)
    assert fetcher.fetch_list(name) == lines(200).decode()


def test_a_file_from_a_server_that_compresses_is_read(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    server.always(NAME, compressed)
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))


def test_a_list_that_the_site_does_not_have_is_none(fetcher: Fetcher) -> None:
    assert fetcher.fetch_list(LIST) is None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(status(500), "HTTP 500, after 4 tries"), (hang_up, "after 4 tries"), (status(403), "403")],
    ids=["HTTP 500", "hangs up", "HTTP 403"],
)
def test_a_site_whose_list_cannot_be_had_is_out_of_reach(
    server: FaultyServer, fetcher: Fetcher, fault: Fault, reason: str
) -> None:
    server.always(LIST, fault)
    with pytest.raises(ArchiveError, match="is out of reach") as caught:
        fetcher.fetch_list(LIST)
    message = str(caught.value)
    assert server.url in message
    assert reason in message
    assert "give a mirror or a folder" in message


# --- Several processes


def test_processes_that_fetch_the_same_file_do_not_meet(server: FaultyServer) -> None:
    """Each holds its answer until all have begun, as slow sites do; one discards it at once."""
    begun = threading.Barrier(3, timeout=60)

    def slow(answer: Answer) -> None:
        due = answer.start_file() or b""
        answer.wfile.write(due[:1000])
        begun.wait()
        answer.wfile.write(due[1000:])

    server.script(NAME, slow, slow, slow)
    with contextlib.ExitStack() as stack:
        fetchers = [stack.enter_context(fetching(server)) for _ in range(3)]
        for number, fetcher in enumerate(fetchers):
            fetcher._own = fetcher.folder / f"process-{number}"

        def bring(fetcher: Fetcher) -> bytes:
            fetched = fetcher.fetch(listed(), ignore)
            content = fetched.path.read_bytes()
            fetcher.discard(fetched.path, spoiled=False)
            return content

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(bring, fetchers)) == [CONTENT] * 3


def test_what_a_killed_process_has_left_is_taken_over(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = fetcher.folder / str(gone.pid)
    left.mkdir(parents=True)
    (left / f"{NAME}.part").write_bytes(CONTENT[:1700])
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    assert server.ranges(NAME) == ["bytes=1700-"] and not left.exists()


# --- Nothing without end, nowhere else, nothing told


def test_a_file_of_unknown_size_has_an_end(server: FaultyServer) -> None:
    server.always(NAME, endless)
    with fetching(server, max_download_gigabytes=1e-3) as fetcher:
        with pytest.raises(FileRefused, match=r"without end: more than 1,073,741 bytes"):
            fetcher.fetch(listed(size=False, md5=False), ignore)
        with pytest.raises(FileRefused, match=r"2,000,000,000 bytes by the list: more than"):
            fetcher.fetch(listed().with_listing(size=2_000_000_000), ignore)
        assert not [path for path in fetcher.folder.rglob("*") if path.is_file()]
    assert len(server.asked) == 1


@pytest.mark.parametrize("known", [b"", lines(100)])
def test_a_list_has_an_end(
    server: FaultyServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, known: bytes
) -> None:
    def endless_part(answer: Answer) -> None:
        answer.start(206, None, Content_Range=f"bytes {max(0, len(known) - 4096)}-/*")
        for _ in range(ENDLESS >> 16):
            answer.wfile.write(bytes(1 << 16))

    monkeypatch.setattr(fetch, "LARGEST_LIST", 1 << 20)
    if known:
        fetcher.folder.mkdir(parents=True)
        (fetcher.folder / LIST).write_bytes(known)
    server.always(LIST, endless_part if known else endless)
    with pytest.raises(ArchiveError, match=rf"the list {LIST} of .* more than 1,048,576 bytes"):
        fetcher.fetch_list(LIST)


def test_a_site_may_send_us_on_to_itself_and_to_nobody_else(
    server: FaultyServer, fetcher: Fetcher
) -> None:
    (server.folder / "elsewhere.zip").write_bytes(CONTENT)

    def to(target: str) -> Fault:
        return lambda answer: answer.send(302, b"", Location=target)

    server.script(NAME, to("/elsewhere.zip"))
    assert_whole(fetcher, fetcher.fetch(listed(), ignore))
    others = (
        "http://localhost:9/x", "http://169.254.169.254/secrets", "file:///etc/passwd",
        server.url.replace("127.0.0.1", "localhost"), "http://127.0.0.1:9/x",
    )  # fmt: skip
    for target in others:
        server.heal()
        fetcher.discard(fetcher._own / NAME, spoiled=False)
        server.always(NAME, to(target))
        with pytest.raises(FetchFailed, match="sends us on to another site"):
            fetcher.fetch(listed(), ignore)
        assert server.names() == [NAME], target


def test_user_password_and_signature_are_sent_and_never_told(
    server: FaultyServer, tmp_path: Path
) -> None:
    asked: list[tuple[str, str | None]] = []

    def note(answer: Answer) -> None:
        asked.append((answer.path, answer.headers.get("Authorization")))
        answer.send(200 if answer.path.startswith(f"/{NAME}") else 404, CONTENT)

    server.always("*", note)
    server.always(f"{NAME}?sig=s3cr3t%2Bkey&x=1", note)
    url = server.url.replace("://", "://reader:pa55@") + "?sig=s3cr3t%2Bkey&x=1"
    settings = settings_for(tmp_path / "s.duckdb", url, ingest__attempts=1)
    archive = HttpArchive(url, settings.ingest)
    with contextlib.closing(archive):
        assert archive.fetch(listed(), ignore).size == len(CONTENT)
        assert asked == [(f"/{NAME}?sig=s3cr3t%2Bkey&x=1", "Basic cmVhZGVyOnBhNTU=")]
        told = [archive.label]
        missing = parse_name("20130402.export.CSV.zip")
        assert missing is not None
        with pytest.raises(FileMissing) as error:
            archive.fetch(missing, ignore)
        told.append(str(error.value))
        with pytest.raises(ArchiveError) as listing:
            archive.list_files(settings.ingest)
        told.append(str(listing.value))
    assert archive.label == server.url
    assert not [text for text in told if "pa55" in text or "reader" in text or "sig" in text]


def test_the_faulty_server_closes_while_a_client_waits(tmp_path: Path) -> None:
    """A stalled request must not keep a test from ending."""
    (tmp_path / NAME).write_bytes(CONTENT)
    waiting = threading.Event()

    def stall_audibly(answer: Answer) -> None:
        waiting.set()
        stall(10)(answer)

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        server = stack.enter_context(FaultyServer(tmp_path))
        server.always(NAME, stall_audibly)
        with fetching(server, timeout_seconds=60.0, attempts=1) as fetcher:
            future = pool.submit(fetcher.fetch, listed(), ignore)
            assert waiting.wait(120)
            stack.close()
            assert isinstance(future.exception(timeout=120), FetchFailed)
