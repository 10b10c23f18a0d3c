"""Probabilities of a week that agree with each other.

What is said of the seven days and of the week as a whole is fitted apart, so it may contradict
itself. For each stream and code

    headline, surge <= occurs            on each day, and within the week
    largest of the days <= within        what happens on a day happens within the week
    within <= sum of the days            it must happen on some day

Numbers that break one of these are projected onto what is possible, as those of tomorrow are
(publisher.py): the outcome is possible, so squared errors can only fall in sum. Two projections in
turn, for targets and for days, end close to numbers that fulfil all; what is left is cut. Tomorrow
has been published already and stays as it is.
"""

from typing import Final

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray

ROUNDS: Final = 5
OCCURS: Final = TARGETS.index("occurs")


def coherent_week(daily: FloatArray, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Daily probabilities [target, day, ...] and those within the week [target, ...], made to
    agree; NaN stays NaN, and the first day stays as it is."""
    days, week = daily.copy(), within.copy()
    for _ in range(ROUNDS):
        both = np.concatenate([days, week[:, None]], axis=1)
        both = within_occurs(both)
        for target in range(len(TARGETS)):
            days[target, 1:], week[target] = _days_within(
                daily[target, 0], both[target, 1:-1], both[target, -1]
            )
    # What rounding and the last projection have left: tomorrow first, then the days, then the week.
    days[:, 0] = daily[:, 0]
    days = np.fmin(days, np.where(np.isnan(days), np.nan, days[OCCURS]))
    most, least = np.minimum(days.sum(axis=1), 1.0), days.max(axis=1)
    week[OCCURS] = np.clip(week[OCCURS], least[OCCURS], most[OCCURS])
    week = np.clip(np.fmin(week, np.where(np.isnan(week), np.nan, week[OCCURS])), least, most)
    return days, week


def within_occurs(values: FloatArray) -> FloatArray:
    """The nearest numbers [target, ...] with headline and surge no likelier than occurs.

    Where one is, it and occurs become their mean; where both are above that mean, all three become
    the mean of three. Undefined stays undefined.
    """
    occurs, headline, surge = values
    higher, lower = np.fmax(headline, surge), np.fmin(headline, surge)
    most = np.where(higher > occurs, (occurs + higher) / 2, occurs)
    both = ~np.isnan(surge) & (lower > most)
    most = np.where(both, (occurs + higher + lower) / 3, most)
    return np.stack([most, np.minimum(headline, most), np.minimum(surge, most)])


def _days_within(
    first: FloatArray, days: FloatArray, week: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The nearest days [day, ...] and week [...] with every day at most the week and the week at
    most the sum; the first day is given and counts, but stays."""
    # 1. Days above the week: it and the largest k of them become their mean, for the k with the
    #    largest mean (pooling of adjacent violators).
    ranked = np.sort(days, axis=0)[::-1]
    number = np.arange(1, len(days) + 1).reshape(-1, *[1] * week.ndim)
    means = (week + np.cumsum(ranked, axis=0)) / (number + 1)
    week = np.maximum(np.maximum(week, means.max(axis=0)), first)
    days = np.minimum(days, week)
    # 2. A week above the sum: all move by the same to the border, week = sum.
    over = np.maximum(week - first - days.sum(axis=0), 0) / (len(days) + 1)
    return days + over, week - over
