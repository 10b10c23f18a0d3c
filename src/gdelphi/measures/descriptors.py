"""Descriptors: a stream's day in brief, as 3 to 10 atoms with words.

The atoms are the W2-optimal few-atom summary of the day's cloud (`quantise`). Each one is read
back as a real phrase: the event is the plurality of its points by weight, first among roots, then
among the bases of that root, then among the codes of that base; the phrase is the nearest point
with that code. Not chosen: the nearest phrase of all, which may carry a code that hardly any of the
atom's points has.

A random descriptor is the descriptor of a random part of the day's rows: what might as well have
been reported. Training uses several of them for each day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.sections import MeasureSettings
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    Measure,
    VectorArray,
)
from gdelphi.measures.clouds import (
    Cloud,
    Coded,
    DayState,
    shares_of_units,
)
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.measures.space import Points, place_of
from gdelphi.ot.quantise import (
    AtomRule,
    Quantisation,
    quantise_adaptively,
    unit_rows,
)
from gdelphi.ot.sphere import unit

PART_OF_ROWS: Final = 0.5  # of a day that a random descriptor is made from
SETTLING_STEPS = 10
NOWHERE: Final = np.zeros(0, dtype=np.int64)
NO_ATOM: Final = -1  # the atom of a point that none stands for


class AtomPhrases(NamedTuple):
    """What the atoms are called; each [m]."""

    actor1: tuple[str, ...]
    code: tuple[str, ...]
    actor2: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Descriptor:
    """A day in brief. Atoms are sorted by weight, the heaviest first."""

    stream: str
    day: date
    state: DayState
    points: VectorArray
    """[m, dim]"""
    weights: FloatArray
    """[m]"""
    phrases: AtomPhrases
    rows: IntArray
    """[m], rows of the store that stand behind the atom"""
    cost: float
    """W2^2 to the cloud"""
    members: IntArray
    """[n], the atom of each point of the cloud; NO_ATOM where none stands for it"""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def measure(self) -> Measure:
        return Measure(self.points, self.weights)

    def events(self, level: str) -> tuple[str, ...]:
        """The standard event of each atom at a level."""
        return tuple(getattr(lineage(code), level) for code in self.phrases.code)

    def sentences(self) -> tuple[str, ...]:
        """The atoms in words."""
        place = place_of(self.stream)
        return tuple(
            sentence(*phrase, place)
            for phrase in zip(
                self.phrases.actor1, self.phrases.code, self.phrases.actor2, strict=True
            )
        )


def atom_rule(settings: MeasureSettings) -> AtomRule:
    """How many atoms a day gets, by the settings."""
    return AtomRule(settings.fewest_atoms, settings.most_atoms, settings.explained)


def describe_day(cloud: Cloud, points: Points, rule: AtomRule, seed: int = 0) -> Descriptor:
    """The descriptor of a cloud; no atoms where it has no points."""
    measure = points.measure(cloud)
    return _descriptor(cloud, measure, quantise_adaptively(measure, rule, seed=seed))


class RandomPart(NamedTuple):
    """The descriptor of a random part of a cloud's rows."""

    points: VectorArray
    """[m, dim]"""
    weights: FloatArray
    """[m], the heaviest first"""
    named: IntArray
    """[m], the point of the cloud that each atom is named after"""


def random_parts(
    cloud: Cloud,
    points: Points,
    day: Descriptor,
    seed: Any,
    number: int,
    part: float = PART_OF_ROWS,
) -> list[RandomPart]:
    """Random descriptors: of random parts of the cloud's rows, drawn one after the other.

    The atoms of the day settle anew on the rows that were drawn; those left without any go. That is
    thirty times as quick as a search from nothing, and as near to the day as the drawing lets it.
    """
    if len(cloud) < 2:  # a part of one phrase is that phrase
        return [RandomPart(day.points, day.weights, np.arange(len(day)))] * number
    random, numbers = np.random.default_rng(seed), cloud.numbers
    whole = points.of(cloud)
    # Where each point is an atom, no step of `_settle` would move any.
    own_atoms = unit_rows(whole) if len(day) == len(cloud) else None
    found = []
    for _ in range(number):
        kept = draw_rows(numbers.rows, random, part)
        chosen = np.flatnonzero(kept)
        # Rows of one phrase count as equally heavy.
        units = numbers.units[chosen] * kept[chosen] // numbers.rows[chosen]
        weights = shares_of_units(units)
        if own_atoms is not None and weights.all():
            order = np.argsort(-weights, kind="stable")
            named, shares = chosen[order], (weights / weights.sum())[order]
            found.append(RandomPart(own_atoms[named], shares, named))
            continue
        measure = Measure(whole[chosen], weights)
        settled = _settle(measure, day.points)
        named = chosen[name_atoms(cloud.code.at(chosen), measure, settled)]
        found.append(RandomPart(settled.points, settled.weights, named))
    return found


def draw_rows(rows: IntArray, random: np.random.Generator, part: float = PART_OF_ROWS) -> IntArray:
    """Of the rows of each point how many a random part of all rows has; one at least in all."""
    kept: IntArray = random.binomial(rows, part)
    if not kept.any():
        kept[random.choice(len(rows), p=rows / rows.sum())] = 1
    return kept


def _settle(cloud: Measure, atoms: VectorArray) -> Quantisation:
    """Lloyd's steps from given atoms until no point moves; atoms without points go."""
    labels = (cloud.points @ atoms.T).argmax(axis=1) if len(atoms) else NOWHERE
    for _ in range(SETTLING_STEPS):
        labels = (np.cumsum(np.bincount(labels) > 0) - 1)[
            labels
        ]  # those that have points, in order
        shares = (labels == np.arange(labels.max(initial=-1) + 1)[:, None]) * cloud.weights
        atoms = unit((shares @ cloud.points).astype(np.float32))
        nearness = cloud.points @ atoms.T
        before, labels = labels, nearness.argmax(axis=1) if len(atoms) else NOWHERE
        if (before == labels).all():
            break
    weights: FloatArray = np.bincount(labels, cloud.weights, len(atoms)).astype(np.float64)
    kept = weights > 0  # an atom may have been left with points that weigh nothing
    atoms, weights, nearness = atoms[kept], weights[kept], nearness[:, kept]
    labels = nearness.argmax(axis=1) if len(atoms) else NOWHERE
    order = np.argsort(-weights, kind="stable")
    cost = 2 * float(cloud.weights @ (1 - nearness[np.arange(len(labels)), labels]))
    return Quantisation(atoms[order], weights[order], np.argsort(order)[labels], max(cost, 0.0))


def _descriptor(cloud: Cloud, measure: Measure, quantisation: Quantisation) -> Descriptor:
    # The point of the cloud that each atom is named after.
    named = name_atoms(cloud.code, measure, quantisation)
    keys = [slot.at(named).values() for slot in (cloud.actor1, cloud.code, cloud.actor2)]
    rows = np.bincount(
        quantisation.labels, weights=cloud.numbers.rows, minlength=len(quantisation.weights)
    )
    return Descriptor(
        cloud.stream,
        cloud.day,
        cloud.state,
        quantisation.points,
        quantisation.weights,
        AtomPhrases(tuple(keys[0]), tuple(keys[1]), tuple(keys[2])),
        rows.astype(np.int64),
        quantisation.cost,
        quantisation.labels,
    )


def name_atoms(events: Coded, measure: Measure, quantisation: Quantisation) -> IntArray:
    """The point of a measure that each of its atoms is named after, [m]; `events` are the codes of
    the points."""
    labels = quantisation.labels
    chosen = np.empty(len(quantisation.weights), dtype=np.int64)
    chosen[labels] = np.arange(len(labels))  # right where an atom has one point
    for atom in np.flatnonzero(np.bincount(labels, minlength=len(chosen)) > 1):
        members = np.flatnonzero(labels == atom)
        code = [lineage(events.keys[place]) for place in events.places[members]]
        for level in range(3):  # root, base, full
            own = [each[level] for each in code]
            first = _plurality(own, measure.weights[members])
            members = members[[each == first for each in own]]
            code = [each for each in code if each[level] == first]
        nearness = measure.points[members] @ quantisation.points[atom]
        chosen[atom] = members[np.argmax(nearness)]
    return chosen


def _plurality(codes: Sequence[str], weights: FloatArray) -> str:
    """The code with the most weight; of equal ones the smallest."""
    totals: dict[str, float] = {}
    for code, weight in zip(codes, weights.tolist(), strict=True):
        totals[code] = totals.get(code, 0.0) + weight
    return min(totals, key=lambda code: (-totals[code], code))
