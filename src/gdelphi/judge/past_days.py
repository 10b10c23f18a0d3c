"""Past days of a stream that forecasts of a day are compared with. Days are positions in a pack."""

from typing import Final

import numpy as np

from gdelphi.common.types import FloatArray
from gdelphi.measures.pack import Pack
from gdelphi.measures.targets import shares_of

YEAR: Final = 365
ORACLE_DAYS: Final = 100


def last_year(pack: Pack, place: int, end: int) -> list[int]:
    """The days of a stream's last year up to `end` that have atoms."""
    since = max(end + 1 - YEAR, 0)
    past: list[int] = (since + np.flatnonzero(pack.atom_numbers[since : end + 1, place])).tolist()
    return past


def oracle_days(pack: Pack, place: int, end: int, shares: FloatArray) -> list[int]:
    """For each of the first hundred days that an oracle samples, the day of the last year whose
    shares of roots are nearest to it: what could be known by someone who knows the law of the next
    day's roots. `shares` are [sample, root]."""
    past = last_year(pack, place, end)
    if not past:
        return []
    past_shares = shares_of(pack.weights[place, past])
    distance = np.abs(shares[:ORACLE_DAYS, None] - past_shares).sum(axis=2)
    return [past[int(at)] for at in distance.argmin(axis=1)]
