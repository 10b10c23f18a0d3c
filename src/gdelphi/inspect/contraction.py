"""Part 1: how much attention layers can expand, and how much they do."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.inspect.bounds import kernel_parts, points_bound
from gdelphi.inspect.expansion import slope
from gdelphi.inspect.layer_findings import (
    LayerFindings,
    growth,
    inspect_encoder,
    inspect_layer,
    inspect_masked,
)
from gdelphi.inspect.layers import (
    AttentionLayer,
    decoder_layers,
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
from gdelphi.model.network import Block
from gdelphi.model.transport import TransportBlock

PART: Final = 1
SIZES: Final = (8, 16, 32, 64, 128, 256, 512)
CLOUDS: Final = 4
CLOUD_POINTS: Final = 96
SEQUENCES: Final = 2
STEEP: Final = 2.0  # a layer that makes more than this of an error by chance is flagged


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


def block_inputs(block: TransportBlock, points: Tensor) -> Tensor:
    """What the attention of a transport block is given for points of the sphere, [n, width]."""
    with torch.no_grad():
        inputs: Tensor = block.norm(block.enter(points))
    return inputs


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
    by_chance = max(one.random for one in findings)
    verdict = (
        f"errors by chance {'grow' if by_chance > 1 else 'shrink'} (to {short(by_chance)} at "
        f"most), errors aimed at a layer grow {short(worst.found)} times, in the {worst.name}"
    )
    if broken:
        verdict = f"above its bound, which is an error of the program: {', '.join(broken)}"
    return PartResult(
        verdict,
        _words(exponents, local),
        tuple(charts),
        (_findings_table(findings), _kernel_table(layers)),
        (
            *((f"{one.name}: found", one.found) for one in findings),
            *((f"{one.name}: log10 of the bound", one.bound) for one in findings),
            ("exponent on real points", exponents[0]),
            ("exponent on adversarial points", exponents[1]),
        ),
        alarm=bool(broken) or by_chance > STEEP,
    )


def _words(exponents: tuple[float, float], local: float) -> str:
    words = (
        "A Lipschitz constant says how much larger an error can become in a layer. Bounds follow "
        "from the weights alone and hold for every cloud; they are far above what the store's days "
        "show, and the more so behind a layer norm, where points are long "
        f"(the encoder's bound for these very clouds is {short(local)}). What a search finds is "
        "a lower bound: random steps, and steps and clouds found by gradient ascent. "
    )
    if np.isnan(exponents[0]):
        return words + (
            "The growth with the number of points is shown for blocks that move atoms, and this "
            "model has none (train.transport_layers = 0, or train.transport = flow)."
        )
    return words + (
        f"With n phrases of the store the constant of the first transport block goes like "
        f"n^{exponents[0]:.2f}, on adversarial clouds like n^{exponents[1]:.2f}; published are "
        "about n^(1/4) on real text and n^(1/2) at worst. As a map on measures it is bounded "
        "whatever n is."
    )


def _findings_table(findings: list[LayerFindings]) -> ResultTable:
    rows = [
        (
            one.name, short(one.random), short(one.ascended), short(one.w1),
            power_of_ten(one.mean_field), "–" if one.points is None else power_of_ten(one.points),
        )
        for one in findings
    ]  # fmt: skip
    return ResultTable(
        "Largest expansions found, and bounds",
        ("layer", "W2, random", "W2, ascent", "W1", "mean-field bound", "n-point bound"),
        tuple(rows),
    )


def _kernel_table(layers: list[AttentionLayer]) -> ResultTable:
    rows = []
    for layer in layers:
        head = max(layer.norms, key=lambda one: kernel_parts(one).product)
        kernel = kernel_parts(head)
        powers = (kernel.projection, kernel.potential, kernel.lookup, kernel.product)
        numbers = (short(head.radius), short(head.logit), *map(power_of_ten, powers))
        rows.append((layer.name, *numbers))
    return ResultTable(
        "W1 contraction of the attention kernel, by its parts (steepest head)",
        ("layer", "R", "|A|", "projection", "potential", "lookup", "product"),
        tuple(rows),
    )
