"""Transport moves atoms along the sphere, as a measure, and untrained moves nothing."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gdelphi.model.config import MeasureConfig
from gdelphi.model.transport import CLOSED, OPEN, AtomTransport, Futures, TransportBlock
from helpers.sphere_cases import unit

DIMENSION, WIDTH = 8, 16
FUTURES, ATOMS = 3, 6


pytestmark = pytest.mark.usefixtures("one_thread")


class Drawn(NamedTuple):
    """What transport is given."""

    points: Tensor
    weights: Tensor
    spare: Tensor
    context: Tensor
    state: Tensor


def drawn_days(seed: int = 0) -> Drawn:
    """The last two atoms of each future are spare."""
    draw = torch.Generator().manual_seed(seed)
    points = unit(torch.randn(FUTURES, ATOMS, DIMENSION, generator=draw))
    weights = torch.randn(FUTURES, ATOMS, generator=draw).softmax(dim=1)
    spare = torch.zeros(FUTURES, ATOMS, dtype=torch.bool)
    spare[:, -2:] = True
    context = torch.randn(FUTURES, 4, WIDTH, generator=draw)
    return Drawn(points, weights, spare, context, torch.randn(FUTURES, WIDTH, generator=draw))


def small_config() -> MeasureConfig:
    return MeasureConfig(dimension=DIMENSION, width=WIDTH, heads=2, transport_layers=3)


def untrained(*, attention: bool = True) -> AtomTransport:
    torch.manual_seed(0)
    return AtomTransport(small_config(), attention=attention)


def stirred(*, attention: bool = True, scale: float = 0.3) -> AtomTransport:
    """None of its layers is at zero."""
    transport = untrained(attention=attention)
    with torch.no_grad():
        for parameter in transport.parameters():
            parameter.add_(scale * torch.randn(parameter.shape))
    return transport


@torch.no_grad()
def moved(transport: AtomTransport, drawn: Drawn) -> Futures:
    futures: Futures = transport(*drawn)
    return futures


def assert_close(one: Tensor, two: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=tolerance)


def with_atoms(drawn: Drawn, take: Tensor, weights: Tensor | None = None) -> Drawn:
    """The atoms at these positions, in this order, with other weights if given."""
    return drawn._replace(
        points=drawn.points[:, take],
        weights=drawn.weights[:, take] if weights is None else weights,
        spare=drawn.spare[:, take],
    )


# --- untrained ------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", [True, False])
def test_untrained_every_atom_stays_in_its_place(attention: bool) -> None:
    drawn = drawn_days()
    found = moved(untrained(attention=attention), drawn)
    assert_close(found.points, drawn.points, 1e-6)
    expected = torch.where(drawn.spare, CLOSED, OPEN).sigmoid()
    assert_close(found.gates, expected, 1e-6)


def test_untrained_a_drawn_day_without_spare_atoms_keeps_its_weights() -> None:
    drawn = drawn_days()
    drawn = drawn._replace(spare=torch.zeros_like(drawn.spare))
    assert_close(moved(untrained(), drawn).weights, drawn.weights, 1e-6)


def test_untrained_spare_atoms_are_given_next_to_nothing() -> None:
    """By hand: each atom's weight times the probability of its gate, over their sum."""
    drawn = drawn_days()
    mass = drawn.weights * torch.where(drawn.spare, CLOSED, OPEN).sigmoid()
    found = moved(untrained(), drawn).weights
    assert_close(found, mass / mass.sum(dim=1, keepdim=True), 1e-6)
    drawn_mass = drawn.weights.masked_fill(drawn.spare, 0.0).sum(dim=1)
    assert (found.masked_fill(~drawn.spare, 0.0).sum(dim=1) < 0.02 / drawn_mass).all()


# --- on the sphere --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_atoms_move_and_stay_on_the_sphere(scale: float) -> None:
    drawn = drawn_days()
    found = moved(stirred(scale=scale), drawn)
    assert_close(found.points.norm(dim=2), torch.ones(FUTURES, ATOMS))
    assert ((found.points - drawn.points).norm(dim=2) > 0.01).all()
    assert_close(found.weights.sum(dim=1), torch.ones(FUTURES))
    assert ((found.gates >= 0) & (found.gates <= 1)).all()


def test_a_step_is_taken_along_the_sphere() -> None:
    """Known answer: from e1, a step v = (5, 3, 4, 0...) loses its 5 and leads to the direction of
    (1, 3, 4, 0...); a step along the point itself leads nowhere."""
    block = TransportBlock(small_config())
    with torch.no_grad():
        block.leave.bias[:3] = torch.tensor([5.0, 3.0, 4.0])
        start = torch.zeros(1, 2, DIMENSION)
        start[0, 0, 0] = 1
        start[0, 1] = unit(block.leave.bias)
        found, change = block(start, torch.zeros(1, 2))
    expected = torch.zeros(DIMENSION)
    expected[:3] = torch.tensor([1.0, 3.0, 4.0]) / 26**0.5
    assert_close(found[0, 0], expected, 1e-6)
    assert_close(found[0, 1], start[0, 1], 1e-6)
    assert torch.equal(change, torch.zeros(1, 2, 2))


# --- a future is a measure ------------------------------------------------------------------------


def test_the_order_of_atoms_is_the_order_of_the_moved_ones() -> None:
    transport, drawn = stirred(), drawn_days()
    order = torch.tensor([5, 2, 0, 4, 1, 3])
    found, expected = moved(transport, with_atoms(drawn, order)), moved(transport, drawn)
    for one, two in zip(found, expected, strict=True):
        assert_close(one, two[:, order])


def test_the_parts_of_a_split_atom_move_alike_and_the_others_as_before() -> None:
    transport, drawn = stirred(), drawn_days()
    take = torch.tensor([0, 1, 2, 3, 4, 5, 2])
    weights = drawn.weights[:, take].clone()
    weights[:, 2] *= 0.3
    weights[:, 6] *= 0.7
    whole, parts = moved(transport, drawn), moved(transport, with_atoms(drawn, take, weights))
    assert_close(parts.points, whole.points[:, take])
    assert_close(parts.gates, whole.gates[:, take])
    assert_close(parts.weights[:, 2] + parts.weights[:, 6], whole.weights[:, 2])
    assert_close(parts.weights[:, 2] / whole.weights[:, 2], torch.full((FUTURES,), 0.3))
    others = torch.tensor([0, 1, 3, 4, 5])
    assert_close(parts.weights[:, others], whole.weights[:, others])
    doubled = moved(transport, with_atoms(drawn, take))
    assert (doubled.points[:, :6] - whole.points).abs().max() > 1e-3  # a weight more is felt


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_atoms_of_weight_zero_have_no_influence_and_no_existence(scale: float) -> None:
    transport, drawn = stirred(), drawn_days()
    strange = scale * torch.randn(FUTURES, 2, DIMENSION, generator=torch.Generator().manual_seed(3))
    padded = drawn._replace(
        points=torch.cat([drawn.points[:, :3], strange, drawn.points[:, 3:]], dim=1),
        weights=torch.cat(
            [drawn.weights[:, :3], torch.zeros(FUTURES, 2), drawn.weights[:, 3:]], dim=1
        ),
        spare=torch.cat(
            [drawn.spare[:, :3], torch.tensor([[False, True]] * FUTURES), drawn.spare[:, 3:]], dim=1
        ),
    )
    found, expected = moved(transport, padded), moved(transport, drawn)
    kept = torch.tensor([0, 1, 2, 5, 6, 7])
    for one, two in zip(found, expected, strict=True):
        assert_close(one[:, kept], two)
    assert torch.equal(found.weights[:, 3:5], torch.zeros(FUTURES, 2))
    assert torch.equal(found.gates[:, 3:5], torch.zeros(FUTURES, 2))


@pytest.mark.parametrize("make", [untrained, stirred])
def test_a_future_without_atoms_is_all_zeros_and_leaves_the_others_alone(
    make: Callable[[], AtomTransport],
) -> None:
    transport, drawn = make(), drawn_days()
    weights = drawn.weights.clone()
    weights[1] = 0
    found = moved(transport, drawn._replace(weights=weights))
    for values in found:
        assert torch.equal(values[1], torch.zeros_like(values[1]))
    expected = moved(transport, drawn)
    for one, two in zip(found, expected, strict=True):
        assert_close(one[[0, 2]], two[[0, 2]])


@pytest.mark.parametrize("make", [untrained, stirred])
def test_gradients_stay_finite_and_small_where_there_are_no_atoms(
    make: Callable[[], AtomTransport],
) -> None:
    """A slot without an atom is not on the sphere: what is read off it must not be amplified."""
    transport, drawn = make(), drawn_days()
    weights = drawn.weights.clone()
    weights[1] = 0
    weights[0, :2] = 0
    futures = transport(*drawn._replace(weights=weights))
    toward = torch.randn(DIMENSION, generator=torch.Generator().manual_seed(1))
    (futures.points @ toward + futures.weights**2 + futures.gates).sum().backward()
    largest = max(float(p.grad.abs().max()) for p in transport.parameters() if p.grad is not None)
    assert 0 < largest < 1e4  # NaN fails too


def test_a_future_moves_alone_as_it_does_in_a_batch() -> None:
    transport, drawn = stirred(), drawn_days()
    together = moved(transport, drawn)
    for row in range(FUTURES):
        alone = moved(transport, Drawn(*(values[row : row + 1] for values in drawn)))
        for one, two in zip(alone, together, strict=True):
            assert_close(one[0], two[row])


# --- gates and weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("change", [10.0, -10.0, 1.5])
def test_gates_are_moved_by_the_blocks_together(change: float) -> None:
    transport, drawn = untrained(), drawn_days()
    with torch.no_grad():
        for block in transport.blocks:
            block.gate.bias[1] = change / len(transport.blocks)
    found = moved(transport, drawn)
    logits = torch.where(drawn.spare, CLOSED, OPEN) + change
    assert_close(found.gates, logits.sigmoid(), 1e-6)
    mass = drawn.weights * logits.sigmoid()
    assert_close(found.weights, mass / mass.sum(dim=1, keepdim=True))
    assert_close(found.points, drawn.points, 1e-6)


def test_an_open_spare_atom_takes_its_share() -> None:
    """The atom whose gate opens is told by its place: weights as given, spare or not."""
    transport, drawn = untrained(), drawn_days()
    with torch.no_grad():
        transport.blocks[-1].gate.bias[1] = 30.0
    found = moved(transport, drawn)
    assert_close(found.gates, torch.ones(FUTURES, ATOMS))
    assert_close(found.weights, drawn.weights)


def test_what_is_added_to_all_weights_alike_changes_none() -> None:
    transport, drawn = untrained(), drawn_days()
    expected = moved(transport, drawn)
    with torch.no_grad():
        transport.blocks[0].gate.bias[0] = 2.0
    assert_close(moved(transport, drawn).weights, expected.weights)


@pytest.mark.parametrize("place", [0, 2])
def test_weights_are_moved_by_what_a_block_says_of_each_atom(place: int) -> None:
    """By hand: the softmax of ln w + change + ln gate, over the atoms."""
    transport, drawn = untrained(), drawn_days()
    block = transport.blocks[place]
    gates = torch.where(drawn.spare, CLOSED, OPEN).sigmoid()
    with torch.no_grad():
        block.gate.weight[0] = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1))
        seen = torch.cat([drawn.context, transport.state(drawn.state)[:, None]], dim=1)
        _, change = block(drawn.points, (drawn.weights * gates).log(), seen)
    assert change[..., 0].std() > 0.1
    assert torch.equal(change[..., 1], torch.zeros(FUTURES, ATOMS))
    mass = drawn.weights * change[..., 0].exp() * gates
    assert_close(moved(transport, drawn).weights, mass / mass.sum(dim=1, keepdim=True))
    assert_close(moved(transport, drawn).gates, gates)


def test_a_spare_atom_is_a_closed_gate_and_nothing_else() -> None:
    """Without attention no atom hears of another's gate."""
    transport, drawn = stirred(attention=False), drawn_days()
    one = moved(transport, drawn)
    other = moved(transport, drawn._replace(spare=~drawn.spare))
    assert_close(one.points, other.points)
    shift = one.gates.double().logit() - other.gates.double().logit()
    expected = torch.where(drawn.spare, CLOSED - OPEN, OPEN - CLOSED).double()
    assert_close(shift, expected, 1e-2)


def test_a_gate_is_heard_as_a_weight_is() -> None:
    """An atom that is spare, and one of its own with that much less weight, are heard alike: in the
    first block the weight times the probability of the gate counts."""
    torch.manual_seed(0)
    block, drawn = stirred().blocks[0], drawn_days()
    transport = AtomTransport(MeasureConfig(dimension=DIMENSION, width=WIDTH, heads=2))
    transport.blocks = torch.nn.ModuleList([block])
    gates = torch.where(drawn.spare, CLOSED, OPEN).sigmoid()
    lighter = drawn._replace(weights=drawn.weights * gates, spare=torch.zeros_like(drawn.spare))
    assert_close(moved(transport, drawn).points, moved(transport, lighter).points)


@pytest.mark.parametrize("scale", [0.1, 0.3])
def test_a_closed_spare_atom_hardly_changes_what_the_others_do(scale: float) -> None:
    """Held against the same atom of the drawn day's own."""
    transport, drawn = stirred(scale=scale), drawn_days()
    own = torch.arange(ATOMS - 2)
    alone = moved(transport, with_atoms(drawn, own))
    beside = moved(transport, drawn)
    opened = moved(transport, drawn._replace(spare=torch.zeros_like(drawn.spare)))
    for name in ("points", "gates"):
        before, now, heard = (getattr(each, name)[:, own] for each in (alone, beside, opened))
        assert (now - before).abs().max() < 0.2 * (heard - before).abs().max()
    assert (beside.points[:, own] - alone.points).abs().max() < 0.05


# --- contexts shared by futures -------------------------------------------------------------------


@pytest.mark.parametrize("make", [untrained, stirred])
def test_a_context_shared_by_futures_is_that_of_each(make: Callable[[], AtomTransport]) -> None:
    """Two origins with three futures each, one of them without atoms."""
    transport, shared, number = make(), 2, 3
    days = [drawn_days(seed) for seed in range(shared)]
    points, weights, spare = (torch.cat([day[part] for day in days]) for part in range(3))
    weights[4] = 0
    context, state = days[0].context[:shared], days[0].state[:shared]
    together = moved(transport, Drawn(points, weights, spare, context, state))
    repeated = Drawn(
        points, weights, spare,
        context.repeat_interleave(number, dim=0), state.repeat_interleave(number, dim=0),
    )  # fmt: skip
    for one, two in zip(together, moved(transport, repeated), strict=True):
        assert_close(one, two)
    if make is stirred:
        turned = repeated._replace(context=repeated.context.flip(0), state=repeated.state.flip(0))
        assert (moved(transport, turned).points - together.points).abs().max() > 1e-3


# --- what an atom is moved by ---------------------------------------------------------------------


@pytest.mark.parametrize("attention", [True, False])
def test_only_attention_lets_atoms_context_and_state_move_an_atom(attention: bool) -> None:
    transport, drawn = stirred(attention=attention), drawn_days()
    before = moved(transport, drawn).points[:, 0]
    points = drawn.points.clone()
    points[:, 1:] = points[:, 1:].flip(2)
    for other in (
        drawn._replace(points=points),
        drawn._replace(context=-drawn.context),
        drawn._replace(state=-drawn.state),
    ):
        change = (moved(transport, other).points[:, 0] - before).abs().max()
        assert change > 1e-3 if attention else change < 1e-6


@pytest.mark.parametrize("attention", [True, False])
def test_a_gradient_reaches_every_layer_that_is_used(attention: bool) -> None:
    transport, drawn = stirred(attention=attention), drawn_days()
    futures = transport(*drawn)
    toward = torch.randn(FUTURES, ATOMS, DIMENSION, generator=torch.Generator().manual_seed(1))
    mean = (futures.weights[..., None] * futures.points * toward).sum()
    (mean + (futures.gates * toward[..., 0]).sum()).backward()
    silent = {
        name
        for name, parameter in transport.named_parameters()
        if parameter.grad is None or parameter.grad.abs().max() < 1e-7
    }
    of_attention = ("project", "query", "context", "mixed", "norm", "state")
    unused = {
        name
        for name, _ in transport.named_parameters()
        if not attention and any(part in name.split(".") for part in of_attention)
    }
    assert silent == unused


def test_in_use_only_atoms_that_exist_are_computed_and_all_is_as_in_training() -> None:
    drawn = drawn_days()
    weights = drawn.weights.clone()
    weights[0, 2:] = weights[1] = 0  # a day of two atoms, and one without any
    drawn = drawn._replace(weights=weights)
    transport = stirred()
    in_training = Futures(*(part.detach() for part in transport(*drawn)))
    for one, two in zip(moved(transport, drawn), in_training, strict=True):
        assert_close(one, two)
    # What stands in empty slots is looked at by nobody.
    elsewhere = torch.where(weights[..., None] > 0, drawn.points, drawn.points.flip(0))
    for one, two in zip(
        moved(transport, drawn._replace(points=elsewhere)), in_training, strict=True
    ):
        assert_close(one, two)
