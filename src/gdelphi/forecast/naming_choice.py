"""How futures are named: the best of three ways, by their words on validation B.

The texts of a few futures and of the expected day are compared with the day's own text by ROUGE
(order-free, scores/rouge.py), under each naming of naming.py; the one with the highest mean is kept
beside the model. Not chosen: how often a namer reads observed atoms back (`benchmarks/text.py
names`). That asks what lies at a point, this asks which words come true; and it is moved atoms that
are to be named, which lie where no observed one did.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.progress import OnStep
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.forecast.expected_day import expected_day, name_expected_day
from gdelphi.forecast.naming import (
    NAMER_FOLDER,
    NAMINGS,
    AtomNames,
    NamingChoice,
    NamingScore,
    forget_names,
    keep_names,
    load_namer,
    namer_digest,
    namer_fits,
)
from gdelphi.forecast.prediction import (
    Naming,
    Phrase,
    StreamFutures,
    name_future_atoms,
)
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.wording import (
    brief_text,
    day_text,
    weighted_text,
)
from gdelphi.scores.rouge import (
    Rouge,
    WeightedText,
    expected_rouge,
    matched_rouge,
)

DAYS: Final = 12  # of validation B that are looked at, evenly spread
FUTURES: Final = 5  # of each stream whose words are compared
USUAL_NAMER: Final = "text-namer"  # in the folder of models, where `gdelphi text train` puts it


def choose_names(
    predictor: Predictor, on_step: OnStep, *, namer: Path | None = None, days: int = DAYS
) -> NamingChoice | None:
    """Decide how a model's futures are named, keep that in its folder, and return it. Without a
    namer that fits the measures they are named by their origin, and nothing is kept."""
    candidate = namer_to_try(predictor, namer)
    if candidate is None:
        forget_names(predictor.folder)
        predictor.names = AtomNames(predictor.folder, predictor.pack, predictor.space)
        return None
    names = AtomNames(predictor.folder, predictor.pack, predictor.space, namer=candidate)
    chosen_days = spread_days(predictor.target_days("validation_b"), days)
    comparison = NamingComparison(predictor, names)
    for number, day in enumerate(chosen_days, start=1):
        on_step(f"comparing names of futures, day {number} of {len(chosen_days)}")
        comparison.add(day)
    scores = comparison.scores()
    choice = NamingChoice(
        by=max(NAMINGS, key=lambda by: scores[by].mean) if comparison.texts else "origin",
        namer=namer_digest(candidate),
        since=chosen_days[0].isoformat(),
        until=chosen_days[-1].isoformat(),
        days=len(chosen_days),
        texts=comparison.texts,
        scores=scores,
    )
    keep_names(predictor.folder, choice, candidate)
    predictor.names = AtomNames(predictor.folder, predictor.pack, predictor.space)
    return choice


def namer_to_try(predictor: Predictor, given: Path | None) -> Path | None:
    """The given namer, which must fit; else the one among the models, or the model's own."""
    if given is not None:
        load_namer(given, predictor.space)
        return given
    usual = (predictor.settings.flows.models / USUAL_NAMER, predictor.folder / NAMER_FOLDER)
    return next((folder for folder in usual if namer_fits(folder, predictor.space)), None)


def spread_days(days: Sequence[date], most: int) -> list[date]:
    """At most so many of some days, evenly spread."""
    places = np.linspace(0, len(days) - 1, min(most, len(days))).round().astype(int)
    return [days[place] for place in places.tolist()]


# --- comparing ------------------------------------------------------------------------------------


class _TextScores(NamedTuple):
    """How good one naming was on one stream and day."""

    futures: Rouge
    brief: Rouge
    atoms: int
    renamed: int
    unreadable: int


class NamingComparison:
    """All namings on the same days: how like the day's own text their words are."""

    def __init__(self, predictor: Predictor, names: AtomNames, *, futures: int = FUTURES) -> None:
        self._predictor, self._names, self._most = predictor, names, futures
        self._scores: dict[Naming, list[_TextScores]] = {by: [] for by in NAMINGS}

    @property
    def texts(self) -> int:
        """Days of streams that were compared."""
        return len(self._scores["origin"])

    def add(self, day: date) -> None:
        """Compare the futures of a target day, for the streams that have a text on it."""
        predictor, origin = self._predictor, day - timedelta(days=1)
        end = predictor.sampler.position(origin)
        roots = predictor.known_at("root", origin)
        published = predictor.publisher("root").forecast(roots, origin)
        sampled = predictor.sampler.at(origin)
        for place, forecast in enumerate(published):
            outcome = day_text(predictor.pack, end + 1, place)
            if outcome.phrases:
                futures = predictor.make_futures(sampled, place, roots, forecast)
                self._compare(futures, outcome, place, end)

    def _compare(self, futures: StreamFutures, outcome: WeightedText, place: int, end: int) -> None:
        stream = self._predictor.streams[place]
        atoms = _HeavyAtoms.of(futures, self._most)
        expected = expected_day(futures, self._predictor.settings.measures)
        for by in NAMINGS:
            namer = self._names.at(place, end, by)
            named = name_future_atoms(namer, atoms.points, atoms.weights, atoms.drawn)
            brief = name_expected_day(expected, replace(futures, namer=namer)) if expected else ()
            pairs = zip(named.phrases, atoms.drawn, strict=True)
            self._scores[by].append(
                _TextScores(
                    futures=atoms.rouge(named.phrases, outcome, stream),
                    brief=matched_rouge(brief_text(brief, stream), outcome),
                    atoms=len(atoms.drawn),
                    renamed=sum(name != drawn for name, drawn in pairs),
                    unreadable=named.unreadable,
                )
            )

    def scores(self) -> dict[Naming, NamingScore]:
        """Means over all streams and days; shares over all atoms."""
        means = {}
        for by, scores in self._scores.items():
            atoms = max(sum(score.atoms for score in scores), 1)
            means[by] = NamingScore(
                futures=_mean([score.futures for score in scores]),
                brief=_mean([score.brief for score in scores]),
                renamed=round(sum(score.renamed for score in scores) / atoms, 6),
                unreadable=round(sum(score.unreadable for score in scores) / atoms, 6),
            )
        return means


class _HeavyAtoms(NamedTuple):
    """The heavy atoms of some futures, one after the other."""

    future: IntArray
    """which future each is of, [atom]"""
    points: VectorArray
    weights: FloatArray
    drawn: list[Phrase]

    @classmethod
    def of(cls, futures: StreamFutures, most: int) -> "_HeavyAtoms":
        """Those of the first futures that have atoms, at most so many futures."""
        chosen = np.zeros(len(futures.days), dtype=np.bool_)
        chosen[np.flatnonzero(futures.exists)[:most]] = True
        atoms = futures.heavy & chosen[:, None]
        drawn = [futures.drawn_phrases[place] for place in futures.drawn_index[atoms]]
        weights = futures.weights[atoms].astype(np.float64)
        return cls(np.nonzero(atoms)[0], futures.points[atoms], weights, drawn)

    def rouge(self, phrases: Sequence[Phrase], outcome: WeightedText, stream: str) -> Rouge:
        """Mean over the futures; nothing for no future, like an empty text."""
        texts = []
        for number in np.unique(self.future):
            own = np.flatnonzero(self.future == number)
            names = [phrases[place] for place in own.tolist()]
            texts.append(weighted_text(names, self.weights[own], stream))
        if not texts:
            return Rouge(0.0, 0.0, 0.0)
        return expected_rouge(texts, np.full(len(texts), 1 / len(texts)), outcome)


def _mean(scores: Sequence[Rouge]) -> tuple[float, ...]:
    """Rounded: what decides nothing need not differ from machine to machine."""
    if not scores:
        return (0.0, 0.0, 0.0)
    return tuple(round(float(value), 6) for value in np.mean(scores, axis=0))
