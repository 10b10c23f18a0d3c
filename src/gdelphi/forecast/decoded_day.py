"""The expected day by the measure decoder: the next day of a stream in a few atoms, with words.

`gdelphi train` trains the decoder (model/decoder_task.py). Whether its atoms are shown or those of
its start, the few-atom summary of the recent past, is chosen by `gdelphi calibrate`: the one whose
mean divergence to the clouds of days of validation B is lower. The choice is kept in expected.json
beside the model. Where a model has no decoder, the expected day is the mean of its futures
(expected_day.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import torch

from gdelphi.common.files import weights_digest, write_json_atomically
from gdelphi.common.types import FloatArray, IntArray, Measure
from gdelphi.forecast.archive import EXPECTED_FILE
from gdelphi.forecast.future_choice import read_choice
from gdelphi.forecast.prediction import BriefAtom, Phrase
from gdelphi.measures.clouds import Coded
from gdelphi.measures.pack import Pack
from gdelphi.measures.root_phrases import root_parts, weights_by_root
from gdelphi.measures.space import Space
from gdelphi.model.decoder import SINKHORN, blend
from gdelphi.model.decoder_start import RecentCloud, RecentDays, summary
from gdelphi.model.decoder_task import (
    DECODER_FOLDER,
    OUTCOME_POINTS,
    TrainedDecoder,
    load_decoder,
    space_time,
)
from gdelphi.ot.entropic import self_transport, sinkhorn_divergence
from gdelphi.ot.geometry import Measures, batch_measures
from gdelphi.ot.quantise import Quantisation

Shown = Literal["decoder", "start"]
AT_ONCE: Final = 64  # streams that are decoded, and measures whose divergences are computed
CHOICE_DAYS: Final = 24  # of validation B on which the decoder is compared with its start


@dataclass(frozen=True)
class ExpectedDayChoice:
    """Whose atoms are shown, and the mean divergences on validation B that decided it."""

    shown: Shown
    decoder: float
    start: float
    days: int
    """target days that were compared"""
    number: int
    """streams and days that were compared"""
    weights: str
    """digest of the decoder's weights"""


class DecodedDay(NamedTuple):
    """What is expected of a stream's next day."""

    decoded: Measure
    start: Measure
    recent: RecentCloud
    """what both are called by: the phrases of the recent past"""


class DayDecoder:
    """A trained decoder at work on a pack. Streams and days are given by position."""

    def __init__(self, trained: TrainedDecoder, pack: Pack, space: Space, weights: str) -> None:
        self.model, self.choice = trained
        self.weights = weights
        """digest of the decoder's weights"""
        self.recent = RecentDays(pack, space)
        self._kept: dict[int, list[DecodedDay | None]] = {}

    def at(self, end: int) -> list[DecodedDay | None]:
        """What is expected of the day after `end`, of each stream; None where a stream has had
        nothing for long. The last answer is kept: forecasts ask for one stream after another."""
        if end not in self._kept:
            streams = range(self.recent.pack.shape[1])
            days = self.some(end, streams)
            self._kept = {end: [days.get(place) for place in streams]}
        return self._kept[end]

    def some(self, end: int, streams: Iterable[int]) -> dict[int, DecodedDay]:
        """The same of some streams, by their place."""
        config, recent = self.model.config, self.recent
        half_life = config.start_half_life
        clouds = {
            place: cloud
            for place in streams
            if (cloud := recent.recent_cloud(place, end, half_life)) is not None
        }
        days: dict[int, DecodedDay] = {}
        filled = list(clouds)
        for first in range(0, len(filled), AT_ONCE):
            places = filled[first : first + AT_ONCE]
            pooled = [clouds[place] for place in places]
            starts = [summary(cloud, config.atoms) for cloud in pooled]
            for place, start, decoded, cloud in zip(
                places, starts, self._blocks(places, end, starts), pooled, strict=True
            ):
                days[place] = DecodedDay(decoded, Measure(start.points, start.weights), cloud)
        return days

    @torch.no_grad()
    def _blocks(
        self, places: Sequence[int], end: int, starts: Sequence[Quantisation]
    ) -> list[Measure]:
        config = self.model.config
        past = [
            self.recent.last_days(place, end, days=config.days, most=config.points)
            for place in places
        ]
        given = [Measure(start.points, start.weights) for start in starts]
        start = batch_measures(given, torch.float32)
        decoded = self.model(start, space_time(self.recent, past))
        points, weights = blend(start, decoded, self.choice.strength)
        return [
            Measure(points[row, :size].numpy(), weights[row, :size].double().numpy())
            for row, size in enumerate(len(one.weights) for one in starts)
        ]

    def divergences(
        self, measures: Sequence[Measure], end: int, places: Sequence[int]
    ) -> FloatArray:
        """The divergence of each measure to the cloud of its stream on the day after `end`."""
        clouds = [self.recent.cloud(place, end + 1, OUTCOME_POINTS) for place in places]
        there = [row for row, cloud in enumerate(clouds) if cloud is not None]
        values = np.full(len(places), np.nan)
        if there:
            outcomes = [cloud for cloud in clouds if cloud is not None]
            values[there] = divergences_of([measures[row] for row in there], outcomes)
        return values


def divergences_of(
    measures: Sequence[Measure], outcomes: Sequence[Measure], which: Sequence[int] | None = None
) -> FloatArray:
    """Debiased Sinkhorn divergences of pairs of measures, [pair]; `which` says which outcome each
    measure is held against, by default its own. The small outcomes are taken first, so that they
    are not padded to the size of the largest."""
    place = np.arange(len(measures)) if which is None else np.asarray(which, np.int64)
    by_size = np.argsort([len(outcome.weights) for outcome in outcomes], kind="stable")
    own, values = np.zeros(len(outcomes)), np.zeros(len(measures))
    for rows in _portions(by_size):
        some = batch_measures([outcomes[row] for row in rows], torch.float32)
        own[rows] = self_transport(some, SINKHORN).value.double().numpy()
    for rows in _portions(np.argsort(np.argsort(by_size)[place], kind="stable")):
        target = batch_measures([outcomes[place[row]] for row in rows], torch.float32)
        source = batch_measures([measures[row] for row in rows], torch.float32)
        source = Measures(source.points, source.weights / source.weights.sum(1, keepdim=True))
        known = torch.from_numpy(own[place[rows]]).to(torch.float32)
        divergence = sinkhorn_divergence(source, target, SINKHORN, target_self=known)
        values[rows] = divergence.value.double().numpy()
    return values


def _portions(rows: IntArray) -> Iterator[IntArray]:
    return (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))


def day_decoder(folder: Path, pack: Pack, space: Space) -> DayDecoder | None:
    """The decoder of the model in a folder; None: it has none."""
    trained = load_decoder(folder / DECODER_FOLDER)
    if trained is None:
        return None
    return DayDecoder(trained, pack, space, weights_digest(folder / DECODER_FOLDER))


def name_decoded_day(
    atoms: Measure, recent: RecentCloud, pack: Pack, shares: Mapping[str, float] | None = None
) -> tuple[BriefAtom, ...]:
    """What atoms stand for, in phrases of the recent past, the heaviest first.

    Each point of the recent cloud belongs to its nearest atom and takes its part of that atom's
    weight. The points are told in phrases of one root each (measures/root_phrases.py); with the
    shares that roots are expected to have, the points of a root are scaled to sum to its own.
    """
    nearness = recent.measure.points @ atoms.points.T
    labels = nearness.argmax(axis=1)
    for atom in range(len(atoms.weights)):
        if not (labels == atom).any():  # atoms that have drawn together share their points
            labels[nearness[:, atom].argmax()] = atom
    masses = np.bincount(labels, recent.measure.weights, len(atoms.weights))
    parts = np.divide(atoms.weights, masses, out=np.zeros(len(masses)), where=masses > 0)
    columns = pack.phrases_of(recent.slots)
    codes = tuple(dict.fromkeys(columns.code))
    coded = Coded(codes, np.array([codes.index(code) for code in columns.code], np.int64))
    weights = recent.measure.weights * parts[labels]
    weights = weights_by_root(coded, weights / weights.sum(), shares)
    told = root_parts(coded, Measure(recent.measure.points, weights), len(atoms.weights))
    phrases = [
        Phrase(columns.actor1[part.point], columns.code[part.point], columns.actor2[part.point])
        for part in told
    ]
    return tuple(
        BriefAtom(phrase, part.weight, phrase) for phrase, part in zip(phrases, told, strict=True)
    )


# --- the choice -----------------------------------------------------------------------------------


def choose_shown(decoder: DayDecoder, ends: Sequence[int]) -> ExpectedDayChoice:
    """Compare the decoder with its start on the days after `ends`, days of validation B."""
    pairs = []
    for end in ends:
        days = decoder.at(end)
        places = [place for place, day in enumerate(days) if day is not None]
        known = [day for day in days if day is not None]
        pairs.append(
            np.stack(
                [
                    decoder.divergences([day.decoded for day in known], end, places),
                    decoder.divergences([day.start for day in known], end, places),
                ]
            )
        )
    values = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0))
    values = values[:, ~np.isnan(values).any(axis=0)]
    means = values.mean(axis=1) if values.size else np.full(2, np.nan)
    shown: Shown = "decoder" if means[0] < means[1] else "start"
    return ExpectedDayChoice(
        shown, float(means[0]), float(means[1]), len(ends), values.shape[1], decoder.weights
    )


def keep_expected_choice(folder: Path, choice: ExpectedDayChoice) -> None:
    """Keep a choice beside its model."""
    write_json_atomically(folder / EXPECTED_FILE, asdict(choice))


def read_expected_choice(folder: Path) -> ExpectedDayChoice | None:
    """What was chosen for a model; None: nothing."""
    return read_choice(folder / EXPECTED_FILE, lambda values: ExpectedDayChoice(**values))
