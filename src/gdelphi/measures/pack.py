"""The pack: clouds and descriptors of chosen streams as flat files, mapped into memory, not read.

Training meets every day hundreds of times. Parquet files of whole days are right for keeping and
wrong for that, so they are packed once: each column of all days one after the other in a binary
file, and where each stream's day begins. A stream's day is then a slice; the system keeps in
memory what is in use. Points are kept by the positions of their slots in small tables of vectors
(16 bytes with the weight, in place of 516), which a device can hold and gather from.

All files are in the order of days, so a pack of more days is the same files with something added
(`pack_writer.py`). A pack is complete when its pack.json is there, and says what it was made from.
A file may be longer than the pack: the next one is being written, or writing it was broken off.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import MeasuresError
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    Measure,
    VectorArray,
)
from gdelphi.measures.count_panel import QUAD_CLASSES, CountPanel
from gdelphi.measures.descriptors import AtomPhrases
from gdelphi.measures.profiles import Profiles, standard_events
from gdelphi.measures.space import BLOCKS, Space

FORMAT: Final = 6
STATES: Final = ("missing", "empty", "small", "full")
STATISTICS: Final = 10
"""numbers of SetStatistics, its quad shares one by one"""
TABLES: Final = tuple(dict.fromkeys(BLOCKS))
"""of vectors"""
BY_STREAM: Final = ("counts", "root_weights", "fine", "acted")
"""arrays that are read as [stream, day, ...] and lie on disk as [day, stream, ...]"""

PackColumn = tuple[npt.DTypeLike, tuple[int, ...]]
"""kind and shape of what a file has for a day, or for a row"""


@dataclass(frozen=True)
class PackFacts:
    """What a pack holds and was made from."""

    streams: tuple[str, ...]
    first_day: str
    days: int
    """consecutive, with those that are missing"""
    variants: int
    """random descriptors of each day"""
    dimension: int
    space: str
    """fingerprint"""
    data: str
    """fingerprint of the clouds"""
    cutoff: str
    """last training day"""


def day_columns(facts: PackFacts) -> dict[str, PackColumn]:
    """The files that have as much for every day."""
    streams, roots = len(facts.streams), len(standard_events("root"))
    return {
        "states": (np.int8, (streams,)),
        "statistics": (np.float64, (streams, STATISTICS)),
        "flags": (np.bool_, (3,)),
        "table_ends": (np.int64, (len(TABLES),)),  # numbers that each table has up to the day
        "counts": (np.int64, (streams, roots)),
        "root_weights": (np.float64, (streams, roots)),
        "fine": (np.uint16, (streams, len(standard_events("full")))),
        "pairs": (np.uint16, (streams, streams, QUAD_CLASSES)),
        "acted": (np.uint16, (streams, roots)),
        "world": (np.int64, (roots,)),
    }


def row_columns(facts: PackFacts) -> dict[str, PackColumn]:
    """The files that have something for every point of a cloud, or atom of a descriptor."""
    return {
        "slots": (np.int32, (len(BLOCKS),)),
        "weights": (np.float32, ()),
        "atom_points": (np.float32, (facts.dimension,)),
        "atom_weights": (np.float32, ()),
        "atom_slots": (np.int32, (len(BLOCKS),)),
    }


class Pack:
    """A pack, for reading. Days and streams are given by position.

    All files are opened at once: a newer pack takes this one's place on the disk at any time, and
    a file that is open stays.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            facts = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MeasuresError(f"no pack in {folder}: `gdelphi sequences` makes one") from None
        except ValueError as error:
            raise self._damaged(error) from None
        if facts.pop("format", None) != FORMAT:
            raise MeasuresError(f"{folder} is a pack of another gdelphi: make it again")
        try:
            self.facts = PackFacts(**{**facts, "streams": tuple(facts["streams"])})
            self.shape = (self.facts.days, len(self.facts.streams))
            self._open()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from None

    def _open(self) -> None:
        days, streams = self.shape
        starts = {"cloud_starts": 1, "atom_starts": self.facts.variants + 1}
        self._panel: dict[str, npt.NDArray[Any]] = {
            name: self._map(name, np.int64, (days * streams * each + 1,))
            for name, each in starts.items()
        } | {
            name: self._map(name, kind, (days, *shape))
            for name, (kind, shape) in day_columns(self.facts).items()
        }
        keys = json.loads((self.folder / "keys.json").read_text(encoding="utf-8"))
        self.keys: Mapping[str, list[str]] = {name: list(values) for name, values in keys.items()}
        """what stands at each position of the tables"""
        self.tables: Mapping[str, VectorArray] = {
            name: self._map(name, np.float32, (int(numbers),)).reshape(
                len(self.keys[name]), -1 if self.keys[name] else 0
            )
            for name, numbers in zip(TABLES, self._panel["table_ends"][-1], strict=True)
        }
        """the vectors at each position of the tables, of length 1"""
        rows = {
            name: self._map(name, kind, (self.sizes[name.startswith("atom")], *shape))
            for name, (kind, shape) in row_columns(self.facts).items()
        }
        self._clouds = rows["slots"], rows["weights"]
        self._atoms = rows["atom_points"], rows["atom_weights"], rows["atom_slots"]

    def _map(self, name: str, kind: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        path = self.folder / f"{name}.bin"
        path.stat()  # it has to be there
        if 0 in shape:
            return np.zeros(shape, kind)
        # Copy-on-write: torch takes no array that is marked read-only, and no byte that a pack has
        # is ever changed. As a plain array: a slice of a memmap takes ten times as long.
        return np.memmap(path, kind, "c", shape=shape).view(np.ndarray)

    def bytes_of(self, days: int) -> dict[str, int]:
        """How many bytes of each file the first days take."""
        places = days * self.shape[1]
        variants = self.facts.variants + 1
        rows = self._panel["cloud_starts"][places], self._panel["atom_starts"][places * variants]
        numbers = {"cloud_starts": places + 1, "atom_starts": places * variants + 1}
        sizes = {name: 8 * number for name, number in numbers.items()}
        for name, (kind, shape) in day_columns(self.facts).items():
            sizes[name] = days * math.prod(shape) * np.dtype(kind).itemsize
        for name, (kind, shape) in row_columns(self.facts).items():
            number = int(rows[name.startswith("atom")])
            sizes[name] = number * math.prod(shape) * np.dtype(kind).itemsize
        for name, number in zip(TABLES, self._panel["table_ends"][days - 1], strict=True):
            sizes[name] = 4 * int(number)
        return sizes

    def keys_of(self, days: int) -> dict[str, list[str]]:
        """What stands in the tables as of the first days."""
        ends = zip(TABLES, self._panel["table_ends"][days - 1].tolist(), strict=True)
        return {
            name: self.keys[name][: end // max(self.tables[name].shape[1], 1)] for name, end in ends
        }

    def day_values(self, name: str, days: range) -> npt.NDArray[Any]:
        """What a file of `day_columns` has for some days."""
        return self._panel[name][days.start : days.stop]

    def _by_stream(self, name: str) -> npt.NDArray[Any]:
        """[stream, day, ...], in that order in memory too: sums of numbers depend on it."""
        return np.ascontiguousarray(self._panel[name].swapaxes(0, 1))

    def _damaged(self, error: Exception) -> MeasuresError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return MeasuresError(
            f"{self.folder} cannot be read ({reason}): delete it, and `gdelphi sequences` makes it "
            "again"
        )

    @cached_property
    def first_day(self) -> date:
        return date.fromisoformat(self.facts.first_day)

    @property
    def flags(self) -> BoolArray:
        """Whether a day is there, partial, from a backfile: [day, 3]."""
        return self._panel["flags"]

    def rows_at(self, first: int, last: int) -> dict[str, npt.NDArray[Any]]:
        """The columns of clouds and descriptors of a stretch of places, day * streams + stream."""
        variants = self.facts.variants + 1
        starts, atom_starts = self._panel["cloud_starts"], self._panel["atom_starts"]
        points = slice(starts[first], starts[last])
        atoms = slice(atom_starts[first * variants], atom_starts[last * variants])
        names = ("atom_points", "atom_weights", "atom_slots")
        clouds = {"slots": self._clouds[0][points], "weights": self._clouds[1][points]}
        return clouds | {
            name: values[atoms] for name, values in zip(names, self._atoms, strict=True)
        }

    def sizes_at(self, first: int, last: int) -> tuple[IntArray, IntArray]:
        """How many points and atoms each cloud and each descriptor of a stretch of places has."""
        variants = self.facts.variants + 1
        atoms = self._panel["atom_starts"][first * variants : last * variants + 1]
        return np.diff(self._panel["cloud_starts"][first : last + 1]), np.diff(atoms)

    @cached_property
    def states(self) -> npt.NDArray[np.int8]:
        """Positions in STATES, [day, stream]."""
        return self._panel["states"]

    @cached_property
    def present(self) -> BoolArray:
        """[day]"""
        return self._panel["flags"][:, 0]

    @cached_property
    def partial(self) -> BoolArray:
        """[day]"""
        return self._panel["flags"][:, 1]

    @cached_property
    def backfile(self) -> BoolArray:
        """[day]"""
        return self._panel["flags"][:, 2]

    @cached_property
    def statistics(self) -> FloatArray:
        """[day, stream, statistic]: volume, phrases, mentions, entropy, 4 quad shares, Goldstein
        value, tone."""
        return self._panel["statistics"]

    @cached_property
    def counts(self) -> IntArray:
        """Rows by root code, [stream, day, code]."""
        return self._by_stream("counts")

    @cached_property
    def weights(self) -> FloatArray:
        """Cloud weight by root code, [stream, day, code]."""
        return self._by_stream("root_weights")

    @cached_property
    def profiles(self) -> Profiles:
        """The root profiles of the pack's streams and days, as `read_profiles` gives them."""
        days = tuple(self.first_day + timedelta(days=number) for number in range(self.facts.days))
        volume = self.statistics[:, :, 0].T.astype(np.int64)
        codes = standard_events("root")
        return Profiles(
            self.facts.streams, days, codes, self.counts, self.weights, volume, self.present
        )

    @cached_property
    def count_panel(self) -> CountPanel:
        """Counts by fine code and by actors beside the root profiles."""
        return CountPanel(
            self.profiles,
            fine=self._by_stream("fine"),
            pairs=self._panel["pairs"],
            acted=self._by_stream("acted"),
            world=self._panel["world"],
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """Points of all clouds and atoms of all descriptors."""
        return int(self._panel["cloud_starts"][-1]), int(self._panel["atom_starts"][-1])

    def cloud(self, day: int, stream: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Positions in the tables [n, block] and weights [n] of a cloud's points."""
        starts = self._panel["cloud_starts"]
        place = day * self.shape[1] + stream
        rows = slice(starts[place], starts[place + 1])
        slots, weights = self._clouds
        return slots[rows], weights[rows]

    def clouds(
        self, days: IntArray, stream: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], IntArray]:
        """The same of several days of a stream, one after the other, and the points of each."""
        starts = self._panel["cloud_starts"]
        places = days * self.shape[1] + stream
        first, sizes = starts[places], starts[places + 1] - starts[places]
        rows = np.arange(sizes.sum()) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
        slots, weights = self._clouds
        return slots[rows], weights[rows], sizes

    @cached_property
    def atom_numbers(self) -> IntArray:
        """How many atoms the own descriptor of each day has, [day, stream]."""
        numbers = np.diff(self._panel["atom_starts"])[:: self.facts.variants + 1]
        return numbers.reshape(self.shape)

    def atoms(self, day: int, stream: int, variant: int = 0) -> Measure:
        """A descriptor as a measure: the day's own (0) or one of its random ones."""
        rows = self._atom_rows(day, stream, variant)
        points, weights, _ = self._atoms
        return Measure(points[rows], weights[rows].astype(np.float64))

    def atom_columns(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Points [atom, dim] and weights [atom] of all descriptors, one after the other, and where
        each begins: that of (day, stream, variant) at (day * streams + stream) * (variants + 1) +
        variant."""
        points, weights, _ = self._atoms
        return points, weights, self._panel["atom_starts"]

    def atom_phrases(self, day: int, stream: int, variant: int = 0) -> AtomPhrases:
        """What a descriptor's atoms are called."""
        rows = self._atom_rows(day, stream, variant)
        return self.phrases_at(np.arange(rows.start, rows.stop))

    def phrases_at(self, rows: IntArray) -> AtomPhrases:
        """What the atoms at rows of `atom_columns` are called."""
        return self.phrases_of(self._atoms[2][rows])

    def phrases_of(self, slots: npt.NDArray[Any]) -> AtomPhrases:
        """What stands at positions in the tables [n, block]."""
        code, actor1, actor2 = (
            tuple(map(self.keys[name].__getitem__, slots[:, block].tolist()))
            for block, name in enumerate(BLOCKS)
        )
        return AtomPhrases(actor1, code, actor2)

    def _atom_rows(self, day: int, stream: int, variant: int) -> slice:
        if not 0 <= variant <= self.facts.variants:
            raise MeasuresError(
                f"{self.folder} has descriptors 0 to {self.facts.variants} of a day, not {variant}"
            )
        starts = self._panel["atom_starts"]
        place = (day * self.shape[1] + stream) * (self.facts.variants + 1) + variant
        return slice(starts[place], starts[place + 1])

    def points(self, slots: npt.NDArray[Any], space: Space) -> VectorArray:
        """The points [n, dim] at positions in the tables [n, block]."""
        if not len(slots):
            return np.zeros((0, self.facts.dimension), dtype=np.float32)
        return space.join([self.tables[name][slots[:, block]] for block, name in enumerate(BLOCKS)])


class AlteredPack(Pack):
    """A pack with other clouds and counts on some days, in memory alone. Its folder is none, so
    that nothing kept beside the pack is taken for its own; descriptors stay as they are."""

    def __init__(
        self,
        pack: Pack,
        clouds: Mapping[tuple[int, int], tuple[npt.NDArray[Any], npt.NDArray[Any]]],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        """`clouds` by day and stream, as `cloud` gives them; `arrays` by the names of files, in
        the shapes in which a pack gives them."""
        self.folder = pack.folder / "altered"
        self.facts, self.shape = pack.facts, pack.shape
        self.keys, self.tables = pack.keys, pack.tables
        self._clouds, self._atoms = pack._clouds, pack._atoms
        changed = {
            name: values.swapaxes(0, 1) if name in BY_STREAM else values
            for name, values in arrays.items()
        }
        self._panel = {**pack._panel, **changed}
        self._altered = clouds

    def cloud(self, day: int, stream: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Positions in the tables [n, block] and weights [n] of a cloud's points."""
        altered = self._altered.get((day, stream))
        return super().cloud(day, stream) if altered is None else altered

    def clouds(
        self, days: IntArray, stream: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], IntArray]:
        """The same of several days."""
        if not any((day, stream) in self._altered for day in days.tolist()):
            return super().clouds(days, stream)
        slots, weights = zip(*(self.cloud(day, stream) for day in days.tolist()), strict=True)
        sizes = np.array([len(each) for each in weights], np.int64)
        return np.concatenate(slots), np.concatenate(weights), sizes
