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
    DrawnFutures,
    Origins,
    origins_of,
    probabilities_at,
    random_numbers_for,
    sample_futures,
)
from gdelphi.model.network import ModelOutput
from gdelphi.model.rollout import Rollout
from gdelphi.model.transport import Futures

POINTS: Final = 1024  # of a cloud, at most: the heaviest
STREAMS_AT_ONCE: Final = 16
DAYS_KEPT: Final = 512  # encoded clouds of so many days: small
FURTHEST: Final = 7  # days after the origin
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
        furthest: int = 1,
        kept: int = KEPT,
        direct: Callable[[date], FloatArray] | None = None,
    ) -> None:
        """A roll-out goes to the horizon asked for, or to `furthest` if that is more: whoever asks
        for several horizons has them at once. `direct` gives the logits of stack and cell
        network at an origin, [target, stream, code]: they are the direct reading then."""
        if arrays.pack.facts.space != trained.space.fingerprint:
            raise ForecastError(
                f"the model speaks of the space {trained.space.fingerprint}, the days lie in "
                f"{arrays.pack.facts.space}: take the model of these measures, or train one"
            )
        self.model, self.arrays = trained.model, arrays
        self.number, self.seed, self.furthest, self.direct = number, seed, furthest, direct
        device = self.model.device
        self._maker = BatchMaker(
            arrays, trained.space, self.model.config, points=POINTS, device=device
        )
        self._table = AtomTable(arrays.pack, device)
        spare_atoms = trained.training["origin"]["futures"]["spare_atoms"]
        self._drawing = Drawing(number, self.model.config.slots, spare_atoms)
        self._tomorrow = lru_cache(kept)(self._first)
        self._further = lru_cache(kept)(self._steps)
        self._encoded = lru_cache(DAYS_KEPT)(self._encode)
        self._kernels: dict[tuple[date, int], FloatArray] = {}

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

    def at(self, origin: date, horizon: int = 1) -> Sampled:
        """Readings and futures at an origin of the day `horizon` days after it, beyond tomorrow
        by roll-out; the last few answers are kept."""
        if not 1 <= horizon <= FURTHEST:
            raise ForecastError(f"horizon {horizon}: days from 1 to {FURTHEST} are forecast")
        if horizon == 1:
            return self._tomorrow(origin)
        return self._further(origin, max(horizon, self.furthest))[horizon - 2]

    def day_probabilities(self, origin: date, horizon: int = 1) -> FloatArray:
        """Those of `at`, [stream, memory]. They are small, and all that were asked for are kept:
        every level asks for them."""
        if (origin, horizon) not in self._kernels:
            self._kernels[origin, horizon] = self.at(origin, horizon).day_probabilities
        return self._kernels[origin, horizon]

    def _first(self, origin: date) -> Sampled:
        end = self.position(origin)
        numbers = range(0, len(self.streams), STREAMS_AT_ONCE)
        return _joined(
            [self._some(slice(start, start + STREAMS_AT_ONCE), end) for start in numbers]
        )

    def _steps(self, origin: date, last: int) -> list[Sampled]:
        """The days from the one after tomorrow to the last asked for."""
        end = self.position(origin)
        paths = [self._path(stream, end, last) for stream in range(len(self.streams))]
        return [_joined(step) for step in zip(*paths, strict=True)]

    @torch.no_grad()
    def _path(self, stream: int, end: int, last: int) -> list[Sampled]:
        """One stream on the days after tomorrow."""
        origin = self.arrays.pack.first_day + timedelta(days=end)
        batch = self._batch(np.array([stream]), end)
        clouds = self._clouds(np.array([stream]), end)
        rollout = Rollout(self.model, self.arrays, self._table, batch, self._drawing, clouds=clouds)
        name = self.streams[stream]
        days = []
        for step in range(1, last + 1):
            day = rollout.step(random_numbers_for([(name, origin)], self.number, self.seed,
                                           self._table.device, step))  # fmt: skip
            days.append(
                Sampled(
                    origin,
                    (name,),
                    _array(day.day_probabilities[None]),
                    {key: _array(values[None]) for key, values in day.readings.items()},
                    _array(day.expected_rows[None]),
                    self._arrays(day.drawn, day.futures, 1),
                )
            )
        return days[1:]

    @torch.no_grad()
    def _some(self, streams: slice, end: int) -> Sampled:
        """The same for some streams."""
        chosen = np.arange(len(self.streams))[streams]
        batch = self._batch(chosen, end)
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
            self._arrays(generated.drawn, generated.futures, len(chosen)),
        )

    def _batch(self, streams: IntArray, end: int) -> Batch:
        direct = None
        if self.direct is not None:
            origin = self.arrays.pack.first_day + timedelta(days=end)
            direct = self.direct(origin)[:, streams].swapaxes(0, 1)
        return self._maker.make(streams, np.full(len(streams), end), clouds=False, direct=direct)

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

    def _arrays(self, drawn: DrawnFutures, futures: Futures, groups: int) -> FutureArrays:
        assigned = self.model.atom_reading.assign(futures.points)
        shares = self.model.atom_reading.shares(futures, assigned)
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
