"""Sampling: readings and futures of a trained model at an origin, for all streams of a pack.

The context of a stream is read once, whatever the number of futures; streams and futures go through
the network in batches. Everything at an origin is a function of the days up to it and of the seed,
so that a forecast made later, among others or again, is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    BoolArray,
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.measures.pack_arrays import PackArrays
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.checkpoint import TrainedModel
from gdelphi.model.futures import (
    AtomTable,
    Drawing,
    GeneratedFutures,
    Origins,
    origins_of,
    probabilities_at,
    sample_futures,
)
from gdelphi.model.network import ModelOutput

POINTS: Final = 1024  # of a cloud, at most: the heaviest
STREAMS_AT_ONCE: Final = 16
DAYS_KEPT: Final = 512  # encoded clouds of so many days: small
KEPT: Final = 4  # origins whose answers are kept: members of a combination ask one after another


class FutureArrays(NamedTuple):
    """Futures of streams: K of each, with up to n atoms."""

    days: IntArray
    """position in the pack of the day that each future was drawn from, [stream, K]"""
    points: VectorArray
    """atoms, [stream, K, n, dimension]"""
    weights: VectorArray
    """of atoms, [stream, K, n], summing to 1 over a future's atoms; 0: no atom"""
    gates: VectorArray
    """probability that an atom exists, [stream, K, n]"""
    spare: BoolArray
    """whether an atom is not of the drawn day but of the stream's last days, [stream, K, n]"""
    rows: IntArray
    """atom of the pack that each comes from, [stream, K, n]"""
    shares: VectorArray
    """of the roots, by the atoms' projection, [stream, K, code]"""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Readings and futures of a model at an origin."""

    origin: date
    streams: tuple[str, ...]
    day_probabilities: FloatArray
    """over the days up to the origin, the last its own, [stream, memory]; all 0 without a past"""
    readings: dict[str, FloatArray]
    """profiles, direct and atoms: probabilities [stream, target, code]; NaN where undefined"""
    expected_rows: FloatArray
    """[stream, code]"""
    futures: FutureArrays


class Sampler:
    """A model at work on the days of a pack."""

    def __init__(
        self,
        trained: TrainedModel,
        arrays: PackArrays,
        *,
        number: int = 100,
        seed: int = 0,
        direct: Callable[[date], FloatArray] | None = None,
    ) -> None:
        """`direct` gives the logits of stack and cell network at an origin, [target, stream, code]:
        they are the direct reading then."""
        if arrays.pack.facts.space != trained.space.fingerprint:
            raise ForecastError(
                f"the model speaks of the space {trained.space.fingerprint}, the days lie in "
                f"{arrays.pack.facts.space}: take the model of these measures, or train one"
            )
        self.model, self.arrays = trained.model, arrays
        self.number, self.seed, self.direct = number, seed, direct
        device = self.model.device
        self._maker = BatchMaker(
            arrays, trained.space, self.model.config, points=POINTS, device=device
        )
        self._table = AtomTable(arrays.pack, device)
        spare_atoms = trained.training["origin"]["futures"]["spare_atoms"]
        self._drawing = Drawing(number, self.model.config.slots, spare_atoms)
        self.at = lru_cache(KEPT)(self._at)
        """Readings and futures of the day after an origin; the last few answers are kept."""
        self._encoded = lru_cache(DAYS_KEPT)(self._encode)
        self._kernels: dict[date, FloatArray] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        return self.arrays.pack.facts.streams

    @cached_property
    def last_day(self) -> date:
        """The last day of the pack."""
        return self.arrays.pack.first_day + timedelta(days=self.arrays.pack.facts.days - 1)

    def position(self, day: date) -> int:
        """Of a day in the pack."""
        number = (day - self.arrays.pack.first_day).days
        if not 0 <= number < self.arrays.pack.facts.days:
            raise ForecastError(
                f"no measures of {day}: they reach from {self.arrays.pack.first_day} to "
                f"{self.last_day}; `gdelphi ingest` and `gdelphi embed` bring more"
            )
        return number

    def day_probabilities(self, origin: date) -> FloatArray:
        """Those of `at`, [stream, memory]. They are small, and all that were asked for are kept:
        every level asks for them."""
        if origin not in self._kernels:
            self._kernels[origin] = self.at(origin).day_probabilities
        return self._kernels[origin]

    def _at(self, origin: date) -> Sampled:
        end = self.position(origin)
        direct = None if self.direct is None else self.direct(origin)
        numbers = range(0, len(self.streams), STREAMS_AT_ONCE)
        return _joined(
            [self._some(slice(start, start + STREAMS_AT_ONCE), end, direct) for start in numbers]
        )

    @torch.no_grad()
    def _some(self, streams: slice, end: int, direct: FloatArray | None) -> Sampled:
        """The same for some streams, with the logits of stack and cell network for all."""
        chosen = np.arange(len(self.streams))[streams]
        given = None if direct is None else direct[:, chosen].swapaxes(0, 1)
        ends = np.full(len(chosen), end)
        batch = self._maker.make(chosen, ends, clouds=False, direct=given)
        output: ModelOutput = self.model(batch.past, last=True, clouds=self._clouds(chosen, end))
        past = batch.past.last()
        origins = self._origins(batch)
        generated = sample_futures(
            self.model, past, output, origins, self._table, self._drawing, seed=self.seed
        )
        readings = {
            "profiles": output.profiles[:, -1].sigmoid(),
            "direct": output.direct[:, -1].sigmoid(),
            "atoms": generated.logits.double().sigmoid(),
        }
        return Sampled(
            self.arrays.pack.first_day + timedelta(days=end),
            self.streams[streams],
            _array(probabilities_at(output, past, origins)),
            {name: _array(values) for name, values in readings.items()},
            _array(output.log_rate[:, -1].exp()),
            self._arrays(generated, len(chosen)),
        )

    def _clouds(self, streams: IntArray, end: int) -> Tensor:
        """The encoded clouds of streams on the days of the context, [stream, T, q, width]."""
        days = range(end - self._maker.days + 1, end + 1)
        return torch.stack([self._encoded(max(day, -1)) for day in days], dim=1)[streams]

    def _encode(self, day: int) -> Tensor:
        """The encoded clouds of all streams on a day, [stream, q, width]. The same for all origins:
        kept, a rolling origin has but one new day."""
        points, weights = self._maker.clouds_on(day)
        encoded: Tensor = self.model.day_encoder(points, weights)
        return encoded

    def _origins(self, batch: Batch) -> Origins:
        """The last day of each sequence."""
        device = self._table.device
        streams = torch.from_numpy(batch.streams).to(device)
        ends = torch.from_numpy(batch.ends).to(device)
        row = torch.arange(len(streams), device=device)
        return origins_of(streams, ends, 1, row, torch.zeros_like(row))

    def _arrays(self, generated: GeneratedFutures, groups: int) -> FutureArrays:
        drawn, futures = generated.drawn, generated.futures
        shares = self.model.atom_reading.shares(futures, generated.assigned)
        values = (
            futures.points, futures.weights, futures.gates, drawn.spare, drawn.rows, shares,
        )  # fmt: skip
        by_stream = [value.unflatten(0, (groups, -1)).cpu().numpy() for value in values]
        return FutureArrays(drawn.days.view(groups, -1).cpu().numpy(), *by_stream)


def _joined(parts: Sequence[Sampled]) -> Sampled:
    """Samples of some streams and of others, as one."""
    return Sampled(
        parts[0].origin,
        tuple(stream for part in parts for stream in part.streams),
        np.concatenate([part.day_probabilities for part in parts]),
        {
            name: np.concatenate([part.readings[name] for part in parts])
            for name in parts[0].readings
        },
        np.concatenate([part.expected_rows for part in parts]),
        FutureArrays(
            *(np.concatenate(field) for field in zip(*(x.futures for x in parts), strict=True))
        ),
    )


def _array(values: Tensor) -> FloatArray:
    array: FloatArray = values.cpu().double().numpy()
    return array
