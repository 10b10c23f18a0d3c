"""Loading: every line is accounted for, and the store depends on the files alone."""

import random
import shutil
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from gdelphi.common.errors import StoreError
from gdelphi.common.settings import Settings
from gdelphi.gdelt.layouts import (
    BACKFILE,
    DAILY,
    QUARTER,
)
from gdelphi.store import fast_load as load_module
from gdelphi.store import prepare
from gdelphi.store.ingest import (
    IngestRequest,
    IngestResult,
    ingest,
)
from gdelphi.store.strict_load import load_strictly
from helpers.archives import (
    ArchiveMaker,
    content_of,
    event_line,
    event_lines,
    rows,
    settings_for,
    text_of,
)

DAY = date(2014, 1, 10)


def ingest_lines(tmp_path: Path, lines: Sequence[str]) -> tuple[Settings, IngestResult]:
    """One daily file of these lines, in a store of its own."""
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, lines)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    return given, ingest(given)


def test_values_arrive_typed_and_codes_as_text(tmp_path: Path) -> None:
    line = event_line(7, DAY, EventCode="0311", EventRootCode="03", Actor1Code="", AvgTone="-1.5")
    given, _ = ingest_lines(tmp_path, [line])
    found = rows(
        given,
        "SELECT GLOBALEVENTID, SQLDATE, EventCode, EventRootCode, Actor1Code, AvgTone, NewsDay, "
        "DATEADDED, Actor1Geo_ADM2Code, SOURCEURL FROM events",
    )
    added = datetime(2014, 1, 10)
    expected = (7, DAY, "0311", "03", None, -1.5, DAY, added, None, "https://news.example/7")
    assert found == [expected]


def test_quotes_and_odd_characters_are_only_characters(tmp_path: Path) -> None:
    names = ['"', "O'BRIEN", '"QUOTED" \'', "naïve café 日本", "back\\slash", ",;|", "NULL", "\\N"]
    lines = [event_line(i, DAY, Actor1Name=name) for i, name in enumerate(names, 1)]
    given, result = ingest_lines(tmp_path, lines)
    assert (result.accepted, result.rejected) == (len(names), 0)
    found = rows(given, "SELECT Actor1Name FROM events ORDER BY GLOBALEVENTID")
    assert [name for (name,) in found] == names


def test_stray_spaces_go_and_blanks_are_null(tmp_path: Path) -> None:
    line = event_line(
        1, DAY, Actor2Code=" ARM", Actor1Name="MINISTRY ", Actor1Code="  ", NumMentions=" 5",
        ActionGeo_Lat=" ", SOURCEURL="http://a.example/b ",
    )  # fmt: skip
    given, result = ingest_lines(tmp_path, [line, event_line(2, DAY)])
    assert (result.accepted, result.rejected) == (2, 0)
    found = rows(
        given,
        "SELECT Actor2Code, Actor1Name, Actor1Code, NumMentions, ActionGeo_Lat, SOURCEURL "
        "FROM events WHERE GLOBALEVENTID = 1",
    )
    assert found == [("ARM", "MINISTRY", None, 5, None, "http://a.example/b")]


BAD_LINES = {
    "no id": (event_line(1, DAY, GLOBALEVENTID=""), "GLOBALEVENTID is blank"),
    "id": (event_line(1, DAY, GLOBALEVENTID="x1"), 'GLOBALEVENTID is no BIGINT: "x1"'),
    "date": (event_line(1, DAY, SQLDATE="20131301"), 'SQLDATE is no DATE: "20131301"'),
    "no date": (event_line(1, DAY, SQLDATE=""), "SQLDATE is blank"),
    "number": (event_line(1, DAY, NumMentions="many"), 'NumMentions is no INTEGER: "many"'),
    "latitude": (event_line(1, DAY, ActionGeo_Lat="44#"), 'ActionGeo_Lat is no DOUBLE: "44#"'),
    "infinite": (event_line(1, DAY, AvgTone="inf"), 'AvgTone is not finite: "inf"'),
    "not a number": (event_line(1, DAY, AvgTone="NaN"), 'AvgTone is not finite: "NaN"'),
    "added": (event_line(1, DAY, DATEADDED="2014"), 'DATEADDED is no TIMESTAMP: "2014"'),
    "too few": (event_line(1, DAY).rsplit("\t", 1)[0], "57 columns where 58 were expected"),
    "too many": (event_line(1, DAY) + "\tx", "59 columns where 58 were expected"),
    "blank": ("", "blank line"),
    "words": ("Service unavailable", "1 columns where 58 were expected"),
    "nul": (event_line(1, DAY, Actor1Name="A\0B"), "a NUL byte in the line"),
    "carriage return": (event_line(1, DAY).replace("\t", "\r", 1), "57 columns where 58"),
}


def one_file_each(tmp_path: Path, cases: Sequence[Sequence[str]]) -> tuple[Settings, list[str]]:
    """A store of many daily files, loaded in one run; their names in the order of the cases."""
    maker = ArchiveMaker(tmp_path / "archive")
    for number, lines in enumerate(cases):
        maker.day(DAY + timedelta(days=number), lines)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    assert ingest(given).loaded == len(cases)
    return given, maker.names


def test_a_bad_line_is_kept_with_place_and_reason(tmp_path: Path) -> None:
    good = [event_lines(range(start, start + 5), DAY) for start in range(10, 1000, 10)]
    cases = [
        [*sound[:2], bad, *sound[2:]]
        for sound, (bad, _) in zip(good, BAD_LINES.values(), strict=False)
    ]
    given, names = one_file_each(tmp_path, cases)
    found = rows(given, "SELECT file, line, reason, raw FROM rejects ORDER BY file")
    assert [(file, line, raw) for file, line, _, raw in found] == [
        (name, 3, bad) for name, (bad, _) in zip(names, BAD_LINES.values(), strict=True)
    ]
    for (*_, said, _), (case, (_, reason)) in zip(found, BAD_LINES.items(), strict=True):
        assert said.startswith(reason), case
    counted = rows(given, "SELECT rows_in, accepted, rejected, duplicates FROM ledger")
    assert counted == [(6, 5, 1, 0)] * len(BAD_LINES)


def test_a_line_of_bytes_that_are_no_text_is_kept_with_a_mark(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, [])
    content = text_of(event_lines([1, 2], DAY)).replace(b"SOMEBODY", b"SOME\xff", 1)
    (tmp_path / "archive" / f"{DAY:%Y%m%d}.export.CSV.zip").unlink()
    (tmp_path / "archive" / f"{DAY:%Y%m%d}.export.CSV").write_bytes(content)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    result = ingest(given)
    assert (result.accepted, result.rejected, result.repaired) == (2, 0, 1)
    names = rows(given, "SELECT Actor1Name FROM events ORDER BY GLOBALEVENTID")
    assert names == [("SOME\ufffd",), ("SOMEBODY",)]


def test_windows_line_ends_and_a_missing_last_one_do_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    content = "\r\n".join(event_lines([1, 2, 3], DAY)).encode()
    (folder / f"{DAY:%Y%m%d}.export.CSV").write_bytes(content)
    given = settings_for(tmp_path / "s.duckdb", folder)
    assert ingest(given).accepted == 3
    assert rows(given, "SELECT DISTINCT SOURCEURL LIKE '%' || chr(13) FROM events") == [(False,)]


def test_an_empty_file_is_a_day_without_events(tmp_path: Path) -> None:
    given, result = ingest_lines(tmp_path, [])
    assert (result.loaded, result.rows_in, result.succeeded) == (1, 0, True)
    assert rows(given, "SELECT status, rows_in, layout FROM ledger") == [("loaded", 0, "daily")]
    assert rows(given, "SELECT state, complete FROM days") == [("empty", True)]


def test_a_file_of_blank_lines_is_refused(tmp_path: Path) -> None:
    given, result = ingest_lines(tmp_path, ["", "  "])
    assert (result.loaded, result.rows_in, result.succeeded) == (0, 0, False)
    ((status, reason),) = rows(given, "SELECT status, reason FROM ledger")
    assert status == "rejected"
    assert reason.startswith("20140110.export.CSV.zip holds nothing but blank lines (2 of them)")
    assert rows(given, "SELECT state, complete FROM days") == [("rejected", False)]


@pytest.mark.parametrize("length", [140_000, 3_000_000])
@pytest.mark.parametrize("sound", [True, False])
def test_a_first_row_of_any_length_hides_no_other(tmp_path: Path, length: int, sound: bool) -> None:
    """The row itself comes in where it is sound, and is kept with its reason where it is not."""
    long = event_line(1, DAY, SOURCEURL="u" * length) if sound else "u" * length
    given, result = ingest_lines(tmp_path, [long, *event_lines(range(2, 873), DAY)])
    assert (result.rows_in, result.accepted, result.rejected) == (872, 871 + sound, not sound)
    lengths = rows(given, "SELECT max(length(SOURCEURL)) FROM events")
    assert (lengths == [(length,)]) == sound


def test_a_file_that_cannot_be_read_while_loading_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went away after it was looked at, or a reader of ours has a bug that this file meets."""
    maker = messy_archive(tmp_path / "archive", 4)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    before = content_of(given)
    errors = {maker.names[1]: OSError(5, "Input/output error"), maker.names[3]: ValueError("odd")}

    def fail(*arguments: Any) -> Any:
        found = load_strictly(*arguments)
        if arguments[3].name in errors:
            raise errors[arguments[3].name]
        return found

    with monkeypatch.context() as patch:
        patch.setattr(load_module, "load_strictly", fail)
        patch.setattr(load_module, "_can_load_fast", lambda _: False)
        result = ingest(given, IngestRequest(force=True, since=date(2012, 1, 1)))
    assert (result.loaded, result.succeeded) == (5, False)
    told = sorted((each.name, each.status, each.reason) for each in result.problems)
    assert told == [
        (maker.names[1], "failed", f"{maker.names[1]}: Input/output error"),
        (maker.names[3], "rejected", f"{maker.names[3]}: odd"),
    ]
    assert content_of(given) == before


def test_the_news_day_is_the_files_day_but_the_events_day_in_backfiles(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    long_ago = DAY - timedelta(days=365)
    maker.day(DAY, [event_line(1, DAY, SQLDATE=f"{long_ago:%Y%m%d}")])
    month = date(2012, 5, 17)
    maker.month(month, [event_line(2, month, BACKFILE, DATEADDED="20130203")])
    moment = datetime(2014, 1, 10, 12, 15)
    maker.quarter(moment, [event_line(3, long_ago, QUARTER)])
    unnamed = maker.folder / "unnamed.csv"
    unnamed.write_bytes(text_of([event_line(4, long_ago, DAILY, DATEADDED="20140105")]))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    ingest(given, IngestRequest(files=(unnamed,)))
    found = dict(rows(given, "SELECT GLOBALEVENTID, NewsDay FROM events"))
    assert found == {1: DAY, 2: month, 3: moment.date(), 4: date(2014, 1, 5)}
    assert rows(given, "SELECT first_day, last_day FROM ledger WHERE name = 'unnamed.csv'") == [
        (date(2014, 1, 5), date(2014, 1, 5))
    ]


# An id belongs to one row, and to the same one whatever happened before.


def test_an_id_twice_in_a_file_is_counted_as_a_duplicate(tmp_path: Path) -> None:
    lines = [event_line(1, DAY, NumMentions=1), event_line(1, DAY, NumMentions=2)]
    given, result = ingest_lines(tmp_path, [*lines, event_line(2, DAY)])
    assert (result.rows_in, result.accepted, result.duplicates) == (3, 2, 1)
    assert rows(given, "SELECT NumMentions FROM events WHERE GLOBALEVENTID = 1") == [(1,)]
    assert rows(given, "SELECT NumMentions, place FROM duplicates") == [(2, 2)]


@pytest.mark.parametrize("later_first", [False, True])
def test_an_id_of_two_files_belongs_to_the_earlier_day(tmp_path: Path, later_first: bool) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    next_day = DAY + timedelta(days=1)
    early = maker.day(DAY, event_lines([1, 2], DAY, NumMentions=1))
    late = maker.day(next_day, event_lines([2, 3], next_day, NumMentions=9))
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    for path in (late, early) if later_first else (early, late):
        ingest(given, IngestRequest(files=(path,)))
    found = rows(given, "SELECT GLOBALEVENTID, NewsDay, NumMentions FROM events ORDER BY 1")
    assert found == [(1, DAY, 1), (2, DAY, 1), (3, next_day, 9)]
    assert rows(given, "SELECT name, accepted, duplicates FROM ledger ORDER BY 1") == [
        (early.name, 2, 0),
        (late.name, 1, 1),
    ]


def test_a_row_comes_back_when_the_file_that_beat_it_loses_the_id(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    next_day = DAY + timedelta(days=1)
    maker.day(DAY, event_lines([1, 2], DAY))
    maker.day(next_day, event_lines([2, 3], next_day))
    maker.write_lists()
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    assert ingest(given).duplicates == 1
    maker.day(DAY, event_lines([1], DAY))
    maker.write_lists()
    assert ingest(given).loaded == 1
    found = rows(given, "SELECT GLOBALEVENTID, NewsDay FROM events ORDER BY 1")
    assert found == [(1, DAY), (2, next_day), (3, next_day)]
    assert rows(given, "SELECT accepted, duplicates FROM ledger ORDER BY name") == [(1, 0), (2, 0)]


def test_a_story_told_again_the_same_day_is_marked(tmp_path: Path) -> None:
    same = {
        "EventCode": "190", "Actor1Code": "USA", "Actor2Code": "", "Actor2Name": "",
        "ActionGeo_FullName": "Kenya", "ActionGeo_CountryCode": "KE",
    }  # fmt: skip
    maker = ArchiveMaker(tmp_path / "archive")
    first, second = (datetime(2014, 1, 10, hour) for hour in (3, 9))
    maker.quarter(second, [event_line(20, DAY, QUARTER, **same)])
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    assert rows(given, "SELECT GLOBALEVENTID FROM events WHERE StoryDuplicate") == []
    changed = [same | {"EventCode": "191"}, same | {"Actor1Code": "RUS"}]
    changed += [same | {"Actor2Code": "GOV"}, same | {"ActionGeo_FullName": "Nairobi"}]
    lines = [event_line(10 + i, DAY, QUARTER, **values) for i, values in enumerate(changed)]
    maker.quarter(first, [event_line(1, DAY, QUARTER, **same), *lines])
    ingest(given, IngestRequest(since=DAY))
    assert rows(given, "SELECT GLOBALEVENTID FROM events WHERE StoryDuplicate") == [(20,)]
    assert rows(given, "SELECT rows, stories FROM daily_counts WHERE Stream = 'WORLD'") == [(6, 5)]


def messy_archive(folder: Path, seed: int) -> ArchiveMaker:
    """Days that share ids, repeat some, tell stories again and hold bad lines."""
    rng = random.Random(seed)
    maker = ArchiveMaker(folder)
    shared = list(range(1, 25))
    for number in range(4):
        day = DAY + timedelta(days=number)
        ids = [*rng.sample(shared, 6), *range(100 * number + 100, 100 * number + 130)]
        ids += rng.choices(ids, k=rng.randint(0, 2))
        rng.shuffle(ids)
        same = {"Actor1Code": "USA", "ActionGeo_FullName": "Kenya", "ActionGeo_CountryCode": "KE"}
        lines = [event_line(i, day, NumMentions=number, **same) for i in ids]
        if rng.random() < 0.5:
            lines.insert(rng.randrange(len(lines)), "broken")
        maker.day(day, lines)
    maker.month(date(2012, 5, 1), event_lines([3, 4, 5, 900], date(2012, 5, 9), BACKFILE))
    for hour in (0, 7):
        moment = datetime(2014, 1, 12, hour)
        maker.quarter(moment, event_lines([7, 8, 950 + hour], moment.date(), QUARTER))
    maker.write_lists()
    return maker


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_loading_does_not_matter(tmp_path: Path, seed: int) -> None:
    maker = messy_archive(tmp_path / "archive", seed)
    whole = settings_for(tmp_path / "whole.duckdb", maker.folder)
    ingest(whole)
    one_by_one = settings_for(tmp_path / "shuffled.duckdb", maker.folder)
    names = list(maker.names)
    random.Random(seed).shuffle(names)
    for name in names:
        ingest(one_by_one, IngestRequest(files=(maker.folder / name,)))
    ingest(one_by_one, IngestRequest(since=date(2012, 5, 1)))  # notes the gaps between the files
    expected = content_of(whole)
    assert expected["duplicates"]
    assert content_of(one_by_one) == expected


@pytest.mark.parametrize("seed", range(2))
def test_files_that_change_at_the_source_leave_no_trace(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    maker = messy_archive(tmp_path / "archive", seed)
    lived = settings_for(tmp_path / "lived.duckdb", maker.folder)
    ingest(lived)
    for _ in range(3):
        other = messy_archive(tmp_path / "other", rng.randrange(1000))
        for name in rng.sample(maker.names, 2):
            shutil.copy(other.folder / name, maker.folder / name)
        maker.write_lists()
        ingest(lived)
    fresh = settings_for(tmp_path / "fresh.duckdb", maker.folder)
    ingest(fresh)
    assert content_of(lived) == content_of(fresh)


def test_forcing_loads_again_and_changes_nothing(tmp_path: Path) -> None:
    maker = messy_archive(tmp_path / "archive", 5)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    before = ingest(given)
    content = content_of(given)
    again = ingest(given, IngestRequest(force=True, since=date(2012, 1, 1)))
    assert (before.loaded, again.loaded) == (7, 7)
    assert content_of(given) == content


# The fast and the strict way give the same store.


def test_the_strict_way_agrees_with_the_fast_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = messy_archive(tmp_path / "archive", 1)
    fast = settings_for(tmp_path / "fast.duckdb", maker.folder)
    ingest(fast)
    monkeypatch.setattr(load_module, "_can_load_fast", lambda _: False)
    strict = settings_for(tmp_path / "strict.duckdb", maker.folder)
    ingest(strict)
    assert content_of(fast) == content_of(strict)


field = strategies.text(
    strategies.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), max_size=12
)
number = strategies.one_of(
    strategies.integers().map(str),
    strategies.floats().map(str),
    strategies.sampled_from(["", " ", "1e3", "0x1", "１", "+5", "5 ", "20140101", "inf", "-"]),
    field,
)


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=strategies.lists(
        strategies.fixed_dictionaries(
            {"Actor1Name": field, "SOURCEURL": field, "NumMentions": number, "AvgTone": number}
        ),
        min_size=1,
        max_size=90,
    )
)
def test_whatever_stands_in_the_fields_both_ways_agree(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, str]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    maker = ArchiveMaker(tmp_path / "archive")
    maker.day(DAY, [event_line(i, DAY, **each) for i, each in enumerate(values, 1)])
    fast = settings_for(tmp_path / "fast.duckdb", maker.folder)
    result = ingest(fast)
    assert result.rows_in == result.accepted + result.rejected + result.duplicates
    strict = settings_for(tmp_path / "strict.duckdb", maker.folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_module, "_can_load_fast", lambda _: False)
        ingest(strict)
    assert content_of(fast) == content_of(strict)


def test_texts_that_pass_block_by_block_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = messy_archive(tmp_path / "archive", 3)
    at_once = settings_for(tmp_path / "at-once.duckdb", maker.folder)
    ingest(at_once)
    monkeypatch.setattr(load_module, "LARGEST_TABLE", 0)
    monkeypatch.setattr("gdelphi.store.prepare.LARGEST_PASSING", 0)
    streamed = settings_for(tmp_path / "streamed.duckdb", maker.folder)
    ingest(streamed)
    assert content_of(streamed) == content_of(at_once)


def test_small_batches_and_large_ones_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = messy_archive(tmp_path / "archive", 2)
    large = settings_for(tmp_path / "large.duckdb", maker.folder)
    ingest(large)
    monkeypatch.setattr(prepare, "BATCH_BYTES", 1)
    small = settings_for(tmp_path / "small.duckdb", maker.folder)
    ingest(small)
    assert content_of(large) == content_of(small)


def test_a_failure_in_the_middle_of_a_transaction_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = messy_archive(tmp_path / "archive", 3)
    given = settings_for(tmp_path / "s.duckdb", maker.folder)

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(load_module, "mark_story_duplicates", fail)
        with pytest.raises(StoreError, match="disk is full"):
            ingest(given)
    assert rows(given, "SELECT count(*) FROM events") == [(0,)]
    assert {status for (status,) in rows(given, "SELECT status FROM ledger")} == {
        "listed",
        "missing",
    }
    assert ingest(given).loaded == 7


NO_VALUES = [
    ("SQLDATE", "infinity"), ("SQLDATE", "epoch"), ("DATEADDED", "-infinity"),
    ("NumMentions", "1e1"), ("NumMentions", "0x10"), ("NumMentions", "1_0"),
    ("NumMentions", "1.5"), ("QuadClass", "0b1"), ("GLOBALEVENTID", "1e5"),
    ("GoldsteinScale", "inf"),
]  # fmt: skip


def test_what_is_no_number_or_date_in_a_file_is_none_in_the_store(tmp_path: Path) -> None:
    cases = [
        [*event_lines([10 * at, 10 * at + 1], DAY), event_line(10 * at + 2, DAY, **{column: value})]
        for at, (column, value) in enumerate(NO_VALUES, 1)
    ]
    here, names = one_file_each(tmp_path, cases)
    assert rows(here, "SELECT accepted, rejected FROM ledger") == [(2, 1)] * len(NO_VALUES)
    found = rows(here, "SELECT file, reason FROM rejects ORDER BY file")
    for (file, reason), name, (column, _) in zip(found, names, NO_VALUES, strict=True):
        assert file == name and reason.startswith(f"{column} is")


def test_numbers_with_zeros_and_exponents_that_gdelt_writes_are_taken(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    odd = {"NumMentions": "007", "NumSources": "+3", "AvgTone": "-4.44089209850063E-16"}
    maker.day(DAY, [event_line(1, DAY, **odd)])
    here = settings_for(tmp_path / "s.duckdb", maker.folder)
    assert ingest(here).accepted == 1
    assert rows(here, "SELECT NumMentions, NumSources, AvgTone FROM events") == [
        (7, 3, -4.44089209850063e-16)
    ]
