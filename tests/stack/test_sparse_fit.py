"""The sparse negative binomial fit: conditions of its minimum, known minima, shapes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.stack.sparse_fit import Cells, fit_nb, fit_shapes, penalties

CELLS, COLUMNS, ROOTS = 400, 12, 3


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Cells]:
    """A matrix with a constant and gamma columns, of which two matter to each root."""
    generator = np.random.default_rng(4)
    matrix = generator.gamma(1.0, 1.0, (CELLS, COLUMNS))
    matrix[:, 0] = 1
    theta = np.zeros((COLUMNS, ROOTS))
    theta[0], theta[3], theta[5, 1] = 0.5, 0.4, 0.8
    scale = generator.uniform(1, 5, (CELLS, ROOTS))
    mean = scale * (matrix @ theta)
    counts = generator.poisson(mean * generator.gamma(3.0, 1 / 3.0, mean.shape))
    drawn = (counts, scale, np.full(mean.shape, 3.0))
    cells = Cells(*(torch.from_numpy(np.asarray(each)).to(dtype) for each in drawn))
    return torch.from_numpy(matrix).to(dtype), cells


def start_of(matrix: Tensor) -> Tensor:
    start = torch.zeros(COLUMNS, ROOTS, dtype=matrix.dtype)
    start[0] = 1
    return start


def penalty_of(matrix: Tensor, cells: Cells, errors: float) -> Tensor:
    each = torch.full((COLUMNS,), errors, dtype=matrix.dtype)
    each[0] = 0
    return penalties(matrix, cells.information(matrix @ start_of(matrix)), each)


@pytest.mark.parametrize("errors", [0.5, 3.0])
def test_the_conditions_of_the_minimum_hold(errors: float) -> None:
    matrix, cells = drawn()
    penalty = penalty_of(matrix, cells, errors)
    theta = fit_nb(matrix, cells, start_of(matrix), penalty, steps=2000, tolerance=1e-12)
    gradient = matrix.T @ cells.slope(matrix @ theta)
    within = 1e-3 * penalty.max()
    assert (theta >= 0).all()
    assert (gradient >= -penalty - within).all()
    used = theta > 0
    assert ((gradient + penalty).abs()[used] < within).all()
    assert used[0].all()
    assert used[3].all()
    assert used[5, 1]


def test_the_penalty_keeps_out_what_does_not_matter() -> None:
    matrix, cells = drawn(torch.float32)
    penalty = penalty_of(matrix, cells, 4.0)
    theta = fit_nb(matrix, cells, start_of(matrix), penalty, steps=400)
    assert sorted(map(tuple, torch.nonzero(theta[1:]).tolist())) == [(2, 0), (2, 1), (2, 2), (4, 1)]


def test_the_slope_is_that_of_the_loss() -> None:
    matrix, cells = drawn()
    multiples = (matrix @ start_of(matrix)).requires_grad_()
    cells.loss(multiples).sum().backward()
    assert multiples.grad is not None
    torch.testing.assert_close(cells.slope(multiples.detach()), multiples.grad)


def test_a_constant_alone_is_the_mean_of_equal_cells() -> None:
    counts = torch.tensor([[2.0], [5.0], [0.0], [9.0]], dtype=torch.float64)
    cells = Cells(counts, torch.full_like(counts, 2.0), torch.full_like(counts, 3.0))
    one = torch.ones(1, 1, dtype=torch.float64)
    theta = fit_nb(torch.ones_like(counts), cells, one, one * 0, steps=500, tolerance=1e-14)
    assert float(theta) == pytest.approx(2.0, rel=1e-5)  # 4 rows a day, twice the scale


def test_penalties_are_in_standard_errors() -> None:
    matrix, cells = drawn()
    information = cells.information(matrix @ start_of(matrix))
    penalty = penalties(matrix, information, torch.full((COLUMNS,), 2.0, dtype=torch.float64))
    weights = information[:, 1]
    column = matrix[:, 4]
    mean = (weights * column).sum() / weights.sum()
    deviation = (weights * (column - mean) ** 2).sum().sqrt()
    assert float(penalty[4, 1]) == pytest.approx(float(2 * deviation))
    assert float(penalty[0, 0]) == pytest.approx(2e-4)  # a constant: as good as none


def test_cells_without_rows_are_no_trouble() -> None:
    matrix, cells = drawn(torch.float32)
    nothing = replace(cells, counts=torch.zeros_like(cells.counts))
    theta = fit_nb(matrix, nothing, start_of(matrix), penalty_of(matrix, nothing, 3.0), steps=400)
    assert torch.isfinite(theta).all()
    assert (theta[1:] == 0).all()


def test_shapes_of_roots_and_streams_are_found() -> None:
    generator = np.random.default_rng(2)
    true = np.array([1.0, 2.0])[:, None] * np.array([0.5, 2.0, 5.0])
    means = generator.uniform(2, 10, (3000, 2, 3))
    counts = generator.poisson(means * generator.standard_gamma(true, means.shape) / true)
    found = fit_shapes(counts.astype(np.float64), means)
    np.testing.assert_allclose(found, true, rtol=0.2)


def test_shapes_without_rows_are_finite() -> None:
    found = fit_shapes(np.zeros((70, 2, 3)), np.full((70, 2, 3), 1e-8))
    assert (np.isfinite(found) & (found > 0)).all()
