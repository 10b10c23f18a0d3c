"""Checksums of all files that gdelphi writes: what was written is told from what a disk made of it.

Each folder has a file `checksums.txt`, to which a line is added before a file takes its place:

    CRC32 of the rest  SHA-256 of the bytes  name

A file is sound if its bytes are those of one of its lines. Not of the last one alone: a process
that is killed between the line and the file leaves the file from before, which is sound too. A
dash in place of the digest takes back all lines of the name before it: the file was removed, or is
written piece by piece. A name without a line is not checked: it is from an earlier version, or
somebody else's.

A file that is added to has a line for each block of 4 MB, with `FIRST-LAST:` before the digest. It
is sound if all of these blocks are; what lies behind them is not looked at. So adding to it costs
the digest of what is added, and whoever knows the shorter file still finds it sound.

Chosen over one list of the whole: a line is added without reading the others, by several processes
at once (the system keeps appended lines apart), and a folder that is moved takes its list along.
Chosen over a digest inside each file: Parquet, JSON and safetensors have no common place for it.
"""

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Literal

from gdelphi.common.lines import append_line

CHECKSUMS: Final = "checksums.txt"
REMOVED: Final = "-"
BLOCK: Final = 1 << 22
BlockDigests = Mapping[tuple[int, int], str]
"""first byte of a block, and the first behind it -> digest"""
FileState = Literal["sound", "damaged", "missing", "unknown", "bad list"]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- writing --------------------------------------------------------------------------------------


def note_file(place: Path, content: Path) -> None:
    """Note what will lie at a place: the bytes of another file, or of all files of a folder.

    What was copied into the folder together with its lines keeps those: they are of the original.
    """
    if content.is_dir():
        known = read_checksums(content).names
        below = sorted(path for path in content.rglob("*") if path.is_file())
        names = [str(path.relative_to(content)) for path in below if path.name != CHECKSUMS]
        noted = {
            str(lists.parent.relative_to(content) / name)
            for lists in below
            if lists.name == CHECKSUMS and lists.parent != content
            for name in read_checksums(lists.parent).names
        }
        new = [name for name in names if name not in known and name not in noted]
        _append(content, {name: file_digest(content / name) for name in new})
    elif place.name != CHECKSUMS:
        _append(place.parent, {place.name: file_digest(content)})


def note_blocks(path: Path, known: BlockDigests) -> None:
    """Note a file block by block; `known` are those whose digests need not be made again."""
    digests = {}
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for first in range(0, max(size, 1), BLOCK):
            place = first, min(first + BLOCK, size)
            digests[place] = known.get(place) or _block_digest(file, *place)
    lines = [
        _line(path.name, f"{first}-{last}:{digest}") for (first, last), digest in digests.items()
    ]
    append_line(path.parent / CHECKSUMS, "\n".join(lines), sync=False)


def blocks_within(path: Path, noted: BlockDigests, size: int) -> BlockDigests | None:
    """The blocks among the first bytes of a file; None if the one in which these end is not what
    was written, or is not noted. Others are taken as noted, not looked at."""
    within = {place: digest for place, digest in noted.items() if place[1] <= size}
    begin = size // BLOCK * BLOCK
    if begin == size:  # between two blocks
        return within
    ends = {last: digest for (first, last), digest in noted.items() if first == begin}
    with path.open("rb") as file:
        for last, digest in ends.items():
            if last >= size and _block_digest(file, begin, last) == digest:
                return within
    return None


def _block_digest(file: BinaryIO, first: int, last: int) -> str:
    file.seek(first)
    return hashlib.sha256(file.read(last - first)).hexdigest()


def forget_file(path: Path) -> None:
    """Note that a file is not checked any more: it goes, or is added to line by line."""
    if (path.parent / CHECKSUMS).exists():
        _append(path.parent, {path.name: REMOVED})


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, and its checksum."""
    if path.exists():
        forget_file(path)
        path.unlink()


def _append(folder: Path, digests: Mapping[str, str]) -> None:
    if not digests:
        return
    lines = [_line(name, digest) for name, digest in digests.items()]
    append_line(folder / CHECKSUMS, "\n".join(lines), sync=False)


def _line(name: str, digest: str) -> str:
    rest = f"{digest}  {name.encode('unicode_escape').decode()}"
    return f"{zlib.crc32(rest.encode()):08x}  {rest}"


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checksums:
    """What a folder's list says."""

    digests: Mapping[str, frozenset[str]]
    """name -> digests of what it may hold"""
    blocks: Mapping[str, BlockDigests] = field(default_factory=dict)
    """name -> what its blocks hold, of files that are added to"""
    bad_lines: tuple[int, ...] = ()
    """numbers of lines that cannot be read"""

    @property
    def names(self) -> set[str]:
        return {*self.digests, *self.blocks}

    def match(self, path: Path, name: str) -> bool:
        """Whether a file, which is there, is what was written under a name of the list."""
        blocks = self.blocks.get(name)
        if blocks is None:
            return file_digest(path) in self.digests[name]
        with path.open("rb") as file:
            return all(_block_digest(file, *place) == digest for place, digest in blocks.items())


def read_checksums(folder: Path) -> Checksums:
    """The list of a folder; empty if it has none."""
    try:
        text = (folder / CHECKSUMS).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Checksums({})
    digests: dict[str, frozenset[str]] = {}
    blocks: dict[str, dict[tuple[int, int], str]] = {}
    bad = []
    for number, raw in enumerate(text.splitlines(keepends=True), start=1):
        check, _, rest = raw.removesuffix(b"\n").partition(b"  ")
        if not raw.endswith(b"\n") or check != b"%08x" % zlib.crc32(rest):
            bad.append(number)
            continue
        digest, _, name = rest.decode().partition("  ")
        name = name.encode().decode("unicode_escape")
        if digest == REMOVED:
            digests.pop(name, None)
            blocks.pop(name, None)
        elif ":" in digest:
            place, _, digest = digest.partition(":")
            first, _, last = place.partition("-")
            blocks.setdefault(name, {})[int(first), int(last)] = digest
        else:
            digests[name] = digests.get(name, frozenset()) | {digest}
    return Checksums(digests, blocks, tuple(bad))


def is_damaged(path: Path) -> bool:
    """Whether a file is there and is not what was written."""
    listed = read_checksums(path.parent)
    return path.name in listed.names and path.exists() and not listed.match(path, path.name)


def damaged_files(folder: Path, *, skip: Iterable[str] = ()) -> list[Path]:
    """The files of a folder, and of those below it, that are there and are not what was written.

    Folders of the names in `skip` are passed over.
    """
    return [path for path, state in file_states(folder, skip=skip) if state == "damaged"]


def file_states(folder: Path, *, skip: Iterable[str] = ()) -> Iterator[tuple[Path, FileState]]:
    """All files of a folder and of those below it, and how each is; missing ones too."""
    known: dict[Path, list[tuple[Checksums, str]]] = {}
    passed = set(skip)

    def wanted(path: Path) -> bool:
        return not passed.intersection(path.relative_to(folder).parts)

    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and wanted(path)]
    for path in files:
        if path.name != CHECKSUMS:
            continue
        listed = read_checksums(path.parent)
        yield path, "bad list" if listed.bad_lines else "sound"
        for name in listed.names:
            known.setdefault(path.parent / name, []).append((listed, name))
    for path in sorted({*filter(wanted, known), *files}):
        if path.name == CHECKSUMS:
            continue
        if not path.exists():
            yield path, "missing"
        elif path not in known:
            yield path, "unknown"
        else:
            sound = any(listed.match(path, name) for listed, name in known[path])
            yield path, "sound" if sound else "damaged"
