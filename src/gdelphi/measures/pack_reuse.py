"""What earlier packs have of a new one: a stream's day that has not changed is not made again.

Every pack keeps, beside its days, what each was made from. A new pack takes over all days of
streams that another one has of the same space, rule and seed: with a new day all others, with other
streams those that both have. What is taken over are the same bytes that would be made anew. Days
that both begin with are not even copied, if nothing comes after them (`pack_writer.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.checksums import damaged_files
from gdelphi.common.errors import MeasuresError
from gdelphi.common.files import remove_folder, remove_left_over
from gdelphi.common.types import BoolArray
from gdelphi.measures.pack import Pack
from gdelphi.measures.pack_writer import Beginning

MADE_FROM: Final = "made_from.json"
MOST_PACKS: Final = 4
"""packs of other streams that are kept, the one used last first"""


class MadeFrom(NamedTuple):
    """What the days of a pack were made from; days in their order."""

    recipe: str
    """of everything but streams and days"""
    first_day: str
    days: tuple[str | None, ...]
    """fingerprint of each day's clouds; None where it is missing"""

    def write(self, folder: Path) -> None:
        (folder / MADE_FROM).write_text(json.dumps(self._asdict()), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "MadeFrom":
        given = json.loads((folder / MADE_FROM).read_text(encoding="utf-8"))
        return cls(given["recipe"], given["first_day"], tuple(given["days"]))


@dataclass(frozen=True, eq=False)
class EarlierPack:
    """A pack, and which days of the new one it has."""

    pack: Pack
    same: BoolArray
    """[day of the new pack]"""
    shift: int
    """position of a day there less that in the new pack"""
    place: Mapping[str, int]
    """of each stream"""

    def days(self, ours: range) -> range:
        """Positions here of days of the new pack."""
        return range(ours.start + self.shift, ours.stop + self.shift)

    @cached_property
    def sound(self) -> bool:
        """Whether all of it is what was written. Looked at when something is to be copied."""
        return not damaged_files(self.pack.folder)

    @property
    def leading(self) -> int:
        """How many days both begin with."""
        return 0 if self.shift else int(np.append(self.same, False).argmin())


@dataclass(frozen=True)
class Stretch:
    """Consecutive days of the new pack, and where the streams of each are to be had from.

    With `whole` all streams lie in that pack as they are to lie here.
    """

    days: range
    whole: EarlierPack | None
    streams: tuple[EarlierPack | None, ...]
    """for each stream; None: to be made"""

    def lacking(self, streams: tuple[str, ...]) -> tuple[str, ...]:
        """The streams whose days are to be made."""
        return tuple(s for s, had in zip(streams, self.streams, strict=True) if had is None)


def earlier_packs(root: Path, made_from: MadeFrom) -> list[EarlierPack]:
    """The packs under a folder that can serve; what cannot be read cannot."""
    found = []
    for folder in sorted(path for path in root.glob("[!.]*") if path.is_dir()):
        try:
            theirs = MadeFrom.read(folder)
            if theirs.recipe != made_from.recipe:
                continue
            pack = Pack(folder)
        except (OSError, ValueError, KeyError, TypeError, MeasuresError):
            continue
        shift = (np.datetime64(made_from.first_day) - np.datetime64(theirs.first_day)).astype(int)
        same = np.array(
            [
                0 <= number + shift < len(theirs.days) and theirs.days[number + shift] == mark
                for number, mark in enumerate(made_from.days)
            ],
            dtype=np.bool_,
        )
        place = {stream: number for number, stream in enumerate(pack.facts.streams)}
        found.append(EarlierPack(pack, same, int(shift), place))
    return found


def beginning_of(earlier: Sequence[EarlierPack], streams: tuple[str, ...]) -> Beginning | None:
    """The most days that an earlier pack of the same streams begins with."""
    having = [one for one in earlier if one.pack.facts.streams == streams and one.leading]
    for one in sorted(having, key=lambda one: one.leading, reverse=True):
        beginning = Beginning.of(one.pack, one.leading)
        if beginning:
            return beginning
    return None


def stretches(
    earlier: Sequence[EarlierPack], streams: tuple[str, ...], days: range
) -> list[Stretch]:
    """Days in runs that are to be had from the same places."""

    def sources(day: int) -> tuple[int | None, tuple[int | None, ...]]:
        having = [number for number, one in enumerate(earlier) if one.same[day] and one.sound]
        for number in having:
            if earlier[number].pack.facts.streams == streams:
                return number, (number,) * len(streams)
        found = [
            next((n for n in having if stream in earlier[n].place), None) for stream in streams
        ]
        return None, tuple(found)

    def one(number: int | None) -> EarlierPack | None:
        return None if number is None else earlier[number]

    runs = []
    for (whole, parts), group in groupby(days, sources):
        numbers = list(group)
        run = range(numbers[0], numbers[-1] + 1)
        runs.append(Stretch(run, one(whole), tuple(map(one, parts))))
    return runs


def remove_packs(root: Path, kept: Path, streams: Sequence[str]) -> None:
    """Packs of the same streams go, and the oldest of others; so does what killed processes left.

    Whoever has one open keeps it: the system frees closed files alone.
    """
    remove_left_over(root)
    others = []
    for folder in root.glob("[!.]*"):
        if folder == kept:
            continue
        try:
            facts = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
            superseded = facts["streams"] == list(streams)
            others += [] if superseded else [(folder.stat().st_mtime_ns, folder)]
        except (OSError, ValueError, KeyError, TypeError):
            superseded = True
        if superseded:
            remove_folder(folder)
    for _, folder in sorted(others)[: max(0, len(others) - (MOST_PACKS - 1))]:
        remove_folder(folder)
