"""The flow clusters and scatters as it should, and means tell measures apart."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows

from gdelphi.inspect.clustering import Passage, random_value
from gdelphi.inspect.flow import Concentration, attention_field, concentration, flow, mean_field
from gdelphi.inspect.pieces import separations
from gdelphi.inspect.separation import margin, overlapping_measures, places, separate

pytestmark = pytest.mark.usefixtures("one_thread")


def hemisphere(number: int, seed: int = 0) -> torch.Tensor:
    points = torch.randn(number, 4, generator=torch.Generator().manual_seed(seed))
    return F.normalize(points + torch.tensor([2.5, 0.0, 0.0, 0.0]), dim=1)


def test_concentration_in_closed_form() -> None:
    even = torch.full((4,), 0.25)
    assert concentration(torch.eye(4), even) == pytest.approx((0.25, 4.0))
    assert concentration(torch.eye(4)[:1].expand(4, -1), even) == pytest.approx((1.0, 1.0))
    # A point of twice the weight is two points; length does not count.
    twice = concentration(torch.eye(4)[[0, 0, 1]] * 3, torch.ones(3))
    once = concentration(torch.eye(4)[:2], torch.tensor([2.0, 1.0]))
    assert twice == pytest.approx(once)


def test_identity_draws_a_hemisphere_together_and_its_negative_scatters_it() -> None:
    points, even = hemisphere(20), torch.full((20,), 0.05)
    before = concentration(points, even).mean_cosine
    cosines = {}
    for sign in (1.0, -1.0):
        field = attention_field(sign * torch.eye(4), 1.0)
        path = [
            concentration(x, even).mean_cosine for x in flow(points, even, field, time=12, steps=60)
        ]
        cosines[sign] = path
    assert cosines[1.0][-1] > 0.999
    assert all(a <= b + 1e-6 for a, b in zip(cosines[1.0], cosines[1.0][1:], strict=False))
    assert cosines[-1.0][-1] < before - 0.3


def test_every_point_stays_on_the_sphere_and_a_lone_point_rests() -> None:
    value = random_value(4, torch.Generator().manual_seed(0))
    points, even = hemisphere(9), torch.full((9,), 1 / 9)
    for state in flow(points, even, attention_field(value, 2.0), time=3, steps=10):
        torch.testing.assert_close(state.norm(dim=1), torch.ones(9))
    alone = points[:1]
    *_, last = flow(alone, torch.ones(1), attention_field(torch.eye(4), 2.0), time=3, steps=5)
    torch.testing.assert_close(last, alone)


def test_no_attention_is_the_flow_towards_the_mean() -> None:
    value = random_value(4, torch.Generator().manual_seed(0))
    points, even = hemisphere(6), torch.full((6,), 1 / 6)
    torch.testing.assert_close(
        attention_field(value, 0.0)(points, even), mean_field(value)(points, even)
    )


@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_overlapping_measures_are_separated_whatever_their_number_of_points(pairs: int) -> None:
    for points in (40, 400):
        for found in separations(pairs, points, seeds=2):
            assert found.margins[0] < 0 < found.margins[-1]
            assert found.separated
            assert len(found.path) == found.pieces + 1


def test_equal_means_cannot_be_told_apart() -> None:
    """What tells measures apart is the mean: the same measure twice stays upon itself."""
    generator = torch.Generator().manual_seed(0)
    one = overlapping_measures(1, 30, 3, generator)
    found = separate(one.expand(2, -1, -1).clone(), places(2, 3, generator), most=3)
    assert not found.separated
    assert found.pieces == 3


def test_caps_in_closed_form() -> None:
    pole = F.normalize(torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]]), dim=2)
    assert margin(pole) == pytest.approx(torch.pi / 2, abs=1e-4)


def test_a_collapse_is_told_from_points_that_were_one_before() -> None:
    wide, one = Concentration(0.2, 5.0), Concentration(0.99, 1.0)
    assert Passage("x", (wide, one)).collapses
    assert not Passage("x", (one, one)).collapses
    assert not Passage("x", (wide, wide)).collapses
