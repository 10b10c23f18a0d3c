"""Batches: what the model is given, gathered from the arrays of a pack.

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

from gdelphi.common.types import TARGETS, FloatArray, IntArray, VectorArray
from gdelphi.measures.pack_arrays import PackArrays
from gdelphi.measures.space import BLOCKS, Space
from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import Context


class Batch(NamedTuple):
    """Sequences, and the outcomes on the day after each of their days."""

    past: Context
    outcomes: Tensor
    """[B, T, target, codes], 1 or 0; NaN where undefined or unknown"""
    rows: Tensor
    """rows by code on the day after, [B, T, codes]; NaN where unknown"""
    streams: IntArray
    """[B]"""
    ends: IntArray
    """position of the last day, [B]"""


class BatchMaker:
    """Makes batches of a pack on a device."""

    def __init__(
        self,
        arrays: PackArrays,
        space: Space,
        config: MeasureConfig,
        *,
        points: int,
        device: torch.device | str = "cpu",
        direct: VectorArray | None = None,
    ) -> None:
        """`direct` has the logits of stack and cell network after each day, [stream, day, target,
        code]; NaN where they say nothing."""
        self.arrays, self.pack, self.direct = arrays, arrays.pack, direct
        self.days, self.memory_days = config.context_days, config.memory_days
        self.most = points
        self.device = torch.device(device)
        self._blocks = [
            torch.from_numpy(np.float32(share**0.5) * np.asarray(self.pack.tables[name]))
            for name, share in zip(BLOCKS, space.shares, strict=True)
        ]

    def make(
        self,
        streams: IntArray,
        ends: IntArray,
        random: np.random.Generator | None = None,
        *,
        clouds: bool = True,
        direct: FloatArray | None = None,
    ) -> Batch:
        """The sequences of these streams that end on these days; without `random` the heaviest
        points of clouds that have too many, and on request no points at all. With `direct`, [B,
        target, code], these are the logits of stack and cell network after the last day."""
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
        arrays = self.arrays
        present = arrays.present[memory.days] & memory.inside
        past = Context(
            points=self._place(slots),
            weights=self._tensor(weights),
            features=self._tensor(memory.of(arrays.features)),
            counts=self._tensor(memory.of(arrays.relative)),
            weekday=torch.from_numpy((arrays.weekday[0] + window) % 7).to(self.device),
            present=torch.from_numpy(present).to(self.device),
            occurs=self._tensor(memory.of(arrays.occurs)),
            headline=self._tensor(memory.of(arrays.headline)),
            shares=self._tensor(memory.of(arrays.shares)),
            thresholds=self._tensor(origins.of(arrays.thresholds)),
            pooled=self._tensor(arrays.pooled[:, origins.days].transpose(1, 2, 0, 3)),
            usual=self._tensor(arrays.usual[streams[:, None], origins.days]),
            direct=self._tensor(self._direct(origins, direct)),
        )
        # What the day after each origin brought; nothing is known of days before the first.
        outcomes = arrays.outcomes[:, origins.streams, origins.days].transpose(1, 2, 0, 3)
        outcomes = np.where(origins.inside[:, :, None, None], outcomes, np.nan)
        after = np.minimum(origins.days + 1, self.pack.facts.days - 1)
        rows = self.pack.counts[origins.streams, after]
        rows = np.where(np.isnan(outcomes[:, :, 0]), np.nan, rows)
        return Batch(past, self._tensor(outcomes), self._tensor(rows), streams, ends)

    def _direct(self, origins: "_Window", last: FloatArray | None) -> FloatArray:
        """Logits of stack and cell network after each day, [B, T, target, code]; NaN where there
        are none."""
        shape = (*origins.days.shape, len(TARGETS), self.arrays.shares.shape[2])
        logits = np.full(shape, np.nan)
        if self.direct is not None:
            logits = self.direct[origins.streams, origins.days]
            logits = np.where(origins.inside[:, :, None, None], logits, np.nan)
        if last is not None:
            logits[:, -1] = last
        return logits

    def clouds_on(self, day: int) -> tuple[Tensor, Tensor]:
        """The clouds of all streams on a day: points [stream, n, dimension] and weights."""
        streams = np.arange(len(self.pack.facts.streams))
        slots, weights = self._clouds(streams, np.full((len(streams), 1), day), None)
        return self._place(slots[:, 0]), self._tensor(weights[:, 0])

    def _tensor(self, values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(self.device)

    def _clouds(
        self, streams: IntArray, window: IntArray, random: np.random.Generator | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Positions in the tables [B, T, n, blocks] and weights [B, T, n]."""
        clouds = [
            self._cloud(int(stream), int(day), random)
            for stream, days in zip(streams, window, strict=True)
            for day in days
        ]
        size = max((len(weights) for _, weights in clouds), default=0) or 1
        slots = np.zeros((len(clouds), size, len(self._blocks)), dtype=np.int64)
        masses = np.zeros((len(clouds), size), dtype=np.float32)
        for row, (places, weights) in enumerate(clouds):
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
