"""Scores of whole futures: how far the days that were imagined are from the day that came.

Ensembles of a stream's next day, each of K members, are scored against its own descriptor:

    transported   the model's futures: past days drawn by its attention, moved on
    tilted        the same with weights that agree with what is published
    drawn         the same past days, not moved: what transport adds is the difference
    recency       past days drawn by the recency kernel, where attention begins untrained
    climatology   past days of the last year, all alike
    text          what the text forecaster writes, where the predictor has one

The energy score over sliced W2 is proper; all have its fair form, because their members are draws.
The mean Sinkhorn distance is for information: a forecaster that says the same day K times may win
it. ROUGE compares the words, of the tilted futures and of the day in brief, beside random past
days, since words of templates earn something for free.

A past day without atoms is never drawn by the last two, and members without atoms take no part.
Past days are embedded once for all ensembles of a stream, since many draw the same ones.
"""

import importlib.util
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from gdelphi.common.types import (
    FloatArray,
    IntArray,
    Measure,
)
from gdelphi.forecast.baselines import RecencyBootstrap
from gdelphi.forecast.expected_day import expected_day_in_brief
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.wording import (
    english_phrases,
    normalise,
    brief_text,
    day_text,
    written_text,
)
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.past import past_of
from gdelphi.measures.space import Points
from gdelphi.ot.energy import energy_score, root_divergence
from gdelphi.ot.entropic import sinkhorn_divergence
from gdelphi.ot.geometry import Measures
from gdelphi.ot.sliced import sliced_embedding
from gdelphi.scores.rouge import (
    UNDEFINED,
    Rouge,
    WeightedText,
    expected_rouge,
    matched_rouge,
)
from gdelphi.text.forecaster import StreamTexts
from gdelphi.text.measures import measure_of

TRANSPORTED: Final = "transported"
REWEIGHTED: Final = "tilted"
DRAWN: Final = "drawn"
RECENCY: Final = "recency"
CLIMATOLOGY: Final = "climatology"
BRIEF: Final = "brief"
RANDOM_DAYS: Final = "random days"
WRITTEN: Final = "text"
LIKELIEST: Final = "text brief"
YEAR: Final = 365
TEXTS: Final = 25
"""futures and random past days whose words are compared: ROUGE costs more than all else together,
and futures are independent draws, so that the first are as good as any"""

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


@dataclass(frozen=True, eq=False)
class _Ensemble:
    """Members by their rows among all measures of a stream; a row may be there more than once."""

    rows: IntArray
    weights: FloatArray


class FutureJudge:
    """Scores the futures of a predictor's streams."""

    def __init__(self, predictor: Predictor, *, text: bool, seed: int = 0) -> None:
        self._predictor, self._pack = predictor, predictor.pack
        self._text, self._seed = text, seed
        self._day_text = lru_cache(2**15)(partial(day_text, predictor.pack))
        starts = predictor.pack.atom_columns()[2]
        each = predictor.pack.facts.variants + 1
        sizes = np.diff(starts)[::each].reshape(predictor.pack.shape)
        self._has_atoms = sizes > 0  # [day, stream]
        self._points = (
            Points(predictor.space, open_cache(predictor.settings)) if predictor.text else None
        )

    def day(
        self,
        origin: date,
        futures: Sequence[StreamFutures],
        moved: Sequence[StreamFutures] | None = None,
    ) -> list[FutureScore]:
        """Scores of all streams whose next day has atoms, given their futures as published, and
        with moved atoms where that is not the same."""
        end = self._predictor.sampler.position(origin)
        came = end + 1
        kernel = self._recency(origin)
        written = (
            self._predictor.text.model.at(origin) if self._predictor.text else [None] * len(futures)
        )
        found: list[FutureScore] = []
        for place, published in enumerate(futures):
            if came < self._pack.facts.days and self._has_atoms[came, place]:
                other = None if moved is None else moved[place]
                found += self._stream(place, end, published, other, kernel, written[place])
        return found

    def _recency(self, origin: date) -> FloatArray:
        """The recency kernel over the pack's days up to the origin, [day]; 0 on missing days."""
        past = past_of(self._predictor.history("root"), origin)
        kernel = np.zeros(self._predictor.sampler.position(origin) + 1)
        kernel[past.ordinals - self._pack.first_day.toordinal()] = RecencyBootstrap().kernel(past)
        return kernel

    def _stream(
        self,
        place: int,
        end: int,
        futures: StreamFutures,
        moved: StreamFutures | None,
        kernel: FloatArray,
        written: StreamTexts | None = None,
    ) -> list[FutureScore]:
        stream = self._predictor.streams[place]
        past = self._drawn_days(place, end, futures, kernel)
        distinct = np.unique(np.concatenate(list(past.values())))
        texts_as_days = self._placed(written)
        measures = _batch(
            [self._pack.atoms(end + 1, place)],
            *_moved(moved or futures),
            [*(self._pack.atoms(int(day), place) for day in distinct), *texts_as_days],
        )
        ensembles = _ensembles(moved or futures, past, distinct)
        if moved is not None:  # published futures are drawn days, with other weights
            first = self._pack.first_day
            days = np.array([(day - first).days for day in futures.days], dtype=np.int64)
            there = futures.exists & self._has_atoms[days, place]
            rows = 1 + int(moved.exists.sum()) + np.searchsorted(distinct, days[there])
            ensembles.pop(REWEIGHTED, None)
            if there.any():
                ensembles[REWEIGHTED] = _Ensemble(rows, normalise(futures.reweighted.weights[there]))
        if texts_as_days:
            number = len(texts_as_days)
            rows = len(measures.weights) - number + np.arange(number)
            ensembles[WRITTEN] = _Ensemble(rows, np.full(number, 1 / number))
        texts = self._texts(place, end, futures) if self._text else {}
        if self._text and written is not None:
            texts |= self._written(written, self._day_text(end + 1, place), stream)
        energies, distances = _energies(measures, ensembles), _distances(measures)
        scores = [
            FutureScore(
                stream, name, len(each.rows), energies[name],
                float(each.weights @ distances[each.rows]), texts.get(name, UNDEFINED),
            )
            for name, each in ensembles.items()
        ]  # fmt: skip
        only_text = [name for name in texts if name not in ensembles]
        nothing = float("nan")
        return scores + [FutureScore(stream, x, 0, nothing, nothing, texts[x]) for x in only_text]

    def _drawn_days(
        self, place: int, end: int, futures: StreamFutures, kernel: FloatArray
    ) -> dict[str, IntArray]:
        """Positions in the pack of the days that ensembles of past days have drawn."""
        first = self._pack.first_day
        drawn = np.array([(day - first).days for day in futures.days], dtype=np.int64)
        there = self._has_atoms[: end + 1, place]
        drawn = drawn[(drawn >= 0) & there[drawn]]
        uniform = self._random(place, end, 0).random(len(futures.days))
        year = there & (np.arange(end + 1) > end - YEAR)
        return {
            DRAWN: drawn,
            RECENCY: _draw(kernel * there, uniform),
            CLIMATOLOGY: _draw(year.astype(np.float64), uniform),
        }

    def _random(self, place: int, end: int, purpose: int) -> np.random.Generator:
        """A function of stream and day: the same whatever else is asked."""
        stream = zlib.crc32(self._predictor.streams[place].encode())
        day = (self._pack.first_day + timedelta(days=end)).toordinal()
        return np.random.default_rng([self._seed, stream, day, 11, purpose])

    # Words.

    def _placed(self, written: StreamTexts | None) -> list[Measure]:
        """Texts that name anything, as measures."""
        if written is None or self._points is None:
            return []
        return [measure_of(self._points, text) for text in written.texts if text.phrases]

    def _written(self, written: StreamTexts, came: WeightedText, stream: str) -> dict[str, Rouge]:
        """Of texts as they were written, and of the one of the likeliest words."""
        members = [written_text(each, stream) for each in written.texts if each.phrases][:TEXTS]
        equal = np.full(len(members), 1 / max(len(members), 1))
        return {
            WRITTEN: expected_rouge(members, equal, came) if members else UNDEFINED,
            LIKELIEST: matched_rouge(written_text(written.likeliest, stream), came),
        }

    def _texts(self, place: int, end: int, futures: StreamFutures) -> dict[str, Rouge]:
        came = self._day_text(end + 1, place)
        stream = self._predictor.streams[place]
        said = english_phrases(futures.shown_phrases, stream)
        members, weights = [], []
        for number, masses in enumerate(futures.weights[:TEXTS]):
            kept = masses > 0
            if kept.any():
                names = [said[phrase] for phrase in futures.shown_index[number][kept]]
                members.append(WeightedText(names, normalise(masses[kept])))
                weights.append(futures.reweighted.weights[number])
        brief = expected_day_in_brief(futures, self._predictor.settings.measures)
        shown = brief_text(brief, stream)
        given = np.array(weights)
        return {
            REWEIGHTED: expected_rouge(members, normalise(given), came) if any(given) else UNDEFINED,
            BRIEF: matched_rouge(shown, came),
            RANDOM_DAYS: self._random_texts(place, end, came),
        }

    def _random_texts(self, place: int, end: int, came: WeightedText) -> Rouge:
        since = max(end + 1 - YEAR, 0)
        there = since + np.flatnonzero(self._has_atoms[since : end + 1, place])
        if not len(there):
            return UNDEFINED
        number = min(TEXTS, len(there))
        days = self._random(place, end, 1).choice(there, size=number, replace=False)
        texts = [self._day_text(int(day), place) for day in days]
        return expected_rouge(texts, np.full(number, 1 / number), came)


# --- ensembles ------------------------------------------------------------------------------------


def _draw(kernel: FloatArray, uniform: FloatArray) -> IntArray:
    """Positions drawn by a kernel over days; none where it has no weight."""
    ladder = kernel.cumsum()
    if not len(ladder) or ladder[-1] <= 0:
        return np.zeros(0, dtype=np.int64)
    found: IntArray = np.searchsorted(ladder, uniform * ladder[-1], side="right").astype(np.int64)
    return found


def _moved(futures: StreamFutures) -> tuple[FloatArray, FloatArray]:
    """Points and weights of the futures that have atoms, the latter summing to 1."""
    kept = futures.exists
    chosen = futures.weights.astype(np.float64)[kept]
    return futures.points[kept].astype(np.float64), chosen / chosen.sum(axis=1, keepdims=True)


def _batch(
    came: Sequence[Measure], points: FloatArray, weights: FloatArray, past: Sequence[Measure]
) -> Measures:
    """The day that came, the moved futures and past days as one padded batch, in this order."""
    listed = [*came, *past]
    size = max(points.shape[1], *(len(each.weights) for each in listed))
    total = len(listed) + len(points)
    all_points = np.zeros((total, size, came[0].points.shape[1]))
    all_weights = np.zeros((total, size))
    after = len(came) + len(points)
    all_points[len(came) : after, : points.shape[1]] = points
    all_weights[len(came) : after, : points.shape[1]] = weights
    places = [*range(len(came)), *range(after, total)]
    for place, each in zip(places, listed, strict=True):
        all_points[place, : len(each.weights)] = each.points
        all_weights[place, : len(each.weights)] = normalise(each.weights)
    return Measures(torch.from_numpy(all_points), torch.from_numpy(all_weights))


def _ensembles(
    futures: StreamFutures, past: dict[str, IntArray], distinct: IntArray
) -> dict[str, _Ensemble]:
    kept = futures.exists
    number = int(kept.sum())
    moved = np.arange(1, number + 1)
    found = {}
    if number:
        found[TRANSPORTED] = _Ensemble(moved, np.full(number, 1 / number))
        found[REWEIGHTED] = _Ensemble(moved, normalise(futures.reweighted.weights[kept]))
    for name, days in past.items():
        if len(days):
            rows = 1 + number + np.searchsorted(distinct, days)
            found[name] = _Ensemble(rows, np.full(len(days), 1 / len(days)))
    return found


def _energies(measures: Measures, ensembles: dict[str, _Ensemble]) -> dict[str, float]:
    """Fair energy scores against the first measure, in float64."""
    vectors = sliced_embedding(measures)
    vectors = vectors - vectors[0]
    known: dict[bytes, tuple[Tensor, Tensor]] = {}
    found = {}
    for name, each in ensembles.items():
        key = each.rows.tobytes()
        if key not in known:
            known[key] = _pair_distances(vectors, each.rows)
        to_outcome, between = known[key]
        weights = torch.from_numpy(each.weights)
        found[name] = float(energy_score(to_outcome, between, weights=weights, fair=True))
    return found


def _pair_distances(vectors: Tensor, rows: IntArray) -> tuple[Tensor, Tensor]:
    """Of members to the origin of the vectors, [k], and to each other, [k, k]."""
    distinct, place = np.unique(rows, return_inverse=True)
    chosen = vectors[torch.from_numpy(distinct)]
    squares = chosen.square().sum(dim=1)
    between = (squares[:, None] + squares - 2 * chosen @ chosen.mT).clamp_min(0).sqrt()
    between.fill_diagonal_(0)
    index = torch.from_numpy(place)
    return squares.sqrt()[index], between[index][:, index]


def _distances(measures: Measures) -> FloatArray:
    """Root of the Sinkhorn divergence of each measure to the first one."""
    points, weights = (part.to(torch.float32) for part in measures)
    weights = weights / weights.sum(dim=1, keepdim=True)
    outcome = Measures(points[:1].expand_as(points), weights[:1].expand_as(weights))
    found: FloatArray = (
        root_divergence(sinkhorn_divergence(Measures(points, weights), outcome)).double().numpy()
    )
    return found
