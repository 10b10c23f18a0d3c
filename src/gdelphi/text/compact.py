"""The compact language: a day's text in few words, so that fifty days fit the context of a model.

A phrase is four words, a day is a word for its volume and its phrases, the heaviest first:

    v5 141 =:COP >=:OPP 20% 042 USA:GOV >= 8%
    |  |   |     |      `- weight: one of a few levels of per cent
    |  |   |     `- whom: the same words for the target, marked by >
    |  |   `- who: country:roles; = is the stream's own country, - is nobody
    |  `- CAMEO event code
    `- volume: 16 to 31 rows, the numbers of five binary digits

Chosen: a word for each code and each actor, not pieces of words: a phrase is always four words, so
a text is quickly written and read, and what a word means does not depend on its neighbours. Own
countries are relative, so that what is learned of police in Kenya holds in Peru too. English
(`phrases.sentence`) says the same in ten words to a phrase, and is one call away.

Around a day there are words for its weekday, for its age and for the stream (`Mon`, `d1` the origin
itself, `@KE`), `?` for a day that is missing; before all days, what is expected (expected.py). What
cannot be read is counted, never guessed.
"""

import bisect
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from gdelphi.gdelt.cameo import country_by_fips, event_codes
from gdelphi.measures.phrases import canonical, lineage

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
SPECIAL: Final = (PAD, END, UNKNOWN)
OWN, NOBODY, WHOM, MISSING = "=", "-", ">", "?"
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHARE_LEVELS: Final = (2, 4, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 80, 100)
"""per cent; a weight is written as the nearest"""
MOST_VOLUME: Final = 16
WORDS_OF_PHRASE: Final = 4


class PhraseText(NamedTuple):
    """A phrase and its weight."""

    actor1: str
    code: str
    actor2: str
    weight: float


class DayText(NamedTuple):
    """What a text says of a day."""

    volume: int
    """binary digits of the number of rows; -1 where the text does not say"""
    phrases: tuple[PhraseText, ...]
    """weights sum to 1 unless there are none"""
    faults: int
    """groups of words that are no phrase"""


# --- words ----------------------------------------------------------------------------------------


def home_of(stream: str) -> str:
    """The stream's own country as actors have it; nothing for the world."""
    country = country_by_fips(stream)
    return (country.cameo or "") if country else ""


@lru_cache(2**16)
def actor_word(key: str, home: str) -> str:
    """An actor as a word."""
    country, *middle = (canonical(key).split("|") + [""] * 8)[:8]
    country = OWN if country and country == home else country
    if any(middle[:4]) or any(mark in country for mark in ":>"):
        return "|".join((country, *middle)).rstrip("|")
    roles = ",".join(role for role in middle[4:] if role)
    return f"{country}:{roles}" if roles else country or NOBODY


@lru_cache(2**16)
def actor_key(word: str, home: str) -> str:
    """The canonical key of an actor's word."""
    if word == NOBODY:
        return ""
    if "|" in word:
        country, _, rest = word.partition("|")
        return canonical(f"{home if country == OWN else country}|{rest}")
    country, _, roles = word.partition(":")
    country = home if country == OWN else country
    return canonical("|".join((country, "", "", "", "", *roles.split(","))))


def plainer_actors(key: str) -> Iterable[str]:
    """The actor, and ever plainer ones, for where its word is not known."""
    country, *middle = (canonical(key).split("|") + [""] * 8)[:8]
    yield key
    yield "|".join((country, "", "", "", "", *middle[4:]))
    yield "|".join((country, "", "", "", "", middle[4]))
    yield country
    yield "|".join(("", "", "", "", "", middle[4]))
    yield ""


def plainer_codes(code: str) -> Iterable[str]:
    """The event code, its base, and its root's "not specified below"."""
    above = lineage(code)
    return (code, above.full, above.base, f"{above.root}0") if above.root else (code,)


def weight_word(share: float) -> str:
    return f"{SHARE_LEVELS[nearest_level(share)]}%"


def nearest_level(share: float) -> int:
    """Position in SHARE_LEVELS, nearest by ratio."""
    return bisect.bisect(_EDGES, 100 * share)


_EDGES: Final = [(low * high) ** 0.5 for low, high in pairwise(SHARE_LEVELS)]


def volume_word(rows: float) -> str:
    return f"v{volume_of(rows)}"


def volume_of(rows: float) -> int:
    """Binary digits of a number of rows."""
    return min(int(rows).bit_length(), MOST_VOLUME)


def always_known() -> tuple[str, ...]:
    """Words that do not depend on any days."""
    roots = sorted({f"{event.root}0" for event in event_codes().values()})
    volumes = [f"v{number}" for number in range(MOST_VOLUME + 1)]
    weights = [f"{level}%" for level in SHARE_LEVELS]
    return (*SPECIAL, *WEEKDAYS, MISSING, *volumes, *weights, NOBODY, WHOM + NOBODY, *roots)


# --- days -----------------------------------------------------------------------------------------


def write_day(rows: float, phrases: Iterable[PhraseText], home: str) -> list[str]:
    """A day in words."""
    words = [volume_word(rows)]
    for phrase in phrases:
        first, second = actor_word(phrase.actor1, home), actor_word(phrase.actor2, home)
        words += [phrase.code, first, WHOM + second, weight_word(phrase.weight)]
    return words


def read_day(words: Sequence[str], home: str) -> DayText:
    """A day from its words, up to the end; groups that are no phrase are counted and left out."""
    words = words[: words.index(END)] if END in words else words
    volume, start = -1, 0
    if words and words[0][:1] == "v" and words[0][1:].isdigit():
        volume, start = int(words[0][1:]), 1
    phrases: list[PhraseText] = []
    faults = int(volume < 0)
    while start < len(words):
        phrase = _phrase(words[start : start + WORDS_OF_PHRASE], home)
        if phrase is not None:
            phrases.append(phrase)
            start += WORDS_OF_PHRASE
            continue
        faults += 1
        start = _next_event(words, start + 1)
    total = sum(phrase.weight for phrase in phrases)
    scaled = tuple(phrase._replace(weight=phrase.weight / total) for phrase in phrases)
    return DayText(volume, scaled, faults)


def _phrase(words: Sequence[str], home: str) -> PhraseText | None:
    if len(words) < WORDS_OF_PHRASE:
        return None
    code, first, second, weight = words
    good = is_event(code) and is_actor(first) and second[:1] == WHOM and is_actor(second[1:])
    if not (good and is_weight(weight)):
        return None
    share = int(weight[:-1]) / 100
    return PhraseText(actor_key(first, home), code, actor_key(second[1:], home), share)


def _next_event(words: Sequence[str], start: int) -> int:
    return next((at for at in range(start, len(words)) if is_event(words[at])), len(words))


def is_event(word: str) -> bool:
    return word in event_codes() or (word.isdigit() and 3 <= len(word) <= 4)


def is_weight(word: str) -> bool:
    return word[-1:] == "%" and word[:-1].isdigit() and 0 < int(word[:-1]) <= 100


@lru_cache(2**14)
def is_actor(word: str) -> bool:
    """Whether a word can stand for somebody: none of the other kinds of words."""
    special = word in SPECIAL or word in WEEKDAYS or word == MISSING or not word
    age = word[:1] in ("d", "v") and word[1:].isdigit()
    return not (special or age or word[0] in "@>~" or is_event(word) or is_weight(word))
