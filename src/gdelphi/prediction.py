"""A prediction: all that is published about one stream on one day, and what it rests on.

`Forecast` is what judges see: probabilities and shares of one level. A prediction has one for each
level and, beside it, whatever an analyst needs to check the numbers: the members that were
combined, the hundred futures with their weights, the days that they were drawn from, the day in
brief.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gdelphi.cameo import Level
from gdelphi.publish import Levels
from gdelphi.tilt import Tilted
from gdelphi.types import BoolArray, FloatArray, Forecast, IntArray, VectorArray

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


class Phrase(NamedTuple):
    """An observed phrase by its codes."""

    actor1: str
    code: str
    actor2: str


@dataclass(frozen=True, eq=False)
class StreamFutures:
    """The futures of one stream: K days drawn from its past, moved on."""

    days: tuple[date, ...]
    """that each was drawn from, [K]"""
    points: VectorArray
    """atoms, [K, n, dimension]"""
    weights: VectorArray
    """of atoms, [K, n]; 0: no atom"""
    gates: VectorArray
    """probability that an atom exists, [K, n]"""
    spare: BoolArray
    """not of the drawn day but of the stream's last days, [K, n]"""
    phrases: tuple[Phrase, ...]
    """distinct phrases that atoms come from"""
    named: IntArray
    """position of each atom's phrase, [K, n]"""
    happens: BoolArray
    """which roots occur on the drawn day, [K, root]"""
    tilted: Tilted
    """weights that agree with the published probabilities"""
    seed: int

    @property
    def exists(self) -> BoolArray:
        """Which futures are days with anything on them, [K]: those that likelier than not have an
        atom. A future of closed gates is an empty day, whatever its atoms would weigh."""
        found: BoolArray = 1 - np.prod(1 - self.gates.astype(np.float64), axis=1) > 0.5
        return found


class BriefAtom(NamedTuple):
    """One atom of the expected day, named by an observed phrase."""

    phrase: Phrase
    weight: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is published about one stream and day."""

    stream: str
    origin: date
    horizon: int
    partial: bool
    """the origin's news day was not complete"""
    levels: Levels
    members: Mapping[Level, Mapping[str, Forecast]]
    """level -> member -> what it says"""
    contributions: Mapping[Level, Mapping[str, FloatArray]]
    """level -> target -> what each feature adds to the combination's logit, [code, feature]"""
    features: Mapping[Level, tuple[str, ...]]
    published: Mapping[Level, Mapping[str, str]]
    """level -> target -> combined or stack"""
    futures: StreamFutures
    brief: tuple[BriefAtom, ...]
    """the expected day in 3 to 10 phrases, the heaviest first"""

    @property
    def target_day(self) -> date:
        return self.origin + timedelta(days=self.horizon)

    def level(self, level: Level) -> Forecast:
        """The published forecast of a level."""
        found: Forecast = getattr(self.levels, level)
        return found

    @cached_property
    def table(self) -> "pandas.DataFrame":
        """Published probabilities and shares, one row for each code of all levels."""
        import pandas

        rows = []
        for level in ("root", "base", "full"):
            said = self.level(level)
            low, middle, high = (said.share_quantile(q) for q in (0.05, 0.5, 0.95))
            mean = said.share_mean
            for number, code in enumerate(said.codes):
                rows.append(
                    {
                        "level": level,
                        "code": code,
                        "occurs": said.occurs[number],
                        "headline": said.headline[number],
                        "surge": said.surge[number],
                        "share": mean[number],
                        "share_05": low[number],
                        "share_50": middle[number],
                        "share_95": high[number],
                    }
                )
        return pandas.DataFrame(rows)

    @property
    def samples(self) -> FloatArray:
        """Shares of the roots in each future, [K, root]; weights are `futures.tilted.weights`."""
        return np.asarray(self.levels.root.share_samples)
