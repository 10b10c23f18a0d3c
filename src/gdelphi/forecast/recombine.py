"""Futures recombined from past days, which agree with what is published.

Which past days. The model's attention is a law over past days. It is moved as little as possible
(minimum Kullback-Leibler divergence, as `future_weights` has it) until the days that it draws have
the published probabilities of all three targets of the roots: *occurs*, *headline* and *surge*.
Sixty probabilities are more than a year of days can meet exactly, so each is met softly. Days are
then drawn independently of each other.

Why they are recombined. Such a law rests on some sixty days, and a hundred draws repeat them: it
says that tomorrow will be one of sixty days to the letter, which never happens, and the energy
score knows. Each future therefore takes some of its roots, by chance, from a second day drawn from
the same law: their atoms, their shares and whether they occur. The rest is of the day that it was
drawn from, so that it still hangs together as that day did. Every root of every future comes from a
day of the law, so probabilities are those of the law, whatever is lent.

`docs/LOG.md` (2026-11-17) has what else was tried.
"""

from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.types import BoolArray, FloatArray, Forecast, IntArray, VectorArray
from gdelphi.forecast.future_weights import reweight
from gdelphi.measures.pack import Pack
from gdelphi.measures.targets import headline_of, occurs_of, shares_of

SOFT: Final = 0.01
"""ridge with which the law of days meets what is published"""
LENT: Final = 0.25
"""probability that a root of a future comes from the second day"""


class Recombination(NamedTuple):
    """Which days futures are made of."""

    days: IntArray
    """position in the pack of the day that each future was drawn from, [K]"""
    donors: IntArray
    """of the second day, [K]"""
    lent: BoolArray
    """which roots come from the second day, [K, root]"""


class RecombinedAtoms(NamedTuple):
    """Atoms of futures: those of the drawn day first, those of the second day behind them."""

    rows: IntArray
    """atom of the pack that each is, [K, n]"""
    points: VectorArray
    """[K, n, dimension]"""
    weights: VectorArray
    """[K, n], summing to 1 over a future's atoms; 0: no atom"""
    lent: BoolArray
    """whether an atom is of the second day, [K, n]"""


def law_of_days(
    counts: IntArray,
    weights: FloatArray,
    threshold: FloatArray,
    forecast: Forecast,
    prior: FloatArray,
) -> FloatArray:
    """Probabilities of past days [day] near the prior, under which roots occur, are headlines and
    surge as they are forecast to. Counts and weights of the roots on these days are [day, root],
    `threshold` [root] is the share that a surge exceeds."""
    surge = shares_of(weights) > threshold  # false where there is no threshold, and not asked for
    happens = np.concatenate([occurs_of(counts), headline_of(weights), surge], axis=1)
    wanted = np.concatenate([forecast.occurs, forecast.headline, forecast.surge])
    return reweight(happens, wanted, prior, ridge=SOFT).weights


def draw_recombination(
    law: FloatArray, number: int, roots: int, random: np.random.Generator
) -> Recombination:
    """Draw both days of each future from a law over days [day], and the roots that are lent."""
    cumulated = law.cumsum()
    uniform = random.random((2, number)) * cumulated[-1]
    days, donors = np.searchsorted(cumulated, uniform, side="right").clip(max=len(law) - 1)
    return Recombination(days, donors, random.random((number, roots)) < LENT)


def recombined_atoms(
    pack: Pack, place: int, codes: tuple[str, ...], recombination: Recombination
) -> tuple[Recombination, RecombinedAtoms]:
    """The atoms of recombined days of the stream at a place, by the roots of their phrases. A
    future that would be left without atoms has those of its drawn day, and nothing is lent to it;
    so the recombination is returned as it came to be."""
    own, of_donor = (_atom_rows(pack, days, place) for days in recombination[:2])
    rows = np.concatenate([own[0], of_donor[0]], axis=1)
    masses = np.concatenate([own[1], of_donor[1]], axis=1)
    behind = np.arange(rows.shape[1]) >= own[0].shape[1]
    roots = _roots(pack, rows, codes)
    kept = masses * (_lent_atoms(recombination.lent, roots) == behind)
    any_left = kept.sum(axis=1, keepdims=True) > 0
    made = recombination._replace(lent=recombination.lent & any_left)
    kept = masses * (_lent_atoms(made.lent, roots) == behind)
    total = kept.sum(axis=1, keepdims=True)
    shares = np.divide(kept, total, out=np.zeros_like(kept), where=total > 0).astype(np.float32)
    there = shares > 0
    points = np.where(there[..., None], pack.atom_columns()[0][rows], 0).astype(np.float32)
    return made, RecombinedAtoms(rows, points, shares, there & behind)


def _lent_atoms(lent: BoolArray, roots: IntArray) -> BoolArray:
    """Whether the roots of atoms [K, n] are lent; those of an unknown root (-1) never are."""
    chosen = np.take_along_axis(lent, roots.clip(min=0), axis=1)
    return chosen & (roots >= 0)


def _roots(pack: Pack, rows: IntArray, codes: tuple[str, ...]) -> IntArray:
    """Place of the root of each atom's phrase among the codes, -1 if it is not there."""
    places = {code: place for place, code in enumerate(codes)}
    distinct, index = np.unique(rows, return_inverse=True)
    roots = [places.get(code[:2], -1) for code in pack.phrases_at(distinct).code]
    found: IntArray = np.array(roots, dtype=np.int64)[index].reshape(rows.shape)
    return found


def _atom_rows(pack: Pack, days: IntArray, place: int) -> tuple[IntArray, FloatArray]:
    """Rows in the pack of the atoms of a stream's days, and their weights, [K, n]; 0: no atom."""
    _, weights, starts = pack.atom_columns()
    first = (days * pack.shape[1] + place) * (pack.facts.variants + 1)
    sizes = starts[first + 1] - starts[first]
    beside = np.arange(max(int(sizes.max(initial=0)), 1))
    there = beside < sizes[:, None]
    rows = np.where(there, starts[first][:, None] + beside, 0)
    return rows, np.where(there, weights[rows], 0.0)
