"""Descriptors on disk: those of all countries of a day in one Parquet file, made when they are due.

A day's file is due when its clouds, the space or the rule for atoms have changed. Days do not
depend on each other, so several processes share them. The stream of all rows has no descriptor
here: `describe_day` makes one on demand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.common.workers import share
from gdelphi.measures.clouds import (
    FILES_AT_HAND,
    Cloud,
    Clouds,
    coded,
    measures_folder,
    read_day,
)
from gdelphi.measures.day_files import (
    DayFolder,
    read_footer,
    read_table,
)
from gdelphi.measures.descriptors import (
    AtomPhrases,
    Descriptor,
    atom_rule,
    describe_day,
)
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.space import Points, Space
from gdelphi.ot.quantise import AtomRule

SAVE_EVERY = 10  # days, after which a run that is killed has them behind it
NO_MEMBERS: Final = np.zeros(0, dtype=np.int64)

OnDescribed = Callable[[int, int, int], None]
"""days done, days to do, descriptors made"""


@dataclass(frozen=True)
class Described:
    """What a run did."""

    built: int
    """days"""
    had: int
    removed: int
    descriptors: int
    atoms: int
    seconds: float


def descriptors_folder(settings: Settings, space: Space, rule: AtomRule) -> DayFolder:
    """One folder for each space and rule: another choice does not overwrite what was made."""
    name = f"{space.fingerprint}-{rule.fewest}-{rule.most}-{rule.explained:g}"
    return DayFolder(measures_folder(settings) / "descriptors" / name)


def days_due(settings: Settings, space: Space) -> list[date]:
    """The days whose descriptors are not there or not up to date."""
    made = descriptors_folder(settings, space, atom_rule(settings.measures)).made_from()
    return _due(Clouds(measures_folder(settings)).files.made_from(), made)


def _due(clouds: Mapping[date, str], made: Mapping[date, str]) -> list[date]:
    return [day for day in sorted(clouds) if made.get(day) != clouds[day]]


def update_descriptors(
    settings: Settings, space: Space, on_described: OnDescribed | None = None
) -> Described:
    """Describe the days that lack it. All texts must have been encoded before."""
    began = perf_counter()
    files = descriptors_folder(settings, space, atom_rule(settings.measures))
    clouds = Clouds(measures_folder(settings)).files.made_from()
    built = descriptors = atoms = 0
    with files.updating() as manifest:
        removed = manifest.keep_only(clouds)
        due = _due(clouds, manifest.known)
        for day, made, size in share(_Work(settings, space), due):
            manifest.known[day] = clouds[day]
            built, descriptors, atoms = built + 1, descriptors + made, atoms + size
            if built % SAVE_EVERY == 0 or built == len(due):
                manifest.save()
            if on_described:
                on_described(built, len(due), descriptors)
    seconds = perf_counter() - began
    return Described(built, len(clouds) - built, removed, descriptors, atoms, seconds)


@dataclass(frozen=True)
class _Work:
    """What a process needs to describe a day."""

    settings: Settings
    space: Space

    @cached_property
    def _rule(self) -> AtomRule:
        return atom_rule(self.settings.measures)

    @cached_property
    def _points(self) -> Points:
        return Points(self.space, open_cache(self.settings))

    def do(self, item: date) -> tuple[date, int, int]:
        """Write the descriptors of a day; how many they are, and their atoms."""
        on = read_day(Clouds(measures_folder(self.settings)).files.path(item))
        streams = sorted(stream for stream in on.streams if stream != WORLD)
        self._points.meet(*on.dictionaries())
        descriptors = [
            describe_day(on.cloud(stream), self._points, self._rule) for stream in streams
        ]
        files = descriptors_folder(self.settings, self.space, self._rule)
        write_descriptors(files, item, on.facts.fingerprint, descriptors)
        return item, len(descriptors), sum(map(len, descriptors))


# --- a day's file ---------------------------------------------------------------------------------


def write_descriptors(
    files: DayFolder, day: date, fingerprint: str, descriptors: Sequence[Descriptor]
) -> None:
    """Write the descriptors of a day."""
    index: dict[str, Any] = {}
    start = 0
    for descriptor in descriptors:
        index[descriptor.stream] = [start, len(descriptor), descriptor.state, descriptor.cost]
        start += len(descriptor)
    dimension = descriptors[0].points.shape[1] if descriptors else 1
    flat = np.concatenate(
        [np.zeros(0, np.float32), *(descriptor.points.ravel() for descriptor in descriptors)]
    )
    names = AtomPhrases._fields
    table = pa.table(
        {
            "point": pa.FixedSizeListArray.from_arrays(pa.array(flat), dimension),
            "weight": np.concatenate(
                [np.zeros(0), *(descriptor.weights for descriptor in descriptors)]
            ),
            "rows": np.concatenate([NO_MEMBERS, *(descriptor.rows for descriptor in descriptors)]),
            **{
                name: pa.array(
                    [
                        key
                        for descriptor in descriptors
                        for key in getattr(descriptor.phrases, name)
                    ],
                    pa.string(),
                )
                for name in names
            },
        }
    )
    files.write(day, table, {"fingerprint": fingerprint, "streams": index})


@dataclass(frozen=True, eq=False)
class DayDescriptors:
    """All descriptors of one day; the atoms are read when needed."""

    path: Path
    day: date
    streams: dict[str, Any]

    @cached_property
    def _columns(self) -> dict[str, Any]:
        table = read_table(self.path)
        points = table.column("point").combine_chunks()
        size = points.type.list_size
        columns: dict[str, Any] = {
            "points": points.flatten().to_numpy(zero_copy_only=False).reshape(-1, size),
            "weights": table.column("weight").to_numpy(),
            "rows": table.column("rows").to_numpy(),
        }
        return columns | {name: coded(table.column(name)) for name in AtomPhrases._fields}

    def descriptor(self, stream: str) -> Descriptor | None:
        """The descriptor of a stream without its cloud's members; None if it has no points."""
        if stream not in self.streams:
            return None
        start, size, state, cost = self.streams[stream]
        rows = slice(start, start + size)
        columns = self._columns
        names = [tuple(columns[name].at(rows).values()) for name in AtomPhrases._fields]
        return Descriptor(
            stream,
            self.day,
            state,
            columns["points"][rows],
            columns["weights"][rows],
            AtomPhrases(names[0], names[1], names[2]),
            columns["rows"][rows],
            cost,
            NO_MEMBERS,
        )


def read_descriptors(path: Path) -> DayDescriptors:
    """Open a day's file."""
    footer = read_footer(path)
    return DayDescriptors(path, date.fromisoformat(footer["day"]), footer["streams"])


class Descriptors:
    """All descriptors of a space and rule, read lazily."""

    def __init__(self, settings: Settings, space: Space) -> None:
        self.files = descriptors_folder(settings, space, atom_rule(settings.measures))
        self._dimension = space.dimension
        self.on = lru_cache(maxsize=FILES_AT_HAND)(self._on)
        """The descriptors of a day that has them."""

    @cached_property
    def days(self) -> tuple[date, ...]:
        return self.files.days()

    def _on(self, day: date) -> DayDescriptors:
        path = self.files.path(day)
        if not path.exists():
            raise MeasuresError(f"no descriptors of {day} in {self.files.folder}: `gdelphi embed`")
        return read_descriptors(path)

    def of(self, cloud: Cloud) -> Descriptor:
        """The descriptor of a cloud; one without atoms where it has no points."""
        descriptor = self.on(cloud.day).descriptor(cloud.stream) if len(cloud) else None
        if descriptor is not None:
            return descriptor
        points = np.zeros((0, self._dimension), dtype=np.float32)
        return Descriptor(
            cloud.stream,
            cloud.day,
            cloud.state,
            points,
            np.zeros(0),
            AtomPhrases((), (), ()),
            NO_MEMBERS,
            0.0,
            NO_MEMBERS,
        )
