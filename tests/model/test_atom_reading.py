"""The reading of atoms: closed forms on a basis of axes, where an atom is a code or between."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import MeasureModel
from gdelphi.model.transport import LEAST_HEADLINE, SWIFT, AtomReading, Futures
from helpers.sphere_cases import unit

AXES, DIMENSION, CODES = 8, 10, 7
ROOTS = torch.tensor([0, 1, 2, 3, 4, 5, 6, 6])  # the last two axes are codes of one root
OCCURS, HEADLINE, SURGE = range(3)


pytestmark = pytest.mark.usefixtures("one_thread")


def config(**given: Any) -> MeasureConfig:
    sizes: dict[str, Any] = {"dimension": DIMENSION, "event_dimension": AXES, "finest": AXES}
    return MeasureConfig(**{**sizes, "codes": CODES, **given})


def reading(temperature: float = 0.01) -> AtomReading:
    made = AtomReading(config())
    made.set_basis(torch.eye(AXES), ROOTS)
    torch.nn.init.constant_(made.temperature, math.log(temperature / 0.05) / SWIFT)
    return made


def atom(*axes: int) -> Tensor:
    """A point whose event part lies between axes; half of its length is elsewhere."""
    point = torch.zeros(DIMENSION)
    point[list(axes)] = (0.5 / len(axes)) ** 0.5
    point[-1] = 0.5**0.5
    return point


def future(*atoms: tuple[Tensor, float, float]) -> Futures:
    """One future of atoms (point, weight, gate)."""
    points, weights, gates = zip(*atoms, strict=True)
    return Futures(torch.stack(points)[None], torch.tensor([weights]), torch.tensor([gates]))


def random_futures(groups: int = 2, number: int = 4, atoms: int = 5) -> Futures:
    random = torch.Generator().manual_seed(0)
    points = unit(torch.randn(groups * number, atoms, DIMENSION, generator=random))
    weights = torch.randn(groups * number, atoms, generator=random).softmax(dim=1)
    return Futures(points, weights, torch.rand(groups * number, atoms, generator=random))


def random_given(groups: int = 2, number: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Chances, thresholds and pooled rates."""
    random = torch.Generator().manual_seed(1)
    chances = torch.randn(groups, number, generator=random).softmax(dim=1)
    thresholds = 0.3 * torch.rand(groups, CODES, generator=random)
    thresholds[0, :3] = math.nan
    return chances, thresholds, 0.1 + 0.8 * torch.rand(groups, 3, CODES, generator=random)


def each(made: AtomReading, futures: Futures, threshold: float = 0.2) -> Tensor:
    """What single futures say, [future, target, code]."""
    with torch.no_grad():
        said: Tensor = made.each(futures, torch.full((len(futures.points), CODES), threshold))
    return said[:, 0]


def assert_close(one: Tensor, two: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=tolerance, equal_nan=True)


# --- assignment -----------------------------------------------------------------------------------


def test_a_root_takes_what_its_codes_take() -> None:
    points = torch.stack([atom(2), atom(6), atom(7), atom(6, 7), atom(1, 7), atom(0, 1)])
    found = reading().assign(points).detach()
    expected = torch.zeros(6, CODES)
    expected[0, 2] = expected[1, 6] = expected[2, 6] = expected[3, 6] = 1
    expected[4, 1] = expected[4, 6] = expected[5, 0] = expected[5, 1] = 0.5
    assert_close(found, expected)


def test_atoms_that_are_not_there_are_no_root_and_others_as_before() -> None:
    points = unit(torch.randn(5, 4, DIMENSION, generator=torch.Generator().manual_seed(3)))
    there = torch.tensor([[True, True, False, False]]).expand(5, -1)
    made = reading(0.5)
    some, every = made.assign(points, there), made.assign(points)
    assert_close(some[:, :2], every[:, :2])
    assert not some[:, 2:].any()


def test_what_is_not_about_the_event_does_not_matter() -> None:
    point = atom(3)
    other = unit(point + torch.eye(DIMENSION)[AXES])
    assert_close(reading(0.5).assign(point), reading(0.5).assign(other))


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_temperature_softens(temperature: float) -> None:
    """By hand: on an axis the cosines are 1 and 0, so its root has 1 / (1 + 7 exp(-1 / T))."""
    found = reading(temperature).assign(atom(2))
    assert found.sum().item() == pytest.approx(1)
    share = 1 / (1 + (AXES - 1) * math.exp(-1 / temperature))
    assert found[2].item() == pytest.approx(share, rel=1e-5)
    assert found[6].item() == pytest.approx(2 * (1 - share) / (AXES - 1), rel=1e-3, abs=1e-7)


# --- what a future says ---------------------------------------------------------------------------


@pytest.mark.parametrize("gate", [0.0, 0.018, 0.5, 0.98])
def test_a_code_occurs_as_far_as_its_atom_exists(gate: float) -> None:
    found = each(reading(), future((atom(4), 1.0, gate)))[0, OCCURS]
    expected = torch.zeros(CODES)
    expected[4] = gate
    assert_close(found, expected)


def test_two_atoms_occur_unless_neither_does() -> None:
    """1 - (1 - g pi) (1 - g' pi'), here with pi = 1 and 1/2 of root 3."""
    one, other = (atom(3), 0.6, 0.7), (atom(3, 5), 0.4, 0.9)
    found = each(reading(), future(one, other))[0, OCCURS]
    assert found[3].item() == pytest.approx(1 - (1 - 0.7) * (1 - 0.45), rel=1e-5)
    assert found[5].item() == pytest.approx(0.45, rel=1e-5)
    assert found[[0, 1, 2, 4, 6]].max().item() < 1e-5


def test_shares_are_weights_by_code_and_sum_to_the_probability_of_any_atom() -> None:
    """Read off the surges, which are sigmoids of them; gentle ones, to lose no digits."""
    futures, threshold = random_futures(), 0.2
    made = reading(0.1)
    torch.nn.init.constant_(made.sharpness, math.log(0.1) / SWIFT)
    surge = each(made, futures, threshold)[:, SURGE].double()
    shares = surge.logit() / 4 + threshold
    some = 1 - (1 - futures.gates).prod(dim=1)
    expected = (futures.weights[..., None] * made.assign(futures.points)).sum(dim=1).detach()
    assert_close(shares.float(), expected * some[:, None], 1e-4)
    assert_close(shares.sum(dim=1).float(), some, 1e-3)


def test_a_future_of_closed_gates_is_an_empty_day() -> None:
    futures = future((atom(0), 0.5, 0.0), (atom(1), 0.5, 0.0))
    found = each(reading(), futures, 0.2)[0]
    assert found[OCCURS].max().item() < 1e-5
    assert_close(found[SURGE], torch.full((CODES,), -8.0).sigmoid())


def test_headlines_are_the_largest_shares() -> None:
    """The cut lies between the fifth and the sixth; in the order of shares; by hand."""
    shares = [0.3, 0.05, 0.2, 0.15, 0.08, 0.12, 0.1]
    futures = future(*((atom(code), share, 0.9) for code, share in enumerate(shares)))
    found = each(reading(), futures)[0, HEADLINE]
    assert ((found > 0.5) == (torch.tensor(shares) > 0.09)).all()
    assert found.argsort().tolist() == torch.tensor(shares).argsort().tolist()
    assert_close(found, (100 * (torch.tensor(shares) - 0.09)).sigmoid(), 1e-4)


def test_with_few_atoms_no_code_is_a_headline_for_next_to_nothing() -> None:
    futures = future((atom(0), 0.97, 1.0), (atom(1), 0.03, 0.9))
    found = each(reading(), futures)[0, HEADLINE]
    cut = LEAST_HEADLINE
    expected = [1 / (1 + math.exp(-100 * (share - cut))) for share in (0.97, 0.03, 0.0)]
    assert_close(found[:3], torch.tensor(expected), 1e-4)


@pytest.mark.parametrize("threshold", [0.1, 0.25, 0.6])
def test_a_surge_is_a_share_above_the_threshold(threshold: float) -> None:
    futures = future((atom(0), 0.75, 1.0), (atom(1), 0.25, 0.9))
    found = each(reading(), futures, threshold)[0, SURGE]
    expected = (40 * (torch.tensor([0.75, 0.25, 0.0]) - threshold)).sigmoid()
    assert_close(found[:3], expected, 1e-4)


# --- a future is a measure, and futures are a sample ----------------------------------------------


def test_the_order_of_atoms_changes_nothing() -> None:
    made, futures, given = reading(0.2), random_futures(), random_given()
    order = torch.tensor([4, 2, 0, 3, 1])
    shuffled = Futures(*(values[:, order] for values in futures))
    assert_close(made(futures, *given), made(shuffled, *given))


def test_the_order_of_futures_changes_nothing() -> None:
    made, futures, given = reading(0.2), random_futures(), random_given()
    order = torch.tensor([2, 0, 3, 1])
    shuffled = Futures(*(values.unflatten(0, (2, 4))[:, order].flatten(0, 1) for values in futures))
    found = made(shuffled, given[0][:, order], *given[1:])
    assert_close(made(futures, *given), found)
    assert (made(shuffled, *given) - found).abs().nan_to_num(0).max() > 1e-3


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_slots_without_weight_and_gate_do_not_exist(scale: float) -> None:
    made, futures, given = reading(0.2), random_futures(), random_given()
    strange = scale * torch.randn(8, 3, DIMENSION, generator=torch.Generator().manual_seed(2))
    padded = Futures(
        torch.cat([futures.points[:, :2], strange, futures.points[:, 2:]], dim=1),
        *(
            torch.cat([values[:, :2], torch.zeros(8, 3), values[:, 2:]], dim=1)
            for values in futures[1:]
        ),
    )
    assert_close(made(futures, *given), made(padded, *given))


def test_origins_are_read_alone_as_they_are_together() -> None:
    made, futures, given = reading(0.2), random_futures(), random_given()
    together = made(futures, *given)
    for group in range(2):
        alone = Futures(*(values[4 * group : 4 * group + 4] for values in futures))
        found = made(alone, *(values[group : group + 1] for values in given))
        assert_close(found[0], together[group])


def test_probabilities_are_the_mean_over_futures_smoothed_as_baselines_are() -> None:
    """(n mean + pooled) / (n + 1), n = 1 / sum c^2 of the chances; untrained, nothing else."""
    made, futures, (chances, thresholds, pooled) = reading(0.2), random_futures(), random_given()
    chances[1] = 0.25
    said = made.each(futures, thresholds).detach()
    found = made(futures, chances, thresholds, pooled).sigmoid()
    for group in range(2):
        mean = sum(chances[group, k] * said[group, k] for k in range(4))
        number = 1 / float((chances[group] ** 2).sum())
        expected = (number * mean + pooled[group]) / (number + 1)
        expected[SURGE] = expected[SURGE].masked_fill(thresholds[group].isnan(), math.nan)
        assert_close(found[group], expected)
    assert 1 / float((chances[1] ** 2).sum()) == pytest.approx(4)


def test_calibration_is_a_line_on_logits() -> None:
    made, futures, given = reading(0.2), random_futures(), random_given()
    before = made(futures, *given).detach()
    with torch.no_grad():
        made.slope.copy_(torch.tensor([2.0, 0.5, 1.0]).log() / SWIFT)
        made.level[CODES + 3] = 0.7 / SWIFT
    expected = before * torch.tensor([2.0, 0.5, 1.0])[:, None]
    expected[:, HEADLINE, 3] += 0.7
    assert_close(made(futures, *given), expected)


def test_without_a_threshold_a_surge_is_not_a_number_and_nothing_else() -> None:
    futures, given = random_futures(), random_given()
    found = reading()(futures, *given)
    assert torch.equal(found[:, SURGE].isnan(), given[1].isnan())
    assert found[:, :SURGE].isfinite().all()
    assert not found.isinf().any()


def test_futures_without_atoms_say_something_finite() -> None:
    nothing = Futures(*(torch.zeros_like(values) for values in random_futures()))
    found = reading()(nothing, *random_given())
    assert found[:, :SURGE].isfinite().all()
    assert (found[:, OCCURS].sigmoid() < 0.5).all()


def test_gradients_are_finite_and_reach_all_that_is_learned() -> None:
    """With atoms that stand on a code, exist for certain, or not at all."""
    made, futures, given = reading(0.05), random_futures(), random_given()
    points, weights, gates = (values.clone() for values in futures)
    points[0, 0], gates[0, 0], gates[1] = atom(2), 1.0, 1.0
    points[2], weights[2], gates[2] = 0.0, 0.0, 0.0
    leaves = [values.requires_grad_() for values in (points, weights, gates, given[0])]
    found = made(Futures(points, weights, gates), given[0], *given[1:])
    toward = torch.randn(found.shape, generator=torch.Generator().manual_seed(3))
    (found.nan_to_num(0) * toward).sum().backward()
    for leaf in (*leaves, *made.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()
        assert leaf.grad.abs().max() > 1e-6


# --- kept -----------------------------------------------------------------------------------------


def test_the_basis_is_kept_with_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"features": 5, "width": 8, "heads": 2, "context_days": 4, "memory_days": 6}
    model = MeasureModel(config(**sizes)).eval()
    finest = unit(torch.randn(AXES, AXES))
    model.atom_reading.set_basis(finest, ROOTS)
    torch.nn.init.normal_(model.atom_reading.level, std=0.1)
    model.save_pretrained(tmp_path)
    again = MeasureModel.from_pretrained(tmp_path).eval().atom_reading
    assert torch.equal(again.finest, finest)
    assert torch.equal(again.roots.argmax(dim=1), ROOTS)
    assert torch.equal(again.roots.sum(dim=1), torch.ones(AXES))
    futures, given = random_futures(), random_given()
    assert_close(again(futures, *given), model.atom_reading(futures, *given), 1e-6)
    other = MeasureModel(config(**sizes))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.atom_reading.finest, finest)


def test_the_basis_is_no_parameter() -> None:
    names = {name for name, _ in reading().named_parameters()}
    assert names == {"temperature", "sharpness", "slope", "level"}
