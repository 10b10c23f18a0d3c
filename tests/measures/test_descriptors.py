"""A day in brief: atoms that sum to the day and are called by phrases that it has."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gdelphi.common.sections import MeasureSettings
from gdelphi.common.types import Measure, VectorArray
from gdelphi.measures.clouds import Cloud
from gdelphi.measures.descriptors import (
    Descriptor,
    RandomPart,
    atom_rule,
    describe_day,
    draw_rows,
    random_parts,
)
from gdelphi.measures.phrases import lineage, sentence
from gdelphi.ot.quantise import AtomRule, quantise_adaptively
from helpers.measured_world import DAYS, Measured, cloud_of, day_at, measured

RULE = AtomRule()


class Placed:
    """Points given by hand, in place of those of a space."""

    def __init__(self, points: npt.ArrayLike) -> None:
        given = np.asarray(points, dtype=np.float32)
        self._points = given / np.linalg.norm(given, axis=1, keepdims=True)

    def of(self, cloud: Cloud) -> VectorArray:
        assert len(cloud) == len(self._points)
        return self._points

    def measure(self, cloud: Cloud) -> Measure:
        return Measure(self.of(cloud), cloud.weights)


def phrases_of(descriptor: Descriptor) -> list[tuple[str, str, str]]:
    return list(zip(*descriptor.phrases, strict=True))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


def described(world: Measured) -> Iterator[tuple[Cloud, Descriptor]]:
    points = world.points()
    for number in range(0, DAYS, 9):
        for stream in ("TZ", "KE", "WORLD"):
            cloud = world.cloud(stream, number)
            yield cloud, describe_day(cloud, points, RULE)


# --- names ----------------------------------------------------------------------------------------


def named(weights: dict[tuple[str, str, str], float], points: npt.ArrayLike) -> Any:
    """The phrase of the single atom of a cloud."""
    found = describe_day(cloud_of(weights), Placed(points), AtomRule(1, 1))  # type: ignore[arg-type]
    assert len(found) == 1
    return phrases_of(found)[0]


def test_an_atom_is_named_by_plurality_of_root_then_base_then_code_then_nearness() -> None:
    """Each step of the rule decides against the one before it taken alone."""
    weights = {
        ("A", "190", ""): 0.40,  # the heaviest code, the heaviest base; not the heaviest root
        ("B", "1411", ""): 0.11,
        ("C", "1412", ""): 0.12,
        ("D", "1412", ""): 0.05,  # of base 141 (0.28) the heaviest code: 1412 (0.17)
        ("E", "145", ""): 0.27,  # of root 14 (0.55) not the heaviest base, but a heavier code
        ("F", "0311", ""): 0.05,
    }
    centre, side = [1.0, 0.0], [1.0, 0.6]
    points = [centre, centre, side, [1.0, 0.1], centre, [1.0, -0.6]]
    assert named(weights, points) == ("D", "1412", "")
    # with the last two exchanged C is nearer, though D is no lighter: nearness decides last
    points[2], points[3] = points[3], points[2]
    assert named(weights, points) == ("C", "1412", "")


def test_ties_between_codes_go_to_the_smaller_one() -> None:
    weights = {("A", "190", ""): 0.5, ("B", "042", ""): 0.5}
    assert named(weights, [[1, 0.2], [1, -0.2]]) == ("B", "042", "")


def test_a_code_that_no_table_has_counts_as_the_nearest_above_and_names_itself() -> None:
    weights = {("A", "1213", ""): 0.3, ("B", "121", ""): 0.3, ("C", "190", ""): 0.4}
    assert named(weights, [[1, 0.1], [1, 0.5], [1, 0]]) == ("A", "1213", "")
    assert named({("A", "zz", ""): 1.0}, [[1, 0]]) == ("A", "zz", "")


def test_an_atom_without_its_heaviest_phrase_is_named_among_its_own_points() -> None:
    weights = {("A", "190", ""): 0.6, ("B", "042", ""): 0.2, ("C", "010", ""): 0.2}
    points = Placed([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = describe_day(cloud_of(weights), points, RULE)  # type: ignore[arg-type]
    assert phrases_of(found) == [("A", "190", ""), ("B", "042", ""), ("C", "010", "")]
    assert found.weights == pytest.approx([0.6, 0.2, 0.2])
    assert found.cost == pytest.approx(0, abs=1e-6)
    assert found.events("root") == ("19", "04", "01")
    assert found.events("base") == ("190", "042", "010")


# --- a day ----------------------------------------------------------------------------------------


def test_every_atom_is_called_by_a_phrase_of_the_day(world: Measured) -> None:
    for cloud, descriptor in described(world):
        assert set(phrases_of(descriptor)) <= set(cloud.phrases())
        assert len(set(phrases_of(descriptor))) == len(descriptor)


def test_the_name_has_the_plurality_root_of_the_atoms_points(world: Measured) -> None:
    seen = 0
    for cloud, descriptor in described(world):
        roots = np.array([lineage(code).root for code in cloud.code.values()])
        for atom, root in enumerate(descriptor.events("root")):
            inside = descriptor.members == atom
            masses = {each: cloud.weights[inside & (roots == each)].sum() for each in set(roots)}
            assert masses[root] == pytest.approx(max(masses.values()), abs=1e-12)
            seen += 1
    assert seen > 50


def test_rows_of_atoms_sum_to_the_rows_of_the_day_and_weights_to_one(world: Measured) -> None:
    for cloud, descriptor in described(world):
        assert descriptor.rows.sum() == cloud.volume
        if not len(cloud):
            continue
        assert descriptor.weights.sum() == pytest.approx(1, abs=1e-9)
        assert (np.diff(descriptor.weights) <= 0).all()
        masses = np.bincount(descriptor.members, cloud.weights)
        assert descriptor.weights == pytest.approx(masses, abs=1e-9)
        assert (descriptor.rows == np.bincount(descriptor.members, cloud.numbers.rows)).all()
        assert np.abs(np.linalg.norm(descriptor.points, axis=1) - 1).max() < 1e-6


def test_there_are_3_to_10_atoms_and_fewer_only_of_fewer_phrases(world: Measured) -> None:
    sizes = set()
    for cloud, descriptor in described(world):
        assert min(3, len(cloud)) <= len(descriptor) <= min(10, len(cloud))
        sizes.add(len(descriptor))
    assert len(sizes) > 3  # the rule decides, not its bounds alone


def test_the_cost_is_that_of_the_quantisation(world: Measured) -> None:
    cloud = world.cloud("TZ", 1)
    points = world.points()
    found = quantise_adaptively(points.measure(cloud), RULE)
    descriptor = describe_day(cloud, points, RULE)
    assert descriptor.cost == found.cost > 0
    assert descriptor.measure.points.tobytes() == found.points.tobytes()


def test_a_day_without_points_has_no_atoms_and_keeps_its_state(world: Measured) -> None:
    missing = world.cloud("TZ", 20)
    empty = next(
        cloud for number in range(DAYS) if (cloud := world.cloud("KE", number)).state == "empty"
    )
    for cloud in (missing, empty):
        points = world.points()
        day = describe_day(cloud, points, RULE)
        assert len(day) == len(day.rows) == len(day.phrases.code) == len(day.members) == 0
        assert day.points.shape == (0, world.space.dimension)
        assert (day.state, day.cost) == (cloud.state, 0.0)
        for part in random_parts(cloud, points, day, 0, 2):
            assert part.points.shape == (0, world.space.dimension)
            assert len(part.weights) == len(part.named) == 0


def test_one_seed_gives_one_descriptor_in_any_process(world: Measured) -> None:
    cloud = world.cloud("TZ", 1)
    met_before = world.points()
    met_before.of(world.cloud("WORLD", 40))
    one, other = (describe_day(cloud, points, RULE) for points in (met_before, world.points()))
    assert one.points.tobytes() == other.points.tobytes()
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.phrases == other.phrases


def test_atoms_in_words_name_the_place() -> None:
    cloud = cloud_of({("KEN", "190", "UGA"): 1.0}, stream="UG")
    found = describe_day(cloud, Placed([[1, 0]]), RULE)  # type: ignore[arg-type]
    assert found.sentences() == (sentence("KEN", "190", "UGA", "UG"),)
    assert replace(found, stream="WORLD").sentences() == (sentence("KEN", "190", "UGA", None),)


def test_the_rule_comes_from_the_settings() -> None:
    settings = MeasureSettings(fewest_atoms=2, most_atoms=4, explained=0.7)
    assert atom_rule(settings) == AtomRule(2, 4, 0.7)


# --- random parts of a day ------------------------------------------------------------------------


def part_phrases(cloud: Cloud, part: RandomPart) -> list[tuple[str, str, str]]:
    """The phrases that the atoms of a part are named after."""
    phrases = list(cloud.phrases())
    return [phrases[place] for place in part.named]


def test_drawn_rows_are_some_of_each_phrase() -> None:
    rows = np.array([1, 5, 40, 1000])
    drawn = draw_rows(rows, np.random.default_rng(0))
    assert drawn.dtype == np.int64
    assert ((drawn >= 0) & (drawn <= rows)).all()
    assert 0 < drawn.sum() < rows.sum()
    assert (draw_rows(rows, np.random.default_rng(0), 1.0) == rows).all()


def test_half_of_the_rows_are_drawn_on_average() -> None:
    drawn = draw_rows(np.full(500, 8), np.random.default_rng(0))
    assert drawn.sum() == pytest.approx(2000, abs=5 * np.sqrt(1000))


def test_at_least_one_row_is_drawn_and_phrases_of_more_rows_more_often() -> None:
    times = np.zeros(2)
    for seed in range(200):
        drawn = draw_rows(np.array([3, 1]), np.random.default_rng(seed), 0.0)
        assert drawn.sum() == 1
        times += drawn
    assert times[0] == pytest.approx(150, abs=5 * np.sqrt(200 * 0.75 * 0.25))


def test_random_descriptors_go_by_their_seed(world: Measured) -> None:
    cloud, points = world.cloud("TZ", 1), world.points()
    day = describe_day(cloud, points, RULE)
    one, other = random_parts(cloud, points, day, (0, 1), 2)
    again, *_ = random_parts(cloud, world.points(), day, (0, 1), 5)
    for name in one._fields:
        assert getattr(one, name).tobytes() == getattr(again, name).tobytes()
    assert one.points.tobytes() != other.points.tobytes()
    (third,) = random_parts(cloud, points, day, (0, 2), 1)
    assert one.points.tobytes() != third.points.tobytes()


def test_random_descriptors_are_descriptors_of_what_was_drawn(world: Measured) -> None:
    points = world.points()
    for number in range(0, 40, 3):
        cloud = world.cloud("KE" if number % 2 else "TZ", number)
        if len(cloud) < 2:
            continue
        day = describe_day(cloud, points, RULE)
        random = np.random.default_rng(number)
        for part in random_parts(cloud, points, day, number, 4):
            drawn = draw_rows(cloud.numbers.rows, random)
            chosen = np.flatnonzero(drawn)
            assert 1 <= len(part.weights) <= len(day)
            assert part.weights.sum() == pytest.approx(1, abs=1e-9)
            assert (np.diff(part.weights) <= 0).all()
            assert set(part.named) <= set(chosen)
            units = cloud.numbers.units[chosen] * drawn[chosen] // cloud.numbers.rows[chosen]
            nearest = (points.of(cloud)[chosen] @ part.points.T).argmax(axis=1)
            masses = np.bincount(nearest, units / units.sum(), len(part.weights))
            assert part.weights == pytest.approx(masses, abs=1e-6)


def test_of_all_rows_the_atoms_of_the_day_stay_where_they_are(world: Measured) -> None:
    cloud, points = world.cloud("TZ", 1), world.points()
    day = describe_day(cloud, points, RULE)
    (whole,) = random_parts(cloud, points, day, 0, 1, part=1.0)
    assert np.abs(whole.points - day.points).max() < 1e-3
    assert whole.weights == pytest.approx(day.weights, abs=1e-6)
    assert part_phrases(cloud, whole) == phrases_of(day)


def test_a_part_of_one_phrase_is_that_phrase() -> None:
    cloud, points = cloud_of({("A", "190", ""): 1.0}, rows=7), Placed([[0, 1]])
    day = describe_day(cloud, points, RULE)  # type: ignore[arg-type]
    for part in random_parts(cloud, points, day, 0, 3):  # type: ignore[arg-type]
        assert part.points.tolist() == [[0, 1]]
        assert part.weights.tolist() == [1.0]
        assert part_phrases(cloud, part) == [("A", "190", "")]


def test_an_atom_whose_rows_were_not_drawn_goes() -> None:
    weights = {("A", "190", ""): 0.6, ("B", "042", ""): 0.3, ("C", "010", ""): 0.1}
    cloud, points = cloud_of(weights), Placed([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    day = describe_day(cloud, points, RULE)  # type: ignore[arg-type]
    for seed in range(8):
        (part,) = random_parts(cloud, points, day, seed, 1)  # type: ignore[arg-type]
        drawn = np.flatnonzero(draw_rows(cloud.numbers.rows, np.random.default_rng(seed)))
        assert sorted(part.named) == drawn.tolist()


def test_a_phrase_without_weight_makes_no_atom_of_its_own() -> None:
    weights = {("A", "190", ""): 0.0, ("B", "042", ""): 1.0, ("C", "010", ""): 1.0}
    # the first stands where a direction of nothing would be put, so that it never moves
    cloud, points = cloud_of(weights), Placed([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    atoms = np.eye(3, dtype=np.float32)
    day = describe_day(cloud, points, RULE)  # type: ignore[arg-type]
    assert len(day) == 2
    for given in (day, replace(day, points=atoms)):
        (part,) = random_parts(cloud, points, given, 0, 1, part=1.0)  # type: ignore[arg-type]
        assert sorted(part_phrases(cloud, part)) == [("B", "042", ""), ("C", "010", "")]
        assert part.weights == pytest.approx([0.5, 0.5])


def test_a_day_keeps_its_date_and_stream(world: Measured) -> None:
    day = describe_day(world.cloud("TZ", 1), world.points(), RULE)
    assert (day.stream, day.day, day.state) == ("TZ", day_at(1), "full")
    assert isinstance(day.day, date)
