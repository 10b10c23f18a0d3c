"""Targets lie in their part with a whole context before them."""

import numpy as np
import pytest

from gdelphi.common.errors import ConfigError
from gdelphi.common.settings import Settings
from gdelphi.measures.pack import STATES
from gdelphi.measures.sequences import Sequences
from helpers.measured_world import DAYS, GONE, Measured, changed, day_at, measured

CONTEXT = 5
# Parts of the 80 days with two days of embargo: 0 to 47, 50 to 55, 58 to 63, 66 to 79.
PARTS = {"train": (0, 47), "validation_a": (50, 55), "validation_b": (58, 63), "test": (66, 79)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


def settings_of(world: Measured, **given: int) -> Settings:
    short = {"context_days": CONTEXT, **given}
    return changed(changed(world.settings, "sequences", **short), "split", embargo_days=2)


@pytest.fixture(scope="module")
def sequences(world: Measured) -> Sequences:
    return Sequences(world.pack, settings_of(world))


# --- targets --------------------------------------------------------------------------------------


def test_targets_lie_in_their_part_with_a_context_before_them(sequences: Sequences) -> None:
    for part in ("train", "validation_a", "validation_b", "test"):
        first, last = PARTS[part]
        assert sequences.splits.days(part) == (day_at(first), day_at(last))
        expected = [number for number in range(max(first, CONTEXT), last + 1) if number not in GONE]
        assert sequences.targets(part).tolist() == expected


def test_days_of_the_embargo_are_no_targets_of_any_part(sequences: Sequences) -> None:
    given = {
        number
        for part in ("train", "validation_a", "validation_b", "test")
        for number in sequences.targets(part).tolist()
    }
    left_out = set(range(CONTEXT, DAYS)) - given
    assert left_out == {48, 49, 56, 57, 64, 65, *GONE}


def test_the_default_are_targets_with_50_days_before_them(world: Measured) -> None:
    settings = changed(
        world.settings, "split", train_until=day_at(68), validation_a_until=day_at(70),
        validation_b_until=day_at(74), embargo_days=0,
    )  # fmt: skip
    sequences = Sequences(world.pack, settings)
    assert sequences.targets("train").tolist() == [
        number for number in range(50, 69) if number not in GONE
    ]


def test_an_empty_day_is_a_target(world: Measured, sequences: Sequences) -> None:
    quiet = world.pack.facts.streams.index("KE")
    empty = np.flatnonzero(world.pack.states[:, quiet] == STATES.index("empty"))
    assert int(empty[empty >= CONTEXT][0]) in sequences.targets("train")


def test_too_few_days_for_the_parts_are_refused_with_what_to_do(world: Measured) -> None:
    with pytest.raises(ConfigError, match=r"no day is left for validation_a.*split\.embargo_days"):
        Sequences(world.pack, changed(world.settings, "split", embargo_days=30))
