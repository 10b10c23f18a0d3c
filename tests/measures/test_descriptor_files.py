"""Descriptors on disk: those of a day in a file, made when they are due and read as they were."""

import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from gdelphi.common.errors import MeasuresError
from gdelphi.common.settings import Settings
from gdelphi.measures import descriptor_files as module
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.descriptor_files import (
    Descriptors,
    days_due,
    descriptors_folder,
    read_descriptors,
    update_descriptors,
)
from gdelphi.measures.descriptors import (
    Descriptor,
    atom_rule,
    describe_day,
)
from gdelphi.measures.embed import embed
from gdelphi.measures.space import Space, load_space
from gdelphi.store.ingest import ingest
from helpers.measured_world import (
    DAY,
    DAYS,
    GONE,
    Measured,
    changed,
    cloud_of,
    copied_store,
    day_at,
    in_one_process,
    lines_of,
    measured,
    small_store,
    tree_of,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory)


@pytest.fixture
def small(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Space]:
    settings = copied_store(tmp_path_factory, tmp_path, days=6)
    return settings, embed(settings).space


def same(one: Descriptor, other: Descriptor) -> bool:
    """In everything but the members, which are not kept."""
    return (
        (one.stream, one.day, one.state, one.cost, one.phrases)
        == (other.stream, other.day, other.state, other.cost, other.phrases)
        and one.points.tobytes() == other.points.tobytes()
        and one.weights.tobytes() == other.weights.tobytes()
        and one.rows.tolist() == other.rows.tolist()
    )


# --- reading --------------------------------------------------------------------------------------


def test_descriptors_are_read_as_they_were_made(world: Measured) -> None:
    kept, points = Descriptors(world.settings, world.space), world.points()
    rule = atom_rule(world.settings.measures)
    sizes = set()
    for number in (0, 1, 7, 79):
        for stream in ("TZ", "ET", "UG", "KE"):
            cloud = world.cloud(stream, number)
            found = kept.of(cloud)
            assert same(found, describe_day(cloud, points, rule))
            assert found.points.dtype == np.float32
            sizes.add(len(found))
    assert 0 in sizes  # a stream without rows
    assert len(sizes) > 3


def test_there_is_a_file_for_each_known_day_and_none_for_a_missing_one(world: Measured) -> None:
    kept = Descriptors(world.settings, world.space)
    assert kept.days == tuple(day_at(number) for number in range(DAYS) if number not in GONE)
    with pytest.raises(MeasuresError, match=r"no descriptors of 2021-01-24 in .*`gdelphi embed`"):
        kept.on(day_at(20))
    none = kept.of(world.cloud("TZ", 20))
    assert (len(none), none.state) == (0, "missing")
    assert none.points.shape == (0, world.space.dimension)


def test_the_stream_of_all_rows_has_none(world: Measured) -> None:
    kept = Descriptors(world.settings, world.space)
    assert "WORLD" in world.clouds.on(day_at(1)).streams  # type: ignore[union-attr]
    assert kept.on(day_at(1)).descriptor("WORLD") is None
    assert sorted(kept.on(day_at(1)).streams) == ["ET", "KE", "TZ", "UG"]


def test_a_day_with_rows_of_no_country_has_a_file_without_descriptors(tmp_path: Path) -> None:
    maker, settings = small_store(tmp_path, days=6, split__train=0.5)
    day = DAY + timedelta(days=5)
    maker.day(day, lines_of(5, ActionGeo_CountryCode=""))
    maker.write_lists()
    ingest(settings)
    result = embed(settings)
    kept = Descriptors(settings, result.space)
    assert kept.on(day).streams == {}
    assert len(kept.of(cloud_of({}, day=day))) == 0
    assert embed(settings).described.built == 0


def test_a_file_that_cannot_be_read_says_which_and_what_to_do(
    small: tuple[Settings, Space],
) -> None:
    kept = Descriptors(*small)
    path = kept.files.path(DAY)
    content = path.read_bytes()
    for damaged in (content[:100], b""):
        path.write_bytes(damaged)
        with pytest.raises(MeasuresError, match=rf"{path.name} cannot be read .*delete it and run"):
            read_descriptors(path)
    path.write_bytes(content)
    opened = read_descriptors(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(MeasuresError, match="cannot be read"):
        opened.descriptor("KE")


# --- what is due ----------------------------------------------------------------------------------


def test_a_second_run_makes_nothing(small: tuple[Settings, Space]) -> None:
    settings, space = small
    before = tree_of(measures_folder(settings))
    assert days_due(settings, space) == []
    done = update_descriptors(settings, space)
    assert (done.built, done.had, done.removed, done.descriptors, done.atoms) == (0, 6, 0, 0, 0)
    assert tree_of(measures_folder(settings)) == before


def test_days_whose_file_is_gone_are_made_again_to_the_same_bytes(
    small: tuple[Settings, Space],
) -> None:
    settings, space = small
    files = descriptors_folder(settings, space, atom_rule(settings.measures))
    before = tree_of(files.folder)
    gone = [DAY + timedelta(days=number) for number in (1, 4)]
    for day in gone:
        files.path(day).unlink()
    assert days_due(settings, space) == gone
    heard: list[tuple[int, int, int]] = []
    done = update_descriptors(settings, space, lambda *said: heard.append(said))
    assert (done.built, done.had) == (2, 4)
    assert [said[:2] for said in heard] == [(1, 2), (2, 2)]
    assert heard[-1][2] == done.descriptors > 0
    assert tree_of(files.folder) == before


def test_the_days_that_the_clouds_no_longer_have_go(small: tuple[Settings, Space]) -> None:
    settings, space = small
    files = descriptors_folder(settings, space, atom_rule(settings.measures))
    (measures_folder(settings) / "clouds" / "2014" / f"{DAY}.parquet").unlink()
    done = update_descriptors(settings, space)
    assert (done.removed, done.built, done.had) == (1, 0, 5)
    assert not files.path(DAY).exists()
    assert DAY not in files.made_from()


def test_another_rule_has_a_folder_of_its_own(small: tuple[Settings, Space]) -> None:
    settings, space = small
    before = tree_of(measures_folder(settings))
    fewer = changed(settings, "measures", most_atoms=3)
    assert len(days_due(fewer, space)) == 6
    update_descriptors(fewer, space)
    assert days_due(fewer, space) == days_due(settings, space) == []
    after = tree_of(measures_folder(settings))
    assert after.items() > before.items()
    rules = {path.name for path in (measures_folder(settings) / "descriptors").iterdir()}
    assert {rule.removeprefix(space.fingerprint)[:6] for rule in rules} == {"-3-10-", "-3-3-0"}
    sizes = [len(each) for each in _all(Descriptors(fewer, space))]
    assert max(sizes) == 3


def _all(kept: Descriptors) -> Iterator[Descriptor]:
    for day in kept.days:
        for stream in kept.on(day).streams:
            found = kept.on(day).descriptor(stream)
            assert found is not None
            yield found


def test_a_run_that_is_killed_has_behind_it_what_was_saved(
    small: tuple[Settings, Space], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, space = small
    files = descriptors_folder(settings, space, atom_rule(settings.measures))
    whole = tree_of(files.folder)
    clouds = dict.fromkeys(files.days(), "changed")
    with files.updating() as manifest:
        manifest.known.update(clouds)  # every day is due
        manifest.save()
    monkeypatch.setattr(module, "SAVE_EVERY", 2)

    def stop(done: int, total: int, made: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update_descriptors(settings, space, stop)
    assert days_due(settings, space) == [DAY + timedelta(days=number) for number in (4, 5)]
    assert update_descriptors(settings, space).built == 2
    assert tree_of(files.folder) == whole


@pytest.mark.slow
def test_several_processes_make_the_same_bytes_as_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = measured(tmp_path_factory)
    settings = changed(world.settings, "measures", folder=tmp_path / "again")
    there = measures_folder(world.settings)
    for name in ("clouds", "space"):
        shutil.copytree(there / name, tmp_path / "again" / name)
    with mock.patch("gdelphi.common.workers.os.cpu_count", return_value=2):
        done = update_descriptors(settings, load_space(tmp_path / "again" / "space"))
    assert done.built == DAYS - len(GONE)
    assert tree_of(tmp_path / "again" / "descriptors") == tree_of(there / "descriptors")


def test_days_are_those_of_the_files(world: Measured) -> None:
    with in_one_process():
        assert update_descriptors(world.settings, world.space).had == DAYS - len(GONE)
    day = Descriptors(world.settings, world.space).on(day_at(3))
    assert day.day == day_at(3)
    assert isinstance(day.day, date)
