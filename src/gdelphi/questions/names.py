"""What somebody who asks may call things: countries, events and classes of them, horizons."""

from collections.abc import Collection, Sequence
from typing import Final

from gdelphi.common.errors import UnknownName
from gdelphi.common.types import AHEAD, TARGETS, WITHIN, WORLD
from gdelphi.forecast.unusual import CONFLICT
from gdelphi.gdelt.cameo import countries, event_codes, root_codes
from gdelphi.gdelt.find_names import EventName, find_event, stream_among

ALL: Final = "all"
WEEK: Final = "week"
QUAD_CLASSES: Final = (
    "verbal cooperation", "material cooperation", "verbal conflict", "material conflict",
)  # fmt: skip
CLASSES: Final = (ALL, "conflict", "cooperation", *QUAD_CLASSES)
"""of roots; conflict is what countries are ranked by"""


def known_streams() -> list[str]:
    """All streams that there can be."""
    return [WORLD, *(country.fips for country in countries() if country.fips)]


def find_streams(names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The streams that names mean, each once; all if none is named, or if `all` is."""
    if not names or any(name.strip().lower() == ALL for name in names):
        return tuple(known)
    return tuple(dict.fromkeys(stream_among(name, known) for name in names))


def find_events(text: str) -> tuple[EventName, ...]:
    """The events that a name means: one event, or the roots of a class."""
    wanted = " ".join(text.lower().split())
    if wanted not in CLASSES:
        return (find_event(text),)
    return tuple(EventName("root", code) for code in root_codes() if _is_of(code, wanted))


def _is_of(code: str, wanted: str) -> bool:
    if wanted == "conflict":
        return code in CONFLICT
    kind = QUAD_CLASSES[event_codes()[code].quad_class - 1]
    return wanted in (ALL, kind, kind.split()[1])


def find_horizon(value: str | int) -> int:
    """Days ahead, 1 to 7; the word week is 0, and so tables have it."""
    text = str(value).strip().lower()
    if text in (WEEK, str(WITHIN)):
        return WITHIN
    if text.isascii() and text.isdigit() and len(text) == 1 and 1 <= int(text) <= AHEAD:
        return int(text)
    raise UnknownName(f"no horizon {value!r}: a number of days from 1 to {AHEAD}, or {WEEK}")


def horizon_words(horizon: int) -> str:
    """What a horizon is called."""
    if horizon == WITHIN:
        return "within the week"
    return "tomorrow" if horizon == 1 else f"in {horizon} days"


def find_target(text: str) -> str:
    """One of the targets."""
    target = text.strip().lower()
    if target not in TARGETS:
        raise UnknownName(f"no target {text!r}: there are {', '.join(TARGETS)}")
    return target
