"""Standing levels: by hand, and what rows that the news excite do to them."""

import numpy as np

from gdelphi.common.types import FloatArray
from gdelphi.stack.columns import Columns
from gdelphi.stack.levels import standing_levels

ROOTS = ("01", "19")
SHAPES = np.ones((1, 2))


def level(name: str, counts: FloatArray, born: FloatArray, present: list[bool]) -> FloatArray:
    usual = np.ones_like(counts)
    blocks = standing_levels(counts, usual, born, SHAPES, np.array(present), ROOTS)
    found: FloatArray = Columns(blocks).select([name]).at(np.arange(len(counts) + 1))[:, 0, 0]
    return found


def test_a_level_by_hand() -> None:
    counts = np.zeros((3, 1, 2))
    counts[:, 0, 1] = [5, 9, 3]
    found = level(
        "standing conflict half-life 2", counts, np.ones_like(counts), [True, False, True]
    )
    # One conflict root, of precision 1 / (1/1 + 1/1) = 1/2, discounted by d = 2^(-1/2) a day.
    day = 0.5**0.5
    by_hand = [
        1.0,
        (0.5 + 2.5) / (0.5 + 0.5),
        (0.5 + 2.5 * day) / (0.5 + 0.5 * day),
        (0.5 + 2.5 * day**2 + 1.5) / (0.5 + 0.5 * day**2 + 0.5),
    ]
    np.testing.assert_allclose(found, by_hand, rtol=1e-6)


def test_hinges_are_of_the_level() -> None:
    counts = np.zeros((3, 1, 2))
    counts[:, 0, 1] = [9, 0, 40]
    whole, low, high, higher = (
        level(f"standing conflict half-life 4{way}", counts, np.ones_like(counts), [True] * 3)
        for way in ("", " up to 1", " above 1", " above 2.5")
    )
    np.testing.assert_allclose(low, np.minimum(whole, 1))
    np.testing.assert_allclose(high, np.clip(whole - 1, 0, 10))
    np.testing.assert_allclose(higher, np.clip(whole - 2.5, 0, 10))


def test_rows_that_the_news_excite_do_not_raise_a_level() -> None:
    counts = np.full((20, 1, 2), 6.0)
    excited = np.full_like(counts, 1 / 6)
    assert level("standing conflict half-life 8", counts, excited, [True] * 20).max() < 1.001
    assert level("standing conflict half-life 8", counts, excited * 6, [True] * 20)[-1] > 5


def test_a_class_without_roots_stays_at_one() -> None:
    counts = np.full((5, 1, 2), 6.0)
    found = level("standing verbal conflict half-life 8", counts, np.ones_like(counts), [True] * 5)
    assert (found == 1).all()
