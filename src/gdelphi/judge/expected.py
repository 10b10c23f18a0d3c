"""Scores of the expected day: how far a few atoms are from the cloud of the day that came.

    decoder      what the measure decoder says
    start        where it begins: the few-atom summary of the recent past, by recency
    yesterday    the descriptor of the last day
    usual        the few-atom summary of the last year, all days alike
    random days  descriptors of random days of the last year, their mean score
    oracle days  of a simulated world: the few-atom summary of the past days that are nearest to
                 those that the fair oracle samples

The divergence is what the decoder is trained for: the debiased Sinkhorn divergence to the cloud. It
is judged against its start. ROUGE compares the words with those of the day's own descriptor.
Streams and days are judged where all have something to say.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from gdelphi.common.types import FloatArray, Forecast, Measure
from gdelphi.forecast.decoded_day import DayDecoder, DecodedDay, divergences_of, name_decoded_day
from gdelphi.forecast.wording import brief_text, day_text
from gdelphi.judge.past_days import YEAR, last_year, oracle_days
from gdelphi.measures.pack import Pack
from gdelphi.model.decoder_start import RecentCloud, summary
from gdelphi.model.decoder_task import OUTCOME_POINTS
from gdelphi.scores.rouge import UNDEFINED, Rouge, WeightedText, expected_rouge, matched_rouge

DECODER: Final = "decoder"
START: Final = "start"
YESTERDAY: Final = "yesterday"
USUAL: Final = "usual"
RANDOM_DAYS: Final = "random days"
ORACLE_DAYS: Final = "oracle days"
DRAWN: Final = 5  # random days
FOREVER: Final = 1e9  # a half-life that makes all days alike

COLUMNS: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("measure", pa.string()),
        ("divergence", pa.float64()),
        ("rouge1", pa.float64()),
        ("rouge2", pa.float64()),
        ("rougeL", pa.float64()),
    ]
)


class ExpectedScore(NamedTuple):
    """One measure of one stream and day."""

    stream: str
    measure: str
    divergence: float
    rouge: Rouge = UNDEFINED


def expected_table(scores: Sequence[ExpectedScore]) -> pa.Table:
    """The rows of a day."""
    rows = [(*score[:3], *score.rouge[:3]) for score in scores]
    columns = zip(*rows, strict=True) if rows else [[] for _ in COLUMNS]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, COLUMNS.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


class _Case(NamedTuple):
    """A stream's day and what is held against it."""

    place: int
    outcome: Measure
    named: dict[str, tuple[Measure, RecentCloud]]
    """few-atom summaries, and the clouds that they are called by"""
    past: list[int]
    """random days"""
    measures: list[Measure]
    """the summaries, yesterday, the random days"""


class ExpectedJudge:
    """Scores expected days of the streams of a pack, which are given by position, as days are."""

    def __init__(self, decoder: DayDecoder, *, text: bool, seed: int = 0) -> None:
        self._decoder, self._text, self._seed = decoder, text, seed
        self._pack: Pack = decoder.recent.pack
        self._day_text = lru_cache(2**15)(partial(day_text, self._pack))

    def day(self, end: int, oracle: Sequence[Forecast] = ()) -> list[ExpectedScore]:
        """Scores of all streams that have something to say, and reports on the day after `end`; of
        a simulated world also by what its oracle forecasts of the roots."""
        samples = {forecast.stream: forecast.share_samples for forecast in oracle}
        if end + 1 >= self._pack.facts.days:
            return []
        judged = {
            place: outcome
            for place in np.flatnonzero(self._pack.atom_numbers[end]).tolist()  # had a yesterday
            if (outcome := self._decoder.recent.cloud(place, end + 1, OUTCOME_POINTS)) is not None
        }
        cases = [
            case
            for place, day in self._decoder.some(end, judged).items()
            if (case := self._case(place, end, day, judged[place], samples)) is not None
        ]
        if not cases:
            return []
        sizes = [len(case.measures) for case in cases]
        values = divergences_of(
            [measure for case in cases for measure in case.measures],
            [case.outcome for case in cases],
            np.repeat(np.arange(len(cases)), sizes).tolist(),
        )
        by_case = np.split(values, np.cumsum(sizes)[:-1])
        return [
            score
            for case, own in zip(cases, by_case, strict=True)
            for score in self._scores(case, end, own)
        ]

    def _case(
        self,
        place: int,
        end: int,
        day: DecodedDay,
        outcome: Measure,
        oracle: Mapping[str, FloatArray],
    ) -> "_Case | None":
        """What is held against a stream's day; None where something has nothing to say."""
        past = self._random_days(place, end)
        usual = self._decoder.recent.recent_cloud(place, end, FOREVER, days=YEAR)
        if usual is None or not len(past):
            return None
        shares = oracle.get(self._pack.facts.streams[place])
        known = None if shares is None else self._oracle_cloud(place, end, shares)
        yesterday = self._pack.atoms(end, place)
        named = {
            DECODER: (day.decoded, day.recent),
            START: (day.start, day.recent),
            USUAL: (self._summary(usual), usual),
        }
        if known is not None:
            named[ORACLE_DAYS] = (self._summary(known), known)
        days = [yesterday, *(self._pack.atoms(one, place) for one in past)]
        measures = [*(measure for measure, _ in named.values()), *days]
        return _Case(place, outcome, named, past, measures)

    def _scores(self, case: "_Case", end: int, values: FloatArray) -> list[ExpectedScore]:
        """The scores of a stream, given the divergences of its measures."""
        first = len(case.named) + 1
        names = (*case.named, YESTERDAY, RANDOM_DAYS)
        means = (*values[:first], values[first:].mean())
        rouge = self._rouge(case.place, end, case.named, case.past) if self._text else {}
        stream = self._pack.facts.streams[case.place]
        return [
            ExpectedScore(stream, name, float(value), rouge.get(name, UNDEFINED))
            for name, value in zip(names, means, strict=True)
        ]

    def _summary(self, cloud: RecentCloud) -> Measure:
        atoms = summary(cloud, self._decoder.model.config.atoms)
        return Measure(atoms.points, atoms.weights)

    def _oracle_cloud(self, place: int, end: int, shares: FloatArray) -> RecentCloud | None:
        days = Counter(oracle_days(self._pack, place, end, shares))
        return self._decoder.recent.mean_cloud(place, days)

    def _random_days(self, place: int, end: int) -> list[int]:
        """Days with atoms of the last year, a function of stream and day alone."""
        past = last_year(self._pack, place, end)
        stream = zlib.crc32(self._pack.facts.streams[place].encode())
        random = np.random.default_rng([self._seed, stream, end, 13])
        return sorted(random.permutation(past)[:DRAWN].tolist())

    def _rouge(
        self, place: int, end: int, named: dict[str, tuple[Measure, RecentCloud]], past: list[int]
    ) -> dict[str, Rouge]:
        """ROUGE of each measure in words against the day's own text."""
        outcome = self._day_text(end + 1, place)
        if not outcome.phrases:
            return {}
        stream = self._pack.facts.streams[place]
        texts: dict[str, WeightedText] = {
            name: brief_text(name_decoded_day(atoms, recent, self._pack), stream)
            for name, (atoms, recent) in named.items()
        }
        texts[YESTERDAY] = self._day_text(end, place)
        scores = {name: matched_rouge(text, outcome) for name, text in texts.items()}
        equal: FloatArray = np.full(len(past), 1 / len(past))
        days = [self._day_text(one, place) for one in past]
        return {**scores, RANDOM_DAYS: expected_rouge(days, equal, outcome)}
