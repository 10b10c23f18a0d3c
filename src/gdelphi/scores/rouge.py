"""ROUGE of a day's text: how far the words of a forecast day are those of the day that came.

A text is what a descriptor says, 3 to 10 phrases with weights. It has no order, so ROUGE of the
phrases joined into one string would depend on how they happen to be sorted, and would credit
bigrams across their borders. Here ROUGE-1, ROUGE-2 and ROUGE-L (F-measures, the `rouge-score`
library with its stemmer: "makes" and "make" are one verb) compare single phrases, and texts by the
best transport of their weights,

    max_P sum_ij P_ij F(phrase_i, phrase_j),  P >= 0 with the weights of both texts as its sums.

Not chosen: a one-to-one assignment. The number of atoms of a day varies with the day, so an
assignment judges numbers more than words: three phrases that sum up ten would leave seven
unmatched. Transport moves all weight and nothing more than it: a phrase that did not come earns
what its words are worth and takes weight from those that did, and to say more phrases is no win. A
phrase said twice with half the weight changes nothing.

Beside it stand two forms of whole texts that other work reports:

    published   F-measures of the library, phrases joined by full stops in the order of their
                weight: it depends on that order, and credits pairs of words across the borders of
                phrases
    recall      n-grams of the reference that the text has, over n-grams of the reference, each
                counted as often as it occurs in both; for L the longest common subsequence over
                the words of the reference. Not stemmed. The longest text wins it

Two warnings. Sentences come from templates, so any two share "the" and "in Kenya": a score says
something only beside `random_day_reference`. And expected ROUGE is not proper: to repeat the most
typical text beats honest futures. It is for readers, and chooses no model.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]

from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import (
    WEIGHT_SUM_TOLERANCE,
    FloatArray,
    IntArray,
)

KINDS = ("rouge1", "rouge2", "rougeL")
CACHED_PAIRS = 2**18
"""Pairs of phrases whose scores are kept, some 300 bytes each."""
CACHED_PHRASES = 2**16


class WeightedText(NamedTuple):
    """What is said of a day. It may be empty; the order of its phrases means nothing."""

    phrases: Sequence[str]
    weights: FloatArray
    """[phrase], not negative, summing to 1 unless there is none"""


class Rouge(NamedTuple):
    """F-measures between 0 and 1, the larger the better."""

    one: float
    """common words"""
    two: float
    """common pairs of neighbouring words"""
    longest: float
    """longest common subsequence of words"""


UNDEFINED = Rouge(float("nan"), float("nan"), float("nan"))


def matched_rouge(forecast: WeightedText, outcome: WeightedText) -> Rouge:
    """ROUGE of a text against the one that came, phrases matched by weight.

    A day that came without a text has no score; a forecast without one scores 0 on other days.
    """
    return expected_rouge([forecast], np.ones(1), outcome)


def expected_rouge(
    futures: Sequence[WeightedText], weights: FloatArray, outcome: WeightedText
) -> Rouge:
    """Mean score of weighted futures, weights [future] summing to 1.

    At most a tenth of a millisecond a future, which is transport; nothing to speak of where a text
    has one or two phrases.
    """
    if weights.shape != (len(futures),):
        raise GdelphiError(f"weights of shape {weights.shape} for {len(futures)} futures")
    _check_weights(weights, "futures")
    for text in (*futures, outcome):
        _check_text(text)
    if not len(outcome.phrases):
        return UNDEFINED
    target = outcome.weights / outcome.weights.sum()
    # Futures of one day say much the same: each distinct phrase is looked up once.
    number, similarity = _similarities(futures, outcome.phrases)
    mean = np.zeros(len(KINDS))
    known: dict[tuple[bytes, bytes], FloatArray] = {}  # so are whole texts, of quiet streams
    for future, weight in zip(futures, weights, strict=True):
        if weight > 0 and len(future.phrases):
            rows = np.array([number[phrase] for phrase in future.phrases])
            key = rows.tobytes(), future.weights.tobytes()
            if key not in known:
                known[key] = _transported(similarity, rows, future.weights, target)
            mean += weight * known[key]
    return Rouge(*(float(value) for value in mean))


def random_day_reference(
    past_days: Sequence[WeightedText],
    outcome: WeightedText,
    *,
    generator: np.random.Generator,
    number: int = 100,
) -> Rouge:
    """What the texts of random past days score: template words earn that much for free.

    Days are drawn without replacement; if there are no more than `number`, all are taken. Give the
    past days of the same stream, since its place is in every phrase.
    """
    if number < 1:
        raise GdelphiError(f"{number} random days: at least one is needed")
    if not past_days:
        return UNDEFINED
    drawn = generator.choice(len(past_days), size=min(number, len(past_days)), replace=False)
    equal = np.full(len(drawn), 1 / len(drawn))
    return expected_rouge([past_days[index] for index in drawn], equal, outcome)


# --- phrases --------------------------------------------------------------------------------------


@lru_cache(maxsize=CACHED_PAIRS)
def phrase_rouge(first: str, second: str) -> Rouge:
    """ROUGE of two phrases, the same either way round: what the library says, to the last bit.

    Equal phrases score 1, even a single word, which has no pair of neighbours. Letters outside
    a to z are word borders to the library, on both sides alike. The library counts the words of
    both phrases anew for every pair, which made it the dearest part of a backtest; here they are
    counted once, and the longest common subsequence takes a few operations on whole numbers.
    """
    if first == second:
        return Rouge(1.0, 1.0, 1.0)
    one, other = _counted(first), _counted(second)
    return Rouge(
        _f_measure(_common(one.words, other.words), len(one.order), len(other.order)),
        _f_measure(_common(one.pairs, other.pairs), len(one.order) - 1, len(other.order) - 1),
        _f_measure(_common_subsequence(one, other), len(one.order), len(other.order)),
    )


class _Counted(NamedTuple):
    """The words of a phrase, stemmed."""

    order: list[str]
    words: Counter[str]
    pairs: Counter[tuple[str, str]]
    places: dict[str, int]
    """word -> a bit for each place where it stands"""


@lru_cache(maxsize=CACHED_PHRASES)
def _counted(phrase: str) -> _Counted:
    tokens = _tokenizer()
    order = [token for word in phrase.split() for token in tokens(word)]
    places: dict[str, int] = {}
    for place, word in enumerate(order):
        places[word] = places.get(word, 0) | 1 << place
    return _Counted(order, Counter(order), Counter(pairwise(order)), places)


@lru_cache(maxsize=1)
def _tokenizer() -> Callable[[str], list[str]]:
    """The library's tokenizer, which stems each word once only."""
    return lru_cache(maxsize=CACHED_PHRASES)(DefaultTokenizer(use_stemmer=True).tokenize)


def _common(one: Counter[Any], other: Counter[Any]) -> int:
    """How many both have, each counted as often as it is in both."""
    return sum(min(number, other[each]) for each, number in one.items() if each in other)


def _common_subsequence(one: _Counted, other: _Counted) -> int:
    """Length of the longest common subsequence, by the bits of one number (Hyyro 2004): those that
    are 0 at the end are the places where the table of lengths rises."""
    every = (1 << len(one.order)) - 1
    row = every
    for word in other.order:
        matched = row & one.places.get(word, 0)
        row = ((row + matched) | (row - matched)) & every
    return len(one.order) - row.bit_count()


def _f_measure(common: int, one: int, other: int) -> float:
    """Of precision and recall, in the library's order of operations."""
    precision, recall = common / max(other, 1), common / max(one, 1)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def _similarities(
    futures: Sequence[WeightedText], outcome: Sequence[str]
) -> tuple[dict[str, int], FloatArray]:
    """Rows of the distinct phrases, and their scores with those that came, [kind, row, outcome]."""
    distinct = dict.fromkeys(phrase for future in futures for phrase in future.phrases)
    scores = np.array([phrase_rouge(*sorted((x, y))) for x in distinct for y in outcome])
    table = scores.reshape(len(distinct), len(outcome), len(KINDS)).transpose(2, 0, 1)
    return {phrase: row for row, phrase in enumerate(distinct)}, np.ascontiguousarray(table)


# --- transport ------------------------------------------------------------------------------------


def _transported(
    similarity: FloatArray, rows: IntArray, weights: FloatArray, target: FloatArray
) -> FloatArray:
    """Similarity under the best transport, [kind]: each kind has its own.

    By POT's exact network simplex, as problems are small; an entropic plan would blur perfect
    matches. Where a text has one or two phrases, as on days of few reports, no search is needed.
    """
    source = weights / weights.sum()
    pairs = similarity[:, rows]
    if len(target) <= 2:
        return _transported_to_few(pairs, source, target)
    if len(source) <= 2:
        return _transported_to_few(pairs.transpose(0, 2, 1), target, source)
    plan = _transport()
    return np.array([(plan(source, target, 1 - values) * values).sum() for values in pairs])


def _transported_to_few(pairs: FloatArray, source: FloatArray, target: FloatArray) -> FloatArray:
    """The same for similarities [kind, n, 1 or 2]: all goes to the first phrase, and from there
    what loses least goes to the second, until that has its weight."""
    value: FloatArray = pairs[:, :, 0] @ source
    if len(target) == 1:
        return value
    gain = pairs[:, :, 1] - pairs[:, :, 0]
    order = np.argsort(-gain, axis=1)
    cumulated = np.cumsum(source[order], axis=1).clip(max=target[1])
    moved = np.diff(cumulated, axis=1, prepend=0.0)
    won: FloatArray = (np.take_along_axis(gain, order, axis=1) * moved).sum(axis=1)
    return value + won


@lru_cache(maxsize=1)
def _transport() -> Callable[[FloatArray, FloatArray, FloatArray], FloatArray]:
    """POT's solver without its checks. It is slow to import, and only this needs it."""
    try:
        import ot
    except ImportError as error:
        raise GdelphiError("ROUGE of whole texts needs POT: pip install pot") from error
    solver: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] = partial(
        ot.emd, center_dual=False, check_marginals=False
    )
    return solver


def _check_text(text: WeightedText) -> None:
    if text.weights.shape != (len(text.phrases),):
        raise GdelphiError(f"weights of shape {text.weights.shape} for {len(text.phrases)} phrases")
    if len(text.phrases):
        _check_weights(text.weights, "phrases")


def _check_weights(weights: FloatArray, what: str) -> None:
    # Not-a-number fails these comparisons too.
    if not ((weights >= 0).all() and abs(weights.sum() - 1) <= WEIGHT_SUM_TOLERANCE):
        raise GdelphiError(f"weights of {what} must not be negative and must sum to 1")


# --- whole texts, as other work has it ------------------------------------------------------------


@lru_cache(1)
def _text_scorer() -> RougeScorer:
    return RougeScorer(KINDS, use_stemmer=True)


def joined(text: WeightedText) -> str:
    """The phrases, the heaviest first."""
    order = sorted(range(len(text.phrases)), key=lambda place: -float(text.weights[place]))
    return ". ".join(text.phrases[place] for place in order)


def published_rouge(text: WeightedText, outcome: WeightedText) -> Rouge:
    """F-measures of the joined texts; undefined where nothing came."""
    if not len(outcome.phrases):
        return UNDEFINED
    scores = _text_scorer().score(joined(outcome), joined(text))
    return Rouge(*(float(scores[kind].fmeasure) for kind in KINDS))


def recall_rouge(text: WeightedText, outcome: WeightedText) -> Rouge:
    """Recall of n-grams and of the longest common subsequence; undefined where nothing came."""
    if not len(outcome.phrases):
        return UNDEFINED
    words, wanted = (joined(side).replace(".", "").lower().split() for side in (text, outcome))
    return Rouge(
        _recall(words, wanted, 1), _recall(words, wanted, 2), _longest(words, wanted) / len(wanted)
    )


def _recall(words: Sequence[str], wanted: Sequence[str], size: int) -> float:
    """n-grams of `wanted` that `words` has too, over those of `wanted`."""
    own, reference = (
        Counter(tuple(side[at : at + size]) for at in range(len(side) - size + 1))
        for side in (words, wanted)
    )
    total = sum(reference.values())
    return sum((own & reference).values()) / total if total else 0.0


def _longest(words: Sequence[str], wanted: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    # row[j] is that of the words so far and the first j wanted ones.
    row = [0] * (len(wanted) + 1)
    for word in words:
        before = 0
        for place, other in enumerate(wanted, start=1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]


def mean_rouge(scores: Sequence[Rouge], weights: FloatArray | None = None) -> Rouge:
    """The mean of those that are defined, by weights or all alike."""
    masses = np.ones(len(scores)) if weights is None else weights
    known = np.array([not isnan(score.one) for score in scores], dtype=np.bool_)
    total = float(masses[known].sum())
    if total <= 0:
        return UNDEFINED
    mean = (masses[known, None] * np.array(scores)[known]).sum(axis=0) / total
    return Rouge(*mean.tolist())
