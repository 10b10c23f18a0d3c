"""What the stack expects of a day, as words before the texts of the days:

    ~v5 040 ~o98 ~h80 ~s10 140 ~o80 ~h40 ~s5 ...
    |   |   |    |    `- chance of a surge, in per cent; no word where a surge is not defined
    |   |   |    `- of being among the headlines
    |   |   `- of occurring
    |   `- a root, by the word of its plainest event; the likeliest headlines, the likeliest first
    `- expected rows, as the volume of a day is written

The model reads a chance as the embedding of its mark times the logit: a number in place of a word
for each level, so that what is learned of one chance holds for the next.

On the days that the stack was fitted on these are its answers out of fold, so that a model that
reads them learns how far such answers can be trusted. The number of rows is that of the intensity
fitted on all days: its answers out of fold are not kept, and it errs as much on days that it was
fitted on as on later ones (docs/text.md).
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from gdelphi.common.types import FloatArray, Forecaster, IntArray
from gdelphi.measures.pack import Pack
from gdelphi.stack.files import FOLDER, load_stack
from gdelphi.stack.fitted import CountForecasters, PooledStack, StackFit
from gdelphi.stack.linear import expit, logit
from gdelphi.text.compact import MOST_VOLUME, volume_word

EXPECTED: Final = "~"
NAMED: Final = 10  # roots that are named
TARGET_MARKS: Final = ("~o", "~h", "~s")
"""of occurs, headline and surge"""
LOGIT_UNIT: Final = 2.0  # logit of a chance whose mark has the weight 1
WORDS_OF_ROOT: Final = 1 + len(TARGET_MARKS)
KEPT: Final = 16  # days whose answers are remembered


class DayExpectation(NamedTuple):
    """What is expected of the streams on a day."""

    rows: FloatArray
    """[stream]"""
    chances: FloatArray
    """of occurs, headline and surge, [target, stream, root]; NaN where undefined"""


class Expectations(Protocol):
    """Who knows what was expected of the days of a pack."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Codes of the roots, in the order of the chances."""
        ...

    @property
    def stack(self) -> Forecaster:
        """Who expects it, as a forecaster of the roots."""
        ...

    def at(self, target: int) -> DayExpectation:
        """What was expected of the day at a position of the pack on the day before it."""
        ...

    def known(self, targets: IntArray) -> IntArray:
        """Those of some days that a model may learn from."""
        ...


class StackExpectation:
    """What a fitted stack expects of the days of a pack."""

    def __init__(self, fit: StackFit, pack: Pack) -> None:
        self.pack, self._fit = pack, fit
        self._first = pack.first_day.toordinal()
        self.at = lru_cache(KEPT)(self._expected)

    @property
    def roots(self) -> tuple[str, ...]:
        return self.pack.profiles.codes

    def known(self, targets: IntArray) -> IntArray:
        """The days with answers out of fold."""
        return targets[np.isin(targets + self._first, self._fit.out_of_fold.days)]

    @cached_property
    def stack(self) -> PooledStack:
        return CountForecasters(self._fit, self.pack.count_panel).stack

    def _expected(self, target: int) -> DayExpectation:
        origin = self.pack.first_day + timedelta(days=target - 1)
        logits = self.stack.answers(self.pack.profiles, origin).stack
        rows = self.stack.counts.expected_rows(origin + timedelta(days=1)).sum(axis=1)
        return DayExpectation(rows, expit(logits))


def load_expectation(folder: Path, pack: Pack) -> StackExpectation | None:
    """By the stack in a model's folder, if there is one."""
    if not (folder / FOLDER).exists():
        return None
    return StackExpectation(load_stack(folder / FOLDER), pack)


# --- words ----------------------------------------------------------------------------------------


class ExpectedWord(NamedTuple):
    """A word of the prompt, and by how much its embedding is multiplied."""

    word: str
    weight: float


def expected_vocabulary() -> tuple[str, ...]:
    """The words that nothing else has."""
    return (*(f"{EXPECTED}v{number}" for number in range(MOST_VOLUME + 1)), *TARGET_MARKS)


def expected_words(day: DayExpectation, stream: int, roots: Sequence[str]) -> list[ExpectedWord]:
    """What is expected of a stream: 1 + NAMED * WORDS_OF_ROOT words, of which those that say
    nothing have no weight."""
    words = [ExpectedWord(EXPECTED + volume_word(float(day.rows[stream])), 1.0)]
    chances = day.chances[:, stream]
    for root in np.argsort(-np.nan_to_num(chances[1]), kind="stable")[:NAMED].tolist():
        words.append(ExpectedWord(f"{roots[root]}0", 1.0))
        words += [
            ExpectedWord(mark, weight)
            for mark, weight in zip(
                TARGET_MARKS, np.nan_to_num(logit(chances[:, root]) / LOGIT_UNIT), strict=True
            )
        ]
    return words


def expected_text(day: DayExpectation, stream: int, roots: Sequence[str]) -> str:
    """The same to be read, with chances in per cent in place of weights."""
    words = expected_words(day, stream, roots)
    return " ".join(
        f"{word}{100 * expit(np.array(LOGIT_UNIT * weight)):.0f}" if word in TARGET_MARKS else word
        for word, weight in words
        if word not in TARGET_MARKS or weight
    )
