"""Probabilities as readers see them: one rule for the page, Markdown, the feed and the terminal.

They are rounded to thousandths, halves up, and those to whole per cent, halves up. The page has
thousandths in its data and its script (templates/base.js) does the second half, so both end at the
same number. Nothing is shown as 0% or 100%: no forecast is a certainty.
"""

import math

LOWEST, HIGHEST = 5, 995  # thousandths: below and from there on a whole per cent would be 0 or 100


def thousandths(value: float) -> int:
    """Rounded, halves up."""
    return math.floor(value * 1000 + 0.5)


def points(value: float) -> int:
    """A difference in whole percentage points, by the same rule, with its sign."""
    whole = (thousandths(abs(value)) + 5) // 10
    return whole if value > 0 else -whole


def percent(value: float | None) -> str:
    """In whole per cent; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    rounded = thousandths(value)
    if rounded < LOWEST:
        return "<1%"
    return ">99%" if rounded >= HIGHEST else f"{(rounded + 5) // 10}%"
