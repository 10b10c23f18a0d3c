"""Which streams matter to which."""

from dataclasses import replace

import numpy as np

from gdelphi.stack.affinity import affinities, hostile_pairs
from helpers.profiles import panel_of, random_profiles


def test_partners_are_those_that_act_on_each_other() -> None:
    panel = panel_of(replace(random_profiles(4, 10), streams=("SP", "PO", "FR", "WORLD")))
    pairs = np.zeros_like(panel.pairs)
    for one, other, number in ((0, 1, 20), (0, 2, 5), (1, 2, 1)):
        pairs[:, one, other, 0] = pairs[:, other, one, 0] = number
    pairs[5:, 0, 2] = pairs[5:, 2, 0] = 60_000  # after the days that are looked at
    found = affinities(replace(panel, pairs=pairs), 4)
    partners = found["partners"]
    assert partners[0, 1] == partners[1, 0] == 1
    assert 0 < partners[0, 2] < 1
    assert partners[1, 2] == 0  # four rows: too few
    assert not partners[3].any()
    assert found["borders"].astype(int).tolist() == [
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert found["everyone"].tolist() == (1 - np.eye(4)).tolist()


def test_hostile_are_those_whose_rows_are_mostly_conflict() -> None:
    panel = panel_of(random_profiles(3, 10))
    pairs = np.zeros_like(panel.pairs)
    pairs[:, 0, 1, 3] = pairs[:, 1, 0, 3] = 9
    pairs[:, 0, 2, 0] = pairs[:, 2, 0, 0] = 9
    hostile = hostile_pairs(replace(panel, pairs=pairs), 10)
    assert hostile[0, 1] == hostile[1, 0] > 0.1
    assert hostile[0, 2] == hostile[2, 0] == 0
