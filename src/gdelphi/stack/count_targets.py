"""From expected rows to the targets: the probability of *occurs*, *headline* and *surge*.

Rows of a root on a day are negative binomial with mean mu and shape k. That there is none has the
probability

    P(no row) = (k / (k + mu))^k,

and so `occurs` needs no drawing. The others depend on the cloud weights of all roots of a day
together: days are drawn, each root's rows by

    g ~ Gamma(k) / k,   rows ~ Poisson(mu g),

and their weights from those that single rows had. The sum of many weights is close to a normal one.

A day is drawn by its own random numbers, which its ordinal and the seed decide. Its probabilities
are therefore the same to the last bit whatever other days are asked for with it.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np

from gdelphi.common.threads import at_once
from gdelphi.common.types import BoolArray, FloatArray, IntArray, VectorArray
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import HEADLINES, shares_of

POOL_SIZE: Final = 4096  # weights that are kept of each root
FEWEST_WEIGHTS: Final = 200  # of single rows, for a root to have a pool of its own
MOST_ROWS: Final = 40  # whose weights are added up; of more the sum is drawn as normal
SUMS: Final = 2048  # drawn for each number of rows
LEAST_SUM: Final = 0.1  # of the weights of many rows
ONE_MENTION: Final = float(np.log(2))  # the weight of a row with one mention, where none is known
DAYS_AT_ONCE: Final = 16  # that one thread draws
KEPT_SUMS: Final = 2  # pools of weights whose drawn sums are kept, 7 MB each
TIE: Final = 1e-9  # weight that a later code lies behind an earlier one of the same weight


def row_weight_pool(roots: Profiles, size: int, *, seed: int = 0) -> FloatArray:
    """Cloud weights of single rows, drawn from the first `size` days, [root, weight].

    They come from cells with one row. A root that has few of those takes the weights of all roots.
    """
    generator = np.random.default_rng(seed)
    counts, weights = roots.counts[:, :size], roots.weights[:, :size]
    single = counts == 1
    every = weights[single]
    if not every.size:  # then the mean row of each cell
        some = counts > 0
        every = weights[some] / counts[some] if some.any() else np.array([ONE_MENTION])
    pools = []
    for root in range(counts.shape[2]):
        own = weights[:, :, root][single[:, :, root]]
        pools.append(generator.choice(own if len(own) >= FEWEST_WEIGHTS else every, POOL_SIZE))
    return np.stack(pools)


def zero_mass(expected: FloatArray, shapes: FloatArray) -> FloatArray:
    """The probability of no row."""
    mass: FloatArray = np.exp(-shapes * np.log1p(expected / shapes))
    return mass


def target_chances(
    expected: FloatArray,
    shapes: FloatArray,
    row_weights: FloatArray,
    thresholds: FloatArray,
    *,
    ordinals: IntArray,
    samples: int,
    seed: int,
) -> dict[str, FloatArray]:
    """The probability of each target, [day, stream, root].

    Expected rows [day, stream, root], NB shapes [stream, root], weights of single rows [root,
    weight], and the shares that a surge exceeds [day, stream, root], NaN where it is undefined and
    in the result too. `ordinals` are those of the target days' dates.
    """
    sums = _drawn_sums(row_weights, seed)
    headline, surge = np.empty_like(expected), np.empty_like(expected)

    def draw(days: range) -> None:
        for number in days:
            generator = np.random.default_rng([seed, int(ordinals[number])])
            weights = _draw(generator, expected[number], shapes, sums, samples)
            headline[number] = _rate(_headlines(weights).sum(axis=0), samples)
            over = shares_of(weights) > thresholds[number]  # never above NaN
            surge[number] = _rate(over.sum(axis=0), samples)

    days = range(len(ordinals))
    parts = [days[first : first + DAYS_AT_ONCE] for first in days[::DAYS_AT_ONCE]]
    if len(parts) > 1:
        at_once([partial(draw, part) for part in parts])
    else:
        draw(days)
    surge[np.isnan(thresholds)] = np.nan
    return {"occurs": 1 - zero_mass(expected, shapes), "headline": headline, "surge": surge}


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the weights of so many rows add up to."""

    drawn: VectorArray
    """[root, rows, draw], for 0 to `MOST_ROWS` rows; small, since it is looked up at random"""
    mean: FloatArray
    """[root], of one row"""
    variance: FloatArray


def _drawn_sums(row_weights: FloatArray, seed: int) -> _Sums:
    """Those of a pool are the same for all days: drawing them takes longer than drawing a day."""
    content = np.ascontiguousarray(row_weights)
    return _sums_of(content.tobytes(), content.dtype.str, len(content), seed)


@lru_cache(KEPT_SUMS)
def _sums_of(content: bytes, dtype: str, roots: int, seed: int) -> _Sums:
    row_weights = np.frombuffer(content, dtype).reshape(roots, -1)
    generator = np.random.default_rng(seed)
    size = row_weights.shape[1]
    drawn = np.zeros((roots, MOST_ROWS + 1, SUMS), np.float32)
    for root, pool in enumerate(row_weights):
        drawn[root, 1:] = np.cumsum(pool[generator.integers(0, size, (MOST_ROWS, SUMS))], axis=0)
    sums = _Sums(drawn, row_weights.mean(axis=1), row_weights.var(axis=1))
    for kept in (sums.drawn, sums.mean, sums.variance):
        kept.setflags(write=False)
    return sums


def _draw(
    generator: np.random.Generator,
    expected: FloatArray,
    shapes: FloatArray,
    sums: _Sums,
    samples: int,
) -> FloatArray:
    """Weights of drawn days, [sample, stream, root]."""
    shape = (samples, *expected.shape)
    rows = generator.poisson(expected / shapes * generator.standard_gamma(shapes, shape))
    root = np.arange(expected.shape[1])
    of_number = (root * (MOST_ROWS + 1) + np.minimum(rows, MOST_ROWS)) * SUMS
    place = of_number + generator.integers(0, SUMS, shape, dtype=np.uint16)
    weights = sums.drawn.ravel().take(place).astype(np.float64)
    many = rows > MOST_ROWS
    number = rows[many]
    root = np.broadcast_to(root, shape)[many]
    spread = np.sqrt(number * sums.variance[root]) * generator.standard_normal(len(number))
    weights[many] = np.maximum(number * sums.mean[root] + spread, LEAST_SUM)
    return weights


def _headlines(weights: FloatArray) -> BoolArray:
    """As `headline_of` says, in a third of its time."""
    ranked = weights - TIE * np.arange(weights.shape[-1])
    size = min(HEADLINES, weights.shape[-1])
    last = np.partition(ranked, -size, axis=-1)[..., -size, None]
    among: BoolArray = (ranked >= last) & (weights > 0)
    return among


def _rate(hits: IntArray, samples: int) -> FloatArray:
    """Hits among samples, with half a sample of either kind."""
    rate: FloatArray = (hits + 0.5) / (samples + 1)
    return rate
