"""Shared borders."""

import numpy as np

from gdelphi.common.types import WORLD
from gdelphi.gdelt.borders import bordering, shared_borders


def test_neighbours_share_a_border_and_others_do_not() -> None:
    shared = shared_borders(["SP", "PO", "FR", "JA"])
    np.testing.assert_array_equal(shared, shared.T)
    assert shared.astype(int).tolist() == [
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
    ]


def test_the_world_and_unknown_codes_border_on_nobody() -> None:
    assert not shared_borders([WORLD, "??", "SP"]).any()
    assert bordering("???") == ()
    assert shared_borders([]).shape == (0, 0)
