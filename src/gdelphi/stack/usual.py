"""What is usual: how many rows a stream has of a root on a day of a given weekday.

    rows of a day  =  usual rows  x  weekday factor  x  how unusual the day was

The usual number is an exponential mean with a half-life of a year, of rows over their weekday
factor. It leans on a prior (the stream's volume, split as the roots of all streams are) worth ten
days, so that young streams and rare roots have one too. How unusual a day was, its rows over their
usual number as known the day before, is what all columns of the intensity are made of: such
multiples mean the same in a large country and in a small one.

Arrays here have the day first, [day, stream, ...], and every value of a day is computed from that
day and those before it, in the same order of operations however many days follow: a panel that is
cut at a day gives the same numbers up to that day, to the last bit.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import BoolArray, FloatArray, IntArray, VectorArray
from gdelphi.measures.count_panel import CountPanel

USUAL_HALF_LIFE: Final = 365.0  # days
PRIOR_DAYS: Final = 10.0  # that the prior of what is usual counts for
LEAST_USUAL: Final = 1e-4  # rows a day: nothing is divided by less
LEAST_FACTOR: Final = 0.05  # of a weekday, likewise
PRIOR_ROWS: Final = 0.02  # added to volumes and to sums of shares, so that none is 0

WEEKDAY_SPREAD: Final = 0.15  # standard deviation of true log weekday effects of a root or stream
WEEKDAY_NOISE: Final = 0.3  # variance of a day's log rows beyond that of Poisson counts
TINY: Final = 1e-9


# --- series of days -------------------------------------------------------------------------------


def by_day(values: npt.NDArray[Any]) -> FloatArray:
    """[stream, day, ...] as [day, stream, ...], in double precision, in order in memory."""
    return np.ascontiguousarray(values.swapaxes(0, 1), dtype=np.float64)


def weekdays(panel: CountPanel) -> IntArray:
    """The weekday of each day and of the one after the last, Monday 0; [day + 1]."""
    first: date = panel.roots.days[0]
    size = len(panel.roots.days) + 1
    return np.array([(first + timedelta(days=number)).weekday() for number in range(size)])


def place_of(day: date, ordinals: IntArray) -> int | None:
    """Of a day among increasing ordinals; None if it is none of them."""
    place = int(np.searchsorted(ordinals, day.toordinal()))
    known = place < len(ordinals) and ordinals[place] == day.toordinal()
    return place if known else None


def back(values: VectorArray, lag: int, days: IntArray) -> VectorArray:
    """For each of the target days the value `lag` days before it, 0 before the first day; values
    [day, ...], result [target day, ...]."""
    at = days - lag
    found: VectorArray = values[np.maximum(at, 0)]
    found[at < 0] = 0
    return found


def discounted_sums(values: FloatArray, half_life: float) -> FloatArray:
    """The sum of the days up to and with each day, weights halving every `half_life` days."""
    decay = 0.5 ** (1 / half_life)
    sums = np.empty_like(values)
    total = np.zeros(values.shape[1:])
    for day, value in enumerate(values):
        total = total * decay + value
        sums[day] = total
    return sums


def exponential_mean(
    values: npt.NDArray[Any],
    present: BoolArray,
    half_life: float,
    *,
    prior: npt.NDArray[Any] | None = None,
    prior_days: float = 0.0,
) -> VectorArray:
    """The weighted mean of the present days up to and with each day, [day, ...].

    A prior [day, ...], if given, counts like so many present days of today. Without one the mean
    is 0 before the first present day.
    """
    shape = (-1, *[1] * (values.ndim - 1))
    there = np.asarray(present, np.float64).reshape(shape)  # a plain array: days of files are slow
    sums = discounted_sums(values * there, half_life)
    weight = discounted_sums(there, half_life)
    if prior is None:
        return (sums / np.maximum(weight, TINY)).astype(np.float32)
    return ((sums + prior_days * prior) / (weight + prior_days)).astype(np.float32)


def day_before(values: VectorArray) -> VectorArray:
    """The value of the day before each day; on the first day its own."""
    return np.concatenate([values[:1], values[:-1]])


# --- weekdays -------------------------------------------------------------------------------------


def weekday_factors(panel: CountPanel, fit_days: IntArray) -> FloatArray:
    """Rows on a weekday over rows on a mean day, [weekday, stream, root]; their mean is 1.

    In logs a factor is the overall one, plus the root's own and the stream's own deviation from it,
    both shrunk by what can be known of them:

        shrunk = deviation * s^2 / (s^2 + noise),      noise = 1 / rows + v / days,

    with rows and days of one weekday. A weekday that is never present has the factor of no effect.
    """
    roots = panel.roots
    span = np.arange(fit_days[0], fit_days[-1] + 1)
    span = span[roots.present[span]]
    weekday = weekdays(panel)[span]
    number = np.bincount(weekday, minlength=7)
    # [weekday, stream, root]
    rows = np.stack([roots.counts[:, span[weekday == day]].sum(axis=1) for day in range(7)])
    rows = rows.astype(np.float64)
    # Large streams would decide alone what all streams have in common.
    volume = rows.sum(axis=(0, 2)) / len(span)
    alike = rows / np.sqrt(1 + volume)[:, None]
    overall = _log_ratios(alike.sum(axis=(1, 2)), number)  # [weekday]
    of_root = _log_ratios(alike.sum(axis=1), number) - overall[:, None]
    of_stream = _log_ratios(rows.sum(axis=2), number) - overall[:, None]
    of_root *= _shrinkage(rows.sum(axis=(0, 1)), number)
    of_stream *= _shrinkage(rows.sum(axis=(0, 2)), number)
    factors = np.exp(overall[:, None, None] + of_root[:, None, :] + of_stream[:, :, None])
    normalised: FloatArray = factors / factors.mean(axis=0)
    return normalised


def _log_ratios(rows: FloatArray, number: IntArray) -> FloatArray:
    """The log of rows a day on each weekday over their mean, [weekday, ...]; 0 without days."""
    seen = number > 0
    days = number.reshape(-1, *[1] * (rows.ndim - 1))
    mean = rows / np.maximum(days, 1)
    ratios: FloatArray = np.log((mean + TINY) / (mean[seen].mean(axis=0) + TINY))
    ratios[~seen] = 0
    return ratios


def _shrinkage(rows: FloatArray, number: IntArray) -> FloatArray:
    """How far deviations can be believed, 0 to 1, by all rows of the seven weekdays."""
    noise = 1 / np.maximum(rows / 7, TINY) + WEEKDAY_NOISE / number.mean()
    believed: FloatArray = WEEKDAY_SPREAD**2 / (WEEKDAY_SPREAD**2 + noise)
    return believed


# --- what is usual --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Usual:
    """What is usual, and what was unusual."""

    rows: VectorArray
    """[day, stream, root], usual rows of a day without weekday, as known after the day"""
    multiples: VectorArray
    """[day, stream, root], rows over the usual number as known before the day; 0 if missing"""

    def expected(self, factors: FloatArray, weekday: IntArray, days: IntArray) -> FloatArray:
        """The usual rows of target days, as known the day before, with their weekday's factor;
        [day, stream, root]. On the first day of all those that it had itself."""
        known = self.rows[np.maximum(days - 1, 0)]
        expected: FloatArray = known * factors[weekday[days]]
        return expected


def usual_of(panel: CountPanel, factors: FloatArray) -> Usual:
    """What is usual on every day of a panel, by the weekday factors of a fit."""
    roots = panel.roots
    counts = by_day(roots.counts)
    free = counts / np.maximum(factors[weekdays(panel)[:-1]], LEAST_FACTOR)
    total = free.sum(axis=2, keepdims=True)
    volume = exponential_mean(total, roots.present, USUAL_HALF_LIFE)
    # The shares of the roots so far, every stream and day alike.
    share = np.cumsum((free / np.maximum(total, 1)).sum(axis=1), axis=0) + PRIOR_ROWS
    share /= share.sum(axis=1, keepdims=True)
    prior = (volume + PRIOR_ROWS) * share[:, None, :]
    usual = exponential_mean(
        free, roots.present, USUAL_HALF_LIFE, prior=prior, prior_days=PRIOR_DAYS
    )
    usual += np.float32(LEAST_USUAL)
    multiples = free / day_before(usual) * roots.present[:, None, None]
    return Usual(usual, multiples.astype(np.float32))
