"""Batches: what the model is given, gathered from a pack and its outlook.

A batch is some streams with the days that end on some day each: clouds of the last T days, and a
memory of all days that any of them may look back on. Days before the first are there and missing.
Of a cloud with more points than asked for a random part is taken, each point by its weight's turn
(systematic sampling), so that the sample's measure is the cloud's on average.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.measures.pack import BLOCKS
from gdelphi.measures.pack_arrays import PackArrays
from gdelphi.measures.space import Space
from gdelphi.model.network import Context, MeasureConfig


class Batch(NamedTuple):
    """Sequences and what came after each of their days."""

    past: Context
    came: Tensor
    """[B, T, target, codes], 1 or 0; NaN where undefined or unknown"""
    rows: Tensor
    """how many came, [B, T, codes]; NaN where unknown"""
    streams: IntArray
    """[B]"""
    ends: IntArray
    """position of the last day, [B]"""


class BatchMaker:
    """Makes batches of a pack on a device."""

    def __init__(
        self,
        outlook: PackArrays,
        space: Space,
        config: MeasureConfig,
        *,
        points: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.outlook, self.pack = outlook, outlook.pack
        self.days, self.memory_days = config.context_days, config.memory_days
        self.most = points
        self.device = torch.device(device)
        names = BLOCKS[self.pack.facts.layout]
        self._blocks = [
            torch.from_numpy(np.float32(share**0.5) * np.asarray(self.pack.tables[name]))
            for name, share in zip(names, space.shares, strict=True)
        ]

    def make(
        self,
        streams: IntArray,
        ends: IntArray,
        random: np.random.Generator | None = None,
        *,
        clouds: bool = True,
    ) -> Batch:
        """The sequences of these streams that end on these days; without `random` the heaviest
        points of clouds that have too many, and on request no points at all."""
        length = self.memory_days + self.days - 1
        window = ends[:, None] - np.arange(length - 1, -1, -1)
        if clouds:
            slots, weights = self._clouds(streams, window[:, -self.days :], random)
        else:
            shape = (len(streams), self.days, 0)
            slots = np.zeros((*shape, len(self._blocks)), np.int64)
            weights = np.zeros(shape, np.float32)
        memory = _Window(streams, window)
        origins = _Window(streams, window[:, -self.days :])
        look = self.outlook
        present = look.present[memory.days] & memory.inside
        came = self._came(origins)
        past = Context(
            points=self._place(slots),
            weights=self._tensor(weights),
            features=self._tensor(memory.of(look.features)),
            counts=self._tensor(memory.of(look.relative)),
            weekday=torch.from_numpy((look.weekday[0] + window) % 7).to(self.device),
            present=torch.from_numpy(present).to(self.device),
            occurs=self._tensor(memory.of(look.occurs)),
            headline=self._tensor(memory.of(look.headline)),
            shares=self._tensor(memory.of(look.shares)),
            thresholds=self._tensor(origins.of(look.thresholds)),
            pooled=self._tensor(look.pooled[:, origins.days].transpose(1, 2, 0, 3)),
            usual=self._tensor(look.usual[streams[:, None], origins.days]),
        )
        rows = self._rows(origins, came)
        return Batch(past, self._tensor(came), self._tensor(rows), streams, ends)

    def clouds_on(self, day: int) -> tuple[Tensor, Tensor]:
        """The clouds of all streams on a day: points [stream, n, dimension] and weights."""
        streams = np.arange(len(self.pack.facts.streams))
        slots, weights = self._clouds(streams, np.full((len(streams), 1), day), None)
        return self._place(slots[:, 0]), self._tensor(weights[:, 0])

    def _tensor(self, values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(self.device)

    def _came(self, origins: "_Window") -> FloatArray:
        """What came on the day after each origin, [B, T, target, codes]; NaN where unknown."""
        found = self.outlook.came[:, origins.streams, origins.days].transpose(1, 2, 0, 3)
        return np.where(origins.inside[:, :, None, None], found, np.nan)

    def _rows(self, origins: "_Window", came: FloatArray) -> FloatArray:
        """Rows by code on the day after each origin, known where it is known what occurred."""
        after = np.minimum(origins.days + 1, self.pack.facts.days - 1)
        rows = self.pack.counts[origins.streams, after]
        return np.where(np.isnan(came[:, :, 0]), np.nan, rows)

    def _clouds(
        self, streams: IntArray, window: IntArray, random: np.random.Generator | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Positions in the tables [B, T, n, blocks] and weights [B, T, n]."""
        found = [
            self._cloud(int(stream), int(day), random)
            for stream, days in zip(streams, window, strict=True)
            for day in days
        ]
        size = max((len(weights) for _, weights in found), default=0) or 1
        slots = np.zeros((len(found), size, len(self._blocks)), dtype=np.int64)
        masses = np.zeros((len(found), size), dtype=np.float32)
        for row, (places, weights) in enumerate(found):
            slots[row, : len(weights)] = places
            masses[row, : len(weights)] = weights
        return slots.reshape(*window.shape, size, -1), masses.reshape(*window.shape, size)

    def _cloud(
        self, stream: int, day: int, random: np.random.Generator | None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        if day < 0:
            return np.zeros((0, len(self._blocks)), np.int32), np.zeros(0, np.float32)
        slots, weights = self.pack.cloud(day, stream)
        if len(weights) <= self.most:
            return slots, weights
        if random is None:
            kept = weights[: self.most]
            return slots[: self.most], kept / kept.sum()
        return _systematic(slots, weights, self.most, random)

    def _place(self, slots: npt.NDArray[np.int64]) -> Tensor:
        places = torch.from_numpy(slots)
        parts = [table[places[..., number]] for number, table in enumerate(self._blocks)]
        return torch.cat(parts, dim=-1).to(self.device)


class _Window:
    """Days of streams, some of them before the first."""

    def __init__(self, streams: IntArray, window: IntArray) -> None:
        self.inside = window >= 0
        self.days = np.maximum(window, 0)
        self.streams = streams[:, None]

    def of(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """[B, day, ...] of an array [stream, day, ...]; 0 outside."""
        return values[self.streams, self.days] * self.inside[:, :, None]


def _systematic(
    slots: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    number: int,
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """`number` draws at even steps of the cumulated weight from a random start."""
    ladder = (np.arange(number) + random.random()) / number
    chosen = np.searchsorted(np.cumsum(weights, dtype=np.float64), ladder).clip(
        max=len(weights) - 1
    )
    places, counts = np.unique(chosen, return_counts=True)
    return slots[places], (counts / number).astype(np.float32)
