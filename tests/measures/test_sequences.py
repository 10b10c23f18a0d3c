"""A sequence keeps its gaps, ends at its origin, and knows the day after as its target alone."""

from collections import Counter
from dataclasses import fields
from datetime import date, timedelta
from itertools import islice, pairwise

import numpy as np
import pytest

from gdelphi.common.errors import ConfigError, MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.measures.pack import Pack
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.sequences import (
    DaySequence,
    SequenceDay,
    SequenceDraw,
    Sequences,
)
from helpers.measured_world import DAYS, GONE, Measured, changed, day_at, measured

CONTEXT = 5
# Parts of the 80 days with two days of embargo: 0 to 47, 50 to 55, 58 to 63, 66 to 79.
PARTS = {"train": (0, 47), "validation_a": (50, 55), "validation_b": (58, 63), "test": (66, 79)}


@pytest.fixture(scope="module", params=["slots", "sentence"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory, request.param)


def settings_of(world: Measured, **given: int) -> Settings:
    short = {"context_days": CONTEXT, "memory_days": 12, **given}
    return changed(changed(world.settings, "sequences", **short), "split", embargo_days=2)


@pytest.fixture(scope="module")
def sequences(world: Measured) -> Sequences:
    return Sequences(world.pack, settings_of(world))


def days_of(sequence: DaySequence) -> list[date]:
    return [day.day for day in sequence.context]


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
    assert sequences.plain(0, 48).part is None
    assert sequences.plain(0, 50).part == "validation_a"


def test_the_length_counts_all_known_days_that_have_a_context(sequences: Sequences) -> None:
    assert len(sequences) == (DAYS - CONTEXT - len(GONE)) * 4


# --- a sequence -----------------------------------------------------------------------------------


def test_the_default_is_50_consecutive_days_and_a_target(world: Measured) -> None:
    settings = changed(
        world.settings, "split", train_until=day_at(68), validation_a_until=day_at(70),
        validation_b_until=day_at(74), embargo_days=0,
    )  # fmt: skip
    sequences = Sequences(world.pack, settings)
    assert sequences.targets("train").tolist() == [
        number for number in range(50, 69) if number not in GONE
    ]
    for target in (50, 60, 79):
        sequence = sequences.plain(1, target)
        assert len(sequence.context) == 50
        assert days_of(sequence) == [day_at(target - 50 + number) for number in range(50)]
        assert sequence.target.day == day_at(target)
        assert sequence.origin == day_at(target - 1)
        assert sequence.stream == "ET"
        assert len(sequence.memory.days) == target  # all that there is, up to a year


def test_a_missing_and_an_empty_day_stand_in_the_sequence_and_say_so(
    world: Measured, sequences: Sequences
) -> None:
    sequence = sequences.plain(0, GONE[0] + 2)
    states = {day.day: day.state for day in sequence.context}
    assert states.pop(day_at(GONE[0])) == "missing"
    assert set(states.values()) == {"full"}
    gap = sequence.context[3]
    assert (len(gap.slots), len(gap.weights), len(gap.atoms.weights)) == (0, 0, 0)
    assert not gap.statistics.any()
    quiet = world.pack.facts.streams.index("KE")
    empty = np.flatnonzero(world.pack.states[:, quiet] == 1)
    target = int(empty[empty >= CONTEXT][0])
    assert sequences.plain(quiet, target).target.state == "empty"  # and is a target
    assert target in sequences.targets("train")


def test_days_are_those_of_the_clouds(world: Measured, sequences: Sequences) -> None:
    sequence = sequences.plain(2, 60)
    for day in (*sequence.context, sequence.target):
        cloud = world.clouds.cloud("UG", day.day)
        assert day.state == cloud.state
        assert (day.partial, day.backfile) == (cloud.partial, cloud.backfile)
        assert day.weights.tobytes() == cloud.weights.astype(np.float32).tobytes()
        points = world.pack.points(day.slots, world.space)
        assert points.tobytes() == world.points().of(cloud).tobytes()
        assert day.statistics[0] == cloud.volume


def test_each_day_has_the_descriptor_that_was_drawn(world: Measured, sequences: Sequences) -> None:
    variants = (0, 1, 2, 0, 1, 2)
    sequence = sequences.get(SequenceDraw(0, 30, variants))
    days = (*sequence.context, sequence.target)
    for number, (day, variant) in enumerate(zip(days, variants, strict=True), start=25):
        expected = world.pack.atoms(number, 0, variant)
        assert day.atoms.points.tobytes() == expected.points.tobytes()
        assert day.atoms.weights.tobytes() == expected.weights.tobytes()
    with pytest.raises(ValueError, match="shorter"):
        sequences.get(SequenceDraw(0, 30, variants[:3]))


@pytest.mark.parametrize("target", [-1, 0, CONTEXT - 1, DAYS])
def test_a_target_without_a_whole_context_or_outside_is_refused(
    sequences: Sequences, target: int
) -> None:
    with pytest.raises(MeasuresError, match=rf"day {target} of 80 is no target.*5 days before it"):
        sequences.plain(0, target)


# --- memory ---------------------------------------------------------------------------------------


def test_memory_ends_at_the_origin_and_never_has_the_target_or_later(sequences: Sequences) -> None:
    for target in (5, 8, 30, 79):
        sequence = sequences.plain(0, target)
        memory = sequence.memory
        assert memory.days[-1] == sequence.origin == sequence.target.day - timedelta(days=1)
        assert all(later - day == timedelta(days=1) for day, later in pairwise(memory.days))
        size = min(12, target)
        assert len(memory.days) == len(memory.present) == len(memory.atoms) == size
        assert memory.counts.shape == memory.shares.shape == (size, 20)
        assert max(*memory.days, *days_of(sequence)) < sequence.target.day


def test_memory_has_profiles_and_own_descriptors_of_its_days(
    world: Measured, sequences: Sequences
) -> None:
    profiles = read_profiles(world.settings, "root", ["UG"])
    memory = sequences.get(SequenceDraw(2, 30, (2,) * 6)).memory
    window = slice(18, 30)
    assert memory.days == profiles.days[window]
    assert memory.present.tolist() == [number != GONE[0] for number in range(18, 30)]
    assert (memory.counts == profiles.counts[0, window]).all()
    assert memory.shares.tobytes() == profiles.shares[0, window].tobytes()
    for number, atoms in zip(range(18, 30), memory.atoms, strict=True):
        assert atoms.points.tobytes() == world.pack.atoms(number, 2).points.tobytes()
    assert len(memory.atoms[GONE[0] - 18].weights) == 0


def test_a_sequence_holds_nothing_of_days_after_its_target(
    world: Measured, sequences: Sequences
) -> None:
    """Garbage from the target on in a copy of everything that is read changes no input."""
    target = 30
    spoilt = Pack(world.pack.folder)
    last = spoilt._panel["cloud_starts"][target * 4], spoilt._panel["atom_starts"][target * 12]
    spoilt._clouds = tuple(np.array(values) for values in spoilt._clouds)  # type: ignore[assignment]
    spoilt._atoms = tuple(np.array(values) for values in spoilt._atoms)  # type: ignore[assignment]
    for values, start in (*((each, last[0]) for each in spoilt._clouds),
                          *((each, last[1]) for each in spoilt._atoms)):  # fmt: skip
        values[start:] = 0
    spoilt.counts[:, target:] = 99
    spoilt.weights[:, target:] = 99
    spoilt.statistics[target:] = 99
    spoilt.states[target:] = 0
    other = Sequences(spoilt, settings_of(world))
    for stream in range(4):
        plain, changed_one = (each.plain(stream, target) for each in (sequences, other))
        assert content(plain.context) == content(changed_one.context)
        assert plain.memory.counts.tobytes() == changed_one.memory.counts.tobytes()
        assert plain.memory.shares.tobytes() == changed_one.memory.shares.tobytes()
        for one, two in zip(plain.memory.atoms, changed_one.memory.atoms, strict=True):
            assert one.points.tobytes() == two.points.tobytes()
        assert content((plain.target,)) != content((changed_one.target,))


def content(days: tuple[SequenceDay, ...]) -> list[object]:
    return [
        (day.day, day.state, day.partial, day.backfile, day.statistics.tobytes(),
         day.slots.tobytes(), day.weights.tobytes(), *map(bytes, day.atoms))
        for day in days
    ]  # fmt: skip


# --- drawing --------------------------------------------------------------------------------------


def test_drawing_goes_by_its_seed(sequences: Sequences) -> None:
    first = list(sequences.draw(50, seed=1))
    assert first == list(sequences.draw(50, seed=1))
    assert first != list(sequences.draw(50, seed=2))
    assert first[:7] == list(islice(sequences.draw(10_000, seed=1), 7))


def test_what_is_drawn_lies_in_its_part_and_reaches_everything(sequences: Sequences) -> None:
    drawn = list(sequences.draw(1500, seed=0))
    assert set(sequences.targets("train").tolist()) == {each.target for each in drawn}
    assert {each.stream for each in drawn} == {0, 1, 2, 3}
    assert {len(each.variants) for each in drawn} == {CONTEXT + 1}
    counts = Counter(variant for each in drawn for variant in each.variants)
    assert set(counts) == {0, 1, 2}
    assert counts[0] / (1500 * 6) == pytest.approx(1 / 3, abs=0.03)
    test = {each.target for each in sequences.draw(200, part="test", seed=0)}
    assert test <= set(sequences.targets("test").tolist())
    assert {field.name for field in fields(sequences.get(drawn[0]))} == {
        "stream", "part", "context", "memory", "target",
    }  # fmt: skip


def test_too_few_days_for_a_context_are_refused_with_what_to_do(world: Measured) -> None:
    settings = changed(world.settings, "split", embargo_days=2)
    with pytest.raises(
        MeasuresError,
        match=r"no day of train \(2021-01-04 to 2021-02-20\) has 50 days.*sequences\.context_days",
    ):
        next(Sequences(world.pack, settings).draw(1))


def test_too_few_days_for_the_parts_are_refused_with_what_to_do(world: Measured) -> None:
    with pytest.raises(ConfigError, match=r"no day is left for validation_a.*split\.embargo_days"):
        Sequences(world.pack, changed(world.settings, "split", embargo_days=30))
