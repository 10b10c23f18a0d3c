"""The count panel against plain counting of the same rows."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gdelphi.gdelt.cameo import country_by_fips
from gdelphi.measures.count_panel import CountPanel, read_count_panel
from gdelphi.measures.profiles import read_profiles
from helpers.archives import rows
from helpers.measured_world import Measured, measured


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture(scope="module")
def panel(world: Measured) -> CountPanel:
    roots = read_profiles(world.settings, "root", (*world.pack.facts.streams, "WORLD"))
    return read_count_panel(world.settings, roots)


def events(world: Measured) -> list[tuple[Any, ...]]:
    return rows(
        world.settings,
        "SELECT NewsDay, ActionGeo_CountryCode, EventCode, EventRootCode, QuadClass, "
        "Actor1CountryCode, Actor2CountryCode FROM events",
    )


def test_all_counts_are_those_of_plain_counting(world: Measured, panel: CountPanel) -> None:
    streams, first = panel.roots.streams, panel.roots.days[0]
    stream_of = {}
    for stream in streams[:-1]:
        country = country_by_fips(stream)
        assert country and country.cameo
        stream_of[country.cameo] = streams.index(stream)
    fine: Counter[Any] = Counter()
    pairs: Counter[Any] = Counter()
    acted: Counter[Any] = Counter()
    everywhere: Counter[Any] = Counter()
    for day, place, code, root, quad, actor1, actor2 in events(world):
        at = (day - first).days
        everywhere[at, panel.roots.codes.index(root)] += 1
        if place in streams and code in panel.fine_codes:
            fine[streams.index(place), at, panel.fine_codes.index(code)] += 1
        known = {stream_of[actor] for actor in (actor1, actor2) if actor in stream_of}
        for one in known:
            acted[one, at, panel.roots.codes.index(root)] += 1
            for other in known - {one}:
                pairs[at, one, other, quad - 1] += 1
    assert sum(pairs.values()) > 100  # there is something to compare
    for counted, array in (
        (fine, panel.fine[:-1]),
        (pairs, panel.pairs),
        (acted, panel.acted[:-1]),
        (everywhere, panel.world),
    ):
        expected = np.zeros(array.shape, np.int64)
        for index, number in counted.items():
            expected[index] = number
        assert (array == expected).all()


def test_the_world_acts_wherever_anybody_does(panel: CountPanel) -> None:
    assert (panel.acted[-1] == panel.world).all()
    assert not panel.pairs[:, -1].any()


def test_a_panel_that_ends_earlier_has_the_same_days(panel: CountPanel) -> None:
    shorter = panel.until(panel.roots.days[30])
    assert (len(shorter.world), shorter.fine.shape[1], len(shorter.pairs)) == (31, 31, 31)
    assert (shorter.acted == panel.acted[:, :31]).all()


def test_the_pack_keeps_it(world: Measured) -> None:
    read = read_count_panel(world.settings, world.pack.profiles)
    for name in ("fine", "pairs", "acted", "world"):
        assert (getattr(world.pack.count_panel, name) == getattr(read, name)).all()
