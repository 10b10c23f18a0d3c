"""Unpacking: a zip is not trusted, and what passes is noticed."""

import errno
import struct
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from gdelphi.common.errors import FileRefused, SystemExhausted
from gdelphi.gdelt import unpack as module
from gdelphi.gdelt.file_names import open_file
from gdelphi.gdelt.layouts import (
    BACKFILE,
    DAILY,
    QUARTER,
    REDUCED,
    Layout,
)
from gdelphi.gdelt.unpack import (
    UnpackedFile,
    layout_of,
    unpack,
)
from helpers.archives import DAY_FILE, event_lines, text_of, write_zip

MEMBER = "20140101.export.CSV"
DAY = date(2014, 1, 1)
MOST = 1 << 30


def zipped(tmp_path: Path, members: dict[str, bytes]) -> Path:
    return write_zip(tmp_path / DAY_FILE.name, members)


def read(tmp_path: Path, content: bytes) -> UnpackedFile:
    return unpack(zipped(tmp_path, {MEMBER: content}), DAY_FILE, tmp_path, most=MOST)


def test_the_text_comes_out_whole_with_its_lines_counted(tmp_path: Path) -> None:
    content = text_of(event_lines(range(1, 4), DAY))
    text = read(tmp_path, content)
    assert text.path.read_bytes() == content
    assert (text.lines, text.size, text.plain, text.spaced) == (3, len(content), True, False)
    text.remove()
    assert not text.path.exists()


@pytest.mark.parametrize(
    ("content", "lines", "plain", "spaced"),
    [
        (b"", 0, True, False),
        (b"a\tb", 1, True, False),
        (b"a\tb\n\n", 2, True, False),
        (b"a\tb\r\n", 1, False, False),
        (b"a\0\tb\n", 1, False, False),
        (b"a\t b\n", 1, True, True),
        (b"a \tb\n", 1, True, True),
        (b"a\tb \n", 1, True, True),
        (b" a\tb\n", 1, True, True),
        (b"a\tb c\n", 1, True, False),
        (b"a\tb ", 1, True, True),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 1 << 20])
def test_what_needs_care_is_noticed_wherever_the_pieces_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    lines: int,
    plain: bool,
    spaced: bool,
    piece: int,
) -> None:
    monkeypatch.setattr(module, "CHUNK", piece)
    text = read(tmp_path, content)
    assert (text.lines, text.plain, text.spaced) == (lines, plain, spaced)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {MEMBER: b"x", "20140102.export.CSV": b"x"},
        {"../" + MEMBER: b"x"},
        {"/etc/passwd": b"x"},
        {"folder/" + MEMBER: b"x"},
        {"20140102.export.CSV": b"x"},
    ],
    ids=["none", "two", "escape", "absolute", "folder", "other day"],
)
def test_exactly_one_member_of_the_expected_name(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(FileRefused, match="member"):
        unpack(zipped(tmp_path, members), DAY_FILE, tmp_path, most=MOST)
    assert sorted(path.name for path in tmp_path.iterdir()) == [DAY_FILE.name]


def test_a_bomb_meets_the_cap_and_leaves_nothing(tmp_path: Path) -> None:
    path = zipped(tmp_path, {MEMBER: b"0" * 50_000_000})
    with pytest.raises(FileRefused, match="damaged or hostile"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    assert list(tmp_path.glob("*.txt")) == []


def test_the_header_of_a_zip_may_lie_about_the_size(tmp_path: Path) -> None:
    """The cap counts what really comes out: the claimed size is set to 10 bytes."""
    path = zipped(tmp_path, {MEMBER: b"0123456789" * 5_000_000})
    content = bytearray(path.read_bytes())
    central = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, central + 24, 10)
    path.write_bytes(content)
    with pytest.raises(FileRefused):
        unpack(path, DAY_FILE, tmp_path, most=MOST)


def test_the_cap_can_be_set(tmp_path: Path) -> None:
    path = zipped(tmp_path, {MEMBER: b"abc\n" * 1000})
    with pytest.raises(FileRefused, match="more than 100 bytes"):
        unpack(path, DAY_FILE, tmp_path, most=100)


def test_truncated_damaged_and_foreign_files_are_told(tmp_path: Path) -> None:
    path = zipped(tmp_path, {MEMBER: text_of(event_lines(range(1, 400), DAY))})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileRefused, match="damaged zip"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    with pytest.raises(FileRefused, match="damaged zip"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(FileRefused, match="is not a zip"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    assert list(tmp_path.glob("*.txt")) == []


def test_a_flipped_bit_in_the_end_record_is_damage(tmp_path: Path) -> None:
    """The member then seems to lie before the file's start, where the system will not seek."""
    path = zipped(tmp_path, {MEMBER: text_of(event_lines(range(1, 40), DAY))})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x05\x06") + 17] ^= 1  # of the directory's place: 256 bytes off
    path.write_bytes(content)
    with pytest.raises(FileRefused, match=f"{DAY_FILE.name} is a damaged zip: Invalid argument"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    assert list(tmp_path.glob("*.txt")) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_STORED])
def test_other_methods_are_read_and_their_damage_told(tmp_path: Path, method: int) -> None:
    path = tmp_path / DAY_FILE.name
    lines = text_of(event_lines(range(1, 400), DAY))
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(MEMBER, lines)
    assert unpack(path, DAY_FILE, tmp_path, most=MOST).path.read_bytes() == lines
    content = bytearray(path.read_bytes())
    for place in range(100, 3000, 50):
        content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileRefused, match=f"{DAY_FILE.name} is a damaged zip"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    assert list(tmp_path.glob("*.txt")) == []


def test_a_zip_that_asks_for_all_memory_is_refused_and_exhausted_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LZMA takes as much memory as the file says: then its lack is no sign of the system's."""
    path = tmp_path / DAY_FILE.name

    def no_memory(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(zipfile.ZipExtFile, "read", no_memory)
    for method, expected in (
        (zipfile.ZIP_LZMA, FileRefused),
        (zipfile.ZIP_DEFLATED, SystemExhausted),
    ):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(MEMBER, b"x\n")
        with pytest.raises(expected, match=r"more memory than|memory is used up.*20140101"):
            unpack(path, DAY_FILE, tmp_path, most=MOST)
        assert list(tmp_path.glob("*.txt")) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_a_full_disk_is_not_taken_for_a_damaged_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = zipped(tmp_path, {MEMBER: b"x\n"})

    def full(*_: object) -> None:
        raise OSError(number, "no more")

    monkeypatch.setattr(module, "_copy", full)
    with pytest.raises(SystemExhausted, match=DAY_FILE.name):
        unpack(path, DAY_FILE, tmp_path, most=MOST)
    assert list(tmp_path.glob("*.txt")) == []


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, {MEMBER: b"x"})
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].flag_bits & 1
    with pytest.raises(FileRefused, match="encrypted"):
        unpack(path, DAY_FILE, tmp_path, most=MOST)


def test_an_unzipped_file_is_read_where_it_is_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes(text_of(event_lines([1, 2], DAY)))
    text = unpack(path, open_file("some.csv"), tmp_path, most=MOST)
    assert (text.path, text.lines) == (path, 2)
    text.remove()
    assert path.exists()


@pytest.fixture
def layout_name(tmp_path: Path) -> Callable[[bytes], str | None]:
    """The name of a content's layout."""

    def name_of(content: bytes) -> str | None:
        layout = layout_of(read(tmp_path, content), DAY_FILE)
        return layout.name if layout else None

    return name_of


@pytest.mark.parametrize("layout", [BACKFILE, DAILY, QUARTER, REDUCED])
def test_the_number_of_columns_tells_the_layout(
    layout_name: Callable[[bytes], str | None], layout: Layout
) -> None:
    assert layout_name(b"\t" * (layout.width - 1) + b"x\n") == layout.name


def test_most_lines_decide_and_an_empty_file_has_no_layout(
    layout_name: Callable[[bytes], str | None],
) -> None:
    few, many = b"x" + b"\t" * 56 + b"\n", b"x" + b"\t" * 57 + b"\n"
    assert layout_name(few + many * 2) == "daily"
    assert layout_name(few * 2 + many) == "backfile"
    assert layout_name(few + many) == "backfile"
    assert layout_name(b"") is None


@pytest.mark.parametrize("content", [b"\n\n", b" \t\n\r\n", b"   ", b"\n" * 5_000_000])
def test_blank_lines_alone_are_no_day(
    layout_name: Callable[[bytes], str | None], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(module, "SMALL", 1 << 24)
    with pytest.raises(FileRefused, match="nothing but blank lines"):
        layout_name(content)


@pytest.mark.parametrize("piece", [1, 7, 1 << 10, 1 << 20])
@pytest.mark.parametrize("ended", [True, False])
def test_a_line_tells_its_columns_however_long_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, ended: bool
) -> None:
    """Some lines are longer than the look, blank ones lie between, and pieces end anywhere."""
    monkeypatch.setattr(module, "CHUNK", piece)
    monkeypatch.setattr(module, "HEAD", 50)
    monkeypatch.setattr(module, "HEAD_LINES", 3)
    lines = [b"", b"x" * 200 + b"\t" * 57, b"  \t", b"\ty", b"z" * 90 + b"\t" * 57, b"\tend"]
    text = read(tmp_path, b"\n".join(lines) + (b"\n" if ended else b""))
    assert text.widths == (58, 2, 58)
    text = read(tmp_path, b"\n".join(lines[:2]) + (b"\n" if ended else b""))
    assert text.widths == (58,)


@pytest.mark.parametrize(
    ("columns", "said"),
    [(16, "mentions"), (27, "GKG"), (11, "GKG"), (5, "an unknown layout")],
)
def test_other_files_are_refused_by_what_they_are(
    layout_name: Callable[[bytes], str | None], columns: int, said: str
) -> None:
    with pytest.raises(FileRefused, match=f"{columns} columns, .*{said}"):
        layout_name(b"x" + b"\t" * (columns - 1) + b"\n")


def test_a_web_page_is_recognised(layout_name: Callable[[bytes], str | None]) -> None:
    with pytest.raises(FileRefused, match="a web page"):
        layout_name(b"<!DOCTYPE html>\n<html>\n")
