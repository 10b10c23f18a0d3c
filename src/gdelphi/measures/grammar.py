"""The grammar: an English phrase back into its codes, the inverse of `phrases.sentence`.

Chosen: candidates from the packaged tables, each made into a sentence again and held against the
text. `phrases` gives different codes different sentences, so the one that reads the same is the
right one, and what reads otherwise is no phrase: there is no near miss. Not chosen: a table of all
sentences (there are as many as there are pairs of actors), or a fuzzy match, which would always
find something.

    someone verb [target] [in a way coded ...] [in place]

Actors are taken apart in the order in which they are put together: article, nationality, ethnic
group, religions, group, specialities, main noun, and behind it codes that no table lists.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from gdelphi.gdelt.cameo import (
    Code,
    actor_types,
    countries,
    ethnic_groups,
    event_codes,
    known_groups,
    religions,
)
from gdelphi.measures.phrases import (
    actor,
    canonical,
    place,
    sentence,
)

CACHED: Final = 2**16
SINGULAR, PLURAL, TARGET = "KEN", "|||||COP", "UGA"  # probes that verbs are read off from

CodeTuple = tuple[str, ...]
Found = Iterator[tuple[CodeTuple, str]]
"""codes read from the beginning of a text, and the rest of it"""


class Parsed(NamedTuple):
    """What a phrase says; keys of actors are canonical."""

    actor1: str
    code: str
    actor2: str
    place: str | None
    """FIPS code; None where the phrase names no place"""


# --- sentences ------------------------------------------------------------------------------------


class _Verb(NamedTuple):
    code: str
    before: str
    """up to the target, or the whole verb phrase"""
    after: str
    target: bool


@lru_cache(CACHED)
def parse(text: str) -> Parsed | None:
    """The codes of a phrase; None where no codes read like this."""
    for body, where in _places(text):
        for start in _word_starts(body):
            verbs = _verbs().get(body[start:].split(" ", 1)[0], ())
            subject = parse_actor(body[: start - 1]) if verbs else None
            if subject is None:
                continue
            for action in _actions(body[start:], verbs):
                parsed = Parsed(subject, *action, where)
                if sentence(*parsed) == text:
                    return parsed
    return None


def _actions(text: str, verbs: Iterable[_Verb]) -> Iterator[tuple[str, str]]:
    """Event code and target of what stands after the subject."""
    manner = re.fullmatch(r"(.*) in a way coded (\S*)", text)
    for verb in verbs:
        for known, rest in ((verb.code, text), *_with_manner(manner)):
            target = _target(verb, rest)
            if target is not None:
                yield known, target


def _with_manner(manner: re.Match[str] | None) -> list[tuple[str, str]]:
    return [(_unquoted(manner[2]), manner[1])] if manner else []


def _target(verb: _Verb, text: str) -> str | None:
    if not verb.target:
        return "" if text == verb.before else None
    if not (text.startswith(verb.before) and text.endswith(verb.after)):
        return None
    end = len(text) - len(verb.after)
    return parse_actor(text[len(verb.before) : end]) if end > len(verb.before) else None


def _word_starts(text: str) -> Iterator[int]:
    """Where words begin, but for the first: a sentence begins with its subject."""
    return (match.end() for match in re.finditer(" ", text))


@cache
def _verbs() -> Mapping[str, tuple[_Verb, ...]]:
    """All verb phrases by their first word, in the singular and the plural."""
    by_first_word: dict[str, dict[_Verb, None]] = {}
    for code in ("", *event_codes()):
        for subject in (SINGULAR, PLURAL):
            who = f"{actor(subject).text} "
            whole = sentence(subject, code, "").removeprefix(who)
            before, after = sentence(subject, code, TARGET).removeprefix(who).rsplit("Uganda", 1)
            for verb in (_Verb(code, whole, "", False), _Verb(code, before, after, True)):
                by_first_word.setdefault(verb.before.split(" ", 1)[0], {})[verb] = None
    return {word: tuple(verbs) for word, verbs in by_first_word.items()}


def _places(text: str) -> Iterator[tuple[str, str | None]]:
    """The text without each place that it may end with, and without any."""
    for match in re.finditer(r" in ", text):
        where = text[match.end() :]
        unlisted = re.fullmatch(r"an unlisted country \((\S*)\)", where)
        fips = _unquoted(unlisted[1]) if unlisted else _fips().get(where)
        if fips is not None:
            yield text[: match.start()], fips
    yield text, None


@cache
def _fips() -> Mapping[str, str]:
    """Places by their name; of two codes of one country the one that others repeat."""
    by_text: dict[str, str] = {}
    for country in sorted(countries(), key=lambda country: country.same_as is not None):
        if country.fips:
            by_text.setdefault(place(country.fips).removeprefix("in "), country.fips)
    return by_text


def _unquoted(shown: str) -> str:
    try:
        return unquote(shown, errors="surrogatepass")
    except UnicodeDecodeError:  # bytes that are no character: no code reads like this
        return shown


# --- actors ---------------------------------------------------------------------------------------


class _Unlisted(NamedTuple):
    """Codes named behind the main noun; religions and roles with their positions."""

    country: str
    group: str
    ethnic: str
    religions: dict[int, str]
    types: dict[int, str]


_ONLY: Final = (
    (re.compile(r"a country coded (\S+)"), "{}"),
    (re.compile(r"a group coded (\S+)"), "|{}"),
    (re.compile(r"an ethnic group coded (\S+)"), "||{}"),
)
_BEHIND: Final = re.compile(
    r"(?P<head>.*?)"
    r"(?: of a country coded (?P<country>\S+))?"
    r"(?: of a group coded (?P<group>\S+))?"
    r"(?: of an ethnic group coded (?P<ethnic>\S+))?"
    r"(?: of a religion coded (?P<religion0>\S+))?"
    r"(?: of a second religion coded (?P<religion1>\S+))?"
    r"(?: in a role coded (?P<type0>\S+))?"
    r"(?: in a second role coded (?P<type1>\S+))?"
    r"(?: in a third role coded (?P<type2>\S+))?"
)


@lru_cache(CACHED)
def parse_actor(text: str) -> str | None:
    """The canonical key of an actor as it reads; None where no key reads like this."""
    for key in _keys(text):
        if actor(key).text == text:
            return canonical(key)
    return None


def _keys(text: str) -> Iterator[str]:
    if text == "someone":
        yield ""
    yield from _country_places().get(text, ())
    for pattern, key in _ONLY:
        match = pattern.fullmatch(text)
        if match:
            yield key.format(_unquoted(match[1]))
    match = _BEHIND.fullmatch(text)
    if match:
        behind = _behind(match)
        yield from (_joined(head, behind) for head in _heads(match["head"]))


@cache
def _country_places() -> Mapping[str, tuple[str, ...]]:
    by_place: dict[str, tuple[str, ...]] = {}
    for country in countries():
        if country.cameo:
            by_place[country.place] = (*by_place.get(country.place, ()), country.cameo)
    return by_place


def _behind(match: re.Match[str]) -> _Unlisted:
    fields = {name: _unquoted(value) for name, value in match.groupdict().items() if value}
    return _Unlisted(
        fields.get("country", ""),
        fields.get("group", ""),
        fields.get("ethnic", ""),
        {place: fields[f"religion{place}"] for place in range(2) if f"religion{place}" in fields},
        {place: fields[f"type{place}"] for place in range(3) if f"type{place}" in fields},
    )


class _Head(NamedTuple):
    country: str
    group: str
    ethnic: str
    religions: CodeTuple
    types: CodeTuple


def _joined(head: _Head, behind: _Unlisted) -> str:
    """The key of what stands before and behind the main noun."""
    faiths = _filled(head.religions, behind.religions, 2)
    roles = _filled(head.types, behind.types, 3)
    first = (head.country or behind.country, head.group or behind.group,
             head.ethnic or behind.ethnic)  # fmt: skip
    return "|".join((*first, *faiths, *roles)).rstrip("|")


def _filled(known: CodeTuple, unlisted: Mapping[int, str], size: int) -> list[str]:
    rest = iter(known)
    return [unlisted[place] if place in unlisted else next(rest, "") for place in range(size)]


def _heads(text: str) -> Iterator[_Head]:
    """All ways to read the words up to the main noun."""
    for start in dict.fromkeys((text, re.sub(r"^(the|an|a) ", "", text))):
        for citizens, after in _prefix(start, _words("country")):
            for people, rest in _prefix(after, _words("ethnic")):
                for faiths, end in _listed(rest, _words("religion"), 2):
                    yield from _ends(end, citizens, people, faiths)


def _ends(text: str, citizens: CodeTuple, people: CodeTuple, faiths: CodeTuple) -> Iterator[_Head]:
    """The main noun of a religion, an ethnic group or nobody; or a group and its role."""
    country, ethnic = "".join(citizens), "".join(people)
    for group, rest in _prefix(text, _words("group")):
        for roles in _roles(rest):
            yield _Head(country, "".join(group), ethnic, faiths, roles)
    for (group_code,) in _named(text, _nouns("group")):
        yield _Head(country, group_code, ethnic, faiths, ())
    if not faiths:
        for believers, rest in _listed(text, _nouns("religion"), 2):
            if not rest:
                yield _Head(country, "", ethnic, believers, ())
    if not people:
        for (ethnic_code,) in _named(text, _nouns("ethnic")):
            yield _Head(country, "", ethnic_code, faiths, ())
    if text == "actors":
        yield _Head(country, "", ethnic, faiths, ())


def _roles(text: str) -> Iterator[CodeTuple]:
    """Codes of roles, the main one first."""
    for (main,) in _named(text, _nouns("type")):
        yield (main,)
    for special, rest in _listed(text, _words("type"), 2):
        if rest == "authorities":
            yield ("GOV", *special)
        elif rest == "actors":
            yield special  # of an unlisted main role
        for (main,) in _named(rest, _nouns("type")):
            yield (main, *special)
    if text == "officials":
        yield ("GOV",)
    for code in ("IGO", "MNC", "NGO"):
        kind, noun = actor_types()[code].noun.rsplit(" ", 1)
        if text.startswith(f"{kind} ") and text.endswith(f" {noun}"):
            for special, rest in _listed(text[len(kind) + 1 :], _words("type"), 2):
                if special and rest == noun:
                    yield (code, *special)


# --- words of the tables --------------------------------------------------------------------------

WordTable = Mapping[str, tuple[str, ...]]
"""codes by how they read"""


@cache
def _table(kind: str) -> Mapping[str, Code]:
    tables = {"ethnic": ethnic_groups, "religion": religions, "type": actor_types}
    if kind != "group":
        return tables[kind]()
    names = {code: entry for code, entry in actor_types().items() if entry.adjective[0].isupper()}
    return {**names, **known_groups()}


@cache
def _words(kind: str) -> WordTable:
    """Adjectives."""
    if kind == "country":
        return _by_text((each.adjective, each.cameo) for each in countries() if each.cameo)
    return _by_text((entry.adjective, code) for code, entry in _table(kind).items())


@cache
def _nouns(kind: str) -> WordTable:
    """Nouns without their article."""
    return _by_text((entry.noun.removeprefix("the "), code) for code, entry in _table(kind).items())


def _by_text(pairs: Iterable[tuple[str, str]]) -> WordTable:
    by_text: dict[str, tuple[str, ...]] = {}
    for text, code in pairs:
        by_text[text] = (*by_text.get(text, ()), code)
    return by_text


def _named(text: str, words: WordTable) -> Iterator[CodeTuple]:
    """The whole text as one word of a table."""
    return ((code,) for code in words.get(text, ()))


def _prefix(text: str, words: WordTable) -> Found:
    """Nothing, or one word of a table at the beginning of the text."""
    yield (), text
    for end in [match.start() for match in re.finditer(r" |$", text)]:
        for code in words.get(text[:end], ()):
            yield (code,), text[end + 1 :]


def _listed(text: str, words: WordTable, most: int) -> Found:
    """Up to so many words of a table, joined by "and"."""
    for codes, rest in _prefix(text, words):
        yield codes, rest
        if codes and most > 1 and rest.startswith("and "):
            for more, end in _listed(rest[4:], words, most - 1):
                if more:
                    yield codes + more, end
