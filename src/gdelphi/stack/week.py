"""The week ahead by everything that has no network: the regressions of `week_lines.py` at work.

On days of fitting the answers rest on fits that did not see those days.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from gdelphi.common.types import AHEAD, FloatArray, History
from gdelphi.measures.targets import surge_threshold
from gdelphi.measures.week_targets import escalation_base, material_conflict
from gdelphi.stack.expected_week import expected_week
from gdelphi.stack.fitted import BLOCK_DAYS, KEPT, CountForecasters
from gdelphi.stack.linear import ask, volume_features
from gdelphi.stack.week_lines import (
    ConflictInputs,
    OriginInputs,
    PastWeeks,
    WeekFit,
    week_scores,
)


def origin_inputs(
    counts: CountForecasters,
    past: PastWeeks,
    origins: Sequence[date],
    stack: FloatArray,
    members: FloatArray,
    expected: FloatArray,
) -> OriginInputs:
    """Of origins whose stack and baselines have answered, [target, origin, ...], with the expected
    rows of their weeks, [origin, day, stream, root]."""
    roots = counts.panel.roots
    positions = [(origin - roots.days[0]).days for origin in origins]
    thresholds = np.stack([surge_threshold(roots, origin) for origin in origins])
    rates = [past.rates(*each) for each in zip(positions, thresholds, strict=True)]
    hostile = material_conflict(roots.codes)
    last = [
        roots.counts[:, max(at + 1 - AHEAD, 0) : at + 1, hostile].sum(axis=(1, 2))
        for at in positions
    ]
    return OriginInputs(
        stack=stack,
        members=members,
        rates=np.moveaxis(np.stack(rates), (0, 1), (1, 4)),
        scores=week_scores(
            expected, counts.fit.intensity.shapes, counts.fit.row_weights.mean(axis=1), thresholds
        ),
        weekdays=np.array(
            [[(origin.weekday() + 1 + day) % 7 for day in range(AHEAD)] for origin in origins]
        ),
        volume=np.stack([volume_features(roots, origin) for origin in origins]),
        conflict=ConflictInputs(
            np.stack([escalation_base(roots, origin) for origin in origins]),
            np.stack(last).astype(np.float64),
            expected[..., hostile].sum(axis=(1, 3)),
        ),
    )


class WeekAnswer(NamedTuple):
    """What is said of the week after an origin without a network."""

    logits: FloatArray
    """[target, horizon, stream, root]; NaN where undefined"""
    simple: FloatArray
    """the same of the simple stack"""
    rows: FloatArray
    """expected, [day, stream, root]"""
    escalation: FloatArray
    """probabilities, [stream]; NaN where not asked about"""
    simple_escalation: FloatArray


class WeekStack:
    """The week ahead over the days of a panel."""

    def __init__(self, counts: CountForecasters, fit: WeekFit) -> None:
        self.counts, self.fit = counts, fit
        self._blocks = lru_cache(2)(self._make_block)
        self._latest: dict[date, WeekAnswer] = {}

    @cached_property
    def _past(self) -> PastWeeks:
        return PastWeeks(self.counts.panel.roots)

    def expected_rows(self, origin: date) -> FloatArray:
        """Of the days after an origin, [day, stream, root]."""
        position = (origin - self.counts.panel.roots.days[0]).days
        expected: FloatArray = self._blocks(position // BLOCK_DAYS)[position % BLOCK_DAYS]
        return expected

    def _make_block(self, number: int) -> FloatArray:
        """The same of many origins at once: what all need is made once."""
        last = min((number + 1) * BLOCK_DAYS, len(self.counts.panel.roots.days))
        origins = np.arange(number * BLOCK_DAYS, last)
        return expected_week(self.counts.fit.intensity, self.counts.panel, origins)

    def answer(self, history: History, origin: date) -> WeekAnswer:
        """The week after an origin; the last few are kept."""
        if origin not in self._latest:
            while len(self._latest) >= KEPT:
                self._latest.pop(next(iter(self._latest)))
            self._latest[origin] = self._answer(history, origin)
        return self._latest[origin]

    def _answer(self, history: History, origin: date) -> WeekAnswer:
        counts, day = self.counts, origin + timedelta(days=1)
        answers = counts.stack.answers(history, origin)
        members = counts.baselines.get(day)
        if members is None:  # a day of fitting, for which the stack asks nobody
            members = counts.baseline_logits(ask(counts.fit.simple.members, history, origin))
        expected = self.expected_rows(origin)[None]
        tomorrow, simple = answers.stack[:, None], answers.simple[:, None]
        inputs = origin_inputs(counts, self._past, [origin], tomorrow, members[:, None], expected)
        lines, plain, known = self.fit.lines, self.fit.simple, self.fit.at(origin)
        if known is None:
            known = lines.logits(inputs, expects=True, tomorrow=tomorrow)[:, 0]
        else:
            known[:, 0] = answers.stack  # as it is, where the others were rounded to be kept
        return WeekAnswer(
            known,
            plain.logits(inputs, expects=False, tomorrow=simple)[:, 0],
            expected[0],
            lines.escalations(inputs.conflict, expects=True)[0],
            plain.escalations(inputs.conflict, expects=False)[0],
        )
