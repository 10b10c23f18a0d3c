"""Lines of the roots on a table whose law is known."""

import numpy as np

from gdelphi.stack.linear import expit
from gdelphi.stack.root_lines import fit_root_lines

ROWS, ROOTS = 60_000, 3


def drawn(seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(ROWS, 2)).astype(np.float32)
    root = generator.integers(0, ROOTS, ROWS)
    start = generator.normal(size=ROWS)
    return table, root, start


def outcomes_of(logits: np.ndarray) -> np.ndarray:
    return (np.random.default_rng(6).random(ROWS) < expit(logits)).astype(np.float64)


def test_the_slope_that_all_roots_share_is_found() -> None:
    table, root, start = drawn()
    law = start + 0.8 * table[:, 0]
    lines = fit_root_lines(table, outcomes_of(law), start, root, roots=ROOTS)
    added = lines.added(table, start, root)
    assert np.abs(start + added - law).mean() < 0.06


def test_a_root_with_a_law_of_its_own_departs_from_the_others() -> None:
    table, root, start = drawn()
    law = start + np.where(root == 1, 1.0, -0.2) * table[:, 1]
    lines = fit_root_lines(table, outcomes_of(law), start, root, roots=ROOTS)
    slope = lines.values[:, 1]
    assert slope[1] > 0.4
    assert slope[0] < 0.1
    assert slope[2] < 0.1


def test_where_the_start_is_right_hardly_anything_is_added() -> None:
    table, root, start = drawn()
    lines = fit_root_lines(table, outcomes_of(start), start, root, roots=ROOTS)
    assert np.abs(lines.added(table, start, root)).mean() < 0.03


def test_a_row_far_outside_is_held_within_a_few_deviations() -> None:
    table, root, start = drawn()
    lines = fit_root_lines(table, outcomes_of(start + 0.8 * table[:, 0]), start, root, roots=ROOTS)
    far = np.array([[1e6, 0], [6.1, 0]], np.float32)
    added = lines.added(far, np.zeros(2), np.zeros(2, np.int64))
    assert added[0] == added[1]


def test_outcomes_that_never_differ_add_nothing() -> None:
    table, root, start = drawn()
    lines = fit_root_lines(table, np.ones(ROWS), start, root, roots=ROOTS)
    assert not lines.added(table, start, root).any()


def test_one_row_is_answered_as_among_others() -> None:
    table, root, start = drawn()
    law = start + 0.8 * table[:, 0]
    lines = fit_root_lines(table, outcomes_of(law), start, root, roots=ROOTS)
    alone = lines.added(table[9:10], start[9:10], root[9:10])
    assert alone[0] == lines.added(table, start, root)[9]
