"""Texts as tables: what is not plainly a number or a date is left to the strict way."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from gdelphi.gdelt.layouts import DAILY
from gdelphi.store import text_table as module
from gdelphi.store.text_table import FileMark, OddText, PassingText, Room, read_text
from helpers.archives import event_line, event_lines, text_of

DAY = date(2014, 1, 1)
MARK = FileMark(7, DAY)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "text"
    path.write_bytes(content)
    return path


def passed(content: bytes, pool: ThreadPoolExecutor, room: Room, piece: int) -> PassingText:
    text = PassingText(*MARK, pool, room)
    for start in range(0, len(content), piece):
        text.pass_on(content[start : start + piece])
    return text


def test_a_text_becomes_its_columns_and_the_marks_of_its_file(tmp_path: Path) -> None:
    lines = [event_line(5, DAY, NumMentions="007", AvgTone="-1.5", Actor1Name="")]
    row = read_text(written(tmp_path, text_of(lines)), MARK, DAILY).to_pylist()[0]
    assert (row["GLOBALEVENTID"], row["NumMentions"], row["AvgTone"]) == (5, 7, -1.5)
    assert (row["SQLDATE"], row["Actor1Name"]) == ("20140101", None)
    assert (row["file_id"], row["file_day"]) == (7, DAY)


@pytest.mark.parametrize(
    "text", ["1e3", "0x10", "+5", "-5", " 5", "1_0", "1.5", "１", "99999999999"]
)
def test_what_is_no_row_of_digits_is_no_whole_number(tmp_path: Path, text: str) -> None:
    lines = [*event_lines([1], DAY), event_line(2, DAY, NumMentions=text)]
    with pytest.raises(OddText) as found:
        read_text(written(tmp_path, text_of(lines)), MARK, DAILY)
    assert found.value.file_id == MARK.file_id


@pytest.mark.parametrize("text", ["2014010", "201401011", "2014-1-1", "infinity"])
def test_what_has_not_the_digits_of_a_date_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(OddText):
        read_text(written(tmp_path, text_of([event_line(1, DAY, SQLDATE=text)])), MARK, DAILY)


@pytest.mark.parametrize("odd", [b"too\tfew\n", b"\xff" + b"\t" * 57 + b"\n"])
def test_a_line_that_cannot_be_read_spoils_the_table(tmp_path: Path, odd: bytes) -> None:
    content = text_of(event_lines([1], DAY)) + odd + text_of(event_lines([2], DAY))
    with pytest.raises(OddText):
        read_text(written(tmp_path, content), MARK, DAILY)


def test_a_blank_line_is_a_row_of_nothing_which_the_loader_misses(tmp_path: Path) -> None:
    content = text_of(event_lines([1], DAY)) + b"\n" + text_of(event_lines([2], DAY))
    table = read_text(written(tmp_path, content), MARK, DAILY)
    assert table["GLOBALEVENTID"].to_pylist() == [1, None, 2]
    assert table["SQLDATE"].null_count == 1


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_a_text_in_pieces_is_the_text_as_a_whole(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    content = text_of(event_lines(range(1, 30), DAY)).rstrip(b"\n")  # the last line does not end
    whole = read_text(written(tmp_path, content), MARK, DAILY)
    monkeypatch.setattr(module, "BLOCK", 1000)  # some lines
    table = passed(content, pool, Room(len(content)), piece).table(DAILY)
    assert table is not None
    assert table.num_rows == 29
    assert table.equals(whole)


def test_a_text_that_finds_no_room_is_left_and_gives_it_back(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = text_of(event_lines(range(1, 30), DAY))
    monkeypatch.setattr(module, "BLOCK", 1000)
    room = Room(len(content) - 1)
    assert passed(content, pool, room, 100).table(DAILY) is None
    assert room.take(len(content) - 1)


def test_a_text_with_a_line_longer_than_a_block_is_left(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 1000)
    content = text_of([event_line(1, DAY, SOURCEURL="x" * 2000)])
    assert passed(content, pool, Room(1 << 20), 100).table(DAILY) is None


def test_a_mark_of_byte_order_in_the_middle_is_not_skipped(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = text_of(event_lines([1], DAY))
    monkeypatch.setattr(module, "BLOCK", len(line))
    content = line + b"\xef\xbb\xbf" + line
    assert passed(content, pool, Room(1 << 20), len(line)).table(DAILY) is None
