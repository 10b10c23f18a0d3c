"""Archives: a URL or a folder with GDELT's layout, and what it lists.

An archive's own lists (`md5sums` and `filesizes` of GDELT 1.0, `masterfilelist.txt` of 2.0) say
what there is and carry checksums. A folder is looked through as well, so that files without a list
can be read. Addresses inside a list are ignored but for their last part: a mirror carries the
original site's addresses.

A list is not trusted either: a line that cannot be read is counted and passed over.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gdelphi.common.errors import ArchiveError, FileMissing
from gdelphi.common.sections import (
    GDELT1,
    GDELT2,
    IngestSettings,
)
from gdelphi.gdelt.addresses import base_address, public_address
from gdelphi.gdelt.fetch import (
    LARGEST_LIST,
    Fetched,
    Fetcher,
    verify,
)
from gdelphi.gdelt.file_names import (
    SourceFile,
    is_other_file,
    open_file,
    parse_name,
    possible_until,
)

ALIASES = {"gdelt1": GDELT1, "gdelt2": GDELT2}
LABELS = {
    GDELT1: "http://data.gdeltproject.org/events/",
    GDELT2: "http://data.gdeltproject.org/gdeltv2/",
}
"""GDELT's own archive has one name in the ledger, whichever of its addresses is asked"""
MASTER_LIST = "masterfilelist.txt"
TRANSLATED_LIST = "masterfilelist-translation.txt"

OTHER_ENDS = (".mentions.CSV.zip", ".gkg.csv.zip")

_SIZE = re.compile(r"[0-9]{1,15}")  # not str.isdigit, which takes superscripts for digits
_MD5 = re.compile(r"[0-9a-fA-F]{32}")

OnBytes = Callable[[int], None]


@dataclass
class Listing:
    """What an archive has. `passed_over` counts what is there but was not asked for."""

    files: dict[str, SourceFile] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    damaged_lines: int = 0
    single: bool = False  # single files were chosen: they say nothing about the days between them

    def add(self, name: str, *, size: int | None = None, md5: str | None = None) -> None:
        """Note a line of a list; the same file may stand in several lists."""
        file = self.files.get(name) or parse_name(name)
        if file is not None:
            self.files[name] = file.with_listing(size=size, md5=md5)
        elif is_other_file(name):
            self.passed_over["mentions and knowledge-graph files"] += 1
        else:
            self.damaged_lines += 1

    def keep_wanted(self, settings: IngestSettings) -> None:
        """Drop the feeds that were not asked for and days that cannot be yet, and count them."""
        limit = possible_until()
        for name, file in list(self.files.items()):
            if limit and file.first_day and file.first_day > limit:
                self.passed_over["files of days to come (a misprint, or this clock is behind)"] += 1
                del self.files[name]
            elif file.kind == "translated" and not settings.translated:
                self.passed_over["translated files (--translated reads them)"] += 1
                del self.files[name]
            elif file.kind == "reduced" and not settings.reduced:
                self.passed_over["MASTERREDUCEDV2 files (--reduced reads them)"] += 1
                del self.files[name]


def read_md5sums(text: str, listing: Listing) -> None:
    """`md5  name` a line."""
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 2 and _MD5.fullmatch(parts[0]):
            listing.add(parts[1].lstrip("*"), md5=parts[0].lower())
        elif parts:
            listing.damaged_lines += 1


def read_filesizes(text: str, listing: Listing) -> None:
    """`size name` a line; a file that stands only here has no checksum."""
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 2 and _SIZE.fullmatch(parts[0]):
            listing.add(parts[1], size=int(parts[0]))
        elif parts:
            listing.damaged_lines += 1


def read_master_list(text: str, listing: Listing) -> None:
    """`size md5 address` a line. GDELT's own list has a few lines with parts missing.

    Two of three of its million lines are about other files; they are known by their endings.
    """
    for line in text.splitlines():
        if line.endswith(OTHER_ENDS):
            listing.passed_over["mentions and knowledge-graph files"] += 1
            continue
        parts = line.split()
        if len(parts) == 3 and _SIZE.fullmatch(parts[0]) and _MD5.fullmatch(parts[1]):
            listing.add(parts[2].rsplit("/", 1)[-1], size=int(parts[0]), md5=parts[1].lower())
        elif parts:
            listing.damaged_lines += 1


READERS: dict[str, Callable[[str, Listing], None]] = {
    "md5sums": read_md5sums,
    "filesizes": read_filesizes,
    MASTER_LIST: read_master_list,
    TRANSLATED_LIST: read_master_list,
}


class FolderArchive:
    """A folder, or chosen files of it."""

    def __init__(self, folder: Path, label: str | None = None, *, only: Iterable[str] = ()) -> None:
        self.folder = folder.resolve()
        self.label = label or str(self.folder)
        self.only = tuple(only)
        if not self.folder.is_dir():
            raise ArchiveError(
                f"no archive at {folder}: it is neither a folder nor an http(s) address"
            )

    def list_files(self, settings: IngestSettings) -> Listing:
        listing = Listing()
        for name, read in READERS.items():
            path = self.folder / name
            if path.is_file():
                if path.stat().st_size > LARGEST_LIST:
                    raise ArchiveError(f"{path} has more than {LARGEST_LIST:,} bytes: no list")
                read(path.read_text(encoding="utf-8", errors="replace"), listing)
        if self.only:
            chosen = {}
            for name in self.only:
                chosen[name] = listing.files.get(name) or parse_name(name) or open_file(name)
            return Listing(files=chosen, single=True)
        self._look_through(listing)
        listing.keep_wanted(settings)
        return listing

    def _look_through(self, listing: Listing) -> None:
        for path in sorted(self.folder.iterdir()):
            if path.name in listing.files or path.name in READERS or not _may_be_file(path):
                continue
            file = parse_name(path.name)
            if file is not None:
                listing.files[path.name] = file
            elif is_other_file(path.name):
                listing.passed_over["mentions and knowledge-graph files"] += 1
            elif path.suffix.lower() in (".zip", ".csv", ".tsv", ".txt") and path.name not in (
                "lastupdate.txt",
                "lastupdate-translation.txt",
            ):
                listing.unknown.append(os.fsencode(path.name).decode(errors="replace"))

    def fetch(self, file: SourceFile, on_bytes: OnBytes) -> Fetched:
        path = self.folder / file.name
        if not path.is_file():
            raise FileMissing(f"{file.name} is listed but not in {self.folder}")
        fetched = verify(path, file)
        on_bytes(fetched.size)
        return fetched

    def stamp(self, file: SourceFile) -> str | None:
        """Size and time of change: tells an unlisted file that changed from one that did not."""
        try:
            stat = (self.folder / file.name).stat()
        except OSError:
            return None  # fetching it will say why
        return f"{stat.st_size}:{stat.st_mtime_ns}"

    def discard(self, path: Path, *, spoiled: bool) -> Path:  # noqa: ARG002
        """The folder is not ours: nothing is removed, and a spoiled file stays where it is."""
        return path

    def close(self) -> None:
        pass


def _may_be_file(path: Path) -> bool:
    """Whether this is a file, or cannot be looked at: then fetching it will say why."""
    try:
        return path.is_file()
    except OSError:
        return True


class HttpArchive:
    """A site or a mirror."""

    def __init__(self, url: str, settings: IngestSettings) -> None:
        self.url = base_address(url)
        self.site = public_address(self.url)
        self.label = settings.label or LABELS.get(self.site, self.site)
        self.fetcher = Fetcher(self.url, settings)

    def list_files(self, settings: IngestSettings) -> Listing:
        listing = Listing()
        second = "gdeltv2" in self.url
        first_choice = [MASTER_LIST] if second else ["md5sums", "filesizes"]
        second_choice = ["md5sums", "filesizes"] if second else [MASTER_LIST]
        listed = self._read(first_choice, listing) or self._read(second_choice, listing)
        if settings.translated:
            listed = self._read([TRANSLATED_LIST], listing) or listed
        if not listed:
            raise ArchiveError(
                f"{self.site} has neither md5sums nor {MASTER_LIST}: "
                "is this the folder that holds the event files?"
            )
        if not listing.files:
            raise ArchiveError(
                f"the lists of {self.site} name no event file ({listing.damaged_lines} lines could "
                "not be read): look at them in a browser; a sign-in page may stand in their place"
            )
        listing.keep_wanted(settings)
        return listing

    def _read(self, names: list[str], listing: Listing) -> bool:
        listed = False
        for name in names:
            text = self.fetcher.fetch_list(name)
            if text is not None:
                READERS[name](text, listing)
                listed = True
        return listed

    def fetch(self, file: SourceFile, on_bytes: OnBytes) -> Fetched:
        return self.fetcher.fetch(file, on_bytes)

    def stamp(self, file: SourceFile) -> str | None:  # noqa: ARG002
        """A site's files are told apart by their checksums alone."""
        return None

    def discard(self, path: Path, *, spoiled: bool) -> Path:
        return self.fetcher.discard(path, spoiled=spoiled)

    def close(self) -> None:
        self.fetcher.close()


Archive = FolderArchive | HttpArchive


def open_archive(settings: IngestSettings, files: Sequence[Path] = ()) -> Archive:
    """The archive that the settings name, or the folder of some single files."""
    if files:
        return _folder_of(files, settings.label)
    place = ALIASES.get(settings.archive, settings.archive)
    if place.lower().startswith(("http://", "https://")):
        return HttpArchive(place, settings)
    return FolderArchive(Path(place).expanduser(), settings.label)


def _folder_of(files: Sequence[Path], label: str | None) -> FolderArchive:
    for path in files:
        if not path.is_file():
            raise ArchiveError(f"no file at {path}")
    folders = {path.resolve().parent for path in files}
    if len(folders) > 1:
        raise ArchiveError("the files lie in several folders: give those of one folder at a time")
    return FolderArchive(folders.pop(), label, only=[path.name for path in files])
