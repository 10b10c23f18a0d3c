"""Making the futures of a stream: whole days that agree with what is published.

Two ways, of which the better one on validation B is published (`future_choice.py`):

    moved        days that the network has drawn, with their atoms moved on
    recombined   days drawn to agree with the forecast, which take some roots from a second day
"""

import zlib
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np

from gdelphi.common.types import FloatArray, Forecast, IntArray
from gdelphi.forecast.future_weights import reweight
from gdelphi.forecast.naming import AtomNames
from gdelphi.forecast.prediction import Phrase, StreamFutures
from gdelphi.forecast.recombine import draw_recombination, law_of_days, recombined_atoms
from gdelphi.measures.pack import Pack
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import occurs_of, surge_threshold
from gdelphi.model.sampler import Sampled, Sampler

RECOMBINED: Final = 21  # of the random numbers that recombined futures are drawn with


@dataclass(frozen=True, eq=False)
class FutureMaker:
    """Makes futures of a model's streams, which are given by their place; histories are those of
    the roots."""

    pack: Pack
    sampler: Sampler
    names: AtomNames

    def moved(
        self, sampled: Sampled, place: int, history: Profiles, wanted: FloatArray
    ) -> StreamFutures:
        """The days that the model has drawn, with their atoms moved on."""
        drawn = sampled.futures
        days = self._days(drawn.days[place])
        happens = occurs_of(history.counts[place, drawn.days[place] - self._first(history)])
        phrases, index = self._phrases(drawn.rows[place])
        return StreamFutures(
            days=days,
            donors=days,
            lent=np.zeros(happens.shape, dtype=np.bool_),
            points=drawn.points[place],
            weights=drawn.weights[place],
            gates=drawn.gates[place],
            spare=drawn.spare[place],
            drawn_phrases=phrases,
            drawn_index=index,
            happens=happens,
            reweighted=reweight(happens, wanted, np.full(len(days), 1 / len(days))),
            seed=self.sampler.seed,
            namer=self.names.at(place, self.sampler.position(sampled.origin)),
        )

    def recombined(
        self, sampled: Sampled, place: int, history: Profiles, forecast: Forecast
    ) -> StreamFutures:
        """Days drawn to agree with the forecast, which take some roots from a second day."""
        # 1. The law over the days that the model may draw from, by their position in the history.
        end = self.sampler.position(sampled.origin) - self._first(history)
        prior = sampled.day_probabilities[place][-(end + 1) :]
        if not prior.any():  # a stream without a past
            prior = np.ones(len(prior))
        known = np.arange(end + 1 - len(prior), end + 1)
        threshold = surge_threshold(history, sampled.origin)[place]
        counts, weights = history.counts[place], history.weights[place]
        law = law_of_days(counts[known], weights[known], threshold, forecast, prior)
        # 2. Both days of each future, and their atoms.
        key = [self.sampler.seed, zlib.crc32(forecast.stream.encode())]
        random = np.random.default_rng(
            [*key, sampled.origin.toordinal(), forecast.horizon, RECOMBINED]
        )
        places = draw_recombination(law, self.sampler.number, len(history.codes), random)
        first = int(known[0]) + self._first(history)
        drawn = places._replace(days=places.days + first, donors=places.donors + first)
        made, atoms = recombined_atoms(self.pack, place, history.codes, drawn)
        # 3. Weights that leave nothing between the futures and what is published.
        occurs = occurs_of(counts[known])
        happens = np.where(made.lent, occurs[places.donors], occurs[places.days])
        phrases, index = self._phrases(atoms.rows)
        number = len(happens)
        return StreamFutures(
            days=self._days(made.days),
            donors=self._days(made.donors),
            lent=made.lent,
            points=atoms.points,
            weights=atoms.weights,
            gates=(atoms.weights > 0).astype(np.float32),
            spare=atoms.lent,
            drawn_phrases=phrases,
            drawn_index=index,
            happens=happens,
            reweighted=reweight(happens, forecast.occurs, np.full(number, 1 / number)),
            seed=self.sampler.seed,
            namer=self.names.at(place, self.sampler.position(sampled.origin)),
        )

    def _first(self, history: Profiles) -> int:
        """Position in the pack of a history's first day."""
        return (history.days[0] - self.pack.first_day).days

    def _days(self, positions: IntArray) -> tuple[date, ...]:
        """The days at positions in the pack."""
        first = self.pack.first_day.toordinal()
        return tuple(map(date.fromordinal, (first + positions).tolist()))

    def _phrases(self, rows: IntArray) -> tuple[tuple[Phrase, ...], IntArray]:
        """Distinct phrases of the pack's atoms at rows [K, n], and the place of each among them."""
        distinct, index = np.unique(rows, return_inverse=True)
        columns = self.pack.phrases_at(distinct)
        phrases = tuple(map(Phrase._make, zip(*columns, strict=True)))
        return phrases, index.reshape(rows.shape)
