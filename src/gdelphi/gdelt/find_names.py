"""Countries and events by whatever somebody calls them: codes or names, in any case."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final, NamedTuple

from gdelphi.common.errors import UnknownCountry, UnknownName
from gdelphi.common.types import Level
from gdelphi.gdelt.cameo import event_codes, root_codes
from gdelphi.gdelt.countries import find_stream, nearest_streams, stream_name

NEAREST: Final = 5  # names offered for one that is not known


class EventName(NamedTuple):
    """A standard event: its level and code."""

    level: Level
    code: str


def stream_among(text: str, known: Collection[str]) -> str:
    """The stream that a code or a country's name means, of those that are known."""
    try:
        stream = find_stream(text, known).stream
    except UnknownCountry as error:
        raise UnknownName(str(error)) from None
    if stream in known:
        return stream
    raise UnknownName(f"no country {text!r} here; {near_streams(text, known)}")


def near_streams(text: str, known: Collection[str]) -> str:
    """What may be meant by a text that means none of the known streams, in words."""
    near = nearest_streams(text, known)
    offered = near or sorted(known)[:NEAREST]
    shown = ", ".join(f"{one} ({stream_name(one)})" for one in offered)
    return f"{'nearest are' if near else 'there are'} {shown or 'none'}"


def find_event(text: str) -> EventName:
    """The standard event that a CAMEO code (14, 145, 1451) or its name means."""
    wanted = " ".join(text.split())
    event = event_codes().get(wanted)
    if event is not None:
        return EventName(event.level, event.code)
    lower = wanted.lower()
    for code, event in event_codes().items():
        if lower in (event.label.lower(), event.verb.lower()):
            return EventName(event.level, code)
    labels = {event.label.lower(): code for code, event in event_codes().items()}
    near = [labels[label] for label in get_close_matches(lower, labels, NEAREST)]
    near += get_close_matches(wanted, list(event_codes()), NEAREST, cutoff=0.5)
    offered = list(dict.fromkeys(near or root_codes()))[:NEAREST]
    shown = ", ".join(f"{code} ({event_codes()[code].label})" for code in offered)
    raise UnknownName(
        f"no event {text!r}: CAMEO codes are text, with their zeros; nearest are {shown}"
    )
