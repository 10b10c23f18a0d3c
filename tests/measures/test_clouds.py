"""Clouds: from rows to weighted phrases, by hand and by plain sums; a day's file and its reader."""

import math
import random
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdelphi.common.errors import MeasuresError
from gdelphi.common.types import WORLD
from gdelphi.measures import clouds as module
from gdelphi.measures.cloud_update import (
    GOLDSTEIN_UNITS,
    TONE_UNITS,
    Grouped,
    clouds_of,
)
from gdelphi.measures.clouds import (
    NOTHING,
    SLOTS,
    Cloud,
    Clouds,
    Coded,
    DayFacts,
    Numbers,
    coded,
    measures_folder,
    read_day,
    shares_of_units,
    statistics_of,
    write_day,
)
from gdelphi.measures.day_files import DayFolder, read_footer
from gdelphi.measures.phrases import canonical
from helpers.archives import settings_for

DAY = date(2014, 1, 6)
FACTS = DayFacts(DAY, "made of this", False, False)

KENYA, POLICE, UNITED = "KEN", "KEN|||||COP", "|UNO"
STREAMS = ("", "KE", "GM", "UP")
# Some of these are one actor: a role said twice, a gap between roles, a role that is a group.
ACTORS = ("", KENYA, POLICE, "KEN|||||COP|COP", "KEN||||||COP", UNITED, "|||||UNO", "|UNO||||IGO")
CODES = ("", "010", "042", "1411", "190")


class Row(NamedTuple):
    """A row for `Grouped`: whole-number sums over one or more rows of the store."""

    stream: str = "KE"
    actor1: str = KENYA
    code: str = "010"
    actor2: str = ""
    units: int = 1_000_000_000
    rows: int = 1
    mentions: int = 1
    goldstein: int = 0
    tone: int = 0
    quad: int = 1


def column_of(values: Sequence[str]) -> Coded:
    """A column by its distinct values, in the order in which they come."""
    keys = tuple(dict.fromkeys(values))
    return Coded(keys, np.array([keys.index(value) for value in values], dtype=np.int64))


def grouped_of(rows: Sequence[Row]) -> Grouped:
    names = Row._fields
    columns: list[Any] = [column_of([getattr(row, name) for row in rows]) for name in names[:4]]
    columns += [
        np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in names[4:]
    ]
    return Grouped._make(columns)


def clouds_from(*rows: Row) -> dict[str, Cloud]:
    return {cloud.stream: cloud for cloud in clouds_of(FACTS, grouped_of(rows))}


def points_of(cloud: Cloud) -> list[tuple[Any, ...]]:
    """Phrases and their numbers, point by point."""
    numbers = zip(*(values.tolist() for values in cloud.numbers), strict=True)
    return [(*phrase, *each) for phrase, each in zip(cloud.phrases(), numbers, strict=True)]


def by_plain_sums(rows: Sequence[Row], stream: str) -> list[tuple[Any, ...]]:
    """What `points_of` must give, without any array."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        if stream in (WORLD, row.stream):
            phrase = (canonical(row.actor1), row.code, canonical(row.actor2))
            found = sums.setdefault(phrase, [0] * 6)
            found[:5] = [old + new for old, new in zip(found[:5], row[4:9], strict=True)]
            found[5] = max(found[5], row.quad)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        (*phrase, units, rows, mentions, goldstein / (rows * 10), tone / (rows * 10**6), quad)
        for phrase, (units, rows, mentions, goldstein, tone, quad) in ordered
    ]


row = st.builds(
    Row,
    st.sampled_from(STREAMS),
    st.sampled_from(ACTORS),
    st.sampled_from(CODES),
    st.sampled_from(ACTORS),
    st.sampled_from([0, 1, 693_147_181]) | st.integers(0, 4 * 10**9),
    st.integers(1, 5),
    st.integers(0, 60),
    st.integers(-500, 500),
    st.integers(-(10**8), 10**8),
    st.integers(0, 4),
)


def cut(each: Row, rng: random.Random) -> list[Row]:
    """A row as two whose sums add up to its own."""
    parts = [rng.randint(min(value, 0), max(value, 0)) for value in each[4:9]]
    rest = [value - part for value, part in zip(each[4:9], parts, strict=True)]
    return [Row(*each[:4], *numbers, each.quad) for numbers in (parts, rest)]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> DayFolder:
    return DayFolder(tmp_path_factory.mktemp("clouds"))


# --- from rows to clouds --------------------------------------------------------------------------


@given(st.lists(row, max_size=30))
@settings(deadline=None)
def test_clouds_are_what_plain_sums_over_phrases_give(rows: list[Row]) -> None:
    found = clouds_from(*rows)
    streams = {row.stream for row in rows} - {""} | ({WORLD} if rows else set())
    assert list(found) == sorted(streams)
    for stream, cloud in found.items():
        assert points_of(cloud) == by_plain_sums(rows, stream)


@given(st.lists(row, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_file_has_the_same_bytes_however_rows_are_ordered_and_grouped(
    scratch: DayFolder, rows: list[Row], rng: random.Random
) -> None:
    write_day(scratch, FACTS, clouds_of(FACTS, grouped_of(rows)))
    before = scratch.path(DAY).read_bytes()
    pieces = [
        piece for each in rows for piece in (cut(each, rng) if rng.random() < 0.5 else [each])
    ]
    rng.shuffle(pieces)
    write_day(scratch, FACTS, clouds_of(FACTS, grouped_of(pieces)))
    assert scratch.path(DAY).read_bytes() == before


@given(st.lists(row, max_size=30))
@settings(deadline=None)
def test_weights_sum_to_one_and_nothing_is_ever_nan(rows: list[Row]) -> None:
    for cloud in clouds_from(*rows).values():
        assert cloud.weights.sum() == pytest.approx(1, abs=1e-12)
        assert (cloud.weights >= 0).all()
        assert all(np.isfinite(values).all() for values in cloud.numbers)
        found = cloud.statistics
        assert np.isfinite([*found[:4], *found.quad_shares, *found[5:]]).all()
        assert 0 <= found.entropy <= math.log(len(cloud)) + 1e-12
        assert sum(found.quad_shares) <= 1 + 1e-12


def test_rows_whose_actors_read_alike_are_one_point() -> None:
    twice = clouds_from(
        Row(actor1="KEN|||||COP|COP", actor2="|||||UNO", units=3, rows=1, mentions=2),
        Row(actor1="KEN|||||COP", actor2="|UNO||||IGO", units=4, rows=2, mentions=5),
    )["KE"]
    assert list(twice.phrases()) == [(POLICE, "010", UNITED)]
    assert [values.tolist() for values in twice.numbers[:3]] == [[7], [3], [7]]


def test_actors_are_not_exchanged_when_rows_are_merged() -> None:
    cloud = clouds_from(Row(actor1=KENYA, actor2=UNITED), Row(actor1=UNITED, actor2=KENYA))["KE"]
    assert set(cloud.phrases()) == {(KENYA, "010", UNITED), (UNITED, "010", KENYA)}


def test_the_world_is_the_union_and_has_the_rows_without_a_country() -> None:
    found = clouds_from(
        Row("KE", code="010", units=3, mentions=1),
        Row("GM", code="010", units=4, mentions=2),
        Row("", code="010", units=1, mentions=4),
        Row("", code="190", units=9, mentions=8),
    )
    assert sorted(found) == ["GM", "KE", WORLD]
    world = found[WORLD]
    assert list(world.phrases()) == [(KENYA, "190", ""), (KENYA, "010", "")]
    assert world.numbers.units.tolist() == [9, 8]
    assert world.numbers.mentions.tolist() == [8, 7]
    assert world.volume == 4
    assert found["KE"].numbers.units.tolist() == [3]


def test_the_heaviest_comes_first_and_ties_go_by_actor1_then_code_then_actor2() -> None:
    cloud = clouds_from(
        Row(actor1=POLICE, code="010", actor2="", units=5),
        Row(actor1=KENYA, code="042", actor2="", units=5),
        Row(actor1=KENYA, code="010", actor2=UNITED, units=5),
        Row(actor1=KENYA, code="010", actor2="", units=5),
        Row(actor1=UNITED, code="190", actor2=UNITED, units=6),
        Row(actor1="", code="010", actor2="", units=4),
    )["KE"]
    assert list(cloud.phrases()) == [
        (UNITED, "190", UNITED),
        (KENYA, "010", ""),
        (KENYA, "010", UNITED),
        (KENYA, "042", ""),
        (POLICE, "010", ""),
        ("", "010", ""),
    ]


def test_a_place_called_like_the_world_is_not_the_world() -> None:
    found = clouds_of(FACTS, grouped_of([Row(WORLD, code="190"), Row("KE", code="010")]))
    assert [(cloud.stream, len(cloud)) for cloud in found] == [("KE", 1), (WORLD, 2)]


def test_no_rows_make_no_clouds() -> None:
    assert clouds_of(FACTS, grouped_of([])) == []


def test_means_are_over_rows_and_a_quad_class_is_the_largest() -> None:
    numbers = clouds_from(
        Row(rows=1, goldstein=-100, tone=-2_500_000, quad=0),
        Row(rows=3, goldstein=20, tone=500_000, quad=4),
    )["KE"].numbers
    assert (GOLDSTEIN_UNITS, TONE_UNITS) == (10, 10**6)
    assert numbers.goldstein.tolist() == [-2.0]
    assert numbers.tone.tolist() == [-0.5]
    assert numbers.quad.tolist() == [4]


# --- weights, states, statistics ------------------------------------------------------------------


def test_points_without_any_weight_share_alike() -> None:
    cloud = clouds_from(*(Row(code=code, units=0, mentions=0) for code in CODES[1:]))["KE"]
    assert cloud.weights.tolist() == [0.25] * 4
    assert cloud.statistics.entropy == pytest.approx(math.log(4))
    assert cloud.state == "full"


def test_a_point_without_weight_among_others_has_none() -> None:
    assert shares_of_units(np.array([3, 1, 0])).tolist() == [0.75, 0.25, 0.0]
    assert shares_of_units(np.zeros(0, np.int64)).tolist() == []


def test_a_day_is_missing_empty_small_or_full(tmp_path: Path) -> None:
    files = DayFolder(tmp_path / "clouds")
    lines = [Row("KE", code=code) for code in CODES[1:4]] + [Row("GM", code="010")] * 2
    lines += [Row("UP", code=code) for code in CODES[1:3]]
    write_day(files, FACTS, clouds_of(FACTS, grouped_of(lines)))
    reader = Clouds(tmp_path)
    states = {stream: reader.cloud(stream, DAY).state for stream in ("KE", "GM", "UP", "FR")}
    assert states == {"KE": "full", "GM": "small", "UP": "small", "FR": "empty"}
    assert reader.cloud("KE", DAY + timedelta(days=1)).state == "missing"


@pytest.mark.parametrize("missing", [True, False])
def test_a_cloud_without_points_has_zeros_and_no_nan(tmp_path: Path, missing: bool) -> None:
    write_day(DayFolder(tmp_path / "clouds"), FACTS._replace(partial=True), [])
    cloud = Clouds(tmp_path).cloud("KE", DAY - timedelta(days=missing))
    assert (cloud.stream, cloud.day, cloud.known) == (
        "KE",
        DAY - timedelta(days=missing),
        not missing,
    )
    assert cloud.partial is not missing
    assert (len(cloud), cloud.volume, cloud.weights.tolist()) == (0, 0, [])
    assert list(cloud.phrases()) == []
    assert cloud.statistics == NOTHING
    assert [values.dtype for values in cloud.numbers] == [np.int64] * 3 + [np.float64] * 2 + [
        np.int64
    ]


def test_set_statistics_by_hand() -> None:
    numbers = Numbers(
        units=np.array([4, 2, 1, 1]),
        rows=np.array([1, 3, 2, 2]),
        mentions=np.array([10, 20, 5, 1]),
        goldstein=np.array([1.0, -2.0, 8.0, 0.0]),
        tone=np.array([-4.0, 2.0, 0.0, 16.0]),
        quad=np.array([4, 1, 0, 4]),
    )
    found = statistics_of(numbers)
    assert (found.volume, found.phrases, found.mentions) == (8, 4, 36)
    # 1/2 ln 2 + 1/4 ln 4 + 2 * 1/8 ln 8
    assert found.entropy == pytest.approx(1.75 * math.log(2))
    assert found.quad_shares == (0.25, 0.0, 0.0, 0.625)  # 1/8 of the weight has no class
    assert found.goldstein == 0.5 - 0.5 + 1.0
    assert found.tone == -2.0 + 0.5 + 2.0


def test_the_entropy_of_one_point_is_zero_without_a_sign() -> None:
    entropy = clouds_from(Row())["KE"].statistics.entropy
    assert (entropy, math.copysign(1, entropy)) == (0.0, 1.0)


# --- columns --------------------------------------------------------------------------------------


def test_a_text_column_is_coded_and_null_is_empty() -> None:
    plain = coded(pa.chunked_array([["b", None], ["a", "b"]]))
    assert plain.values() == ["b", "", "a", "b"]
    assert plain.keys == ("b", "", "a")
    assert plain.places.dtype == np.int64
    kept = coded(pa.chunked_array([pa.array(["b", "a", "b"]).dictionary_encode()]))
    assert (kept.keys, kept.values()) == (("b", "a"), ["b", "a", "b"])


def test_columns_are_cut_and_picked() -> None:
    column = column_of(["a", "b", "a", "c"])
    assert column.at(slice(1, 3)).values() == ["b", "a"]
    assert column.at(np.array([3, 0])).values() == ["c", "a"]


# --- a day's file ---------------------------------------------------------------------------------


WRITTEN = [
    Row(stream, actor1, code, units=100 * len(actor1) + number, tone=-number, quad=number % 5)
    for number, (stream, actor1, code) in enumerate(
        (stream, actor1, code)
        for stream in ("KE", "GM", "")
        for actor1 in (KENYA, POLICE, UNITED, "")
        for code in CODES[1:]
    )
]


@pytest.fixture
def written(tmp_path: Path) -> DayFolder:
    """A day with three streams, the world among them."""
    files = DayFolder(tmp_path / "clouds")
    facts = FACTS._replace(partial=True, backfile=True)
    write_day(files, facts, clouds_of(facts, grouped_of(WRITTEN)))
    return files


def test_clouds_are_read_as_they_were_written(written: DayFolder) -> None:
    clouds = read_day(written.path(DAY))
    assert clouds.facts == DayFacts(DAY, "made of this", True, True)
    assert list(clouds.streams) == ["GM", "KE", WORLD]
    for stream in clouds.streams:
        cloud = clouds.cloud(stream)
        assert points_of(cloud) == by_plain_sums(WRITTEN, stream)
        assert (cloud.stream, cloud.day, cloud.known) == (stream, DAY, True)
        assert (cloud.partial, cloud.backfile) == (True, True)
        assert clouds.statistics[stream] == cloud.statistics
    assert clouds.dictionaries() == (("", KENYA, POLICE, UNITED), CODES[1:], ("",))


def test_a_footer_says_where_streams_lie_and_what_they_are(written: DayFolder) -> None:
    said = read_footer(written.path(DAY))
    assert {
        name: said[name] for name in ("format", "day", "fingerprint", "partial", "backfile")
    } == {
        "format": 1,
        "day": "2014-01-06",
        "fingerprint": "made of this",
        "partial": True,
        "backfile": True,
    }
    places = {stream: row[:2] for stream, row in said["streams"].items()}
    assert places == {"GM": [0, 16], "KE": [16, 16], WORLD: [32, 16]}
    assert all(len(row) == 2 + len(NOTHING) for row in said["streams"].values())


def test_points_are_not_read_before_they_are_asked_for(written: DayFolder) -> None:
    path = written.path(DAY)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    clouds = read_day(path)
    assert clouds.statistics["KE"].phrases == 16
    assert clouds.cloud("FR").state == "empty"
    with pytest.raises(
        MeasuresError, match=f"{path} cannot be read .*: delete it and run `gdelphi"
    ):
        clouds.cloud("KE")


def test_points_are_read_once(written: DayFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = module.read_table

    def counting(path: Path) -> pa.Table:
        read.append(path)
        return original(path)

    monkeypatch.setattr(module, "read_table", counting)
    reader = Clouds(written.folder.parent)
    for stream in ("KE", "GM", "KE"):
        assert len(reader.cloud(stream, DAY)) == 16
    assert read == [written.path(DAY)]


def test_a_file_without_a_column_is_unreadable(written: DayFolder) -> None:
    path = written.path(DAY)
    pq.write_table(pq.read_table(path).drop_columns(["tone"]), path)
    with pytest.raises(MeasuresError, match=f"{path} cannot be read .*tone.*: delete it and run"):
        read_day(path).cloud("KE")


def test_a_day_file_of_something_else_is_refused(written: DayFolder) -> None:
    written.write(DAY, pa.table({"x": [1]}), {"fingerprint": "other"})
    with pytest.raises(MeasuresError, match=rf"{written.path(DAY)} cannot be read .*: delete it"):
        read_day(written.path(DAY))


def test_points_of_a_file_that_was_made_again_are_not_taken_for_those_before(
    written: DayFolder,
) -> None:
    clouds = read_day(written.path(DAY))
    facts = FACTS._replace(fingerprint="made of that")
    write_day(written, facts, clouds_of(facts, grouped_of(WRITTEN[3:])))
    with pytest.raises(MeasuresError, match="was made again since it was opened: open it again"):
        clouds.cloud("KE")


def test_a_parquet_file_from_elsewhere_is_refused(tmp_path: Path) -> None:
    path = DayFolder(tmp_path / "clouds").path(DAY)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({name: ["x"] for name in SLOTS}), path)
    with pytest.raises(MeasuresError, match=f"{path} cannot be read .*: delete it and run"):
        Clouds(tmp_path).cloud("KE", DAY)


# --- a folder of days -----------------------------------------------------------------------------


def test_a_reader_knows_the_days_in_order_and_none_between(tmp_path: Path) -> None:
    files = DayFolder(tmp_path / "clouds")
    days = [DAY, DAY + timedelta(days=400), DAY + timedelta(days=2)]
    for day in days:
        write_day(files, FACTS._replace(day=day), [])
    reader = Clouds(tmp_path)
    assert reader.days == tuple(sorted(days))
    assert reader.on(DAY + timedelta(days=1)) is None
    assert reader.on(days[1]) is not None


def test_a_reader_of_no_folder_has_no_days(tmp_path: Path) -> None:
    reader = Clouds(tmp_path / "nowhere")
    assert reader.days == ()
    assert reader.cloud("KE", DAY).state == "missing"


def test_measures_lie_beside_the_store_or_where_it_is_said(tmp_path: Path) -> None:
    beside = settings_for(tmp_path / "s.duckdb", tmp_path)
    assert measures_folder(beside) == tmp_path / "s.measures"
    said = settings_for(tmp_path / "s.duckdb", tmp_path, measures__folder=tmp_path / "other")
    assert measures_folder(said) == tmp_path / "other"
