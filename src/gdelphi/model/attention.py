"""Attention of queries to a measure, in four kinds.

A query a meets the measure sum_j w_j delta(x_j) with logits s(a, x_j), and integrates a value
against it with a density p:

    softmax   s = <a, x>               p = exp(s) / integral of exp(s)
    l2        s = -|a - x|^2 / 2       the same: a Gaussian bump around the query (Kim,
                                       Papamakarios, Mnih 2021)
    sigmoid   s = <a, x>               p = sigmoid(s), not normalised: every point is heard by
                                       itself (Ramapuram et al. 2024)
    sinkhorn  s = <a, x>               p = exp(s + f(a) + g(x)): rows and columns are normalised
                                       in turn, rows first and last; one round is softmax (Sander,
                                       Ablin, Blondel, Peyré 2022)

All are functions of the measure alone: order, splitting and points of weight zero change nothing.
In Sinkhorn's kind the queries are a measure too, each of the same weight, and share the points
among themselves, so what one query hears depends on the others. In a causal layer the others are
later days: it would leak the future, and is refused there.
"""

import math
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import CAUSAL_SINKHORN, AttentionKind

SINKHORN_ROUNDS: Final = 3
"""of both normalisations; Sinkformers were trained with 3 to 5"""


def attention_logits(
    queries: Tensor, keys: Tensor, kind: AttentionKind, *, scale: float = 1.0
) -> Tensor:
    """s, [..., q, n], of queries [..., q, k] and keys [..., n, k]."""
    logits = scale * queries @ keys.mT
    if kind != "l2":
        return logits
    lengths = keys.square().sum(dim=-1)[..., None, :] + queries.square().sum(dim=-1)[..., None]
    return logits - scale / 2 * lengths


def attention_density(
    logits: Tensor, log_weights: Tensor, kind: AttentionKind, *, rounds: int = SINKHORN_ROUNDS
) -> Tensor:
    """w p, [..., q, n], of logits [..., q, n] and ln w [..., 1, n]; minus infinity is no point.

    ln w may be [..., q, n], a measure for each query, as under a mask; not for Sinkhorn's kind.
    """
    if kind == "sigmoid":
        return log_weights.exp() * logits.sigmoid()
    if kind == "sinkhorn":
        if log_weights.shape[-2] != 1:
            raise TrainingError(CAUSAL_SINKHORN)
        logits = _balanced(logits, log_weights, rounds)
    return (logits + log_weights).softmax(dim=-1)


def _balanced(logits: Tensor, log_weights: Tensor, rounds: int) -> Tensor:
    """s + g: after this many rounds, what a softmax over the points makes the last round of."""
    # 1. f(a_i) = -ln sum_j w_j exp(s_ij + g_j)              each query hears as much as the others
    # 2. g(x_j) = -ln sum_i exp(s_ij + f_i) / q              each point is heard by its weight
    number = math.log(logits.shape[-2])
    balanced = logits
    for _ in range(rounds - 1):
        f = -torch.logsumexp(balanced + log_weights, dim=-1, keepdim=True)
        g = number - torch.logsumexp(logits + f, dim=-2, keepdim=True)
        balanced = logits + g
    return balanced


def measure_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_weights: Tensor,
    *,
    kind: AttentionKind = "softmax",
    scale: float | None = None,
    rounds: int = SINKHORN_ROUNDS,
) -> Tensor:
    """What queries [..., q, k] hear, [..., q, v], of a measure with keys [..., n, k], values
    [..., n, v] and ln weights [..., 1, n], or [..., q, n] if each query has a measure of its own:
    then those are made to sum to 1. The scale of logits is 1 / sqrt(k) if none is given."""
    if kind == "softmax":
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=log_weights, scale=scale
        )
    if log_weights.shape[-2] != 1 and kind == "sigmoid":
        log_weights = log_weights.log_softmax(dim=-1)
    logits = attention_logits(
        queries, keys, kind, scale=queries.shape[-1] ** -0.5 if scale is None else scale
    )
    return attention_density(logits, log_weights, kind, rounds=rounds) @ values
