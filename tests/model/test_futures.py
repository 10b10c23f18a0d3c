"""Futures: days are drawn as their probabilities say, and their atoms are those of the pack."""

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.common.errors import MeasuresError
from gdelphi.measures.pack import Pack
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.futures import (
    MOST_ATOMS,
    RECENT,
    AtomTable,
    Drawing,
    DrawnFutures,
    GeneratedFutures,
    Origins,
    RandomNumbers,
    draw,
    origins_of,
    probabilities_at,
    random_numbers_for,
    sample_futures,
    training_random_numbers,
)
from gdelphi.model.network import MeasureModel, ModelOutput
from gdelphi.model.transport import CLOSED, OPEN
from helpers.measured_world import DAYS, FIRST, GONE
from helpers.training_world import SEQUENCES, small_settings

STREAMS, VARIANTS = 4, 2
QUIET, EMPTY = 3, 26  # a stream, and a day on which it is empty
CONTEXT = SEQUENCES["context_days"]
CPU = torch.device("cpu")
ALMOST_1 = float(np.nextafter(1.0, 0.0))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return load_training_data(small_settings(tmp_path_factory))


@pytest.fixture(scope="module")
def pack(data: TrainingData) -> Pack:
    return data.arrays.pack


@pytest.fixture(scope="module")
def table(pack: Pack) -> AtomTable:
    return AtomTable(pack)


@pytest.fixture(scope="module")
def maker(data: TrainingData) -> BatchMaker:
    return data.batches(CPU)


def origins_at(stream: int | list[int], position: int | list[int]) -> Origins:
    """Of batches in which every sequence has one day."""
    streams, positions = torch.as_tensor(stream).view(-1), torch.as_tensor(position).view(-1)
    streams, positions = torch.broadcast_tensors(streams, positions)
    return Origins(torch.arange(len(streams)), torch.zeros_like(streams), streams, positions)


def dice_with(days: Tensor, variants: int = 0, seed: int = 0) -> RandomNumbers:
    """RandomNumbers whose days are these, [G, K]."""
    random = torch.Generator().manual_seed(seed)
    clocks = torch.empty(*days.shape, RECENT * MOST_ATOMS).exponential_(generator=random)
    return RandomNumbers(days, torch.full(days.shape, variants), clocks)


def place_of(table: AtomTable, row: int) -> tuple[int, int, int]:
    """Day, stream and descriptor that a row of the table belongs to."""
    place = int(torch.searchsorted(table.starts, row, right=True)) - 1
    rest, variant = divmod(place, VARIANTS + 1)
    day, stream = divmod(rest, STREAMS)
    return day, stream, variant


# --- the table ------------------------------------------------------------------------------------


def test_what_is_gathered_is_the_packs_on_every_day(table: AtomTable, pack: Pack) -> None:
    axes = (torch.arange(-2, DAYS + 2), torch.arange(STREAMS), torch.arange(VARIANTS + 1))
    days, streams, variants = torch.meshgrid(*axes, indexing="ij")
    found = table.gather(streams, days, variants)
    assert found.weights.shape == (*days.shape, MOST_ATOMS)
    atoms = 0
    for day, stream, variant in np.ndindex(DAYS, STREAMS, VARIANTS + 1):
        expected = pack.atoms(day, stream, variant)
        at, size = (day + 2, stream, variant), len(expected.weights)
        np.testing.assert_array_equal(found.points[at][:size].numpy(), expected.points)
        np.testing.assert_array_equal(found.weights[at][:size].numpy(), expected.weights)
        assert not found.points[at][size:].any()
        assert not found.weights[at][size:].any()
        atoms += size
    assert atoms == len(table.weights)


def test_empty_missing_and_outside_days_have_no_atoms(table: AtomTable) -> None:
    days = torch.tensor([EMPTY, *GONE, -1, -400, DAYS, DAYS + 400])
    for variant in range(VARIANTS + 1):
        found = table.gather(torch.full_like(days, QUIET), days, variant)
        assert not found.weights.any()
        assert not found.points.any()


def test_a_pack_without_any_atom_is_refused() -> None:
    nothing = (np.zeros((0, 8), np.float32), np.zeros(0, np.float32), np.zeros(9, np.int64))
    empty: Any = SimpleNamespace(atom_columns=lambda: nothing, folder="packs/empty")
    with pytest.raises(MeasuresError, match="packs/empty has no descriptors"):
        AtomTable(empty)


def test_origins_are_named_by_stream_and_day(table: AtomTable) -> None:
    names = table.keys(origins_at([0, QUIET], [0, 30]))
    assert names == [("TZ", FIRST), ("KE", FIRST + timedelta(days=30))]


# --- drawing days ---------------------------------------------------------------------------------


def test_days_are_drawn_as_often_as_their_probabilities_say(table: AtomTable) -> None:
    """Each frequency within 4.5 standard errors, and no day of probability 0 among 8,000."""
    number, position = 4000, 40
    torch.manual_seed(0)
    probabilities = torch.rand(2, 12).masked_fill(torch.rand(2, 12) < 0.4, 0.0)
    probabilities[1] *= 7  # need not sum to 1
    found = draw(table, origins_at([0, 1], position), probabilities, Drawing(number, 1, False),
                 training_random_numbers(2, number, VARIANTS, CPU))  # fmt: skip
    for row in range(2):
        counts = np.bincount(found.days[row].numpy() - (position - 11), minlength=12)
        expected = (probabilities[row] / probabilities[row].sum()).numpy()
        error = np.sqrt(expected * (1 - expected) / number)
        assert (np.abs(counts / number - expected) <= 4.5 * error).all()
        assert (counts[expected == 0] == 0).all()


@pytest.mark.parametrize("total", [1.0, 0.3, 1e-6, 7.0])
def test_the_least_and_the_largest_dice_draw_days_that_can_be(
    table: AtomTable, total: float
) -> None:
    """At both ends, and between them, lie days of probability 0."""
    shape = torch.tensor([0, 0, 0.1, 0, 0.7, 1e-9, 0.2, 0, 0], dtype=torch.float32)
    uniform = torch.tensor([[0.0, 1e-300, ALMOST_1, 0.1, 0.8]], dtype=torch.float64)
    probabilities = total * shape[None]
    found = draw(table, origins_at(0, 30), probabilities, Drawing(5, 12), dice_with(uniform))
    columns = found.days[0] - (30 - 8)
    assert (probabilities[0, columns] > 0).all()
    assert columns[:3].tolist() == [2, 2, 6]


@pytest.mark.parametrize("column", [0, 3, 8])
@pytest.mark.parametrize("variant", range(VARIANTS + 1))
def test_a_day_that_is_certain_gives_its_own_atoms(
    table: AtomTable, pack: Pack, column: int, variant: int
) -> None:
    """The last column is the origin itself; days before the first have no atoms."""
    for stream, position in ((0, 40), (QUIET, EMPTY + 1), (1, 5), (2, GONE[0] + 5)):
        certain = torch.zeros(1, 9)
        certain[0, column] = 0.4
        random_numbers = dice_with(
            torch.tensor([[0.0, 0.5, ALMOST_1]], dtype=torch.float64), variant
        )
        found = draw(
            table, origins_at(stream, position), certain, Drawing(3, 12, False), random_numbers
        )
        day = position - 8 + column
        assert found.days.tolist() == [[day] * 3]
        expected = pack.atoms(day, stream, variant) if day >= 0 else None
        size = len(expected.weights) if expected else 0
        for future in range(3):
            assert not found.weights[future, size:].any()
            assert not found.points[future, size:].any()
            if expected:
                np.testing.assert_array_equal(found.points[future, :size], expected.points)
                np.testing.assert_array_equal(found.weights[future, :size], expected.weights)


def test_chances_are_even_and_sum_to_1(table: AtomTable) -> None:
    torch.manual_seed(1)
    random_numbers = training_random_numbers(2, 7, VARIANTS, CPU)
    found = draw(table, origins_at([0, 1], 40), torch.rand(2, 9), Drawing(7, 12), random_numbers)
    torch.testing.assert_close(found.chances, torch.full((2, 7), 1 / 7))
    torch.testing.assert_close(found.chances.sum(dim=1), torch.ones(2))


@pytest.mark.parametrize("number", [2, 3])
def test_on_average_the_slope_is_that_of_the_expectation(table: AtomTable, number: int) -> None:
    """Over all ways to draw K of 3 days. That the chances sum to 1 costs one part in K of the
    slope: E[sum c f]' = (1 - 1 / K) (sum p f)', where the probabilities sum to 1."""
    logits = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([2.0, -1.0, 5.0], dtype=torch.float64)
    probabilities = logits.softmax(dim=0)
    (exact,) = torch.autograd.grad(probabilities @ values, logits, retain_graph=True)
    ways = torch.cartesian_prod(*[torch.arange(3)] * number)
    middle = (probabilities.cumsum(dim=0) - probabilities / 2).detach()[ways]
    origins = origins_at([0] * len(ways), 40)
    found = draw(table, origins, probabilities.expand(len(ways), -1), Drawing(number, 1, False),
                 dice_with(middle))  # fmt: skip
    assert torch.equal(found.days, 38 + ways)
    likely = probabilities.detach()[ways].prod(dim=1)
    assert likely.sum().item() == pytest.approx(1)
    mean = likely @ (found.chances * values[ways]).sum(dim=1)
    assert mean.item() == pytest.approx((probabilities @ values).item())
    (slope,) = torch.autograd.grad(mean, logits)
    torch.testing.assert_close(slope, (1 - 1 / number) * exact)


# --- own and spare atoms --------------------------------------------------------------------------


def many_draws(table: AtomTable, drawing: Drawing, seed: int = 0) -> tuple[Origins, DrawnFutures]:
    """At all streams and many days, from probabilities over 30 days, recent ones likely."""
    torch.manual_seed(seed)
    days = torch.tensor([0, 2, 5, EMPTY, EMPTY + 1, 40, GONE[1], GONE[1] + 3, DAYS - 1])
    streams, positions = (each.flatten() for each in torch.meshgrid(
        torch.arange(STREAMS), days, indexing="ij"))  # fmt: skip
    origins = Origins(torch.arange(len(streams)), torch.zeros_like(streams), streams, positions)
    probabilities = torch.rand(len(streams), 30) * 0.5 ** torch.arange(6, 0, -0.2)
    random_numbers = training_random_numbers(len(streams), drawing.number, VARIANTS, CPU)
    return origins, draw(table, origins, probabilities, drawing, random_numbers)


@pytest.mark.parametrize("slots", [12, 6, 40])
def test_own_atoms_come_first_and_spare_ones_from_the_last_days(
    table: AtomTable, pack: Pack, slots: int
) -> None:
    """Never from after the origin, another stream, another descriptor, or twice."""
    number = 8
    origins, found = many_draws(table, Drawing(number, slots))
    spares, same_day = 0, 0
    for future in range(len(found.weights)):
        group, member = divmod(future, number)
        stream, position = int(origins.stream[group]), int(origins.position[group])
        day = int(found.days[group, member])
        there = found.weights[future] > 0
        own, spare = there & ~found.spare[future], there & found.spare[future]
        size = int(own.sum())
        assert own[:size].all()
        assert there[: int(there.sum())].all()
        rows = found.rows[future]
        kept = table.points[rows] * there[:, None]
        torch.testing.assert_close(found.points[future], kept, rtol=0, atol=0)
        if size:
            drawn_day, drawn_stream, variant = place_of(table, int(rows[0]))
            assert (drawn_day, drawn_stream) == (day, stream)
            expected = pack.atoms(day, stream, variant)
            assert size == min(len(expected.weights), slots)
            np.testing.assert_array_equal(found.points[future, :size], expected.points[:size])
            np.testing.assert_array_equal(found.weights[future, :size], expected.weights[:size])
        recent = [each for each in range(position - RECENT + 1, position + 1) if each >= 0]
        same_day += day in recent
        for place in torch.nonzero(spare).flatten().tolist():
            from_day, from_stream, variant = place_of(table, int(rows[place]))
            assert (from_stream, variant) == (stream, 0)
            assert from_day in recent
            assert from_day != day
            weight = table.weights[rows[place]] / RECENT
            assert found.weights[future, place] == weight
        assert len(set(rows[there].tolist())) == int(there.sum())
        offered = sum(len(pack.atoms(each, stream).weights) for each in recent if each != day)
        assert int(spare.sum()) == min(offered, slots - size)
        spares += int(spare.sum())
    assert spares > 100
    assert same_day > 50


def test_spare_atoms_are_drawn_by_their_weight(table: AtomTable, pack: Pack) -> None:
    """The first of them, where all the last days' atoms can be drawn; 4.5 standard errors."""
    number, stream, position = 4000, 1, 40
    long_ago = torch.zeros(1, 30)
    long_ago[0, 0] = 1
    torch.manual_seed(0)
    found = draw(table, origins_at(stream, position), long_ago, Drawing(number, 12),
                 training_random_numbers(1, number, 0, CPU))  # fmt: skip
    size = len(pack.atoms(position - 29, stream).weights)
    first = found.rows[:, size].numpy()
    days = torch.arange(position - RECENT + 1, position + 1)
    rows, weights = table.rows(torch.full_like(days, stream), days)
    rows, weights = rows[weights > 0].numpy(), weights[weights > 0].numpy()
    assert set(first.tolist()) <= set(rows.tolist())
    expected = weights / weights.sum()
    counts = np.array([(first == row).sum() for row in rows])
    error = np.sqrt(expected * (1 - expected) / number)
    assert (np.abs(counts / number - expected) <= 4.5 * error).all()


def test_without_spares_there_are_none(table: AtomTable) -> None:
    _, with_them = many_draws(table, Drawing(8, 12))
    _, without = many_draws(table, Drawing(8, 12, spare_atoms=False))
    assert torch.equal(with_them.days, without.days)
    own = with_them.weights.masked_fill(with_them.spare, 0.0)
    assert torch.equal(without.weights, own)
    assert not (without.spare & (without.weights > 0)).any()
    assert (with_them.spare & (with_them.weights > 0)).any()


# --- random numbers -------------------------------------------------------------------------------

KEYS = [("TZ", date(2021, 2, 3)), ("KE", date(2021, 2, 3)), ("TZ", date(2021, 2, 4))]


def test_dice_are_a_function_of_stream_day_and_seed_alone() -> None:
    together = random_numbers_for(KEYS, 5, 3, CPU)
    for row, key in enumerate(KEYS):
        torch.rand(3)
        np.random.default_rng().random()
        for one, two in zip(random_numbers_for([key], 5, 3, CPU), together, strict=True):
            assert torch.equal(one[0], two[row])
    for one, two in zip(random_numbers_for(KEYS[::-1], 5, 3, CPU), together, strict=True):
        assert torch.equal(one, two.flip(0))


def test_dice_of_other_streams_days_and_seeds_are_others() -> None:
    found = [
        *random_numbers_for(KEYS, 5, 3, CPU).days,
        *random_numbers_for(KEYS[:1], 5, 4, CPU).days,
    ]
    for place, one in enumerate(found):
        assert all(not torch.equal(one, two) for two in found[:place])


def test_dice_are_uniform_and_take_a_days_own_descriptor() -> None:
    random_numbers = random_numbers_for(KEYS, 2000, 0, CPU)
    assert ((random_numbers.days >= 0) & (random_numbers.days < 1)).all()
    assert random_numbers.days.mean().item() == pytest.approx(0.5, abs=4.5 / (12 * 6000) ** 0.5)
    assert random_numbers.clocks.mean().item() == pytest.approx(1, abs=0.02)
    assert not random_numbers.variants.any()
    assert random_numbers_for([], 5, 0, CPU).clocks.shape == (0, 5, RECENT * MOST_ATOMS)


# --- origins inside a sequence --------------------------------------------------------------------


def stirred(data: TrainingData, scale: float = 0.1) -> MeasureModel:
    """A model none of whose layers is at zero."""
    torch.manual_seed(0)
    model = data.model().eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(scale * torch.randn_like(each))
    return model


@torch.no_grad()
def said_of(model: MeasureModel, batch: Batch) -> ModelOutput:
    said: ModelOutput = model(batch.past)
    return said


def inside(batch: Batch, row: list[int], day: list[int]) -> Origins:
    streams, ends = torch.from_numpy(batch.streams), torch.from_numpy(batch.ends)
    return origins_of(streams, ends, CONTEXT, torch.tensor(row), torch.tensor(day))


def test_an_origin_is_a_day_of_its_sequence(maker: BatchMaker) -> None:
    batch = maker.make(np.array([2, 0]), np.array([40, 60]))
    found = inside(batch, [0, 1, 1], [CONTEXT - 1, 0, 3])
    assert found.stream.tolist() == [2, 0, 0]
    assert found.position.tolist() == [40, 60 - CONTEXT + 1, 60 - CONTEXT + 4]


@pytest.mark.parametrize("end", [4, 29, 60, DAYS - 1])
@pytest.mark.parametrize("make", [stirred, lambda data: data.model().eval()])
def test_an_origin_within_a_sequence_draws_from_the_days_of_one_at_its_end(
    data: TrainingData, maker: BatchMaker, make: Any, end: int
) -> None:
    """Untrained, from the same probabilities; context makes a difference to a trained model, but
    not which days can be drawn."""
    model, streams = make(data), np.array([0, QUIET])
    long = maker.make(streams, np.full(2, end))
    said = said_of(model, long)
    for day in range(CONTEXT):
        position = end - CONTEXT + 1 + day
        if position < 0:
            continue
        found = probabilities_at(said, long.past, inside(long, [0, 1], [day, day]))
        short = maker.make(streams, np.full(2, position))
        expected = said_of(model, short).day_probabilities[:, -1]
        assert torch.equal(found > 0, expected > 0)
        torch.testing.assert_close(found.sum(dim=1), torch.ones(2))
        if make is not stirred:
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


# --- futures --------------------------------------------------------------------------------------


@torch.no_grad()
def imagined(
    model: MeasureModel, batch: Batch, origins: Origins, table: AtomTable, *, seed: int = 0
) -> GeneratedFutures:
    said: ModelOutput = model(batch.past)
    drawing = Drawing(6, 12)
    return sample_futures(model, batch.past, said, origins, table, drawing, seed=seed)


def flat(found: GeneratedFutures) -> list[Tensor]:
    return [*found.drawn, *found.futures, found.logits]


def test_untrained_the_futures_are_the_drawn_days(
    data: TrainingData, maker: BatchMaker, table: AtomTable
) -> None:
    """With spare atoms of the last days nearly closed."""
    batch = maker.make(np.arange(STREAMS), np.full(STREAMS, 60))
    origins = inside(batch, [0, 1, 2, 3, 0], [9, 9, 9, 9, 4])
    drawn, futures, *_ = imagined(data.model().eval(), batch, origins, table)
    torch.testing.assert_close(futures.points, drawn.points, rtol=0, atol=1e-6)
    gates = torch.where(drawn.spare, CLOSED, OPEN).sigmoid() * (drawn.weights > 0)
    torch.testing.assert_close(futures.gates, gates)
    mass = drawn.weights * gates
    torch.testing.assert_close(futures.weights, mass / mass.sum(dim=1, keepdim=True))
    own = (drawn.weights * ~drawn.spare).sum(dim=1) > 0
    assert own.any()
    assert ((futures.weights * drawn.spare).sum(dim=1)[own] < 0.02).all()


def test_origins_imagined_together_are_those_imagined_alone(
    data: TrainingData, maker: BatchMaker, table: AtomTable
) -> None:
    model = stirred(data)
    batch = maker.make(np.array([0, QUIET]), np.array([60, 44]))
    rows, days = [1, 0, 0, 1], [9, 2, 9, 5]
    together = flat(imagined(model, batch, inside(batch, rows, days), table))
    for place, (row, day) in enumerate(zip(rows, days, strict=True)):
        alone = flat(imagined(model, batch, inside(batch, [row], [day]), table))
        for one, two in zip(alone, together, strict=True):
            part = two.unflatten(0, (len(rows), -1))[place]
            torch.testing.assert_close(one, part.view(one.shape), equal_nan=True)
    other = imagined(model, batch, inside(batch, rows, days), table, seed=1)
    assert not torch.equal(other.drawn.days, together[0])


def test_an_origin_without_any_past_has_futures_without_atoms(
    data: TrainingData, maker: BatchMaker, table: AtomTable
) -> None:
    """The day before the first, beside one that has a past."""
    batch = maker.make(np.array([0, 1]), np.array([2, 40]))
    before = CONTEXT - 4
    origins = inside(batch, [0, 1], [before, before])
    assert origins.position[0] == -1
    drawn, futures, logits, _ = imagined(stirred(data), batch, origins, table)
    assert not drawn.weights[:6].any()
    for values in futures:
        assert not values[:6].any()
        assert values[6:].any()
    assert logits[:, :2].isfinite().all()
    assert torch.equal(logits[:, 2].isnan(), batch.past.thresholds[:, before].isnan())
    assert not logits.isinf().any()


@pytest.mark.parametrize("day", [0, 4, CONTEXT - 1])
def test_nothing_after_the_origin_matters(
    data: TrainingData, maker: BatchMaker, pack: Pack, day: int
) -> None:
    """The rows of the table are in the order of days: those of later ones are made up."""
    model, end = stirred(data), 60
    batch = maker.make(np.arange(STREAMS), np.full(STREAMS, end))
    origins = inside(batch, list(range(STREAMS)), [day] * STREAMS)
    position = int(origins.position[0])
    honest, garbled = AtomTable(pack), AtomTable(pack)
    later = int(honest.starts[(position + 1) * STREAMS * (VARIANTS + 1)])
    assert later < len(honest.weights)
    points, weights = honest.points.clone(), honest.weights.clone()
    points[later:] = torch.randn(points[later:].shape)
    weights[later:] = 5 * torch.rand(weights[later:].shape)
    garbled.points, garbled.weights = points, weights
    expected, found = (imagined(model, batch, origins, each) for each in (honest, garbled))
    for one, two in zip(flat(expected), flat(found), strict=True):
        assert torch.equal(one.nan_to_num(9), two.nan_to_num(9))
    assert (expected.drawn.days <= origins.position[:, None]).all()
    points[:later] = points[:later].flip(0)  # what came before does
    changed = imagined(model, batch, origins, garbled)
    assert not torch.equal(changed.logits.nan_to_num(9), expected.logits.nan_to_num(9))
