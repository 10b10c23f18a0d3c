"""Scores of whole futures: how far the generated days are from the day itself.

Ensembles of a stream's next day, each of K members, are scored against its own descriptor:

    transported   past days drawn by the model's attention, moved on
    drawn         the same past days, not moved: what transport adds is the difference
    tilted        the futures that are published, recombined or moved, with the weights that make
                  them agree with what is published
    recency       past days drawn by the recency kernel, where attention begins untrained
    climatology   past days of the last year, all alike
    text          what the text forecaster writes, where the predictor has one, with weights that
                  make it agree with what is published

The energy score over sliced W2 is proper; all have its fair form, because their members are draws.
The mean Sinkhorn distance is for information: a forecaster that says the same day K times may win
it. ROUGE compares the words, of the reweighted futures and of the day in brief, beside random past
days, since words of templates earn something for free.

A past day without atoms is never drawn by the last two, and members without atoms take no part.
Past days are embedded once for all ensembles of a stream, since many draw the same ones.
"""

import importlib.util
import zlib
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from gdelphi.common.types import (
    FloatArray,
    Forecast,
    IntArray,
    Measure,
)
from gdelphi.forecast.expected_day import expected_day_in_brief
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.text_weights import WeightedTexts, weigh_texts
from gdelphi.forecast.wording import (
    brief_text,
    day_text,
    english_phrases,
    normalise,
    written_text,
)
from gdelphi.judge.distances import Ensemble, distances_to_first, energy_scores
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.past import past_of
from gdelphi.measures.space import Points
from gdelphi.ot.geometry import Measures
from gdelphi.scores.rouge import (
    UNDEFINED,
    Rouge,
    WeightedText,
    expected_rouge,
    matched_rouge,
)
from gdelphi.stack.baselines import RecencyBootstrap
from gdelphi.text.measures import TextPlacer

TRANSPORTED: Final = "transported"
REWEIGHTED: Final = "tilted"  # as backtests on disk have it
DRAWN: Final = "drawn"
RECENCY: Final = "recency"
CLIMATOLOGY: Final = "climatology"
BRIEF: Final = "brief"
RANDOM_DAYS: Final = "random days"
WRITTEN: Final = "text"
LIKELIEST: Final = "text brief"
YEAR: Final = 365
TEXTS: Final = 25
"""futures and random past days whose words are compared: futures are independent draws, so that the
first are as good as any, and words cost as much as distances do"""

COLUMNS: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("ensemble", pa.string()),
        ("members", pa.int64()),
        ("energy", pa.float64()),
        ("sinkhorn", pa.float64()),
        ("rouge1", pa.float64()),
        ("rouge2", pa.float64()),
        ("rougeL", pa.float64()),
    ]
)


def text_can_be_scored() -> bool:
    """Whether the libraries for ROUGE are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("rouge_score", "ot"))


class FutureScore(NamedTuple):
    """One ensemble of one stream; not-a-number where it has no such score."""

    stream: str
    ensemble: str
    members: int
    energy: float
    sinkhorn: float
    rouge: Rouge = UNDEFINED


def future_table(scores: Sequence[FutureScore]) -> pa.Table:
    """The rows of a day."""
    columns: list[Sequence[object]] = [
        [getattr(score, name) for score in scores]
        for name in ("stream", "ensemble", "members", "energy", "sinkhorn")
    ]
    columns += [[score.rouge[kind] for score in scores] for kind in range(3)]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)],
        schema=COLUMNS,
    )


class _Case(NamedTuple):
    """A stream's day with all that is held against it."""

    stream: str
    measures: Measures
    """the day itself, and the members of ensembles"""
    ensembles: dict[str, Ensemble]
    texts: dict[str, Rouge]
    """by ensemble, or by what is no ensemble of days"""


class FutureJudge:
    """Scores the futures of a predictor's streams."""

    def __init__(self, predictor: Predictor, *, text: bool, seed: int = 0) -> None:
        self._predictor, self._pack = predictor, predictor.pack
        self._text, self._seed = text, seed
        self._day_text = lru_cache(2**15)(partial(day_text, predictor.pack))
        self._has_atoms = predictor.pack.atom_numbers > 0  # [day, stream]
        self._placer = (
            TextPlacer(
                Points(predictor.space, open_cache(predictor.settings)),
                predictor.text.model.descriptors,
            )
            if predictor.text
            else None
        )

    def day(
        self,
        origin: date,
        futures: Sequence[StreamFutures],
        moved: Mapping[int, StreamFutures] | Sequence[StreamFutures] | None = None,
        published: Sequence[Forecast] = (),
    ) -> list[FutureScore]:
        """Scores of all streams whose next day has atoms, given their futures as published, the
        moved ones where these are others, and what is published of the roots, which the futures of
        a text forecaster are weighed by."""
        end = self._predictor.sampler.position(origin)
        kernel = self._recency(origin)
        text, history = self._predictor.text, self._predictor.history("root")
        cases: list[_Case] = []
        for place in self.streams(origin):
            other = None if moved is None else moved[place]
            written = weigh_texts(text, history, place, published[place]) if text else None
            cases.append(self._case(place, end, futures[place], other, kernel, written))
        distances = distances_to_first([case.measures for case in cases])
        return [
            score
            for case, of_case in zip(cases, distances, strict=True)
            for score in _scores(case, of_case)
        ]

    def streams(self, origin: date) -> list[int]:
        """The places of the streams that are judged: those whose next day has atoms."""
        target = self._predictor.sampler.position(origin) + 1
        if target >= self._pack.facts.days:
            return []
        judged: list[int] = np.flatnonzero(self._has_atoms[target]).tolist()
        return judged

    def _recency(self, origin: date) -> FloatArray:
        """The recency kernel over the pack's days up to the origin, [day]; 0 on missing days."""
        past = past_of(self._predictor.history("root"), origin)
        kernel = np.zeros(self._predictor.sampler.position(origin) + 1)
        kernel[past.ordinals - self._pack.first_day.toordinal()] = RecencyBootstrap().kernel(past)
        return kernel

    def _case(
        self,
        place: int,
        end: int,
        futures: StreamFutures,
        moved: StreamFutures | None,
        kernel: FloatArray,
        written: WeightedTexts | None = None,
    ) -> "_Case":
        """All ensembles of one stream, with their words scored."""
        stream = self._predictor.streams[place]
        # 1. All measures in one batch: the day itself, moved futures, past days, published futures
        #    if they are others, texts.
        placed = moved or futures
        past = self._drawn_days(place, end, placed, kernel)
        distinct = np.unique(np.concatenate(list(past.values())))
        texts_as_days = self._text_measures(written, place, end)
        published = _existing(futures) if moved is not None else []
        exists = placed.exists
        weights = placed.weights.astype(np.float64)[exists]
        measures = _batch(
            self._pack.atoms(end + 1, place),
            placed.points[exists].astype(np.float64),
            weights / weights.sum(axis=1, keepdims=True),
            [
                *(self._pack.atoms(int(day), place) for day in distinct),
                *published,
                *texts_as_days,
            ],
        )
        # 2. Ensembles, as rows of this batch with weights.
        ensembles = _ensembles(placed, past, distinct)
        if moved is not None:
            ensembles.pop(REWEIGHTED, None)
        if published:
            first = len(measures.weights) - len(texts_as_days) - len(published)
            ensembles[REWEIGHTED] = Ensemble(
                first + np.arange(len(published)),
                normalise(futures.reweighted.weights[futures.exists]),
            )
        if written is not None and written.texts:
            number = len(texts_as_days)
            rows = len(measures.weights) - number + np.arange(number)
            ensembles[WRITTEN] = Ensemble(rows, written.weights)
        # 3. Words.
        texts = self._rouge_of_futures(place, end, futures) if self._text else {}
        if self._text and written is not None:
            texts |= self._rouge_of_written(written, self._day_text(end + 1, place), stream)
        return _Case(stream, measures, ensembles, texts)

    def _drawn_days(
        self, place: int, end: int, futures: StreamFutures, kernel: FloatArray
    ) -> dict[str, IntArray]:
        """Positions in the pack of the days that ensembles of past days have drawn."""
        first = self._pack.first_day
        drawn = np.array([(day - first).days for day in futures.days], dtype=np.int64)
        has_atoms = self._has_atoms[: end + 1, place]
        drawn = drawn[(drawn >= 0) & has_atoms[drawn]]
        uniform = self._random(place, end, 0).random(len(futures.days))
        year = has_atoms & (np.arange(end + 1) > end - YEAR)
        return {
            DRAWN: drawn,
            RECENCY: _draw(kernel * has_atoms, uniform),
            CLIMATOLOGY: _draw(year.astype(np.float64), uniform),
        }

    def _random(self, place: int, end: int, purpose: int) -> np.random.Generator:
        """Random numbers that are a function of stream, day and purpose alone."""
        stream = zlib.crc32(self._predictor.streams[place].encode())
        day = (self._pack.first_day + timedelta(days=end)).toordinal()
        return np.random.default_rng([self._seed, stream, day, 11, purpose])

    # Words.

    def _text_measures(self, written: WeightedTexts | None, place: int, end: int) -> list[Measure]:
        """Written texts as measures."""
        if written is None or self._placer is None:
            return []
        return [self._placer.measure(text, place, end) for text in written.texts]

    def _rouge_of_written(
        self, written: WeightedTexts, outcome: WeightedText, stream: str
    ) -> dict[str, Rouge]:
        """ROUGE of texts by their weights, and of the one of the likeliest words."""
        members = [written_text(text, stream) for text in written.texts[:TEXTS]]
        weights = normalise(written.weights[:TEXTS])
        return {
            WRITTEN: expected_rouge(members, weights, outcome) if members else UNDEFINED,
            LIKELIEST: matched_rouge(written_text(written.likeliest, stream), outcome),
        }

    def _rouge_of_futures(self, place: int, end: int, futures: StreamFutures) -> dict[str, Rouge]:
        """ROUGE of reweighted futures, of the day in brief, and of random past days."""
        outcome = self._day_text(end + 1, place)
        stream = self._predictor.streams[place]
        sentences = english_phrases(futures.shown_phrases, stream)
        members, weights = [], []
        for number, masses in enumerate(futures.weights[:TEXTS]):
            kept = masses > 0
            if kept.any():
                names = [sentences[phrase] for phrase in futures.shown_index[number][kept]]
                members.append(WeightedText(names, normalise(masses[kept])))
                weights.append(futures.reweighted.weights[number])
        brief = expected_day_in_brief(futures, self._predictor.settings.measures)
        given = np.array(weights)
        return {
            REWEIGHTED: (
                expected_rouge(members, normalise(given), outcome) if any(given) else UNDEFINED
            ),
            BRIEF: matched_rouge(brief_text(brief, stream), outcome),
            RANDOM_DAYS: self._rouge_of_random_days(place, end, outcome),
        }

    def _rouge_of_random_days(self, place: int, end: int, outcome: WeightedText) -> Rouge:
        """Mean ROUGE of past days of the last year."""
        since = max(end + 1 - YEAR, 0)
        past = since + np.flatnonzero(self._has_atoms[since : end + 1, place])
        if not len(past):
            return UNDEFINED
        number = min(TEXTS, len(past))
        days = self._random(place, end, 1).choice(past, size=number, replace=False)
        texts = [self._day_text(int(day), place) for day in days]
        return expected_rouge(texts, np.full(number, 1 / number), outcome)


# --- ensembles ------------------------------------------------------------------------------------


def _draw(kernel: FloatArray, uniform: FloatArray) -> IntArray:
    """Positions drawn by a kernel over days; none where it has no weight."""
    cumulated = kernel.cumsum()
    if not len(cumulated) or cumulated[-1] <= 0:
        return np.zeros(0, dtype=np.int64)
    drawn: IntArray = np.searchsorted(cumulated, uniform * cumulated[-1], side="right").astype(
        np.int64
    )
    return drawn


def _existing(futures: StreamFutures) -> list[Measure]:
    """The futures that exist, as measures."""
    measures = []
    for number in np.flatnonzero(futures.exists):
        atoms = futures.weights[number] > 0
        masses = futures.weights[number][atoms].astype(np.float64)
        measures.append(Measure(futures.points[number][atoms], masses))
    return measures


def _batch(
    outcome: Measure, points: FloatArray, weights: FloatArray, past: Sequence[Measure]
) -> Measures:
    """The day itself, the futures and past days as one padded batch, in this order."""
    listed = [outcome, *past]
    size = max(points.shape[1], *(len(measure.weights) for measure in listed))
    total = len(listed) + len(points)
    all_points = np.zeros((total, size, outcome.points.shape[1]))
    all_weights = np.zeros((total, size))
    after = 1 + len(points)
    all_points[1:after, : points.shape[1]] = points
    all_weights[1:after, : points.shape[1]] = weights
    for row, measure in zip([0, *range(after, total)], listed, strict=True):
        all_points[row, : len(measure.weights)] = measure.points
        all_weights[row, : len(measure.weights)] = normalise(measure.weights)
    return Measures(torch.from_numpy(all_points), torch.from_numpy(all_weights))


def _ensembles(
    futures: StreamFutures, past: dict[str, IntArray], distinct: IntArray
) -> dict[str, Ensemble]:
    """The ensembles of futures and of past days, as rows of a batch."""
    kept = futures.exists
    number = int(kept.sum())
    rows = np.arange(1, number + 1)
    ensembles = {}
    if number:
        ensembles[TRANSPORTED] = Ensemble(rows, np.full(number, 1 / number))
        ensembles[REWEIGHTED] = Ensemble(rows, normalise(futures.reweighted.weights[kept]))
    for name, days in past.items():
        if len(days):
            rows = 1 + number + np.searchsorted(distinct, days)
            ensembles[name] = Ensemble(rows, np.full(len(days), 1 / len(days)))
    return ensembles


def _scores(case: _Case, distances: FloatArray) -> list[FutureScore]:
    """Scores of all ensembles of one stream, with the distances of its measures to the day."""
    stream, texts, nothing = case.stream, case.texts, float("nan")
    energies = energy_scores(case.measures, case.ensembles)
    scores = [
        FutureScore(
            stream, name, len(ensemble.rows), energies[name],
            float(ensemble.weights @ distances[ensemble.rows]), texts.get(name, UNDEFINED),
        )
        for name, ensemble in case.ensembles.items()
    ]  # fmt: skip
    text_only = [name for name in texts if name not in case.ensembles]
    return scores + [
        FutureScore(stream, name, 0, nothing, nothing, texts[name]) for name in text_only
    ]
