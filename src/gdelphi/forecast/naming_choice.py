"""Which names futures get: the best of three, by their words on validation B.

The texts of a few futures and of the expected day are compared with the day's own text by ROUGE
(order-free, `rouge`), under each naming of `names`; the one with the highest mean is kept beside
the model. Not chosen: how often a namer reads observed atoms back (`benchmarks/words.py names`).
That asks what lies at a point, this asks which words come true; and it is moved atoms that are to
be named, which lie where no observed one did.
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
from gdelphi.forecast.expected_day import expected_day, named_day
from gdelphi.forecast.naming import (
    NAMER_FOLDER,
    NAMINGS,
    ChosenNames,
    NameBook,
    NameScore,
    digest_of,
    fitting_namer,
    forget_names,
    keep_names,
)
from gdelphi.forecast.prediction import (
    Called,
    Names,
    Naming,
    Phrase,
    StreamFutures,
    call_atoms,
)
from gdelphi.forecast.predictor import Predictor, stream_futures
from gdelphi.forecast.wording import (
    text_of,
    text_of_brief,
    text_of_day,
)
from gdelphi.scores.rouge import (
    Rouge,
    WeightedText,
    expected_rouge,
    matched_rouge,
)
from gdelphi.text.namer import Namer

DAYS: Final = 12  # of validation B that are looked at, evenly spread
FUTURES: Final = 5  # of each stream whose words are compared
USUAL_NAMER: Final = "text-namer"  # in the folder of models, where `gdelphi text train` puts it


def choose_names(
    predictor: Predictor, on_step: OnStep, *, namer: Path | None = None, days: int = DAYS
) -> ChosenNames | None:
    """Decide how a model's futures are named, and keep that in its folder. Without a namer that
    fits the measures they are called by their origin, and nothing is kept."""
    tried = namer_to_try(predictor, namer)
    if tried is None:
        forget_names(predictor.folder)
        predictor.names = NameBook(predictor.folder, predictor.pack, predictor.space)
        return None
    book = NameBook(predictor.folder, predictor.pack, predictor.space, namer=tried)
    tuning = predictor.target_days("validation_b")
    chosen_days = spread(tuning, days)
    comparison = Comparison(predictor, book)
    for number, day in enumerate(chosen_days, start=1):
        on_step(f"comparing names of futures, day {number} of {len(chosen_days)}")
        comparison.add(day)
    scores = comparison.scores()
    found = ChosenNames(
        by=max(NAMINGS, key=lambda by: scores[by].mean) if comparison.texts else "origin",
        namer=digest_of(tried),
        since=chosen_days[0].isoformat(),
        until=chosen_days[-1].isoformat(),
        days=len(chosen_days),
        texts=comparison.texts,
        scores=scores,
    )
    keep_names(predictor.folder, found, tried)
    predictor.names = NameBook(predictor.folder, predictor.pack, predictor.space)
    return found


def namer_to_try(predictor: Predictor, given: Path | None) -> Path | None:
    """The given namer, which must fit; else the one among the models, or the model's own."""
    if given is not None:
        Namer.load(given, predictor.space)
        return given
    usual = (predictor.settings.flows.models / USUAL_NAMER, predictor.folder / NAMER_FOLDER)
    return next((folder for folder in usual if fitting_namer(folder, predictor.space)), None)


def spread(days: Sequence[date], most: int) -> list[date]:
    """At most so many of some days, evenly spread."""
    places = np.linspace(0, len(days) - 1, min(most, len(days))).round().astype(int)
    return [days[place] for place in places.tolist()]


# --- comparing ------------------------------------------------------------------------------------


class _Said(NamedTuple):
    """What one naming says of one stream and day."""

    futures: Rouge
    brief: Rouge
    atoms: int
    renamed: int
    unreadable: int


class Comparison:
    """All namings on the same days: what their words are worth."""

    def __init__(self, predictor: Predictor, book: NameBook, *, futures: int = FUTURES) -> None:
        self._predictor, self._book, self._most = predictor, book, futures
        self._said: dict[Naming, list[_Said]] = {by: [] for by in NAMINGS}

    @property
    def texts(self) -> int:
        """Days of streams that were compared."""
        return len(self._said["origin"])

    def add(self, day: date) -> None:
        """Compare the futures of a target day, for the streams that have a text on it."""
        predictor, origin = self._predictor, day - timedelta(days=1)
        end = predictor.sampler.position(origin)
        roots = predictor.known_at("root", origin)
        published = predictor.publisher("root").forecast(roots, origin)
        sampled = predictor.sampler.at(origin)
        for place, said in enumerate(published):
            came = text_of_day(predictor.pack, end + 1, place)
            if came.phrases:
                futures = stream_futures(predictor, sampled, place, roots, said.occurs)
                self._compare(futures, came, place, end)

    def _compare(self, futures: StreamFutures, came: WeightedText, place: int, end: int) -> None:
        stream = self._predictor.streams[place]
        some = _Atoms.of(futures, self._most)
        expected = expected_day(futures, self._predictor.settings.measures)
        for by in NAMINGS:
            names = self._book.at(place, end, by)
            called = some.called(names)
            brief = named_day(expected, replace(futures, names=names)) if expected else ()
            self._said[by].append(
                _Said(
                    some.rouge(called.phrases, came, stream),
                    matched_rouge(text_of_brief(brief, stream), came),
                    len(some.drawn),
                    sum(new != own for new, own in zip(called.phrases, some.drawn, strict=True)),
                    called.unreadable,
                )
            )

    def scores(self) -> dict[Naming, NameScore]:
        """Means over all streams and days; shares over all atoms."""
        return {by: _score(said) for by, said in self._said.items()}


class _Atoms(NamedTuple):
    """The heavy atoms of some futures, one after the other."""

    future: IntArray
    """which future each is of, [atom]"""
    points: VectorArray
    weights: FloatArray
    drawn: list[Phrase]

    @classmethod
    def of(cls, futures: StreamFutures, most: int) -> "_Atoms":
        chosen = np.zeros(len(futures.days), dtype=np.bool_)
        chosen[np.flatnonzero(futures.exists)[:most]] = True
        there = futures.heavy & chosen[:, None]
        drawn = [futures.phrases[place] for place in futures.named[there]]
        weights = futures.weights[there].astype(np.float64)
        return cls(np.nonzero(there)[0], futures.points[there], weights, drawn)

    def called(self, names: Names | None) -> Called:
        return call_atoms(names, self.points, self.weights, self.drawn)

    def rouge(self, phrases: Sequence[Phrase], came: WeightedText, stream: str) -> Rouge:
        """Mean over the futures; nothing for no future, like an empty text."""
        texts = []
        for number in np.unique(self.future):
            own = np.flatnonzero(self.future == number)
            named = [phrases[place] for place in own.tolist()]
            texts.append(text_of(named, self.weights[own], stream))
        if not texts:
            return Rouge(0.0, 0.0, 0.0)
        return expected_rouge(texts, np.full(len(texts), 1 / len(texts)), came)


def _score(said: Sequence[_Said]) -> NameScore:
    atoms = max(sum(each.atoms for each in said), 1)
    return NameScore(
        _mean([each.futures for each in said]),
        _mean([each.brief for each in said]),
        round(sum(each.renamed for each in said) / atoms, 6),
        round(sum(each.unreadable for each in said) / atoms, 6),
    )


def _mean(scores: Sequence[Rouge]) -> tuple[float, ...]:
    """Rounded: what decides nothing need not differ from machine to machine."""
    if not scores:
        return (0.0, 0.0, 0.0)
    return tuple(round(float(value), 6) for value in np.mean(scores, axis=0))
