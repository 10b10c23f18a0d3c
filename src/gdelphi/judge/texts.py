"""Judging texts: how like the day's own text the words of each forecaster are.

Text forecasters, each an ensemble of texts of one stream's next day:

    text            the text forecaster's futures, with the weights that make them agree with what
                    is published; *text as written* the same, all alike; *text brief* its likeliest
                    words
    futures         the measure transformer's, moved on, and *brief* its day in brief
    random days     of the stream's last year
    yesterday       the origin's own text
    usual day       the few-atom summary of the stream's last year
    oracle days     of a simulated world: for each day that the fair oracle samples, the past day
                    whose shares of the roots are nearest to it: words that somebody could find who
                    knows the law of the next day's roots

Three forms of ROUGE (scores/rouge.py) and, of those that are ensembles of days, the fair
energy score over sliced W2. Expected ROUGE is not proper: the *usual day* may win it.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import (
    FloatArray,
    Forecaster,
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
    weighted_text,
    written_text,
)
from gdelphi.judge.past_days import last_year, oracle_days
from gdelphi.measures.clouds import Coded
from gdelphi.measures.descriptors import atom_rule, name_atoms
from gdelphi.measures.encoder import open_cache
from gdelphi.measures.space import Points
from gdelphi.ot.energy import sliced_energy_score
from gdelphi.ot.quantise import quantise_adaptively
from gdelphi.scores.rouge import (
    Rouge,
    WeightedText,
    matched_rouge,
    mean_rouge,
    published_rouge,
    recall_rouge,
)
from gdelphi.text.corpus import read_descriptors
from gdelphi.text.forecaster import TextForecaster
from gdelphi.text.measures import TextPlacer

USUAL_POINTS: Final = 400
FORMS: Final[Mapping[str, Callable[[WeightedText, WeightedText], Rouge]]] = {
    "order-free": matched_rouge,
    "published": published_rouge,
    "recall": recall_rouge,
}


class TextEnsemble(NamedTuple):
    """Texts of a stream's next day."""

    texts: list[WeightedText]
    days: list[Measure]
    """the same as measures; none where it is a single text"""
    weights: FloatArray | None = None
    """of the days; None: all alike"""


class TextScore(NamedTuple):
    """One text forecaster on one stream's day."""

    stream: str
    forecaster: str
    rouge: dict[str, Rouge]
    """by form, the mean over its texts"""
    energy: float
    """not-a-number where it is a single text"""


class TextJudge:
    """Scores the texts of a predictor's streams."""

    def __init__(
        self,
        predictor: Predictor,
        oracle: Forecaster | None = None,
        *,
        text: TextForecaster | None = None,
        texts: int = 10,
        seed: int = 0,
    ) -> None:
        """With a text forecaster, that is judged too; by default the predictor's own."""
        self._predictor, self._oracle, self._most, self._seed = predictor, oracle, texts, seed
        self._pack = predictor.pack
        points = Points(predictor.space, open_cache(predictor.settings))
        self._text = text or predictor.text
        self._placer = TextPlacer(points, read_descriptors(predictor.pack))

    def day(self, day: date) -> list[TextScore]:
        """Scores of all ensembles on a target day, for the streams that have a text on it."""
        origin = day - timedelta(days=1)
        end = self._predictor.sampler.position(origin)
        roots = self._predictor.known_at("root", origin)
        published = self._predictor.publisher("root").forecast(roots, origin)
        sampled = self._predictor.sampler.at(origin)
        oracle = self._oracle.forecast(roots, origin) if self._oracle else None
        scores: list[TextScore] = []
        for place, forecast in enumerate(published):
            if not day_text(self._pack, end + 1, place).phrases:
                continue
            futures = self._predictor.make_futures(sampled, place, roots, forecast)
            ensembles = self._past(place, end) | self._model(place, futures)
            if self._text is not None:
                written = weigh_texts(self._text, roots, place, forecast)
                ensembles |= self._written(place, end, written)
            if oracle is not None:
                samples = oracle[place].share_samples
                days = oracle_days(self._pack, place, end, samples)
                ensembles["oracle days"] = self._days(place, days)
            scores += [self._score(place, end, name, texts) for name, texts in ensembles.items()]
        return scores

    def _score(self, place: int, end: int, name: str, ensemble: TextEnsemble) -> TextScore:
        outcome = day_text(self._pack, end + 1, place)
        texts = ensemble.texts or [WeightedText([], np.zeros(0))]
        weights = ensemble.weights
        if weights is None or not ensemble.texts:
            weights = np.ones(max(len(ensemble.days), len(texts)))
        rouge = {
            form: mean_rouge([score(text, outcome) for text in texts], weights[: len(texts)])
            for form, score in FORMS.items()
        }
        energy = float("nan")
        if len(ensemble.days) > 1:
            energy = sliced_energy_score(
                ensemble.days, self._pack.atoms(end + 1, place), weights=normalise(weights)
            )
        return TextScore(self._predictor.streams[place], name, rouge, energy)

    # Ensembles of texts.

    def _past(self, place: int, end: int) -> dict[str, TextEnsemble]:
        """Those that only repeat the past."""
        past = last_year(self._pack, place, end)
        if not past:
            return {}
        stream = zlib.crc32(self._predictor.streams[place].encode())
        random = np.random.default_rng([self._seed, stream, end, 31])
        drawn = random.choice(past, size=100).tolist()
        return {
            "random days": self._days(place, drawn),
            "yesterday": TextEnsemble([day_text(self._pack, past[-1], place)], []),
            "usual day": TextEnsemble([self._usual_day(place, past)], []),
        }

    def _days(self, place: int, days: Sequence[int]) -> TextEnsemble:
        """Past days as an ensemble."""
        texts = [day_text(self._pack, day, place) for day in days[: self._most]]
        return TextEnsemble(texts, [self._pack.atoms(day, place) for day in days])

    def _model(self, place: int, futures: StreamFutures) -> dict[str, TextEnsemble]:
        stream = self._predictor.streams[place]
        sentences = english_phrases(futures.shown_phrases, stream)
        texts, days = [], []
        for number in np.flatnonzero(futures.exists).tolist():
            kept = futures.weights[number] > 0
            weights = normalise(futures.weights[number][kept])
            names = [sentences[at] for at in futures.shown_index[number][kept]]
            texts.append(WeightedText(names, weights))
            days.append(Measure(futures.points[number][kept], weights))
        brief = expected_day_in_brief(futures, self._predictor.settings.measures)
        return {
            "futures": TextEnsemble(texts[: self._most], days),
            "brief": TextEnsemble([brief_text(brief, stream)], []),
        }

    def _written(self, place: int, end: int, written: WeightedTexts) -> dict[str, TextEnsemble]:
        stream = self._predictor.streams[place]
        days = [self._placer.measure(text, place, end) for text in written.texts]
        texts = [written_text(text, stream) for text in written.texts[: self._most]]
        return {
            "text": TextEnsemble(texts, days, written.weights),
            "text as written": TextEnsemble(texts, days),
            "text brief": TextEnsemble([written_text(written.likeliest, stream)], []),
        }

    # Words.

    def _usual_day(self, place: int, days: Sequence[int]) -> WeightedText:
        """The few-atom summary of many days, named by the phrases of their atoms."""
        measures = [self._pack.atoms(day, place) for day in days]
        phrases = [
            phrase
            for day in days
            for phrase in zip(*self._pack.atom_phrases(day, place), strict=True)
        ]
        masses = np.concatenate([measure.weights for measure in measures])
        kept: IntArray = np.argsort(-masses, kind="stable")[:USUAL_POINTS]
        points = np.concatenate([measure.points for measure in measures])[kept]
        mean = Measure(points, normalise(masses[kept]))
        atoms = quantise_adaptively(mean, atom_rule(self._predictor.settings.measures))
        codes = Coded(tuple(phrases[at][1] for at in kept), np.arange(len(kept)))
        chosen = name_atoms(codes, mean, atoms)
        stream = self._predictor.streams[place]
        return weighted_text((phrases[kept[at]] for at in chosen), atoms.weights, stream)
