"""Part 5: what the layers know of their input and of the day to come."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import FloatArray, IntArray
from gdelphi.inspect.checkpoints import Checkpoints, checkpoints
from gdelphi.inspect.entropy import entropy, gaussian_gram, joint, mutual_information
from gdelphi.inspect.recorder import Recorder
from gdelphi.inspect.result import (
    Chart,
    NotApplicable,
    PartResult,
    ResultTable,
    series,
)
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.inspect.tangent_kernel import TangentKernel, tangent_kernel
from gdelphi.model.batches import BatchMaker
from gdelphi.model.network import MeasureModel

PART: Final = 5
SAMPLES: Final = 128
KERNEL_SEQUENCES: Final = 24
FEWEST: Final = 16
AT_ONCE: Final = 6
SLACK: Final = 0.02  # bits: an increase that is not spoken of
LEADING: Final = 0.1  # share of the eigenvectors that count as leading

IDLE: Final = (
    " The head itself has not been trained: stack and cell network give the direct reading of this "
    "model, so its logits are those of the profiles, and the kernel is that of a head at its start."
)

FEW_STEPS: Final = 3

Activations = dict[str, FloatArray]
"""layer -> [sample, number]"""


@dataclass(frozen=True)
class LayerInformation:
    """Of one layer and one order, in bits."""

    name: str
    entropy: float
    with_input: float
    with_target: float
    together: float
    """of all layers up to this one, with the target"""


Along = dict[int, dict[float, list[LayerInformation]]]
"""step of training -> order -> layers"""


def activations(
    model: MeasureModel, maker: BatchMaker, windows: tuple[IntArray, IntArray]
) -> tuple[FloatArray, Activations, FloatArray]:
    """Input, layers in their order, and outcomes of the last day of each sequence."""
    blocks = list(model.decoder.blocks)
    names = ["encoder", *(f"decoder block {number}" for number in range(1, len(blocks) + 1))]
    kinds = ("input", *names, "state", "direct", "came")
    parts: dict[str, list[Tensor]] = {kind: [] for kind in kinds}
    streams, ends = windows
    for some in np.array_split(np.arange(len(ends)), -(-len(ends) // AT_ONCE)):
        batch = maker.make(streams[some], ends[some])
        past = batch.past
        with torch.no_grad(), Recorder(blocks) as recorder:
            clouds = model.encode(past)
            output = model(past, clouds=clouds, last=True)
        mean = torch.einsum("bn,bnx->bx", past.weights[:, -1], past.points[:, -1])
        parts["input"].append(torch.cat([mean, past.features[:, -1]], dim=1))
        parts["encoder"].append(clouds[:, -1].flatten(1))
        for name, calls in zip(names[1:], recorder.calls, strict=True):
            made = calls[0].made.unflatten(1, (past.days, -1))
            parts[name].append(made[:, -1].flatten(1))
        parts["state"].append(output.states[:, -1])
        parts["direct"].append(output.direct[:, -1].nan_to_num(0.0).flatten(1))
        parts["came"].append(batch.outcomes[:, -1].nan_to_num(0.0).flatten(1))
    whole = {name: torch.cat(values).double().numpy() for name, values in parts.items()}
    given, came = whole.pop("input"), whole.pop("came")
    deviation = given.std(axis=0)
    given = (given - given.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return given, whole, came


def layer_information(
    given: FloatArray, layers: Activations, came: FloatArray, order: float
) -> list[LayerInformation]:
    """Of all layers for one order."""
    first, last = gaussian_gram(given), gaussian_gram(came)
    found, so_far = [], None
    for name, values in layers.items():
        gram = gaussian_gram(values)
        so_far = gram if so_far is None else joint(so_far, gram)
        found.append(
            LayerInformation(
                name,
                entropy(gram, order),
                mutual_information(first, gram, order),
                mutual_information(gram, last, order),
                mutual_information(so_far, last, order),
            )
        )
    return found


def inspect_information(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Entropies and informations of the layers, the information plane, and the tangent kernel."""
    windows = subject.windows(SAMPLES)
    if len(windows[0]) < FEWEST:
        raise NotApplicable(
            f"validation A and B have {len(windows[0])} days of streams: entropies of fewer than "
            f"{FEWEST} samples say nothing"
        )
    known = checkpoints(subject)
    total = len(known.models) + 1
    found: Along = {}
    for done, (step, model) in enumerate(known.models.items(), 1):
        given, layers, came = activations(model, subject.maker, windows)
        found[step] = {
            order: layer_information(given, layers, came, order) for order in subject.orders
        }
        on_step(done, total)
    kernel = tangent_kernel(
        subject.model, subject.maker, subject.windows(KERNEL_SEQUENCES), subject.random(PART)
    )
    on_step(total, total)
    return _result(found, known, subject, kernel, len(windows[0]))


def _result(
    found: Along, known: Checkpoints, subject: Subject, kernel: TangentKernel, samples: int
) -> PartResult:
    orders, order = subject.orders, subject.orders[-1]
    kept, untrained = found[known.kept][order], found[0][order]
    lost = min(kept, key=lambda one: one.with_target)
    gained = kept[-1].with_target - untrained[-1].with_target
    along = kernel.alignment()
    leading = max(1, round(LEADING * len(along)))
    aligned = float(along[leading - 1]) if len(along) else float("nan")
    verdict = (
        f"the direct logits share {kept[-1].with_target:.2f} bits with the day to come "
        f"({gained:+.2f} by training); least is shared by the {lost.name}, {lost.with_target:.2f}"
    )
    rows = [
        (
            one.name, *(f"{found[known.kept][each][place].entropy:.2f}" for each in orders),
            f"{one.with_input:.2f}", f"{one.with_target:.2f}", f"{one.together:.2f}",
            f"{untrained[place].with_target:.2f}",
        )
        for place, one in enumerate(kept)
    ]  # fmt: skip
    columns = (
        "layer", *(f"S, order {each:g}" for each in orders), "with input", "with target",
        "together", "with target, untrained",
    )  # fmt: skip
    return PartResult(
        verdict,
        _words(kept, orders, samples, aligned)
        + _words_along(known)
        + (IDLE if subject.idle_head else ""),
        (
            *_layer_charts(found[known.kept], orders),
            *_plane_charts(found, order),
            *_kernel_charts(along),
        ),
        (ResultTable(f"Bits, of at most {np.log2(samples):.1f}", columns, tuple(rows)),),
        (
            *((f"{one.name}: with target", one.with_target) for one in kept),
            ("residual in the leading directions", aligned),
            ("effective rank of the tangent kernel", kernel.effective_rank()),
        ),
    )


def _words(
    kept: list[LayerInformation], orders: tuple[float, ...], samples: int, aligned: float
) -> str:
    path = [one for one in kept if one.name != "direct"]
    grows = [b.name for a, b in pairwise(path) if b.with_input > a.with_input + SLACK]
    words = (
        f"Entropies of {samples} sequences before days of validation, of order "
        f"{' and '.join(f'{each:g}' for each in orders)}; the kernel has fallen to 1/e at the "
        "median distance between samples, so figures compare within one order only. Along the "
        "layers information about the input can only be lost; "
    )
    if grows:
        words += (
            f"where the estimate rises ({', '.join(grows)}) the layer reads more than the last "
            "day, which is all that is called input here, or spreads samples further apart. "
        )
    else:
        words += "so it is here. "
    if np.isnan(aligned):
        return words
    return words + (
        f"The first {LEADING:.0%} of the directions in which the direct head learns fastest carry "
        f"{aligned:.0%} of what is left to learn beyond the past days' rates; directions at random "
        f"would carry {LEADING:.0%}."
    )


def _words_along(known: Checkpoints) -> str:
    steps = [f"{step:,}" for step in known.models]
    words = (
        " The plane shows the way of each layer through training, by what it shares with input "
        f"and target after {', '.join(steps[:-1])} and {steps[-1]} steps; "
        f"step {known.kept:,} is the model's."
        if len(steps) > 1
        else " The weights are untrained, and no other step is there: each layer is one point of "
        "the plane."
    )
    if known.drawn:
        words += " Step 0 is drawn anew: the folder does not have its own."
    if len(steps) <= FEW_STEPS:
        words += (
            " The folder of a training has more of them (train.keep_checkpoints); a model in use "
            "is a copy without."
        )
    if known.unreadable:
        words += f" Not to be read, and left out: {', '.join(known.unreadable)}."
    return words


def _layer_charts(
    kept: dict[float, list[LayerInformation]], orders: tuple[float, ...]
) -> tuple[Chart, ...]:
    order, x_label = orders[-1], "layer, in the order of the table"
    places = list(range(1, len(kept[order]) + 1))
    entropies = tuple(
        series(f"order {each:g}", places, [one.entropy for one in kept[each]]) for each in orders
    )
    shared = (
        series("with the input", places, [one.with_input for one in kept[order]]),
        series("with the target", places, [one.with_target for one in kept[order]]),
        series("all layers so far, with the target", places, [one.together for one in kept[order]]),
    )
    return (
        Chart("Entropy of the layers", x_label, "bits", entropies),
        Chart(f"Shared information, order {order:g}", x_label, "bits", shared),
    )


def _plane_charts(found: Along, order: float) -> tuple[Chart, ...]:
    """The information plane over the steps of training, and what is shared with the target."""
    steps = list(found)
    by_layer = list(zip(*(found[step][order] for step in steps), strict=True))
    plane = tuple(
        series(along[0].name, [one.with_input for one in along], [one.with_target for one in along])
        for along in by_layer
    )
    risen = tuple(
        series(along[0].name, steps, [one.with_target for one in along]) for along in by_layer
    )
    shared = "bits shared with the target"
    return (
        Chart(
            f"Information plane over training, order {order:g}", "bits shared with the input",
            shared, plane,
        ),
        Chart(f"With the target, step by step, order {order:g}", "step of training", shared, risen),
    )  # fmt: skip


def _kernel_charts(along: FloatArray) -> tuple[Chart, ...]:
    """None where there is no cell."""
    if not len(along):
        return ()
    share = np.arange(1, len(along) + 1) / len(along)
    shown = (
        series("residual of occurs", share.tolist(), along.tolist(), "guide"),
        series("directions at random", [0, 1], [0, 1], "guide"),
    )
    title, x_label = "Tangent kernel of the direct head", "share of its directions, leading first"
    return (Chart(title, x_label, "share of the residual", shown),)
