"""A folder of Parquet files, one for each news day, that knows which of them are up to date.

Each file is written whole or not at all and carries in its footer what it was made from. A manifest
repeats that for all files, so that a run over ten years with nothing new reads one file instead of
thousands; without a manifest it is made from the files. One process writes at a time.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from gdelphi.common.checksums import is_damaged, remove_file
from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import alone, atomic_write, write_json_atomically

FORMAT: Final = 1
_METADATA: Final = b"gdelphi"
T = TypeVar("T")


class DayFolder:
    """The day files under a folder, in one folder a year."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, day: date) -> Path:
        return self.folder / f"{day:%Y}" / f"{day.isoformat()}.parquet"

    def days(self) -> tuple[date, ...]:
        """The days that have a file, in their order."""
        return tuple(sorted(_day_of(path) for path in self.folder.glob("*/*.parquet")))

    def made_from(self) -> dict[date, str]:
        """The fingerprint of what each day was made from."""
        return DayManifest(self).known

    def write(self, day: date, table: pa.Table, footer: Mapping[str, Any]) -> None:
        """Write a day; `footer` must have a fingerprint of what it was made from."""
        text = json.dumps({"format": FORMAT, "day": day.isoformat(), **footer})
        marked = table.replace_schema_metadata({_METADATA: text.encode()})
        with atomic_write(self.path(day)) as part:
            # Without checksums four in ten flipped bits would be read as other numbers.
            pq.write_table(marked, part, compression="zstd", write_page_checksum=True)

    @contextmanager
    def updating(self) -> Iterator["DayManifest"]:
        """Alone with the folder: what it has, and the way to change it."""
        with alone(self.folder):
            for path in self.folder.rglob(".*.part"):  # of a process that was killed
                path.unlink()
            manifest = DayManifest(self)
            if not manifest.complete:
                manifest.save()  # so that the next run need not look into all files
            yield manifest


class DayManifest:
    """Which day was made from what."""

    def __init__(self, folder: DayFolder) -> None:
        self._folder = folder
        self._path = folder.folder / "manifest.json"
        self.complete = True
        """false: it was made from the files"""
        self.known = {day: key for day, key in self._read().items() if folder.path(day).exists()}

    def _read(self) -> dict[date, str]:
        try:
            given = json.loads(self._path.read_text(encoding="utf-8"))
            return {date.fromisoformat(day): str(key) for day, key in given.items()}
        except (FileNotFoundError, ValueError, AttributeError):
            self.complete = False
            return dict(self._from_files())

    def _from_files(self) -> Iterator[tuple[date, str]]:
        for day in self._folder.days():
            try:
                yield day, str(read_footer(self._folder.path(day)).get("fingerprint"))
            except MeasuresError:
                continue  # it is made again

    def keep_only(self, days: Iterable[date]) -> int:
        """Remove the files of all other days; how many there were."""
        # Not those that are known alone: a run that was killed leaves files that are not yet.
        gone = set(self._folder.days()).difference(days)
        for day in gone:
            remove_file(self._folder.path(day))
            self.known.pop(day, None)
        if gone:
            self.save()
        return len(gone)

    def save(self) -> None:
        content = {day.isoformat(): self.known[day] for day in sorted(self.known)}
        write_json_atomically(self._path, content, indent=0)


def read_footer(path: Path) -> dict[str, Any]:
    """What gdelphi has written into a day file's footer."""
    try:
        return footer_of(pq.read_schema(path), path)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None


def footer_of(schema: pa.Schema, path: Path) -> dict[str, Any]:
    """The same from the schema of a file that has been read."""
    try:
        footer = dict(json.loads((schema.metadata or {})[_METADATA]))
    except (KeyError, ValueError, TypeError) as error:
        raise unreadable(path, error) from None
    if footer.get("format") != FORMAT:
        raise MeasuresError(
            f"{path} has format {footer.get('format')}, this gdelphi reads {FORMAT}: delete the "
            f"folder {path.parent.parent} and run `gdelphi embed` again"
        )
    return footer


def read_table(path: Path) -> pa.Table:
    """The rows of a day file."""
    try:
        # Not `read_table`, whose search for data sets and threads cost more than a small file.
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            return file.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> MeasuresError:
    """What to say about a file that cannot be read."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return MeasuresError(
        f"{path} cannot be read ({reason}): delete it and run `gdelphi embed`, which makes it again"
    )


def keep_json(path: Path, key: str, compute: Callable[[], T]) -> T:
    """What `compute` gives, from the file if that was kept under the same key, else anew and kept.

    Only for what JSON gives back as it was.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key and not is_damaged(path):
            value: T = kept["value"]
            return value
    value = compute()
    with suppress(OSError):  # somebody may look at a folder that only others may write
        write_json_atomically(path, {"key": key, "value": value}, indent=None)
    return value


def _day_of(path: Path) -> date:
    try:
        return date.fromisoformat(path.stem)
    except ValueError:
        raise MeasuresError(f"{path} is not named after a day: move it away") from None
