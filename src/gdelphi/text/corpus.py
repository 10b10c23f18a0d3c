"""The corpus: the descriptors of a pack in the compact language, as numbers of words.

All descriptors are turned into words once, an array of four words for each atom; a sequence is then
a matter of gathering. A position of the text model's encoder holds several words and is the sum of
their embeddings. What the stack expects (expected.py) stands first, where there is one: the volume
beside the stream, then a position for each root that is named. In the last days (`whole_days`) each
phrase has a position of its own, with the weekday and the age of its day; an earlier day has one
position, in which phrases count by the root of their weight. So fifty days are some hundred
positions, not fifteen hundred: a step of training is ten times as quick as with a position for each
phrase of all days.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.measures.pack import Pack
from gdelphi.text.compact import (
    END,
    MISSING,
    OWN,
    SHARE_LEVELS,
    WEEKDAYS,
    WHOM,
    WORDS_OF_PHRASE,
    PhraseText,
    actor_word,
    always_known,
    home_of,
    nearest_level,
    plainer_actors,
    plainer_codes,
    volume_word,
    write_day,
)
from gdelphi.text.expected import (
    NAMED,
    WORDS_OF_ROOT,
    Expectations,
    expected_vocabulary,
    expected_words,
)
from gdelphi.text.vocabulary import Vocabulary, learn_vocabulary

IGNORED: Final = -100  # label that no loss is taken of
MOST_WORDS: Final = 8000  # of a vocabulary

WordArray = npt.NDArray[np.int32]


class Source(NamedTuple):
    """Contexts for the encoder: words, and at which position each of them is added."""

    words: IntArray
    """[word]"""
    weights: npt.NDArray[np.float32]
    """[word]"""
    places: IntArray
    """position in the mask, counted through it, [word]"""
    mask: BoolArray
    """[batch, position]"""


@dataclass(frozen=True, eq=False)
class PackDescriptors:
    """The descriptors of a pack as phrases, by keys that are each there once."""

    pack: Pack
    codes: tuple[str, ...]
    actors: tuple[str, ...]
    places: IntArray
    """positions of code, actor 1 and actor 2 in these, [atom, 3]"""
    weights: npt.NDArray[np.float32]
    """[atom]"""
    starts: IntArray
    """where the atoms of (day, stream, variant) begin, [descriptor + 1]"""

    @cached_property
    def homes(self) -> tuple[str, ...]:
        return tuple(home_of(stream) for stream in self.pack.facts.streams)

    @cached_property
    def streams(self) -> IntArray:
        """The stream of each atom, [atom]."""
        per_stream = self.pack.facts.variants + 1
        owners = np.arange(len(self.starts) - 1) // per_stream % len(self.pack.facts.streams)
        return np.repeat(owners, np.diff(self.starts))

    @cached_property
    def levels(self) -> IntArray:
        """Positions in SHARE_LEVELS of the atoms' weights, [atom]."""
        return np.array([nearest_level(share) for share in self.weights.tolist()], dtype=np.int64)

    def place(self, day: Any, stream: Any, variant: Any) -> Any:
        """Positions of descriptors among all of them; of numbers, or of arrays that fit."""
        facts = self.pack.facts
        return (day * len(facts.streams) + stream) * (facts.variants + 1) + variant

    def descriptor(self, day: int, stream: int, variant: int = 0) -> slice:
        """The atoms of a descriptor."""
        place = self.place(day, stream, variant)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def keys(self, places: IntArray) -> list[tuple[str, str, str]]:
        """Actor 1, event code and actor 2 of places [n, 3]."""
        return [
            (self.actors[first], self.codes[code], self.actors[second])
            for code, first, second in places.tolist()
        ]

    def phrases(self, atoms: slice) -> Iterator[PhraseText]:
        """The phrases of some atoms, with their weights."""
        for (code, first, second), weight in zip(
            self.places[atoms], self.weights[atoms], strict=True
        ):
            yield PhraseText(
                self.actors[first], self.codes[code], self.actors[second], float(weight)
            )

    def text(self, day: int, stream: int, variant: int = 0) -> list[str]:
        """A day in words; whatever a vocabulary may know."""
        if not self.pack.present[day]:
            return [MISSING]
        rows = float(self.pack.statistics[day, stream, 0])
        phrases = self.phrases(self.descriptor(day, stream, variant))
        return write_day(rows, phrases, self.homes[stream])

    def named(self, level_of: dict[str, int], codes: int, days: range) -> FloatArray:
        """Share of each standard event in each day's own descriptor, by weights as they are
        written, [stream, day, code]; `level_of` gives the place of an event code's standard event.
        """
        facts = self.pack.facts
        place = np.array([level_of.get(code, -1) for code in self.codes], dtype=np.int64)
        shares = np.array(SHARE_LEVELS) / 100
        named = np.zeros((len(facts.streams), len(days), codes))
        for stream in range(len(facts.streams)):
            starts = self.place(np.array(days), stream, 0)
            atoms, day = _spread(self.starts[starts], np.diff(self.starts)[starts])
            event = place[self.places[atoms, 0]] if len(place) else atoms
            weight = shares[self.levels[atoms]]
            total = np.bincount(day, weight, len(days))
            kept = event >= 0
            np.add.at(named[stream], (day[kept], event[kept]), weight[kept] / total[day[kept]])
        return named


def read_descriptors(pack: Pack) -> PackDescriptors:
    """The descriptors of a pack, with what their atoms are called."""
    _, weights, starts = pack.atom_columns()
    called = pack.phrases_at(np.arange(len(weights)))  # actor 1, code, actor 2 of each atom
    codes, actors = (
        tuple(dict.fromkeys(keys)) for keys in (called.code, called.actor1 + called.actor2)
    )
    numbers = ({key: n for n, key in enumerate(keys)} for keys in (codes, actors))
    of_code, of_actor = numbers
    places = np.array(
        [
            [of_code[key] for key in called.code],
            [of_actor[key] for key in called.actor1],
            [of_actor[key] for key in called.actor2],
        ],
        dtype=np.int64,
    ).T.reshape(-1, 3)
    return PackDescriptors(pack, codes, actors, places, np.asarray(weights), np.asarray(starts))


def learn_words(
    descriptors: PackDescriptors,
    days: int,
    *,
    context: int,
    fewest: int,
    most: int = MOST_WORDS,
    expected: Expectations | None = None,
) -> Vocabulary:
    """The vocabulary of the descriptors of the first days, and of what is expected of days."""
    per_day = (descriptors.pack.facts.variants + 1) * len(descriptors.pack.facts.streams)
    last = int(descriptors.starts[days * per_day])
    counts: Counter[str] = Counter()
    for column, mark in ((0, None), (1, ""), (2, WHOM)):
        pairs = np.stack([descriptors.streams[:last], descriptors.places[:last, column]], axis=1)
        distinct, number = np.unique(pairs, axis=0, return_counts=True)
        for (stream, place), times in zip(distinct.tolist(), number.tolist(), strict=True):
            key = descriptors.codes[place] if mark is None else descriptors.actors[place]
            word = key if mark is None else mark + actor_word(key, descriptors.homes[stream])
            counts[word] += times
    del counts[""]
    ages = [f"d{age}" for age in range(1, context + 1)]
    streams = [f"@{stream}" for stream in descriptors.pack.facts.streams]
    before = expected_vocabulary() if expected else ()
    known = (*always_known(), *ages, *streams, OWN, WHOM + OWN, *before)
    return learn_vocabulary(counts, known, fewest=fewest, most=most)


class Corpus:
    """A pack in the words of a vocabulary."""

    def __init__(
        self,
        descriptors: PackDescriptors,
        vocabulary: Vocabulary,
        *,
        context: int,
        whole_days: int,
        expected: Expectations | None = None,
    ) -> None:
        """With what is expected of days, that stands before them."""
        self.descriptors, self.vocabulary = descriptors, vocabulary
        self.context, self.whole_days = context, whole_days
        self._expected_days = expected
        self._expected: dict[int, tuple[WordArray, VectorArray]] = {}
        self.pack = descriptors.pack
        self.words = self._words()
        """of each atom, [atom, 4]"""
        first = self.pack.first_day.weekday()
        self._weekdays = np.array(vocabulary.numbers(WEEKDAYS), dtype=np.int32)[
            (first + np.arange(self.pack.facts.days + 1)) % 7
        ]
        ages = [f"d{age}" for age in range(context, 0, -1)]
        self._ages = np.array(vocabulary.numbers(ages), dtype=np.int32)
        self._streams = np.array(
            [vocabulary.number.get(f"@{stream}", 0) for stream in self.pack.facts.streams],
            dtype=np.int32,
        )
        self._heads = self._volumes()

    def _words(self) -> WordArray:
        descriptors, vocabulary = self.descriptors, self.vocabulary
        codes = np.array(
            [vocabulary.first_known(plainer_codes(code)) for code in descriptors.codes]
        )
        levels = np.array(vocabulary.numbers(f"{level}%" for level in SHARE_LEVELS))
        words = np.zeros((len(descriptors.places), WORDS_OF_PHRASE), dtype=np.int32)
        words[:, 0] = codes[descriptors.places[:, 0]] if len(codes) else 0
        words[:, 3] = levels[descriptors.levels]
        for column, mark in ((1, ""), (2, WHOM)):
            words[:, column] = self._actors(column, mark)
        return words

    def _actors(self, column: int, mark: str) -> WordArray:
        """The same for one of the actors, [atom]."""
        descriptors = self.descriptors
        actors = max(len(descriptors.actors), 1)
        pairs = descriptors.streams * actors + descriptors.places[:, column]
        distinct, back = np.unique(pairs, return_inverse=True)
        numbers = []
        for pair in distinct.tolist():
            stream, place = divmod(pair, actors)
            home = descriptors.homes[stream]
            plainer = plainer_actors(descriptors.actors[place])
            numbers.append(
                self.vocabulary.first_known(mark + actor_word(key, home) for key in plainer)
            )
        return np.array(numbers, dtype=np.int32)[back]

    def _volumes(self) -> WordArray:
        """The word that each day begins with, [day, stream]."""
        rows = self.pack.statistics[:, :, 0]
        words = [volume_word(number) for number in rows.ravel().tolist()]
        volumes = np.array(self.vocabulary.numbers(words), dtype=np.int32).reshape(rows.shape)
        volumes[~self.pack.present] = self.vocabulary.number[MISSING]
        return volumes

    def _expected_of(self, expected: Expectations, target: int) -> tuple[WordArray, VectorArray]:
        """What is expected of a day, in numbers of words and their weights, [stream, word]; made
        once for each day."""
        if target not in self._expected:
            day, roots = expected.at(target), expected.roots
            said = [
                expected_words(day, stream, roots) for stream in range(len(self.pack.facts.streams))
            ]
            self._expected[target] = (
                np.array(
                    [self.vocabulary.numbers(x.word for x in words) for words in said], np.int32
                ),
                np.array([[x.weight for x in words] for words in said], np.float32),
            )
        return self._expected[target]

    def expect(self, targets: Iterable[int]) -> None:
        """Make ready what is expected of many days, if anything is: in their order, since those
        beside each other are made together."""
        if self._expected_days is not None:
            for target in sorted(set(targets)):
                self._expected_of(self._expected_days, target)

    def source(self, streams: IntArray, targets: IntArray, variants: IntArray) -> Source:
        """What the encoder reads about streams before target days, both [batch]; the descriptors of
        the days by their variants, [batch, context]."""
        batch, days = len(streams), self.context
        day = targets[:, None] + np.arange(-days, 0)  # [batch, context]
        places = self.descriptors.place(day, streams[:, None], variants)
        starts = self.descriptors.starts[places]
        sizes = self.descriptors.starts[places + 1] - starts
        whole = np.arange(days) >= days - self.whole_days
        named = NAMED if self._expected_days else 0
        # Position of each day: the stream's own is 0, roots that are expected are next.
        first = (
            1
            + named
            + np.concatenate(
                [np.zeros((batch, 1), np.int64), np.cumsum(1 + sizes * whole, axis=1)], axis=1
            )
        )
        # Places count through the whole mask [batch, size]. `row` is where a sequence begins and
        # holds the stream; `heads` where a day begins and holds its volume, weekday and age; the
        # phrases of a whole day follow its head, those of an earlier day are added to it.
        size = int(first[:, -1].max())
        row = np.arange(batch) * size
        heads = row[:, None] + first[:, :-1]
        atoms, of_day = _spread(starts.ravel(), sizes.ravel())
        inside = (atoms - starts.ravel()[of_day] + 1) * whole[of_day % days]
        at = heads.ravel()[of_day] + inside
        apart = inside > 0
        weight = np.where(apart, 1.0, np.sqrt(self.descriptors.weights[atoms]))
        of_day, at_day = of_day[apart], at[apart]
        parts = [
            (self._streams[streams], row, 1.0),
            (self._weekdays[targets], row, 1.0),
            (self._heads[day, streams[:, None]], heads, 1.0),
            (self._weekdays[day], heads, 1.0),
            (np.broadcast_to(self._ages, day.shape), heads, 1.0),
            (self.words[atoms, :-1], np.repeat(at, 3), np.repeat(weight, 3)),
            (self.words[atoms[apart], -1], at_day, 1.0),
            (self._weekdays[day].ravel()[of_day], at_day, 1.0),
            (self._ages[of_day % days], at_day, 1.0),
        ]
        expected = self._expected_days
        if expected is not None:
            days_of = [self._expected_of(expected, target) for target in targets.tolist()]
            words, weights = (
                np.stack([of_day[part][at] for of_day, at in zip(days_of, streams, strict=True)])
                for part in (0, 1)
            )
            of_root = np.repeat(row[:, None] + 1 + np.arange(NAMED), WORDS_OF_ROOT, axis=1)
            at = np.concatenate([row[:, None], of_root], axis=1)
            parts.append((words, at, weights.ravel()))
        return _source(parts, np.arange(size) < first[:, -1:])

    def labels(self, streams: IntArray, targets: IntArray, variants: IntArray) -> IntArray:
        """What the decoder is to write of target days, [batch, word]; IGNORED behind the end."""
        places = self.descriptors.place(targets, streams, variants)
        starts, end = self.descriptors.starts, self.vocabulary.number[END]
        texts = [
            [
                int(self._heads[day, stream]),
                *self.words[starts[place] : starts[place + 1]].ravel().tolist(),
                end,
            ]
            for stream, day, place in zip(streams, targets, places, strict=True)
        ]
        longest = max(map(len, texts))
        return np.array([text + [IGNORED] * (longest - len(text)) for text in texts], np.int64)


def _source(
    parts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any], Any]], mask: BoolArray
) -> Source:
    """Words, their places and weights put together; padding is no word."""
    words = np.concatenate([word.ravel() for word, _, _ in parts]).astype(np.int64)
    places = np.concatenate([place.ravel() for _, place, _ in parts])
    weights = np.concatenate(
        [np.broadcast_to(np.float32(weight), word.size) for word, _, weight in parts]
    )
    kept = words > 0
    return Source(words[kept], weights[kept], places[kept], mask)


def _spread(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """All members of ranges one after the other, and the range of each."""
    of_range = np.repeat(np.arange(len(starts)), sizes)
    offset = np.arange(len(of_range)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return starts[of_range] + offset, of_range
