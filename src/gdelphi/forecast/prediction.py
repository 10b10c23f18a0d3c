"""A prediction: all that is published about one stream on one day, and what it rests on.

`Forecast` is what judges see: probabilities and shares of one level. A prediction has one for each
level and, beside it, whatever an analyst needs to check the numbers: the members that were
combined, the hundred futures with their weights, the days that they were drawn from, the day in
brief.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    Forecast,
    IntArray,
    Level,
    VectorArray,
)
from gdelphi.forecast.future_weights import Reweighted
from gdelphi.forecast.publisher import Levels

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


LEAST_NAMED: Final = 0.005
"""of a future's day: lighter atoms keep the phrase that they come from. They are half of all atoms,
and nobody reads them"""

Naming = Literal["origin", "nearest", "namer"]
"""how atoms are called: see `names`"""


class Phrase(NamedTuple):
    """A phrase by its codes."""

    actor1: str
    code: str
    actor2: str


class Names(Protocol):
    """Calls the atoms of one stream, as it may at one origin."""

    by: Naming

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """What points [n, dimension] of weights [n] are called; None: no phrase was found."""


class Called(NamedTuple):
    """What atoms are called."""

    phrases: tuple[Phrase, ...]
    """of each atom"""
    unreadable: int
    """atoms for which no phrase was found: they keep the one that they were drawn from"""


def call_atoms(
    names: Names | None, points: VectorArray, weights: FloatArray, drawn: Sequence[Phrase]
) -> Called:
    """Call atoms by what names them; without that, by the phrases that they were drawn from."""
    if names is None or not len(drawn):
        return Called(tuple(drawn), 0)
    found = names.name(points, weights)
    both = zip(found, drawn, strict=True)
    return Called(tuple(own if new is None else new for new, own in both), found.count(None))


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
    tilted: Reweighted
    """weights that agree with the published probabilities"""
    seed: int
    names: Names | None = None
    """what readers see atoms called by; None: the phrase that they come from"""

    @property
    def called(self) -> tuple[Phrase, ...]:
        """Phrases that atoms are called by: those that they come from, and further ones."""
        return self._called[0]

    @property
    def calls(self) -> IntArray:
        """Position of what each atom is called, [K, n]."""
        return self._called[1]

    @property
    def unreadable(self) -> int:
        """Atoms that could not be named, and keep the phrase that they come from."""
        return self._called[2]

    @property
    def naming(self) -> Naming:
        """How atoms are called."""
        return "origin" if self.names is None else self.names.by

    @property
    def heavy(self) -> BoolArray:
        """The atoms that are named, [K, n]."""
        found: BoolArray = self.weights >= LEAST_NAMED
        return found

    @property
    def renamed(self) -> BoolArray:
        """The atoms that are called other than what they come from, [K, n]."""
        found: BoolArray = np.zeros(self.named.shape, dtype=np.bool_)
        there = self.weights > 0
        both = zip(self.calls[there], self.named[there], strict=True)
        found[there] = [self.called[new] != self.phrases[own] for new, own in both]
        return found

    @cached_property
    def _called(self) -> tuple[tuple[Phrase, ...], IntArray, int]:
        """Made when asked for: whoever only judges probabilities needs no words."""
        if self.names is None:
            return self.phrases, self.named, 0
        there = self.heavy
        drawn = [self.phrases[place] for place in self.named[there]]
        weights = self.weights[there].astype(np.float64)
        found = call_atoms(self.names, self.points[there], weights, drawn)
        called = list(self.phrases)
        places = {phrase: place for place, phrase in enumerate(called)}
        for phrase in found.phrases:
            if phrase not in places:
                places[phrase] = len(called)
                called.append(phrase)
        calls = self.named.copy()
        calls[there] = [places[phrase] for phrase in found.phrases]
        return tuple(called), calls, found.unreadable

    @property
    def exists(self) -> BoolArray:
        """Which futures are days with anything on them, [K]: those that likelier than not have an
        atom. A future of closed gates is an empty day, whatever its atoms would weigh."""
        found: BoolArray = 1 - np.prod(1 - self.gates.astype(np.float64), axis=1) > 0.5
        return found


class BriefAtom(NamedTuple):
    """One atom of the expected day."""

    phrase: Phrase
    """what it is called"""
    weight: float
    drawn: Phrase
    """phrase of the atom of futures that stands for it, by where that was drawn from"""


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
    contributions: Mapping[Level, Mapping[str, Mapping[str, FloatArray]]]
    """level -> combined or stack -> target -> what each feature adds to its logit, [code, feature];
    the features are named by `Stack.features`"""
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
