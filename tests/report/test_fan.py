"""The futures of a stream on a plane."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.measures.embed import finest_codes
from gdelphi.measures.profiles import root_codes
from gdelphi.report.fan import (
    fan_of,
    plane_through,
    root_points,
)
from helpers.measured_world import measured
from helpers.report_world import futures

DAY = date(2021, 3, 1)


def rows(points: list[list[float]], codes: list[str], weight: float = 1.0) -> list[dict[str, Any]]:
    """One future with these atoms, all of the same weight."""
    each = [1 / len(points)] * len(points)
    return [
        {
            "day": DAY, "weight": weight, "points": points, "weights": each,
            "gates": [1.0] * len(each), "code": codes,
        }
    ]  # fmt: skip


def many() -> list[dict[str, Any]]:
    return futures(["KE"], DAY).to_pylist()


def test_points_of_a_plane_keep_their_distances() -> None:
    random = np.random.default_rng(0)
    axes, _ = np.linalg.qr(random.normal(size=(5, 2)))
    flat = random.normal(size=(30, 2)) * (3, 1)
    plane = plane_through(flat @ axes.T + 1.0, np.ones(30))
    assert plane.explained == pytest.approx(1)
    placed = plane.of(flat @ axes.T + 1.0)
    distances = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (placed, flat)]
    np.testing.assert_allclose(*distances, atol=1e-9)


def test_the_plane_explains_what_the_two_largest_variances_do() -> None:
    random = np.random.default_rng(1)
    points, masses = random.normal(size=(200, 12)) * np.linspace(3, 1, 12), random.random(200)
    shares = masses / masses.sum()
    centred = points - shares @ points
    values = np.linalg.eigvalsh((centred * shares[:, None]).T @ centred)
    result = plane_through(points, masses)
    assert result.explained == pytest.approx(values[-2:].sum() / values.sum(), rel=1e-4)


def test_a_fan_lies_within_one_and_is_the_same_each_time() -> None:
    fan = fan_of(many(), {})
    assert fan is not None
    places = np.array([(point.x, point.y) for each in fan.futures for point in each.points])
    assert np.abs(places).max() == 1
    assert len(places) == 8
    assert (fan.effective, len(fan.futures)) == (4, 4)
    assert fan == fan_of(many(), {})


def test_the_heaviest_root_lies_right_and_above() -> None:
    fan = fan_of(many(), {})
    assert fan is not None
    heavy = [point for each in fan.futures for point in each.points if point.root == "19"]
    assert sum(point.x for point in heavy) >= 0
    assert sum(point.y for point in heavy) >= 0
    assert all(point.size == 0.75 for point in heavy)


def test_the_number_of_futures_that_count_falls_with_their_weights() -> None:
    one = rows([[1.0, 0, 0], [0, 1, 0]], ["190", "042"], weight=0.9)
    other = rows([[0, 1.0, 0], [0, 0, 1]], ["190", "042"], weight=0.1)
    fan = fan_of([*one, *other], {})
    assert fan is not None
    assert fan.effective == pytest.approx(1 / (0.81 + 0.01), abs=0.01)


def test_an_atom_that_hardly_exists_is_not_drawn() -> None:
    given = rows([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]], ["190", "042", "010"])
    given[0]["gates"] = [1.0, 1.0, 0.001]
    fan = fan_of(given, {})
    assert fan is not None
    assert [point.root for point in fan.futures[0].points] == ["19", "04"]
    assert sum(point.size for point in fan.futures[0].points) == pytest.approx(1, abs=0.01)


def test_landmarks_lie_among_the_atoms_of_their_root() -> None:
    """Atoms that are basis points themselves, with the same actors: the landmark is on them."""
    marks = {"19": np.array([1.0, 0, 0]), "04": np.array([0, 1.0, 0]), "14": np.array([0, 0, 1.0])}
    given = rows([[1.0, 0, 0, 0.3], [0, 1, 0, 0.3], [1, 0, 0, 0.3]], ["190", "042", "190"])
    fan = fan_of(given, marks)
    assert fan is not None
    assert set(fan.landmarks) == {"19", "04"}  # no atom is a protest
    for point in fan.futures[0].points:
        assert fan.landmarks[point.root] == pytest.approx((point.x, point.y), abs=2e-3)


def test_landmarks_of_another_space_are_not_shown() -> None:
    marks = {"04": np.array([1.0, 0, 0]), "19": np.array([0, 1.0, 0])}  # the wrong way round
    given = rows([[1.0, 0, 0, 0.3], [0, 1, 0, 0.3], [1, 0, 0, 0.3]], ["190", "042", "190"])
    for strange in (marks, {root: np.ones(9) / 3 for root in marks}):
        fan = fan_of(given, strange)
        assert fan is not None
        assert fan.landmarks == {}


@pytest.mark.parametrize("number", [1, 2])
def test_too_few_atoms_make_a_fan_all_the_same(number: int) -> None:
    points = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]][:number]
    fan = fan_of(rows(points, ["190", "042"][:number]), {})
    assert fan is not None
    assert fan.explained == 1
    assert len(fan.futures[0].points) == number


def test_empty_futures_are_days_without_points() -> None:
    empty = {"day": DAY, "weight": 1.0, "points": [], "weights": [], "gates": [], "code": []}
    fan = fan_of([empty], {})
    assert fan is not None
    assert fan.futures[0].points == []
    assert fan_of([], {}) is None


def test_landmarks_come_from_the_basis_beside_the_measures(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = measured(tmp_path_factory)
    finest_codes(world.settings, world.space)  # what training keeps
    result = root_points(world.settings)
    assert tuple(result) == root_codes()
    assert all(np.linalg.norm(point) == pytest.approx(1) for point in result.values())


def test_without_measures_there_are_no_landmarks(tmp_path: Path) -> None:
    assert root_points(Settings(store=tmp_path / "none.duckdb")) == {}
