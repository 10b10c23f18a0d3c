"""What is unusual about a week: forecasts held against how often things came in past weeks.

A probability p says more than the usual u by

    p log2(p / u) + (1 - p) log2((1 - p) / (1 - u))      bits,

the gain in log score over somebody who knows the usual alone, if the forecast is right. It is nil
where both agree, and slight for rare events of which a little more is said; it is counted as
negative where less than the usual is said. The numbers within the week are taken, not those of the
likeliest day.

Countries are ranked by one number, the probability that any kind of conflict surges within the week
(conflict_risk.py): the largest of many numbers would be the one with the largest error. Where a
forecast does not have it, by the sum over conflict events, as headlines and surges. Events need at
least one report in a usual week: below that what is usual is hardly known.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gdelphi.forecast.stored_week import Chances, StoredWeek, WeekCell

CONFLICT: Final = ("14", "15", "17", "18", "19", "20")
"""roots that are counted as conflict: protest, show of force, coercion, assault, fight, mass
violence"""
RANKED: Final = ("headline", "surge")
"""targets that countries are ranked by"""
FEWEST_ROWS: Final = 1.0  # reports in a usual week that an event needs
LEAST: Final = 0.02  # bits below which nothing is unusual
NEARLY: Final = 1e-3  # nothing is taken for more certain than this


@dataclass(frozen=True)
class UnusualStream:
    """A stream with more conflict than usual ahead."""

    stream: str
    bits: float
    chances: Chances | None
    """that any kind of conflict surges, if the forecast says it"""
    cells: tuple[WeekCell, ...]
    """that are above their usual, the most unusual first"""


def bits(chances: Chances) -> float:
    """How much more than the usual is said, signed; none where one of both is not known."""
    if chances.published is None or chances.usual is None:
        return 0.0
    said, usual = (
        min(max(value, NEARLY), 1 - NEARLY) for value in (chances.published, chances.usual)
    )
    gain = said * math.log2(said / usual) + (1 - said) * math.log2((1 - said) / (1 - usual))
    return gain if said >= usual else -gain


def ranked_cells(week: StoredWeek, stream: str, *, conflict: bool = True) -> Iterator[WeekCell]:
    """Cells of a stream with enough data, of conflict or of all roots."""
    for code in week.codes(stream):
        if conflict and code not in CONFLICT:
            continue
        if week.rows[stream, code].usual_within < FEWEST_ROWS:
            continue
        for target in RANKED:
            cell = week.cells[stream, code, target]
            if None not in (cell.within.published, cell.within.usual):
                yield cell


def unusual_streams(week: StoredWeek) -> list[UnusualStream]:
    """Streams with more conflict than usual within the week, the most unusual first."""
    found = []
    for stream in week.streams:
        cells = list(ranked_cells(week, stream))
        above = [cell for cell in cells if bits(cell.within) >= LEAST]
        chances = week.conflict.get(stream)
        total = bits(chances) if chances else sum(bits(cell.within) for cell in cells)
        if above and total >= LEAST:
            ranked = tuple(sorted(above, key=_rank))
            found.append(UnusualStream(stream, total, chances, ranked))
    return sorted(found, key=lambda one: (-one.bits, one.stream))


def _rank(cell: WeekCell) -> tuple[float, str, str, str]:
    return -bits(cell.within), cell.stream, cell.code, cell.target


def most_unusual(week: StoredWeek) -> list[WeekCell]:
    """Cells of all events above their usual, whatever they are about, the most unusual first."""
    cells = [cell for stream in week.streams for cell in ranked_cells(week, stream, conflict=False)]
    return sorted((cell for cell in cells if bits(cell.within) >= LEAST), key=_rank)


def escalating(week: StoredWeek) -> list[tuple[str, Chances]]:
    """Streams whose material conflict is likelier to double than usual, the most unusual first."""
    above = [item for item in week.escalations.items() if bits(item[1]) >= LEAST]
    return sorted(above, key=lambda item: (-bits(item[1]), item[0]))


def onsets(week: StoredWeek) -> list[WeekCell]:
    """Events without a report for 30 days, as they may occur within the week, the likeliest
    first."""
    quiet = [week.cells[*key, "occurs"] for key, rows in week.rows.items() if rows.onset]
    known = [cell for cell in quiet if cell.within.published is not None]
    return sorted(known, key=lambda cell: (-(cell.within.published or 0), cell.stream, cell.code))


def unusual_roots(week: StoredWeek, stream: str, number: int) -> list[str]:
    """The roots of a stream that are furthest from their usual, up or down, over all targets; in
    the order of their codes."""
    codes = week.codes(stream)

    def distance(code: str) -> float:
        return sum(abs(bits(cell.within)) for cell in week.of_root(stream, code))

    return sorted(sorted(codes, key=lambda code: (-distance(code), code))[:number])
