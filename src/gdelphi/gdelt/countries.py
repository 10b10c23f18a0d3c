"""Streams by whatever people call them: one resolver for commands, settings and programs.

A stream is a country by its FIPS 10-4 code, or WORLD. People write Kenya, KEN or ke, and those who
know ISO 3166 write GE for Georgia, which FIPS calls GG. `find_stream` takes all of these, in any
case. Where two letters are FIPS for one country and ISO for another the FIPS code is meant, as in
all of GDELT's places, and a note says so. What is no country's code or name is refused with what
may have been meant: to answer "nothing was reported" would be wrong.

tables/names.tsv has the ISO two-letter codes and other names. It is apart from `cameo.py` and its
fingerprint: nothing that is learned depends on it.
"""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, NamedTuple

from gdelphi.common.errors import ConfigError, UnknownCountry
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.gdelt.cameo import (
    Country,
    countries,
    country_by_cameo,
    country_by_fips,
    country_by_iso3,
    parse_table,
)

FILE: Final = "names.tsv"
NEAREST: Final = 3  # countries offered for one that is not known
PARTS: Final = {"Palestinian Territories": ("WE", "GZ")}  # what has no FIPS code, but parts that do
SELECTIONS: Final = r"all|top\d+"  # what stands for several streams where a list of them is asked


class OtherNames(NamedTuple):
    """What a country is called beside the names and codes of the crosswalk."""

    iso2: str | None
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class FoundStream:
    """The stream that somebody means, and what they should know about it, if anything."""

    stream: str
    note: str | None = None

    @property
    def name(self) -> str:
        return stream_name(self.stream)


def stream_name(stream: str) -> str:
    """What a stream is called: Kenya, the world, or `country XX` where no table has the code."""
    if stream == WORLD:
        return "the world"
    country = country_by_fips(stream)
    return country.name if country else f"country {stream}"


def find_stream(text: str, known: Collection[str] = ()) -> FoundStream:
    """The stream of a FIPS, ISO or CAMEO code or a name, in any case; `known` are codes that are
    taken as they stand, listed or not. Raises UnknownCountry."""
    word = text.strip()
    code = word.upper()
    if code in known or code == WORLD or _plain(word) == "world":
        return FoundStream(code if code in known else WORLD, _fips_note(code))
    if country_by_fips(code):
        return FoundStream(code, _fips_note(code))
    country = _by_iso2().get(code)
    if country and country.fips:
        note = f"{code} is no FIPS 10-4 code; by ISO 3166 it is {country.name}, {country.fips} here"
        return FoundStream(country.fips, note)
    country = country or country_by_cameo(code) or country_by_iso3(code)
    country = country or _by_name().get(_plain(word))
    if country and country.fips:
        return FoundStream(country.fips)
    raise UnknownCountry(_without_stream(country) if country else _unknown(word))


def find_streams(text: str | Iterable[str], known: Collection[str] = ()) -> tuple[FoundStream, ...]:
    """Streams of a list, or of a text with commas; each once, in its order."""
    words = text.split(",") if isinstance(text, str) else text
    found = (find_stream(word, known) for word in words if word.strip())
    return tuple({each.stream: each for each in found}.values())


def other_names(stream: str) -> OtherNames:
    """Codes and names that a stream answers to, beside its FIPS code and its name."""
    country = country_by_fips(stream)
    if country is None:
        return OtherNames(None, ())
    names = _names().get(country.name, OtherNames(None, ()))
    codes = dict.fromkeys(code for code in (names.iso2, country.iso3, country.cameo) if code)
    return OtherNames(names.iso2, (*codes, *names.aliases))


def with_streams(settings: Settings) -> Settings:
    """Settings with all countries that they name as streams; one that is unknown is refused."""

    def resolved(key: str, words: Iterable[str]) -> tuple[str, ...]:
        try:
            return tuple(found.stream for found in find_streams(words))
        except UnknownCountry as error:
            raise ConfigError(f"{key}: {error}") from None

    report, sequences, flows = settings.report, settings.sequences, settings.flows
    streams = flows.streams
    if not re.fullmatch(SELECTIONS, streams.strip().lower()):
        streams = ",".join(resolved("flows.streams", streams.split(",")))
        if not streams:
            raise ConfigError("flows.streams is empty: give codes like KE,UP, or top50, or all")
    watched = {"watchlist": resolved("report.watchlist", report.watchlist)}
    only = {"only": resolved("sequences.only", sequences.only)}
    changed = {
        "report": report.model_copy(update=watched),
        "sequences": sequences.model_copy(update=only),
        "flows": flows.model_copy(update={"streams": streams}),
    }
    return settings.model_copy(update=changed)


# --- what is said about codes ---------------------------------------------------------------------


def _fips_note(code: str) -> str | None:
    """That two letters are another country's in ISO 3166, or no longer in use."""
    own, other = country_by_fips(code), _by_iso2().get(code)
    if own is None:
        return None
    if own.same_as:
        return f"{code} is an old code of {own.name}, which is {own.same_as} now"
    if other is None or other.name == own.name:
        return None
    where = f", which is {other.fips} here" if other.fips else ""
    return f"{code} is {own.name} (FIPS 10-4, as GDELT has it), not ISO's {other.name}{where}"


def _without_stream(country: Country) -> str:
    parts = PARTS.get(country.name, ())
    remedy = f": take {' or '.join(map(_told, parts))}" if parts else ": name a country"
    return f"{country.name} has no stream of its own{remedy}"


def _unknown(word: str) -> str:
    near = [_told(stream) for stream in nearest_streams(word)]
    meant = f"; nearest are {', '.join(near)}" if near else ""
    return (
        f"{word!r} is no country's code or name{meant}. Streams are countries by name or by FIPS "
        "10-4, ISO 3166 or CAMEO code, or WORLD"
    )


def _told(stream: str) -> str:
    return f"{stream} ({stream_name(stream)})"


def nearest_streams(word: str, among: Collection[str] = ()) -> tuple[str, ...]:
    """Countries whose name has a word that begins so, then those that are spelt most alike."""
    plain = _plain(word)
    named = {
        name: country.fips
        for name, country in _by_name().items()
        if country.fips and (not among or country.fips in among)
    }
    begun = [
        named[name]
        for name in named
        if len(plain) > 1 and any(part.startswith(plain) for part in name.split())
    ]
    alike = [named[name] for name in difflib.get_close_matches(plain, named, NEAREST)]
    return tuple(dict.fromkeys(str(stream) for stream in begun + alike))[:NEAREST]


# --- tables ---------------------------------------------------------------------------------------


@cache
def _names() -> Mapping[str, OtherNames]:
    text = (resources.files("gdelphi.gdelt") / "tables" / FILE).read_text(encoding="utf-8")
    return MappingProxyType(
        {
            str(name): OtherNames(iso2, tuple(aliases.split(";")) if aliases else ())
            for name, iso2, aliases in parse_table(text, source=FILE).rows
        }
    )


@cache
def _by_iso2() -> Mapping[str, Country]:
    return MappingProxyType(
        {names.iso2: country for country, names in _named_countries() if names.iso2}
    )


@cache
def _by_name() -> Mapping[str, Country]:
    by_name: dict[str, Country] = {}
    for country, names in _named_countries():
        for name in (country.name, *names.aliases):
            by_name.setdefault(_plain(name), country)
    return MappingProxyType(by_name)


def _named_countries() -> Iterator[tuple[Country, OtherNames]]:
    for country in countries():
        if not country.same_as:
            yield country, _names().get(country.name, OtherNames(None, ()))


def _plain(name: str) -> str:
    """A name as it is compared: small letters without accents, words between single spaces."""
    bare = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in bare if not unicodedata.combining(letter))
    words = re.sub(r"[^a-z0-9]+", " ", letters.replace("'", "").replace("’", "")).split()
    return " ".join(words[1:] if words[:1] == ["the"] else words)
