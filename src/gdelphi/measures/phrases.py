"""Codes to English: a row of events becomes a short sentence in the present tense.

A sentence is made of the codes of a row (both actors, event, place of action) and never of the
names in the text, so rows that are coded alike read alike and a few thousand sentences stand for
most rows. Whatever the codes are, there is a sentence, and different codes give different ones.
Chosen: fixed templates over the packaged tables, the same today and in ten years. Not chosen:
GDELT's actor names (a name for each person and village, in capitals) or a language model (slow,
and free to say more than the codes do).

An actor is written as a key: its eight code columns joined by "|", trailing "|" left out. Several
keys may mean one actor; `canonical` picks the key that stands for them:

- a code that repeats another column's says nothing: GOV, GOV is GOV; a gap between roles is closed
- one meaning with several codes gets one: KUR is kur, the ethnic `jew` is the religion JEW, the
  role UNO is the group UNO, the group PSE is the country PSE
- a religion that a narrower one implies is left out: Christian, Catholic is Catholic
- what rows put beside a known group because it belongs to the group is left out: the European
  Union comes as European and as an intergovernmental organization
- Saint Helena, which rows give as British and of the Shinto religion SHN, is the country SHN

The order of roles is kept, for the first is the main one: police of the government are
"government police", a ministry of the interior is "police authorities".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote

from gdelphi.gdelt.cameo import (
    Code,
    Country,
    actor_types,
    country_by_cameo,
    country_by_fips,
    ethnic_groups,
    event_codes,
    known_groups,
    religions,
)
from gdelphi.store.actor_countries import actor_country_sql

GRAMMAR: Final = 1
"""Number of this module's wording: to be raised when the same codes and tables read otherwise."""

ACTOR_COLUMNS: Final = (
    "CountryCode", "KnownGroupCode", "EthnicCode", "Religion1Code", "Religion2Code",
    "Type1Code", "Type2Code", "Type3Code",
)  # fmt: skip
"""The columns of an actor that make its key, without the prefix Actor1 or Actor2."""

# What rows give beside a group because it belongs to the group; the kinds, beside any group.
_KIND_OF_GROUP: Final = frozenset({"IGO", "NGO", "IMG"})
_BESIDE_GROUP: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ADB": "ASA DEV", "AFB": "AFR DEV", "ALQ": "MOS", "AMN": "HRI", "ARL": "MEA",
        "ASN": "SEA", "CIS": "CAS", "COE": "EUR", "EBR": "EUR DEV", "EEC": "EUR",
        "EFT": "EUR BUS", "FID": "HRI", "GCC": "PGS", "GOE": "BUS", "GOS": "BUS", "HRW": "HRI",
        "IAD": "EAF DEV", "ICC": "JUD", "ICO": "AGR", "IDB": "MOS DEV", "IMF": "BUS",
        "IOM": "REF", "IRC": "HLH", "ITP": "COP", "MSF": "HLH", "NAT": "WST", "OAU": "AFR",
        "OPC": "BUS", "PLO": "pal", "SAA": "SAS", "SAD": "SAF", "SCE": "EUR", "TAL": "AFG INS",
        "WAS": "WAF BUS", "WEF": "BUS", "WTO": "BUS",
    }
)  # fmt: skip
_PLURAL_GROUPS: Final = frozenset({"CMN", "HIP", "PLS", "PMD", "PSE", "TAL", "WCT"})
# Religion of which each is a branch.
_BRANCHES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ALE": "MOS", "CPT": "CHR", "CTH": "CHR", "DOX": "CHR", "HSD": "JEW", "JHW": "CHR",
        "LDS": "CHR", "MRN": "CHR", "PRO": "CHR", "SFI": "MOS", "SHI": "MOS", "SUN": "MOS",
        "UDX": "JEW",
    }
)  # fmt: skip
# Roles whose speciality stands inside: multinational media companies.
_SPLIT_ROLES: Final = frozenset({"IGO", "MNC", "NGO"})
_ORDINALS: Final = ("", "second ", "third ")


class Actor(NamedTuple):
    """How an actor reads, and whether its verb is plural."""

    text: str
    plural: bool


class Lineage(NamedTuple):
    """An event code at the three levels of CAMEO; all empty if it is none."""

    root: str
    base: str
    full: str


# --- keys -----------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    country: str
    group: str
    ethnic: str
    religions: tuple[str, ...]
    types: tuple[str, ...]


def actor_key_sql(number: int) -> str:
    """SQL for the raw key of actor 1 or 2 of a row of `events`; a blank actor's is ''."""
    if number not in (1, 2):
        raise ValueError(f"a row has actors 1 and 2, not {number}")
    codes = [actor_country_sql(number), *(f"Actor{number}{name}" for name in ACTOR_COLUMNS[1:])]
    columns = ", ".join(f"coalesce({code}, '')" for code in codes)
    return f"rtrim(concat_ws('|', {columns}), '|')"


@cache
def canonical(raw: str) -> str:
    """The key that stands for all keys of the same actor: those that read the same."""
    parts = _with_one_code_each(_split(raw))
    implied = frozenset(_BESIDE_GROUP.get(parts.group, "").split())
    if parts.group:
        implied |= _KIND_OF_GROUP
    parts = _with_religions_together(_without(implied, parts), implied)
    faiths = (*parts.religions, "", "")[:2]
    roles = (*parts.types, "", "", "")[:3]
    return "|".join((parts.country, parts.group, parts.ethnic, *faiths, *roles)).rstrip("|")


def _split(key: str) -> _Parts:
    """The parts of a key; empty and repeated religions and roles are left out."""
    country, group, ethnic, *rest = (
        code.strip() for code in (key.split("|") + [""] * len(ACTOR_COLUMNS))[: len(ACTOR_COLUMNS)]
    )
    return _Parts(country, group, ethnic, _distinct(rest[:2]), _distinct(rest[2:]))


def _distinct(codes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for code in codes if code))


def _with_one_code_each(parts: _Parts) -> _Parts:
    country, group, ethnic, faiths, roles = parts
    if country == "GBR" and "SHN" in faiths:
        country, faiths = "SHN", tuple(code for code in faiths if code != "SHN")
    if group == "PSE" and country in ("", "PSE"):
        country, group = "PSE", ""
    named = next((code for code in roles if _is_name(code)), "")
    if named and group in ("", named):
        group, roles = named, tuple(code for code in roles if code != named)
    return _Parts(country, group, _ethnic_synonyms().get(ethnic, ethnic), faiths, roles)


def _without(implied: Set[str], parts: _Parts) -> _Parts:
    return _Parts(
        country="" if parts.country in implied else parts.country,
        group=parts.group,
        ethnic="" if parts.ethnic in implied else parts.ethnic,
        religions=tuple(code for code in parts.religions if code not in implied),
        types=tuple(code for code in parts.types if code not in implied),
    )


def _with_religions_together(parts: _Parts, implied: Set[str]) -> _Parts:
    faith = _ethnic_religions().get(parts.ethnic)
    if faith is not None:
        faiths = _narrowest((faith, *parts.religions), implied)
        if len(faiths) <= 2:  # there are two columns for religions
            return parts._replace(ethnic="", religions=faiths)
    return parts._replace(religions=_narrowest(parts.religions, implied))


def _narrowest(faiths: Sequence[str], implied: Set[str]) -> tuple[str, ...]:
    wider = implied | {_BRANCHES.get(code) for code in faiths}
    return _distinct(code for code in faiths if code not in wider)


def _is_name(code: str) -> bool:
    """Whether a role is a proper name, as that of the United Nations is."""
    entry = actor_types().get(code)
    return entry is not None and entry.adjective[0].isupper()


@cache
def _ethnic_synonyms() -> Mapping[str, str]:
    first: dict[str, str] = {}
    return {code: first.setdefault(entry.noun, code) for code, entry in ethnic_groups().items()}


@cache
def _ethnic_religions() -> Mapping[str, str]:
    codes = {entry.noun: code for code, entry in religions().items()}
    return {
        code: codes[entry.noun] for code, entry in ethnic_groups().items() if entry.noun in codes
    }


# --- actors ---------------------------------------------------------------------------------------


@cache
def actor(key: str) -> Actor:
    """How the actor of a raw or canonical key reads; a blank one is someone."""
    parts = _split(canonical(key))
    unlisted = list(_unlisted(parts))
    if not any(parts):
        return Actor("someone", plural=False)
    if sum(map(bool, parts)) == 1 and not (parts.religions or parts.types):
        country = country_by_cameo(parts.country)
        if country is not None:
            return Actor(country.place, _is_plural_place(country))
        if unlisted:
            return Actor(unlisted[0].removeprefix("of "), plural=False)
    head, plural = _head(parts)
    return Actor(" ".join(head + unlisted), plural)


def _head(parts: _Parts) -> tuple[list[str], bool]:
    """The words of the known codes, the main noun last, and whether that is plural.

    The main noun is that of the first role; without roles the group, the religions or the ethnic
    group; else, where codes are unlisted, "actors".
    """
    country, ethnic = country_by_cameo(parts.country), ethnic_groups().get(parts.ethnic)
    group = _group(parts.group)
    faiths = [entry for code in parts.religions if (entry := religions().get(code))]
    citizens = [country.adjective] if country else []
    people = [*citizens, ethnic.adjective] if ethnic else citizens
    believers = people + _joined(entry.adjective for entry in faiths)
    if parts.types:
        return _role(parts, [*believers, group.adjective] if group else believers)
    if group:
        article = ["the"] if believers or group.noun.startswith("the ") else []
        words = [*article, *believers, group.noun.removeprefix("the ")]
        return words, parts.group in _PLURAL_GROUPS
    if faiths:
        return people + _joined(entry.noun for entry in faiths), True
    return [*citizens, ethnic.noun if ethnic else "actors"], True


def _role(parts: _Parts, before: list[str]) -> tuple[list[str], bool]:
    """The first role as the main noun, the others as what it is specialised in."""
    main, *others = (actor_types().get(code) for code in parts.types)
    special = _joined(entry.adjective for entry in others if entry)
    if main is None:
        return [*before, *special, "actors"], True
    if main.code == "GOV":
        return _government(parts, before, special)
    if main.code in _SPLIT_ROLES:
        kind, noun = main.noun.rsplit(" ", 1)
        return [*before, kind, *special, noun], True
    return [*before, *special, main.noun.removeprefix("the ")], True


def _government(parts: _Parts, before: list[str], special: list[str]) -> tuple[list[str], bool]:
    """A government; with a speciality its authorities, of a group that has none its officials."""
    if special:
        return [*before, *special, "authorities"], True
    if parts.group:
        return [*before, "officials"], True
    words = [*before, "government"]
    if parts.country or parts.ethnic:
        return ["the", *words], False
    return ["an" if words[0][0] in "AEIOUaeiou" else "a", *words], False


def _unlisted(parts: _Parts) -> Iterator[str]:
    """What is said after the main noun about codes that the tables lack."""
    if parts.country and country_by_cameo(parts.country) is None:
        yield f"of a country coded {_shown(parts.country)}"
    if parts.group and _group(parts.group) is None:
        yield f"of a group coded {_shown(parts.group)}"
    if parts.ethnic and parts.ethnic not in ethnic_groups():
        yield f"of an ethnic group coded {_shown(parts.ethnic)}"
    for ordinal, code in zip(_ORDINALS, parts.religions, strict=False):
        if code not in religions():
            yield f"of a {ordinal}religion coded {_shown(code)}"
    for ordinal, code in zip(_ORDINALS, parts.types, strict=False):
        if code not in actor_types():
            yield f"in a {ordinal}role coded {_shown(code)}"


def _group(code: str) -> Code | None:
    """A known group; Greenpeace is one too, though only the roles have its code."""
    return known_groups().get(code) or (actor_types()[code] if _is_name(code) else None)


def _is_plural_place(country: Country) -> bool:
    """States are singular whatever their name; islands and territories go by it."""
    if country.cameo in ("CAU", "PSE"):
        return country.cameo == "PSE"
    return country.kind != "country" and country.place[:4] == "the " and country.name[-1] == "s"


def _joined(words: Iterable[str]) -> list[str]:
    """Words of one kind as one, in their order; none as none."""
    text = " and ".join(words)
    return [text] if text else []


def _shown(code: str) -> str:
    """A code that no table lists, as one word that still tells it from all others."""
    return quote(code, safe="", errors="surrogatepass")


# --- events ---------------------------------------------------------------------------------------


class _Forms(NamedTuple):
    """The verb phrase of a code, split so that a sentence is a matter of joining."""

    plain: str
    plain_singular: str
    before: str  # with a target: what stands before it
    before_singular: str
    after: str


def verb(code: str) -> str:
    """The verb phrase of an event code in its base form, without a target."""
    return _forms(code).plain


@cache
def lineage(code: str) -> Lineage:
    """Root, base and full code of an event code, as events of known codes have them.

    A root alone (14) is read as its "not specified below" (140), which means the same; so is a
    code of a known root but no known base (106 is 100). A full code that the table lacks is read
    as its base (1213 is 121).
    """
    known = _nearest(code)
    if not known:
        return Lineage("", "", "")
    event = event_codes()[known]
    base = event.base or f"{event.root}0"
    return Lineage(event.root, base, base if event.level == "root" else known)


@cache
def _forms(code: str) -> _Forms:
    known = _nearest(code)
    event = event_codes().get(known)
    plain, with_target = (
        (event.verb, event.verb_target) if event else ("act", "act toward {target}")
    )
    manner = f" in a way coded {_shown(code)}" if code != known else ""
    before, after = with_target.split("{target}")
    return _Forms(
        plain=plain + manner,
        plain_singular=_singular(plain) + manner,
        before=before,
        before_singular=_singular(before),
        after=after + manner,
    )


def _nearest(code: str) -> str:
    """The code itself, or the nearest one above it that the table has, or nothing."""
    if code in event_codes():
        return code
    if not (code.isascii() and code.isdigit() and len(code) in (3, 4)):
        return ""
    return next((code[:length] for length in (3, 2) if code[:length] in event_codes()), "")


def _singular(phrase: str) -> str:
    """A verb phrase in the third person singular: its first word is the verb."""
    head, space, rest = phrase.partition(" ")
    if head.endswith("y") and head[-2] not in "aeiou":
        head = f"{head[:-1]}ies"
    elif head.endswith(("s", "sh", "ch", "x", "z", "o")):
        head = f"{head}es"
    else:
        head = f"{head}s"
    return head + space + rest


# --- sentences ------------------------------------------------------------------------------------


@cache
def place(fips: str | None) -> str:
    """Where: "in Kenya", "in the United States"; nothing if the place is not known."""
    if not fips or fips.isspace():
        return ""
    country = country_by_fips(fips)
    return f"in {country.place}" if country else f"in an unlisted country ({_shown(fips)})"


_where = place  # `sentence` has an argument of that name


def sentence(actor1: str, code: str, actor2: str, place: str | None = None) -> str:
    """Who does what to whom, and where: keys of actors, an event code, a FIPS code or None."""
    subject, plural = actor(actor1)
    forms, where = _forms(code), _where(place)
    if canonical(actor2):
        start = forms.before if plural else forms.before_singular
        text = f"{subject} {start}{actor(actor2).text}{forms.after}"
    else:
        text = f"{subject} {forms.plain if plural else forms.plain_singular}"
    return f"{text} {where}" if where else text
