"""Months of arguments that are kept: always what a fresh look into the store says, whatever
happened to the store, to the files or to whoever wrote them."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gdelphi.common.types import WORLD
from gdelphi.forecast import argument_months
from gdelphi.forecast.argument_months import MOST_FOLDERS, read_arguments
from gdelphi.forecast.arguments import KINDS, ArgumentHistory
from gdelphi.measures.clouds import measures_folder
from gdelphi.store.connection import Store, at_one_state
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.postgres import postgres

__all__ = ["postgres"]

FIRST = date(2014, 1, 20)
LAST = date(2014, 4, 10)
DAYS = [FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1)]
STREAMS = ["KE", "UP", WORLD]
CODES = ("141", "145", "051", "190", "9X")


def lines_of(day: date, number: int, seed: int = 0) -> list[str]:
    """Random rows of a day, some without actors, mentions, places or codes of the table."""
    random = np.random.default_rng((seed, day.toordinal()))
    lines = []
    for at in range(number):
        code = str(random.choice(CODES))
        country = str(random.choice(["KE", "UP", "GM", ""]))
        region = str(random.choice([f"{country}07", f"{country}12", f"{country}00", ""]))
        values = {
            "EventCode": code, "EventBaseCode": code[:3], "EventRootCode": code[:2],
            "Actor1CountryCode": str(random.choice(["KEN", "UKR", ""])),
            "Actor2Type1Code": str(random.choice(["COP", "REB", "GOV", ""])),
            "ActionGeo_CountryCode": country, "ActionGeo_ADM1Code": region,
            "ActionGeo_Type": 4, "ActionGeo_FullName": f"Town, Region {region}, Land",
            "NumMentions": int(random.integers(0, 9)), "IsRootEvent": int(random.integers(2)),
        }  # fmt: skip
        lines.append(event_line(day.toordinal() * 100 + at, day, **values))
    return lines


class Growing:
    """A store and the archive that it is fed from."""

    def __init__(self, folder: Path, **lake: Any) -> None:
        self.maker = ArchiveMaker(folder / "archive")
        given = {"store": folder / "s.duckdb", **lake}
        self.settings = settings_for(given.pop("store"), self.maker.folder, **given)

    def bring(self, days: list[date], rows: int = 8, seed: int = 0) -> None:
        for day in days:
            self.maker.day(day, lines_of(day, rows, seed))
        self.maker.write_lists()
        ingest(self.settings)

    def fresh(self, until: date | None = None) -> ArgumentHistory:
        with Store(self.settings).reading() as connection:
            return read_arguments(connection, STREAMS, until=until)

    def kept(self, until: date | None = None) -> ArgumentHistory:
        return read_arguments(self.settings, STREAMS, until=until)

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Months that are kept: when they were written, and what."""
        found = measures_folder(self.settings).glob("arguments/*/*.npz")
        return {path.stem: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    growing = Growing(tmp_path)
    growing.bring(DAYS)
    return growing


def assert_same(one: ArgumentHistory, other: ArgumentHistory) -> None:
    """To the last bit."""
    assert (one.streams, one.days, one.events) == (other.streams, other.days, other.events)
    for kind in KINDS:
        assert one.observed[kind].values == other.observed[kind].values
        for mine, theirs in zip(one.observed[kind][1:], other.observed[kind][1:], strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()
    assert one.region_names.names == other.region_names.names
    for mine, theirs in zip(one.region_names[1:], other.region_names[1:], strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_whole_months_are_kept_and_say_what_the_store_says(store: Growing) -> None:
    for _ in range(2):  # made, then found
        assert_same(store.kept(), store.fresh())
    assert sorted(store.files()) == ["2014-02", "2014-03"]


def test_kept_months_are_not_read_from_the_store_again(store: Growing) -> None:
    store.kept()
    with mock.patch.object(argument_months, "_gather", wraps=argument_months._gather) as gather:
        store.kept()
    spans = [call.args[2:] for call in gather.call_args_list]
    assert spans == [(FIRST, date(2014, 1, 31)), (date(2014, 4, 1), LAST)]


def test_nothing_after_the_last_day_is_seen_though_its_month_is_kept(store: Growing) -> None:
    store.kept()
    for until in (date(2014, 3, 1), date(2014, 3, 17), date(2014, 3, 30), date(2014, 3, 31)):
        assert_same(store.kept(until), store.fresh(until))


def test_late_shrunk_and_repeated_files_renew_their_month_alone(store: Growing) -> None:
    store.kept()
    before = store.files()
    changed = date(2014, 3, 5)
    for rows, seed in ((3, 0), (12, 1), (8, 0)):  # shrunk, other rows, as it was
        store.bring([changed], rows, seed)
        assert_same(store.kept(), store.fresh())
        assert store.files()["2014-02"] == before["2014-02"]
        assert store.files()["2014-03"][0] > before["2014-03"][0]


def test_days_in_any_order_leave_the_same(tmp_path: Path, store: Growing) -> None:
    other = Growing(tmp_path / "other")
    order = np.random.default_rng(1).permutation(len(DAYS))
    order = np.concatenate([[0], order[order > 0]])  # days before the first are not looked for
    for part in np.array_split(order, 3):
        other.bring([DAYS[number] for number in part])
        assert_same(other.kept(), other.fresh())
    assert_same(other.kept(), store.kept())


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "no archive"])
def test_a_damaged_month_is_made_again(store: Growing, damage: str) -> None:
    store.kept()
    path = next(measures_folder(store.settings).glob("arguments/*/2014-02.npz"))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "cut": whole[:middle],
            "empty": b"",
            "no archive": b"not a month",
        }[damage]
    )
    assert_same(store.kept(), store.fresh())
    assert path.read_bytes() == whole


def test_damage_is_found_without_the_list_of_checksums_too(store: Growing) -> None:
    store.kept()
    path = next(measures_folder(store.settings).glob("arguments/*/2014-02.npz"))
    whole, fresh = path.read_bytes(), store.fresh()
    (path.parent / "checksums.txt").unlink()
    for at in range(100, len(whole), len(whole) // 20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert_same(store.kept(), fresh)
        (path.parent / "checksums.txt").unlink(missing_ok=True)


def test_whoever_is_stopped_while_writing_leaves_no_half_month(store: Growing) -> None:
    with (
        mock.patch("gdelphi.forecast.argument_months.np.savez", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        store.kept()
    assert store.files() == {}
    folder = next(measures_folder(store.settings).glob("arguments/*"))
    (folder / ".2014-02.npz.999999999.part").write_bytes(b"half")  # of a process that was killed
    assert_same(store.kept(), store.fresh())
    assert not list(folder.glob(".*.part"))


def test_whoever_may_not_write_goes_without(store: Growing) -> None:
    with mock.patch("gdelphi.forecast.argument_months.atomic_write", side_effect=PermissionError):
        assert_same(store.kept(), store.fresh())
    assert store.files() == {}


def test_other_streams_have_months_of_their_own_and_the_least_used_go(store: Growing) -> None:
    for streams in (["KE"], ["UP"], ["KE", "UP"], ["UP", "KE"], ["KE"]):
        with Store(store.settings).reading() as connection:
            fresh = read_arguments(connection, streams)
        assert_same(read_arguments(store.settings, streams), fresh)
    folders = list(measures_folder(store.settings).glob("arguments/*"))
    assert len(folders) == MOST_FOLDERS


@pytest.mark.slow
def test_a_lake_has_the_same_months_and_past_states_their_own(
    postgres: Any, tmp_path: Path, store: Growing
) -> None:
    lake = Growing(tmp_path / "lake", **postgres.make_lake("argument_months", tmp_path))
    lake.bring(DAYS)
    before = at_one_state(lake.settings)
    for _ in range(2):
        assert_same(lake.kept(), store.fresh())
    lake.bring([date(2014, 3, 5)], rows=3)
    assert_same(lake.kept(), lake.fresh())
    assert_same(read_arguments(before, STREAMS), store.fresh())
    assert_same(lake.kept(), lake.fresh())
