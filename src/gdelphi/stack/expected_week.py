"""Expected rows of the seven days after an origin, from an intensity that was fitted for tomorrow.

The intensity is linear in the multiples of the usual that past days had (`intensity.py`). So what
is to be expected on day h follows by putting, for the days between the origin and it, the expected
multiples of these days in place of what is not known yet:

    m_h  =  sum_j theta_j x_j(h),      x_j(h) known where its lag reaches back to the origin,
                                       else made from m_1 .. m_(h-1)

Nothing is fitted again: an announcement ten days before is seen by every horizon, an echo of
yesterday fades as the law says, and day 1 is the intensity's own answer to the last bit. What stays
approximate: standing levels are held at the origin's value, fine codes that are still to come have
their usual rate, and rows abroad with a country's actors are as usual. How much the answer for a
horizon may be trusted is for the regression of `week.py` to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np

from gdelphi.common.types import AHEAD, FloatArray, IntArray, VectorArray
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.columns import MOST, ColumnBlock, quad_members
from gdelphi.stack.intensity import Intensity, PastColumns, past_columns, portions
from gdelphi.stack.sparse_fit import LEAST_MULTIPLE
from gdelphi.stack.usual import back, exponential_mean

CODE_HALF_LIFE: Final = 90.0  # days, of the rate of a fine code that is still to come
TINY: Final = 1e-9


def expected_week(intensity: Intensity, panel: CountPanel, origins: IntArray) -> FloatArray:
    """Expected rows of the days after origins at these positions of a panel, [origin, day, stream,
    root]; from the days up to each origin alone."""
    past = past_columns(intensity, panel)
    rates = _code_rates(intensity, panel)
    roots = panel.roots
    expected = np.empty((len(origins), AHEAD, *intensity.shapes.shape))
    first = roots.days[0]
    for part, some in portions(origins):
        week = _Week(intensity, past, rates, some)
        usual = past.usual.rows[some]
        for ahead in range(1, AHEAD + 1):
            days = [first + timedelta(days=int(at) + ahead) for at in some]
            factors = intensity.norms.weekdays[[day.weekday() for day in days]]
            # In this order: day 1 is rounded as the intensity itself rounds it.
            expected[part, ahead - 1] = usual * factors * week.next_multiples()
    return expected


@dataclass(frozen=True, eq=False)
class _CodeRate:
    """A fine code: where it was, and how often it is there, both [day, stream]."""

    there: VectorArray
    rate: VectorArray


def _code_rates(intensity: Intensity, panel: CountPanel) -> dict[str, _CodeRate]:
    place = {code: number for number, code in enumerate(panel.fine_codes)}
    rates = {}
    for code in {code for code, _ in intensity.final.codes}:
        there = (panel.fine[:, :, place[code]] > 0).T.astype(np.float32)
        rates[code] = _CodeRate(there, exponential_mean(there, panel.roots.present, CODE_HALF_LIFE))
    return rates


class _Week:
    """Expected multiples of the usual after some origins, one day after the other."""

    def __init__(
        self,
        intensity: Intensity,
        past: PastColumns,
        rates: dict[str, _CodeRate],
        origins: IntArray,
    ) -> None:
        self.intensity, self.past, self.rates, self.origins = intensity, past, rates, origins
        self.usual = past.usual.rows[origins].astype(np.float64)
        self.multiples: list[FloatArray] = []
        """of days 1, 2, ... that are done, [origin, stream, root]"""
        self.levels: dict[int, FloatArray] = {}
        """of the blocks of exponential means, by their place, as they will be after these days"""
        roots = intensity.roots
        self.classes = [*quad_members(roots), np.ones(len(roots), np.bool_)]

    def next_multiples(self) -> FloatArray:
        """Of the day after those that are done, [origin, stream, root]."""
        ahead = len(self.multiples) + 1
        columns = [
            self._block(place, block, ahead) for place, block in enumerate(self.past.columns.blocks)
        ]
        for code, lag in self.intensity.final.codes:
            known = self.rates[code]
            to_come = lag < ahead
            values = (
                known.rate[self.origins]
                if to_come
                else back(known.there, lag, self.origins + ahead)
            )
            columns.append(values[:, :, None])
        joined = np.concatenate([np.asarray(each, np.float32) for each in columns], axis=2)
        matrix = np.ascontiguousarray(joined)  # rounding depends on the order in memory
        multiples = np.maximum(matrix @ self.intensity.final.stacked, LEAST_MULTIPLE)
        self.multiples.append(multiples.astype(np.float64))
        return multiples

    def _block(self, place: int, block: ColumnBlock, ahead: int) -> VectorArray | FloatArray:
        """The columns of a block for the day so many days ahead, [origin, stream, column]."""
        if block.lag == 0:  # the constant, and standing levels: as on the day after the origin
            return block.at(self.origins + 1)
        if block.lag >= ahead:
            return block.at(self.origins + ahead)
        return block.chosen_of(self._ahead(block.kind)(place, block, ahead - block.lag))

    def _ahead(self, kind: str) -> Callable[[int, ColumnBlock, int], FloatArray]:
        """How series of a kind go on after the origin."""
        if kind == "own":
            return lambda _, __, day: np.minimum(self.multiples[day - 1], MOST)
        if kind == "level":
            return self._level
        if kind in self.intensity.norms.affinities:
            return lambda _, __, day: self._others(kind, day)
        return lambda _, block, __: np.ones((len(self.origins), *block.values.shape[1:]))

    def _level(self, place: int, block: ColumnBlock, day: int) -> FloatArray:
        """An exponential mean after one day more; days come in their order."""
        multiples = self.multiples[day - 1]
        if block.values.shape[2] == multiples.shape[2]:
            added = np.minimum(multiples, MOST)
        else:
            rows = multiples * self.usual
            sums = [
                rows[..., each].sum(axis=2) / np.maximum(self.usual[..., each].sum(axis=2), TINY)
                for each in self.classes
            ]
            added = np.stack(sums, axis=2)
        before = self.levels.get(place)
        if before is None or day == 1:
            before = block.values[self.origins].astype(np.float64)
        decay = 0.5 ** (1 / block.half_life)
        self.levels[place] = decay * before + (1 - decay) * added
        return self.levels[place]

    def _others(self, kind: str, day: int) -> FloatArray:
        """Rows of other streams over what is usual there."""
        affinity = self.intensity.norms.affinities[kind]
        rows = affinity @ (self.multiples[day - 1] * self.usual)
        ratio: FloatArray = rows / np.maximum(affinity @ self.usual, 1e-6)
        ratio[:, affinity.sum(axis=1) <= 0] = 1
        return ratio
