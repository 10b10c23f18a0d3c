"""A prediction: all that is published about one stream on one day, and what it rests on.

`Forecast` is what judges see: probabilities and shares of one level. A prediction has one for each
level and, beside it, whatever an analyst needs to check the numbers: the members that were
combined, the hundred futures with their weights, the days that they were drawn from, the day in
brief.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from gdelphi.common.types import (
    LEVELS,
    BoolArray,
    FloatArray,
    Forecast,
    IntArray,
    Level,
    VectorArray,
)
from gdelphi.forecast.future_weights import Reweighted
from gdelphi.forecast.publisher import LevelForecasts
from gdelphi.forecast.week import WeekPrediction

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


LEAST_NAMED: Final = 0.005
"""share of a future's day: lighter atoms keep the phrase that they come from. They are half of all
atoms, and nobody reads them"""

Naming = Literal["origin", "nearest", "namer"]
"""how atoms are named: see naming.py"""


class Phrase(NamedTuple):
    """A phrase by its codes."""

    actor1: str
    code: str
    actor2: str


class AtomNamer(Protocol):
    """Names the atoms of one stream, with what may be known at one origin."""

    by: Naming

    def name(self, points: VectorArray, weights: FloatArray) -> list[Phrase | None]:
        """The phrases of points [n, dimension] of weights [n]; None: no phrase was found."""


class NamedAtoms(NamedTuple):
    """Atoms by their names."""

    phrases: tuple[Phrase, ...]
    """of each atom"""
    unreadable: int
    """atoms for which no phrase was found: they keep the one that they were drawn from"""


def name_future_atoms(
    namer: AtomNamer | None, points: VectorArray, weights: FloatArray, drawn: Sequence[Phrase]
) -> NamedAtoms:
    """The phrases of atoms by a namer; without one, or where it finds none, the phrases that they
    were drawn from."""
    if namer is None or not len(drawn):
        return NamedAtoms(tuple(drawn), 0)
    names = namer.name(points, weights)
    phrases = (own if name is None else name for name, own in zip(names, drawn, strict=True))
    return NamedAtoms(tuple(phrases), names.count(None))


@dataclass(frozen=True, eq=False)
class StreamFutures:
    """The futures of one stream: K days drawn from its past, moved on or recombined."""

    days: tuple[date, ...]
    """that each was drawn from, [K]"""
    donors: tuple[date, ...]
    """second day of each, which lends it roots, [K]"""
    lent: BoolArray
    """the roots that come from the second day, [K, root]"""
    points: VectorArray
    """atoms, [K, n, dimension]"""
    weights: VectorArray
    """of atoms, [K, n]; 0: no atom"""
    gates: VectorArray
    """probability that an atom exists, [K, n]"""
    spare: BoolArray
    """not of the drawn day: of the stream's last days if futures are moved, of the second day if
    they are recombined, [K, n]"""
    drawn_phrases: tuple[Phrase, ...]
    """distinct phrases that atoms come from"""
    drawn_index: IntArray
    """position of each atom's phrase among them, [K, n]"""
    happens: BoolArray
    """which roots occur, on the day that each comes from, [K, root]"""
    reweighted: Reweighted
    """weights that agree with the published probabilities"""
    seed: int
    namer: AtomNamer | None = None
    """by which readers see atoms named; None: by the phrase that they come from"""

    def days_of(self, root: int) -> list[date]:
        """The day that each future has the root at a place from, [K]."""
        both = zip(self.days, self.donors, self.lent[:, root], strict=True)
        return [donor if lent else day for day, donor, lent in both]

    @property
    def shown_phrases(self) -> tuple[Phrase, ...]:
        """Phrases that readers see: those that atoms come from, and further ones of the namer."""
        return self._shown[0]

    @property
    def shown_index(self) -> IntArray:
        """Position of each atom's name among them, [K, n]."""
        return self._shown[1]

    @property
    def unreadable(self) -> int:
        """Atoms that could not be named, and keep the phrase that they come from."""
        return self._shown[2]

    @property
    def naming(self) -> Naming:
        """How atoms are named."""
        return "origin" if self.namer is None else self.namer.by

    @property
    def heavy(self) -> BoolArray:
        """The atoms that are given to the namer, [K, n]."""
        heavy: BoolArray = self.weights >= LEAST_NAMED
        return heavy

    @property
    def renamed(self) -> BoolArray:
        """The atoms that are named other than the phrase that they come from, [K, n]."""
        renamed: BoolArray = np.zeros(self.drawn_index.shape, dtype=np.bool_)
        atoms = self.weights > 0
        renamed[atoms] = [
            self.shown_phrases[shown] != self.drawn_phrases[drawn]
            for shown, drawn in zip(self.shown_index[atoms], self.drawn_index[atoms], strict=True)
        ]
        return renamed

    @cached_property
    def _shown(self) -> tuple[tuple[Phrase, ...], IntArray, int]:
        """Made when asked for: whoever only judges probabilities needs no words."""
        if self.namer is None:
            return self.drawn_phrases, self.drawn_index, 0
        atoms = self.heavy
        drawn = [self.drawn_phrases[place] for place in self.drawn_index[atoms]]
        weights = self.weights[atoms].astype(np.float64)
        named = name_future_atoms(self.namer, self.points[atoms], weights, drawn)
        phrases = list(self.drawn_phrases)
        places = {phrase: place for place, phrase in enumerate(phrases)}
        for phrase in named.phrases:
            if phrase not in places:
                places[phrase] = len(phrases)
                phrases.append(phrase)
        index = self.drawn_index.copy()
        index[atoms] = [places[phrase] for phrase in named.phrases]
        return tuple(phrases), index, named.unreadable

    @property
    def exists(self) -> BoolArray:
        """Which futures are days with anything on them, [K]: those that likelier than not have an
        atom. A future of closed gates is an empty day, whatever its atoms would weigh."""
        exists: BoolArray = 1 - np.prod(1 - self.gates.astype(np.float64), axis=1) > 0.5
        return exists


class BriefAtom(NamedTuple):
    """One atom of the expected day."""

    phrase: Phrase
    """its name"""
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
    levels: LevelForecasts
    members: Mapping[Level, Mapping[str, Forecast]]
    """level -> member -> its forecast"""
    contributions: Mapping[Level, Mapping[str, Mapping[str, FloatArray]]]
    """level -> combined or stack -> target -> what each feature adds to its logit, [code, feature];
    the features are named by `Stack.features`"""
    published: Mapping[Level, Mapping[str, str]]
    """level -> target -> combined or stack"""
    futures: StreamFutures
    brief: tuple[BriefAtom, ...]
    """the expected day in 3 to 10 phrases, the heaviest first"""
    ranges: Mapping[Level, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """level -> target -> lowest and highest probability that was published on validation B"""
    week: WeekPrediction | None = None
    """the seven days after the origin; None: not asked for, or the model knows nothing of them"""

    def said(self, level: Level, target: str) -> tuple[float, float]:
        """The range of probabilities that are known to be calibrated."""
        return self.ranges.get(level, {}).get(target, (0.0, 1.0))

    @property
    def target_day(self) -> date:
        """The day that is forecast."""
        return self.origin + timedelta(days=self.horizon)

    def level(self, level: Level) -> Forecast:
        """The published forecast of a level."""
        forecast: Forecast = getattr(self.levels, level)
        return forecast

    @cached_property
    def table(self) -> "pandas.DataFrame":
        """Published probabilities and shares as a data frame, one row for each code of all levels:
        level, code, occurs, headline, surge, share (the mean), share_05, share_50, share_95."""
        import pandas

        frames = []
        for level in LEVELS:
            forecast = self.level(level)
            columns = {
                "level": level,
                "code": forecast.codes,
                "occurs": forecast.occurs,
                "headline": forecast.headline,
                "surge": forecast.surge,
                "share": forecast.share_mean,
                "share_05": forecast.share_quantile(0.05),
                "share_50": forecast.share_quantile(0.5),
                "share_95": forecast.share_quantile(0.95),
            }
            frames.append(pandas.DataFrame(columns))
        return pandas.concat(frames, ignore_index=True)

    @property
    def samples(self) -> FloatArray:
        """Shares of the roots in each future, [K, root]; their weights are
        `futures.reweighted.weights`."""
        return np.asarray(self.levels.root.share_samples)
