"""The measure transformer sees measures, never the future, and begins as the recency bootstrap."""

import math
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gdelphi.measures.pack import Pack
from gdelphi.measures.pack_arrays import PackArrays, read_pack_arrays
from gdelphi.measures.past import past_of
from gdelphi.measures.profiles import Profiles
from gdelphi.model.batches import BatchMaker
from gdelphi.model.config import TARGET_COUNT, WEEK, MeasureConfig, logits_of
from gdelphi.model.losses import log_loss, rows_loss
from gdelphi.model.network import (
    Context,
    DayEncoder,
    MeasureModel,
    ModelOutput,
    last_days,
    none_at_all,
)
from gdelphi.stack.baselines import RecencyBootstrap
from helpers.measured_world import DAYS, GONE, Measured, day_at, measured
from helpers.sphere_cases import unit

DIMENSION, FEATURES, CODES = 8, 5, 4
CONTEXT, MEMORY = 6, 10
LENGTH = MEMORY + CONTEXT - 1
NUMBER = 7  # points of a day


pytestmark = pytest.mark.usefixtures("one_thread")


def small_config(**given: Any) -> MeasureConfig:
    sizes: dict[str, Any] = {
        "dimension": DIMENSION, "features": FEATURES, "codes": CODES, "width": 16, "queries": 2,
        "heads": 2, "context_days": CONTEXT, "memory_days": MEMORY, "day_heads": 3,
        "half_lives": (2.0, 9.0), "lag_days": 3, "cell_width": 8, "event_dimension": 4, "finest": 6,
    }  # fmt: skip
    return MeasureConfig(**{**sizes, **given})


def untrained(seed: int = 0, **given: Any) -> MeasureModel:
    torch.manual_seed(seed)
    return MeasureModel(small_config(**given)).eval()


def stirred(seed: int = 0, **given: Any) -> MeasureModel:
    """A model none of whose layers is at zero: zeros would hide what they multiply."""
    model = untrained(seed, **given)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def random_past(batch: int = 2, seed: int = 0, *, number: int = NUMBER) -> Context:
    """Full days, but for one that is missing; half of the thresholds are undefined."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draw)

    present = torch.ones(batch, LENGTH, dtype=torch.bool)
    present[:, LENGTH - 3] = False
    first = torch.randint(WEEK, (batch, 1), generator=draw)
    thresholds = 0.4 * uniform(batch, CONTEXT, CODES)
    return Context(
        points=unit(normal(batch, CONTEXT, number, DIMENSION)),
        weights=normal(batch, CONTEXT, number).softmax(dim=2),
        features=normal(batch, LENGTH, FEATURES),
        counts=normal(batch, LENGTH, CODES),
        weekday=(first + torch.arange(LENGTH)) % WEEK,
        present=present,
        occurs=(uniform(batch, LENGTH, CODES) < 0.5).float(),
        headline=(uniform(batch, LENGTH, CODES) < 0.3).float(),
        shares=normal(batch, LENGTH, CODES).softmax(dim=2),
        thresholds=thresholds.masked_fill(uniform(batch, CONTEXT, CODES) < 0.5, math.nan),
        pooled=0.1 + 0.8 * uniform(batch, CONTEXT, TARGET_COUNT, CODES),
        usual=0.1 + 3 * uniform(batch, CONTEXT, CODES),
        direct=torch.full((batch, CONTEXT, TARGET_COUNT, CODES), math.nan),
    )


@torch.no_grad()
def said_by(model: MeasureModel, past: Context) -> ModelOutput:
    said: ModelOutput = model(past)
    return said


def assert_alike(one: ModelOutput, two: ModelOutput, tolerance: float = 1e-5) -> None:
    for name, left, right in zip(ModelOutput._fields, one, two, strict=True):
        torch.testing.assert_close(
            left, right, rtol=0, atol=tolerance, equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )  # fmt: skip


def by_day(said: ModelOutput) -> list[Tensor]:
    """What is said after each day, each [B, T, ...]."""
    return [values for name, values in said._asdict().items() if name != "dispersion"]


def differ(one: ModelOutput, two: ModelOutput) -> bool:
    return bool((one.states - two.states).abs().max() > 1e-3)


def identical(one: Tensor, two: Tensor) -> bool:
    """Bit by bit, but that NaN is NaN."""
    return torch.equal(one.nan_to_num(nan=1e9), two.nan_to_num(nan=1e9))


# --- a day is a measure ---------------------------------------------------------------------------


def test_the_order_of_a_days_points_changes_nothing() -> None:
    model, past = stirred(), random_past()
    order = torch.randperm(NUMBER, generator=torch.Generator().manual_seed(4))
    assert not torch.equal(order, torch.arange(NUMBER))
    shuffled = past._replace(points=past.points[:, :, order], weights=past.weights[:, :, order])
    assert_alike(said_by(model, past), said_by(model, shuffled))
    only_points = past._replace(points=past.points[:, :, order])
    assert differ(said_by(model, past), said_by(model, only_points))


@pytest.mark.parametrize("part", [0.5, 0.1])
def test_a_point_split_in_two_changes_nothing(part: float) -> None:
    model, past = stirred(), random_past()
    split = past.weights[:, :, :1]
    parts = past._replace(
        points=torch.cat([past.points, past.points[:, :, :1]], dim=2),
        weights=torch.cat([part * split, past.weights[:, :, 1:], (1 - part) * split], dim=2),
    )
    assert_alike(said_by(model, past), said_by(model, parts))
    twice = parts._replace(weights=torch.cat([past.weights, split], dim=2))
    assert differ(said_by(model, past), said_by(model, twice))


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_points_of_weight_zero_do_not_exist(scale: float) -> None:
    """Whatever stands there, as padding behind the points or among them."""
    model, past = stirred(), random_past()
    draw = torch.Generator().manual_seed(9)
    strange = scale * torch.randn(2, CONTEXT, 5, DIMENSION, generator=draw)
    padded = past._replace(
        points=torch.cat([past.points[:, :, :3], strange, past.points[:, :, 3:]], dim=2),
        weights=torch.cat(
            [past.weights[:, :, :3], torch.zeros(2, CONTEXT, 5), past.weights[:, :, 3:]], dim=2
        ),
    )
    assert_alike(said_by(model, past), said_by(model, padded))


def test_a_sequence_says_alone_what_it_says_in_a_batch() -> None:
    model, past = stirred(), random_past()
    together = said_by(model, past)
    for row in range(2):
        alone = said_by(model, Context(*(values[row : row + 1] for values in past)))
        for one, two in zip(by_day(alone), by_day(together), strict=True):
            torch.testing.assert_close(one[0], two[row], rtol=0, atol=1e-5, equal_nan=True)


def test_a_cloud_of_10_000_points_is_read_as_a_sample_of_512_up_to_sampling_error() -> None:
    """By the delta method: a token's variance over samples of m draws from the cloud is
    (sum w g^2 - (sum w g)^2) / m with g its derivative by the weights w. 200 samples."""
    size, draws, samples = 10_000, 512, 200
    torch.manual_seed(1)
    encoder = DayEncoder(small_config())
    points = unit(torch.randn(size, DIMENSION) + torch.tensor([1.0] + [0.0] * (DIMENSION - 1)))
    weights = torch.randn(size).softmax(dim=0).requires_grad_()
    whole = encoder(points[None], weights[None])[0].flatten()
    variance = []
    for token in whole:
        (slope,) = torch.autograd.grad(token, weights, retain_graph=True)
        variance.append((weights * slope**2).sum() - (weights * slope).sum() ** 2)
    expected = (torch.stack(variance) / draws).sqrt().detach()
    chosen = torch.multinomial(weights.detach().expand(samples, -1), draws, replacement=True)
    with torch.no_grad():
        found = encoder(points[chosen], torch.full((samples, draws), 1 / draws)).flatten(1)
    deviation = (found - whole.detach()) / expected
    assert deviation.abs().max() < 5  # of 6,400 normal deviates, one in 500 times
    assert 0.9 < (deviation**2).mean().sqrt() < 1.1
    assert expected.max() < 0.1 * whole.std()  # the tolerance is not the size of the tokens


def test_a_model_used_on_512_points_speaks_about_10_000() -> None:
    model = stirred()
    few, many = random_past(1, number=512), random_past(1, number=10_000)
    assert said_by(model, few).direct.shape == said_by(model, many).direct.shape
    assert not said_by(model, many).tokens.isnan().any()


# --- nothing later is seen ------------------------------------------------------------------------

MEMORY_FIELDS = ("features", "counts", "weekday", "present", "occurs", "headline", "shares")
DAY_FIELDS = ("points", "weights", "thresholds", "pooled", "usual")
FELT_BY = {
    "thresholds": "profiles",
    "pooled": "profiles",
    "usual": "log_rate",
    "counts": "log_rate",
    "present": "day_probabilities",
    "occurs": "profiles",
    "headline": "profiles",
    "shares": "profiles",
}
"""where a change is felt first; the others in the states"""


def garbled(past: Context, name: str, day: int) -> Context:
    """The past with something else after a day of the sequence in one of its parts."""
    values = getattr(past, name).clone()
    later = (
        values[:, LENGTH - CONTEXT + day + 1 :] if name in MEMORY_FIELDS else values[:, day + 1 :]
    )
    if name == "weekday":
        later[:] = (later + 3) % WEEK
    elif name == "present":
        later[:] = ~later
    elif name == "weights":
        later[:] = later.flip(2)
    else:
        later[:] = torch.randn(later.shape, generator=torch.Generator().manual_seed(5)).abs() + 0.1
    return past._replace(**{name: values})


@pytest.mark.parametrize("day", [0, 3, 4])
@pytest.mark.parametrize("name", [*DAY_FIELDS, *MEMORY_FIELDS])
def test_a_later_day_changes_nothing_that_was_said_before_it(name: str, day: int) -> None:
    model, past = stirred(), random_past()
    other = garbled(past, name, day)
    before, after = said_by(model, past), said_by(model, other)
    for one, two in zip(by_day(before), by_day(after), strict=True):
        assert identical(one[:, : day + 1], two[:, : day + 1])
    felt = FELT_BY.get(name, "states")
    one, two = (getattr(said, felt)[:, day + 1 :] for said in (before, after))
    assert not identical(one, two)


@pytest.mark.parametrize("day", range(CONTEXT - 1))
def test_all_that_comes_later_together_changes_nothing_either(day: int) -> None:
    model, past = stirred(), random_past()
    other = past
    for name in (*DAY_FIELDS, *MEMORY_FIELDS):
        other = garbled(other, name, day)
    before, after = said_by(model, past), said_by(model, other)
    for one, two in zip(by_day(before), by_day(after), strict=True):
        assert identical(one[:, : day + 1], two[:, : day + 1])


@pytest.mark.parametrize("name", ["present", "occurs", "headline", "shares"])
def test_a_day_older_than_the_memory_reaches_counts_for_nothing(name: str) -> None:
    """Day t looks back on MEMORY days, the last of them at position t of the memory."""
    model, past = stirred(), random_past()
    day = 2
    values = getattr(past, name).clone()
    values[:, :day] = 1 - values[:, :day].float()
    changed = past._replace(**{name: values})
    before, after = said_by(model, past), said_by(model, changed)
    for one, two in zip(by_day(before), by_day(after), strict=True):
        assert identical(one[:, day:], two[:, day:])
    assert not identical(before.profiles[:, :day], after.profiles[:, :day])


# --- the probability over past days ---------------------------------------------------------------


def test_day_probabilities_sum_to_1_and_leave_out_what_cannot_be_drawn() -> None:
    past = random_past()
    found = said_by(stirred(), past).day_probabilities
    torch.testing.assert_close(found.sum(dim=2), torch.ones(2, CONTEXT))
    age = torch.arange(LENGTH - CONTEXT, LENGTH)[:, None] - torch.arange(LENGTH)
    allowed = ((age >= 0) & (age < MEMORY)) & past.present[:, None]
    assert torch.equal(found > 0, allowed)


def test_a_weekday_is_preferred_because_the_next_day_has_it() -> None:
    model, past = untrained(), random_past()
    torch.nn.init.constant_(model.day_attention.same_weekday.bias, 60.0)
    found = said_by(model, past).day_probabilities
    next_day = (past.weekday[:, -CONTEXT:] + 1) % WEEK
    same = next_day[:, :, None] == past.weekday[:, None]
    torch.testing.assert_close((found * same).sum(dim=2), torch.ones(2, CONTEXT))


def test_the_key_of_a_day_speaks_of_itself_and_the_week_before_it() -> None:
    """A change on a day before the context changes the odds of the days up to 7 later, not others'.

    With one head the logarithms of two days' probabilities differ as their scores do."""
    model, past = stirred(day_heads=1), random_past()
    changed, last = 1, CONTEXT - 1
    features = past.features.clone()
    features[:, changed] += 3.0
    before = said_by(model, past).day_probabilities[:, last].log()
    after = said_by(model, past._replace(features=features)).day_probabilities[:, last].log()
    seen = torch.arange(LENGTH - MEMORY, LENGTH)
    seen = seen[past.present[0, seen]]
    moved = (after - before)[:, seen] - (after - before)[:, -1:]
    reached = seen <= changed + WEEK
    assert reached.any()
    assert (moved[:, reached].abs() > 1e-3).all()
    assert (moved[:, ~reached].abs() < 1e-5).all()


# --- empty, small and missing days ----------------------------------------------------------------


def poor_past() -> Context:
    """Nothing is present in the first sequence until its third day; that has one point, the fourth
    is empty, the fifth missing."""
    past = random_past()
    weights, present = past.weights.clone(), past.present.clone()
    present[0] = False
    present[0, LENGTH - CONTEXT + 2 : LENGTH - CONTEXT + 4] = True
    weights[0] = 0
    weights[0, 2, 0] = 1
    return past._replace(weights=weights, present=present)


@pytest.mark.parametrize("make", [untrained, stirred])
def test_only_surges_without_a_threshold_are_not_a_number(
    make: Callable[[], MeasureModel],
) -> None:
    past = poor_past()
    said = said_by(make(), past)
    undefined = past.thresholds.isnan()
    assert undefined.any()
    assert not undefined.all()
    for logits in (said.profiles, said.direct):
        assert torch.equal(logits[:, :, 2].isnan(), undefined)
        assert logits[:, :, :2].isfinite().all()
        assert not logits.isinf().any()
    for values in (said.day_probabilities, said.states, said.tokens):
        assert values.isfinite().all()


def test_before_the_first_present_day_the_pooled_rate_is_all_there_is() -> None:
    past = poor_past()
    said = said_by(stirred(), past)
    assert torch.equal(said.day_probabilities[0, :2], torch.zeros(2, LENGTH))
    torch.testing.assert_close(
        said.profiles[0, :2, :2].sigmoid(), past.pooled[0, :2, :2], atol=1e-6, rtol=0
    )
    one_day = torch.zeros(LENGTH)
    one_day[LENGTH - CONTEXT + 2] = 1
    torch.testing.assert_close(said.day_probabilities[0, 2], one_day)


def test_an_empty_day_is_the_learned_nothing_whatever_its_padding() -> None:
    encoder = stirred().day_encoder
    draw = torch.Generator().manual_seed(3)
    padding = torch.randn(4, 5, DIMENSION, generator=draw)
    tokens = encoder(padding, torch.zeros(4, 5))
    at_nothing = encoder.nothing.expand(1, 1, -1)
    torch.testing.assert_close(tokens, encoder(at_nothing, torch.ones(1, 1)).expand(4, -1, -1))


def test_gradients_stay_finite_where_there_is_no_past() -> None:
    model, past = stirred(), poor_past()
    said: ModelOutput = model(past)
    draw = torch.Generator().manual_seed(2)
    came = (torch.rand(said.direct.shape, generator=draw) < 0.5).float()
    rows = torch.where(came[:, :, 0] > 0, 2.0, math.nan)
    read = log_loss(said.profiles, came) + log_loss(said.direct, came)
    (read + rows_loss(said.log_rate, said.dispersion, rows)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


# --- untrained it is the recency bootstrap --------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture(scope="module")
def history(world: Measured) -> Profiles:
    return world.history


@pytest.fixture(scope="module")
def arrays(world: Measured, tmp_path_factory: pytest.TempPathFactory) -> PackArrays:
    """Of a copy of the pack: it leaves a file beside it."""
    folder = tmp_path_factory.mktemp("pack")
    shutil.copytree(world.packed.folder, folder, dirs_exist_ok=True)
    return read_pack_arrays(Pack(folder))


def world_config(arrays: PackArrays, **given: Any) -> MeasureConfig:
    sizes: dict[str, Any] = {
        "dimension": arrays.pack.facts.dimension, "context_days": 8, "memory_days": DAYS,
        "width": 16,
    }  # fmt: skip
    return MeasureConfig(**{**sizes, **given})


@pytest.mark.parametrize("half_lives", [(7.0, 30.0, 90.0, 365.0), (3.0,)])
def test_untrained_both_readings_are_the_recency_bootstrap(
    world: Measured, history: Profiles, arrays: PackArrays, half_lives: tuple[float, ...]
) -> None:
    """At 8 origins before each of these days, two of them missing; surges have thresholds late."""
    config = world_config(arrays, half_lives=half_lives)
    torch.manual_seed(3)
    model = MeasureModel(config).eval()
    maker = BatchMaker(arrays, world.space, config, points=16)
    baseline = RecencyBootstrap(half_lives)
    streams = np.arange(4)
    ends = (7, 24, 45, 69, DAYS - 1)
    assert any(end - config.context_days < gone <= end for end in ends for gone in GONE)
    surges = 0
    for end in ends:
        said = said_by(model, maker.make(streams, np.full(4, end)).past)
        for place in range(config.context_days):
            origin = end - config.context_days + 1 + place
            forecasts = baseline.forecast(history, day_at(origin))
            expected = np.array([[f.occurs, f.headline, f.surge] for f in forecasts])
            surges += np.isfinite(expected[:, 2]).sum()
            for logits in (said.profiles, said.direct):
                found = logits[:, place].sigmoid().numpy()
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert surges > 100


def test_untrained_a_day_is_drawn_as_the_recency_bootstrap_draws_it(
    world: Measured, history: Profiles, arrays: PackArrays
) -> None:
    config = world_config(arrays)
    model = MeasureModel(config).eval()
    maker = BatchMaker(arrays, world.space, config, points=4)
    for end in (0, 20, 40, DAYS - 1):
        batch = maker.make(np.array([1]), np.array([end]))
        found = said_by(model, batch.past).day_probabilities[0, -1].numpy()
        kernel = np.zeros(len(found))
        present = np.flatnonzero(history.present[: end + 1])
        kernel[len(found) - 1 - end + present] = RecencyBootstrap().kernel(
            past_of(history, day_at(end))
        )
        np.testing.assert_allclose(found, kernel, rtol=0, atol=1e-6)


# --- expected rows and the direct head ------------------------------------------------------------


def test_untrained_the_usual_rows_are_expected() -> None:
    past = random_past()
    torch.testing.assert_close(said_by(untrained(), past).log_rate, past.usual.log())


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_a_step_of_the_ladder_adds_the_count_of_so_many_days_ago(lag: int) -> None:
    """To the logarithm of a rate, where c more is ln(1 + c)."""
    code, other = 1, 3
    model, past = untrained(), random_past()
    with torch.no_grad():
        model.intensity.ladder.weight[code, other, -1 - lag] = 1.0
    added = said_by(model, past).log_rate - past.usual.log()
    first = LENGTH - CONTEXT - lag
    counts = past.counts[:, first : first + CONTEXT, other]
    expected = torch.zeros_like(added)
    expected[:, :, code] = torch.where(counts > 0, (1 + counts.abs()).log(), counts)
    torch.testing.assert_close(added, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("mean", "k"), [(0.01, 1.0), (2.0, 0.3), (30.0, 5.0), (1.0, 1e4)])
def test_no_rows_at_all_are_as_likely_as_under_a_negative_binomial(mean: float, k: float) -> None:
    """(k / (k + mean))^k, which is exp(-mean) for a large k."""
    found = none_at_all(torch.tensor([mean]).log(), torch.tensor([k])).item()
    assert found == pytest.approx(k * math.log(k / (k + mean)), rel=1e-3)
    if k == 1e4:
        assert found == pytest.approx(-mean, rel=1e-2)


def test_days_before_the_memory_are_zeros() -> None:
    values = torch.arange(1.0, 5).view(1, 4, 1)
    assert last_days(values, 2, 2).flatten().tolist() == [2, 3, 4]
    assert last_days(values, 3, 4).flatten().tolist() == [0, 0, 1, 2, 3, 4]


def test_the_direct_reading_teaches_the_profiles_nothing() -> None:
    """It begins at their reading as it is: its loss must not bend the probability over days."""
    model, past = stirred(), random_past()
    said: ModelOutput = model(past)
    said.direct.nan_to_num(0.0).sum().backward()
    assert model.day_attention.query.weight.grad is None
    assert model.direct.out.weight.grad is not None


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.25, 1.0])
def test_logits_are_finite_and_true_inside_their_limits(probability: float) -> None:
    held = min(max(probability, 1e-6), 1 - 1e-6)
    found = logits_of(torch.tensor([probability])).item()
    assert found == pytest.approx(math.log(held / (1 - held)), rel=1e-2)


# --- training -------------------------------------------------------------------------------------

NEVER_FELT: set[str] = set()
"""added to the keys of all days alike, which no softmax over them notices"""


def test_gradients_reach_every_parameter_from_the_zero_start() -> None:
    """Layers behind a zero have to wait for it: a few steps, then each is felt."""
    model, past = untrained(dropout=0.0), random_past(4)
    draw = torch.Generator().manual_seed(2)
    finest = unit(torch.randn(6, 4, generator=draw))
    model.atom_reading.set_basis(finest, torch.arange(6) % CODES)
    came = (torch.rand(4, CONTEXT, TARGET_COUNT, CODES, generator=draw) < 0.5).float()
    rows = torch.randint(9, (4, CONTEXT, CODES), generator=draw).float()
    toward = torch.randn(4, NUMBER, DIMENSION, generator=draw)
    some = torch.rand(4, NUMBER, generator=draw)
    spare = torch.zeros(4, NUMBER, dtype=torch.bool)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seen: dict[str, float] = {}
    for _ in range(4):
        optimizer.zero_grad()
        said: ModelOutput = model(past)
        futures = model.transport(
            past.points[:, -1], past.weights[:, -1], spare, said.tokens[:, -1], said.states[:, -1]
        )
        moved = (futures.weights[..., None] * futures.points * toward).sum()
        read = log_loss(said.profiles, came) + log_loss(said.direct, came)
        read = read + rows_loss(said.log_rate, said.dispersion, rows)
        at = (futures, torch.ones(4, 1), past.thresholds[:, -1], past.pooled[:, -1])
        read = read + log_loss(model.atom_reading(*at), came[:, -1])
        (read + moved + (futures.gates * some).sum()).backward()
        seen = {
            name: 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
            for name, parameter in model.named_parameters()
        }
        optimizer.step()
    assert {name for name, largest in seen.items() if largest < 1e-7} <= NEVER_FELT


# --- kept and made again --------------------------------------------------------------------------


def test_a_saved_model_says_the_same_to_the_last_bit(tmp_path: Path) -> None:
    model, past = stirred(), random_past()
    model.save_pretrained(tmp_path)
    again = MeasureModel.from_pretrained(tmp_path).eval()
    assert again.config.half_lives == (2.0, 9.0)
    assert_alike(said_by(model, past), said_by(again, past))
    # Weights that are mapped from a file lie unaligned and are multiplied in another order; once
    # copied they are not.
    copied = deepcopy(again)
    for one, two in zip(said_by(model, past), said_by(copied, past), strict=True):
        assert identical(one, two)
    ours, theirs = model.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert {path.suffix for path in tmp_path.rglob("*")} == {".json", ".safetensors"}


def test_an_untrained_model_that_was_saved_still_has_its_zeros(tmp_path: Path) -> None:
    untrained().save_pretrained(tmp_path)
    past = random_past()
    said = said_by(MeasureModel.from_pretrained(tmp_path).eval(), past)
    assert identical(said.direct, said.profiles)


def test_a_seed_makes_a_model() -> None:
    one, two, other = untrained(1), untrained(1), untrained(2)
    past = random_past()
    assert_alike(said_by(one, past), said_by(two, past), 0)
    assert differ(said_by(one, past), said_by(other, past))


def test_the_direct_reading_is_what_stack_and_cell_network_say_where_they_do() -> None:
    past = random_past()
    given = torch.randn(past.direct.shape, generator=torch.Generator().manual_seed(5))
    given[:, :, :, ::3] = math.nan
    model = stirred()
    own, said = said_by(model, past).direct, said_by(model, past._replace(direct=given)).direct
    known = ~given.isnan()
    assert torch.equal(said[known], given[known])
    assert identical(said[~known], own[~known])


def test_without_its_head_the_direct_reading_is_profiles_where_nothing_else_speaks() -> None:
    past = random_past()
    given = torch.randn(past.direct.shape, generator=torch.Generator().manual_seed(5))
    given[:, :, :, ::3] = math.nan
    model = stirred()
    with_head = said_by(model, past._replace(direct=given))
    without: ModelOutput = model(past._replace(direct=given), direct_head=False)
    known = ~given.isnan()
    assert torch.equal(without.direct[known], given[known])
    assert identical(without.direct[~known], without.profiles[~known])
    assert not identical(with_head.direct[~known], without.direct[~known])
    assert_alike(with_head._replace(direct=without.direct), without, 0)


def test_the_direct_head_is_left_out_where_its_reading_does_not_count() -> None:
    model, past = stirred(), random_past()
    calls: list[object] = []
    model.direct.register_forward_hook(lambda *said: calls.append(said[0]))
    model(past)
    assert len(calls) == 1
    model(past._replace(direct=torch.zeros_like(past.direct)))  # all of it is said by the stack
    model(past, direct_head=False)
    assert len(calls) == 1
