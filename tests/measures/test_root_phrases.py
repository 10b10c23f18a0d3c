"""Phrases that stand for what they say: parts of one root each, with what they weigh."""

import numpy as np
import pytest

from gdelphi.common.types import Measure
from gdelphi.measures.clouds import Coded
from gdelphi.measures.descriptors import name_atoms
from gdelphi.measures.phrases import lineage
from gdelphi.measures.root_phrases import (
    nearest_cost,
    root_parts,
    share_seats,
    weights_by_root,
)
from gdelphi.ot.quantise import quantise
from gdelphi.ot.sphere import unit


@pytest.fixture(scope="module")
def mixed() -> tuple[Coded, Measure]:
    """60 points in a heap whose roots have nothing to do with where they lie."""
    random = np.random.default_rng(3)
    points = unit(random.normal(size=(60, 5)).astype(np.float32))
    weights = random.random(60)
    codes = Coded(("042", "190", "145", "1121"), random.integers(0, 4, 60))
    return codes, Measure(points, weights / weights.sum())


def roots(codes: Coded) -> list[str]:
    return [lineage(code).root for code in codes.values()]


def test_all_of_a_phrases_weight_has_its_root(mixed: tuple[Coded, Measure]) -> None:
    codes, measure = mixed
    own = roots(codes)
    parts = root_parts(codes, measure, 10, least=0.0)
    assert len(parts) == 10
    assert [part.weight for part in parts] == sorted((p.weight for p in parts), reverse=True)
    for part in parts:
        assert part.point in part.members
        assert {own[member] for member in part.members} == {own[part.point]}
        assert part.weight == pytest.approx(measure.weights[part.members].sum())
    # The optimal atoms of the same heap stand for much else: that is what this is for.
    atoms = quantise(measure, 10)
    named = name_atoms(codes, measure, atoms)
    same = [own[point] == own[named[atom]] for point, atom in enumerate(atoms.labels)]
    assert measure.weights @ np.array(same) < 0.8


def test_light_parts_are_left_out_but_for_the_three_heaviest(mixed: tuple[Coded, Measure]) -> None:
    codes, measure = mixed
    shown = root_parts(codes, measure, 10, least=0.1)
    assert 0 < len(shown) < 10 and all(part.weight >= 0.1 for part in shown)
    assert len(root_parts(codes, measure, 10, least=2.0)) == 3
    nothing = Measure(measure.points[:0], measure.weights[:0])
    assert root_parts(Coded((), codes.places[:0]), nothing, 10) == []


def test_seats_go_by_weight() -> None:
    many = np.array([99, 99, 99])
    assert share_seats(np.array([0.6, 0.3, 0.1]), many, 10).tolist() == [6, 3, 1]
    assert share_seats(np.array([0.97, 0.02, 0.01]), many, 3).tolist() == [3, 0, 0]
    assert share_seats(np.array([0.97, 0.02, 0.01]), np.array([1, 0, 2]), 9).tolist() == [1, 0, 2]
    assert share_seats(np.zeros(0), many[:0], 4).tolist() == []


def test_points_of_a_root_sum_to_its_share(mixed: tuple[Coded, Measure]) -> None:
    codes, measure = mixed
    assert weights_by_root(codes, measure.weights, None) is measure.weights
    weights = weights_by_root(codes, measure.weights, {"04": 0.5, "19": 0.06, "14": 0.2})
    own = np.array(roots(codes))
    assert weights[own == "19"].sum() == pytest.approx(0.06)
    assert weights[own == "04"].sum() == pytest.approx(0.5)
    assert weights[own == "11"].sum() == 0  # no share was given
    parts = root_parts(codes, Measure(measure.points, weights), 10, least=0.0)
    fights = [part.weight for part in parts if own[part.point] == "19"]
    assert sum(fights) == pytest.approx(0.06)


def test_the_cost_is_that_of_the_nearest_atoms() -> None:
    points = np.eye(3, dtype=np.float32)
    measure = Measure(points, np.array([0.5, 0.25, 0.25]))
    assert nearest_cost(measure, points[:2]) == pytest.approx(2 * 0.25)
    assert nearest_cost(measure, points) == 0
    assert nearest_cost(measure, points[:0]) == 0
