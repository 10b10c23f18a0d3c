"""A hundred possible weeks of a stream: blocks of seven consecutive past days.

A week hangs together as past weeks did: its days follow each other. The model's attention is a law
over the past day that tomorrow will resemble, here the first day of a block; it is moved as little
as possible (`future_weights.py`) until blocks have the published probability of each root on each
day, and of the three targets within the week. Blocks are then drawn, and some roots of each taken
from a second block, all seven days of them, as the futures of tomorrow are recombined
(`recombine.py`). Last, weights leave nothing between the drawn weeks and what is published within
the week, so that "at least once" can be counted among them.
"""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from gdelphi.common.types import AHEAD, BoolArray, FloatArray, History
from gdelphi.forecast.future_weights import Reweighted, reweight
from gdelphi.forecast.recombine import SOFT, Recombination, draw_recombination
from gdelphi.measures.targets import headline_of, occurs_of, shares_of


@dataclass(frozen=True, eq=False)
class StreamWeeks:
    """Possible weeks of one stream, K of them."""

    starts: tuple[date, ...]
    """first day of the block that each was drawn from, [K]"""
    donors: tuple[date, ...]
    """of the second block, which lends roots, [K]"""
    lent: BoolArray
    """the roots that come from the second block, [K, root]"""
    happens: BoolArray
    """which roots occur, [K, day, root]"""
    reweighted: Reweighted
    """weights that agree with the published probabilities of *occurs* within the week"""

    @property
    def within(self) -> BoolArray:
        """Which roots occur at least once, [K, root]."""
        return np.asarray(self.happens.any(axis=1))

    def days_of(self, number: int) -> list[date]:
        """The seven past days of a week."""
        return [self.starts[number] + timedelta(days=ahead) for ahead in range(AHEAD)]


def draw_weeks(
    history: History,
    place: int,
    prior: FloatArray,
    daily: FloatArray,
    within: FloatArray,
    threshold: FloatArray,
    *,
    number: int,
    random: np.random.Generator,
) -> StreamWeeks:
    """Weeks of the stream at a place of a history of the roots that ends with the origin.

    `prior` is the probability that tomorrow resembles each of the last days, the origin last,
    [day]; `daily` what is published of *occurs* [day, root], `within` of all targets [target,
    root], and `threshold` [root] what a surge exceeds.
    """
    # 1. Blocks that are known to their end, of present days.
    size = len(history.days)
    starts = np.arange(size - len(prior), size - AHEAD + 1)
    whole = np.array([bool(history.present[at : at + AHEAD].all()) for at in starts], np.bool_)
    chances = np.where(whole & (starts >= 0), prior[: len(starts)], 0.0)
    if not chances.any():
        chances = (whole & (starts >= 0)).astype(np.float64)
    starts, chances = starts[chances > 0], chances[chances > 0]
    days = starts[:, None] + np.arange(AHEAD)
    counts, weights = history.counts[place][days], history.weights[place][days]
    occurs = occurs_of(counts)  # [block, day, root]
    # 2. The law of blocks, and the weeks that it draws.
    surge = (shares_of(weights) > threshold).any(axis=1)
    events = [occurs.reshape(len(starts), -1), occurs.any(axis=1), headline_of(weights).any(axis=1)]
    wanted = [daily.ravel(), *within]
    law = reweight(
        np.concatenate([*events, surge], axis=1), np.concatenate(wanted), chances, ridge=SOFT
    ).weights
    drawn: Recombination = draw_recombination(law, number, len(history.codes), random)
    happens = np.where(drawn.lent[:, None], occurs[drawn.donors], occurs[drawn.days])
    # 3. Weights by which "at least once" is what is published.
    even = np.full(number, 1 / number)
    first, donor = (
        tuple(history.days[int(starts[at])] for at in places)
        for places in (drawn.days, drawn.donors)
    )
    reweighted = reweight(np.asarray(happens.any(axis=1)), within[0], even)
    return StreamWeeks(first, donor, drawn.lent, happens, reweighted)
