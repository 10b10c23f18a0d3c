"""What a pack has of some streams on one day, as arrays.

A process that makes random descriptors sends its day back in this form. The objects that it was
made from, fifty clouds and two hundred and fifty descriptors of a few atoms, take longer to send
and to write one by one than to make. Keys are sent once for the day; positions among them become
positions in the tables of the pack where it is written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray, IntArray, Measure, VectorArray
from gdelphi.measures.clouds import Cloud, SetStatistics
from gdelphi.measures.descriptors import Descriptor, RandomPart
from gdelphi.measures.pack import STATES, STATISTICS, TABLES
from gdelphi.measures.space import BLOCKS


class Made(NamedTuple):
    """A stream's day with its descriptors."""

    cloud: Cloud
    own: Descriptor
    parts: Sequence[RandomPart]
    """random descriptors"""


class PackRows(NamedTuple):
    """Streams of a day, one after the other."""

    keys: Mapping[str, tuple[str, ...]]
    """of each table, in the order in which they are met"""
    flags: tuple[bool, bool, bool]
    """of the day: known, partial, backfile"""
    states: npt.NDArray[np.int8]
    """[stream], positions in STATES"""
    statistics: FloatArray
    """[stream, STATISTICS]"""
    sizes: IntArray
    """[stream], points"""
    atom_sizes: IntArray
    """[stream, descriptor], atoms"""
    weights: VectorArray
    """[point]"""
    slots: npt.NDArray[np.int32]
    """[point, block], positions in `keys`"""
    atom_points: VectorArray
    """[atom, dim]"""
    atom_weights: VectorArray
    """[atom]"""
    atom_slots: npt.NDArray[np.int32]
    """[atom, block], positions in `keys`"""

    def stream(self, number: int) -> "PackRows":
        """One of the streams, with the keys of all."""
        first, first_atom = int(self.sizes[:number].sum()), int(self.atom_sizes[:number].sum())
        points = slice(first, first + int(self.sizes[number]))
        atoms = slice(first_atom, first_atom + int(self.atom_sizes[number].sum()))
        own = slice(number, number + 1)
        return self._replace(
            **{name: getattr(self, name)[own] for name in ("states", "statistics", "sizes")},
            **{name: getattr(self, name)[points] for name in ("weights", "slots")},
            **{name: getattr(self, name)[atoms] for name in self._fields[-3:]},
            atom_sizes=self.atom_sizes[own],
        )


def pack_rows(made: Sequence[Made]) -> PackRows:
    """The rows of some streams of one day."""
    head = made[0].cloud
    clouds = [each.cloud for each in made]
    places: dict[str, dict[str, int]] = {table: {} for table in TABLES}
    slots = [_slots(places, *cloud.phrase_columns()) for cloud in clouds]
    atoms: list[Measure] = []
    atom_slots = []
    for each, of_cloud in zip(made, slots, strict=True):
        own = each.own.phrases
        atoms += [each.own.measure, *(Measure(part.points, part.weights) for part in each.parts)]
        atom_slots.append(_slots(places, own.actor1, own.code, own.actor2))
        atom_slots += [of_cloud[part.named] for part in each.parts]
    return PackRows(
        keys={table: tuple(known) for table, known in places.items()},
        flags=(head.known, head.partial, head.backfile),
        states=np.array([STATES.index(cloud.state) for cloud in clouds], np.int8),
        statistics=np.array([_flat(cloud.statistics) for cloud in clouds]).reshape(-1, STATISTICS),
        sizes=np.array([len(cloud) for cloud in clouds]),
        atom_sizes=np.array([len(atom.weights) for atom in atoms]).reshape(len(made), -1),
        weights=_together([cloud.weights for cloud in clouds], np.float32),
        slots=_together(slots, np.int32),
        atom_points=_together([atom.points for atom in atoms], np.float32),
        atom_weights=_together([atom.weights for atom in atoms], np.float32),
        atom_slots=_together(atom_slots, np.int32),
    )


def _slots(
    places: dict[str, dict[str, int]],
    actor1: Sequence[str],
    code: Sequence[str],
    actor2: Sequence[str],
) -> npt.NDArray[np.int32]:
    """Positions of phrases among the keys, [n, block]; new keys are added."""
    columns = []
    for table, keys in zip(BLOCKS, (code, actor1, actor2), strict=True):
        known = places[table]
        columns.append([known.setdefault(key, len(known)) for key in keys])
    return np.array(columns, np.int32).T


def _together(parts: Sequence[npt.NDArray[Any]], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate([part.astype(kind, copy=False) for part in parts])


def _flat(statistics: SetStatistics) -> list[float]:
    return [*statistics[:4], *statistics.quad_shares, *statistics[5:]]
