"""ROUGE of whole texts, in the forms that others use, beside the order-free one of `rouge.py`.

    published   F-measures of the `rouge-score` library with its stemmer, phrases joined by full
                stops in the order of their weight: it depends on that order, and credits pairs of
                words across the borders of phrases
    recall      the formula of the source design: n-grams of the reference that the text has, over
                n-grams of the reference, each counted as often as it occurs in both; for L the
                longest common subsequence over the words of the reference. Not stemmed

Neither punishes a text for weights, and recall punishes no text for being long: the longest text
wins it. They are here to be compared with other work; conclusions are drawn from energy scores.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

from gdelphi.scores.rouge import (
    KINDS,
    UNDEFINED,
    Rouge,
    WeightedText,
)


@lru_cache(1)
def _scorer() -> RougeScorer:
    return RougeScorer(KINDS, use_stemmer=True)


def joined(text: WeightedText) -> str:
    """The phrases, the heaviest first."""
    order = sorted(range(len(text.phrases)), key=lambda place: -float(text.weights[place]))
    return ". ".join(text.phrases[place] for place in order)


def published_rouge(text: WeightedText, came: WeightedText) -> Rouge:
    """F-measures of the joined texts; undefined where nothing came."""
    if not len(came.phrases):
        return UNDEFINED
    found = _scorer().score(joined(came), joined(text))
    return Rouge(*(float(found[kind].fmeasure) for kind in KINDS))


def recall_rouge(text: WeightedText, came: WeightedText) -> Rouge:
    """Recall of n-grams and of the longest common subsequence; undefined where nothing came."""
    if not len(came.phrases):
        return UNDEFINED
    said, wanted = (joined(each).replace(".", "").lower().split() for each in (text, came))
    return Rouge(
        _recall(said, wanted, 1), _recall(said, wanted, 2), _longest(said, wanted) / len(wanted)
    )


def _recall(said: Sequence[str], wanted: Sequence[str], size: int) -> float:
    grams, others = (
        Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))
        for words in (wanted, said)
    )
    total = sum(grams.values())
    return sum((grams & others).values()) / total if total else 0.0


def _longest(said: Sequence[str], wanted: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(wanted) + 1)
    for word in said:
        before = 0
        for place, other in enumerate(wanted, start=1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]


def mean_rouge(found: Sequence[Rouge]) -> Rouge:
    """Of all that are defined."""
    known = [each for each in found if each.one == each.one]
    if not known:
        return UNDEFINED
    return Rouge(*(sum(values) / len(known) for values in zip(*known, strict=True)))
