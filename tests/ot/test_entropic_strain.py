"""Transport under strain: gradients, batches, padding, small epsilon, tiny weights, bad input."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.common.errors import TransportError
from gdelphi.common.types import Measure
from gdelphi.ot import semidual
from gdelphi.ot.entropic import (
    SinkhornSettings,
    self_transport,
    sinkhorn,
    sinkhorn_divergence,
)
from gdelphi.ot.geometry import COSTS, Cost, Measures, batch_measures
from helpers.sphere_cases import DOUBLE, random_measures, unit

pytestmark = pytest.mark.usefixtures("one_thread")


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("sizes", [(9, 4), (4, 9)])
@pytest.mark.parametrize("kind", ["transport", "divergence"])
def test_gradients_are_finite_differences(cost: Cost, sizes: tuple[int, int], kind: str) -> None:
    """Points on the sphere and weights by softmax, as a model gives them."""
    settings = SinkhornSettings(cost=cost, epsilon=0.05, tolerance=1e-11)
    n, m = sizes

    def value(x: Tensor, p: Tensor, y: Tensor, q: Tensor) -> Tensor:
        source = Measures(unit(x), torch.softmax(p, 1))
        target = Measures(unit(y), torch.softmax(q, 1))
        solve = sinkhorn if kind == "transport" else sinkhorn_divergence
        return solve(source, target, settings).value

    generator = torch.Generator().manual_seed(2)
    shapes = [(2, n, 3), (2, n), (2, m, 3), (2, m)]
    inputs = [
        torch.randn(shape, generator=generator, dtype=DOUBLE, requires_grad=True)
        for shape in shapes
    ]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-5, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_the_gradient_of_raw_weights_is_that_of_rescaled_ones() -> None:
    source, target = random_measures((2, 9, 4)), random_measures((2, 4, 4), seed=1)
    settings = SinkhornSettings(tolerance=1e-11)

    def value(p: Tensor, q: Tensor) -> Tensor:
        return sinkhorn_divergence(
            Measures(source.points, p), Measures(target.points, q), settings
        ).value

    weights = (source.weights.clone().requires_grad_(), target.weights.clone().requires_grad_())
    assert torch.autograd.gradcheck(value, weights, eps=1e-6, atol=1e-6)


def test_only_what_asks_for_a_gradient_gets_one() -> None:
    source, target = random_measures((2, 9, 4)), random_measures((2, 4, 4), seed=1)
    points = source.points.clone().requires_grad_()
    value = sinkhorn_divergence(Measures(points, source.weights), target).value
    value.sum().backward()
    assert points.grad is not None and target.points.grad is None
    assert not sinkhorn_divergence(source, target).value.requires_grad


# --- batches and padding --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_batched_equals_looped(dtype: torch.dtype) -> None:
    source = random_measures((5, 33, 6), dtype=dtype)
    target = random_measures((5, 7, 6), seed=1, dtype=dtype)
    settings = SinkhornSettings(epsilon=0.02, tolerance=1e-5)
    batched = sinkhorn_divergence(source, target, settings)
    for k in range(5):
        pair = [Measures(m.points[k : k + 1], m.weights[k : k + 1]) for m in (source, target)]
        alone = sinkhorn_divergence(*pair, settings)
        assert batched.value[k].item() == pytest.approx(alone.value.item(), abs=1e-6)


@pytest.mark.parametrize("newton_side", [0, 128])
@pytest.mark.parametrize("epsilon", [0.05, 0.003])
def test_padding_changes_nothing(
    newton_side: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semidual, "NEWTON_SIDE", newton_side)
    source = random_measures((5, 33, 6), dtype=torch.float32)
    target = random_measures((5, 7, 6), seed=1, dtype=torch.float32)
    settings = SinkhornSettings(epsilon=epsilon, tolerance=1e-5, most_iterations=2000)

    def padded(measures: Measures, extra: int) -> Measures:
        points = torch.cat([measures.points, 9 * torch.ones(5, extra, 6)], 1).requires_grad_()
        weights = torch.nn.functional.pad(measures.weights, (0, extra)).requires_grad_()
        return Measures(points, weights)

    bare = [padded(source, 0), padded(target, 0)]
    wide = [padded(source, 4), padded(target, 3)]
    values = [sinkhorn_divergence(*pair, settings).value for pair in (bare, wide)]
    assert torch.allclose(*values, atol=1e-6)
    for value in values:
        value.sum().backward()
    for narrow, padding in zip(bare, wide, strict=True):
        for one, other in zip(narrow, padding, strict=True):
            assert one.grad is not None and other.grad is not None
            size = one.shape[1]
            assert torch.allclose(one.grad, other.grad[:, :size], atol=1e-4)
            assert not other.grad[:, size:].any()


def test_splitting_a_point_changes_nothing() -> None:
    source, target = random_measures((3, 10, 4)), random_measures((3, 4, 4), seed=1)
    points = torch.cat([source.points, source.points[:, :1]], 1)
    weights = torch.cat([source.weights, source.weights[:, :1] / 2], 1)
    weights[:, 0] /= 2
    settings = SinkhornSettings(tolerance=1e-9)
    whole = sinkhorn_divergence(source, target, settings).value
    split = sinkhorn_divergence(Measures(points, weights), target, settings).value
    assert torch.allclose(whole, split, atol=1e-10)


# --- hard cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("epsilon", [0.05, 1e-3, 1e-4])
@pytest.mark.parametrize("size", [40, 7])
def test_float32_holds_at_small_epsilon_and_with_tiny_weights(
    cost: Cost, epsilon: float, size: int
) -> None:
    exact = random_measures((6, size, 6)), random_measures((6, 7, 6), seed=1)
    for measures in exact:
        measures.weights[:, 0] = 1e-12
        measures.weights[1, 1] = 1e-30
        measures.weights[:] = measures.weights / measures.weights.sum(1, keepdim=True)
    exact[1].points[2, 2] = -exact[0].points[2, 2]
    exact[1].points[3, 3] = exact[0].points[3, 3]
    single = [Measures(*(t.float().requires_grad_() for t in measures)) for measures in exact]
    found = sinkhorn_divergence(*single, SinkhornSettings(cost=cost, epsilon=epsilon))
    assert found.converged.all()
    tight = SinkhornSettings(cost=cost, epsilon=epsilon, tolerance=1e-9)
    wanted = sinkhorn_divergence(*exact, tight)
    assert torch.allclose(found.value.double(), wanted.value, atol=3e-6)
    found.value.sum().backward()
    for measures in single:
        for tensor in measures:
            assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_half_precision_around_it_does_no_harm() -> None:
    source = random_measures((3, 20, 6), dtype=torch.float32)
    target = random_measures((3, 5, 6), seed=1, dtype=torch.float32)
    bare = sinkhorn_divergence(source, target).value
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = sinkhorn_divergence(source, target).value
    assert torch.equal(bare, inside)
    halves = [Measures(*(t.bfloat16().requires_grad_() for t in each)) for each in (source, target)]
    value = sinkhorn_divergence(*halves).value
    assert value.dtype == torch.float32
    assert torch.allclose(value, bare, atol=0.02)
    value.sum().backward()
    assert halves[0].points.grad is not None and halves[0].points.grad.dtype == torch.bfloat16


def test_all_points_in_one_place() -> None:
    point = unit(torch.ones(2, 1, 5)).expand(2, 6, 5)
    here = Measures(point, torch.full((2, 6), 1 / 6))
    for settings in (SinkhornSettings(), SinkhornSettings(relative="mean")):
        found = sinkhorn_divergence(here, here, settings)
        assert found.converged.all()
        assert found.value.abs().max() < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "chord"}, "no cost 'chord'"),
        ({"epsilon": 0.0}, "must be positive"),
        ({"scaling": 1.5}, "at most 1"),
        ({"relative": "median"}, "relative to 'median'"),
        ({"most_iterations": 0}, "0 iterations"),
    ],
)
def test_senseless_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(TransportError, match=message):
        SinkhornSettings(**change)  # type: ignore[arg-type]


def test_what_is_no_measure_is_refused() -> None:
    good = random_measures((2, 5, 4))
    no_mass = Measures(good.points, torch.zeros(2, 5, dtype=DOUBLE))
    unknown = Measures(good.points, good.weights * math.nan)
    with pytest.raises(TransportError, match="source: weights"):
        sinkhorn(no_mass, good)
    with pytest.raises(TransportError, match="target: weights"):
        sinkhorn(good, unknown)
    with pytest.raises(TransportError, match="are meant"):
        sinkhorn(Measures(good.points[0], good.weights), good)
    with pytest.raises(TransportError, match="must agree"):
        sinkhorn(good, random_measures((3, 5, 4)))
    with pytest.raises(TransportError, match="empty measure"):
        batch_measures([Measure(np.zeros((0, 4), np.float32), np.zeros(0))])


def test_self_terms_and_relative_epsilons_do_not_mix() -> None:
    good = random_measures((2, 5, 4))
    relative = SinkhornSettings(relative="mean")
    with pytest.raises(TransportError, match="absolute"):
        self_transport(good, relative)
    with pytest.raises(TransportError, match="absolute"):
        sinkhorn_divergence(good, good, relative, source_self=torch.zeros(2, dtype=DOUBLE))
