"""Measures that lie upon each other reach their atoms, in a + m N pieces, whatever their points."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows

from gdelphi.common.types import Measure
from gdelphi.inspect import pieces
from gdelphi.inspect.interpolation import (
    Cut,
    InterpolationProblem,
    aim,
    choose_cut,
    draw_problem,
    interpolate,
    interpolations,
    move,
)
from gdelphi.ot.references import exact_wasserstein2

pytestmark = pytest.mark.usefixtures("one_thread")


def problem(
    number: int = 3, points: int = 40, atoms: int = 3, seed: int = 0
) -> InterpolationProblem:
    return draw_problem(number, points, atoms, torch.Generator().manual_seed(seed))


def test_all_measures_overlap_and_all_targets_are_measures() -> None:
    given = problem()
    assert (given.measures > 0).all()
    torch.testing.assert_close(given.middles @ given.middles.T, torch.eye(3).double())
    torch.testing.assert_close(given.atoms.norm(dim=2), torch.ones(3, 3).double())
    assert given.counts.sum(dim=1).tolist() == [40] * 3
    assert given.counts.min() > 0


@pytest.mark.parametrize("number", [1, 2, 5])
def test_pieces_are_those_to_aim_and_one_for_each_atom_whatever_the_points(number: int) -> None:
    for atoms in (1, 4):
        found = [
            one for points in (30, 300) for one in interpolations(number, points, atoms, seeds=2)
        ]
        assert all(one.arrived and one.w2 < 1e-6 for one in found)
        assert {one.cuts for one in found} == {number * atoms}
        assert len({one.pieces for one in found}) == 1


def test_points_that_are_still_on_their_way_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single atom the distance is the exact one; fewer steps leave more of the way."""
    given = problem(number=1, atoms=1)
    start, _ = aim(given.measures, given.middles)
    target = Measure(given.atoms[0].numpy(), np.ones(1))
    distances = [exact_wasserstein2(Measure(start[0].numpy(), np.full(40, 1 / 40)), target)]
    for steps in (0, 4, 16):
        monkeypatch.setattr("gdelphi.inspect.interpolation.CUT_STEPS", steps)
        distances.append(interpolate(given).w2)
    assert distances[0] == pytest.approx(distances[1])
    assert distances[1] > 2 * distances[2] > 4 * distances[3] > 0


def test_a_cut_moves_its_points_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    points = F.normalize(torch.randn(50, 5, generator=generator).double(), dim=1)
    pole = F.normalize(torch.ones(5).double(), dim=0)
    cut = Cut(pole, 0.2)
    inside = points @ pole > 0.2
    atom = F.normalize(pole + 0.1 * torch.eye(5)[0].double(), dim=0)
    moved = move(points, cut, atom)
    assert 0 < inside.sum() < 50
    assert torch.equal(moved[~inside], points[~inside])
    torch.testing.assert_close(moved[inside], atom.expand(int(inside.sum()), -1))


def test_a_half_space_that_would_hold_others_is_refused() -> None:
    middle = torch.eye(4)[0].double()
    atom = F.normalize(torch.tensor([1.0, 0.5, 0.0, 0.0]).double(), dim=0)
    near = F.normalize(torch.tensor([[1.0, 0.01, 0, 0], [1.0, -0.01, 0, 0]]).double(), dim=1)
    cut = choose_cut(near, torch.empty(0, 4).double(), middle, atom, count=1)
    assert (near @ cut.pole > cut.bias).tolist() == [True, False]
    between = F.normalize((middle + atom) / 2, dim=0)[None]
    with pytest.raises(ValueError, match="no half-space"):
        choose_cut(near, between, middle, atom, count=1)


def test_targets_that_cannot_be_cut_are_told() -> None:
    """The same atom twice: no half-space has it and none of the points that are there already."""
    given = problem(number=1, atoms=2)
    twice = given._replace(atoms=given.atoms[:, :1].expand(-1, 2, -1))
    found = interpolate(twice)
    assert not found.arrived
    assert math.isnan(found.w2)


def test_the_study_counts_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TARGETS", (1, 2)), ("ATOMS", (1, 3)), ("SIZES", (20, 60))):
        monkeypatch.setattr(pieces, name, value)
    study = pieces.atom_study()
    aims = study.found[1, 1, 20][0].aims
    assert study.free_of_points
    assert study.pieces(2, 3, 60) == aims + 6
    assert study.farthest < 1e-6
    assert f"2 measures reach 3 atoms each in {aims} + 6 pieces" in study.words()
    assert "with 20 as with 60 points" in study.words()
    chart = study.chart()
    assert chart.series[-1].y == (aims + 3, aims + 3)
