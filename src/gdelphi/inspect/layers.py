"""The attention layers of a measure transformer, taken out of it with their weights.

    encoder           learned queries integrate against a day's cloud, on the unit sphere
    decoder blocks    causal self-attention among the tokens of days, behind a layer norm
    transport blocks  self-attention among the atoms of a future, behind a layer norm

What a layer maps is what stands behind its norm, whose output lies in a ball: |g z + b| <=
max|g| sqrt(width) + |b|. Not among them are the attention over past days, which is a probability
and maps no points, and the measure decoder, whose blocks follow transport plans.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from gdelphi.inspect.bounds import HeadNorms, query_bound
from gdelphi.model.network import Block, DayEncoder, MeasureModel
from gdelphi.model.transport import TransportBlock

LayerKind = Literal["decoder", "transport"]


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """Self-attention as a map of points [n, width] of a ball."""

    name: str
    kind: LayerKind
    logit: Tensor
    """A, [head, width, width]: point i asks point j by <A x_i, x_j>"""
    value: Tensor
    """V with the output projection, [head, width, width]"""
    radius: float
    distance: Tensor | None = None
    """additive biases by days behind, [head, day]; None: nothing is masked"""

    @cached_property
    def norms(self) -> list[HeadNorms]:
        """What the bounds are made of, head by head."""
        biases = torch.zeros(len(self.logit)) if self.distance is None else _spread(self.distance)
        return [
            HeadNorms(_norm(value), _norm(logit), self.radius, float(bias))
            for value, logit, bias in zip(self.value, self.logit, biases, strict=True)
        ]

    def __call__(
        self, points: Tensor, log_weights: Tensor | None = None, days: Tensor | None = None
    ) -> Tensor:
        """f [n, width] of points [n, width] with ln weights [n]; `days` [n] are theirs, where the
        layer is causal."""
        asked = torch.einsum("hij,nj->hni", self.logit.to(points.dtype), points)
        logits = asked @ points.T
        if log_weights is not None:
            logits = logits + log_weights
        if self.distance is not None and days is not None:
            behind = days[:, None] - days[None, :]
            bias = self.distance[:, behind.clamp(0, self.distance.shape[1] - 1)]
            logits = (logits + bias).masked_fill(behind < 0, -torch.inf)
        mixed = logits.softmax(dim=2) @ points
        moved: Tensor = torch.einsum("hij,hnj->ni", self.value.to(points.dtype), mixed)
        return moved


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.detach().double(), ord=2))


def _spread(biases: Tensor) -> Tensor:
    known = biases.detach()
    return known.amax(dim=1) - known.amin(dim=1)


def ball_radius(norm: nn.LayerNorm) -> float:
    """No output of a layer norm is longer than this."""
    scale, shift = norm.weight.detach(), norm.bias.detach()
    return float(scale.abs().max() * len(scale) ** 0.5 + shift.norm())


def _split(project: Tensor, out: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """A and V of each head from the joint projection [3 width, width] and that of the output."""
    width = project.shape[1]
    query, key, value = project.detach().view(3, heads, width // heads, width)
    logit = key.mT @ query / (width // heads) ** 0.5
    outs = out.detach().view(width, heads, width // heads).transpose(0, 1)
    return logit, outs @ value


def decoder_layer(block: Block, number: int, distance: Tensor) -> AttentionLayer:
    """The attention of a decoder block."""
    logit, value = _split(block.project.weight, block.out.weight, block.heads)
    name = f"decoder block {number}"
    radius = ball_radius(block.before)
    return AttentionLayer(name, "decoder", logit, value, radius, distance.detach())


def transport_layer(block: TransportBlock, number: int) -> AttentionLayer:
    """The self-attention of a transport block."""
    logit, value = _split(block.project.weight, block.mixed.weight, block.heads)
    return AttentionLayer(
        f"transport block {number}", "transport", logit, value, ball_radius(block.norm)
    )


def decoder_layers(model: MeasureModel) -> list[AttentionLayer]:
    """Of all decoder blocks."""
    distance = model.decoder.distance
    blocks = [block for block in model.decoder.blocks if isinstance(block, Block)]
    return [decoder_layer(block, number, distance) for number, block in enumerate(blocks, 1)]


def transport_layers(model: MeasureModel) -> list[AttentionLayer]:
    """Of all transport blocks."""
    return [
        transport_layer(block, number) for number, block in enumerate(transport_blocks(model), 1)
    ]


def transport_blocks(model: MeasureModel) -> list[TransportBlock]:
    """The blocks that move atoms; none where nothing is moved, or not by blocks."""
    blocks = getattr(model.transport, "blocks", ())
    return [block for block in blocks if isinstance(block, TransportBlock)]


def other_attention(model: MeasureModel) -> str | None:
    """The kind of attention of a model, if it is not the softmax that bounds here are of."""
    kinds = [getattr(model.config, f"{part}_attention", "softmax") for part in ("cloud", "decoder")]
    return next((kind for kind in kinds if kind != "softmax"), None)


def encoder_bound(encoder: DayEncoder) -> float:
    """log10 of the W1 constant of all tokens of a day together: over queries the root of the sum
    of squares, over the heads of a query the sum."""
    queries = encoder.folded.detach().double().view(encoder.queries, encoder.heads, -1)
    nothing = encoder.nothing.detach().double()
    values = encoder_values(encoder).double()
    total = torch.zeros((), dtype=torch.float64)
    logs = torch.tensor(
        [
            [
                query_bound(
                    float(query.norm()), _norm(value), float(nothing.norm()),
                    float(query @ nothing),
                )
                for query, value in zip(of_query, values, strict=True)
            ]
            for of_query in queries
        ],
        dtype=torch.float64,
    ) * torch.log(torch.tensor(10.0, dtype=torch.float64))  # fmt: skip
    total = (2 * logs.logsumexp(dim=1)).logsumexp(dim=0) / 2
    return float(total / torch.log(torch.tensor(10.0)))


def encoder_values(encoder: DayEncoder) -> Tensor:
    """What a head's mean is multiplied by, with the output projection: [head, width, dimension]."""
    width = encoder.out.weight.shape[0]
    outs = encoder.out.weight.detach().view(width, encoder.heads, -1).transpose(0, 1)
    return outs @ encoder.value.detach().mT


def encoder_local_bound(encoder: DayEncoder, points: Tensor, weights: Tensor) -> float:
    """The same bound for small changes of one cloud: with the density that its own points have in
    place of the worst, and its own distances from the mean. Not a power of ten."""
    queries = encoder.folded.detach().double().view(encoder.queries, encoder.heads, -1)
    values = encoder_values(encoder).double()
    everything = torch.cat([points, encoder.nothing.detach()[None]]).double()
    mass = torch.cat([weights, weights.new_ones(1)]).double()
    logits = queries @ everything.T + mass.log()
    shares = logits.softmax(dim=2)  # [query, head, n + 1]
    means = shares @ everything
    far = torch.linalg.vector_norm(everything[None, None] - means[:, :, None], dim=3)
    steep = 1 + queries.norm(dim=2)[..., None] * far
    there = mass[:-1] > 0
    density = (shares[..., :-1] / mass[:-1] * steep[..., :-1])[..., there].amax(dim=2)
    norms = torch.linalg.matrix_norm(values, ord=2)
    return float((density * norms).sum(dim=1).square().sum().sqrt())
