"""Boosted trees on a table whose law is known."""

from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.stack.linear import expit
from gdelphi.stack.trees import TreeGrower, Trees

NAMES = ("step", "noise", "root", "stream")
ROWS = 6000


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    generator = np.random.default_rng(3)
    columns = [generator.normal(size=(ROWS, 2)), generator.integers(0, 3, (ROWS, 2))]
    return np.column_stack(columns).astype(np.float32)


def law(table: np.ndarray) -> np.ndarray:
    """A step in the first column."""
    return np.where(table[:, 0] > 0.5, 1.5, -1.0)


@pytest.fixture(scope="module")
def outcome(table: np.ndarray) -> np.ndarray:
    drawn = np.random.default_rng(4).random(ROWS) < expit(law(table))
    return drawn.astype(np.float64)


def test_they_find_a_step_and_add_to_the_start(table: np.ndarray, outcome: np.ndarray) -> None:
    start = np.full(ROWS, 0.5)
    half = np.arange(ROWS) < ROWS // 2
    grower = TreeGrower(table, NAMES, ("root", "stream"))
    rounds = grower.rounds(half, ~half, outcome, start)
    assert rounds > 10
    trees = grower.grow(half, outcome, start, rounds=rounds, seeds=2)
    logits = start + trees.added(table)
    assert np.abs(logits - law(table))[~half].mean() < 0.25


def test_where_the_start_is_right_nothing_is_added(table: np.ndarray, outcome: np.ndarray) -> None:
    start = law(table)
    half = np.arange(ROWS) < ROWS // 2
    grower = TreeGrower(table, NAMES, ("root", "stream"))
    rounds = grower.rounds(half, ~half, outcome, start)
    added = grower.grow(half, outcome, start, rounds=rounds).added(table)
    assert np.abs(added).mean() < 0.1


def test_one_row_is_answered_as_among_others(table: np.ndarray, outcome: np.ndarray) -> None:
    every = np.ones(ROWS, np.bool_)
    trees = TreeGrower(table, NAMES, ("root", "stream")).grow(
        every, outcome, np.zeros(ROWS), rounds=20
    )
    assert trees.added(table[7:8])[0] == trees.added(table)[7]


def test_outcomes_that_never_differ_grow_no_trees(table: np.ndarray) -> None:
    every = np.ones(ROWS, np.bool_)
    grower = TreeGrower(table, NAMES, ("root", "stream"))
    assert grower.rounds(every, every, np.ones(ROWS), np.zeros(ROWS)) == 0
    trees = grower.grow(every, np.ones(ROWS), np.zeros(ROWS), rounds=50)
    assert not trees.added(table).any()


def test_saved_trees_answer_the_same_and_damaged_ones_are_named(
    table: np.ndarray, outcome: np.ndarray, tmp_path: Path
) -> None:
    every = np.ones(ROWS, np.bool_)
    trees = TreeGrower(table, NAMES, ("root", "stream")).grow(
        every, outcome, np.zeros(ROWS), rounds=20, seeds=2
    )
    trees.save(tmp_path, "trees-occurs")
    again = Trees.load(tmp_path, "trees-occurs")
    np.testing.assert_array_equal(again.added(table), trees.added(table))
    (tmp_path / "trees-occurs-1.txt").write_text("nothing")
    with pytest.raises(ForecastError, match=r"trees-occurs.*train the model again"):
        Trees.load(tmp_path, "trees-occurs")
