"""A batch says of each sequence what the pack and the arrays say of its days."""

import shutil
from datetime import timedelta

import numpy as np
import pytest
import torch

from gdelphi.measures.pack import STATES, Pack
from gdelphi.measures.pack_arrays import PackArrays, read_pack_arrays
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import MeasureModel
from helpers.measured_world import DAYS, FIRST, GONE, Measured, measured

CONTEXT, MEMORY = 7, 20
LENGTH = MEMORY + CONTEXT - 1
PLENTY = 1000  # more points than any cloud has
STREAMS = np.array([0, 3, 1, 2, 0])
ENDS = np.array([3, GONE[0] + 1, 40, DAYS - 1, GONE[1]])
"""before the first day lie some days of the first sequence; the second and fifth have a gap"""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture(scope="module")
def arrays(world: Measured, tmp_path_factory: pytest.TempPathFactory) -> PackArrays:
    return arrays_of(world, tmp_path_factory)


def arrays_of(world: Measured, factory: pytest.TempPathFactory) -> PackArrays:
    """Of a copy of the pack: it leaves a file beside it."""
    folder = factory.mktemp("pack")
    shutil.copytree(world.packed.folder, folder, dirs_exist_ok=True)
    return read_pack_arrays(Pack(folder))


def config_of(world: Measured, context: int = CONTEXT) -> MeasureConfig:
    return MeasureConfig(
        dimension=world.pack.facts.dimension, context_days=context, memory_days=MEMORY, width=16
    )


def maker_of(world: Measured, arrays: PackArrays, points: int = PLENTY) -> BatchMaker:
    return BatchMaker(arrays, world.space, config_of(world), points=points)


@pytest.fixture(scope="module")
def batch(world: Measured, arrays: PackArrays) -> Batch:
    return maker_of(world, arrays).make(STREAMS, ENDS)


def days_of(row: int, length: int) -> list[int]:
    """Positions of the last days of a sequence; below 0 before the first."""
    return list(range(ENDS[row] - length + 1, ENDS[row] + 1))


# --- positions ------------------------------------------------------------------------------------


def test_the_memory_ends_with_the_last_day_and_reaches_as_far_as_the_first_may_look(
    batch: Batch,
) -> None:
    assert batch.past.days == CONTEXT
    assert batch.past.present.shape == (len(ENDS), LENGTH)
    assert batch.past.features.shape[1] - batch.past.days + 1 == MEMORY
    assert batch.streams is STREAMS
    assert batch.ends is ENDS


@pytest.mark.parametrize(
    ("name", "source"),
    [("features", "features"), ("counts", "relative"), ("occurs", "occurs"),
     ("headline", "headline"), ("shares", "shares")],
)  # fmt: skip
def test_the_memory_is_the_arrays_of_its_days_and_zeros_before_the_first(
    batch: Batch, arrays: PackArrays, name: str, source: str
) -> None:
    found, whole = getattr(batch.past, name).numpy(), getattr(arrays, source)
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, LENGTH)):
            expected = whole[stream, day] if day >= 0 else np.zeros(whole.shape[2])
            np.testing.assert_array_equal(found[row, place], expected.astype(np.float32))


def test_days_before_the_first_are_missing_and_have_their_weekday(
    batch: Batch, arrays: PackArrays
) -> None:
    for row in range(len(ENDS)):
        days = days_of(row, LENGTH)
        present = [day >= 0 and day not in GONE for day in days]
        assert batch.past.present[row].tolist() == present
        weekdays = [(FIRST + timedelta(days=day)).weekday() for day in days]
        assert batch.past.weekday[row].tolist() == weekdays
    assert [bool(arrays.present[gone]) for gone in GONE] == [False, False]


def test_thresholds_pooled_rates_and_the_usual_are_those_at_each_origin(
    batch: Batch, arrays: PackArrays
) -> None:
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            thresholds = batch.past.thresholds[row, place].numpy()
            if day < 0:
                assert np.isnan(thresholds).all()
                continue
            expected = arrays.thresholds[stream, day].astype(np.float32)
            np.testing.assert_array_equal(thresholds, expected)
            usual = arrays.usual[stream, day].astype(np.float32)
            np.testing.assert_array_equal(batch.past.usual[row, place].numpy(), usual)
            pooled = arrays.pooled[:, day].astype(np.float32)
            np.testing.assert_array_equal(batch.past.pooled[row, place].numpy(), pooled)
    assert batch.past.thresholds.isfinite().any()
    assert batch.past.pooled.isfinite().all()
    assert (batch.past.usual > 0).all()  # its logarithm is taken


def test_what_came_is_the_outcome_after_each_day_and_unknown_outside(
    batch: Batch, arrays: PackArrays
) -> None:
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            found = batch.outcomes[row, place].numpy()
            if day < 0:
                assert np.isnan(found).all()
                continue
            np.testing.assert_array_equal(found, arrays.outcomes[:, stream, day])
    assert batch.outcomes[3, -1].isnan().all()  # nothing is known after the last day
    assert batch.outcomes[1, -3].isnan().all()  # nor of a missing one
    assert batch.outcomes[1, -2, :2].isfinite().all()  # a missing day can be an origin


def test_the_rows_that_came_are_those_of_the_day_after_where_it_is_known(
    batch: Batch, arrays: PackArrays
) -> None:
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            found = batch.rows[row, place].numpy()
            if day < 0 or day + 1 == DAYS or day + 1 in GONE:
                assert np.isnan(found).all()
            else:
                np.testing.assert_array_equal(found, arrays.pack.counts[stream, day + 1])
    assert batch.rows.nan_to_num(0).any()


# --- clouds ---------------------------------------------------------------------------------------


def test_points_are_the_packs_and_have_length_1(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = measured(tmp_path_factory)
    pack = world.pack
    past = maker_of(world, arrays_of(world, tmp_path_factory)).make(STREAMS, ENDS).past
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            slots, weights = pack.cloud(day, stream) if day >= 0 else (np.zeros((0, 3), int), [])
            size = len(weights)
            np.testing.assert_array_equal(past.weights[row, place, :size].numpy(), weights)
            assert not past.weights[row, place, size:].any()
            found = past.points[row, place, :size].numpy()
            np.testing.assert_allclose(found, pack.points(slots, world.space), atol=1e-7)
            np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert past.points.isfinite().all()


def test_only_days_with_a_cloud_have_mass_and_it_is_1(batch: Batch, arrays: PackArrays) -> None:
    mass = batch.past.weights.sum(dim=2).numpy()
    states = set()
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            state = STATES[arrays.pack.states[day, stream]] if day >= 0 else "before"
            states.add(state)
            expected = 1 if state in ("small", "full") else 0
            assert mass[row, place] == pytest.approx(expected, abs=1e-6)
    assert {"before", "missing", "full"} <= states


def test_of_too_many_points_the_heaviest_are_kept(world: Measured, arrays: PackArrays) -> None:
    few = 5
    past = maker_of(world, arrays, few).make(STREAMS, ENDS).past
    assert past.points.shape[2] == few
    cut = 0
    for row, stream in enumerate(STREAMS):
        for place, day in enumerate(days_of(row, CONTEXT)):
            slots, weights = world.pack.cloud(max(day, 0), stream)
            if day < 0 or len(weights) <= few:
                continue
            cut += 1
            heaviest = np.argsort(-weights, kind="stable")[:few]
            expected = weights[heaviest] / weights[heaviest].sum()
            np.testing.assert_allclose(past.weights[row, place].numpy(), expected, rtol=1e-6)
            points = world.pack.points(slots[heaviest], world.space)
            np.testing.assert_allclose(past.points[row, place].numpy(), points, atol=1e-7)
    assert cut > 10


def test_clouds_may_have_any_size(world: Measured, arrays: PackArrays) -> None:
    """A single point, all of them, or none on any day."""
    sizes = [len(world.pack.cloud(day, 0)[1]) for day in range(DAYS)]
    day = int(np.argmax(sizes))
    model = MeasureModel(config_of(world)).eval()
    random = np.random.default_rng(0)
    for points in (1, 2, sizes[day] - 1, sizes[day], 10_000):
        for given in (None, random):
            past = maker_of(world, arrays, points).make(np.array([0]), np.array([day]), given).past
            assert past.weights.shape[2] <= min(points, sizes[day])
            assert past.weights[0, -1].sum().item() == pytest.approx(1, abs=1e-6)
            with torch.no_grad():
                assert model(past).states.isfinite().all()
    alone = BatchMaker(arrays, world.space, config_of(world, context=1), points=8)
    nothing = alone.make(np.array([0, 1]), np.array([GONE[0], GONE[0]])).past
    assert nothing.weights.shape[:2] == (2, 1)
    assert not nothing.weights.any()
    with torch.no_grad():
        assert MeasureModel(config_of(world, context=1)).eval()(nothing).states.isfinite().all()


# --- sampling -------------------------------------------------------------------------------------


def test_a_sample_of_a_cloud_is_the_cloud_on_average(world: Measured, arrays: PackArrays) -> None:
    """Systematic sampling: with n draws a point of weight w is drawn floor(n w) or ceil(n w) times,
    so its weight has mean w and variance f (1 - f) / n^2, f the fraction of n w."""
    number, repeats = 8, 400
    day = int(np.argmax([len(world.pack.cloud(day, 0)[1]) for day in range(DAYS)]))
    slots, weights = world.pack.cloud(day, 0)
    weights = weights.astype(np.float64)
    points = world.pack.points(slots, world.space)
    assert len(weights) > 10 * number
    maker = maker_of(world, arrays, number)
    random = np.random.default_rng(11)
    drawn = np.zeros((repeats, len(weights)))
    for repeat in range(repeats):
        past = maker.make(np.array([0]), np.array([day]), random).past
        masses = past.weights[0, -1].numpy()
        assert masses.sum() == pytest.approx(1, abs=1e-6)
        alike = past.points[0, -1].numpy() @ points.T > 1 - 1e-5
        assert (alike[masses > 0].sum(axis=1) == 1).all()
        for mass, place in zip(masses[masses > 0], alike[masses > 0].argmax(axis=1), strict=True):
            drawn[repeat, place] += mass
    counts = number * drawn
    np.testing.assert_allclose(counts, counts.round(), atol=1e-5)
    assert (counts.round() >= np.floor(number * weights)).all()
    assert (counts.round() <= np.ceil(number * weights)).all()
    fraction = number * weights % 1
    error = np.sqrt(fraction * (1 - fraction) / repeats) / number
    assert (np.abs(drawn.mean(axis=0) - weights) < 4.5 * error).all()


def test_a_point_drawn_twice_is_one_point_of_twice_the_weight(
    world: Measured, arrays: PackArrays
) -> None:
    """With one draw fewer than points, the heavy ones are drawn more often than once."""
    day = int(np.argmax([len(world.pack.cloud(day, 0)[1]) for day in range(DAYS)]))
    number = len(world.pack.cloud(day, 0)[1]) - 1
    maker = maker_of(world, arrays, number)
    past = maker.make(np.array([0]), np.array([day]), np.random.default_rng(0)).past
    masses = number * past.weights[0, -1].numpy()
    times = masses[masses > 0]
    np.testing.assert_allclose(times, times.round(), atol=1e-4)
    assert times.max() > 1.5
    assert len(times) < number


def test_clouds_that_are_small_enough_are_never_sampled(
    world: Measured, arrays: PackArrays, batch: Batch
) -> None:
    random = np.random.default_rng(0)
    sampled = maker_of(world, arrays).make(STREAMS, ENDS, random)
    for one, two in zip(sampled.past, batch.past, strict=True):
        assert torch.equal(one.nan_to_num(9), two.nan_to_num(9))
    assert random.random() == np.random.default_rng(0).random()


def test_a_seed_makes_a_batch(world: Measured, arrays: PackArrays) -> None:
    def made(seed: int) -> Batch:
        return maker_of(world, arrays, 6).make(STREAMS, ENDS, np.random.default_rng(seed))

    one, two, other = made(1), made(1), made(2)
    for left, right in zip(one.past, two.past, strict=True):
        assert torch.equal(left.nan_to_num(9), right.nan_to_num(9))
    assert torch.equal(one.outcomes.nan_to_num(9), two.outcomes.nan_to_num(9))
    assert one.past.points.shape != other.past.points.shape or not torch.equal(
        one.past.points, other.past.points
    )


def test_sequences_made_together_are_those_made_alone(
    world: Measured, arrays: PackArrays, batch: Batch
) -> None:
    maker = maker_of(world, arrays)
    for row in range(len(ENDS)):
        alone = maker.make(STREAMS[row : row + 1], ENDS[row : row + 1])
        size = alone.past.weights.shape[2]
        together = batch.past._replace(
            points=batch.past.points[:, :, :size], weights=batch.past.weights[:, :, :size]
        )
        for one, two in zip(alone.past, together, strict=True):
            assert torch.equal(one[0].nan_to_num(9), two[row].nan_to_num(9))
        assert torch.equal(alone.outcomes[0].nan_to_num(9), batch.outcomes[row].nan_to_num(9))
        assert not batch.past.weights[row, :, size:].any()
