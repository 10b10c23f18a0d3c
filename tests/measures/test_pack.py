"""A pack says what clouds, descriptors and profiles say, and is made again when they change."""

import fcntl
import json
import os
import re
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gdelphi.app.verify import verify
from gdelphi.common import checksums, files
from gdelphi.common.checksums import CHECKSUMS, file_states
from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.measures import pack as pack_module
from gdelphi.measures import packing
from gdelphi.measures.cloud_update import gather
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.descriptor_files import Descriptors
from gdelphi.measures.descriptors import (
    AtomPhrases,
    atom_rule,
    describe_day,
    random_parts,
)
from gdelphi.measures.embed import embed
from gdelphi.measures.pack import (
    STATES,
    AlteredPack,
    Pack,
    PackFacts,
)
from gdelphi.measures.pack_rows import Made, pack_rows
from gdelphi.measures.pack_writer import PackWriter
from gdelphi.measures.packing import make_sequences, pack_days, part_seed
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.space import Space
from gdelphi.store.connection import Connection
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker
from helpers.measured_world import (
    DAY,
    DAYS,
    GONE,
    Measured,
    changed,
    cloud_of,
    copied_store,
    day_at,
    lines_of,
    measured,
    pack_quietly,
    small_store,
    tree_of,
)
from helpers.profiles import panel_of, profiles_of

Small = tuple[Settings, Space]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture
def small(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Small:
    settings = copied_store(tmp_path_factory, tmp_path, days=6)
    return settings, embed(settings).space


# --- content --------------------------------------------------------------------------------------


def test_a_pack_has_consecutive_days_with_gaps_marked(world: Measured) -> None:
    pack = world.pack
    assert pack.first_day == day_at(0)
    assert pack.facts.days == DAYS
    assert pack.facts.streams == ("TZ", "ET", "UG", "KE")
    assert np.flatnonzero(~pack.present).tolist() == list(GONE)
    missing = pack.states == STATES.index("missing")
    assert (missing == ~pack.present[:, None]).all()
    quiet = pack.facts.streams.index("KE")
    assert {"empty", "small", "full"} <= {STATES[state] for state in pack.states[:, quiet]}
    assert not pack.partial.any()
    assert not pack.backfile.any()


def test_clouds_are_those_of_the_files_point_by_point(world: Measured) -> None:
    pack, points = world.pack, world.points()
    total = 0
    for number, place in np.ndindex(pack.shape):
        cloud = world.cloud(pack.facts.streams[place], number)
        slots, weights = pack.cloud(number, place)
        assert STATES[pack.states[number, place]] == cloud.state
        assert weights.dtype == np.float32
        assert weights.tobytes() == cloud.weights.astype(np.float32).tobytes()
        assert pack.points(slots, world.space).tobytes() == points.of(cloud).tobytes()
        volume, phrases, mentions, entropy, *quads, goldstein, tone = pack.statistics[number, place]
        given = cloud.statistics
        assert (volume, phrases, mentions) == (given.volume, given.phrases, given.mentions)
        assert (entropy, goldstein, tone) == (given.entropy, given.goldstein, given.tone)
        assert tuple(quads) == given.quad_shares
        total += len(cloud)
    assert pack.sizes[0] == world.packed.points == total > 3000


def test_clouds_of_many_days_are_those_of_each_in_their_order(world: Measured) -> None:
    pack = world.pack
    days = np.array([5, 3, 3, 9])
    empty = {(3, 0): (np.zeros((0, 3), np.int32), np.zeros(0, np.float32))}
    for one in (pack, AlteredPack(pack, empty, {})):
        slots, weights, sizes = one.clouds(days, 0)
        alone = [one.cloud(int(day), 0) for day in days]
        assert sizes.tolist() == [len(each) for _, each in alone]
        assert np.array_equal(slots, np.concatenate([each for each, _ in alone]))
        assert np.array_equal(weights, np.concatenate([each for _, each in alone]))
    assert pack.clouds(np.zeros(0, np.int64), 0)[2].size == 0


def test_a_cloud_without_points_is_a_slice_without_rows(world: Measured) -> None:
    slots, weights = world.pack.cloud(GONE[0], 0)
    assert slots.shape == (0, 3)
    assert weights.shape == (0,)
    assert world.pack.points(slots, world.space).shape == (0, world.space.dimension)
    atoms = world.pack.atoms(GONE[0], 0)
    assert atoms.points.shape == (0, world.space.dimension)
    assert atoms.weights.shape == (0,)
    for variant in range(3):
        assert world.pack.atom_phrases(GONE[0], 0, variant) == AtomPhrases((), (), ())


def test_a_days_own_descriptor_comes_first_and_equals_the_one_on_disk(world: Measured) -> None:
    pack, kept = world.pack, Descriptors(world.settings, world.space)
    for number, place in np.ndindex(pack.shape):
        expected = kept.of(world.cloud(pack.facts.streams[place], number))
        found = pack.atoms(number, place)
        assert found.points.tobytes() == expected.points.tobytes()
        assert found.weights.dtype == np.float64
        assert (found.weights == expected.weights.astype(np.float32)).all()
        assert pack.atom_phrases(number, place) == expected.phrases


def test_further_variants_are_random_descriptors_of_that_day(world: Measured) -> None:
    pack, points = world.pack, world.points()
    kept = Descriptors(world.settings, world.space)
    assert pack.facts.variants == 2
    for number, place in [(1, 0), (30, 2), (79, 1), (GONE[1], 0)]:
        cloud = world.cloud(pack.facts.streams[place], number)
        own = kept.of(cloud)
        seed = part_seed(0, cloud.day, cloud.stream)
        phrases = list(cloud.phrases())
        for variant, expected in enumerate(random_parts(cloud, points, own, seed, 2), start=1):
            found = pack.atoms(number, place, variant)
            assert found.points.tobytes() == expected.points.tobytes()
            assert (found.weights == expected.weights.astype(np.float32)).all()
            names = zip(*pack.atom_phrases(number, place, variant), strict=True)
            assert list(names) == [phrases[point] for point in expected.named]
    one, other = (pack.atoms(1, 0, variant).points.tobytes() for variant in (1, 2))
    assert one != other
    atoms = sum(len(pack.atoms(*place).weights) for place in np.ndindex(DAYS, 4, 3))
    assert pack.sizes[1] == world.packed.atoms == atoms


def test_a_variant_that_is_not_there_is_not_taken_from_the_next_day(world: Measured) -> None:
    for variant in (3, -1):
        with pytest.raises(MeasuresError, match=f"descriptors 0 to 2 of a day, not {variant}"):
            world.pack.atoms(1, 0, variant)


def test_profiles_are_those_of_the_store(world: Measured) -> None:
    pack = world.pack
    profiles = read_profiles(world.settings, "root", pack.facts.streams)
    assert profiles.days[0] == pack.first_day
    assert (pack.counts == profiles.counts).all()
    assert pack.weights.tobytes() == profiles.weights.tobytes()
    assert (pack.present == profiles.present).all()


def test_tables_hold_each_key_once(world: Measured) -> None:
    for name, keys in world.pack.keys.items():
        assert len(set(map(str, keys))) == len(keys)
        table = world.pack.tables[name]
        assert len(table) == len(keys)
        assert np.abs(np.linalg.norm(table, axis=1) - 1).max() < 1e-6


@pytest.mark.parametrize("streams", [(), ("WORLD", "KE")])
def test_the_profiles_of_a_pack_are_those_of_the_store(
    world: Measured, streams: tuple[str, ...], tmp_path: Path
) -> None:
    settings = world.settings
    if streams:  # a copy, since a new pack takes the place of the one that all tests share
        shutil.copytree(measures_folder(settings), tmp_path / "measures")
        settings = changed(
            changed(settings, "measures", folder=tmp_path / "measures"), "sequences", only=streams
        )
    profiles = Pack(pack_quietly(settings, world.space).folder).profiles
    expected = read_profiles(settings, "root", profiles.streams)
    assert (profiles.streams, profiles.days) == (streams or world.pack.facts.streams, expected.days)
    assert profiles.codes == expected.codes
    for name in ("counts", "weights", "volume", "present", "shares"):
        one, other = getattr(profiles, name), getattr(expected, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


def test_what_a_pack_was_made_from_is_written_in_it(world: Measured) -> None:
    assert world.pack.facts.space == world.space.fingerprint
    assert world.pack.facts.dimension == world.space.dimension
    packed = world.packed
    assert (packed.days, packed.present) == (DAYS, DAYS - len(GONE))
    assert packed.bytes == sum(map(len, tree_of(packed.folder).values()))


def test_flags_of_a_day_are_kept(tmp_path: Path, tmp_path_factory: Any) -> None:
    world = measured(tmp_path_factory)
    facts = PackFacts(("KE",), DAY.isoformat(), 3, 0, world.space.dimension, "", "", "")
    writer = PackWriter(tmp_path / "pack", facts, world.points())
    rule = atom_rule(world.settings.measures)
    for flags in ({"partial": True}, {"backfile": True}, {"known": False}):
        cloud = cloud_of({} if "known" in flags else {("KEN", "190", ""): 1.0}, **flags)
        writer.add_day(pack_rows([Made(cloud, describe_day(cloud, world.points(), rule), [])]))
    writer.add_counts(panel_of(profiles_of(np.zeros((1, 3, 20)))))
    writer.close()
    pack = Pack(tmp_path / "pack")
    assert pack.partial.tolist() == [True, False, False]
    assert pack.backfile.tolist() == [False, True, False]
    assert pack.present.tolist() == [True, True, False]
    assert [STATES[state] for state in pack.states[:, 0]] == ["small", "small", "missing"]


def test_a_stream_without_a_single_training_row_is_refused_by_name(small: Small) -> None:
    settings, space = small
    with pytest.raises(MeasuresError, match=r"sequences.only: no rows from ZZ up to"):
        pack_days(changed(settings, "sequences", only=("KE", "ZZ")), space)


def test_the_stream_of_all_rows_is_packed_with_descriptors_when_named(small: Small) -> None:
    settings, space = small
    pack = Pack(pack_days(changed(settings, "sequences", only=("WORLD", "KE")), space).folder)
    assert pack.statistics[:, 0, 0].tolist() == [14.0] * 6
    for number in range(6):
        for variant in range(3):
            atoms = pack.atoms(number, 0, variant)
            assert 1 <= len(atoms.weights) <= 10
            assert atoms.weights.sum() == pytest.approx(1, abs=1e-6)
    assert (pack.counts[0] >= pack.counts[1]).all()


# --- made, reused, made again ---------------------------------------------------------------------


def test_a_pack_of_the_same_days_is_reused(small: Small) -> None:
    settings, space = small
    heard: list[tuple[int, int, int]] = []
    first = pack_days(settings, space, on_day=lambda *said: heard.append(said))
    assert first.made
    assert [said[:2] for said in heard] == [(number, 6) for number in range(1, 7)]
    assert heard[-1][2] == first.points
    before = tree_of(first.folder)
    again = pack_days(settings, space, on_day=lambda *_: pytest.fail("packed again"))
    assert (again.made, again.folder) == (False, first.folder)
    assert tree_of(first.folder) == before


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(small: Small) -> None:
    settings, space = small
    first = pack_days(settings, space)
    content = tree_of(first.folder)
    shutil.rmtree(first.folder)
    assert tree_of(pack_days(settings, space).folder) == content
    other = tree_of(pack_days(settings, space, seed=1).folder)
    assert other["weights.bin"] == content["weights.bin"]
    assert other["atom_points.bin"] != content["atom_points.bin"]


@pytest.mark.slow
def test_several_processes_pack_the_same_bytes_as_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = measured(tmp_path_factory)
    expected = tree_of(world.packed.folder)
    there = measures_folder(world.settings)
    for name in ("clouds", "descriptors"):
        shutil.copytree(there / name, tmp_path / "again" / name)
    settings = changed(world.settings, "measures", folder=tmp_path / "again")
    with mock.patch("gdelphi.common.workers.os.cpu_count", return_value=2):
        packed = pack_days(settings, world.space)
    assert packed.folder.name == world.packed.folder.name
    assert tree_of(packed.folder) == expected


def test_a_changed_day_gives_a_new_pack_and_the_old_one_goes(tmp_path: Path) -> None:
    maker, settings = small_store(tmp_path, days=6, split__train=0.5)
    space = embed(settings).space
    first = pack_days(settings, space)
    opened, before = Pack(first.folder), Pack(first.folder)
    expected = [(*map(bytes, before.cloud(*place)), *map(bytes, before.atoms(*place)))
                for place in np.ndindex(6, 3)]  # fmt: skip
    maker.day(DAY + timedelta(days=5), lines_of(5, ActionGeo_CountryCode="GM"))
    maker.write_lists()
    ingest(settings)
    with pytest.raises(MeasuresError, match=r"1 days have changed in the store, .*gdelphi embed"):
        pack_days(settings, space)
    embed(settings)
    second = pack_days(settings, space)
    assert second.made
    assert second.folder != first.folder
    assert [path.name for path in first.folder.parent.iterdir()] == [second.folder.name]
    assert Pack(second.folder).states[5].tolist() == [1, 1, 3]
    # whoever has the old one open still reads it
    assert expected == [
        (*map(bytes, opened.cloud(*place)), *map(bytes, opened.atoms(*place)))
        for place in np.ndindex(6, 3)
    ]


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("sequences", {"variants": 1}),
        ("sequences", {"streams": 2}),
        ("sequences", {"only": ("UP", "KE")}),
        ("measures", {"most_atoms": 3}),
    ],
)
def test_other_choices_make_another_pack(
    small: Small, section: str, change: dict[str, Any]
) -> None:
    settings, space = small
    first = pack_days(settings, space).folder
    other = changed(settings, section, **change)
    embed(other)
    assert pack_days(other, space).folder != first


def test_a_half_written_pack_is_not_taken_for_one(small: Small) -> None:
    settings, space = small
    first = pack_days(settings, space)
    content = tree_of(first.folder)
    (first.folder / "pack.json").unlink()
    (first.folder / "atom_points.bin").write_bytes(b"half")
    with pytest.raises(MeasuresError, match=r"no pack in .*`gdelphi sequences` makes one"):
        Pack(first.folder)
    again = pack_days(settings, space)
    assert (again.made, again.folder) == (True, first.folder)
    assert tree_of(again.folder) == content


@pytest.mark.parametrize("only", [(), ("UP", "KE")])
def test_a_pack_that_is_there_is_found_without_rows_of_the_store_or_day_files(
    small: Small, only: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    settings = changed(settings, "sequences", only=only)
    first = pack_days(settings, space)
    statements, plain = [], Connection.rows

    def spy(self: Connection, sql: str, parameters: Any = ()) -> Any:
        statements.append(sql)
        return plain(self, sql, parameters)

    def refuse(*given: Any, **_: Any) -> None:
        raise AssertionError(f"opened {given}")

    monkeypatch.setattr(Connection, "rows", spy)
    monkeypatch.setattr(Connection, "arrow", refuse)
    for name in ("read_schema", "read_table", "ParquetFile"):
        monkeypatch.setattr(f"pyarrow.parquet.{name}", refuse)
    again = pack_days(settings, space)
    assert (again.folder, again.made) == (first.folder, False)
    assert any("ledger" in sql for sql in statements)
    for sql in statements:
        assert not {"events", "days"} & set(re.findall(r"\w+", sql)), "a scan of all rows"


def test_a_run_that_fails_leaves_nothing_behind(small: Small) -> None:
    settings, space = small

    def stop(done: int, total: int, points: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack_days(settings, space, on_day=stop)
    assert list((measures_folder(settings) / "packs").iterdir()) == []
    assert pack_days(settings, space).made


def test_a_run_killed_amid_removing_a_pack_leaves_no_damage_and_the_next_one_clears_up(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    old = pack_days(settings, space).folder

    def killed(folder: Path) -> None:
        (folder / "slots.bin").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            pack_days(settings, space, seed=1)
    (half,) = old.parent.glob(".*")
    assert (half / "pack.json").exists() and not old.exists()
    assert [damage for part in verify(settings) for damage in part.damages] == []
    again = pack_days(settings, space, seed=1)  # the process that was killed lives: ours
    assert not again.made and half.exists()
    monkeypatch.setattr(files, "is_alive", lambda pid: False)
    pack_days(settings, space, seed=1)
    assert list(old.parent.iterdir()) == [again.folder]


def test_a_run_killed_before_removing_a_pack_is_made_up_for_by_the_next(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    pack_days(settings, space)
    with monkeypatch.context() as patched:
        patched.setattr(packing, "remove_packs", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pack_days(settings, space, seed=1)
    again = pack_days(settings, space, seed=1)
    assert not again.made
    assert list(again.folder.parent.iterdir()) == [again.folder]


@pytest.mark.parametrize(
    "name", ["pack.json", "keys.json", "states.bin", "slots.bin", "weights.bin", "atom_points.bin"]
)
def test_a_damaged_file_is_noticed_and_named_with_what_to_do(small: Small, name: str) -> None:
    settings, space = small
    folder = pack_days(settings, space).folder
    content = (folder / name).read_bytes()
    for damaged in (content[:-4], content[: len(content) // 2 // 4 * 4]):
        (folder / name).write_bytes(damaged)
        with pytest.raises(MeasuresError, match=r"cannot be read .*delete it, and `gdelphi seq"):
            Pack(folder)
    (folder / name).unlink()
    with pytest.raises(MeasuresError, match="gdelphi sequences"):
        Pack(folder)


def test_a_pack_of_another_format_is_refused(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, space = small
    folder = pack_days(settings, space).folder
    monkeypatch.setattr(pack_module, "FORMAT", 1)
    with pytest.raises(MeasuresError, match="a pack of another gdelphi: make it again"):
        Pack(folder)


def test_without_clouds_there_is_nothing_to_pack(small: Small, tmp_path: Path) -> None:
    settings, space = small
    bare = changed(settings, "measures", folder=tmp_path / "bare")
    with pytest.raises(MeasuresError, match=r"no clouds in .*`gdelphi embed` makes them"):
        pack_days(bare, space)


def test_without_descriptors_nothing_is_packed(small: Small) -> None:
    settings, space = small
    shutil.rmtree(measures_folder(settings) / "descriptors")
    with pytest.raises(MeasuresError, match=r"6 days have no descriptors.*run `gdelphi embed`"):
        pack_days(settings, space)
    assert not (measures_folder(settings) / "packs").exists()


def test_new_clouds_are_not_packed_with_old_descriptors(tmp_path: Path) -> None:
    maker, settings = small_store(tmp_path, days=6, split__train=0.5)
    space = embed(settings).space
    maker.day(DAY + timedelta(days=5), lines_of(5, ActionGeo_CountryCode="GM"))
    maker.write_lists()
    ingest(settings)
    gather(settings)
    with pytest.raises(MeasuresError, match=r"1 days have no descriptors .*2014-01-11 the first"):
        pack_days(settings, space)
    embed(settings)
    assert len(Pack(pack_days(settings, space).folder).atoms(5, 2).weights) >= 3


def test_the_facts_name_everything_that_decides_the_content(small: Small) -> None:
    settings, space = small
    folder = pack_days(settings, space).folder
    said = json.loads((folder / "pack.json").read_text())
    assert said.pop("format") == 6
    assert said["streams"] == ["KE", "UP", "GM"]
    clouds = Clouds(measures_folder(settings))
    assert said == {
        **packing._facts(settings, space, clouds, 0).__dict__, "streams": said["streams"],
    }  # fmt: skip


# --- what earlier packs have ----------------------------------------------------------------------


def made_streams(monkeypatch: pytest.MonkeyPatch) -> list[tuple[date, tuple[str, ...]]]:
    """What is made from now on, and not taken over."""
    made: list[tuple[date, tuple[str, ...]]] = []
    plain = packing._Work.do

    def spy(self: packing._Work, item: tuple[date, tuple[str, ...]]) -> Any:
        made.append(item)
        return plain(self, item)

    monkeypatch.setattr(packing._Work, "do", spy)
    return made


def test_a_new_day_and_a_changed_one_are_made_and_all_others_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = ("UP", "KE", "WORLD")
    maker, settings = small_store(tmp_path, days=6, sequences__only=streams)
    space = embed(settings).space
    first = pack_days(settings, space).folder
    made = made_streams(monkeypatch)
    windows: list[Any] = []
    plain = packing.read_count_panel

    def spy(source: Settings, roots: Any) -> Any:
        windows.append(roots.days)
        return plain(source, roots)

    monkeypatch.setattr(packing, "read_count_panel", spy)
    maker.day(DAY + timedelta(days=7), lines_of(7))  # with a missing day between
    second = packed_again(maker, settings, space)
    assert made == [(DAY + timedelta(days=number), streams) for number in (6, 7)]
    assert windows == [tuple(day for day, _ in made)]
    assert not first.exists()
    assert tree_of(second) == tree_of(pack_alone(settings, space, second).folder)

    maker.day(DAY + timedelta(days=3), lines_of(3, ActionGeo_CountryCode="UP"))
    made.clear()
    third = packed_again(maker, settings, space)
    assert made == [(DAY + timedelta(days=3), streams)]
    assert not second.exists()
    assert_equal_packs(Pack(third), pack_alone(settings, space, third), space)


# --- a new day alone ------------------------------------------------------------------------------


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, Space, Path]:
    """A pack of six days in short blocks, and the measures of a seventh."""
    monkeypatch.setattr(checksums, "BLOCK", 256)
    maker, settings = small_store(tmp_path, days=6, sequences__only=("UP", "KE"))
    space = embed(settings).space
    first = pack_days(settings, space).folder
    maker.day(DAY + timedelta(days=6), lines_of(6))
    maker.write_lists()
    ingest(settings)
    embed(settings)
    return settings, space, first


def files_of(folder: Path) -> dict[str, int]:
    """The numbers under which the system knows the columns."""
    return {path.name: path.stat().st_ino for path in folder.glob("*.bin")}


def damages(settings: Settings) -> list[Any]:
    return [damage for part in verify(settings) for damage in part.damages]


def test_a_new_day_is_added_to_the_files_and_who_reads_the_old_pack_sees_nothing_of_it(
    growing: tuple[Settings, Space, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space, first = growing
    known, before = files_of(first), Pack(first)
    content = before.atom_columns()[0].tobytes(), before.count_panel.pairs.tobytes()
    keys = {name: list(values) for name, values in before.keys.items()}
    digests, plain = list[tuple[int, int]](), checksums._block_digest

    def spy(file: Any, first: int, last: int) -> str:
        digests.append((first, last))
        return plain(file, first, last)

    monkeypatch.setattr(checksums, "_block_digest", spy)
    second = make_sequences(settings).packed.folder
    size = sum(path.stat().st_size for path in second.glob("*.bin"))
    assert sum(last - first for first, last in digests) < size / 2
    assert files_of(second) == known and not first.exists()
    assert (before.atom_columns()[0].tobytes(), before.count_panel.pairs.tobytes()) == content
    assert before.keys == keys and before.facts.days == 6
    assert damages(settings) == []
    assert tree_of(second) == tree_of(pack_alone(settings, space, second).folder)


def test_a_run_killed_amid_adding_leaves_the_old_pack_whole_and_the_next_one_copies_it(
    growing: tuple[Settings, Space, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space, first = growing
    known, sizes = files_of(first), {p: p.stat().st_size for p in first.glob("*.bin")}
    states = Pack(first).states.tobytes()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PackWriter, "abandon", PackWriter._close)
        patched.setattr(PackWriter, "add_counts", mock.Mock(side_effect=KeyboardInterrupt))
        pack_days(settings, space)
    assert any(path.stat().st_size > size for path, size in sizes.items())
    assert damages(settings) == [] and Pack(first).states.tobytes() == states
    second = pack_days(settings, space).folder
    assert not set(files_of(second).values()) & set(known.values())
    assert tree_of(second) == tree_of(pack_alone(settings, space, second).folder)


def test_a_run_that_fails_amid_adding_leaves_the_files_as_they_were(
    growing: tuple[Settings, Space, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space, first = growing
    content = tree_of(first)
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(PackWriter, "add_counts", mock.Mock(side_effect=ZeroDivisionError))
        pack_days(settings, space)
    assert tree_of(first) == content
    assert files_of(first) == files_of(pack_days(settings, space).folder)


@pytest.mark.parametrize("why", ["another process adds", "no links"])
def test_files_that_cannot_be_shared_are_copied(
    growing: tuple[Settings, Space, Path], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space, first = growing
    content, known = tree_of(first), files_of(first)
    with (first / "cloud_starts.bin").open("rb") as other:
        if why == "no links":
            monkeypatch.setattr(os, "link", mock.Mock(side_effect=PermissionError))
        else:
            fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(packing, "remove_packs", mock.Mock())
        second = pack_days(settings, space).folder
    assert not set(files_of(second).values()) & set(known.values())
    assert tree_of(first) == content
    assert tree_of(second) == tree_of(pack_alone(settings, space, second).folder)


def test_damage_is_not_taken_along_unnoticed(growing: tuple[Settings, Space, Path]) -> None:
    settings, space, first = growing
    path = first / "atom_points.bin"
    content = bytearray(path.read_bytes())
    assert len(content) > 3 * checksums.BLOCK
    content[40] ^= 4
    path.write_bytes(content)
    second = make_sequences(settings).packed.folder  # it has not looked at the first block
    assert [damage.path.name for damage in damages(settings)] == ["atom_points.bin"]
    assert pack_days(settings, space).made
    assert damages(settings) == []
    assert tree_of(second) == tree_of(pack_alone(settings, space, second).folder)


def packed_again(maker: ArchiveMaker, settings: Settings, space: Space) -> Path:
    """The pack after the archive has changed."""
    maker.write_lists()
    ingest(settings)
    embed(settings)
    return pack_days(settings, space).folder


def assert_equal_packs(one: Pack, other: Pack, space: Space) -> None:
    """Packs that say the same; their tables may be in another order."""
    for place in np.ndindex(one.shape):
        ours, theirs = one.cloud(*place), other.cloud(*place)
        assert one.phrases_of(ours[0]) == other.phrases_of(theirs[0])
        assert ours[1].tobytes() == theirs[1].tobytes()
        np.testing.assert_allclose(
            one.points(ours[0], space), other.points(theirs[0], space), atol=1e-6
        )
        for variant in range(3):
            assert one.atom_phrases(*place, variant) == other.atom_phrases(*place, variant)
            for ours, theirs in zip(
                one.atoms(*place, variant), other.atoms(*place, variant), strict=True
            ):
                assert ours.tobytes() == theirs.tobytes()
    for name in ("states", "statistics", "flags", "counts", "weights"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    for name in ("fine", "pairs", "acted", "world"):
        panels = one.count_panel, other.count_panel
        assert np.array_equal(*(getattr(panel, name) for panel in panels))


def test_other_streams_leave_the_first_pack_and_take_over_what_both_have(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    first = pack_days(changed(settings, "sequences", only=("UP", "KE")), space).folder
    content = tree_of(first)
    made = made_streams(monkeypatch)
    other = changed(settings, "sequences", only=("KE", "GM"))
    second = pack_days(other, space).folder
    assert {streams for _, streams in made} == {("GM",)}
    assert tree_of(first) == content
    assert verified_states(second) == {"sound"}
    assert_equal_packs(Pack(second), pack_alone(other, space, second), space)
    made.clear()
    assert not pack_days(changed(settings, "sequences", only=("UP", "KE")), space).made
    assert made == []


def verified_states(folder: Path) -> set[str]:
    """What the checksums say of the files of a folder."""
    return {state for path, state in file_states(folder) if path.name != CHECKSUMS}


def pack_alone(settings: Settings, space: Space, there: Path) -> Pack:
    """The same pack, made where there is no other; then all is as it was."""
    root, aside = there.parent, there.parent.with_name("aside")
    shutil.rmtree(root.with_name("alone"), ignore_errors=True)
    root.rename(aside)
    pack_days(settings, space)
    root.rename(root.with_name("alone"))
    aside.rename(root)
    fresh = root.with_name("alone") / there.name
    assert fresh.exists()
    return Pack(fresh)


def test_damaged_packs_and_those_of_another_seed_lend_nothing(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    first = pack_days(changed(settings, "sequences", only=("UP", "KE")), space).folder
    content = bytearray((first / "atom_points.bin").read_bytes())
    content[40] ^= 4
    (first / "atom_points.bin").write_bytes(content)
    made = made_streams(monkeypatch)
    pack_days(changed(settings, "sequences", only=("KE", "GM")), space)
    assert {streams for _, streams in made} == {("KE", "GM")}
    made.clear()
    pack_days(changed(settings, "sequences", only=("KE",)), space, seed=1)
    assert {streams for _, streams in made} == {("KE",)}


def test_the_packs_used_last_are_kept_up_to_a_number(small: Small) -> None:
    settings, space = small
    choices = [("UP",), ("KE",), ("GM",), ("UP", "KE"), ("UP", "GM")]
    folders = [
        pack_days(changed(settings, "sequences", only=only), space).folder for only in choices
    ]
    assert sorted(path.name for path in folders[0].parent.iterdir()) == sorted(
        path.name for path in folders[1:]
    )
