"""Depth as time: a flow stays on the sphere and maps measures, and its two gradients agree."""

import math
from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import FlowGradient
from gdelphi.model.config import MeasureConfig
from gdelphi.model.flow import SphereFlow
from gdelphi.model.flow_depth import gradient_costs, random_flow, step_changes
from gdelphi.model.network import MeasureModel
from gdelphi.model.transport import AtomTransport, FlowTransport, Futures
from helpers.sphere_cases import DOUBLE, random_measures, unit

DIMENSION, HIDDEN = 6, 8
EXACT, SINGLE = 1e-10, 1e-5
"""how far the gradients may be apart, relative to their length, in float64 and float32"""

pytestmark = pytest.mark.usefixtures("one_thread")


def flow_of(pieces: int = 1, dtype: torch.dtype = DOUBLE) -> SphereFlow:
    return random_flow(DIMENSION, HIDDEN, pieces, strength=2.0).to(dtype)


def cloud(seed: int = 0) -> tuple[Tensor, Tensor]:
    points, weights = random_measures((1, 9, DIMENSION), seed)
    return points, weights


def assert_close(one: Tensor, two: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=tolerance)


# --- the flow -------------------------------------------------------------------------------------


@torch.no_grad()
def test_points_stay_on_the_sphere_and_an_untrained_flow_leaves_them() -> None:
    points, weights = cloud()
    moved = flow_of().flow(points, weights, steps=5)
    assert_close(moved.norm(dim=2), torch.ones(1, 9, dtype=DOUBLE))
    assert (moved - points).abs().max() > 0.1
    still = SphereFlow(DIMENSION, HIDDEN).double().flow(points, weights, steps=5)
    assert_close(still, points)


@torch.no_grad()
def test_the_flow_is_a_map_of_measures() -> None:
    """Order, splitting and points without weight change nothing; the weights do."""
    flow, (points, weights) = flow_of(), cloud()
    moved = flow.flow(points, weights, steps=4)
    order = torch.arange(9).flip(0)
    assert_close(flow.flow(points[:, order], weights[:, order], steps=4), moved[:, order])
    twice = torch.cat([points, points[:, :1], -points[:, :2]], dim=1)
    parts = torch.cat([0.3 * weights[:, :1], weights[:, 1:], 0.7 * weights[:, :1],
                       torch.zeros(1, 2).double()], dim=1)  # fmt: skip
    assert_close(flow.flow(twice, parts, steps=4)[:, :9], moved)
    assert (flow.flow(points, weights.flip(1), steps=4) - moved).abs().max() > 1e-3


@torch.no_grad()
def test_attention_alone_with_value_one_draws_a_cloud_in_an_open_half_together() -> None:
    """V = B = 1 and no perceptron: the clusters of Geshkovski et al.; V = -1 drives it apart."""
    flow = SphereFlow(DIMENSION, HIDDEN).double()
    points, weights = cloud()
    points = unit(points + 2 * unit(points.mean(dim=1, keepdim=True)))
    spread = {}
    for sign in (1.0, -1.0):
        flow.value.copy_(sign * 8 * torch.eye(DIMENSION, dtype=DOUBLE))
        moved = flow.flow(points, weights, steps=40)[0]
        spread[sign] = float((moved @ moved.T).min())
    before = float((points[0] @ points[0].T).min())
    assert spread[1.0] > 0.99 > before > spread[-1.0]


@torch.no_grad()
def test_one_set_of_parameters_is_pieces_that_share_them() -> None:
    shared, split = flow_of(1), SphereFlow(DIMENSION, HIDDEN, 3).double()
    for one, many in zip(shared.parameters(), split.parameters(), strict=True):
        many.copy_(one.expand_as(many))
    points, weights = cloud()
    assert_close(shared.flow(points, weights, steps=6), split.flow(points, weights, steps=6))
    # Steps are rounded up to a multiple of the pieces.
    assert_close(shared.flow(points, weights, steps=6), split.flow(points, weights, steps=4))


def test_the_splitting_error_falls_as_one_over_the_steps() -> None:
    points, weights = cloud()
    found = step_changes(flow_of(), points[0], weights[0].numpy(), steps=(4, 8, 16, 256))
    assert found[-1].error < 1e-7
    for coarse, fine in pairwise(found[:3]):
        assert 1.7 < coarse.error / fine.error < 2.4
    assert found[-1].moved > 10 * found[2].error


# --- its gradients --------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(DOUBLE, EXACT), (torch.float32, SINGLE)])
def test_adjoint_and_backpropagation_agree(
    pieces: int, dtype: torch.dtype, tolerance: float
) -> None:
    points, weights = cloud()
    rows = gradient_costs(flow_of(pieces, dtype), points[0], weights[0], steps=(8, 16))
    assert all(row.difference < tolerance for row in rows)


def test_the_adjoint_needs_the_same_memory_at_any_depth() -> None:
    points, weights = cloud()
    few, many = gradient_costs(flow_of(), points[0], weights[0], steps=(6, 48))
    assert few.adjoint_bytes == many.adjoint_bytes
    assert many.backpropagation_bytes > 6 * few.backpropagation_bytes
    assert few.adjoint_bytes < few.backpropagation_bytes


def test_steps_that_cannot_be_walked_back_are_refused_and_shown() -> None:
    points, weights = cloud()
    wild = random_flow(DIMENSION, HIDDEN, strength=40.0).double()
    places = wild.flow(points, weights, steps=1)
    assert not places.isnan().any()
    (row,) = gradient_costs(wild, points[0], weights[0], steps=(1,))
    assert math.isnan(row.difference)
    with pytest.raises(TrainingError, match="at least one piece"):
        SphereFlow(DIMENSION, HIDDEN, 0)


# --- as transport ---------------------------------------------------------------------------------


class Drawn(NamedTuple):
    points: Tensor
    weights: Tensor
    spare: Tensor
    context: Tensor
    state: Tensor


def config(transport: str = "flow", gradient: FlowGradient = "backpropagation") -> MeasureConfig:
    return MeasureConfig(
        dimension=DIMENSION, width=HIDDEN, heads=2, transport_layers=2, transport=transport,
        transport_steps=4, transport_gradient=gradient,
    )  # fmt: skip


def drawn_days() -> Drawn:
    """Four futures of two origins; the last atom of each is spare, the second future has none."""
    points, weights = random_measures((4, 5, DIMENSION), dtype=torch.float32)
    weights[1] = 0
    weights[2, 3] = 0
    spare = torch.zeros(4, 5, dtype=torch.bool)
    spare[:, -1] = True
    torch.manual_seed(2)
    return Drawn(points, weights, spare, torch.randn(2, 3, HIDDEN), torch.randn(2, HIDDEN))


def stirred(gradient: FlowGradient = "backpropagation") -> FlowTransport:
    torch.manual_seed(3)
    transport = FlowTransport(config(gradient=gradient))
    transport.flow.load_state_dict(random_flow(DIMENSION, HIDDEN, 2).state_dict())
    return transport


def test_an_untrained_flow_gives_the_futures_of_untrained_blocks() -> None:
    drawn = drawn_days()
    torch.manual_seed(0)
    flow: Futures = FlowTransport(config())(*drawn)
    blocks: Futures = AtomTransport(config("blocks"))(*drawn)
    for one, two in zip(flow, blocks, strict=True):
        assert_close(one, two, 1e-6)


def test_atoms_move_with_state_and_context_and_empty_futures_stay_empty() -> None:
    drawn, transport = drawn_days(), stirred()
    futures: Futures = transport(*drawn)
    assert not any(part.isnan().any() for part in futures)
    assert futures.weights[1].sum() == 0 == futures.gates[1].sum() == futures.weights[2, 3]
    assert_close(futures.weights[[0, 2, 3]].sum(dim=1), torch.ones(3), 1e-6)
    for name in ("context", "state"):
        others = drawn._replace(**{name: getattr(drawn, name).flip(0)})
        assert (transport(*others).points - futures.points).abs().max() > 1e-3


def test_both_gradients_train_a_transport_alike() -> None:
    drawn = drawn_days()
    slopes = []
    ways: tuple[FlowGradient, ...] = ("backpropagation", "adjoint")
    for way in ways:
        transport = stirred(way)
        futures = transport(*drawn)
        (futures.points[..., 0].sum() + (futures.weights * futures.gates).square().sum()).backward()
        slopes.append(torch.cat([p.grad.flatten() for p in transport.parameters()
                                 if p.grad is not None]))  # fmt: skip
    assert slopes[0].norm() > 0.1
    assert (slopes[0] - slopes[1]).norm() < SINGLE * slopes[0].norm()


def test_any_number_of_steps_may_be_set_after_training() -> None:
    drawn, transport = drawn_days(), stirred()
    with torch.no_grad():
        ends = []
        for steps in (4, 64, 128):
            transport.steps = steps
            ends.append(transport(*drawn).points)
    assert (ends[1] - ends[2]).abs().max() < 0.1 * (ends[0] - ends[2]).abs().max()


def test_a_model_has_the_transport_that_its_settings_say() -> None:
    sizes = {"width": HIDDEN, "heads": 2, "cell_width": 8}
    assert isinstance(MeasureModel(MeasureConfig(**sizes)).transport, AtomTransport)
    flow = MeasureModel(MeasureConfig(transport="flow", **sizes))
    assert isinstance(flow.transport, FlowTransport)
    none = MeasureModel(MeasureConfig(transport="flow", transport_layers=0, **sizes))
    assert isinstance(none.transport, AtomTransport)
