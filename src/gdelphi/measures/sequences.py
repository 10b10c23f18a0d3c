"""Sequences: where the examples that a forecaster learns from lie in a pack.

A sequence is about one stream and one target day, with `sequences.context_days` consecutive
calendar days before it; one that is missing, empty or small is there and says so. A day can be a
target if it is known and the whole context lies inside the data; which part of the split a sequence
belongs to is decided by its target alone. Batches are made in `model/batches.py`, texts in
`text/dataset.py`.

For texts, the descriptors of a sequence are drawn at random, for each day its own or one of the
random ones: so 10,000 sequences of a few hundred days differ from each other.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart, split_days
from gdelphi.common.types import (
    IntArray,
)
from gdelphi.measures.pack import Pack


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
