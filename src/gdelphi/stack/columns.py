"""The columns of the intensity: what a day's expected rows are a weighted sum of.

Nearly all are multiples of what is usual, about 1 where all is as usual, for each root by itself:

    own         the stream's own rows, 1 to 14 days before
    level       exponential means of its own rows, by root, by quad class and over all
    partners    rows of streams that it has to do with, 1 to 3 days before
    borders     rows of its neighbours, likewise
    everyone    rows of all other streams, likewise
    acted       rows anywhere with an actor of the stream's country, by days and by means
    foreign     rows between its actors and those of others, cooperation and conflict, 1 to 7 days
    hostile     likewise, with those alone with whom it mostly has conflict

A column is a series over days, as known after each of them, and a lag; it is built for the days
that are asked for, and for no other. Fine codes are columns too, 1 where a code was there so many
days before, but there are thousands of them: only those that a fit has let in are ever built.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from gdelphi.common.types import BoolArray, FloatArray, IntArray, VectorArray
from gdelphi.gdelt.cameo import quad_class
from gdelphi.measures.count_panel import QUAD_CLASSES, CountPanel
from gdelphi.stack.affinity import CONFLICT, COOPERATION, affinities, hostile_pairs
from gdelphi.stack.usual import (
    PRIOR_DAYS,
    USUAL_HALF_LIFE,
    Usual,
    back,
    by_day,
    day_before,
    exponential_mean,
    weekday_factors,
)

LAGS: Final = 14  # days back, of own rows and of fine codes
OTHER_LAGS: Final = 3  # of other streams' rows, and of what a country's people did anywhere
PAIR_LAGS: Final = 7  # of rows between countries
HALF_LIVES: Final = (3.0, 7.0, 14.0, 30.0, 90.0)  # of levels, in days
ACTED_HALF_LIVES: Final = (7.0, 30.0)
MOST: Final = 15.0  # times the usual: more than that is not counted
LEAST_WORLD: Final = 0.05  # of the mean rows of a day all over the world: a day is not smaller
CONSTANT: Final = "constant"
QUAD_NAMES: Final = ("verbal cooperation", "material cooperation", "verbal conflict", "material conflict")  # fmt: skip  # noqa: E501

Series = TypeVar("Series", VectorArray, FloatArray)
CodeLag = tuple[str, int]
"""a fine code, and how many days before the target day it was there"""


# --- what columns need of the days that they are fitted on ----------------------------------------


@dataclass(frozen=True, eq=False)
class Norms:
    """What columns are measured by, from the days up to the last fit day."""

    weekdays: FloatArray
    """[weekday, stream, root], factors"""
    affinities: Mapping[str, FloatArray]
    """[stream, stream] by name"""
    hostile: FloatArray
    """[stream, stream], how hostile two streams are"""
    acted_shares: FloatArray
    """[root], of the rows with actors of the streams"""
    world_rows: float
    """all over the world on a mean day"""


def norms_of(panel: CountPanel, fit_days: IntArray) -> Norms:
    """What columns are measured by."""
    size = int(fit_days[-1]) + 1
    acted = panel.acted[:, :size].sum(axis=(0, 1), dtype=np.float64)
    world = panel.world[:size][panel.roots.present[:size]].sum(axis=1)
    return Norms(
        weekdays=weekday_factors(panel, fit_days),
        affinities=affinities(panel, size),
        hostile=hostile_pairs(panel, size),
        acted_shares=acted / max(acted.sum(), 1.0),
        world_rows=max(float(world.mean()), 1.0),
    )


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """Columns of one kind with the same lag."""

    names: tuple[str, ...]
    values: VectorArray
    """[day, stream, series], as known after each day"""
    lag: int
    chosen: tuple[int, ...] | None = None
    """which series the columns are; None for all"""

    @property
    def kind(self) -> str:
        """The first word of its names: own, level, partners, ..."""
        return self.names[0].partition(" ")[0]

    @property
    def half_life(self) -> float:
        """Of a block of exponential means, in days."""
        return float(self.names[0].rpartition("half-life ")[2])

    def select(self, wanted: frozenset[str]) -> "ColumnBlock":
        """Those of its columns whose name is wanted."""
        chosen = self.chosen or range(len(self.names))
        kept = [(name, at) for name, at in zip(self.names, chosen, strict=True) if name in wanted]
        return replace(
            self, names=tuple(name for name, _ in kept), chosen=tuple(at for _, at in kept)
        )

    def at(self, days: IntArray) -> VectorArray:
        """Values for target days, [day, stream, column]."""
        return self.chosen_of(back(self.values, self.lag, days))

    def chosen_of(self, series: Series) -> Series:
        """The columns among all series of the block, [..., series]."""
        return series if self.chosen is None else series[..., list(self.chosen)]


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that can be built for any days of a panel, and for the one after its last."""

    blocks: tuple[ColumnBlock, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for block in self.blocks for name in block.names)

    def select(self, names: Sequence[str]) -> "Columns":
        """The columns of these names, in the order that they have here."""
        wanted = frozenset(names)
        chosen = (block.select(wanted) for block in self.blocks)
        return Columns(tuple(block for block in chosen if block.names))

    def at(self, days: IntArray) -> VectorArray:
        """Their values for target days, from the days before, [day, stream, column]."""
        streams = self.blocks[0].values.shape[1]
        values = np.empty((len(days), streams, len(self.names)), np.float32)
        begin = 0
        for block in self.blocks:
            end = begin + len(block.names)
            values[:, :, begin:end] = block.at(days)
            begin = end
        return values


def columns_of(panel: CountPanel, usual: Usual, norms: Norms) -> Columns:
    """All columns but fine codes and standing levels."""
    blocks = [_constant(panel)]
    blocks += _own(panel, usual)
    blocks += _others(panel, usual, norms)
    blocks += _acted(panel, norms)
    blocks += _between(panel, norms)
    return Columns(tuple(blocks))


def is_base(name: str) -> bool:
    """Whether a column is part of a stream's state, not of what its news excite."""
    return name == CONSTANT or name.startswith("level ")


def quad_members(roots: Sequence[str]) -> BoolArray:
    """[quad class, root], which roots are in each of the four quad classes."""
    classes = np.array([quad_class(root) for root in roots])
    members: BoolArray = classes == np.arange(1, QUAD_CLASSES + 1)[:, None]
    return members


def code_presence(panel: CountPanel, codes: Sequence[CodeLag], days: IntArray) -> VectorArray:
    """1 where a code was there so many days before the target day, [day, stream, code and lag]."""
    place = {code: number for number, code in enumerate(panel.fine_codes)}
    found = np.zeros((len(days), len(panel.roots.streams), len(codes)), np.float32)
    for number, (code, lag) in enumerate(codes):
        there = (panel.fine[:, :, place[code]] > 0).T.astype(np.float32)
        found[:, :, number] = back(there, lag, days)
    return found


def _constant(panel: CountPanel) -> ColumnBlock:
    """The same on every day, the one after the last included."""
    streams, days, _ = panel.roots.counts.shape
    return ColumnBlock((CONSTANT,), np.ones((days + 1, streams, 1), np.float32), 0)


def _lagged(name: str, of: Sequence[str], values: VectorArray, lags: int) -> Iterator[ColumnBlock]:
    for lag in range(1, lags + 1):
        yield ColumnBlock(tuple(f"{name} {each} lag {lag}" for each in of), values, lag)


def _averaged(
    name: str,
    of: Sequence[str],
    values: VectorArray,
    present: BoolArray,
    half_lives: Sequence[float],
) -> Iterator[ColumnBlock]:
    for half_life in half_lives:
        names = tuple(f"{name} {each} half-life {half_life:g}" for each in of)
        yield ColumnBlock(names, exponential_mean(values, present, half_life), 1)


def _own(panel: CountPanel, usual: Usual) -> Iterator[ColumnBlock]:
    """The stream's own rows: on days before, and their levels by root and by quad class."""
    roots, present = panel.roots.codes, panel.roots.present
    capped = np.minimum(usual.multiples, np.float32(MOST))
    yield from _lagged("own", roots, capped, LAGS)
    yield from _averaged("level", roots, capped, present, HALF_LIVES)
    members = [*quad_members(roots), np.ones(len(roots), np.bool_)]
    rows = usual.multiples * usual.rows
    # A class without roots, in a panel that has not all of them, is 0 throughout.
    sums = [
        rows[..., each].sum(axis=2) / np.maximum(usual.rows[..., each].sum(axis=2), 1e-9)
        for each in members
    ]
    grouped = np.stack(sums, axis=2)
    yield from _averaged("level", (*QUAD_NAMES, "all"), grouped, present, HALF_LIVES)


def _others(panel: CountPanel, usual: Usual, norms: Norms) -> Iterator[ColumnBlock]:
    """Rows of other streams over what is usual there, weighted by affinity; 1 without others."""
    rows = (usual.multiples * usual.rows).astype(np.float64)
    normal = usual.rows.astype(np.float64)
    for name, affinity in norms.affinities.items():
        # A product of the same shape for every day: its rounding is the same in any panel.
        ratio = (affinity @ rows / np.maximum(affinity @ normal, 1e-6)).astype(np.float32)
        ratio[:, affinity.sum(axis=1) <= 0] = 1
        yield from _lagged(name, panel.roots.codes, ratio, OTHER_LAGS)


def _acted(panel: CountPanel, norms: Norms) -> Iterator[ColumnBlock]:
    """Rows anywhere with an actor of the country, over what is usual for it."""
    roots, present = panel.roots.codes, panel.roots.present
    rows = by_day(panel.acted) / _world_size(panel, norms)[:, None, None]
    volume = exponential_mean(rows.sum(axis=2, keepdims=True), present, USUAL_HALF_LIFE)
    prior = volume * norms.acted_shares + 0.01
    usual = exponential_mean(rows, present, USUAL_HALF_LIFE, prior=prior, prior_days=PRIOR_DAYS)
    ratio = np.minimum(rows / day_before(usual + np.float32(1e-3)), MOST)
    ratio = (ratio * present[:, None, None]).astype(np.float32)
    yield from _lagged("acted", roots, ratio, OTHER_LAGS)
    yield from _averaged("acted", roots, ratio, present, ACTED_HALF_LIVES)


def _between(panel: CountPanel, norms: Norms) -> Iterator[ColumnBlock]:
    """Rows between the country and others, over what is usual for it."""
    present = panel.roots.present
    size = _world_size(panel, norms)[:, None]
    everybody = np.ones_like(norms.hostile)
    for name, weights in (("foreign", everybody), ("hostile", norms.hostile)):
        rows = _weighted_pairs(panel, weights)
        for kind, classes in (("cooperation", COOPERATION), ("conflict", CONFLICT)):
            number = rows[..., classes].sum(axis=2) / size
            prior = np.full_like(number, 0.05)
            usual = exponential_mean(
                number, present, USUAL_HALF_LIFE, prior=prior, prior_days=PRIOR_DAYS / 2
            )
            ratio = (number / day_before(usual) * present[:, None]).astype(np.float32)
            yield from _lagged(name, (kind,), ratio[:, :, None], PAIR_LAGS)


def _weighted_pairs(panel: CountPanel, weights: FloatArray) -> FloatArray:
    """Rows of each stream with the others by their weights, [day, stream, quad class]."""
    days, streams, _, classes = panel.pairs.shape
    rows = np.zeros((days, streams, classes))
    for other in range(streams):
        rows += panel.pairs[:, :, other] * weights[:, other, None]
    return rows


def _world_size(panel: CountPanel, norms: Norms) -> FloatArray:
    """Rows all over the world, in multiples of a mean day, [day]."""
    size: FloatArray = np.maximum(panel.world.sum(axis=1) / norms.world_rows, LEAST_WORLD)
    return size
