"""Writing a pack, day by day; a pack that begins as another does not write its first days again.

Packing streams through the days in their order; nothing but the tables and a day's own rows is held
in memory. A pack of the same days and some more shares the files of the shorter one (hard links)
and adds to their ends: a new day costs a day, however many there are before it. Nobody sees what is
added until the new pack is in its place, since every pack knows how much of a file is its own.

Where files cannot be shared their beginnings are copied: days have changed, another process is
adding to them, something was added by one that was killed, or the file system has no hard links.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gdelphi.common.checksums import BLOCK, BlockDigests, blocks_within, note_blocks, read_checksums
from gdelphi.common.types import IntArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.pack import (
    BY_STREAM,
    FORMAT,
    STATISTICS,
    TABLES,
    Pack,
    PackFacts,
    day_columns,
    row_columns,
)
from gdelphi.measures.pack_rows import PackRows
from gdelphi.measures.space import BLOCKS, Points

LOCKED = "cloud_starts"
"""the file that tells whether another process adds to a pack: every day adds to it"""
COUNTS = ("counts", "root_weights", "fine", "pairs", "acted", "world")


@dataclass(frozen=True, eq=False)
class Beginning:
    """The first days of a pack, which another one begins with."""

    pack: Pack
    days: int
    sizes: Mapping[str, int]
    """bytes of each file that they take"""
    blocks: Mapping[str, BlockDigests]
    """checksums of these bytes"""

    @classmethod
    def of(cls, pack: Pack, days: int) -> "Beginning | None":
        """None if the pack is damaged where something would be added to it."""
        noted = read_checksums(pack.folder).blocks
        sizes, found = pack.bytes_of(days), dict[str, BlockDigests]()
        for name, size in sizes.items():
            path = pack.folder / f"{name}.bin"
            blocks = blocks_within(path, noted.get(path.name, {}), size)
            if blocks is None:
                return None
            found[name] = blocks
        return cls(pack, days, sizes, found)

    def lay(self, folder: Path) -> BinaryIO | None:
        """Put the files into a folder, ready to be added to. If they are those of the pack itself,
        what is returned keeps others from adding to them until it is closed."""
        lock = (self.pack.folder / f"{LOCKED}.bin").open("rb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name, size in self.sizes.items():
                if (self.pack.folder / f"{name}.bin").stat().st_size != size:
                    raise BlockingIOError  # there is more in it than these days
            for name in self.sizes:
                os.link(self.pack.folder / f"{name}.bin", folder / f"{name}.bin")
        except OSError:
            lock.close()
        else:
            return lock
        for name, size in self.sizes.items():
            (folder / f"{name}.bin").unlink(missing_ok=True)
            _copy_beginning(self.pack.folder / f"{name}.bin", folder / f"{name}.bin", size)
        return None


def _copy_beginning(source: Path, target: Path, size: int) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        for first in range(0, size, BLOCK):
            written.write(read.read(min(BLOCK, size - first)))


class PackWriter:
    """Writes a pack, day by day."""

    def __init__(
        self, folder: Path, facts: PackFacts, points: Points, beginning: Beginning | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._facts, self._points = folder, facts, points
        self.streams = facts.streams
        self._beginning = beginning
        self._lock = beginning.lay(folder) if beginning else None
        self.days = beginning.days if beginning else 0
        """that are there from the beginning"""
        names = [*day_columns(facts), *row_columns(facts), "cloud_starts", "atom_starts", *TABLES]
        mode = "r+b" if beginning else "wb"
        self._files = {name: (folder / f"{name}.bin").open(mode) for name in names}
        ends = {name: file.seek(0, os.SEEK_END) for name, file in self._files.items()}
        keys = beginning.pack.keys_of(beginning.days) if beginning else {}
        self._places: dict[str, dict[str, int]] = {
            name: {key: place for place, key in enumerate(keys.get(name, ()))} for name in TABLES
        }
        self._numbers = {name: ends[name] // 4 for name in TABLES}
        self.points = ends["weights"] // 4
        """of all clouds so far"""
        self._atoms = ends["atom_weights"] // 4
        if not beginning:
            for name in ("cloud_starts", "atom_starts"):
                self._write(name, np.zeros(1), np.int64)
        self._moved: dict[tuple[int, str], npt.NDArray[np.int64]] = {}

    def add_day(self, rows: PackRows) -> None:
        """All streams of the next day."""
        known, partial, backfile = rows.flags
        self.add_flags(known=known, partial=partial, backfile=backfile)
        self.add_rows(rows)
        self.end_days()

    def add_flags(self, *, known: bool, partial: bool, backfile: bool) -> None:
        """Begin the next day; its streams follow, in their order, and then `end_days`."""
        self._write("flags", np.array([known, partial, backfile]), np.bool_)

    def end_days(self, number: int = 1) -> None:
        """The last days have all their streams."""
        ends = np.array([[self._numbers[name] for name in TABLES]] * number)
        self._write("table_ends", ends, np.int64)

    def add_rows(self, rows: PackRows) -> None:
        """The next streams of the day that was begun."""
        slots = {name: getattr(rows, name) for name in ("slots", "atom_slots")}
        moved = self._places_of(rows.keys, np.concatenate([*slots.values()]))
        for name, values in slots.items():
            columns = [moved[table][values[:, block]] for block, table in enumerate(BLOCKS)]
            self._write(name, np.stack(columns, axis=1), np.int32)
        for name in ("weights", "atom_points", "atom_weights"):
            self._write(name, getattr(rows, name), np.float32)
        self._write("states", rows.states, np.int8)
        self._write("statistics", rows.statistics, np.float64)
        self._add_sizes(rows.sizes, rows.atom_sizes.ravel())

    def _places_of(
        self, keys: Mapping[str, Sequence[str]], slots: npt.NDArray[Any]
    ) -> dict[str, IntArray]:
        """For each table the positions of keys in it; those that slots use are added if new."""
        found = {}
        for table, places in self._places.items():
            blocks = [block for block, name in enumerate(BLOCKS) if name == table]
            used = np.unique(slots[:, blocks])  # in the order in which they were met
            new = [key for key in map(keys[table].__getitem__, used) if key not in places]
            if new:
                self._write(table, self._points.vectors(table, new), np.float32)
                places.update(zip(new, range(len(places), len(places) + len(new)), strict=True))
            found[table] = np.array([places.get(key, -1) for key in keys[table]], np.int64)
        return found

    def _add_sizes(self, clouds: IntArray, atoms: IntArray) -> None:
        """Note where the next clouds and descriptors begin."""
        self._write("cloud_starts", self.points + np.cumsum(clouds), np.int64)
        self._write("atom_starts", self._atoms + np.cumsum(atoms), np.int64)
        self.points += int(clouds.sum())
        self._atoms += int(atoms.sum())

    def take_days(self, pack: Pack, days: range) -> None:
        """The next days, as another pack of the same streams has them, with their counts."""
        streams = len(pack.facts.streams)
        self._write("flags", pack.day_values("flags", days), np.bool_)
        for day in days:  # so that each knows how far the tables are
            self._take(pack, day * streams, (day + 1) * streams)
            self.end_days()

    def take_stream(self, pack: Pack, day: int, stream: int) -> None:
        """The next stream of the day that was begun, as another pack has it."""
        place = day * len(pack.facts.streams) + stream
        self._take(pack, place, place + 1)

    def _take(self, pack: Pack, first: int, last: int) -> None:
        """The stream's days at some places of another pack."""
        for name, values in pack.rows_at(first, last).items():
            if name.endswith("slots"):
                self._write(name, self._moved_slots(pack, values), np.int32)
            else:
                self._write(name, values, np.float32)
        self._add_sizes(*pack.sizes_at(first, last))
        self._write("states", pack.states.reshape(-1)[first:last], np.int8)
        statistics = pack.statistics.reshape(-1, STATISTICS)[first:last]
        self._write("statistics", statistics, np.float64)

    def _moved_slots(self, pack: Pack, slots: npt.NDArray[Any]) -> IntArray:
        """Positions in another pack's tables as positions in these; new keys come with vectors, in
        the order that they have there: as they were first met."""
        for table in self._places:
            blocks = [block for block, name in enumerate(BLOCKS) if name == table]
            self._take_keys(pack, table, slots[:, blocks].ravel())
        moved = [self._moved[id(pack), name][slots[:, block]] for block, name in enumerate(BLOCKS)]
        return np.stack(moved, axis=1)

    def _take_keys(self, pack: Pack, table: str, places: npt.NDArray[Any]) -> None:
        keys, own = pack.keys[table], self._places[table]
        moved = self._moved.setdefault((id(pack), table), np.full(len(keys), -1, np.int64))
        met = np.unique(places)
        new = met[moved[met] < 0]
        fresh = [place for place in new.tolist() if keys[place] not in own]
        if fresh:
            self._write(table, pack.tables[table][fresh], np.float32)
            for place in fresh:
                own[keys[place]] = len(own)
        moved[new] = [own[keys[place]] for place in new.tolist()]

    def _write(self, name: str, values: npt.NDArray[Any], kind: npt.DTypeLike) -> None:
        self._files[name].write(np.ascontiguousarray(values, dtype=kind).tobytes())
        if name in self._places:
            self._numbers[name] += values.size

    def add_counts(self, panel: CountPanel) -> None:
        """The counts of the next days that have none yet."""
        arrays = {"counts": panel.roots.counts, "root_weights": panel.roots.weights}
        for name in COUNTS:
            values = arrays[name] if name in arrays else getattr(panel, name)
            kind, _ = day_columns(self._facts)[name]
            self._write(name, values.swapaxes(0, 1) if name in BY_STREAM else values, kind)

    def take_counts(self, pack: Pack, days: range) -> None:
        """The same, as another pack of the same streams has them."""
        for name in COUNTS:
            self._write(name, pack.day_values(name, days), day_columns(self._facts)[name][0])

    def abandon(self) -> None:
        """Give up a pack that will not be finished; shared files are as they were."""
        for name, file in self._files.items():
            file.flush()
            if self._lock and self._beginning:
                file.truncate(self._beginning.sizes[name])
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._lock:
            self._lock.close()

    def close(self) -> None:
        """Finish, when all days and their counts are there."""
        for file in self._files.values():
            file.flush()
        known = self._beginning.blocks if self._beginning else {}
        for name in self._files:
            note_blocks(self._folder / f"{name}.bin", known.get(name, {}))
        keys = {name: list(places) for name, places in self._places.items()}
        (self._folder / "keys.json").write_text(json.dumps(keys), encoding="utf-8")
        facts = {"format": FORMAT, **asdict(self._facts)}
        (self._folder / "pack.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")
        self._close()
