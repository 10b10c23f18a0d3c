"""Every kind of attention integrates against a measure; Sinkhorn's would see the future in a causal
layer, and is refused there.

The bounds of Lipschitz constants hold for random weights and clouds, and for far moves.
"""

import math
from typing import get_args

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import AttentionKind, TrainSettings
from gdelphi.model.attention import measure_attention
from gdelphi.model.config import MeasureConfig
from gdelphi.model.data import LATER, settings_of_origin
from gdelphi.model.encoder_lipschitz import encoder_lipschitz, log10_bound
from gdelphi.model.network import Block, DayEncoder, Decoder
from gdelphi.ot.references import exact_wasserstein2
from helpers.sphere_cases import as_numpy, random_measures, unit

KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
DIMENSION, WIDTH, POINTS = 6, 8, 9

pytestmark = pytest.mark.usefixtures("one_thread")


def config(kind: AttentionKind, **given: AttentionKind) -> MeasureConfig:
    return MeasureConfig(
        dimension=DIMENSION, width=WIDTH, heads=2, queries=3, context_days=4, features=5, codes=4,
        lag_days=2, cloud_attention=kind, **given,
    )  # fmt: skip


def encoder(kind: AttentionKind, seed: int = 0) -> DayEncoder:
    torch.manual_seed(seed)
    return DayEncoder(config(kind)).double()


def clouds(seed: int = 0) -> tuple[Tensor, Tensor]:
    measures = random_measures((2, POINTS, DIMENSION), seed)
    return measures.points, measures.weights


def assert_close(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=1e-10)


# --- a measure, whatever the kind -----------------------------------------------------------------


@EACH_KIND
@torch.no_grad()
def test_the_order_of_points_changes_nothing_and_their_weights_do(kind: AttentionKind) -> None:
    read, (points, weights) = encoder(kind), clouds()
    order = torch.arange(POINTS).flip(0)
    assert_close(read(points, weights), read(points[:, order], weights[:, order]))
    assert (read(points, weights) - read(points, weights[:, order])).abs().max() > 1e-3


@EACH_KIND
@torch.no_grad()
def test_a_split_point_changes_nothing(kind: AttentionKind) -> None:
    read, (points, weights) = encoder(kind), clouds()
    twice = torch.cat([points, points[:, :1]], dim=1)
    parts = torch.cat([0.3 * weights[:, :1], weights[:, 1:], 0.7 * weights[:, :1]], dim=1)
    assert_close(read(points, weights), read(twice, parts))
    assert (read(points, weights) - read(twice, parts.softmax(dim=1))).abs().max() > 1e-3


@EACH_KIND
def test_points_without_weight_do_not_exist_in_values_nor_gradients(kind: AttentionKind) -> None:
    read, (points, weights) = encoder(kind), clouds()
    strange = torch.cat([points, 1e3 * torch.ones(2, 4, DIMENSION).double()], dim=1)
    padded = torch.cat([weights, torch.zeros(2, 4).double()], dim=1)
    strange.requires_grad_()
    tokens = read(strange, padded)
    assert_close(tokens, read(points, weights))
    tokens.square().sum().backward()
    assert strange.grad is not None
    assert torch.equal(strange.grad[:, POINTS:], torch.zeros(2, 4, DIMENSION).double())
    assert all(not p.grad.isnan().any() for p in read.parameters() if p.grad is not None)


@EACH_KIND
def test_an_empty_day_is_nothing_alone(kind: AttentionKind) -> None:
    read, (points, weights) = encoder(kind), clouds()
    empty = read(points, torch.zeros_like(weights))
    assert_close(empty[0], empty[1])
    assert not empty.isnan().any()


# --- the kinds ------------------------------------------------------------------------------------


def asked(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    queries, keys, values = (
        torch.randn(2, n, 5, generator=draw).double() for n in (4, POINTS, POINTS)
    )
    weights = torch.rand(2, 1, POINTS, generator=draw).double()
    return queries, keys, values, (weights / weights.sum(dim=2, keepdim=True)).log()


def test_sinkhorn_with_one_round_is_softmax_and_with_many_shares_the_points() -> None:
    queries, keys, _, log_weights = asked()
    each = torch.eye(POINTS).double().expand(2, -1, -1)  # as values: what is heard is the density
    softmax = measure_attention(queries, keys, each, log_weights)
    assert_close(
        measure_attention(queries, keys, each, log_weights, kind="sinkhorn", rounds=1), softmax
    )
    assert (softmax.mean(dim=1) - log_weights[:, 0].exp()).abs().max() > 0.01
    shared = measure_attention(queries, keys, each, log_weights, kind="sinkhorn", rounds=500)
    assert_close(shared.sum(dim=2), torch.ones(2, 4).double())
    assert_close(shared.mean(dim=1), log_weights[:, 0].exp())


def test_l2_is_softmax_where_all_keys_are_of_one_length() -> None:
    queries, keys, values, log_weights = asked()
    even = unit(keys)
    softmax = measure_attention(queries, even, values, log_weights)
    assert_close(measure_attention(queries, even, values, log_weights, kind="l2"), softmax)
    far = measure_attention(queries, keys, values, log_weights, kind="l2")
    assert (far - measure_attention(queries, keys, values, log_weights)).abs().max() > 1e-3


def test_sigmoid_hears_each_point_by_itself() -> None:
    queries, keys, values, log_weights = asked()
    one, two = (log_weights.clone() for _ in range(2))
    one[..., :4], two[..., 4:] = -math.inf, -math.inf
    parts = [measure_attention(queries, keys, values, w, kind="sigmoid") for w in (one, two)]
    assert_close(parts[0] + parts[1], measure_attention(queries, keys, values, log_weights,
                                                        kind="sigmoid"))  # fmt: skip


# --- causal layers --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["softmax", "l2", "sigmoid"])
@torch.no_grad()
def test_a_causal_block_of_every_allowed_kind_sees_nothing_later(kind: AttentionKind) -> None:
    torch.manual_seed(0)
    sizes = config("softmax", decoder_attention=kind)
    block, mask = Block(sizes).eval(), Decoder(sizes)._mask(4, 2)
    tokens = torch.randn(2, 8, WIDTH)
    changed = torch.cat([tokens[:, :4], torch.randn(2, 4, WIDTH)], dim=1)
    before, after = block(tokens, mask), block(changed, mask)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


def test_sinkhorn_leaks_what_comes_later_so_it_is_refused_in_causal_layers() -> None:
    """If the mask is laid over the density of Sinkhorn's kind, an earlier query still depends on
    later ones, by their share of the points."""
    queries, keys, values, log_weights = asked()
    changed = torch.cat([queries[:, :2], queries[:, 2:].flip(2)], dim=1)
    first = [
        measure_attention(each, keys, values, log_weights, kind="sinkhorn")[:, :2]
        for each in (queries, changed)
    ]
    assert (first[0] - first[1]).abs().max() > 1e-3
    mask = torch.zeros(4, POINTS).double()
    with pytest.raises(TrainingError, match="leak the future"):
        measure_attention(queries, keys, values, mask, kind="sinkhorn")
    with pytest.raises(TrainingError, match="leak the future"):
        config("softmax", decoder_attention="sinkhorn")
    with pytest.raises(ValidationError, match="leak the future"):
        TrainSettings(decoder_attention="sinkhorn")


def test_settings_that_came_later_are_part_of_an_origin_only_if_they_are_set() -> None:
    """So that runs and models of before are known again."""
    assert not set(LATER) & set(settings_of_origin(TrainSettings()))
    given = settings_of_origin(TrainSettings(cloud_attention="l2", transport="flow"))
    assert set(LATER) & set(given) == {"cloud_attention", "transport"}
    assert MeasureConfig.from_dict({"width": 8}).cloud_attention == "softmax"


# --- Lipschitz constants --------------------------------------------------------------------------


@EACH_KIND
@pytest.mark.parametrize("seed", [0, 1])
def test_measured_constants_are_below_the_bound_and_in_order(
    kind: AttentionKind, seed: int
) -> None:
    read, (points, weights) = encoder(kind, seed), clouds(seed)
    found = encoder_lipschitz(read, points[0], weights[0])
    assert 0 < found.w2 <= found.w1 * (1 + 1e-9)
    assert math.log10(found.w1) < found.log10_bound == log10_bound(read)


@EACH_KIND
def test_small_moves_meet_the_measured_constant_and_far_ones_the_bound(kind: AttentionKind) -> None:
    read = encoder(kind)
    measures = random_measures((2, POINTS, DIMENSION))
    found = encoder_lipschitz(read, measures.points[0], measures.weights[0])
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        tokens = read(*measures)
        step = 1e-5 * torch.randn(POINTS, DIMENSION, generator=draw).double()
        moved = unit(measures.points[0] + step)
        near = (moved - measures.points[0]).square().sum(dim=1)
        w2 = (measures.weights[0] * near).sum().sqrt()
        gone = (read(moved[None], measures.weights[:1])[0] - tokens[0]).norm()
    assert gone <= found.w2 * w2 * (1 + 1e-3)
    distance = exact_wasserstein2(as_numpy(measures, 0), as_numpy(measures, 1))
    assert math.log10(float((tokens[0] - tokens[1]).norm()) / distance) < found.log10_bound
