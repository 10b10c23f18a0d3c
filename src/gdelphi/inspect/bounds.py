"""Lipschitz and contraction bounds of attention, from its weights alone.

An attention layer maps points x_i of a ball of radius R to

    f_i = sum_h V_h sum_j P_ij x_j,     P_ij = softmax_j(<A_h x_i, x_j> + b_ij + ln w_j)

with A_h = K_h' Q_h / sqrt(k), and as a map on measures it is mu -> (f_mu)# mu. With s = |A| R^2,
spectral norms throughout, and o the largest difference between biases b:

    mean field   |V| (1 + 3 s) exp(2 s + o)                    W2, any measure on the ball
    masked       |V| (s + 2 (1 + 2 s) exp(2 s + o))            conditional W2, days of equal weight
    n points     sqrt(3) |V| sqrt(s^2 (4 n + 1) + n)           the norm of all n points together

The first and the last are theorems 3.5 and 3.3 of Castin, Ablin and Peyre, How Smooth is Attention?
(ICML 2024). The last is often quoted without the n that is added under the root, |V| s
sqrt(12 n + 3): that is its limit for large s, and no bound for small ones (with A = 0 attention is
a mean, whose constant is |V| and not 0). The masked bound follows in the same way with Hardy's
inequality, sum_t (1/t sum_{s<=t} b_s)^2 <= 4 sum_t b_t^2, where the unmasked one has a plain mean.
docs/theory.md derives them. Heads add up. All are given as powers of ten: e^(2 s) leaves the range
of numbers for any layer behind a layer norm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LOG10: Final = math.log(10)


@dataclass(frozen=True)
class HeadNorms:
    """What bounds are made of, for one head."""

    value: float
    """|V|"""
    logit: float
    """|A|"""
    radius: float
    """R, of the points that are attended to"""
    bias: float = 0.0
    """the largest difference between additive biases"""

    @property
    def reach(self) -> float:
        """s = |A| R^2"""
        return self.logit * self.radius**2


def mean_field_bound(heads: Sequence[HeadNorms]) -> float:
    """log10 of the Lipschitz constant of the map on measures, in W2."""
    return _sum([math.log1p(3 * h.reach) + 2 * h.reach + h.bias for h in heads], heads)


def masked_bound(heads: Sequence[HeadNorms]) -> float:
    """log10 of that of a causal layer, in conditional W2 (days of equal weight)."""
    logs = []
    for head in heads:
        density = math.log(2) + math.log1p(2 * head.reach) + 2 * head.reach + head.bias
        own = math.log(head.reach) if head.reach > 0 else -math.inf
        logs.append(_logsumexp([density, own]))
    return _sum(logs, heads)


def points_bound(heads: Sequence[HeadNorms], number: float) -> float:
    """log10 of the Lipschitz constant of n points together; for measures whose weights are not
    even, n is one over the least of them."""
    logs = [0.5 * math.log(3 * (h.reach**2 * (4 * number + 1) + number)) for h in heads]
    return _sum(logs, heads)


def points_bound_w1(heads: Sequence[HeadNorms], number: float) -> float:
    """The same in W1: |V| (s + (1 + 2 s) n), since a column of P sums to n at most."""
    return _sum([math.log(h.reach + (1 + 2 * h.reach) * number) for h in heads], heads)


@dataclass(frozen=True)
class KernelParts:
    """W1 contraction coefficients of the attention kernel's parts, as powers of ten: attention is
    lookup, then reweighing by the interaction potential, then projection on the mean (Vuckovic,
    Baratin and Tachet des Combes, A Mathematical Theory of Attention, 2020)."""

    projection: float
    """a measure to its mean: 1, since |mean - mean'| <= W1"""
    potential: float
    """mu to exp(<a, x>) mu / Z: (1 + 2 R |a|) exp(2 R |a|), |a| <= |A| R"""
    lookup: float
    """x to V x: |V|"""

    @property
    def product(self) -> float:
        return self.projection + self.potential + self.lookup


def kernel_parts(head: HeadNorms) -> KernelParts:
    """The coefficients of a head for one query."""
    s = head.reach
    potential = (math.log1p(2 * s) + 2 * s + head.bias) / LOG10
    return KernelParts(0.0, potential, _log(head.value) / LOG10)


def query_bound(query: float, value: float, nothing: float, pull: float) -> float:
    """log10 of the W1 constant of one learned query that integrates against a measure on the unit
    sphere beside a fixed point of weight 1 (the encoder's "nothing").

    |V| (1 + |a| (1 + max(1, |x0|))) e^|a| / (e^-|a| + e^<a, x0>): the density of the reweighed
    measure is at most e^|a| over the normaliser, and no point is further from its mean than the
    bracket says. `nothing` is |x0|, `pull` is <a, x0>.
    """
    normaliser = _logsumexp([-query, pull])
    spread = math.log1p(query * (1 + max(1.0, nothing)))
    return (_log(value) + spread + query - normaliser) / LOG10


def _sum(logs: Sequence[float], heads: Sequence[HeadNorms]) -> float:
    """log10 of sum_h |V_h| exp(log_h)."""
    return _logsumexp([log + _log(h.value) for log, h in zip(logs, heads, strict=True)]) / LOG10


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _logsumexp(logs: Sequence[float]) -> float:
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(sum(math.exp(log - top) for log in logs))
