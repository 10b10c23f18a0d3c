"""Unpacking: from a fetched file to a text that the store can read, without trusting the zip.

A zip must hold exactly one member with an expected plain name; its text is written in pieces, so a
zip bomb meets a cap and not the disk, whatever the zip's own header claims. While the bytes pass,
lines are counted and what needs a careful reading is noticed (carriage returns, NUL, spaces at the
edges of fields), which costs a few percent of the inflating.
"""

import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from gdelphi.errors import FileRefused
from gdelphi.gdelt.layouts import LAYOUTS, OTHER_FILES, Layout
from gdelphi.gdelt.names import SourceFile

CHUNK = 1 << 20
SMALL = 1 << 20  # a text up to this size is unpacked whatever the ratio
HIGHEST_RATIO = 200  # GDELT's own zips are at 6 to 15
HEAD = 1 << 17  # bytes looked at to tell the layout


@dataclass(frozen=True)
class Text:
    """A file's text on disk, and what was noticed on the way."""

    path: Path
    size: int
    lines: int  # the last one counts even without a line end
    head: bytes
    plain: bool  # no carriage return, no NUL: a line end is a row's end
    spaced: bool  # some field begins or ends with a space
    temporary: bool

    def remove(self) -> None:
        if self.temporary:
            self.path.unlink(missing_ok=True)


class _Watch:
    """Notices things in passing bytes; a pattern may lie across two pieces."""

    def __init__(self) -> None:
        self.size = self.lines = 0
        self.head = b""
        self.plain, self.spaced = True, False
        self._last = b"\n"  # as if a line had ended before the first

    def look(self, piece: bytes) -> None:
        if len(self.head) < HEAD:
            self.head += piece[: HEAD - len(self.head)]
        self.size += len(piece)
        self.lines += piece.count(b"\n")
        self.plain = self.plain and b"\r" not in piece and b"\0" not in piece
        self.spaced = self.spaced or _has_spaces_at_edges(self._last + piece)
        self._last = piece[-1:]

    def text(self, path: Path, *, temporary: bool) -> Text:
        unended = self.size > 0 and self._last != b"\n"
        return Text(
            path,
            self.size,
            self.lines + unended,
            self.head,
            self.plain,
            self.spaced or (unended and self._last == b" "),
            temporary,
        )


def _has_spaces_at_edges(piece: bytes) -> bool:
    """Whether a space stands next to a tab or a line end (numpy: half the time of `in`)."""
    codes = np.frombuffer(piece, np.uint8)
    edge, space = codes <= 0x0A, codes == 0x20
    return bool((edge[:-1] & space[1:]).any() or (space[:-1] & edge[1:]).any())


def unpack(path: Path, file: SourceFile, into: Path, *, most: int) -> Text:
    """The text of a fetched file, written below `into` (an unzipped file is read where it is)."""
    with path.open("rb") as stream:
        magic = stream.read(4)
        if magic[:2] == b"PK":
            return _unzip(path, file, into / f"{file.name}.txt", most)
        if path.suffix.lower() == ".zip":
            raise FileRefused(f"{file.name} is not a zip: it begins with {magic!r}")
        stream.seek(0)
        watch = _Watch()
        while piece := stream.read(CHUNK):
            watch.look(piece)
    return watch.text(path, temporary=False)


def _unzip(path: Path, file: SourceFile, target: Path, most: int) -> Text:
    try:
        with zipfile.ZipFile(path) as archive:
            member = _only_member(archive, file)
            limit = min(most, max(SMALL, HIGHEST_RATIO * path.stat().st_size))
            with archive.open(member) as source, target.open("wb") as sink:
                watch = _copy(source, sink, limit, file.name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        target.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, not the zip
        raise FileRefused(f"{file.name} is a damaged zip: {error}") from None
    except FileRefused:
        target.unlink(missing_ok=True)
        raise
    return watch.text(target, temporary=True)


def _only_member(archive: zipfile.ZipFile, file: SourceFile) -> zipfile.ZipInfo:
    members = archive.infolist()
    if len(members) != 1:
        names = ", ".join(repr(member.filename) for member in members[:3])
        raise FileRefused(f"{file.name} holds {len(members)} members ({names}) instead of one")
    member = members[0]
    if not file.members.fullmatch(member.filename):
        raise FileRefused(f"{file.name} holds a member of the unexpected name {member.filename!r}")
    if member.flag_bits & 1:
        raise FileRefused(f"{file.name} is encrypted")
    return member


def _copy(source: IO[bytes], sink: IO[bytes], limit: int, name: str) -> _Watch:
    watch = _Watch()
    while piece := source.read(CHUNK):
        watch.look(piece)
        if watch.size > limit:
            raise FileRefused(
                f"{name} unpacks to more than {limit:,} bytes: a damaged or hostile zip "
                "(ingest.max_unpacked_gigabytes raises the cap)"
            )
        sink.write(piece)
    return watch


def layout_of(text: Text, file: SourceFile) -> Layout | None:
    """The layout that most of the first lines have; None for an empty file.

    A file that is not events is refused, with what it seems to be.
    """
    lines = text.head.split(b"\n")
    if len(text.head) < text.size:
        lines.pop()  # cut off by the end of the look
    widths = Counter(line.count(b"\t") + 1 for line in lines if line.strip())
    if not widths:
        return None
    known = {width: count for width, count in widths.items() if width in LAYOUTS}
    if known:
        best = max(known.values())
        if 2 * best >= widths.total():
            first = next(w for line in lines if known.get(w := line.count(b"\t") + 1) == best)
            return LAYOUTS[first]
    width = widths.most_common(1)[0][0]
    what = OTHER_FILES.get(width) or _guess(text.head)
    raise FileRefused(
        f"{file.name} is not an event file: {width} columns, {what}. "
        "Event files have 57, 58 or 61 columns (17 for MASTERREDUCEDV2)"
    )


def _guess(head: bytes) -> str:
    start = head.lstrip()[:200].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    return "an unknown layout"
