"""Part 6: how steady would the reading of clouds be with another kind of attention?"""

import math
from copy import deepcopy
from typing import Final

import torch

from gdelphi.common.sections import AttentionKind
from gdelphi.common.types import Measure
from gdelphi.inspect.result import Chart, PartResult, ResultTable, power_of_ten, series, short
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.encoder_lipschitz import EncoderLipschitz, encoder_lipschitz
from gdelphi.model.network import DayEncoder

CLOUDS: Final = 3
CLOUD_POINTS: Final = 64
SAME_WEIGHTS: Final[tuple[AttentionKind, ...]] = ("softmax", "sinkhorn", "sigmoid")
"""kinds with the same logits, which take each other's weights"""


def inspect_variants(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Constants of the model's own kind of attention, and of others with the same weights."""
    encoder: DayEncoder = subject.model.day_encoder
    own_kind: AttentionKind = subject.model.config.cloud_attention
    kinds = SAME_WEIGHTS if own_kind in SAME_WEIGHTS else (own_kind,)
    clouds = subject.clouds(CLOUDS, CLOUD_POINTS)
    found: dict[AttentionKind, EncoderLipschitz] = {}
    moved = {}
    for number, kind in enumerate(kinds):
        other = of_kind(encoder, kind)
        each = [encoder_lipschitz(other, *map(torch.from_numpy, cloud)) for cloud in clouds]
        found[kind] = max(each, key=lambda one: one.w2)
        moved[kind] = token_change(encoder, other, clouds)
        on_step(number + 1, len(kinds))
    own = found[own_kind]
    steadiest = min(found, key=lambda kind: found[kind].w2)
    verdict = f"Clouds are read by {own_kind}: their tokens move {short(own.w2)} times as far"
    verdict += " as a cloud does (W2)"
    if steadiest != own_kind:
        verdict += f"; by {steadiest} with the same weights {short(found[steadiest].w2)} times"
    return PartResult(
        verdict=verdict,
        words=(
            "A report more, or one that is coded otherwise, moves a cloud a little, and the tokens "
            "that the model reads it by somewhat more. How much more depends on the kind of "
            "attention (train.cloud_attention). The same weights are used with each kind that "
            "takes them, without training again: this says how steady a kind is, not how well it "
            "forecasts. For that, train with each kind and compare validation A and B: python "
            "benchmarks/flows.py attention. The kind l2 has weights of its own."
        ),
        charts=(
            Chart(
                "largest expansion at the clouds, by kind",
                f"kind: {', '.join(f'{place} {kind}' for place, kind in enumerate(kinds, 1))}",
                "times as far",
                (
                    series("W2", range(1, len(kinds) + 1), [found[k].w2 for k in kinds], "dots"),
                    series("W1", range(1, len(kinds) + 1), [found[k].w1 for k in kinds], "dots"),
                ),
                log_y=True,
            ),
        ),
        tables=(
            ResultTable(
                f"expansion at {len(clouds)} clouds of {CLOUD_POINTS} points at most",
                ("kind", "W2", "W1", "bound", "tokens differ by"),
                tuple(
                    (
                        kind, short(found[kind].w2), short(found[kind].w1),
                        power_of_ten(found[kind].log10_bound), short(moved[kind]),
                    )
                    for kind in kinds
                ),
            ),
        ),
        figures=tuple((f"{kind}_w2", found[kind].w2) for kind in kinds),
    )  # fmt: skip


def of_kind(encoder: DayEncoder, kind: AttentionKind) -> DayEncoder:
    """The encoder's weights with another kind of attention."""
    other = deepcopy(encoder)
    other.kind = kind
    return other


def token_change(encoder: DayEncoder, other: DayEncoder, clouds: list[Measure]) -> float:
    """How far the tokens of two encoders lie apart, in lengths of the first one's."""
    apart, length = 0.0, 0.0
    for cloud in clouds:
        points = torch.from_numpy(cloud.points).float()[None]
        weights = torch.from_numpy(cloud.weights).float()[None]
        with torch.no_grad():
            one, two = encoder(points, weights), other(points, weights)
        apart += float((one - two).square().sum())
        length += float(one.square().sum())
    return math.sqrt(apart / length)
