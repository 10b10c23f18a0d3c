"""The subject of an inspection: a trained model and, where they fit together, the store's days.

Parts that need days ask for the predictor, and get the reason why there is none as an error. Days
that something is scored on are those of validation A and B; test days stay unseen. What is not
scored, such as how far a forecast moves, is looked at on the last days.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.errors import ForecastError, MeasuresError, StoreError
from gdelphi.common.settings import Settings
from gdelphi.common.types import FloatArray, IntArray, Measure
from gdelphi.forecast.predictor import Predictor
from gdelphi.inspect.result import NotApplicable
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.packing import OnPacked
from gdelphi.measures.space import load_space
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.checkpoint import TrainedModel, load_measure_model
from gdelphi.model.network import MeasureModel

POINTS: Final = 1024  # of a cloud, at most, as forecasts take them
FEWEST: Final = 8  # points of a cloud that is worth looking at

OnPartStep = Callable[[int, int], None]
"""steps of a part done, and to do"""


@dataclass(eq=False)
class Subject:
    """A model, and what there is to look at it with."""

    folder: Path
    trained: TrainedModel
    opened: Predictor | None
    """None: the days of the store are not for this model"""
    reason: str
    """why"""
    seed: int = 0
    orders: tuple[float, ...] = (0.5, 2.0)
    """of Renyi entropies"""

    @property
    def model(self) -> MeasureModel:
        return self.trained.model

    @property
    def is_trained(self) -> bool:
        """Whether any step of training was kept."""
        return int(self.trained.training.get("best_step", 0)) > 0

    @property
    def idle_head(self) -> bool:
        """Whether the network's own direct head says nothing: where stack and cell network give
        the direct reading, it is never trained, and its output layers stay at zero."""
        head = self.model.direct
        return not any(bool(layer.weight.any()) for layer in (head.out, head.own))

    @property
    def predictor(self) -> Predictor:
        """The model at work on the store."""
        if self.opened is None:
            raise NotApplicable(self.reason)
        return self.opened

    def random(self, number: int) -> np.random.Generator:
        """Random numbers of a part."""
        return np.random.default_rng([self.seed, number])

    def generator(self, number: int) -> torch.Generator:
        """The same for torch."""
        return torch.Generator().manual_seed(1000 * self.seed + number)

    @cached_property
    def maker(self) -> BatchMaker:
        """Makes batches with all points of the clouds."""
        return self.maker_of(POINTS)

    def maker_of(self, points: int) -> BatchMaker:
        """Makes batches with at most so many points of a cloud."""
        arrays, space = self.predictor.sampler.arrays, self.predictor.space
        return BatchMaker(arrays, space, self.model.config, points=points)

    @cached_property
    def validation_ends(self) -> IntArray:
        """Positions of the days before the target days of validation A and B."""
        sequences = self.predictor.sequences
        parts = [sequences.targets(part) for part in ("validation_a", "validation_b")]
        ends: IntArray = np.concatenate(parts).astype(np.int64) - 1
        if not len(ends):
            raise NotApplicable("validation A and B have no day that is known (split.*)")
        return ends

    def windows(self, number: int) -> tuple[IntArray, IntArray]:
        """Streams and last days of at most so many sequences before days of validation, spread
        evenly over both."""
        streams = len(self.predictor.streams)
        pairs = np.stack(
            np.meshgrid(self.validation_ends, np.arange(streams), indexing="ij"), axis=-1
        ).reshape(-1, 2)
        kept = np.unique(np.linspace(0, len(pairs) - 1, min(number, len(pairs))).astype(int))
        return pairs[kept, 1], pairs[kept, 0]

    def batch(self, number: int) -> Batch:
        """Sequences that end before days of validation, with their outcomes."""
        return self.maker.make(*self.windows(number))

    def clouds(self, number: int, most: int | None = None) -> list[Measure]:
        """The largest clouds of validation days, each with at most so many of its points, the
        heaviest."""
        pack = self.predictor.pack
        sizes = [
            (len(pack.cloud(int(day), stream)[1]), int(day), stream)
            for day in self.validation_ends
            for stream in range(len(self.predictor.streams))
        ]
        largest = sorted(sizes, reverse=True)[:number]
        if not largest or largest[0][0] < FEWEST:
            raise NotApplicable(
                f"no cloud of the validation days has {FEWEST} points: take a store with more rows"
            )
        return [self._measure(day, stream, most) for size, day, stream in largest if size >= FEWEST]

    def _measure(self, day: int, stream: int, most: int | None) -> Measure:
        slots, weights = self.predictor.pack.cloud(day, stream)
        kept: FloatArray = np.asarray(weights[:most], np.float64)
        points = self.predictor.pack.points(slots[:most], self.predictor.space)
        return Measure(points, kept / kept.sum())

    def pooled_cloud(self, number: int) -> Tensor:
        """Points of so many distinct phrases of validation days, the heaviest of all clouds first,
        [n, dimension]; fewer where there are no more."""
        pack = self.predictor.pack
        weights: dict[tuple[int, ...], float] = {}
        for day in self.validation_ends.tolist():
            for stream in range(len(self.predictor.streams)):
                slots, masses = pack.cloud(day, stream)
                for slot, mass in zip(map(tuple, slots.tolist()), masses.tolist(), strict=True):
                    weights[slot] = weights.get(slot, 0.0) + mass
        heaviest = sorted(weights, key=lambda slot: (-weights[slot], slot))[:number]
        if len(heaviest) < FEWEST:
            raise NotApplicable("the validation days have hardly any reports")
        return torch.from_numpy(pack.points(np.array(heaviest), self.predictor.space)).float()


def open_subject(
    settings: Settings,
    folder: Path,
    *,
    seed: int = 0,
    orders: tuple[float, ...] = (0.5, 2.0),
    on_packed: OnPacked | None = None,
) -> Subject:
    """A model with the store's days, or without them where they do not fit together."""
    trained = load_measure_model(folder)
    predictor, reason = None, ""
    try:
        _check_space(settings, trained)
        predictor = Predictor(settings, folder, on_packed=on_packed)
    except (ForecastError, MeasuresError, StoreError) as error:
        reason = str(error)
    return Subject(folder, trained, predictor, reason, seed, orders)


def _check_space(settings: Settings, trained: TrainedModel) -> None:
    """Refuse days of another space before anything is packed for them."""
    known = load_space(measures_folder(settings) / "space").fingerprint
    if known != trained.space.fingerprint:
        raise ForecastError(
            f"the model speaks of the space {trained.space.fingerprint}, the days lie in {known}: "
            "take the model of these measures, or train one"
        )
