"""Losses: each is what its formula says, undefined cells count for nothing, and truth pays."""

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import nbinom
from torch import Tensor

from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.futures import AtomTable
from gdelphi.model.losses import (
    FutureSettings,
    Loss,
    LossWeights,
    energy_loss,
    log_loss,
    rows_loss,
    training_loss,
)
from gdelphi.model.network import MeasureModel
from gdelphi.model.transport import Futures
from gdelphi.ot.energy import energy_score, root_divergence
from gdelphi.ot.entropic import sinkhorn_divergence
from gdelphi.ot.geometry import Measures
from helpers.measured_world import GONE
from helpers.sphere_cases import unit
from helpers.training_world import small_settings

NAN = math.nan
DIMENSION, ATOMS = 5, 4


pytestmark = pytest.mark.usefixtures("one_thread")


# --- what came, and how many rows -----------------------------------------------------------------


def test_the_log_loss_is_that_by_hand_over_the_defined_cells() -> None:
    logits = torch.tensor([0.0, 2.0, -1.0, NAN, 3.0, NAN])
    came = torch.tensor([1.0, 0.0, 1.0, 1.0, NAN, NAN])
    said = [1 / (1 + math.exp(-value)) for value in (0.0, 2.0, -1.0)]
    expected = -(math.log(said[0]) + math.log(1 - said[1]) + math.log(said[2])) / 3
    assert log_loss(logits, came).item() == pytest.approx(expected, rel=1e-6)


def test_undefined_cells_have_no_gradient_and_the_others_their_own() -> None:
    """By hand: (p - came) / number of defined cells."""
    logits = torch.tensor([0.5, -2.0, 1.0], requires_grad=True)
    log_loss(logits, torch.tensor([1.0, NAN, 0.0])).backward()
    sigmoids = torch.tensor([0.5, 1.0]).sigmoid()
    expected = torch.stack([(sigmoids[0] - 1) / 2, torch.tensor(0.0), sigmoids[1] / 2])
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, expected)


def test_no_defined_cell_is_no_loss_and_a_gradient_of_zeros() -> None:
    given = torch.tensor([1.0, -2.0], requires_grad=True)
    logits = given.masked_fill(torch.tensor([False, True]), NAN)
    loss = log_loss(logits, torch.tensor([NAN, 1.0]))
    assert loss.item() == 0
    loss.backward()
    assert given.grad is not None
    assert given.grad.tolist() == [0, 0]


def test_the_rows_loss_is_that_of_a_negative_binomial_over_the_known_cells() -> None:
    """With mean m and k: n of scipy is k, its p is k / (k + m)."""
    means, k = np.array([[0.5, 4.0], [2.0, 9.0]]), np.array([0.7, 3.0])
    rows = np.array([[0.0, 6.0], [3.0, NAN]])
    likelihoods = nbinom.logpmf(rows, k, k / (k + means))
    expected = -np.mean(likelihoods[~np.isnan(rows)])
    given = [torch.from_numpy(each) for each in (np.log(means), k, rows)]
    assert rows_loss(*given).item() == pytest.approx(expected, rel=1e-9)
    single = [each.float() for each in given]
    assert rows_loss(*single).item() == pytest.approx(expected, rel=1e-5)


def test_no_known_rows_are_no_loss_and_a_gradient_of_zeros() -> None:
    log_rate = torch.tensor([[0.3, -2.0]], requires_grad=True)
    loss = rows_loss(log_rate, torch.ones(2), torch.full((1, 2), NAN))
    assert loss.item() == 0
    loss.backward()
    assert log_rate.grad is not None
    assert log_rate.grad.tolist() == [[0, 0]]


# --- the energy score of futures ------------------------------------------------------------------


def random_futures(groups: int, number: int, seed: int = 0) -> tuple[Futures, Tensor, Measures]:
    """Futures, chances and outcomes; one atom of each future and outcome is none."""
    random = torch.Generator().manual_seed(seed)

    def measures(size: int) -> Measures:
        points = unit(torch.randn(size, ATOMS, DIMENSION, generator=random))
        weights = torch.randn(size, ATOMS, generator=random)
        weights[:, -1] = -math.inf
        return Measures(points, weights.softmax(dim=1))

    drawn, outcome = measures(groups * number), measures(groups)
    futures = Futures(*drawn, torch.ones(groups * number, ATOMS))
    return futures, torch.full((groups, number), 1 / number), outcome


def distance(one: Measures, two: Measures, *, root: bool = True) -> Tensor:
    """Of two batches of measures, in float64."""
    exact = [Measures(*(values.double() for values in each)) for each in (one, two)]
    divergence = sinkhorn_divergence(*exact)
    return root_divergence(divergence) if root else divergence.value


def distances(
    futures: Futures, outcome: Measures, group: int, number: int, *, root: bool = True
) -> tuple[Tensor, Tensor]:
    """To the outcome [K], and of all pairs [K, K], of one group."""
    members = slice(group * number, (group + 1) * number)
    ours = Measures(futures.points[members], futures.weights[members])
    came = Measures(*(each[group : group + 1].expand(number, -1, *each.shape[2:]) for each in (
        outcome.points, outcome.weights)))  # fmt: skip
    one, two = (each.flatten() for each in torch.meshgrid(
        torch.arange(number), torch.arange(number), indexing="ij"))  # fmt: skip
    pairs = (Measures(ours.points[at], ours.weights[at]) for at in (one, two))
    between = distance(*pairs, root=root).view(number, number).fill_diagonal_(0)
    return distance(ours, came, root=root), between


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("number", [2, 3, 5])
def test_the_energy_loss_is_the_formula_over_neighbours(root: bool, number: int) -> None:
    """Mean of D(F_k, Y) - D(F_k, F_{k - 1}) / 2 over futures, then over origins."""
    groups = 3
    futures, chances, outcome = random_futures(groups, number)
    scores = []
    for group in range(groups):
        to_outcome, between = distances(futures, outcome, group, number, root=root)
        pairs = torch.stack([between[k, k - 1] for k in range(number)])
        scores.append((to_outcome.mean() - pairs.mean() / 2).item())
    found = energy_loss(futures, chances, outcome, FutureSettings(root=root))
    assert found.item() == pytest.approx(np.mean(scores), abs=2e-5)
    assert np.std(scores) > 1e-3


def test_of_two_futures_it_is_the_fair_energy_score() -> None:
    groups, number = 4, 2
    futures, chances, outcome = random_futures(groups, number)
    expected = [
        energy_score(
            *distances(futures, outcome, group, number), weights=chances[group].double(), fair=True
        ).item()
        for group in range(groups)
    ]
    found = energy_loss(futures, chances, outcome, FutureSettings())
    assert found.item() == pytest.approx(np.mean(expected), abs=2e-5)


def test_over_all_orders_of_drawing_it_is_the_fair_energy_score() -> None:
    number = 4
    futures, chances, outcome = random_futures(1, number)
    orders = torch.tensor(list(permutations(range(number))))
    shuffled = Futures(*(values[orders.flatten()] for values in futures))
    everywhere = Measures(*(each.repeat_interleave(len(orders), dim=0) for each in outcome))
    found = energy_loss(shuffled, chances.expand(len(orders), -1), everywhere, FutureSettings())
    given = distances(futures, outcome, 0, number)
    expected = energy_score(*given, weights=chances[0].double(), fair=True)
    assert found.item() == pytest.approx(expected.item(), abs=2e-5)


def test_chances_weigh_futures_and_pairs() -> None:
    """By hand, for two futures: c D + c' D' - 4 c c' D(F, F') / 2."""
    futures, _, outcome = random_futures(1, 2)
    to_outcome, between = distances(futures, outcome, 0, 2)
    chances = torch.tensor([[0.3, 0.7]])
    expected = chances[0].double() @ to_outcome - 2 * 0.21 * between[0, 1]
    found = energy_loss(futures, chances, outcome, FutureSettings())
    assert found.item() == pytest.approx(expected.item(), abs=2e-5)


def test_origins_with_an_empty_outcome_are_left_out() -> None:
    groups, number = 3, 3
    futures, chances, outcome = random_futures(groups, number)
    outcome.weights[0] = 0
    expected = energy_loss(
        Futures(*(values[number:] for values in futures)),
        chances[1:],
        Measures(*(values[1:] for values in outcome)),
        FutureSettings(),
    )
    found = energy_loss(futures, chances, outcome, FutureSettings())
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


def test_empty_futures_are_left_out_and_the_others_stay() -> None:
    """One of four, by closed gates: the rest are a score of their own, over the pairs left."""
    futures, chances, outcome = random_futures(1, 4)
    futures.gates[2] = 0.01
    to_outcome, between = distances(futures, outcome, 0, 4)
    alive = [0, 1, 3]
    pairs = (between[1, 0] + between[0, 3]) / 2
    expected = to_outcome[alive].mean() - pairs / 2
    found = energy_loss(futures, chances, outcome, FutureSettings())
    assert found.item() == pytest.approx(expected.item(), abs=2e-5)


@pytest.mark.parametrize(("number", "empty"), [(3, True), (1, False)])
def test_where_nothing_can_be_compared_there_is_no_loss(number: int, empty: bool) -> None:
    futures, chances, outcome = random_futures(2, number)
    if empty:
        outcome.weights[:] = 0
    chances.requires_grad_()
    found = energy_loss(futures, chances, outcome, FutureSettings())
    assert found.item() == 0
    found.backward()
    assert chances.grad is not None
    assert not chances.grad.any()


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("alike", [True, False])
def test_its_gradient_reaches_points_weights_and_chances(root: bool, alike: bool) -> None:
    """And is finite where two futures, and a future and the outcome, are the same."""
    groups, number = 2, 3
    futures, chances, outcome = random_futures(groups, number)
    if alike:
        for values, came in zip(futures[:2], outcome, strict=True):
            values[1] = values[0]
            values[number] = came[1]
    leaves = [each.requires_grad_() for each in (futures.points, futures.weights, chances)]
    energy_loss(futures, chances, outcome, FutureSettings(root=root)).backward()
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()
        assert (leaf.grad.flatten(1).abs().amax(dim=1) > 1e-5).any()
    assert futures.points.grad is not None
    assert not futures.points.grad[:, -1].any()  # what stands in an empty slot


def test_its_gradient_is_that_of_differences() -> None:
    futures, chances, outcome = random_futures(2, 3)
    chosen = FutureSettings()

    def loss(angle: float) -> Tensor:
        """With all points turned by an angle in the first plane."""
        turn = torch.eye(DIMENSION)
        turn[0, 0] = turn[1, 1] = math.cos(angle)
        turn[0, 1], turn[1, 0] = math.sin(angle), -math.sin(angle)
        return energy_loss(futures._replace(points=points @ turn), chances, outcome, chosen)

    points = futures.points.clone().requires_grad_()
    loss(0.0).backward()
    assert points.grad is not None
    step = torch.zeros_like(points)
    step[..., 0], step[..., 1] = -points[..., 1].detach(), points[..., 0].detach()
    slope = (points.grad * step).sum().item()
    size = 0.02
    expected = (loss(size) - loss(-size)).item() / (2 * size)
    assert slope == pytest.approx(expected, rel=0.02, abs=1e-4)


def test_futures_drawn_from_the_truth_score_best() -> None:
    """Two measures, the first of which comes with p = 0.7. By hand: futures that are it with q
    score (p (1 - q) + (1 - p) q - q (1 - q)) D(A, B) on average, which is least at q = p."""
    groups, number, p = 600, 6, 0.7
    random = torch.Generator().manual_seed(0)
    both = random_futures(1, 2)[0]
    between = distance(*(Measures(both.points[k : k + 1], both.weights[k : k + 1]) for k in (0, 1)))
    came = (torch.rand(groups, generator=random) > p).long()
    outcome = Measures(both.points[came], both.weights[came])
    random_numbers = torch.rand(groups * number, generator=random)
    chances = torch.full((groups, number), 1 / number)

    def score(q: float) -> float:
        drawn = (random_numbers > q).long()
        futures = Futures(*(values[drawn] for values in both))
        return energy_loss(futures, chances, outcome, FutureSettings()).item()

    scores = {q: score(q) for q in (0.2, 0.5, 0.7, 0.9, 1.0)}
    for q, found in scores.items():
        expected = (p * (1 - q) + (1 - p) * q - q * (1 - q)) * between.item()
        assert found == pytest.approx(expected, abs=0.05 * between.item())
    assert min(scores, key=lambda q: scores[q]) == p


# --- all of them ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return load_training_data(small_settings(tmp_path_factory))


@pytest.fixture(scope="module")
def maker(data: TrainingData) -> BatchMaker:
    return data.batches(torch.device("cpu"))


@pytest.fixture(scope="module")
def table(data: TrainingData) -> AtomTable:
    return AtomTable(data.arrays.pack)


@pytest.fixture(scope="module")
def batch(maker: BatchMaker) -> Batch:
    return maker.make(np.arange(4), np.array([40, 40, 50, 60]))


@pytest.fixture
def model(data: TrainingData) -> MeasureModel:
    torch.manual_seed(0)
    return data.model().eval()


ALL = LossWeights(profiles=0.5, direct=2.0, rows=0.3, atoms=0.7, energy=1.3)
FEW = FutureSettings(number=4)


def loss_of(
    model: MeasureModel, batch: Batch, weights: LossWeights, table: Any, settings: Any = FEW
) -> Loss:
    torch.manual_seed(5)
    return training_loss(model, batch, weights, table=table, futures=settings)


def largest_gradients(model: MeasureModel) -> dict[str, float | None]:
    """By part of the model; None where there is none at all."""
    found: dict[str, float | None] = {}
    for name, part in model.named_children():
        sizes = [
            float(each.grad.abs().max()) for each in part.parameters() if each.grad is not None
        ]
        found[name] = max(sizes) if sizes else None
    return found


def test_parts_are_weighed_as_said(model: MeasureModel, batch: Batch, table: AtomTable) -> None:
    found = loss_of(model, batch, ALL, table)
    assert set(found.parts) == {"profiles", "direct", "rows", "atoms", "energy"}
    expected = sum(getattr(ALL, name) * value.item() for name, value in found.parts.items())
    assert found.total.item() == pytest.approx(expected, rel=1e-5)
    assert all(value.item() > 0 and not value.requires_grad for value in found.parts.values())
    said = model(batch.past)
    late = slice(ALL.burn_in, None)
    by_hand = {
        "profiles": log_loss(said.profiles[:, late], batch.outcomes[:, late]),
        "direct": log_loss(said.direct[:, late], batch.outcomes[:, late]),
        "rows": rows_loss(said.log_rate[:, late], said.dispersion, batch.rows[:, late]),
    }
    for name, value in by_hand.items():
        assert found.parts[name].item() == pytest.approx(value.item())


def test_where_futures_do_not_count_none_are_drawn(model: MeasureModel, batch: Batch) -> None:
    """The table is not even touched, nor any random number taken."""
    weights = ALL._replace(atoms=0.0, energy=0.0)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    found = training_loss(model, batch, weights, table=object(), futures=FEW)  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())
    assert set(found.parts) == {"profiles", "direct", "rows"}
    assert found.total.item() == training_loss(model, batch, weights).total.item()


def test_without_weight_the_energy_score_is_not_computed(
    model: MeasureModel, batch: Batch, table: AtomTable
) -> None:
    found = loss_of(model, batch, ALL._replace(energy=0.0), table)
    assert set(found.parts) == {"profiles", "direct", "rows", "atoms"}
    assert found.parts["atoms"] == loss_of(model, batch, ALL, table).parts["atoms"]


def test_random_numbers_decide_which_futures(
    model: MeasureModel, batch: Batch, table: AtomTable
) -> None:
    one, two = (loss_of(model, batch, ALL, table) for _ in range(2))
    assert one.total == two.total
    torch.manual_seed(6)
    other = training_loss(model, batch, ALL, table=table, futures=FEW)
    assert other.parts["energy"] != one.parts["energy"]
    assert other.parts["direct"] == one.parts["direct"]


def unknown(batch: Batch) -> Batch:
    """As if all target days were missing."""
    return batch._replace(
        outcomes=torch.full_like(batch.outcomes, NAN), rows=torch.full_like(batch.rows, NAN)
    )


def test_a_batch_without_any_known_target_is_no_loss(
    model: MeasureModel, batch: Batch, table: AtomTable
) -> None:
    """And has zeros for gradients where another has gradients: processes add up theirs."""
    found = loss_of(model, unknown(batch), ALL, table)
    assert found.total.item() == 0
    assert set(found.parts) == {"profiles", "direct", "rows", "atoms", "energy"}
    found.total.backward()
    none = {name for name, each in model.named_parameters() if each.grad is None}
    assert all(not each.grad.any() for each in model.parameters() if each.grad is not None)
    model.zero_grad()
    loss_of(model, batch, ALL, table).total.backward()
    assert none == {name for name, each in model.named_parameters() if each.grad is None}


def test_origins_before_a_missing_day_are_passed_over(
    model: MeasureModel, maker: BatchMaker, table: AtomTable
) -> None:
    """Sequences that end the day before: with that as the only day that counts nothing is known."""
    gone = maker.make(np.arange(4), np.full(4, GONE[0] - 1))
    late = ALL._replace(burn_in=gone.outcomes.shape[1] - 1)
    assert loss_of(model, gone, late, table).total.item() == 0
    there = maker.make(np.arange(4), np.full(4, GONE[0]))
    assert loss_of(model, there, late, table).parts["atoms"].item() > 0


@pytest.mark.parametrize("part", ["atoms", "energy"])
@pytest.mark.parametrize("reach", [True, False])
def test_futures_teach_transport_and_the_rest_if_asked_to(
    model: MeasureModel, batch: Batch, table: AtomTable, part: str, reach: bool
) -> None:
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.05 * torch.randn_like(each))
    alone = LossWeights(**{"profiles": 0.0, "direct": 0.0, "rows": 0.0, part: 1.0})
    loss_of(model, batch, alone, table, FEW._replace(teach_all=reach)).total.backward()
    found = largest_gradients(model)
    assert (found["transport"] or 0) > 1e-5
    assert ((found["atom_reading"] or 0) > 1e-5) == (part == "atoms")
    for name in ("day_attention", "decoder", "day_encoder"):
        assert ((found[name] or 0) > 1e-7) == reach, name
    assert not found["direct"]
    assert not found["intensity"]
    assert all(each.grad.isfinite().all() for each in model.parameters() if each.grad is not None)


def test_from_the_zero_start_transport_is_taught_where_it_leaves(
    model: MeasureModel, batch: Batch, table: AtomTable
) -> None:
    loss_of(model, batch, ALL, table).total.backward()
    last = model.transport.blocks[-1]
    for layer in (last.leave, last.gate):
        assert layer.weight.grad.abs().max() > 1e-6
