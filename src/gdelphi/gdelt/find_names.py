"""Countries and events by whatever somebody calls them: codes or names, in any case."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from gdelphi.common.errors import UnknownName
from gdelphi.common.types import WORLD, Level
from gdelphi.gdelt.cameo import countries, event_codes, root_codes
from gdelphi.gdelt.countries import stream_name

NEAREST: Final = 5  # names offered for one that is not known


class EventName(NamedTuple):
    """A standard event: its level and code."""

    level: Level
    code: str


def find_stream(text: str, known: Collection[str]) -> str:
    """The stream that a code (FIPS, CAMEO, ISO 3166-1 alpha-3) or a country's name means, of those
    that are known."""
    wanted = " ".join(text.split()).upper()
    for stream in _streams_called(wanted):
        if stream in known:
            return stream
    raise UnknownName(f"no country {text!r} here; {_offered(wanted, known)}")


def _streams_called(wanted: str) -> Iterator[str]:
    yield wanted
    if wanted == "THE WORLD":
        yield WORLD
    for country in countries():
        names = {country.cameo, country.iso3, country.name.upper(), country.place.upper()}
        if country.fips and wanted in names:
            yield country.fips


def _offered(wanted: str, known: Collection[str]) -> str:
    named = {stream_name(stream).upper(): stream for stream in known}
    near = [named[name] for name in get_close_matches(wanted, named, NEAREST)]
    near += get_close_matches(wanted, known, NEAREST, cutoff=0.4)
    offered = list(dict.fromkeys(near)) or sorted(known)
    shown = ", ".join(f"{stream} ({stream_name(stream)})" for stream in offered[:NEAREST])
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
