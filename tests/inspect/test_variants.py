"""Other kinds of attention with the same weights, and paths of constant speed."""

import numpy as np
import pytest
import torch

from gdelphi.common.types import FloatArray, Measure
from gdelphi.inspect.path import even_speed, quantile
from gdelphi.inspect.variants import of_kind, token_change
from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import DayEncoder
from gdelphi.ot.geodesic import geodesic

pytestmark = pytest.mark.usefixtures("one_thread")


def cloud(number: int, seed: int, dimension: int = 6) -> Measure:
    random = np.random.default_rng(seed)
    points = random.normal(size=(number, dimension)).astype(np.float32)
    weights: FloatArray = random.random(number)
    return Measure(points / np.linalg.norm(points, axis=1, keepdims=True), weights / weights.sum())


@pytest.fixture
def encoder() -> DayEncoder:
    torch.manual_seed(0)
    return DayEncoder(MeasureConfig(dimension=6, width=8, heads=2, queries=3))


def test_the_weights_are_the_same_and_the_kind_is_another(encoder: DayEncoder) -> None:
    clouds = [cloud(12, 1), cloud(5, 2)]
    other = of_kind(encoder, "sigmoid")
    assert (encoder.kind, other.kind) == ("softmax", "sigmoid")
    assert token_change(encoder, of_kind(encoder, "softmax"), clouds) == 0
    assert token_change(encoder, other, clouds) > 0.1
    with torch.no_grad():  # it is a copy
        other.value.zero_()
    assert encoder.value.any()


def test_units_of_mass_go_at_constant_speed() -> None:
    path = geodesic(cloud(20, 1), cloud(4, 2))
    assert even_speed(path) < 1e-6
    assert quantile(path, 0.0) == path.lengths.min()
    assert quantile(path, 1.0) == path.lengths.max()
    assert quantile(path, 0.5) <= quantile(path, 0.9)
