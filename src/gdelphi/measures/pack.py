"""The pack: clouds and descriptors of chosen streams as flat files, mapped into memory, not read.

Training meets every day hundreds of times. Parquet files of whole days are right for keeping and
wrong for that, so they are packed once: each column of all days one after the other in a binary
file, and where each stream's day begins. A stream's day is then a slice; the system keeps in
memory what is in use. Points are kept by the positions of their slots in small tables of vectors
(16 bytes with the weight, in place of 516), which a device can hold and gather from.

Packing streams through the days in their order; nothing but the tables and a day's own rows is held
in memory. A pack is complete when its pack.json is there, and says what it was made from.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

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
from gdelphi.measures.clouds import Cloud, SetStatistics
from gdelphi.measures.count_panel import QUAD_CLASSES, CountPanel
from gdelphi.measures.descriptors import AtomPhrases, Descriptor
from gdelphi.measures.profiles import Profiles, standard_events
from gdelphi.measures.space import BLOCKS, Points, Space

FORMAT: Final = 4
STATES: Final = ("missing", "empty", "small", "full")
STATISTICS: Final = 10
"""numbers of SetStatistics, its quad shares one by one"""
COUNTS: Final[dict[str, npt.DTypeLike]] = {
    "fine": np.uint16, "pairs": np.uint16, "acted": np.uint16, "world": np.int64
}  # fmt: skip
"""arrays of the count panel, each a file"""


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


class PackWriter:
    """Writes a pack, day by day."""

    def __init__(self, folder: Path, facts: PackFacts, points: Points) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._facts, self._points = folder, facts, points
        tables = list(dict.fromkeys(BLOCKS))
        self._places: dict[str, dict[str, int]] = {name: {} for name in tables}
        names = ["weights", "slots", "atom_points", "atom_weights", "atom_slots", *tables]
        self._files = {name: (folder / f"{name}.bin").open("wb") for name in names}
        self._cloud_sizes: list[int] = []
        self._atom_sizes: list[int] = []
        self._states: list[int] = []
        self._statistics: list[list[float]] = []
        self._flags: list[tuple[bool, bool, bool]] = []
        self.points = 0
        """of all clouds so far"""
        self._moved: dict[tuple[int, str], npt.NDArray[np.int64]] = {}

    def add_day(self, clouds: Sequence[Cloud], descriptors: Sequence[Sequence[Descriptor]]) -> None:
        """The clouds of all streams on the next day, and of each the descriptors, its own first."""
        head = clouds[0]
        self.add_flags(known=head.known, partial=head.partial, backfile=head.backfile)
        for cloud, variants in zip(clouds, descriptors, strict=True):
            self.add_stream(cloud, variants)

    def add_flags(self, *, known: bool, partial: bool, backfile: bool) -> None:
        """Begin the next day; its streams follow, in their order."""
        self._flags.append((known, partial, backfile))

    def add_stream(self, cloud: Cloud, variants: Sequence[Descriptor]) -> None:
        """The next stream of the day that was begun."""
        self._write("weights", cloud.weights, np.float32)
        self._write("slots", self._slots(*cloud.phrase_columns()), np.int32)
        self._cloud_sizes.append(len(cloud))
        self.points += len(cloud)
        self._states.append(STATES.index(cloud.state))
        self._statistics.append(_flat(cloud.statistics))
        for variant in variants:
            self._write("atom_points", variant.points, np.float32)
            self._write("atom_weights", variant.weights, np.float32)
            self._write("atom_slots", self._slots(*variant.phrases), np.int32)
            self._atom_sizes.append(len(variant))

    def take_days(self, pack: "Pack", days: range) -> None:
        """The next days, as another pack of the same streams has them."""
        streams = len(pack.facts.streams)
        self._flags += [tuple(flags) for flags in pack.flags[days.start : days.stop].tolist()]
        self._take(pack, days.start * streams, days.stop * streams)

    def take_stream(self, pack: "Pack", day: int, stream: int) -> None:
        """The next stream of the day that was begun, as another pack has it."""
        place = day * len(pack.facts.streams) + stream
        self._take(pack, place, place + 1)

    def _take(self, pack: "Pack", first: int, last: int) -> None:
        """The stream's days at some places of another pack."""
        for name, values in pack.rows_at(first, last).items():
            if name.endswith("slots"):
                self._write(name, self._moved_slots(pack, values), np.int32)
            else:
                self._write(name, values, np.float32)
        cloud_sizes, atom_sizes = pack.sizes_at(first, last)
        self._cloud_sizes += cloud_sizes
        self.points += sum(cloud_sizes)
        self._atom_sizes += atom_sizes
        self._states += pack.states.ravel()[first:last].tolist()
        self._statistics += pack.statistics.reshape(-1, STATISTICS)[first:last].tolist()

    def _moved_slots(self, pack: "Pack", slots: npt.NDArray[Any]) -> IntArray:
        """Positions in another pack's tables as positions in these; new keys come with vectors, in
        the order that they have there: as they were first met."""
        for table in self._places:
            blocks = [block for block, name in enumerate(BLOCKS) if name == table]
            self._take_keys(pack, table, slots[:, blocks].ravel())
        moved = [self._moved[id(pack), name][slots[:, block]] for block, name in enumerate(BLOCKS)]
        return np.stack(moved, axis=1)

    def _take_keys(self, pack: "Pack", table: str, places: npt.NDArray[Any]) -> None:
        keys, own = pack.keys[table], self._places[table]
        moved = self._moved.setdefault((id(pack), table), np.full(len(keys), -1, np.int64))
        new = np.flatnonzero((np.bincount(places, minlength=len(keys)) > 0) & (moved < 0))
        fresh = [place for place in new.tolist() if keys[place] not in own]
        if fresh:
            self._write(table, pack.tables[table][fresh], np.float32)
            for place in fresh:
                own[keys[place]] = len(own)
        moved[new] = [own[keys[place]] for place in new.tolist()]

    def _write(self, name: str, values: npt.NDArray[Any], kind: npt.DTypeLike) -> None:
        self._files[name].write(np.ascontiguousarray(values, dtype=kind).tobytes())

    def _slots(self, actor1: Sequence[str], code: Sequence[str], actor2: Sequence[str]) -> IntArray:
        """Positions of phrases in the tables, [n, block]; new keys are added to the tables."""
        columns = zip(BLOCKS, (code, actor1, actor2), strict=True)
        return np.stack([self._look_up(*column) for column in columns], axis=1)

    def _look_up(self, table: str, keys: Sequence[str]) -> IntArray:
        places = self._places[table]
        new = [key for key in dict.fromkeys(keys) if key not in places]
        if new:
            self._write(table, self._points.vectors(table, new), np.float32)
            for key in new:
                places[key] = len(places)
        return np.array([places[key] for key in keys], dtype=np.int64)

    def abandon(self) -> None:
        """Close the files of a pack that will not be finished."""
        for file in self._files.values():
            file.close()

    def close(self, panel: CountPanel) -> None:
        """Finish with the counts of the days."""
        self.abandon()
        for name in COUNTS:
            (self._folder / f"{name}.bin").write_bytes(getattr(panel, name).tobytes())
        np.savez(
            self._folder / "panel.npz",
            cloud_starts=np.cumsum([0, *self._cloud_sizes]),
            atom_starts=np.cumsum([0, *self._atom_sizes]),
            states=np.array(self._states, np.int8),
            statistics=np.array(self._statistics, np.float64),
            flags=np.array(self._flags, np.bool_),
            counts=panel.roots.counts,
            weights=panel.roots.weights,
        )
        keys = {name: list(places) for name, places in self._places.items()}
        (self._folder / "keys.json").write_text(json.dumps(keys), encoding="utf-8")
        facts = {"format": FORMAT, **asdict(self._facts)}
        (self._folder / "pack.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _flat(statistics: SetStatistics) -> list[float]:
    return [*statistics[:4], *statistics.quad_shares, *statistics[5:]]


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
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise self._damaged(error) from None

    def _open(self) -> None:
        with (self.folder / "panel.npz").open("rb") as file, np.load(file) as panel:
            self._panel: dict[str, npt.NDArray[Any]] = {name: panel[name] for name in panel.files}
        keys = json.loads((self.folder / "keys.json").read_text(encoding="utf-8"))
        self.keys: Mapping[str, list[str]] = {name: list(values) for name, values in keys.items()}
        """what stands at each position of the tables"""
        self.tables: Mapping[str, VectorArray] = {
            name: self._map(name, np.float32).reshape(len(keys), -1 if keys else 0)
            for name, keys in self.keys.items()
        }
        """the vectors at each position of the tables, of length 1"""
        blocks, (points, atoms) = len(BLOCKS), self.sizes
        self._clouds = (
            self._map("slots", np.int32).reshape(points, blocks),
            self._map("weights", np.float32).reshape(points),
        )
        self._atoms = (
            self._map("atom_points", np.float32).reshape(atoms, self.facts.dimension),
            self._map("atom_weights", np.float32).reshape(atoms),
            self._map("atom_slots", np.int32).reshape(atoms, blocks),
        )
        self._counts = {name: self._map(name, kind) for name, kind in COUNTS.items()}

    def _map(self, name: str, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        path = self.folder / f"{name}.bin"
        if path.stat().st_size == 0:
            return np.zeros(0, kind)
        # Copy-on-write: torch takes no array that is marked read-only, and no file is ever changed.
        return np.memmap(path, kind, "c")

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

    def sizes_at(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """How many points and atoms each cloud and each descriptor of a stretch of places has."""
        variants = self.facts.variants + 1
        atoms = self._panel["atom_starts"][first * variants : last * variants + 1]
        return (
            np.diff(self._panel["cloud_starts"][first : last + 1]).tolist(),
            np.diff(atoms).tolist(),
        )

    @cached_property
    def states(self) -> npt.NDArray[np.int8]:
        """Positions in STATES, [day, stream]."""
        return self._panel["states"].reshape(self.shape)

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
        return self._panel["statistics"].reshape(*self.shape, STATISTICS)

    @cached_property
    def counts(self) -> IntArray:
        """Rows by root code, [stream, day, code]."""
        return self._panel["counts"]

    @cached_property
    def weights(self) -> FloatArray:
        """Cloud weight by root code, [stream, day, code]."""
        return self._panel["weights"]

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
        days, streams = self.shape
        roots = len(standard_events("root"))
        return CountPanel(
            self.profiles,
            fine=self._counts["fine"].reshape(streams, days, -1),
            pairs=self._counts["pairs"].reshape(days, streams, streams, QUAD_CLASSES),
            acted=self._counts["acted"].reshape(streams, days, roots),
            world=self._counts["world"].reshape(days, roots),
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
            tuple(self.keys[name][place] for place in slots[:, block])
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
        """`clouds` by day and stream, as `cloud` gives them; `arrays` by name: counts, weights,
        states, statistics, flags of the panel, and those of the count panel."""
        self.folder = pack.folder / "altered"
        self.facts, self.shape = pack.facts, pack.shape
        self.keys, self.tables = pack.keys, pack.tables
        self._clouds, self._atoms = pack._clouds, pack._atoms
        self._panel = {name: arrays.get(name, values) for name, values in pack._panel.items()}
        self._counts = {name: arrays.get(name, values) for name, values in pack._counts.items()}
        self._altered = clouds

    def cloud(self, day: int, stream: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Positions in the tables [n, block] and weights [n] of a cloud's points."""
        altered = self._altered.get((day, stream))
        return super().cloud(day, stream) if altered is None else altered
