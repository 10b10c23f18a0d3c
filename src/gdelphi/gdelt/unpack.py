"""Unpacking: from a fetched file to a text that the store can read, without trusting the zip.

A zip must hold exactly one member with an expected plain name; its text is written in pieces, so a
zip bomb meets a cap and not the disk, whatever the zip's own header claims. While the bytes pass,
lines are counted and what needs the strict way is noticed (carriage returns, NUL, spaces at the
edges of fields), which costs a few percent of the inflating.

Whatever Python's zip reader raises on a zip is damage of this zip: a flipped bit can make it seek
before the file's start, decode a name that is no text, or hand nonsense to any decompressor.
"""

import errno
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from gdelphi.common.errors import FileRefused
from gdelphi.gdelt.faults import describe_error, raise_if_exhausted
from gdelphi.gdelt.file_names import SourceFile
from gdelphi.gdelt.layouts import (
    LAYOUTS,
    OTHER_FILES,
    Layout,
)

OnPiece = Callable[[bytes], None]

CHUNK = 1 << 18
SMALL = 1 << 20  # a text up to this size is unpacked whatever the ratio
HIGHEST_RATIO = 200  # GDELT's own zips are at 6 to 15
HEAD = 1 << 17  # bytes looked at to tell the layout, and on to the end of a line,
HEAD_LINES = 100  # and so many lines at least: some may be longer than all the rest
START = 200  # bytes kept to guess what a file is that has no known layout
LONGEST_NAME = 120  # characters of a member's name that a message repeats

_BLANK_LINES = re.compile(rb"(?:[ \t\r\x0b\x0c]*\n)+")  # at once: there may be a billion of them


@dataclass(frozen=True)
class UnpackedFile:
    """A file's text on disk, and what was noticed on the way."""

    path: Path
    size: int
    lines: int  # the last one counts even without a line end
    start: bytes
    widths: tuple[int, ...]  # columns of the first whole lines that are not blank
    plain: bool  # no carriage return, no NUL: a line end is a row's end
    spaced: bool  # some field begins or ends with a space
    temporary: bool

    def remove(self) -> None:
        if self.temporary:
            self.path.unlink(missing_ok=True)


class _TextScanner:
    """Counts lines and notices oddities in passing bytes; a pattern may lie across two pieces."""

    def __init__(self) -> None:
        self.size = self.lines = 0
        self.start = b""
        self.plain, self.spaced = True, False
        self._first = _FirstLines()
        self._last = b"\n"  # as if a line had ended before the first

    def scan(self, piece: bytes) -> None:
        if len(self.start) < START:
            self.start += piece[: START - len(self.start)]
        self._first.scan(piece)
        self.size += len(piece)
        self.lines += piece.count(b"\n")
        self.plain = self.plain and b"\r" not in piece and b"\0" not in piece
        self.spaced = self.spaced or _has_spaces_at_edges(self._last + piece)
        self._last = piece[-1:]

    def text(self, path: Path, *, temporary: bool) -> UnpackedFile:
        unended = self.size > 0 and self._last != b"\n"
        return UnpackedFile(
            path,
            self.size,
            self.lines + unended,
            self.start,
            self._first.widths(),
            self.plain,
            self.spaced or (unended and self._last == b" "),
            temporary,
        )


class _FirstLines:
    """Counts the columns of the first lines, each to its end: a line may outlast many pieces."""

    def __init__(self) -> None:
        self._widths: list[int] = []
        self._seen = 0
        self._tabs, self._blank = 0, True  # of the line that has not ended yet

    def scan(self, piece: bytes) -> None:
        start = 0
        while start < len(piece) and not self._enough():
            if self._blank and (blank := _BLANK_LINES.match(piece, start)):
                self._seen += blank.end() - start
                start, self._tabs = blank.end(), 0
                continue
            end = piece.find(b"\n", start)
            part = piece[start : None if end < 0 else end]
            self._tabs += part.count(b"\t")
            self._blank = self._blank and not part.strip()
            self._seen += len(part) + (end >= 0)
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def widths(self) -> tuple[int, ...]:
        """To be asked at the text's end: the last line counts even without a line end."""
        if not self._enough():
            self._end_line()
        return tuple(self._widths)

    def _enough(self) -> bool:
        at_start = self._tabs == 0 and self._blank
        return at_start and self._seen >= HEAD and len(self._widths) >= HEAD_LINES

    def _end_line(self) -> None:
        if not self._blank:
            self._widths.append(self._tabs + 1)
        self._tabs, self._blank = 0, True


def _has_spaces_at_edges(piece: bytes) -> bool:
    """Whether a space stands next to a tab or a line end (numpy: half the time of `in`)."""
    codes = np.frombuffer(piece, np.uint8)
    edge, space = codes <= 0x0A, codes == 0x20
    return bool((edge[:-1] & space[1:]).any() or (space[:-1] & edge[1:]).any())


def unpack(
    path: Path, file: SourceFile, into: Path, *, most: int, pass_on: OnPiece = lambda _: None
) -> UnpackedFile:
    """The text of a fetched file, written below `into` (an unzipped file is read where it is).

    Each piece of it is also passed on, to whoever reads the text on the way.
    """
    with path.open("rb") as stream:
        magic = stream.read(4)
        if magic[:2] == b"PK":
            return _unzip(path, file, into / f"{file.name}.txt", most, pass_on)
        if path.suffix.lower() == ".zip":
            raise FileRefused(f"{file.name} is not a zip: it begins with {magic!r}")
        stream.seek(0)
        scanner = _TextScanner()
        while piece := stream.read(CHUNK):
            scanner.scan(piece)
            pass_on(piece)
    return scanner.text(path, temporary=False)


def _unzip(path: Path, file: SourceFile, target: Path, most: int, pass_on: OnPiece) -> UnpackedFile:
    try:
        with zipfile.ZipFile(path) as archive:
            member = _only_member(archive, file)
            limit = min(most, max(SMALL, HIGHEST_RATIO * path.stat().st_size))
            with archive.open(member) as source, target.open("wb") as sink:
                scanner = _copy(source, sink, limit, member, file.name, pass_on)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, FileRefused) or not isinstance(error, Exception):
            raise
        raise_if_exhausted(error, file.name)
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk and not the zip, which makes for invalid places at most
        raise FileRefused(f"{file.name} is a damaged zip: {describe_error(error)}") from None
    return scanner.text(target, temporary=True)


def _only_member(archive: zipfile.ZipFile, file: SourceFile) -> zipfile.ZipInfo:
    members = archive.infolist()
    if len(members) != 1:
        names = ", ".join(repr(member.filename[:LONGEST_NAME]) for member in members[:3])
        raise FileRefused(f"{file.name} holds {len(members)} members ({names}) instead of one")
    member = members[0]
    if not file.members.fullmatch(member.filename):
        name = member.filename[:LONGEST_NAME]
        raise FileRefused(f"{file.name} holds a member of the unexpected name {name!r}")
    if member.flag_bits & 1:
        raise FileRefused(f"{file.name} is encrypted")
    return member


def _copy(
    source: IO[bytes],
    sink: IO[bytes],
    limit: int,
    member: zipfile.ZipInfo,
    name: str,
    pass_on: OnPiece,
) -> _TextScanner:
    scanner = _TextScanner()
    while piece := _read(source, member, name):
        scanner.scan(piece)
        if scanner.size > limit:
            raise FileRefused(
                f"{name} unpacks to more than {limit:,} bytes: a damaged or hostile zip "
                "(ingest.max_unpacked_gigabytes raises the cap)"
            )
        sink.write(piece)
        pass_on(piece)
    return scanner


def _read(source: IO[bytes], member: zipfile.ZipInfo, name: str) -> bytes:
    try:
        return source.read(CHUNK)
    except MemoryError:
        if member.compress_type != zipfile.ZIP_LZMA:
            raise
        # Of all methods only LZMA takes as much memory as the file says, up to 4 GB.
        raise FileRefused(f"{name} asks for more memory than there is to unpack it") from None


def layout_of(text: UnpackedFile, file: SourceFile) -> Layout | None:
    """The layout that most of the first lines have; None for an empty file.

    A file that is not events is refused, with what it seems to be. So is one of blank lines: a day
    without events is an empty file.
    """
    if text.size == 0:
        return None
    widths = Counter(text.widths)
    if not widths:
        raise FileRefused(f"{file.name} holds nothing but blank lines ({text.lines:,} of them)")
    known = {width: count for width, count in widths.items() if width in LAYOUTS}
    if known:
        best = max(known.values())
        if 2 * best >= widths.total():
            return LAYOUTS[next(width for width in text.widths if known.get(width) == best)]
    width = widths.most_common(1)[0][0]
    what = OTHER_FILES.get(width) or _guess(text.start)
    raise FileRefused(
        f"{file.name} is not an event file: {width} columns, {what}. "
        "Event files have 57, 58 or 61 columns (17 for MASTERREDUCEDV2)"
    )


def _guess(start: bytes) -> str:
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    return "an unknown layout"
