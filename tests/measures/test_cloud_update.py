"""Gathering clouds from the store: every row, each day once, and the same after any disturbance."""

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.checksums import CHECKSUMS
from gdelphi.common.errors import MeasuresError, StoreError
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.gdelt.layouts import BACKFILE, QUARTER
from gdelphi.measures import cloud_update as module
from gdelphi.measures.cloud_update import (
    Gathered,
    cloud_on,
    gather,
    stale_days,
)
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.day_files import DayFolder
from gdelphi.measures.profiles import read_profiles
from gdelphi.store.connection import Connection, Store
from gdelphi.store.ingest import IngestRequest, ingest
from gdelphi.store.sums import UNITS
from helpers.archives import ArchiveMaker, event_line, event_lines, rows, settings_for

START = date(2013, 12, 28)
EMPTY, MISSING, LAST = 3, 5, 9  # numbers of days


def day_number(number: int) -> date:
    return START + timedelta(days=number)


PRESENT = [day_number(number) for number in range(LAST + 1) if number != MISSING]


def lines_of(number: int, *, less: int = 0) -> list[str]:
    """Rows from three countries and from none, with actors and without, over standard events."""
    day = day_number(number)
    ids = range(1000 * number + 1, 1000 * number + 61 - less)
    known = [
        event_line(
            each, day, Actor1CountryCode=("KEN", "DEU", "")[each % 3], QuadClass=each % 4 + 1
        )
        for each in ids
    ]
    nowhere = event_lines(range(1000 * number + 900, 1000 * number + 907), day,
                          ActionGeo_CountryCode="", Actor2Type1Code="GOV")  # fmt: skip
    return known + nowhere


def make_archive(folder: Path) -> ArchiveMaker:
    """Nine days around the turn of a year; one in between is empty, one is missing."""
    maker = ArchiveMaker(folder)
    for day in PRESENT:
        number = (day - START).days
        maker.day(day, [] if number == EMPTY else lines_of(number))
    maker.write_lists()
    return maker


class Place:
    """An archive, a store of it, and where its measures go."""

    def __init__(self, folder: Path) -> None:
        self.maker = ArchiveMaker(folder / "archive")
        self.maker.names += sorted(path.name for path in self.maker.folder.glob("*.zip"))
        self.settings = settings_for(folder / "s.duckdb", self.maker.folder, ingest__label="made")
        self.folder = measures_folder(self.settings) / "clouds"

    def change(self, days: dict[int, list[str]]) -> None:
        """Another content of days at the source, ingested."""
        for number, lines in days.items():
            self.maker.day(day_number(number), lines)
        self.maker.write_lists()
        ingest(self.settings)

    def content(self) -> dict[str, bytes]:
        """All files but the lock and the log of checksums, which tells of every write."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and path.name not in (".lock", CHECKSUMS)
        }

    def times(self) -> dict[date, int]:
        """When each day's file was written."""
        files = DayFolder(self.folder)
        return {day: files.path(day).stat().st_mtime_ns for day in files.days()}

    def clouds(self) -> Clouds:
        return Clouds(measures_folder(self.settings))

    def afresh(self) -> dict[str, bytes]:
        """What an undisturbed run over the store makes."""
        other = self.settings.store.parent / "calm"
        calm = settings_for(self.settings.store, self.maker.folder, measures__folder=other)
        gather(calm)
        found = {
            str(path.relative_to(other / "clouds")): path.read_bytes()
            for path in (other / "clouds").rglob("*")
            if path.is_file() and path.name not in (".lock", CHECKSUMS)
        }
        shutil.rmtree(other)
        return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    make_archive(folder / "archive")
    ingest(Place(folder).settings)
    return folder


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Place:
    """A copy to be disturbed."""
    shutil.copytree(original, tmp_path / "copy")
    return Place(tmp_path / "copy")


def changed(before: dict[date, int], after: dict[date, int]) -> list[date]:
    return [day for day in after if before.get(day) != after[day]]


# --- every row ------------------------------------------------------------------------------------


def check_every_row(settings: Settings) -> None:
    """Rows and weights of all streams and days are those that SQL and the profiles give."""
    clouds = Clouds(measures_folder(settings))
    spoken = "NewsDay IN (SELECT NewsDay FROM days WHERE loaded > 0)"
    counted = rows(
        settings,
        "SELECT coalesce(ActionGeo_CountryCode, ''), NewsDay, count(*), sum(coalesce(NumMentions, "
        f"1))::BIGINT FROM events WHERE {spoken} GROUP BY ALL",
    )
    assert counted
    expected: dict[tuple[str, date], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for stream, day, number, mentions in counted:
        for each in {stream, WORLD} - {""}:
            had = expected[each, day]
            expected[each, day] = (had[0] + number, had[1] + mentions)
    found = {}
    for day in clouds.days:
        on_day = clouds.on(day)
        assert on_day is not None
        for stream, said in on_day.statistics.items():
            cloud = on_day.cloud(stream)
            assert cloud.statistics == said
            assert cloud.weights.sum() == pytest.approx(1)
            found[stream, day] = (cloud.volume, int(cloud.numbers.mentions.sum()))
    assert found == expected
    check_weights(settings, clouds)


def check_weights(settings: Settings, clouds: Clouds) -> None:
    """Units by root are the weights of the profiles, to the last bit."""
    profiles = read_profiles(settings, streams=[*read_profiles(settings).streams, WORLD])
    assert set(clouds.days) == set(np.array(profiles.days)[profiles.present])
    units = np.zeros(profiles.weights.shape, dtype=np.int64)
    place = {code: number for number, code in enumerate(profiles.codes)}
    for day in clouds.days:
        for number, stream in enumerate(profiles.streams):
            cloud = clouds.cloud(stream, day)
            roots = [place.get(code[:2], -1) for code in cloud.code.values()]
            known = np.array(roots, dtype=np.int64) >= 0
            at = (number, (day - profiles.days[0]).days, np.array(roots, dtype=np.int64)[known])
            np.add.at(units, at, cloud.numbers.units[known])
    assert np.array_equal(units / UNITS, profiles.weights)
    assert profiles.weights.any()


def test_every_row_of_a_made_archive_is_gathered(place: Place) -> None:
    done = gather(place.settings)
    assert done.rows == 8 * 67
    assert (done.built, done.had, done.removed) == (9, 0, 0)
    assert done.points == sum(
        len(on_day.cloud(stream))
        for day in PRESENT
        if (on_day := place.clouds().on(day))
        for stream in on_day.streams
    )
    check_every_row(place.settings)


def test_several_processes_make_the_same_clouds(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather(place.settings)
    measures = place.settings.measures.model_copy(update={"folder": tmp_path / "shared"})
    shared = place.settings.model_copy(update={"measures": measures})
    monkeypatch.setattr(module, "DAYS_SHARED", 5)
    monkeypatch.setattr(module, "DAYS_AT_ONCE", 2)
    done = gather(shared)
    assert (done.built, done.rows) == (9, 8 * 67)
    one, other = (DayFolder(measures_folder(each) / "clouds") for each in (place.settings, shared))
    for day in PRESENT:
        assert other.path(day).read_bytes() == one.path(day).read_bytes()
    assert other.made_from() == one.made_from()


def few_of(shared_data: Path, name: str, pattern: str, folder: Path) -> Settings:
    """A store of some files of a real archive."""
    maker = ArchiveMaker(folder / name)
    for path in sorted((shared_data / name).glob(pattern)):
        shutil.copy(path, maker.folder)
        maker.names.append(path.name)
    maker.write_lists(second=name.startswith("gdelt2"))
    settings = settings_for(folder / "s.duckdb", maker.folder)
    ingest(settings)
    return settings


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("gdelt2-world", "2025051[89]1[0-2]*.export.CSV.zip"),
        ("gdelt1-georgia", "201302.zip"),
    ],
)
def test_every_row_of_real_archives_is_gathered(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pattern: str
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 1000)
    settings = few_of(shared_data, name, pattern, tmp_path)
    done = gather(settings)
    assert done.rows > 1000
    check_every_row(settings)


def test_numbers_of_a_point_by_hand(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    known: dict[str, Any] = {
        "ActionGeo_CountryCode": "KE", "EventCode": "190", "EventRootCode": "19", "QuadClass": 4,
        "Actor1CountryCode": "KEN", "Actor1Type1Code": "COP", "Actor2KnownGroupCode": "UNO",
    }  # fmt: skip
    maker.day(START, [
        event_line(1, START, NumMentions=3, IsRootEvent=1, GoldsteinScale="-10", AvgTone="1.5",
                   **known),
        event_line(2, START, NumMentions="", IsRootEvent=0, GoldsteinScale="", AvgTone="",
                   **(known | {"QuadClass": "", "Actor1Type2Code": "COP"})),
    ])  # fmt: skip
    maker.write_lists()
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(settings)
    gather(settings)
    cloud = Clouds(measures_folder(settings)).cloud("KE", START)
    assert list(cloud.phrases()) == [("KEN|||||COP", "190", "|UNO")]
    # The half of a weight is the unit: it is rounded, and a lead's is twice that.
    units = 2 * round(1e9 * math.log(4) / 2) + round(1e9 * math.log(2) / 2)
    assert [values.tolist() for values in cloud.numbers] == [[units], [2], [4], [-5], [0.75], [4]]


@pytest.mark.parametrize(
    ("column", "values", "found"),
    [
        ("NumMentions", [-1, 5], {"mentions": 5}),
        ("NumMentions", [-7, 5], {"mentions": 5}),
        ("NumMentions", [2**31 - 1, 1], {"mentions": 2**31}),
        ("AvgTone", ["1e300", "-4"], {"tone": 48.0}),
        ("GoldsteinScale", ["-1e300", "6"], {"goldstein": -2.0}),
        ("QuadClass", [-1, 3], {"quad": 3}),
        ("QuadClass", [9, 3], {"quad": 3}),
        ("QuadClass", [-1, ""], {"quad": 0}),
    ],
)
def test_a_row_out_of_bounds_does_no_harm(
    tmp_path: Path, column: str, values: list[Any], found: dict[str, Any]
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    known = {"ActionGeo_CountryCode": "KE", "EventCode": "190", "EventRootCode": "19"}
    maker.day(START, [
        event_line(number, START, **known, **{column: value}) for number, value in enumerate(values)
    ])  # fmt: skip
    maker.write_lists()
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    assert ingest(settings).accepted == 2
    assert gather(settings).rows == 2
    numbers = Clouds(measures_folder(settings)).cloud("KE", START).numbers
    assert {name: getattr(numbers, name).tolist() for name in found} == {
        name: [value] for name, value in found.items()
    }
    check_weights(settings, Clouds(measures_folder(settings)))


def test_rows_without_mentions_share_alike(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(START, [event_line(number, START, NumMentions=0, ActionGeo_CountryCode="KE",
                                 EventCode=code)
                      for number, code in enumerate(("010", "042", "190", "1411"))])  # fmt: skip
    maker.write_lists()
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(settings)
    gather(settings)
    cloud = Clouds(measures_folder(settings)).cloud("KE", START)
    assert cloud.numbers.units.tolist() == [0] * 4
    assert cloud.weights.tolist() == [0.25] * 4
    assert cloud.code.values() == ["010", "042", "1411", "190"]


# --- what a day is --------------------------------------------------------------------------------


def test_a_missing_day_has_no_file_and_an_empty_one_has(place: Place) -> None:
    gather(place.settings)
    clouds = place.clouds()
    assert clouds.days == tuple(PRESENT)
    assert clouds.cloud(WORLD, day_number(MISSING)).state == "missing"
    assert clouds.cloud(WORLD, day_number(EMPTY)).state == "empty"
    assert clouds.cloud("FR", day_number(0)).state == "empty"
    assert clouds.cloud("KE", day_number(0)).state == "full"
    flags = {
        (cloud.partial, cloud.backfile) for day in PRESENT if (cloud := clouds.cloud("KE", day))
    }
    assert flags == {(False, False)}


def test_a_day_with_files_missing_or_refused_is_partial(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    first, second, third = (datetime(2014, 1, number) for number in (1, 2, 3))
    numbers = iter(range(1, 10_000))

    def full_day(moment: datetime, skip: int | None) -> None:
        for slot in range(96):
            if slot != skip:
                lines = event_lines([next(numbers)], moment.date(), QUARTER)
                maker.quarter(moment + timedelta(minutes=15 * slot), lines)

    full_day(first, skip=None)
    full_day(second, skip=40)
    full_day(third, skip=None)
    maker.write_lists(second=True)
    damaged = maker.folder / f"{third:%Y%m%d}090000.export.CSV.zip"
    damaged.write_bytes(b"no zip")
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(settings)
    done = gather(settings)
    clouds = Clouds(measures_folder(settings))
    partial = [clouds.cloud(WORLD, day.date()).partial for day in (first, second, third)]
    assert partial == [False, True, True]
    assert done.rows == 96 + 95 + 95
    maker.quarter(third.replace(hour=9), event_lines([next(numbers)], third.date(), QUARTER))
    maker.write_lists(second=True)
    ingest(settings)
    healed = gather(settings)
    assert (healed.built, healed.had) == (1, 2)
    assert not Clouds(measures_folder(settings)).cloud(WORLD, third.date()).partial


def test_backfile_days_are_marked_and_strays_make_no_day(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    days = [date(2012, 1, 1), date(2012, 1, 31), date(2012, 2, 2)]
    maker.month(days[0], [event_line(number, day, BACKFILE) for number, day in enumerate(days)])
    maker.write_lists()
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(settings)
    done = gather(settings)
    assert (done.built, done.rows) == (31, 2)
    clouds = Clouds(measures_folder(settings))
    assert (clouds.days[0], clouds.days[-1]) == (days[0], days[1])
    assert clouds.cloud(WORLD, days[0]).backfile
    assert clouds.cloud(WORLD, days[0] + timedelta(days=1)).state == "empty"
    assert clouds.cloud(WORLD, days[2]).state == "missing"
    check_every_row(settings)


def test_a_store_without_days_gives_nothing_and_no_store_is_an_error(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "s.duckdb", tmp_path)
    with pytest.raises(StoreError, match=r"no store at .*`gdelphi ingest` makes one"):
        gather(settings)
    with Store(settings).writing():
        pass
    done = gather(settings)
    assert (done.built, done.had, done.removed, done.rows, done.points) == (0, 0, 0, 0, 0)
    assert Clouds(measures_folder(settings)).days == ()


def test_a_cloud_straight_from_the_store_is_the_gathered_one(place: Place) -> None:
    straight = {
        (stream, number): cloud_on(place.settings, stream, day_number(number))
        for stream, number in [("KE", 0), (WORLD, 8), ("FR", 0), (WORLD, EMPTY)]
    }
    assert not place.folder.exists(), "nothing is written"
    gather(place.settings)
    for (stream, number), found in straight.items():
        gathered = place.clouds().cloud(stream, day_number(number))
        assert (found.stream, found.day, found.state) == (stream, gathered.day, gathered.state)
        assert list(found.phrases()) == list(gathered.phrases())
        assert all(map(np.array_equal, found.numbers, gathered.numbers))
    assert [found.state for found in straight.values()] == ["full", "full", "empty", "empty"]


def test_a_day_that_the_store_does_not_have_is_named_with_those_it_has(
    place: Place, tmp_path: Path
) -> None:
    complaint = (
        r"does not have 2014-01-02 \(days: 2013-12-28 to 2014-01-06\): `gdelphi status` says"
    )
    with pytest.raises(MeasuresError, match=f"{place.settings.store} {complaint}"):
        cloud_on(place.settings, "KE", day_number(MISSING))
    empty = settings_for(tmp_path / "empty.duckdb", tmp_path)
    with Store(empty).writing():
        pass
    with pytest.raises(MeasuresError, match=r"does not have 2013-12-28 \(days: none\)"):
        cloud_on(empty, "KE", START)


# --- which days are made --------------------------------------------------------------------------


def test_days_before_the_first_measured_one_stay_in_the_store_alone(place: Place) -> None:
    gather(place.settings)
    since = day_number(4)
    later = place.settings.model_copy(
        update={"measures": place.settings.measures.model_copy(update={"since": since})}
    )
    assert stale_days(later) == []
    assert gather(later).removed == len([day for day in PRESENT if day < since])
    clouds = Clouds(measures_folder(later))
    assert list(clouds.days) == [day for day in PRESENT if day >= since]
    assert stale_days(later) == []
    assert stale_days(place.settings) == [day for day in PRESENT if day < since]
    assert gather(place.settings).built == len([day for day in PRESENT if day < since])


def test_a_second_run_builds_nothing(place: Place) -> None:
    gather(place.settings)
    before, content = place.times(), place.content()
    again = gather(place.settings)
    assert (again.built, again.had, again.removed, again.rows, again.points) == (0, 9, 0, 0, 0)
    assert (place.times(), place.content()) == (before, content)


def test_a_day_that_changed_at_the_source_is_made_again_and_no_other(place: Place) -> None:
    gather(place.settings)
    before = place.times()
    place.change({4: lines_of(4, less=9)})
    again = gather(place.settings)
    assert (again.built, again.had, again.rows) == (1, 8, 58)
    assert changed(before, place.times()) == [day_number(4)]
    assert place.clouds().cloud(WORLD, day_number(4)).volume == 58
    assert place.content() == place.afresh()


def test_other_rows_that_are_as_many_are_another_day(place: Place) -> None:
    gather(place.settings)
    before = place.times()
    place.change({4: [line.replace("news.example", "news.elsewhere") for line in lines_of(4)]})
    assert gather(place.settings).built == 1
    assert changed(before, place.times()) == [day_number(4)]


def test_a_day_that_is_new_or_no_longer_empty_is_made(place: Place) -> None:
    gather(place.settings)
    before = place.times()
    new = (EMPTY, MISSING, LAST + 1)
    place.change({number: lines_of(number) for number in new})
    again = gather(place.settings)
    assert changed(before, place.times()) == [day_number(number) for number in new]
    assert (again.built, again.had, again.rows) == (3, 8, 3 * 67)
    assert place.content() == place.afresh()


def test_rows_that_move_to_another_days_file_change_both_days(place: Place) -> None:
    gather(place.settings)
    before = place.times()
    # Rows of day 7 that day 6 now has too: they stand on the earlier day alone.
    place.change({6: lines_of(6) + event_lines(range(7001, 7011), day_number(6))})
    again = gather(place.settings)
    assert changed(before, place.times()) == [day_number(6), day_number(7)]
    assert again.rows == 77 + 57
    check_every_row(place.settings)


def test_rows_that_change_places_with_their_duplicates_change_the_day(place: Place) -> None:
    day, later = day_number(6), day_number(7)
    one, other = 50_001, 50_002
    both = [event_line(one, later, EventCode="190"), event_line(other, later, EventCode="010")]
    place.change({6: [event_line(one, day)], 7: both})
    gather(place.settings)
    assert place.clouds().cloud(WORLD, later).code.values() == ["010"]
    place.change({6: [event_line(other, day)]})  # day 7 has a row and a duplicate, as before
    assert gather(place.settings).built == 2
    assert place.clouds().cloud(WORLD, later).code.values() == ["190"]
    check_every_row(place.settings)


def test_strays_of_a_backfile_that_changes_change_their_day(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    january, february = date(2012, 1, 30), date(2012, 2, 2)
    own = event_line(1, january, BACKFILE)
    maker.month(january, [own, event_line(2, february, BACKFILE)])
    maker.month(february, [event_line(3, february, BACKFILE)])
    maker.write_lists()
    settings = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(settings)
    assert gather(settings).rows == 3
    maker.month(january, [own])
    maker.write_lists()
    ingest(settings)
    again = gather(settings)
    assert (again.built, again.had) == (32, 28)
    check_every_row(settings)


def stale_by_all_rows(place: Place) -> list[date]:
    """The same by an aggregate over all rows, without what is kept."""
    with Store(place.settings).reading() as connection:
        days = connection.rows(module._DAYS.format(condition=""))
    made = DayFolder(place.folder).made_from()
    return [day for day, fingerprint, *_ in days if made.get(day) != fingerprint]


def duplicated(number: int, first: int, last: int) -> list[str]:
    """The rows of a day, and rows with ids that other days have."""
    return lines_of(number) + event_lines(range(first, last), day_number(number))


CHANGES: dict[str, tuple[dict[int, list[str]], list[int]]] = {
    "shrunk": ({4: lines_of(4, less=9)}, [4]),
    "the same again": ({4: lines_of(4)}, []),
    "shuffled": ({2: lines_of(2)[::-1]}, [2]),
    "rows of a later day": ({6: duplicated(6, 7001, 7011)}, [6, 7]),
    "rows of an earlier day": ({7: duplicated(7, 6001, 6011)}, [7]),
    "as many other rows": ({1: lines_of(1)[:-1] + event_lines([77], day_number(1))}, [1]),
    "an empty day": ({EMPTY: lines_of(EMPTY)}, [EMPTY]),
    "a missing day": ({MISSING: lines_of(MISSING)}, [MISSING]),
    "emptied": ({8: []}, [8]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_stale_days_are_those_by_all_rows(place: Place, name: str) -> None:
    change, expected = CHANGES[name]
    gather(place.settings)
    assert stale_days(place.settings) == stale_by_all_rows(place) == []
    place.change(change)
    wanted = [day_number(number) for number in expected]
    for _ in range(2):  # computed, and as kept
        assert stale_days(place.settings) == stale_by_all_rows(place) == wanted
    gather(place.settings)
    assert stale_days(place.settings) == []
    if name == "rows of a later day":  # that are given back
        place.change({6: lines_of(6)})
        assert stale_days(place.settings) == stale_by_all_rows(place) == wanted


def test_stale_days_one_change_after_another(place: Place) -> None:
    for number, (change, _) in enumerate([*CHANGES.values(), *reversed(CHANGES.values())]):
        place.change(change)
        assert stale_days(place.settings) == stale_by_all_rows(place)
        if number % 3 == 2:
            gather(place.settings)
            assert stale_days(place.settings) == []


def test_what_is_kept_of_another_store_or_spoilt_is_not_used(place: Place) -> None:
    gather(place.settings)
    kept = place.folder.parent / "days.json"
    for damage in ("", "[]", '{"key": 1}', kept.read_text().replace('"key": "', '"key": "x')):
        kept.write_text(damage)
        assert stale_days(place.settings) == []
    place.settings.store.unlink()
    place.maker.day(day_number(4), lines_of(4, less=9))
    place.maker.write_lists()
    ingest(place.settings)  # as many files, each tried once
    assert stale_days(place.settings) == stale_by_all_rows(place) == [day_number(4)]


def test_only_rows_of_days_to_make_are_brought(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather(place.settings)
    whole = place.content()
    for number in (0, LAST):
        DayFolder(place.folder).path(day_number(number)).unlink()
    brought = []
    original = Connection.arrow

    def counting(self: Connection, sql: str, parameters: Any = ()) -> Any:
        table = original(self, sql, parameters)
        brought.append(set(table.column("day").to_pylist()))
        return table

    monkeypatch.setattr(Connection, "arrow", counting)
    assert gather(place.settings).built == 2
    assert brought == [{day_number(0), day_number(LAST)}]
    assert place.content() == whole


def test_a_day_that_the_store_no_longer_has_is_removed(place: Place) -> None:
    gather(place.settings)
    before = place.times()
    gone = day_number(4)
    name = f"{gone:%Y%m%d}.export.CSV.zip"
    place.maker.names.remove(name)
    (place.maker.folder / name).unlink()
    place.maker.write_lists()
    place.settings.store.unlink()
    ingest(place.settings)
    again = gather(place.settings)
    assert (again.built, again.had, again.removed) == (0, 8, 1)
    del before[gone]
    assert place.times() == before
    assert place.clouds().cloud("KE", gone).state == "missing"
    assert gather(place.settings).removed == 0
    assert place.content() == place.afresh()


def test_a_window_is_gathered_and_the_rest_later(place: Place) -> None:
    def run(since: int | None, until: int | None) -> Gathered:
        first, last = (None if each is None else day_number(each) for each in (since, until))
        return gather(place.settings, since=first, until=last)

    middle = run(2, 6)
    assert (middle.built, middle.had, middle.rows) == (4, 0, 3 * 67)
    assert place.clouds().days == tuple(day_number(number) for number in (2, 3, 4, 6))
    until = run(None, 2)
    assert (until.built, until.had) == (2, 1)
    since = run(8, None)
    assert (since.built, since.had, since.removed) == (2, 0, 0)
    nothing = run(20, None)
    assert (nothing.built, nothing.had) == (0, 0)
    rest = run(None, None)
    assert (rest.built, rest.had) == (1, 8)
    assert place.content() == place.afresh()


def test_force_makes_the_days_of_the_window_again(place: Place) -> None:
    gather(place.settings)
    before, content = place.times(), place.content()
    window = [day_number(number) for number in (6, 7)]
    again = gather(place.settings, since=window[0], until=window[1], force=True)
    assert (again.built, again.had) == (2, 0)
    assert changed(before, place.times()) == window
    assert gather(place.settings, force=True).built == 9
    assert place.content() == content


def test_days_done_are_told(place: Place) -> None:
    told: list[tuple[int, int, int]] = []
    gather(place.settings, since=day_number(2), until=day_number(6),
           on_day=lambda *said: told.append(said))  # fmt: skip
    assert told == [(1, 4, 67), (2, 4, 67), (3, 4, 134), (4, 4, 201)]


@pytest.mark.parametrize("at_once", [1, 67, 150])
def test_how_many_rows_are_brought_at_once_makes_no_difference(
    place: Place, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    whole = place.afresh()
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    queries = []
    original = Connection.arrow

    def counting(self: Connection, sql: str, parameters: Any = ()) -> Any:
        queries.append(parameters)
        return original(self, sql, parameters)

    monkeypatch.setattr(Connection, "arrow", counting)
    gather(place.settings)
    assert len(queries) == {1: 9, 67: 8, 150: 4}[at_once]
    assert place.content() == whole


# --- after a disturbance --------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "{", "[1]"])
def test_without_a_sound_manifest_nothing_is_built_again(place: Place, content: str | None) -> None:
    gather(place.settings)
    before, whole = place.times(), place.content()
    manifest = place.folder / "manifest.json"
    if content is None:
        manifest.unlink()
    else:
        manifest.write_text(content)
    again = gather(place.settings)
    assert (again.built, again.had) == (0, 9)
    assert place.content() == whole
    place.change({0: lines_of(0, less=1)})
    assert gather(place.settings).built == 1
    assert changed(before, place.times()) == [day_number(0)]
    assert place.content().keys() == whole.keys()
    assert place.content() == place.afresh()


def test_a_file_that_was_deleted_is_made_again(place: Place) -> None:
    gather(place.settings)
    whole = place.content()
    DayFolder(place.folder).path(day_number(2)).unlink()
    assert gather(place.settings).built == 1
    assert place.content() == whole


def test_damaged_files_are_made_again_when_the_manifest_is_gone_too(place: Place) -> None:
    gather(place.settings)
    whole = place.content()
    (place.folder / "manifest.json").unlink()
    DayFolder(place.folder).path(day_number(2)).write_bytes(b"PAR1")
    again = gather(place.settings)
    assert (again.built, again.had) == (1, 8)
    assert place.content() == whole


def test_a_stranger_among_the_files_is_named(place: Place) -> None:
    gather(place.settings)
    (place.folder / "manifest.json").unlink()
    (place.folder / "2014" / "copy of a day.parquet").touch()
    with pytest.raises(MeasuresError, match=r"copy of a day\.parquet is not named after a day"):
        gather(place.settings)


# Kills itself after some days, or when a file is half written.
DRIVER = """
import os, signal, sys
from pathlib import Path
import pyarrow.parquet as pq
from gdelphi.measures import cloud_update
from helpers.archives import settings_for
store, archive, after, half = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
cloud_update.ROWS_AT_ONCE = 150
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def on_day(done, total, rows):
    if done == after and half == "no":
        die()
    if done == after:
        pq.write_table = lambda table, path, **_: (path.write_bytes(b"PAR1 and no more"), die())
cloud_update.gather(settings_for(store, archive, ingest__label="made"), on_day=on_day)
"""


def kill_after(place: Place, days: int, *, half: bool) -> None:
    said = [str(place.settings.store), str(place.maker.folder), str(days), "yes" if half else "no"]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", DRIVER, *said], env=surroundings, capture_output=True, check=False
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.slow
def test_killed_between_days_and_in_the_middle_of_a_file_it_ends_in_the_same_files(
    place: Place,
) -> None:
    kill_after(place, 3, half=False)
    assert len(place.times()) == 3
    kill_after(place, 1, half=False)
    kill_after(place, 2, half=True)
    left = list(place.folder.rglob("*.part"))
    assert len(left) == 1, "a file was half written"
    done = gather(place.settings)
    assert 0 < done.built < 9, "what was done before the kills was not done again"
    assert place.content() == place.afresh()
    assert not list(place.folder.rglob("*.part"))


@pytest.mark.slow
def test_killed_while_days_are_made_again_it_ends_in_the_same_files(place: Place) -> None:
    gather(place.settings)
    place.change({number: lines_of(number, less=5) for number in (1, 4, 7)})
    kill_after(place, 2, half=False)
    gather(place.settings)
    assert place.content() == place.afresh()


def test_of_two_gatherings_at_once_one_waits_and_finds_all_done(place: Place) -> None:
    results: dict[str, Gathered] = {}
    second = threading.Thread(target=lambda: results.update(second=gather(place.settings)))

    def on_day(done: int, total: int, rows: int) -> None:
        if done == 1:
            second.start()
            second.join(0.3)
            assert second.is_alive(), "it does not wait"

    results["first"] = gather(place.settings, on_day=on_day)
    second.join(30)
    assert (results["first"].built, results["first"].had) == (9, 0)
    assert (results["second"].built, results["second"].had) == (0, 9)
    assert place.content() == place.afresh()


def test_a_reader_beside_a_gathering_finds_whole_files(place: Place) -> None:
    """A day is there before or after, never half: readers need no lock."""
    gather(place.settings)

    def on_day(done: int, total: int, rows: int) -> None:
        reader = place.clouds()
        assert reader.days == tuple(PRESENT)
        assert sum(reader.cloud(WORLD, day).volume for day in PRESENT) == 8 * 67

    assert gather(place.settings, force=True, on_day=on_day).built == 9


def test_ingestion_goes_on_after_a_gathering(place: Place) -> None:
    gather(place.settings)
    result = ingest(place.settings, IngestRequest(force=True, since=START))
    assert result.succeeded
    assert gather(place.settings).built == 0, "the same rows again make no day new"
