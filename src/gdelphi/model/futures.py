"""Futures: past days drawn by their probability, their atoms gathered and moved on.

Drawing gives no gradient to the probabilities that were drawn from. In training each drawn day
therefore carries its probability over the same probability held fixed: 1 in value, and in slope
what an average over all days would have. Normalised to sum to 1 it is compared with the other drawn
days, not with nothing, which takes most of the noise out of the slope.

Days are drawn independently of each other, with replacement. An even ladder of draws would give
steadier probabilities, and a score of the ensemble that flatters: its members would be further
apart than independent ones.
"""

import zlib
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.errors import MeasuresError
from gdelphi.measures.pack import Pack
from gdelphi.model.network import Context, MeasureModel, ModelOutput
from gdelphi.model.transport import Futures
from gdelphi.ot.geometry import Measures

RECENT: Final = 7
"""days that spare atoms come from"""
MOST_ATOMS: Final = 10
"""of a descriptor"""


class AtomTable:
    """The descriptors of a pack on a device, gathered by stream and day. Mapped, not read, where
    the device is the processor itself."""

    def __init__(self, pack: Pack, device: torch.device | str = "cpu") -> None:
        points, weights, starts = pack.atom_columns()
        self.device = torch.device(device)
        if not len(weights):
            raise MeasuresError(f"{pack.folder} has no descriptors: its streams have no rows")
        self.points = torch.from_numpy(points).to(self.device)
        self.weights = torch.from_numpy(weights).to(self.device)
        self.starts = torch.from_numpy(starts).to(self.device)
        self.streams, self.days = len(pack.facts.streams), pack.facts.days
        self.variants = pack.facts.variants
        self._names, self._first = pack.facts.streams, pack.first_day

    def keys(self, origins: "Origins") -> list[tuple[str, date]]:
        """Name of the stream and day of each origin."""
        places = zip(origins.stream.tolist(), origins.position.tolist(), strict=True)
        return [(self._names[stream], self._first + timedelta(days=day)) for stream, day in places]

    def rows(
        self, streams: Tensor, days: Tensor, variants: Tensor | int = 0
    ) -> tuple[Tensor, Tensor]:
        """Rows of the table that hold descriptors [..., atoms] of streams and days of the same
        shape, and their weights; weight 0 on days that are empty, missing or outside."""
        inside = (days >= 0) & (days < self.days)
        place = (days.clamp(0, self.days - 1) * self.streams + streams) * (self.variants + 1)
        place = place + variants
        rows = self.starts[place][..., None] + torch.arange(MOST_ATOMS, device=self.device)
        there = (rows < self.starts[place + 1][..., None]) & inside[..., None]
        rows = rows.clamp(max=len(self.weights) - 1)
        return rows, self.weights[rows] * there

    def gather(self, streams: Tensor, days: Tensor, variants: Tensor | int = 0) -> Measures:
        """The same descriptors as measures."""
        rows, weights = self.rows(streams, days, variants)
        return Measures(self.points[rows] * (weights > 0)[..., None], weights)


class DrawnFutures(NamedTuple):
    """Days drawn for G origins, K each, with their atoms."""

    days: Tensor
    """positions of the drawn days, [G, K]"""
    chances: Tensor
    """1 / K each, [G, K], with the slope of the probabilities that they were drawn from"""
    points: Tensor
    """[G * K, slots, dimension]"""
    weights: Tensor
    """[G * K, slots]; 0: no atom"""
    spare: Tensor
    """whether an atom is not the drawn day's own, [G * K, slots]"""
    rows: Tensor
    """of the table that the atoms come from, [G * K, slots]"""


class Origins(NamedTuple):
    """Where futures are wanted: rows of a batch and days of its sequences."""

    row: Tensor
    """[G]"""
    day: Tensor
    """position in the sequence, [G]"""
    stream: Tensor
    """[G]"""
    position: Tensor
    """of the day in the pack, [G]"""


class Drawing(NamedTuple):
    """How days are drawn."""

    number: int
    """K"""
    slots: int
    """atoms of a future, at most"""
    spare_atoms: bool = True
    """offer atoms of the last days as well"""


class RandomNumbers(NamedTuple):
    """Random numbers for G origins with K futures each."""

    days: Tensor
    """uniform, [G, K]"""
    variants: Tensor
    """which descriptor of a drawn day: 0 is its own, [G, K]"""
    clocks: Tensor
    """exponential, [G, K, RECENT * MOST_ATOMS]"""


def training_random_numbers(
    groups: int, number: int, variants: int, device: torch.device
) -> RandomNumbers:
    """For training, from torch's generator; random descriptors are training data."""
    numbers = RandomNumbers(
        torch.rand(groups, number, dtype=torch.float64),
        torch.randint(variants + 1, (groups, number)),
        torch.empty(groups, number, RECENT * MOST_ATOMS).exponential_(),
    )
    return RandomNumbers(*(values.to(device) for values in numbers))


def random_numbers_for(
    keys: Sequence[tuple[str, date]], number: int, seed: int, device: torch.device
) -> RandomNumbers:
    """For use: a function of stream, origin and seed alone."""
    days, clocks = [], []
    for stream, day in keys:
        random = np.random.default_rng([seed, zlib.crc32(stream.encode()), day.toordinal()])
        days.append(random.random(number))
        clocks.append(random.exponential(size=(number, RECENT * MOST_ATOMS)).astype(np.float32))
    uniform = torch.from_numpy(np.array(days)).view(-1, number)
    ringing = torch.from_numpy(np.array(clocks)).view(-1, number, RECENT * MOST_ATOMS)
    variants = torch.zeros(uniform.shape, dtype=torch.int64)
    return RandomNumbers(*(values.to(device) for values in (uniform, variants, ringing)))


def draw(
    table: AtomTable,
    origins: Origins,
    probabilities: Tensor,
    drawing: Drawing,
    random_numbers: RandomNumbers,
    *,
    source: Tensor | None = None,
) -> DrawnFutures:
    """Draw days from probabilities [G, L] over the days up to each origin, the last being its own,
    or over the days at positions `source` [G, L].

    No row may be all 0.
    """
    # The inverse of the cumulated probabilities at uniform numbers.
    cumulated = probabilities.detach().double().cumsum(dim=1)
    chosen = torch.searchsorted(cumulated, random_numbers.days * cumulated[:, -1:], right=True)
    chosen = chosen.clamp(max=probabilities.shape[1] - 1)
    # p_k / stop(p_k) is 1, and its gradient is that of ln p_k (the score function); normalised over
    # the K draws, the others are its baseline.
    drawn_probabilities = probabilities.gather(1, chosen)
    slopes = drawn_probabilities / drawn_probabilities.detach()
    chances = slopes / slopes.sum(dim=1, keepdim=True)
    days = origins.position[:, None] - (probabilities.shape[1] - 1) + chosen
    if source is not None:
        days = source.gather(1, chosen)
    own = table.rows(origins.stream[:, None].expand_as(days), days, random_numbers.variants)
    rows, weights, spare = _with_spares(table, origins, days, own, drawing, random_numbers.clocks)
    rows, weights, spare = (values.flatten(0, 1) for values in (rows, weights, spare))
    points = table.points[rows] * (weights > 0)[..., None]
    return DrawnFutures(days, chances, points, weights, spare, rows)


def _with_spares(
    table: AtomTable,
    origins: Origins,
    days: Tensor,
    own: tuple[Tensor, Tensor],
    drawing: Drawing,
    clocks: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The drawn days' atoms, and behind them those of others of the stream's last days, by weight
    and without replacement: rows, weights and whether they are spare, each [G, K, slots]."""
    number = own[0].shape[1]
    recent = origins.position[:, None] - torch.arange(RECENT, device=table.device)
    pool = table.rows(origins.stream[:, None].expand_as(recent), recent)
    there, masses = (values.flatten(1, 2)[:, None].expand(-1, number, -1) for values in pool)
    other = (recent[:, None] != days[..., None]).repeat_interleave(MOST_ATOMS, dim=2)
    masses = masses / RECENT * drawing.spare_atoms * other
    # Exponential clocks (Efraimidis and Spirakis): atom i rings at e_i / m_i with e_i ~ Exp(1) and
    # mass m_i; the first to ring are a draw by mass without replacement. Mass 0 never rings.
    order = (clocks / masses).argsort(dim=2)[..., : drawing.slots]
    rows = torch.cat([own[0], there.gather(2, order)], dim=2)
    weights = torch.cat([own[1], masses.gather(2, order)], dim=2)
    spare = torch.arange(rows.shape[2], device=table.device) >= own[0].shape[2]
    # Those that exist come first, the drawn day's own before others.
    kept = (weights == 0).to(torch.int8).argsort(dim=2, stable=True)[..., : drawing.slots]
    return rows.gather(2, kept), weights.gather(2, kept), spare[kept]


def origins_of(streams: Tensor, ends: Tensor, days: int, row: Tensor, day: Tensor) -> Origins:
    """Origins at days [G] of rows [G] of a batch of sequences of `days` days."""
    return Origins(row, day, streams[row], ends[row] - (days - 1) + day)


def probabilities_at(output: ModelOutput, past: Context, origins: Origins) -> Tensor:
    """Over the days up to each origin, the last being its own, [G, memory]; 0 outside."""
    length = output.day_probabilities.shape[2]
    after = past.days - 1 - origins.day
    place = torch.arange(length, device=after.device) - after[:, None]
    probabilities = output.day_probabilities[origins.row, origins.day]
    # The memory ends with the batch's last day, `after` days behind the origin: move it there.
    moved = probabilities.gather(1, place.clamp(min=0))
    return moved * (place >= 0)


class GeneratedFutures(NamedTuple):
    """Futures of some origins, and what they say."""

    drawn: DrawnFutures
    futures: Futures
    logits: Tensor
    """of the reading *atoms*, [G, target, codes]; NaN where undefined"""
    assigned: Tensor
    """how much of each atom is which root, [N, n, codes]"""


def generate_futures(
    model: MeasureModel, past: Context, output: ModelOutput, origins: Origins, drawn: DrawnFutures
) -> GeneratedFutures:
    """Move drawn days on, and read them."""
    at = (origins.row, origins.day)
    futures: Futures = model.transport(
        drawn.points, drawn.weights, drawn.spare, output.tokens[at], output.states[at]
    )
    there = None if torch.is_grad_enabled() else drawn.weights > 0
    assigned = model.atom_reading.assign(futures.points, there)
    logits = model.atom_reading(
        futures, drawn.chances, past.thresholds[at], past.pooled[at], assigned
    )
    return GeneratedFutures(drawn, futures, logits, assigned)


def sample_futures(
    model: MeasureModel,
    past: Context,
    output: ModelOutput,
    origins: Origins,
    table: AtomTable,
    drawing: Drawing,
    *,
    seed: int,
) -> GeneratedFutures:
    """Futures of origins for use. An origin without any past day draws days that have no atoms."""
    probabilities = probabilities_at(output, past, origins)
    nothing = probabilities.sum(dim=1) == 0
    probabilities = probabilities.masked_fill(nothing[:, None], 1.0)
    random_numbers = random_numbers_for(table.keys(origins), drawing.number, seed, table.device)
    drawn = draw(table, origins, probabilities, drawing, random_numbers)
    return generate_futures(model, past, output, origins, drawn)
