"""The border of a report: what comes from data becomes plain text and finite numbers here.

Text keeps its characters, since escaping is the work of whoever shows it, but for those that no
reader can see and some programs obey: control characters other than tab and newline, halves of
surrogate pairs and U+FFFE and U+FFFF, which are not allowed in XML. Numbers are rounded: five
digits after the point say more than a probability can, and a page of 50 countries carries fifty
thousand of them.
"""

import math
from typing import Any, Final

from gdelphi.gdelt.cameo import event_codes

DIGITS: Final = 5
_DROPPED: Final = {
    code: None
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF)
    if chr(code) not in "\t\n"
}


def clean(text: str) -> str:
    """A text without control characters."""
    return text.translate(_DROPPED)


def clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)


def number(value: Any, digits: int = DIGITS) -> float | None:
    """A finite number, rounded; None for what is none."""
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), digits)


def label_of(code: str) -> str:
    """What an event is called."""
    event = event_codes().get(code)
    return event.label if event else f"unlisted code {clean(code)}"


def percent(value: float) -> str:
    """A probability as a reader says it: never 0% or 100% of what is neither."""
    if 0 < value < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < value < 1 else f"{value:.0%}"


def counted(amount: int, thing: str) -> str:
    """1 day, 2 days."""
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"
