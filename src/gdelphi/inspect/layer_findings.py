"""What a search finds of attention layers, beside their bounds: the largest expansions, and how
they grow with the number of points."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.inspect.bounds import masked_bound, mean_field_bound, points_bound, points_bound_w1
from gdelphi.inspect.expansion import (
    PointMap,
    conditional_wasserstein,
    expansion,
    local_constant,
    vector_expansion,
)
from gdelphi.inspect.layers import AttentionLayer, encoder_bound
from gdelphi.model.network import DayEncoder

SMALL: Final = 1e-2  # length of steps, against that of the points
ASCENT: Final = 15  # steps of gradient ascent over clouds


@dataclass(frozen=True)
class LayerFindings:
    """What is known of a layer: bounds as powers of ten, found values as they are."""

    name: str
    mean_field: float
    """in W2, or in conditional W2 for a causal layer"""
    points: float | None
    """n points; None for a map to vectors"""
    random: float
    """largest W2 expansion of random steps"""
    ascended: float
    """of steps found by ascent"""
    w1: float
    """largest W1 expansion of any of these; NaN: not looked for"""
    w1_bound: float
    """that of W1"""

    @property
    def bound(self) -> float:
        """The least bound of W2."""
        return min(self.mean_field, self.mean_field if self.points is None else self.points)

    @property
    def found(self) -> float:
        """In W2."""
        return max(self.random, self.ascended)

    @property
    def broken(self) -> bool:
        """Whether anything is above its bound, which must not be."""
        room = 1 + 1e-3  # single precision
        return self.found > room * 10**self.bound or self.w1 > room * 10**self.w1_bound


def inspect_encoder(
    encoder: DayEncoder, clouds: list[tuple[Tensor, Tensor]], generator: torch.Generator
) -> LayerFindings:
    """Of clouds (points [n, dimension], weights [n]) on the sphere."""
    random, ascended, w1 = [0.0], [0.0], [0.0]
    for points, weights in clouds:

        def mapped(moved: Tensor, weights: Tensor = weights) -> Tensor:
            return encoder_tokens(encoder, moved, weights)

        worst = ascend_cloud(mapped, points, generator)
        for start in (points, worst):
            found = local_constant(
                mapped, start, weights, generator=generator, out_weights=torch.ones(encoder.queries)
            )
            noise = torch.randn(start.shape, generator=generator)
            for steps, direction in ((random, noise), (ascended, found.direction)):
                other = _nearby(start, direction, 1.0)
                steps.append(vector_expansion(mapped, start, other, weights))
                w1.append(vector_expansion(mapped, start, other, weights, order=1))
    bound = encoder_bound(encoder)
    return LayerFindings("encoder", bound, None, max(random), max(ascended), max(w1), bound)


def encoder_tokens(encoder: DayEncoder, points: Tensor, weights: Tensor) -> Tensor:
    """[q, width]: the encoder written out, so that it can be differentiated twice."""
    everything = torch.cat([points, encoder.nothing.detach()[None].to(points.dtype)])
    mass = torch.cat([weights, weights.new_ones(1)])
    shares = (encoder.folded.detach().to(points.dtype) @ everything.T + mass.log()).softmax(dim=1)
    pooled = (shares @ everything).view(encoder.queries, encoder.heads, -1)
    values = torch.einsum("qhx,hxv->qhv", pooled, encoder.value.detach().to(points.dtype))
    return F.linear(
        values.flatten(1), encoder.out.weight.detach().to(points.dtype),
        encoder.out.bias.detach().to(points.dtype),
    )  # fmt: skip


def ascend_cloud(
    mapped: PointMap,
    points: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """The cloud moved on the sphere, by gradient ascent, to where a random step grows more."""
    moved = points.clone()
    step = torch.randn(points.shape, generator=generator)
    step = step / step.norm()
    for _ in range(ASCENT):
        leaf = moved.clone().requires_grad_()
        change = mapped(leaf + SMALL * step) - mapped(leaf)
        (gradient,) = torch.autograd.grad(change.square().sum().log(), leaf)
        tangent = gradient - (gradient * moved).sum(dim=1, keepdim=True) * moved
        longest = tangent.norm(dim=1).max().clamp(min=1e-12)
        moved = F.normalize(moved + 0.2 * tangent / longest, dim=1)
    return moved.detach()


def _nearby(points: Tensor, direction: Tensor, radius: float) -> Tensor:
    """Points a small step away, as long against them as SMALL says, and in the ball still."""
    moved = points + SMALL * points.norm() * direction / direction.norm()
    inside: Tensor = moved * (radius / moved.norm(dim=1, keepdim=True)).clamp(max=1.0)
    return inside


def inspect_layer(
    layer: AttentionLayer, inputs: list[Tensor], generator: torch.Generator
) -> LayerFindings:
    """Of unmasked self-attention, at inputs [n, width] of even weights."""
    random, ascended, w1 = [0.0], [0.0], [0.0]
    number = max(len(points) for points in inputs)
    for points in inputs:
        even = torch.full((len(points),), 1 / len(points))
        found = local_constant(layer, points, even, generator=generator)
        noise = torch.randn(points.shape, generator=generator)
        for steps, direction in ((random, noise), (ascended, found.direction)):
            other = _nearby(points, direction, layer.radius)
            steps.append(expansion(layer, points, other, even))
            w1.append(expansion(layer, points, other, even, order=1))
    norms = layer.norms
    mean_field = mean_field_bound(norms)
    return LayerFindings(
        layer.name, mean_field, points_bound(norms, number), max(random), max(ascended), max(w1),
        min(mean_field, points_bound_w1(norms, number)),
    )  # fmt: skip


def inspect_masked(
    layer: AttentionLayer, inputs: list[Tensor], generator: torch.Generator
) -> LayerFindings:
    """Of a causal layer, at inputs [day, n, width], in the conditional distance."""
    random, ascended = [0.0], [0.0]
    number = max(points.shape[0] * points.shape[1] for points in inputs)
    for points in inputs:
        days = torch.arange(len(points)).repeat_interleave(points.shape[1])
        flat = points.flatten(0, 1)
        even = torch.full((len(flat),), 1 / len(flat))

        def mapped(moved: Tensor, days: Tensor = days) -> Tensor:
            return layer(moved, days=days)

        found = local_constant(mapped, flat, even, generator=generator)
        noise = torch.randn(flat.shape, generator=generator)
        for steps, direction in ((random, noise), (ascended, found.direction)):
            other = _nearby(flat, direction, layer.radius)
            with torch.no_grad():
                images = [mapped(each).view_as(points) for each in (flat, other)]
            before = conditional_wasserstein(points, other.view_as(points))
            steps.append(conditional_wasserstein(*images) / before if before else 0.0)
    norms = layer.norms
    return LayerFindings(
        layer.name, masked_bound(norms), points_bound(norms, number),
        max(random), max(ascended), float("nan"), float("inf"),
    )  # fmt: skip


# --- growth with the number of points -------------------------------------------------------------


def adversarial_points(layer: AttentionLayer, number: int) -> Tensor:
    """A cloud of a ball whose constant grows as sqrt(n): all points but one look at that one, so
    that a step of it moves all of them. By the singular pair A v = s u of the head that is
    steepest: one point at R u, the others at R v."""
    norms = [head.logit for head in layer.norms]
    left, _, right = torch.linalg.svd(layer.logit[int(np.argmax(norms))].double())
    points: Tensor = layer.radius * right[0].float().expand(number, -1).clone()
    points[0] = layer.radius * left[:, 0].float()
    return points


def growth(
    layer: AttentionLayer, points: Tensor, sizes: list[int], generator: torch.Generator
) -> tuple[list[float], list[float]]:
    """Local constants at the first n of real points and at adversarial ones, for each n."""
    real: list[float] = []
    adversarial: list[float] = []
    for size in sizes:
        even = torch.full((size,), 1 / size)
        for found, cloud in ((real, points[:size]), (adversarial, adversarial_points(layer, size))):
            found.append(local_constant(layer, cloud, even, generator=generator).value)
    return real, adversarial
