"""Days with missing and wrong reports are as they would be with such rows."""

import numpy as np
import pytest

from gdelphi.inspect.wrong_reports import FAULTS, Fault, with_fault, without_day
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.pack import STATES, Pack
from helpers.measured_world import Measured, measured

DAYS = [40, 41, 42]
NAMES = ("counts", "weights", "states", "statistics", "present")
PANEL = ("fine", "pairs", "acted", "world")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture(scope="module")
def pack(world: Measured) -> Pack:
    return Pack(world.packed.folder)


def faulty(world: Measured, pack: Pack, fault: Fault, share: float) -> Pack:
    clouds = Clouds(measures_folder(world.settings))
    return with_fault(pack, clouds, DAYS, fault, share, np.random.default_rng(0))


@pytest.mark.parametrize("fault", FAULTS)
def test_no_row_at_fault_changes_nothing(world: Measured, pack: Pack, fault: Fault) -> None:
    same = faulty(world, pack, fault, 0.0)
    for name in NAMES:
        np.testing.assert_allclose(getattr(same, name), getattr(pack, name), rtol=1e-6, atol=1e-9)
    for name in PANEL:
        np.testing.assert_array_equal(
            getattr(same.count_panel, name), getattr(pack.count_panel, name)
        )
    for day in DAYS:
        for stream in range(len(pack.facts.streams)):
            for one, other in zip(same.cloud(day, stream), pack.cloud(day, stream), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("fault", FAULTS)
def test_counts_follow_the_rows_and_other_days_stay(
    world: Measured, pack: Pack, fault: Fault
) -> None:
    changed = faulty(world, pack, fault, 0.5)
    others = [day for day in range(pack.facts.days) if day not in DAYS]
    np.testing.assert_array_equal(changed.counts[:, others], pack.counts[:, others])
    before, after = (one.counts[:, DAYS].sum() for one in (pack, changed))
    expected = {"vanish": 0.5, "come twice": 1.5, "carry another code": 1.0}[fault]
    assert after / before == pytest.approx(expected, abs=0.1)
    assert np.abs(changed.counts[:, DAYS] - pack.counts[:, DAYS]).sum() > 0
    # Every count that comes of the same rows agrees: fine codes, roots, volume.
    # Codes outside the table, of which there are a few, have a root and no fine code.
    volume = changed.counts[:, DAYS].sum(axis=2)
    assert np.abs(changed.count_panel.fine[:, DAYS].sum(axis=2) - volume).max() <= 2
    assert np.abs(changed.statistics[DAYS, :, 0].T - volume).max() <= 2
    pairs = changed.count_panel.pairs
    np.testing.assert_array_equal(pairs, pairs.swapaxes(1, 2))
    for day in DAYS:
        for stream in range(len(pack.facts.streams)):
            slots, weights = changed.cloud(day, stream)
            assert len(slots) == len(weights)
            assert weights.sum() == pytest.approx(1.0 if len(weights) else 0.0, abs=1e-5)
            assert bool(len(weights)) == bool(changed.counts[stream, day].sum())
    shares = [one.weights[:, DAYS] / one.weights[:, DAYS].sum(axis=2, keepdims=True).clip(1e-12)
              for one in (pack, changed)]  # fmt: skip
    assert np.abs(shares[0] - shares[1]).max() > 0.01
    assert (changed.weights[changed.counts == 0] == 0).all()


def test_all_rows_may_vanish(world: Measured, pack: Pack) -> None:
    nothing = faulty(world, pack, "vanish", 1.0)
    assert nothing.counts[:, DAYS].sum() == 0
    assert nothing.present[DAYS].all()
    assert (nothing.states[DAYS] == STATES.index("empty")).all()


def test_a_missing_day_is_not_an_empty_one(pack: Pack) -> None:
    gone = without_day(pack, 41)
    assert pack.present[41]
    assert not gone.present[41]
    assert (gone.states[41] == STATES.index("missing")).all()
    assert gone.counts[:, 41].sum() == 0
    assert len(gone.cloud(41, 0)[1]) == 0
    assert not gone.profiles.present[41]
    np.testing.assert_array_equal(gone.counts[:, 42], pack.counts[:, 42])
