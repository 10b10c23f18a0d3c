"""Days as a language model is told them: English sentences, with weights and a volume.

    Kenya.
    Monday, 16+ reports: Kenyan police threaten protesters (20%); Uganda makes a statement (8%)
    Tuesday,

The model goes on with ` 32+ reports: ...` and ends the day, as every day that it is told has ended,
with its own word for the end of a text. Weights are the levels of the compact language, the volume
is the least number of rows of so many binary digits. The place is not repeated in each sentence: it
is the stream's. What is written is read by the grammar, and what it cannot read is counted.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from gdelphi.brief import name_of
from gdelphi.phrases import sentence
from gdelphi.space import place_of
from gdelphi.words.causal import Pieces
from gdelphi.words.corpus import IGNORED, Descriptions
from gdelphi.words.grammar import parse
from gdelphi.words.language import DayText, PhraseText, volume_of, weight_word

CACHED: Final = 2**16  # days as pieces: sequences overlap
UNKNOWN: Final = " not known"
NOTHING: Final = "nothing"
BETWEEN: Final = "; "
_HEAD: Final = re.compile(r" ?(\d{1,9})\+ reports:(.*)", re.DOTALL)
_WEIGHED: Final = re.compile(r"(.*?)(?: \((\d{1,3})%\))?", re.DOTALL)


def tell(rows: float, phrases: Iterable[PhraseText]) -> str:
    """What is said of a day after its name."""
    digits = volume_of(rows)
    said = BETWEEN.join(
        f"{sentence(each.actor1, each.code, each.actor2)} ({weight_word(each.weight)})"
        for each in phrases
    )
    return f" {2 ** (digits - 1) if digits else 0}+ reports: {said or NOTHING}"


def read(text: str, stream: str) -> DayText:
    """A day from what was said of it; what is no phrase is counted and left out.

    A phrase without a weight has the mean of those that have one."""
    head = _HEAD.fullmatch(text)
    volume, body = (volume_of(int(head[1])), head[2]) if head else (-1, text)
    pieces = [piece.strip() for piece in body.split(BETWEEN.strip())]
    if pieces == [NOTHING]:
        pieces = []
    read_pieces = [_phrase(piece, stream) for piece in pieces]
    found = [each for each in read_pieces if each is not None]
    faults = int(head is None) + len(read_pieces) - len(found)
    return DayText(volume, _weighed(found), faults)


def _phrase(text: str, stream: str) -> PhraseText | None:
    """A phrase, of weight 0 where it has none."""
    match = _WEIGHED.fullmatch(text)
    parsed = parse(match[1]) if match else None
    if match is None or parsed is None or parsed.place not in (None, place_of(stream)):
        return None
    share = None if match[2] is None else int(match[2])
    if share is not None and not 0 < share <= 100:
        return None
    return PhraseText(*parsed[:3], (share or 0) / 100)


def _weighed(phrases: Sequence[PhraseText]) -> tuple[PhraseText, ...]:
    given = [each.weight for each in phrases if each.weight]
    usual = sum(given) / len(given) if given else 1.0
    weights = [each.weight or usual for each in phrases]
    return tuple(
        each._replace(weight=weight / sum(weights))
        for each, weight in zip(phrases, weights, strict=True)
    )


class Telling:
    """The days of a pack in the pieces of a language model."""

    def __init__(self, said: Descriptions, pieces: Pieces, days: int) -> None:
        self.said, self.pieces, self.days = said, pieces, days
        self._names = [pieces.numbers(f"{name_of(x)}.\n") for x in said.pack.facts.streams]
        first = said.pack.first_day.toordinal()
        self._weekday = (first + 6) % 7  # of the pack's first day; Monday is 0
        week = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
        self._heads = [pieces.numbers(f"{day},") for day in week]
        self._day = lru_cache(CACHED)(self._told)

    def _head(self, day: int) -> list[int]:
        return self._heads[(self._weekday + day) % 7]

    def _told(self, day: int, stream: int, variant: int) -> list[int]:
        said = self.said
        text = UNKNOWN
        if said.pack.present[day]:
            rows = float(said.pack.statistics[day, stream, 0])
            text = tell(rows, said.phrases(said.descriptor(day, stream, variant)))
        return [*self.pieces.numbers(text), self.pieces.end]

    def context(self, stream: int, target: int) -> list[int]:
        """What the model is told before it writes a day."""
        found = list(self._names[stream])
        for day in range(target - self.days, target):
            found += [*self._head(day), *self._day(day, stream, 0)]
        return found + self._head(target)

    def example(
        self, stream: int, target: int, variants: Sequence[int], *, last: bool = False
    ) -> tuple[list[int], list[int]]:
        """A sequence and its labels: of all days that are known, or of the last alone. Each day is
        the next one of those before it, so a sequence teaches as often as it has days."""
        numbers = list(self._names[stream])
        labels = [IGNORED] * len(numbers)
        first = target - self.days
        for day, variant in zip(range(first, target + 1), variants, strict=True):
            head, told = self._head(day), self._day(day, stream, int(variant))
            learned = day == target or (not last and self.said.pack.present[day])
            numbers += [*head, *told]
            labels += [IGNORED] * len(head) + (told if learned else [IGNORED] * len(told))
        return numbers, labels
