"""Sequences: what a forecaster learns from, drawn from a pack and never all held in memory.

A sequence is about one stream and one target day: 50 days of clouds and descriptors before it as
context, up to 365 days of descriptors and profiles as memory, and what the target day brought. Days
are consecutive calendar days; one that is missing, empty or small is there and says so. A day can
be a target if it is known and the whole context lies inside the data; which part of the split a
sequence belongs to is decided by its target alone.

For training, the descriptors of a sequence are drawn at random, for each day its own or one of the
random ones: so 10,000 sequences of a few hundred days differ from each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart, split_days
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    Measure,
)
from gdelphi.measures.pack import STATES, Pack
from gdelphi.measures.profiles import shares_of


class PastDays(NamedTuple):
    """Past days of a stream up to the origin, the oldest first."""

    days: tuple[date, ...]
    present: BoolArray
    """[day]"""
    atoms: tuple[Measure, ...]
    """the descriptor of each day; no atoms where the day is missing or empty"""
    counts: IntArray
    """rows by root code, [day, code]"""
    shares: FloatArray
    """share of weight by root code, [day, code]; 0 where the day has none"""


class SequenceDay(NamedTuple):
    """One day of a sequence."""

    day: date
    state: str
    partial: bool
    backfile: bool
    statistics: FloatArray
    """volume, phrases, mentions, entropy, 4 quad shares, Goldstein value, tone"""
    slots: npt.NDArray[np.int32]
    """the cloud's points as positions in the pack's tables, [n, blocks]"""
    weights: npt.NDArray[np.float32]
    """the cloud's weights, [n]"""
    atoms: Measure
    """the descriptor"""


@dataclass(frozen=True, eq=False)
class DaySequence:
    """A stream's days up to an origin, and the day after it."""

    stream: str
    part: SplitPart | None
    context: tuple[SequenceDay, ...]
    memory: PastDays
    target: SequenceDay

    @property
    def origin(self) -> date:
        return self.context[-1].day


class SequenceDraw(NamedTuple):
    """Where a sequence lies: positions of stream and target day, the descriptor of each day."""

    stream: int
    target: int
    variants: tuple[int, ...]
    """of the context's days and the target"""


class Sequences:
    """The sequences of a pack."""

    def __init__(self, pack: Pack, settings: Settings) -> None:
        self.pack = pack
        self._context = settings.sequences.context_days
        self._memory = settings.sequences.memory_days
        last = pack.first_day + timedelta(days=pack.facts.days - 1)
        # By shares, the last training day would move with every new day; what was fitted does not.
        cutoff = settings.split.train_until or date.fromisoformat(pack.facts.cutoff)
        pinned = settings.split.model_copy(update={"train_until": cutoff})
        self.splits = split_days(pack.first_day, last, pinned)

    def day(self, number: int) -> date:
        return self.pack.first_day + timedelta(days=number)

    @cached_property
    def _parts(self) -> list[SplitPart | None]:
        return [self.splits.part(self.day(number)) for number in range(self.pack.facts.days)]

    def targets(self, part: SplitPart) -> IntArray:
        """Positions of the days that can be targets in a part."""
        return np.array(
            [
                number
                for number in range(self._context, self.pack.facts.days)
                if self._parts[number] == part and self.pack.present[number]
            ],
            dtype=np.int64,
        )

    def __len__(self) -> int:
        known = self.pack.present[self._context :]
        return int(known.sum()) * len(self.pack.facts.streams)

    def get(self, drawn: SequenceDraw) -> DaySequence:
        """The sequence at a place."""
        first = drawn.target - self._context
        if first < 0 or drawn.target >= self.pack.facts.days:
            raise MeasuresError(
                f"day {drawn.target} of {self.pack.facts.days} is no target: it has to lie in the "
                f"data, with {self._context} days before it"
            )
        days = [
            self._day(number, drawn.stream, variant)
            for number, variant in zip(range(first, drawn.target + 1), drawn.variants, strict=True)
        ]
        stream = self.pack.facts.streams[drawn.stream]
        memory = self.memory(drawn.stream, drawn.target - 1)
        return DaySequence(stream, self._parts[drawn.target], tuple(days[:-1]), memory, days[-1])

    def plain(self, stream: int, target: int) -> DaySequence:
        """The sequence with each day's own descriptor."""
        return self.get(SequenceDraw(stream, target, (0,) * (self._context + 1)))

    def _day(self, number: int, stream: int, variant: int) -> SequenceDay:
        slots, weights = self.pack.cloud(number, stream)
        return SequenceDay(
            self.day(number),
            STATES[self.pack.states[number, stream]],
            bool(self.pack.partial[number]),
            bool(self.pack.backfile[number]),
            self.pack.statistics[number, stream],
            slots,
            weights,
            self.pack.atoms(number, stream, variant),
        )

    def memory(self, stream: int, origin: int) -> PastDays:
        """The memory of a stream at an origin."""
        first = max(origin + 1 - self._memory, 0)
        days = range(first, origin + 1)
        window = slice(first, origin + 1)
        return PastDays(
            tuple(self.day(number) for number in days),
            self.pack.present[window],
            tuple(self.pack.atoms(number, stream) for number in days),
            self.pack.counts[stream, window],
            shares_of(self.pack.weights[stream, window]),
        )

    def draw(
        self, number: int, *, part: SplitPart = "train", seed: int = 0
    ) -> Iterator[SequenceDraw]:
        """Random places in a part: targets and streams alike, descriptors at random."""
        targets = self.targets(part)
        if not len(targets):
            raise MeasuresError(
                f"no day of {part} ({' to '.join(map(str, self.splits.days(part)))}) has "
                f"{self._context} days before it: more days, other splits, or a shorter "
                "sequences.context_days"
            )
        random = np.random.default_rng(seed)
        for _ in range(number):
            stream = int(random.integers(len(self.pack.facts.streams)))
            target = int(random.choice(targets))
            variants = random.integers(self.pack.facts.variants + 1, size=self._context + 1)
            yield SequenceDraw(stream, target, tuple(variants.tolist()))
