"""Measures on the sphere that the tests of transport share."""

import numpy as np
import torch
from torch import Tensor

from gdelphi.common.types import Measure
from gdelphi.ot.geometry import Measures

DOUBLE = torch.float64


def unit(points: Tensor) -> Tensor:
    return torch.nn.functional.normalize(points, dim=-1)


def random_measures(
    shape: tuple[int, int, int], seed: int = 0, dtype: torch.dtype = DOUBLE
) -> Measures:
    generator = torch.Generator().manual_seed(seed)
    points = unit(torch.randn(shape, generator=generator, dtype=DOUBLE))
    weights = torch.softmax(torch.randn(shape[:2], generator=generator, dtype=DOUBLE), dim=1)
    return Measures(points.to(dtype), weights.to(dtype))


def as_numpy(measures: Measures, number: int) -> Measure:
    points = measures.points[number].numpy().astype(np.float32)
    weights = measures.weights[number].double().numpy()
    return Measure(points, weights / weights.sum())


def circle(angles: Tensor) -> Measures:
    """Equal weights at angles [batch, n]."""
    points = torch.stack([angles.cos(), angles.sin()], dim=-1)
    return Measures(points, torch.full_like(angles, 1 / angles.shape[1]))
