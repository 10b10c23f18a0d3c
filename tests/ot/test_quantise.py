"""Few-atom summaries against exact optima, exact transport and known answers."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings, strategies

import ot
from gdelphi.common.errors import GdelphiError
from gdelphi.common.types import (
    FloatArray,
    IntArray,
    Measure,
)
from gdelphi.ot import quantise as module
from gdelphi.ot.quantise import (
    AtomRule,
    Quantisation,
    explained,
    quantise,
    quantise_adaptively,
)

CloudMaker = Callable[[int, int, int], Measure]


def make_cloud(points: FloatArray, weights: FloatArray | None = None) -> Measure:
    """Rows scaled to length 1, weights to sum 1."""
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    mass = np.ones(len(points)) if weights is None else weights
    return Measure(unit.astype(np.float32), mass / mass.sum())


def uniform_cloud(seed: int, size: int, dim: int) -> Measure:
    """Points without any structure."""
    generator = np.random.default_rng(seed)
    return make_cloud(generator.normal(size=(size, dim)), generator.exponential(size=size))


def mixed_cloud(seed: int, size: int, dim: int) -> Measure:
    """Points around 2 to 12 centres, more or less tightly."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(generator.integers(2, 13), dim))
    noise = generator.uniform(0.2, 1.0) * generator.normal(size=(size, dim))
    around = centres[generator.integers(len(centres), size=size)]
    return make_cloud(around + noise, generator.exponential(size=size))


def wasserstein2(cloud: Measure, atoms: Measure) -> float:
    """W2 by POT's exact linear program."""
    costs = ot.dist(cloud.points.astype(np.float64), atoms.points.astype(np.float64))
    return float(np.sqrt(ot.emd2(cloud.weights, atoms.weights / atoms.weights.sum(), costs)))


def partitions(size: int, parts: int) -> IntArray:
    """All partitions as restricted growth strings, [partition, size]."""

    def grow(labels: list[int], used: int) -> Iterator[list[int]]:
        if len(labels) == size:
            if used == parts:
                yield labels
            return
        for label in range(min(used + 1, parts)):
            yield from grow([*labels, label], max(used, label + 1))

    return np.array(list(grow([], 0)))


def best_cost(cloud: Measure, parts: int) -> float:
    """The least of 2 (1 - sum |S_j|) over all partitions."""
    labels = partitions(len(cloud.weights), parts)
    inside = labels[:, :, None] == np.arange(parts)
    mass = cloud.weights[:, None] * cloud.points.astype(np.float64)
    sums = np.einsum("pnj,nd->pjd", inside.astype(np.float64), mass)
    return float(2 * (1 - np.linalg.norm(sums, axis=2).sum(axis=1).max()))


def cost_of_points(cloud: Measure, rows: IntArray) -> float:
    """W2^2 to some of the cloud's own points with the masses nearest to them."""
    inner = cloud.points.astype(np.float64) @ cloud.points[rows].astype(np.float64).T
    return float(2 * cloud.weights @ (1 - inner.max(axis=1)))


def as_sorted(quantisation: Quantisation) -> FloatArray:
    """Atoms with their weights in an order of their own."""
    rows = np.column_stack([quantisation.points, quantisation.weights]).astype(np.float64)
    return rows[np.lexsort(np.round(rows.T, 4))]


def check_is_sound(cloud: Measure, result: Quantisation, atoms: int) -> None:
    """All that is promised of every result."""
    count = min(atoms, len(np.unique(cloud.points[cloud.weights > 0] + np.float32(0), axis=0)))
    assert result.points.dtype == np.float32
    assert result.points.shape == (count, cloud.points.shape[1])
    assert result.weights.dtype == np.float64
    assert result.labels.dtype == np.int64
    assert result.labels.shape == cloud.weights.shape
    assert np.allclose(np.linalg.norm(result.points, axis=1), 1, atol=1e-6)
    assert abs(result.weights.sum() - 1) < 1e-12
    assert (np.diff(result.weights) <= 0).all()
    masses = np.bincount(result.labels, weights=cloud.weights, minlength=count)
    assert np.allclose(masses / masses.sum(), result.weights, atol=1e-12)
    assert set(result.labels[cloud.weights > 0]) == set(range(count))
    distances = ot.dist(cloud.points.astype(np.float64), result.points.astype(np.float64))
    own = distances[np.arange(len(distances)), result.labels]
    assert np.allclose(own, distances.min(axis=1), atol=1e-5)
    assert result.cost == pytest.approx(cloud.weights @ distances.min(axis=1), abs=2e-6)


# --- known answers --------------------------------------------------------------------------------


def test_well_separated_clusters_are_found() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        truth = np.repeat(np.arange(5), [3, 9, 20, 30, 40])
        points = np.eye(16)[truth] + 0.05 * generator.normal(size=(len(truth), 16))
        shuffled = generator.permutation(len(truth))
        result = quantise(make_cloud(points[shuffled]), 5)
        # Atoms come by falling weight, the clusters were numbered by rising size.
        assert (result.labels == 4 - truth[shuffled]).all()
        assert np.allclose(result.weights, np.array([40, 30, 20, 9, 3]) / 102)
        assert (np.diag(result.points[:, 4::-1]) > 0.98).all()


def test_two_points_have_their_middle() -> None:
    result = quantise(make_cloud(np.array([[1.0, 0.0], [0.0, 1.0]])), 1)
    assert np.allclose(result.points, np.sqrt(0.5))
    assert result.cost == pytest.approx(2 - np.sqrt(2))


def test_an_atom_leans_to_the_heavier_point() -> None:
    result = quantise(make_cloud(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0])), 1)
    assert np.allclose(result.points, np.array([[3, 1]]) / np.sqrt(10))
    assert result.cost == pytest.approx(2 * (1 - np.sqrt(10) / 4))


def test_no_more_atoms_than_distinct_points() -> None:
    cloud = make_cloud(np.eye(4)[[0, 1, 1, 2, 0, 0]])
    result = quantise(cloud, 7)
    assert result.cost == pytest.approx(0, abs=1e-12)
    assert np.allclose(result.points, np.eye(4)[[0, 1, 2]])
    assert np.allclose(result.weights, [1 / 2, 1 / 3, 1 / 6])
    assert result.labels.tolist() == [0, 1, 1, 2, 0, 0]


def test_equal_weights_come_in_the_order_of_their_points() -> None:
    result = quantise(make_cloud(np.eye(3)[[2, 0, 1]]), 3)
    assert result.labels.tolist() == [0, 1, 2]


def test_equal_points_are_one_atom() -> None:
    cloud = make_cloud(np.tile([[0.6, 0.8]], (5, 1)))
    for result in (quantise(cloud, 3), quantise_adaptively(cloud)):
        check_is_sound(cloud, result, 3)
        assert result.cost < 1e-12
        assert explained(cloud, result) == 1


def test_the_signs_of_zeros_do_not_make_points_differ() -> None:
    cloud = make_cloud(np.array([[1.0, 0.0], [1.0, -0.0]]))
    assert len(quantise(cloud, 2).weights) == 1


def test_an_empty_cloud_has_no_atoms() -> None:
    cloud = Measure(np.zeros((0, 8), np.float32), np.zeros(0))
    for result in (quantise(cloud, 3), quantise_adaptively(cloud)):
        assert result.points.shape == (0, 8)
        assert result.weights.shape == result.labels.shape == (0,)
        assert result.cost == 0
        assert explained(cloud, result) == 1


def test_points_that_cancel_have_the_direction_of_the_heaviest() -> None:
    axis, other = np.eye(3)[:2]
    cloud = make_cloud(np.stack([other, axis, -axis, -other]), np.array([2.0, 3.0, 3.0, 2.0]))
    result = quantise(cloud, 1)
    assert result.cost == pytest.approx(2)
    assert abs(result.points[0]).tolist() == axis.tolist()
    assert explained(cloud, result) == pytest.approx(0)
    pair = make_cloud(np.stack([axis, -axis]))
    assert quantise(pair, 2).cost == pytest.approx(0, abs=1e-12)


def test_antipodal_pairs_are_paired_well() -> None:
    crossing = make_cloud(np.concatenate([np.eye(2), -np.eye(2)]))
    result = quantise(crossing, 2)
    check_is_sound(crossing, result, 2)
    assert result.cost == pytest.approx(best_cost(crossing, 2))


def test_points_without_weight_do_not_count_but_have_a_label() -> None:
    cloud = make_cloud(np.eye(3)[[0, 1, 2, 1]] + 0.01, np.array([2.0, 1.0, 0.0, 0.0]))
    result = quantise(cloud, 3)
    assert len(result.weights) == 2
    assert result.labels[[0, 1, 3]].tolist() == [0, 1, 1]


@pytest.mark.parametrize("tiny", [1e-12, 1e-40, 1e-200, 5e-324])
def test_tiny_weights_do_no_harm(tiny: float) -> None:
    weights = np.array([1.0, tiny, tiny, 0.5, tiny, 0.25])
    cloud = make_cloud(np.random.default_rng(3).normal(size=(6, 5)), weights)
    for atoms in range(1, 7):
        check_is_sound(cloud, quantise(cloud, atoms), atoms)
    check_is_sound(cloud, quantise(cloud, 6), 6)
    assert quantise(cloud, 3).cost < 1e-11


def test_points_that_float32_hardly_tells_apart_have_an_atom_each() -> None:
    base = np.full(64, 0.125, np.float32)
    points = np.tile(base, (6, 1))
    points[np.arange(6), np.arange(6)] = np.nextafter(np.float32(0.125), np.float32(1))
    cloud = Measure(points, np.full(6, 1 / 6))
    for atoms in range(1, 7):
        check_is_sound(cloud, quantise(cloud, atoms), atoms)
        assert quantise(cloud, atoms).cost < 1e-12


# --- against the optimum --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [uniform_cloud, mixed_cloud])
@pytest.mark.parametrize("dim", [3, 16, 128])
def test_small_clouds_are_summarised_as_well_as_can_be(make: CloudMaker, dim: int) -> None:
    sizes = [8 + seed % 2 for seed in range(40)]
    clouds = [make(seed, size, dim) for seed, size in enumerate(sizes)]
    best = np.array([best_cost(cloud, 3) for cloud in clouds])
    found = np.array([quantise(cloud, 3).cost for cloud in clouds])
    gap = found / best - 1
    assert gap.min() > -1e-5
    assert gap.mean() < 0.002
    assert gap.max() < 0.05
    assert (gap < 1e-5).mean() >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("size", "atoms"), [(20, 3), (60, 5), (200, 8)])
def test_atoms_are_nearer_than_the_clouds_own_points(size: int, atoms: int) -> None:
    generator = np.random.default_rng(size)
    for make in (uniform_cloud, mixed_cloud):
        clouds = [make(seed, size, 32) for seed in range(20)]
        costs = np.array([quantise(cloud, atoms).cost for cloud in clouds])
        drawn = np.array(
            [
                [cost_of_points(c, generator.choice(size, atoms, replace=False)) for _ in range(9)]
                for c in clouds
            ]
        )
        heaviest = np.array([cost_of_points(c, np.argsort(-c.weights)[:atoms]) for c in clouds])
        assert (costs[:, None] < drawn).all()
        assert (costs < heaviest).all()
        assert costs.mean() < 0.9 * min(drawn.mean(), heaviest.mean())


def test_the_cost_is_what_exact_transport_finds() -> None:
    for seed in range(10):
        cloud = mixed_cloud(seed, 80, 24)
        result = quantise(cloud, 3 + seed % 8)
        distance = wasserstein2(cloud, Measure(result.points, result.weights))
        assert distance == pytest.approx(np.sqrt(result.cost), rel=1e-5)


def test_no_single_point_would_rather_be_elsewhere() -> None:
    cloud = mixed_cloud(5, 40, 16)
    result = quantise(cloud, 4)
    mass = cloud.weights[:, None] * cloud.points.astype(np.float64)
    for row in range(40):
        for part in range(4):
            labels = result.labels.copy()
            labels[row] = part
            sums = np.stack([mass[labels == j].sum(axis=0) for j in range(4)])
            assert 2 * (1 - np.linalg.norm(sums, axis=1).sum()) > result.cost - 1e-6


def test_more_restarts_are_not_worse_on_average() -> None:
    clouds = [mixed_cloud(seed, 70, 64) for seed in range(15)]
    means = [np.mean([quantise(c, 6, restarts=r).cost for c in clouds]) for r in (1, 4, 16)]
    assert means[0] >= means[1] - 1e-9
    assert means[1] >= means[2] - 1e-9


def test_large_clouds_without_exchanges_are_close_to_those_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = mixed_cloud(2, 700, 32)
    full = quantise(cloud, 6)
    monkeypatch.setattr(module, "EXCHANGE_LIMIT", 100)
    short = quantise(cloud, 6)
    check_is_sound(cloud, short, 6)
    assert short.cost == pytest.approx(full.cost, rel=0.05)


def test_kept_inner_products_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = mixed_cloud(4, 90, 32)
    kept = quantise(cloud, 5)
    monkeypatch.setattr(module, "GRAM_LIMIT", 0)
    computed = quantise(cloud, 5)
    assert computed.labels.tolist() == kept.labels.tolist()
    assert computed.cost == pytest.approx(kept.cost)


# --- how many atoms -------------------------------------------------------------------------------


def test_more_atoms_explain_more() -> None:
    for make in (uniform_cloud, mixed_cloud):
        for seed in range(5):
            cloud = make(seed, 60, 32)
            shares = [explained(cloud, quantise(cloud, atoms)) for atoms in range(1, 13)]
            assert shares[0] == pytest.approx(0, abs=1e-6)
            assert (np.diff(shares) > 0).all()
            assert shares[-1] < 1


def test_the_rule_takes_the_fewest_atoms_that_explain_enough() -> None:
    hits = []
    for seed in range(30):
        cloud = mixed_cloud(seed, 50 + seed, 32)
        rule = AtomRule(2, 9, 0.2 + 0.6 * seed / 30)
        results = [quantise(cloud, atoms) for atoms in range(2, 10)]
        enough = [r for r in results if explained(cloud, r) >= rule.explained]
        adaptive = quantise_adaptively(cloud, rule)
        if enough:
            assert explained(cloud, adaptive) >= rule.explained - 1e-9
        expected = (enough or results[-1:])[0]
        hits.append(len(adaptive.weights) == len(expected.weights))
        same = results[len(adaptive.weights) - 2]
        assert same.points.tobytes() == adaptive.points.tobytes()
    assert np.mean(hits) >= 0.9


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        (AtomRule(3, 10, 0.0), 3),
        (AtomRule(3, 10, 1.0), 10),
        (AtomRule(1, 10, 0.0), 1),
        (AtomRule(4, 4, 0.5), 4),
        (AtomRule(3, 10, 0.99), 5),
        (AtomRule(6, 10, 0.99), 6),
        (AtomRule(3, 4, 0.99), 4),
    ],
)
def test_the_rules_bounds_hold(rule: AtomRule, count: int) -> None:
    generator = np.random.default_rng(1)
    points = np.eye(5, 32)[np.arange(60) % 5] + 0.01 * generator.normal(size=(60, 32))
    assert len(quantise_adaptively(make_cloud(points), rule).weights) == count


def test_fewer_points_than_the_rule_asks_for_are_their_own_atoms() -> None:
    cloud = make_cloud(np.eye(2))
    assert len(quantise_adaptively(cloud, AtomRule(3, 10, 0.5)).weights) == 2


@pytest.mark.parametrize("values", [(0, 3, 0.5), (4, 3, 0.5), (3, 10, 1.5), (3, 10, np.nan)])
def test_a_rule_that_cannot_be_is_refused(values: tuple[int, int, float]) -> None:
    with pytest.raises(GdelphiError):
        AtomRule(*values)


# --- what must not matter -------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes() -> None:
    cloud = mixed_cloud(0, 120, 64)
    fixed = [quantise(cloud, 6, seed=3) for _ in range(2)]
    adaptive = [quantise_adaptively(cloud, seed=3) for _ in range(2)]
    for first, second in (fixed, adaptive):
        assert first.cost == second.cost
        assert first.points.tobytes() == second.points.tobytes()
        assert first.weights.tobytes() == second.weights.tobytes()
        assert first.labels.tobytes() == second.labels.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("size", [9, 40, 200, 1500])
def test_the_order_of_the_points_does_not_matter(size: int) -> None:
    for seed, cloud in enumerate((uniform_cloud(1, size, 24), mixed_cloud(1, size, 24))):
        order = np.random.default_rng(seed).permutation(size)
        shuffled = Measure(cloud.points[order], cloud.weights[order])
        for result, other in (
            (quantise(cloud, 5), quantise(shuffled, 5)),
            (quantise_adaptively(cloud), quantise_adaptively(shuffled)),
        ):
            assert np.allclose(as_sorted(result), as_sorted(other), atol=1e-6)
            assert (result.labels[order] == other.labels).all()


def test_ties_are_broken_alike_in_any_order() -> None:
    # All partitions of equal sizes cost the same here.
    cloud = make_cloud(np.eye(12))
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(12)
        shuffled = Measure(cloud.points[order], cloud.weights[order])
        assert np.allclose(as_sorted(quantise(cloud, 4)), as_sorted(quantise(shuffled, 4)))


@pytest.mark.parametrize("share", [0.5, 0.3, 1e-9])
def test_splitting_a_point_does_not_matter(share: float) -> None:
    equal = make_cloud(np.eye(12))
    for cloud in (uniform_cloud(2, 30, 24), mixed_cloud(2, 100, 24), equal):
        split = np.arange(0, len(cloud.weights), 3)
        weights = cloud.weights.copy()
        weights[split] *= 1 - share
        parted = Measure(
            np.concatenate([cloud.points, cloud.points[split]]),
            np.concatenate([weights, cloud.weights[split] * share]),
        )
        whole, other = quantise(cloud, 4), quantise(parted, 4)
        assert np.allclose(as_sorted(whole), as_sorted(other), atol=1e-6)
        assert whole.cost == pytest.approx(other.cost, abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(
    size=strategies.integers(1, 24),
    dim=strategies.integers(1, 6),
    atoms=strategies.integers(1, 12),
    seed=strategies.integers(0, 10_000),
    data=strategies.data(),
)
def test_every_result_is_sound(
    size: int, dim: int, atoms: int, seed: int, data: strategies.DataObject
) -> None:
    # Few values of few coordinates: many equal, antipodal and equidistant points.
    values = strategies.lists(strategies.integers(-1, 1), min_size=dim, max_size=dim)
    rows = data.draw(strategies.lists(values.filter(any), min_size=size, max_size=size))
    masses = strategies.sampled_from([0.0, 1e-12, 0.5, 1.0, 3.0])
    weights = data.draw(strategies.lists(masses, min_size=size, max_size=size).filter(any))
    cloud = make_cloud(np.array(rows, np.float64), np.array(weights))
    result = quantise(cloud, atoms, seed=seed)
    check_is_sound(cloud, result, atoms)
    assert explained(cloud, result) <= 1
    adaptive = quantise_adaptively(cloud, seed=seed)
    check_is_sound(cloud, adaptive, len(adaptive.weights))
    order = np.random.default_rng(seed).permutation(size)
    other = quantise(Measure(cloud.points[order], cloud.weights[order]), atoms, seed=seed)
    assert other.cost == pytest.approx(result.cost, abs=1e-9)


# --- at the edge ----------------------------------------------------------------------------------


EYE = np.eye(3, dtype=np.float32)
THIRDS = np.full(3, 1 / 3)


@pytest.mark.parametrize(
    ("points", "weights", "complaint"),
    [
        (EYE[0], THIRDS, "shape"),
        (EYE, THIRDS[:2], "shape"),
        (EYE[:, :0], THIRDS, "shape"),
        (EYE, np.array([0.5, 0.6, -0.1]), "from -0.1"),
        (EYE, THIRDS * 1.00001, "sum"),
        (EYE, np.zeros(3), "sum"),
        (EYE, np.array([0.5, 0.5, np.nan]), "nan"),
        (EYE * np.float32(1.002), THIRDS, "point 0"),
        (EYE * np.array([[1], [1], [np.nan]], np.float32), THIRDS, "point 2"),
        (EYE * np.array([[1], [1e30], [1]], np.float32), THIRDS, "point 1"),
        (EYE * np.array([[1], [1], [0]], np.float32), THIRDS, "point 2"),
    ],
)
def test_what_is_no_cloud_is_refused(
    points: FloatArray, weights: FloatArray, complaint: str
) -> None:
    cloud = Measure(points.astype(np.float32), weights)
    sound = quantise(Measure(EYE, THIRDS), 2)
    with pytest.raises(GdelphiError, match=complaint):
        quantise(cloud, 2)
    with pytest.raises(GdelphiError, match=complaint):
        quantise_adaptively(cloud)
    with pytest.raises(GdelphiError, match=complaint):
        explained(cloud, sound)


@pytest.mark.parametrize(("atoms", "restarts"), [(0, 4), (3, 0)])
def test_impossible_numbers_are_refused(atoms: int, restarts: int) -> None:
    with pytest.raises(GdelphiError, match="from 1 on"):
        quantise(Measure(EYE, THIRDS), atoms, restarts=restarts)


def test_rows_that_are_almost_unit_are_taken_as_directions() -> None:
    stretched = Measure(EYE * np.float32(1.0005), THIRDS * (1 + 5e-7))
    assert np.allclose(quantise(stretched, 2).points, quantise(Measure(EYE, THIRDS), 2).points)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_points_are_their_own_atoms_as_a_search_would_have_it(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(20):
        points = random.normal(size=(size + 1, 5)).astype(np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points[-1] = points[0]  # one point twice
        cloud = Measure(points, random.dirichlet(np.ones(size + 1)))
        short, searched = quantise_adaptively(cloud), quantise(cloud, size)
        assert len(short.weights) == size
        for one, other in zip(short[:3], searched[:3], strict=True):
            assert one.tobytes() == other.tobytes()
        assert short.cost == searched.cost
