"""Days with missing and wrong reports: a pack as it would be, had some rows been others.

Rows of a cloud vanish, come twice or carry another code, each by chance. Clouds, counts by code and
the statistics of the days follow from the same rows. Counts by actors (who acted on whom, and
anywhere in the world) are not kept by row, and are changed by chances of their own in the same way.
Descriptors, from which futures are drawn, stay.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.measures.clouds import SMALL, Cloud, Clouds, Numbers, shares_of_units, statistics_of
from gdelphi.measures.pack import STATES, AlteredPack, Pack
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.space import BLOCKS

Fault = Literal["vanish", "come twice", "carry another code"]
FAULTS: Final[tuple[Fault, ...]] = ("vanish", "come twice", "carry another code")
COOPERATION, CONFLICT = 5, 13  # roots up to these are spoken, up to the next done


class _Rows(NamedTuple):
    """Points of a cloud after a fault."""

    places: IntArray
    """of the point that each comes from, [n]"""
    codes: IntArray
    """positions among the keys of codes, [n]"""
    rows: IntArray


def with_fault(
    pack: Pack,
    clouds: Clouds,
    days: Sequence[int],
    fault: Fault,
    share: float,
    random: np.random.Generator,
) -> Pack:
    """The pack with a share of the rows of some days at fault."""
    code_table = BLOCKS[0]
    codes = pack.keys[code_table]
    fine_place = {code: number for number, code in enumerate(standard_events("full"))}
    root_place = {code: number for number, code in enumerate(standard_events("root"))}
    fine_of = np.array([fine_place.get(code, -1) for code in codes])  # as the store counts them
    root_of = np.array([root_place.get(lineage(code).root, -1) for code in codes])
    usual = _usual_codes(pack, len(codes))
    panel = _Panel(pack)
    changed: dict[tuple[int, int], tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {}
    for day in days:
        for stream, name in enumerate(pack.facts.streams):
            cloud = clouds.cloud(name, panel.date(day))
            slots, _ = pack.cloud(day, stream)
            if not len(cloud) or len(cloud) != len(slots):
                continue
            rows = _faulty(cloud.numbers.rows, slots[:, 0], fault, share, usual, random)
            numbers = _numbers(cloud, rows, slots[:, 0], root_of)
            moved = np.array(slots[rows.places])
            moved[:, 0] = rows.codes
            changed[day, stream] = (moved, shares_of_units(numbers.units).astype(np.float32))
            panel.add(day, stream, cloud, slots[:, 0], rows, numbers, fine_of, root_of)
        panel.scatter(day, fault, share, random)
    return AlteredPack(pack, changed, panel.arrays())


def without_day(pack: Pack, day: int) -> Pack:
    """The pack with a day missing."""
    panel = _Panel(pack)
    panel.remove(day)
    nothing = (np.zeros((0, len(BLOCKS)), np.int32), np.zeros(0, np.float32))
    streams = range(len(pack.facts.streams))
    return AlteredPack(pack, {(day, stream): nothing for stream in streams}, panel.arrays())


def _usual_codes(pack: Pack, number: int) -> FloatArray:
    """How often each code of the table comes, by the rows of all days."""
    fine = np.asarray(pack.count_panel.fine, np.float64).sum(axis=(0, 1))
    place = dict(zip(standard_events("full"), fine, strict=True))
    rates = np.array([place.get(lineage(code).full, 0.0) for code in pack.keys[BLOCKS[0]]])
    total = rates.sum()
    return rates / total if total > 0 else np.full(number, 1 / number)


def _faulty(
    rows: IntArray,
    codes: npt.NDArray[Any],
    fault: Fault,
    share: float,
    usual: FloatArray,
    random: np.random.Generator,
) -> _Rows:
    """What becomes of the rows of a cloud's points."""
    hit = random.binomial(rows, share)
    points = np.arange(len(rows))
    if fault == "come twice":
        return _Rows(points, np.asarray(codes, np.int64), rows + hit)
    kept = rows - hit
    if fault == "vanish":
        there = kept > 0
        return _Rows(points[there], np.asarray(codes, np.int64)[there], kept[there])
    moved = np.repeat(points, hit)
    drawn = random.choice(len(usual), size=len(moved), p=usual)
    there = kept > 0
    return _Rows(
        np.concatenate([points[there], moved]),
        np.concatenate([np.asarray(codes, np.int64)[there], drawn]),
        np.concatenate([kept[there], np.ones(len(moved), np.int64)]),
    )


def _numbers(cloud: Cloud, rows: _Rows, codes: npt.NDArray[Any], root_of: IntArray) -> Numbers:
    """Statistics of the points: units and mentions go with the rows."""
    old = cloud.numbers.at(rows.places)
    ratio = rows.rows / np.maximum(old.rows, 1)
    recoded = rows.codes != codes[rows.places]
    quad = np.where(recoded, _quad(root_of[rows.codes]), old.quad)
    units = np.round(old.units * ratio).astype(np.int64)
    mentions = np.round(old.mentions * ratio).astype(np.int64)
    return Numbers(units, rows.rows, mentions, old.goldstein, old.tone, quad)


def _quad(roots: IntArray) -> IntArray:
    """Quad class of roots by position: spoken and done cooperation, spoken and done conflict."""
    quad: IntArray = np.searchsorted(np.array([COOPERATION, 8, CONFLICT]), roots + 1) + 1
    return np.where(roots < 0, 0, quad)


class _Panel:
    """Copies of a pack's arrays, to be changed."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        panel = pack.count_panel
        self._counts = np.array(pack.counts)
        self._weights = np.array(pack.weights)
        self._states = np.array(pack.states)
        self._statistics = np.array(pack.statistics)
        self._flags = np.stack([pack.present, pack.partial, pack.backfile], axis=1)
        self._fine, self._pairs = np.array(panel.fine), np.array(panel.pairs)
        self._acted, self._world = np.array(panel.acted), np.array(panel.world)

    def date(self, day: int) -> Any:
        return self._pack.profiles.days[day]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """By the names that a pack has for them."""
        return {
            "counts": self._counts,
            "root_weights": self._weights,
            "states": self._states,
            "statistics": self._statistics,
            "flags": self._flags,
            "fine": self._fine,
            "pairs": self._pairs,
            "acted": self._acted,
            "world": self._world,
        }

    def add(
        self,
        day: int,
        stream: int,
        cloud: Cloud,
        codes: npt.NDArray[Any],
        rows: _Rows,
        numbers: Numbers,
        fine_of: IntArray,
        root_of: IntArray,
    ) -> None:
        """Take a cloud's rows away and put others in their place."""
        old = cloud.numbers
        for places, counts in ((fine_of, self._fine), (root_of, self._counts)):
            change = _by_code(places, rows.codes, rows.rows, counts.shape[2])
            change -= _by_code(places, codes, old.rows, counts.shape[2])
            counts[stream, day] = np.maximum(counts[stream, day].astype(np.int64) + change, 0)
        known = self._weights[stream, day].sum()
        scale = known / max(int(old.units.sum()), 1)
        size = self._weights.shape[2]
        change = _by_code(root_of, rows.codes, numbers.units, size)
        change -= _by_code(root_of, codes, old.units, size)
        moved = np.maximum(self._weights[stream, day] + scale * change, 0.0)
        self._weights[stream, day] = np.where(moved < 1e-9 * max(known, 1e-9), 0.0, moved)
        found = statistics_of(numbers)
        self._statistics[day, stream] = [*found[:4], *found.quad_shares, *found[5:]]
        points = len(rows.rows)
        state = "empty" if not points else "small" if points < SMALL else "full"
        self._states[day, stream] = STATES.index(state)

    def scatter(self, day: int, fault: Fault, share: float, random: np.random.Generator) -> None:
        """The same chances for counts that are not kept by row."""
        self._world[day] = _scattered(self._world[day], fault, share, random)
        self._acted[:, day] = _scattered(self._acted[:, day], fault, share, random)
        upper = np.triu(np.ones(self._pairs.shape[1:3], bool), 1)[..., None]
        once = _scattered(self._pairs[day] * upper, fault, share, random)
        self._pairs[day] = once + once.swapaxes(0, 1)

    def remove(self, day: int) -> None:
        for values in (self._counts, self._weights, self._fine, self._acted):
            values[:, day] = 0
        for values in (self._statistics, self._pairs, self._world):
            values[day] = 0
        self._states[day] = STATES.index("missing")
        self._flags[day] = (False, False, False)


def _by_code(
    place_of: IntArray, codes: npt.NDArray[Any], rows: IntArray, size: int
) -> npt.NDArray[np.int64]:
    places = place_of[codes]
    known = places >= 0
    summed = np.bincount(places[known], weights=rows[known].astype(np.float64), minlength=size)
    return np.round(summed).astype(np.int64)


def _scattered(
    counts: npt.NDArray[Any], fault: Fault, share: float, random: np.random.Generator
) -> npt.NDArray[Any]:
    """Counts [..., code] with a share of the rows at fault; another code is one of the same axis,
    as often as it comes in all of them."""
    known = counts.astype(np.int64)
    hit = random.binomial(known, share)
    if fault == "vanish":
        return (known - hit).astype(counts.dtype)
    if fault == "come twice":
        return (known + hit).astype(counts.dtype)
    total = counts.reshape(-1, counts.shape[-1]).sum(axis=0).astype(np.float64)
    usual = total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))
    moved = random.multinomial(hit.sum(axis=-1), usual)
    return (known - hit + moved).astype(counts.dtype)
