"""Sliced W2: exact transport on each direction, and the vectors whose distances it is."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.common.errors import TransportError
from gdelphi.ot.geometry import Measures
from gdelphi.ot.sliced import (
    SlicedSettings,
    sliced_embedding,
    sliced_wasserstein2,
)
from helpers.sphere_cases import DOUBLE, random_measures


def sliced_by_pot(source: Measures, target: Measures, number: int) -> float:
    """One-dimensional exact transport on each of the same directions."""
    import ot
    from gdelphi.ot.sliced import _directions

    directions = _directions(source.points.shape[2], 16, 5).numpy()
    a, b = source.weights[number].numpy(), target.weights[number].numpy()
    x, y = source.points[number].numpy(), target.points[number].numpy()
    squares = [ot.emd2_1d(x @ way, y @ way, a, b, metric="sqeuclidean") for way in directions]
    return float(np.sqrt(np.mean(squares)))


def test_sliced_w2_is_exact_transport_on_each_direction() -> None:
    source, target = random_measures((3, 11, 5)), random_measures((3, 4, 5), seed=1)
    found = sliced_wasserstein2(source, target, SlicedSettings(directions=16, seed=5))
    for k in range(3):
        assert found[k].item() == pytest.approx(sliced_by_pot(source, target, k), rel=1e-9)


def test_the_sliced_embedding_tends_to_the_exact_distance_from_below() -> None:
    source, target = random_measures((3, 11, 5)), random_measures((3, 4, 5), seed=1)
    exact = sliced_wasserstein2(source, target, SlicedSettings(16, seed=5))
    gaps = []
    for levels in (8, 64, 1024):
        settings = SlicedSettings(16, levels, 5)
        first, second = sliced_embedding(source, settings), sliced_embedding(target, settings)
        gap = exact - torch.linalg.vector_norm(first - second, dim=1)
        assert (gap > -1e-12).all()
        gaps.append(float((gap / exact).max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[1] < 0.02 and gaps[2] < 2e-3


def test_the_embedding_of_equal_weights_is_exact() -> None:
    points = random_measures((2, 8, 5)).points
    measures = Measures(points, torch.full((2, 8), 1 / 8, dtype=DOUBLE))
    settings = SlicedSettings(directions=16, levels=16)
    vectors = sliced_embedding(measures, settings)
    one, two = (Measures(*(t[k : k + 1] for t in measures)) for k in (0, 1))
    exact = sliced_wasserstein2(one, two, settings).item()
    assert torch.linalg.vector_norm(vectors[0] - vectors[1]).item() == pytest.approx(exact)


def test_sliced_w2_ignores_padding_and_is_zero_for_equal_measures() -> None:
    source, target = random_measures((3, 11, 5)), random_measures((3, 4, 5), seed=1)
    points = torch.cat([source.points, torch.full((3, 2, 5), 7, dtype=DOUBLE)], 1)
    wide = Measures(points, torch.nn.functional.pad(source.weights, (0, 2)))
    distance = sliced_wasserstein2(source, target)
    assert torch.allclose(distance, sliced_wasserstein2(wide, target), atol=1e-12)
    assert torch.allclose(sliced_embedding(source), sliced_embedding(wide), atol=1e-12)
    points = source.points.clone().requires_grad_()
    nothing = sliced_wasserstein2(Measures(points, source.weights), source)
    assert nothing.abs().max() < 1e-12
    nothing.sum().backward()
    assert points.grad is not None and points.grad.isfinite().all()


@pytest.mark.slow
def test_sliced_gradients_are_finite_differences() -> None:
    source, target = random_measures((2, 6, 4)), random_measures((2, 3, 4), seed=1)

    def value(x: Tensor, p: Tensor) -> Tensor:
        moved = Measures(x, torch.softmax(p, 1))
        exact = sliced_wasserstein2(moved, target, SlicedSettings(8))
        return torch.cat([exact, sliced_embedding(moved, SlicedSettings(4, 8)).flatten()])

    inputs = (source.points.clone().requires_grad_(), source.weights.log().requires_grad_())
    assert torch.autograd.gradcheck(value, inputs, eps=1e-7, atol=1e-5)


def test_slicing_needs_something_to_slice() -> None:
    with pytest.raises(TransportError, match="at least one"):
        SlicedSettings(directions=0)
