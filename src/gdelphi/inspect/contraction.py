"""Part 1: how much attention layers can expand, and how much they do."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from gdelphi.inspect.bounds import (
    kernel_parts,
    masked_bound,
    mean_field_bound,
    points_bound,
    points_bound_w1,
)
from gdelphi.inspect.expansion import (
    PointMap,
    conditional_wasserstein,
    expansion,
    local_constant,
    slope,
    vector_expansion,
)
from gdelphi.inspect.layers import (
    AttentionLayer,
    decoder_layers,
    encoder_bound,
    encoder_local_bound,
    other_attention,
    transport_blocks,
    transport_layers,
)
from gdelphi.inspect.recorder import Recorder
from gdelphi.inspect.result import (
    Chart,
    NotApplicable,
    PartResult,
    ResultTable,
    power_of_ten,
    series,
    short,
)
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.network import Block, DayEncoder
from gdelphi.model.transport import TransportBlock

PART: Final = 1
SIZES: Final = (8, 16, 32, 64, 128, 256, 512)
CLOUDS: Final = 4
CLOUD_POINTS: Final = 96
SEQUENCES: Final = 2
SMALL: Final = 1e-2  # length of steps, against that of the points
ASCENT: Final = 15  # steps of gradient ascent over clouds
STEEP: Final = 50.0  # a layer that is found to expand more than this is flagged


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


# --- layers ---------------------------------------------------------------------------------------


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


def block_inputs(block: TransportBlock, points: Tensor) -> Tensor:
    """What the attention of a transport block is given for points of the sphere, [n, width]."""
    with torch.no_grad():
        inputs: Tensor = block.norm(block.enter(points))
    return inputs


# --- the part -------------------------------------------------------------------------------------


def inspect_contraction(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Bounds of all attention layers, and the largest expansions that a search finds."""
    model, generator = subject.model, subject.generator(PART)
    kind = other_attention(model)
    if kind is not None:
        raise NotApplicable(f"bounds are of softmax attention, and this model's is {kind}")
    decoders, transports = decoder_layers(model), transport_layers(model)
    steps = 2 + len(decoders) + len(transports)
    clouds = [
        (torch.from_numpy(cloud.points).float(), torch.from_numpy(cloud.weights).float())
        for cloud in subject.clouds(CLOUDS, CLOUD_POINTS)
    ]
    local = max(encoder_local_bound(model.day_encoder, *cloud) for cloud in clouds)
    findings = [inspect_encoder(model.day_encoder, clouds, generator)]
    on_step(1, steps)
    for layer, inputs in zip(decoders, decoder_inputs(subject), strict=True):
        findings.append(inspect_masked(layer, inputs, generator))
        on_step(len(findings), steps)
    blocks = transport_blocks(model)
    for layer, block in zip(transports, blocks, strict=True):
        findings.append(
            inspect_layer(layer, [block_inputs(block, points) for points, _ in clouds], generator)
        )
        on_step(len(findings), steps)
    charts, exponents = [], (float("nan"), float("nan"))
    if transports:
        points = block_inputs(blocks[0], subject.pooled_cloud(max(SIZES)))
        sizes = [size for size in SIZES if size <= len(points)]
        real, adversarial = growth(transports[0], points, sizes, generator)
        exponents = slope(sizes, real), slope(sizes, adversarial)
        charts.append(_growth_chart(transports[0], sizes, real, adversarial))
    charts.append(_bounds_chart(findings))
    on_step(steps, steps)
    return _result(findings, [*decoders, *transports], charts, exponents, local)


def decoder_inputs(subject: Subject) -> list[list[Tensor]]:
    """What the attention of each decoder block is given for sequences of the store, each [day,
    token, width]; outer list by block."""
    model, past = subject.model, subject.batch(SEQUENCES).past
    norms = [block.before for block in model.decoder.blocks if isinstance(block, Block)]
    with torch.no_grad(), Recorder(norms) as recorder:
        model.decoder(model.encode(past), past)
    return [
        [one.view(past.days, -1, one.shape[1]) for one in calls[0].made] for calls in recorder.calls
    ]


def _growth_chart(
    layer: AttentionLayer, sizes: list[int], real: list[float], adversarial: list[float]
) -> Chart:
    bound = [10 ** points_bound(layer.norms, size) for size in sizes]
    fourth = [real[0] * (size / sizes[0]) ** 0.25 for size in sizes]
    root = [adversarial[0] * (size / sizes[0]) ** 0.5 for size in sizes]
    return Chart(
        f"Local constant of {layer.name}",
        "points n",
        "largest expansion",
        (
            series("phrases of the store", sizes, real),
            series("adversarial cloud", sizes, adversarial),
            series("n^(1/4), from the first", sizes, fourth, "guide"),
            series("√n, from the first", sizes, root, "guide"),
            series("bound for n points", sizes, bound, "guide"),
        ),
        log_x=True,
        log_y=True,
    )


def _exponents(values: list[float]) -> list[float]:
    return [float(np.log10(max(value, 1e-6))) for value in values]


def _bounds_chart(findings: list[LayerFindings]) -> Chart:
    places = list(range(1, len(findings) + 1))
    return Chart(
        "Found and bound",
        "layer, in the order of the table",
        "log10 of the expansion",
        (
            series("found, random", places, _exponents([f.random for f in findings]), "dots"),
            series("found, by ascent", places, _exponents([f.ascended for f in findings]), "dots"),
            series("least bound", places, [f.bound for f in findings], "dots"),
        ),
    )  # fmt: skip


def _result(
    findings: list[LayerFindings],
    layers: list[AttentionLayer],
    charts: list[Chart],
    exponents: tuple[float, float],
    local: float,
) -> PartResult:
    worst = max(findings, key=lambda one: one.found)
    broken = [one.name for one in findings if one.broken]
    verdict = f"the largest expansion found is {short(worst.found)}, in the {worst.name}"
    if broken:
        verdict = f"above its bound, which is an error of the program: {', '.join(broken)}"
    elif worst.found > STEEP:
        verdict += ": small errors of its inputs become large"
    else:
        verdict += ": no layer makes much of small errors"
    rows = [
        (
            one.name, short(one.random), short(one.ascended), short(one.w1),
            power_of_ten(one.mean_field), "–" if one.points is None else power_of_ten(one.points),
        )
        for one in findings
    ]  # fmt: skip
    parts = []
    for layer in layers:
        head = max(layer.norms, key=lambda one: kernel_parts(one).product)
        kernel = kernel_parts(head)
        parts.append(
            (
                layer.name, short(head.radius), short(head.logit), "1",
                power_of_ten(kernel.potential), power_of_ten(kernel.lookup),
                power_of_ten(kernel.product),
            )
        )  # fmt: skip
    words = (
        "A Lipschitz constant says how much larger an error can become in a layer. Bounds follow "
        "from the weights alone and hold for every cloud; they are far above what the store's days "
        "show, and the more so behind a layer norm, where points are long "
        f"(the encoder's bound for these very clouds is {short(local)}). What a search finds is "
        "a lower bound: random steps, and steps and clouds found by gradient ascent. "
    )
    if exponents[0] == exponents[0]:
        words += (
            f"With n phrases of the store the constant of the first transport block goes like "
            f"n^{exponents[0]:.2f}, on adversarial clouds like n^{exponents[1]:.2f}; published are "
            "about n^(1/4) on real text and n^(1/2) at worst. As a map on measures it is bounded "
            "whatever n is."
        )
    return PartResult(
        verdict,
        words,
        tuple(charts),
        (
            ResultTable(
                "Largest expansions found, and bounds",
                ("layer", "W2, random", "W2, ascent", "W1", "mean-field bound", "n-point bound"),
                tuple(rows),
            ),
            ResultTable(
                "W1 contraction of the attention kernel, by its parts (steepest head)",
                ("layer", "R", "|A|", "projection", "potential", "lookup", "product"),
                tuple(parts),
            ),
        ),
        (
            *((f"{one.name}: found", one.found) for one in findings),
            *((f"{one.name}: log10 of the bound", one.bound) for one in findings),
            ("exponent on real points", exponents[0]),
            ("exponent on adversarial points", exponents[1]),
        ),
        alarm=bool(broken) or worst.found > STEEP,
    )
