"""Roll-out: futures beyond tomorrow.

Each of K futures is a path of its own. The day that it drew is taken for known, with its atoms
moved on, its profile and its features; the model says what follows, and the next day is drawn from
that. The context up to the origin is encoded once for all paths. What speaks of the origin and not
of the day before (thresholds of surges, pooled rates, usual rows, what stack and cell network say)
stays as it was there.

A path may draw one of its own days: that is the past day which this one was, so every future still
comes from a day that was observed.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdelphi.measures.pack_arrays import PackArrays
from gdelphi.model.batches import Batch
from gdelphi.model.config import WEEK
from gdelphi.model.futures import (
    AtomTable,
    Drawing,
    DrawnFutures,
    Origins,
    RandomNumbers,
    draw,
)
from gdelphi.model.network import Context, MeasureModel, ModelOutput
from gdelphi.model.transport import Futures


class RolloutDay(NamedTuple):
    """One day of a roll-out, for one stream."""

    day_probabilities: Tensor
    """over the days up to the origin, the last its own, mean over paths, [L]"""
    readings: dict[str, Tensor]
    """profiles, direct, atoms: probabilities [target, codes], mean over paths"""
    expected_rows: Tensor
    """[codes]"""
    drawn: DrawnFutures
    """one day for each path: G = K, one each"""
    futures: Futures


class Rollout:
    """K paths of one stream, moved on day by day."""

    def __init__(
        self,
        model: MeasureModel,
        arrays: PackArrays,
        table: AtomTable,
        batch: Batch,
        drawing: Drawing,
        *,
        clouds: Tensor,
    ) -> None:
        """From a batch of one sequence and its encoded clouds, [1, T, q, width]."""
        self.model, self.arrays, self.table = model, arrays, table
        self.number = drawing.number
        self.drawing = drawing._replace(number=1)
        self.stream, self.end = int(batch.streams[0]), int(batch.ends[0])
        last = batch.past.last()
        at_origin = {
            name: getattr(last, name).expand(-1, batch.past.days, *getattr(last, name).shape[2:])
            for name in ("thresholds", "pooled", "usual", "direct")
        }
        whole = batch.past._replace(**at_origin)
        self.past = Context(*(values.expand(self.number, *values.shape[1:]) for values in whole))
        self.clouds = clouds.expand(self.number, -1, -1, -1)
        length = batch.past.present.shape[1]
        first = self.end - (length - 1)
        self.source = torch.arange(first, self.end + 1, device=table.device).expand(self.number, -1)

    def step(self, random_numbers: RandomNumbers) -> RolloutDay:
        """The next day of all paths, from random numbers for one origin with K futures."""
        output: ModelOutput = self.model(self.past, last=True, clouds=self.clouds)
        probabilities = output.day_probabilities[:, 0]
        nothing = probabilities.sum(dim=1) == 0
        # Each path is an origin of its own that draws one day: K origins with one future each.
        rows = torch.arange(self.number, device=self.table.device)
        origins = Origins(
            row=rows,
            day=torch.zeros_like(rows),
            stream=torch.full_like(rows, self.stream),
            position=torch.full_like(rows, self.end),
        )
        drawn = draw(
            self.table,
            origins,
            probabilities.masked_fill(nothing[:, None], 1.0),
            self.drawing,
            RandomNumbers(*(values.transpose(0, 1) for values in random_numbers)),
            source=self.source,
        )
        futures: Futures = self.model.transport(
            drawn.points, drawn.weights, drawn.spare, output.tokens[:, 0], output.states[:, 0]
        )
        day = self._readings(output, drawn, futures)
        self._append(drawn.days[:, 0], futures)
        return day

    def _readings(self, output: ModelOutput, drawn: DrawnFutures, futures: Futures) -> RolloutDay:
        chances = torch.full((1, self.number), 1 / self.number, device=self.table.device)
        thresholds, pooled = self.past.thresholds[:1, -1], self.past.pooled[:1, -1]
        atoms = self.model.atom_reading(futures, chances, thresholds, pooled)
        length = self.source.shape[1]
        place = self.source - (self.end - length + 1)
        # Paths may draw days that they went through: their probability is that of the past day
        # which that one was drawn from.
        kernel = torch.zeros(length, dtype=torch.float64, device=self.table.device)
        mass = output.day_probabilities[:, 0].double() / self.number
        kernel.index_add_(0, place.clamp(min=0).flatten(), mass.flatten())
        readings = {
            "profiles": output.profiles[:, 0].sigmoid().mean(dim=0),
            "direct": output.direct[:, 0].sigmoid().mean(dim=0),
            "atoms": atoms[0].double().sigmoid(),
        }
        return RolloutDay(kernel, readings, output.log_rate[:, 0].exp().mean(dim=0), drawn, futures)

    def _append(self, days: Tensor, futures: Futures) -> None:
        """Take the drawn days for known."""
        at = (self.stream, days.clamp(min=0).cpu().numpy())
        arrays, past = self.arrays, self.past
        self.past = past._replace(
            features=_next(past.features, self._tensor(arrays.features[at])),
            counts=_next(past.counts, self._tensor(arrays.relative[at])),
            weekday=_next(past.weekday, (past.weekday[:, -1] + 1) % WEEK),
            present=_next(past.present, torch.ones_like(past.present[:, 0])),
            occurs=_next(past.occurs, self._tensor(arrays.occurs[at])),
            headline=_next(past.headline, self._tensor(arrays.headline[at])),
            shares=_next(past.shares, self._tensor(arrays.shares[at])),
        )
        self.clouds = _next(self.clouds, self.model.day_encoder(futures.points, futures.weights))
        self.source = _next(self.source, days)

    def _tensor(self, values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(self.table.device)


def _next(values: Tensor, new: Tensor) -> Tensor:
    """Days [K, L, ...] moved on by one."""
    return torch.cat([values[:, 1:], new[:, None]], dim=1)
