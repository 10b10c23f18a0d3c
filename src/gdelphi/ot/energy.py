"""Energy scores: how far a weighted ensemble of measures is from the measure that came.

    ES = sum_k p_k D(F_k, Y) - 1/2 sum_kl p_k p_l D(F_k, F_l)

(Gneiting and Raftery 2007; the smaller the better.) It is proper if D is of negative type, as the
sliced W2 distance is, being Euclidean. Sinkhorn's divergence is not: with it a forecaster gains by
misreporting (a test exhibits a case). Its root nearly repairs that, and is what training uses; the
judge uses sliced W2.

Two estimators, for two questions.

plain  The ensemble *is* the forecast: a law on K measures with probabilities p. The formula above.
fair   The ensemble is a sample from the forecast, and the score of that forecast is wanted. Pairs
       k = l have D = 0 and do not belong to E D(F, F'), so the second sum runs over k != l and is
       divided by the weight of such pairs,

           sum_{k != l} p_k p_l = 1 - sum_k p_k^2,

       for equal weights K (K - 1) / K^2. For members drawn independently of each other and of their
       weights, E[sum_{k != l} p_k p_l D_kl] = (1 - sum_k p_k^2) E D(F, F'): no bias, for any K > 1.
       With importance weights normalised to 1 both terms are ratios of U-statistics: consistent,
       with a bias of order 1/K that comes from the ratio and not from the diagonal.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray, Measure
from gdelphi.ot.entropic import Divergence
from gdelphi.ot.geometry import batch_measures
from gdelphi.ot.sliced import SlicedSettings, sliced_embedding

ROOT_CONSTANT = 1e-4
"""Added under the root of a divergence: the root's slope is infinite at 0."""


def energy_score(to_outcome: Tensor, between: Tensor, *, weights: Tensor, fair: bool) -> Tensor:
    """Energy score from distances; leading dimensions are batches.

    `to_outcome` [..., k], `between` [..., k, k] with its diagonal, `weights` [..., k] summing to 1.
    Differentiable in all three. In the fair form an ensemble with all its weight on one member
    has no pairs, and its score is not-a-number.
    """
    if between.shape != (*to_outcome.shape, to_outcome.shape[-1]):
        raise TransportError(
            f"distances of shapes {tuple(to_outcome.shape)} and {tuple(between.shape)}, "
            "where [..., k] and [..., k, k] are meant"
        )
    pairs = weights[..., :, None] * weights[..., None, :]
    if fair:
        alike = torch.eye(pairs.shape[-1], dtype=torch.bool, device=pairs.device)
        pairs = pairs.masked_fill(alike, 0)
        pairs = pairs / pairs.sum(dim=(-2, -1), keepdim=True)
    within = (pairs * between).sum(dim=(-2, -1))
    return (weights * to_outcome).sum(dim=-1) - within / 2


def root_divergence(divergence: Divergence | Tensor, constant: float = ROOT_CONSTANT) -> Tensor:
    """sqrt(S + constant) - sqrt(constant), the training score's distance; S of any shape.

    Rounding below 0 is cut off. What is subtracted makes a measure's distance from itself 0, as
    both estimators need; otherwise it only shifts the score of every forecast alike.
    """
    value = divergence.value if isinstance(divergence, Divergence) else divergence
    return (value.clamp_min(0) + constant).sqrt() - math.sqrt(constant)


def sliced_energy_score(
    members: Sequence[Measure],
    outcome: Measure,
    *,
    weights: FloatArray,
    settings: SlicedSettings | None = None,
    fair: bool = True,
) -> float:
    """The judge's score of one forecast, in float64: sliced W2 with exponent 1."""
    true = sliced_embedding(batch_measures([outcome]), settings)
    vectors = sliced_embedding(batch_measures(members), settings) - true
    squares = vectors.square().sum(dim=1)
    products = vectors @ vectors.mT  # around the outcome, so that near pairs keep their digits
    between = (squares[:, None] + squares - 2 * products).clamp_min(0).sqrt()
    between.fill_diagonal_(0)
    probabilities = torch.from_numpy(weights)
    return float(energy_score(squares.sqrt(), between, weights=probabilities, fair=fair))
