"""How strongly the tokens of a cloud answer to a change of the cloud, for each kind of attention.

The day encoder maps a measure mu on the sphere to tokens E(mu). Two constants, each measured at a
cloud and bounded by the weights alone:

    W1   |E(mu) - E(nu)| <= L W1(mu, nu)   at a cloud: the largest |D_j| / w_j over its points
    W2   the same with W2                  at a cloud: the largest singular value of D_j / sqrt(w_j)

where D_j is the derivative of E by the point x_j along the sphere. Both are exact at the cloud for
small moves, so the W2 constant is at most the W1 constant there, and the bound is above both.

The bound. Let p be the density of attention.py, g the largest slope of ln p (for the sigmoid, of
sigmoid) and M a bound of p. Moving mass at x by dx moves the pooled point by p (dx + (x - pooled)
<slope, dx>), so a head and query have L <= M (1 + g reach), with reach the largest |x - pooled|;
the value matrices and the output layer multiply it (Castin, Ablin, Peyré 2024 for self-attention).
Exponentials of lengths of queries make it large; what is measured is what matters.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gdelphi.common.types import FloatArray
from gdelphi.model.attention import SINKHORN_ROUNDS
from gdelphi.model.network import DayEncoder


class EncoderLipschitz(NamedTuple):
    """Lipschitz constants of the map from a cloud to its tokens."""

    w1: float
    """at the cloud, against W1"""
    w2: float
    """at the cloud, against W2"""
    log10_bound: float
    """of the weights alone, against W1 and so W2"""


def encoder_lipschitz(
    encoder: DayEncoder, points: Tensor | FloatArray, weights: Tensor | FloatArray
) -> EncoderLipschitz:
    """Constants of an encoder at one cloud [n, dimension] with weights [n]; points of weight 0 are
    left out. Needs q width x n dimension numbers: a few hundred points are plenty."""
    like = encoder.nothing
    cloud = torch.as_tensor(points).to(like)
    masses = torch.as_tensor(weights).to(like)
    cloud, masses = cloud[masses > 0], masses[masses > 0]

    def tokens(places: Tensor) -> Tensor:
        found: Tensor = encoder(places[None], masses[None])[0].flatten()
        return found

    with torch.enable_grad():
        slopes: Tensor = torch.autograd.functional.jacobian(tokens, cloud)
    slopes = slopes.detach()
    along = torch.einsum("onx,nx->on", slopes, cloud)  # what is along x leads off the sphere
    tangent = (slopes - along[..., None] * cloud).double()
    by_point = torch.linalg.matrix_norm(tangent.transpose(0, 1), ord=2) / masses
    scaled = (tangent / masses[:, None].sqrt()).flatten(1)
    w2 = float(torch.linalg.matrix_norm(scaled, ord=2))
    return EncoderLipschitz(float(by_point.max()), w2, log10_bound(encoder))


@torch.no_grad()
def log10_bound(encoder: DayEncoder) -> float:
    """Decimal logarithm of the bound from the weights: it can be too large for a float."""
    heads = encoder.heads
    lengths = encoder.folded.norm(dim=1).view(encoder.queries, heads).double()
    outside = float(encoder.nothing.norm())
    reach = 1 + max(1.0, outside)
    if encoder.kind == "sigmoid":
        # p = sigmoid: the pooled point moves by p dx + x p' <a, dx>, and p' is at most 1/4.
        log_each = torch.log(torch.sigmoid(lengths) + lengths / 4)
    elif encoder.kind == "l2":
        keys = torch.linalg.matrix_norm(encoder.key.double(), ord=2)
        slope = keys * (lengths + keys)
        # ln p = s - ln Z: s is at most 0 and ln Z at least the cloud's smallest s.
        log_each = (lengths + keys).square() / 2 + torch.log(1 + slope * reach)
    elif encoder.kind == "sinkhorn":
        # ln p = s + g + f with g as steep as the longest query; g also changes with the measure,
        # by what f changed in the round before.
        longest = lengths.amax(dim=0)
        changed = 2 * longest + torch.log(longest)
        for _ in range(SINKHORN_ROUNDS - 2):
            changed = torch.logaddexp(changed, 4 * longest + torch.log(2 * longest))
        moved = 4 * longest + torch.log(1 + 2 * longest * reach)
        log_each = torch.logaddexp(moved, changed + math.log(reach)).expand_as(lengths)
    else:
        log_each = 2 * lengths + torch.log(1 + lengths * reach)
    # Tokens are linear in what all queries and heads have pooled: the squares add up.
    values = torch.linalg.matrix_norm(encoder.value.double(), ord=2).log()
    out = float(torch.linalg.matrix_norm(encoder.out.weight.double(), ord=2).log())
    total = torch.logsumexp(2 * (log_each + values), dim=(0, 1)) / 2 + out
    return float(total) / math.log(10)
