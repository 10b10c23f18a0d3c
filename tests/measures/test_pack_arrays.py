"""The arrays says what profiles and baselines say, at every origin and without its future."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gdelphi.common.types import TARGETS
from gdelphi.measures.pack import (
    STATES,
    STATISTICS,
    Pack,
    day_columns,
)
from gdelphi.measures.pack_arrays import (
    LITTLE,
    MOST_RELATIVE,
    USUAL_DAYS,
    PackArrays,
    read_pack_arrays,
)
from gdelphi.measures.past import past_of
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import (
    SURGE_FEWEST,
    headline_of,
    occurs_of,
    outcomes,
    surge_threshold,
)
from gdelphi.model.config import MeasureConfig
from helpers.measured_world import DAYS, GONE, Measured, day_at, measured

STREAMS, CODES = 4, 20
Panel = dict[str, npt.NDArray[Any]]
ARRAYS = ("occurs", "headline", "shares", "thresholds", "usual", "relative", "features")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture(scope="module")
def history(world: Measured) -> Profiles:
    return world.history


@pytest.fixture(scope="module")
def arrays(world: Measured, tmp_path_factory: pytest.TempPathFactory) -> PackArrays:
    return read_pack_arrays(copied(world, tmp_path_factory.mktemp("arrays")))


def copied(
    world: Measured, folder: Path, change: Callable[[Panel], None] = lambda panel: None
) -> Pack:
    """A pack of its own, with other values of its days, [day, ...]."""
    shutil.copytree(world.packed.folder, folder, dirs_exist_ok=True)
    (folder / "surges.npz").unlink(missing_ok=True)
    every = range(world.pack.facts.days)
    panel = {
        name: np.array(world.pack.day_values(name, every)) for name in day_columns(world.pack.facts)
    }
    change(panel)
    for name, values in panel.items():
        (folder / f"{name}.bin").write_bytes(values.tobytes())
    return Pack(folder)


def cut(world: Measured, folder: Path, days: int) -> Pack:
    """The pack of the first days alone, as it would have been made on the last of them."""
    copied(world, folder)
    for name, size in world.pack.bytes_of(days).items():
        with (folder / f"{name}.bin").open("r+b") as file:
            file.truncate(size)
    said = json.loads((folder / "pack.json").read_text())
    (folder / "pack.json").write_text(json.dumps(said | {"days": days}))
    (folder / "keys.json").write_text(json.dumps(world.pack.keys_of(days)))
    return Pack(folder)


# --- at every origin ------------------------------------------------------------------------------


def test_targets_and_shares_of_each_day_are_those_of_profiles(
    arrays: PackArrays, history: Profiles
) -> None:
    assert arrays.pack.facts.streams == history.streams
    np.testing.assert_array_equal(arrays.occurs, occurs_of(history.counts))
    np.testing.assert_array_equal(arrays.headline, headline_of(history.weights))
    np.testing.assert_array_equal(arrays.shares, history.shares)
    assert not arrays.shares[:, list(GONE)].any()


def test_outcomes_are_those_of_profiles_at_every_origin(
    arrays: PackArrays, history: Profiles
) -> None:
    for origin in range(DAYS):
        expected = outcomes(history, day_at(origin))
        for number, name in enumerate(TARGETS):
            np.testing.assert_array_equal(arrays.outcomes[number, :, origin], expected[name])
    unknown = sorted(
        set(range(DAYS)) - set(np.flatnonzero(np.isfinite(arrays.outcomes[0, 0, :, 0])))
    )
    assert unknown == [*(gone - 1 for gone in GONE), DAYS - 1]


def test_thresholds_are_those_of_profiles_at_every_origin(
    arrays: PackArrays, history: Profiles
) -> None:
    for origin in range(DAYS):
        expected = surge_threshold(history, day_at(origin))
        np.testing.assert_array_equal(arrays.thresholds[:, origin], expected)
    # The 60th present day, counted from 1, with one gap before it.
    defined = np.isfinite(arrays.thresholds).any(axis=(0, 2))
    assert np.flatnonzero(defined).tolist() == list(range(SURGE_FEWEST, DAYS))
    assert np.isnan(arrays.thresholds[:, DAYS - 1]).any()


@pytest.mark.parametrize("target", TARGETS)
def test_pooled_rates_are_those_of_baselines_at_every_origin(
    arrays: PackArrays, history: Profiles, target: str
) -> None:
    for origin in range(DAYS):
        expected = past_of(history, day_at(origin)).pooled_rate(target)
        found = arrays.pooled[TARGETS.index(target), origin]
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_weekdays_are_those_of_the_calendar(arrays: PackArrays) -> None:
    assert arrays.weekday.tolist() == [day_at(number).weekday() for number in range(DAYS)]


# --- no future ------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [1, 21, 64, 70])
def test_a_shorter_pack_has_the_beginning_of_the_arrays(
    world: Measured, arrays: PackArrays, tmp_path: Path, days: int
) -> None:
    """Three of them end behind the gaps or on one."""
    short = read_pack_arrays(cut(world, tmp_path, days))
    for name in ARRAYS:
        found, whole = getattr(short, name), getattr(arrays, name)
        assert found.shape[1] == days
        np.testing.assert_array_equal(found, whole[:, :days], err_msg=name)
    np.testing.assert_array_equal(short.pooled, arrays.pooled[:, :days])
    np.testing.assert_array_equal(
        short.outcomes[:, :, : days - 1], arrays.outcomes[:, :, : days - 1]
    )
    assert np.isnan(short.outcomes[:, :, days - 1]).all()


def test_garbage_after_a_day_changes_no_bit_up_to_it(
    world: Measured, arrays: PackArrays, tmp_path: Path
) -> None:
    day = 65

    def spoil(panel: Panel) -> None:
        random = np.random.default_rng(3)
        for name in ("counts", "root_weights"):
            later = panel[name][day + 1 :]
            later[:] = random.integers(0, 50, later.shape)
        later = panel["statistics"][day + 1 :]
        later[:] = random.random(later.shape)
        panel["states"][day + 1 :] = STATES.index("empty")
        panel["flags"][day + 1 :] ^= True

    other = read_pack_arrays(copied(world, tmp_path, spoil))
    for name in ARRAYS:
        found, whole = getattr(other, name), getattr(arrays, name)
        np.testing.assert_array_equal(found[:, : day + 1], whole[:, : day + 1], err_msg=name)
        assert not np.array_equal(found[:, day + 1 :], whole[:, day + 1 :], equal_nan=True), name
    np.testing.assert_array_equal(other.pooled[:, : day + 1], arrays.pooled[:, : day + 1])
    np.testing.assert_array_equal(other.outcomes[:, :, :day], arrays.outcomes[:, :, :day])


# --- what is kept ---------------------------------------------------------------------------------


def test_thresholds_are_kept_beside_the_pack_and_read_again(
    world: Measured, arrays: PackArrays, tmp_path: Path
) -> None:
    pack = copied(world, tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    first = read_pack_arrays(pack)
    assert {path.name for path in tmp_path.iterdir()} - before == {"surges.npz"}
    np.testing.assert_array_equal(first.thresholds, arrays.thresholds)
    with np.load(tmp_path / "surges.npz") as kept:
        np.savez(tmp_path / "surges.npz", thresholds=kept["thresholds"] + 1, rates=kept["rates"])
    (tmp_path / "checksums.txt").unlink()
    again = read_pack_arrays(Pack(tmp_path))
    np.testing.assert_array_equal(again.thresholds, first.thresholds + 1)
    np.testing.assert_array_equal(again.pooled, first.pooled)


def test_a_pack_that_was_replaced_on_the_disk_still_has_its_outlook(
    world: Measured, arrays: PackArrays, tmp_path: Path
) -> None:
    """A newer pack takes older ones away; whoever has one open keeps it."""
    pack = copied(world, tmp_path / "pack")
    shutil.rmtree(tmp_path / "pack")
    np.testing.assert_array_equal(read_pack_arrays(pack).thresholds, arrays.thresholds)


# --- what describes a day -------------------------------------------------------------------------


def counted(
    world: Measured, folder: Path, counts: list[int], missing: tuple[int, ...] = ()
) -> PackArrays:
    """The arrays of a world in which every code of every stream has these counts."""

    def fill(panel: Panel) -> None:
        panel["counts"] = np.zeros_like(panel["counts"])
        panel["counts"][: len(counts)] = np.array(counts)[:, None, None]
        panel["flags"][:, 0] = True
        panel["flags"][list(missing), 0] = False

    return read_pack_arrays(copied(world, folder, fill))


def test_counts_as_usual_are_0_and_many_more_are_held_back(world: Measured, tmp_path: Path) -> None:
    found = counted(world, tmp_path, [3] * 60 + [0, 5000]).relative
    assert found.shape == (STREAMS, DAYS, CODES)
    np.testing.assert_allclose(found[:, :60], 0, atol=1e-9)
    assert (found[:, 60] < -0.8).all()
    assert (found > -1).all()
    np.testing.assert_array_equal(found[:, 61], MOST_RELATIVE)


def test_the_usual_is_an_exponential_mean_of_present_days(world: Measured, tmp_path: Path) -> None:
    """By hand: after counts 1, (missing), 5 it is (k 1 + 5) / (k + 1), k^USUAL_DAYS = 1/2, and a
    little more, so that its logarithm exists."""
    found = counted(world, tmp_path, [1, 0, 5, 0], missing=(1,))
    keep = 0.5 ** (1 / USUAL_DAYS)
    third, fourth = (keep * 1 + 5) / (keep + 1), (keep**2 * 1 + keep * 5) / (keep**2 + keep + 1)
    usual = np.array([1, 1, third, fourth])
    more = found.usual[0, 0, 0] - 1
    assert 0 < more < LITTLE
    assert (found.usual > 0).all()
    np.testing.assert_allclose(found.usual[0, :4, 0], usual + more, rtol=1e-12)
    expected = (np.array([1, 0, 5, 0]) - usual) / (usual + LITTLE)
    expected[1] = 0  # missing
    for place in range(4):
        np.testing.assert_allclose(found.relative[:, place], expected[place], atol=1e-9)


def test_features_are_finite_and_as_many_as_a_model_expects(arrays: PackArrays) -> None:
    assert arrays.features.shape == (STREAMS, DAYS, MeasureConfig().features)
    assert np.isfinite(arrays.features).all()
    assert np.isfinite(arrays.relative).all()
    assert np.abs(arrays.features).max() < 20  # on a scale that a network can take
    assert not arrays.relative[:, list(GONE)].any()


def test_features_say_what_a_day_was(arrays: PackArrays, history: Profiles) -> None:
    """Counts first, shares third; then the volume, and at the end the state and two flags."""
    found = arrays.features
    np.testing.assert_allclose(found[..., :CODES], np.log1p(history.counts))
    np.testing.assert_allclose(found[..., 2 * CODES : 3 * CODES] ** 2, history.shares, atol=1e-12)
    state = found[..., -2 - len(STATES) : -2]
    np.testing.assert_array_equal(state.argmax(axis=2), arrays.pack.states.T)
    np.testing.assert_array_equal(state.sum(axis=2), 1)
    np.testing.assert_array_equal(state[:, list(GONE), STATES.index("missing")], 1)
    volume = arrays.pack.statistics[..., 0].T
    np.testing.assert_allclose(found[..., 3 * CODES], np.log1p(volume))
    statistics = STATISTICS - 3
    assert found.shape[2] == 3 * CODES + 2 + statistics + len(STATES) + 2


def test_flags_of_a_day_are_features_of_all_streams(world: Measured, tmp_path: Path) -> None:
    def flag(panel: Panel) -> None:
        panel["flags"][7, 1] = True
        panel["flags"][9, 2] = True

    flags = read_pack_arrays(copied(world, tmp_path, flag)).features[..., -2:]
    expected = np.zeros((STREAMS, DAYS, 2))
    expected[:, 7, 0] = 1
    expected[:, 9, 1] = 1
    np.testing.assert_array_equal(flags, expected)


def test_before_the_first_present_day_rates_are_a_half_and_nothing_is_unusual(
    world: Measured, tmp_path: Path
) -> None:
    def empty(panel: Panel) -> None:
        panel["flags"][:3, 0] = False
        for name in ("counts", "root_weights"):
            panel[name][:3] = 0

    found = read_pack_arrays(copied(world, tmp_path, empty))
    np.testing.assert_array_equal(found.pooled[:, :3], 0.5)
    assert (found.pooled[:2, 3] != 0.5).any()
    assert np.isfinite(found.features).all()
    np.testing.assert_array_equal(found.relative[:, :3], 0)
    assert (found.usual > 0).all()
    assert np.isnan(found.outcomes[:, :, :2]).all()
    assert np.isfinite(found.outcomes[:2, :, 2]).all()
