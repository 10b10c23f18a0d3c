"""Sequences: where the examples that a forecaster learns from lie in a pack.

A sequence is about one stream and one target day, with `sequences.context_days` consecutive
calendar days before it; one that is missing, empty or small is there and says so. A day can be a
target if it is known and the whole context lies inside the data; which part of the split a sequence
belongs to is decided by its target alone. Batches are made in `model/batches.py`, texts in
`text/data.py`.
"""

from datetime import date, timedelta
from functools import cached_property

import numpy as np

from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart, split_days
from gdelphi.common.types import (
    IntArray,
)
from gdelphi.measures.pack import Pack


class Sequences:
    """The sequences of a pack."""

    def __init__(self, pack: Pack, settings: Settings) -> None:
        self.pack = pack
        self.context_days = settings.sequences.context_days
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
                for number in range(self.context_days, self.pack.facts.days)
                if self._parts[number] == part and self.pack.present[number]
            ],
            dtype=np.int64,
        )
