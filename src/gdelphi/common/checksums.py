"""Checksums of all files that gdelphi writes: what was written is told from what a disk made of it.

Each folder has a file `checksums.txt`, to which a line is added before a file takes its place:

    CRC32 of the rest  SHA-256 of the bytes  name

A file is sound if its bytes are those of one of its lines. Not of the last one alone: a process
that is killed between the line and the file leaves the file from before, which is sound too. A
dash in place of the digest takes back all lines of the name before it: the file was removed, or is
written piece by piece. A name without a line is not checked: it is from an earlier version, or
somebody else's.

Chosen over one list of the whole: a line is added without reading the others, by several processes
at once (the system keeps appended lines apart), and a folder that is moved takes its list along.
Chosen over a digest inside each file: Parquet, JSON and safetensors have no common place for it.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gdelphi.common.lines import append_line

CHECKSUMS: Final = "checksums.txt"
REMOVED: Final = "-"
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
        known = read_checksums(content).digests
        below = sorted(path for path in content.rglob("*") if path.is_file())
        names = [str(path.relative_to(content)) for path in below if path.name != CHECKSUMS]
        noted = {
            str(lists.parent.relative_to(content) / name)
            for lists in below
            if lists.name == CHECKSUMS and lists.parent != content
            for name in read_checksums(lists.parent).digests
        }
        new = [name for name in names if name not in known and name not in noted]
        _append(content, {name: file_digest(content / name) for name in new})
    elif place.name != CHECKSUMS:
        _append(place.parent, {place.name: file_digest(content)})


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
    bad_lines: tuple[int, ...] = ()
    """numbers of lines that cannot be read"""


def read_checksums(folder: Path) -> Checksums:
    """The list of a folder; empty if it has none."""
    try:
        text = (folder / CHECKSUMS).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Checksums({})
    digests: dict[str, frozenset[str]] = {}
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
        else:
            digests[name] = digests.get(name, frozenset()) | {digest}
    return Checksums(digests, tuple(bad))


def is_damaged(path: Path) -> bool:
    """Whether a file is there and is not what was written."""
    noted = read_checksums(path.parent).digests.get(path.name)
    return noted is not None and path.exists() and file_digest(path) not in noted


def damaged_files(folder: Path, *, skip: Iterable[str] = ()) -> list[Path]:
    """The files of a folder, and of those below it, that are there and are not what was written.

    Folders of the names in `skip` are passed over.
    """
    return [path for path, state in file_states(folder, skip=skip) if state == "damaged"]


def file_states(folder: Path, *, skip: Iterable[str] = ()) -> Iterator[tuple[Path, FileState]]:
    """All files of a folder and of those below it, and how each is; missing ones too."""
    known: dict[Path, frozenset[str]] = {}
    passed = set(skip)

    def wanted(path: Path) -> bool:
        return not passed.intersection(path.relative_to(folder).parts)

    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and wanted(path)]
    for path in files:
        if path.name != CHECKSUMS:
            continue
        listed = read_checksums(path.parent)
        yield path, "bad list" if listed.bad_lines else "sound"
        for name, digests in listed.digests.items():
            place = path.parent / name
            known[place] = known.get(place, frozenset()) | digests
    for path in sorted({*filter(wanted, known), *files}):
        if path.name == CHECKSUMS:
            continue
        if not path.exists():
            yield path, "missing"
        elif path not in known:
            yield path, "unknown"
        else:
            yield path, "sound" if file_digest(path) in known[path] else "damaged"
