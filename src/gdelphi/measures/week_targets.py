"""Targets of the week: what is asked about the seven days after an origin, and what came of it.

Of each day h = 1..7 after the origin the three targets of `targets.py` are asked, the surge against
the threshold as known at the origin. Of the seven days together, *within the week*:

    occurs     at least one row on at least one day
    headline   a headline on at least one day
    surge      the largest of the seven shares exceeds the threshold of the origin
    rows       the number of rows

Two questions are where a forecaster can earn most. An *onset cell* is a stream and event without a
row on the 30 days up to the origin; whether it occurs within the week is the target. An
*escalation* of a stream: rows of material conflict within the week at least double the mean week of
the last 28 days; asked where these had at least 4 rows, so that doubling means at least 2.

A week with a missing day has no outcome within, since nobody can say that nothing happened on it; a
missing day before the origin counts as one without rows.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import AHEAD, TARGETS, BoolArray, FloatArray, History
from gdelphi.gdelt.cameo import quad_class
from gdelphi.measures.targets import (
    days_until,
    headline_of,
    occurs_of,
    shares_of,
    surge_threshold,
    surged,
)

QUIET_DAYS: Final = 30  # without a row, that make a cell an onset cell
ESCALATION_DAYS: Final = 28  # before the origin, that an escalation is measured by
ESCALATION_ROWS: Final = 4  # of material conflict on them, at least
ESCALATION_FACTOR: Final = 2.0
MATERIAL_CONFLICT: Final = 4  # quad class


class WeekOutcomes(NamedTuple):
    """What came of the week after an origin; NaN where undefined or not known."""

    daily: FloatArray
    """[target, day, stream, code]"""
    within: FloatArray
    """[target, stream, code]"""
    rows: FloatArray
    """[day, stream, code]"""
    escalation: FloatArray
    """[stream]"""


def week_outcomes(history: History, origin: date) -> WeekOutcomes:
    """Of the seven days after an origin, as far as the history has them."""
    streams, codes = len(history.streams), len(history.codes)
    daily = np.full((len(TARGETS), AHEAD, streams, codes), np.nan)
    rows = np.full((AHEAD, streams, codes), np.nan)
    threshold = surge_threshold(history, origin)
    known = days_until(history, origin)
    for ahead in range(min(AHEAD, len(history.days) - known)):
        at = known + ahead
        if history.present[at]:
            weights = history.weights[:, at]
            daily[0, ahead] = occurs_of(history.counts[:, at])
            daily[1, ahead] = headline_of(weights)
            daily[2, ahead] = surged(shares_of(weights), threshold)
            rows[ahead] = history.counts[:, at]
    before = escalation_base(history, origin)
    came = rows[:, :, material_conflict(history.codes)].sum(axis=(0, 2))
    escalated = np.where(np.isnan(before + came), np.nan, came >= ESCALATION_FACTOR * before)
    return WeekOutcomes(daily, daily.max(axis=1), rows, escalated)


def onset_cells(history: History, origin: date) -> BoolArray:
    """Cells without a row on the last days up to the origin, [stream, code]."""
    known = days_until(history, origin)
    recent = occurs_of(history.counts[:, max(known - QUIET_DAYS, 0) : known])
    return np.asarray(~recent.any(axis=1))


def escalation_base(history: History, origin: date) -> FloatArray:
    """Rows of material conflict in a mean week before the origin, [stream]; NaN where escalation is
    not asked about."""
    known = days_until(history, origin)
    recent = history.counts[:, max(known - ESCALATION_DAYS, 0) : known]
    number = recent[:, :, material_conflict(history.codes)].sum(axis=(1, 2))
    return np.where(number >= ESCALATION_ROWS, number * AHEAD / ESCALATION_DAYS, np.nan)


def material_conflict(codes: Sequence[str]) -> BoolArray:
    """Which codes belong to material conflict, [code]."""
    return np.array([quad_class(code[:2]) == MATERIAL_CONFLICT for code in codes], np.bool_)
