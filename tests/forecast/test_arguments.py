"""Arguments as they are read from the store: weights, blanks, damaged regions, names, days."""

from datetime import date, timedelta
from math import log
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gdelphi.common.errors import ArgumentsError
from gdelphi.common.settings import Settings
from gdelphi.common.types import WORLD
from gdelphi.forecast.argument_groups import region_name
from gdelphi.forecast.argument_months import read_arguments
from gdelphi.forecast.arguments import (
    KINDS,
    NOBODY,
    UNKNOWN_REGION,
    ArgumentHistory,
    ArgumentKind,
    level_of,
)
from gdelphi.measures.profiles import standard_events
from gdelphi.store.connection import Store
from helpers.archives import settings_for
from helpers.arguments import DAY, settings

__all__ = ["settings"]


@pytest.fixture(scope="module")
def history(settings: Settings) -> ArgumentHistory:
    return read_arguments(settings, ["KE", "UP", WORLD])


def weights(
    history: ArgumentHistory, kind: ArgumentKind, stream: str, day: int
) -> dict[Any, float]:
    """(full code, value) -> weight."""
    observed = history.observed[kind]
    own = (observed.stream == history.stream(stream)) & (observed.day == day)
    return {
        (history.events[event][2], observed.values[value]): float(weight)
        for event, value, weight in zip(
            observed.event[own], observed.value[own], observed.weight[own], strict=True
        )
    }


def test_rows_weigh_as_in_clouds_and_equal_actors_are_one(history: ArgumentHistory) -> None:
    by_value = weights(history, "actor1", "KE", 0)
    # Two lead rows of 3 mentions (one with its role given twice), and one outside a lead with 7.
    assert by_value["145", "KEN|||||COP"] == pytest.approx(2 * log(4) + log(8) / 2)


def test_a_blank_actor_is_a_value_and_reads_nobody_named(history: ArgumentHistory) -> None:
    assert weights(history, "actor1", "KE", 0)["051", NOBODY] == pytest.approx(log(4))
    assert history.words("actor1", NOBODY, "KE", DAY) == "nobody named"
    assert history.words("actor1", "KEN|||||COP", "KE", DAY) == "Kenyan police"


def test_rows_without_mentions_have_no_weight_and_are_left_out(history: ArgumentHistory) -> None:
    assert "KEN|||||REB" not in {value for _, value in weights(history, "actor1", "KE", 0)}


def test_codes_outside_the_table_belong_to_no_standard_event(history: ArgumentHistory) -> None:
    strange = history.events.index(("9X", "9X", "9X"))
    riot = history.events.index(("14", "145", "145"))
    for level in ("root", "base", "full"):
        assert history.codes[level][strange] == -1
        code = standard_events(level)[history.codes[level][riot]]
        assert code == ("14" if level == "root" else "145")


def test_the_world_has_all_rows_with_and_without_a_country(history: ArgumentHistory) -> None:
    world = weights(history, "region", WORLD, 0)
    # Kenya's four rows of riots (one has no mentions), Ukraine's one and the one from nowhere.
    assert world["145", "KE07"] == pytest.approx(2 * log(4) + log(8) / 2)
    assert world["145", "UP12"] == pytest.approx(log(4))
    assert world["145", UNKNOWN_REGION] == pytest.approx(log(4))
    assert ("145", "UP12") not in weights(history, "region", "KE", 0)


def test_damaged_general_and_foreign_regions_are_unknown(history: ArgumentHistory) -> None:
    by_value = weights(history, "region", "KE", 1)
    assert set(by_value) == {("145", UNKNOWN_REGION), ("145", "KE07"), ("145", "KE09")}
    assert by_value["145", UNKNOWN_REGION] == pytest.approx(6 * log(4))
    assert by_value["145", "KE07"] == pytest.approx(log(4))  # was " ke07"


def test_a_region_is_called_as_it_was_most_often_up_to_the_day(history: ArgumentHistory) -> None:
    assert history.words("region", "KE07", "KE", DAY) == "Nyanza"
    assert history.words("region", "KE07", "KE", DAY + timedelta(days=2)) == "Lake Province"
    assert history.words("region", "UP12", "UP", DAY) == "Kyyiv, Misto"
    assert history.words("region", "UP12", WORLD, DAY) == "Kyyiv, Misto, Ukraine"
    assert history.words("region", "KE09", "KE", DAY + timedelta(days=1)) == "Western"
    assert history.words("region", "KE09", "KE", DAY) == "region KE09 of Kenya"
    assert history.words("region", "KE99", "KE", DAY) == "region KE99 of Kenya"
    assert history.words("region", UNKNOWN_REGION, "KE", DAY) == "unknown region"


def test_days_after_the_last_asked_for_are_not_read(settings: Settings) -> None:
    history = read_arguments(settings, ["KE"], until=DAY)
    assert history.days == (DAY,)
    assert "KEN|||||MIL" not in history.observed["actor1"].values
    assert "Lake Province" not in history.region_names.names
    later = read_arguments(settings, ["KE"], since=DAY + timedelta(days=2))
    assert "KEN|||||MIL" in later.observed["actor1"].values
    assert set(later.observed["actor1"].day.tolist()) == {0}


def test_how_many_rows_a_query_takes_makes_no_difference(
    settings: Settings, history: ArgumentHistory
) -> None:
    with mock.patch("gdelphi.forecast.argument_months.ROWS_AT_ONCE", 1):
        again = read_arguments(settings, ["KE", "UP", WORLD])
    for kind, observed in history.observed.items():
        assert again.observed[kind].values == observed.values
        for day in range(3):
            for stream in history.streams:
                assert weights(again, kind, stream, day) == weights(history, kind, stream, day)


@pytest.mark.parametrize("days", [0, 1, 2])
def test_cut_off_at_a_day_it_is_as_if_read_up_to_it(
    days: int, settings: Settings, history: ArgumentHistory
) -> None:
    last = DAY + timedelta(days=days)
    cut, read = history.until(last), read_arguments(settings, ["KE", "UP", WORLD], until=last)
    assert (cut.days, cut.events) == (read.days, read.events)
    for kind in KINDS:
        for mine, theirs in zip(cut.observed[kind], read.observed[kind], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(cut.region_names, read.region_names, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("place", "kind", "name"),
    [
        ("Kisumu, Nyanza, Kenya", 4, "Nyanza"),
        ("Paris, Ile-De-France, Region, France", 4, "Ile-De-France, Region"),
        ("Texas, United States", 2, "Texas"),
        ("Nyanza*, Kenya", 5, "Nyanza"),
        ("Kisumu, Kenya", 4, ""),
        ("Kenya", 1, ""),
        ("", 0, ""),
    ],
)
def test_a_region_is_named_by_the_middle_of_its_place(place: str, kind: int, name: str) -> None:
    assert region_name(place, kind) == name


def test_a_stream_without_rows_has_an_empty_history(settings: Settings) -> None:
    history = read_arguments(settings, ["GM"])
    assert [len(observed.weight) for observed in history.observed.values()] == [0, 0, 0]
    assert history.observed["actor1"].values == ()


@pytest.mark.parametrize(
    ("streams", "window", "complaint"),
    [
        ([], {}, "each once"),
        (["KE", "KE"], {}, "each once"),
        (["KE"], {"since": DAY, "until": DAY - timedelta(days=1)}, "ask for others"),
    ],
)
def test_what_cannot_be_read_is_refused(
    settings: Settings, streams: list[str], window: dict[str, date], complaint: str
) -> None:
    with pytest.raises(ArgumentsError, match=complaint):
        read_arguments(settings, streams, **window)


def test_a_store_without_days_says_how_to_get_some(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "s.duckdb", tmp_path)
    with Store(settings).writing():
        pass
    with pytest.raises(ArgumentsError, match="gdelphi ingest"):
        read_arguments(settings, ["KE"])


def test_a_stream_that_was_not_read_is_refused(history: ArgumentHistory) -> None:
    with pytest.raises(ArgumentsError, match="'FR' was not read; there are KE, UP, WORLD"):
        history.stream("FR")


def test_the_level_of_a_code_is_told_by_the_table() -> None:
    assert [level_of(code) for code in ("14", "141", "1411")] == ["root", "base", "full"]
    with pytest.raises(ArgumentsError, match="no standard event '9X'"):
        level_of("9X")
