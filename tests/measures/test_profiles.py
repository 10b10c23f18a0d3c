"""Profiles and targets: from the store, and by hand. Makes small profiles for other tests too."""

import math
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError, GdelphiError
from gdelphi.common.settings import Settings
from gdelphi.common.types import Forecast, make_forecast
from gdelphi.gdelt.layouts import BACKFILE
from gdelphi.measures.profiles import (
    Profiles,
    read_profiles,
    standard_events,
)
from gdelphi.measures.targets import (
    headline_of,
    occurs_of,
    outcomes,
    surge_threshold,
)
from gdelphi.store.connection import Store
from gdelphi.store.ingest import ingest
from helpers.archives import ArchiveMaker, event_line, settings_for
from helpers.profiles import START, day_number, profiles_of, random_profiles

# --- targets --------------------------------------------------------------------------------------


def test_shares_sum_to_one_or_to_zero_on_an_empty_day() -> None:
    profiles = profiles_of([[[1, 3], [0, 0]]])
    assert profiles.shares.tolist() == [[[0.25, 0.75], [0, 0]]]


def test_a_code_occurs_with_one_row_even_without_weight() -> None:
    assert occurs_of(np.array([0, 1, 7])).tolist() == [False, True, True]


def test_headlines_are_the_five_largest_and_ties_go_to_the_lower_code() -> None:
    weights = np.array([1.0, 9, 2, 2, 2, 2, 2, 0])
    assert np.flatnonzero(headline_of(weights)).tolist() == [1, 2, 3, 4, 5]


def test_headlines_of_many_days_are_those_of_each_by_plain_sorting() -> None:
    weights = np.random.default_rng(0).integers(4, size=(3, 20, 9)).astype(np.float64)
    chosen = headline_of(weights)
    for index in np.ndindex(3, 20):
        ranked = sorted(range(9), key=lambda code: (-weights[index][code], code))
        expected = {code for code in ranked[:5] if weights[index][code] > 0}
        assert set(np.flatnonzero(chosen[index])) == expected


def test_a_quiet_day_has_fewer_headlines() -> None:
    assert headline_of(np.array([0.0, 3, 0, 0, 0, 1, 0])).sum() == 2
    assert not headline_of(np.zeros(7)).any()


def surging() -> Profiles:
    """Share of code 01 on day d is d/1000, of 02 the rest, of 03 always 0; 100 days."""
    share = np.arange(100) / 1000
    return profiles_of(np.stack([share, 1 - share, 0 * share], axis=1)[None])


def test_the_surge_threshold_is_the_90th_percentile_of_the_last_90_present_days() -> None:
    threshold = surge_threshold(surging(), day_number(94))[0]
    # days 5 to 94: position 0.9 * 89 = 80.1 from day 5 on
    assert threshold[0] == pytest.approx((5 + 80.1) / 1000)
    assert threshold[1] == pytest.approx(1 - (5 + 8.9) / 1000)
    assert math.isnan(threshold[2])  # the percentile is 0


def test_the_surge_threshold_needs_60_present_days() -> None:
    profiles = surging()
    assert np.isnan(surge_threshold(profiles, day_number(58))).all()
    assert surge_threshold(profiles, day_number(59))[0, 0] == pytest.approx(0.9 * 59 / 1000)
    gap = replace(profiles, present=np.arange(100) != 10)
    assert np.isnan(surge_threshold(gap, day_number(59))).all()
    assert not np.isnan(surge_threshold(gap, day_number(60))[0, 0])


def test_a_surge_is_strictly_above_the_threshold() -> None:
    constant = profiles_of(np.ones((1, 80, 2)))
    assert outcomes(constant, day_number(70))["surge"].tolist() == [[0, 0]]
    assert outcomes(surging(), day_number(94))["surge"][0, :2].tolist() == [1, 0]


def test_outcomes_are_those_of_the_day_at_the_horizon() -> None:
    profiles = profiles_of([[[1, 0], [0, 2], [0, 0]]])
    assert outcomes(profiles, START, 1)["occurs"].tolist() == [[0, 1]]
    assert outcomes(profiles, START, 2)["headline"].tolist() == [[0, 0]]
    assert outcomes(profiles, START - timedelta(days=1))["occurs"].tolist() == [[1, 0]]
    assert np.isnan(outcomes(profiles, START, 1)["surge"]).all()


@pytest.mark.parametrize("horizon", [1, 7])
def test_a_missing_day_and_a_day_outside_have_no_outcome(horizon: int) -> None:
    profiles = profiles_of(np.ones((1, 3, 2)), present=[True, False, True])
    for values in outcomes(profiles, START, horizon).values():
        assert np.isnan(values).all()


def test_until_is_the_beginning_without_a_copy() -> None:
    profiles = random_profiles()
    cut = profiles.until(day_number(9))
    assert cut.days == profiles.days[:10]
    assert cut.weights.shape[1] == cut.present.size == 10
    assert np.shares_memory(cut.weights, profiles.weights)
    assert profiles.until(date(2030, 1, 1)).days == profiles.days
    with pytest.raises(GdelphiError, match="begin on 2014-01-06"):
        profiles.until(START - timedelta(days=1))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"days": (START, day_number(2))}, "follow each other"),
        ({"codes": ("02", "01")}, "sorted"),
        ({"streams": ("S0", "S0")}, "twice"),
        ({"present": np.ones(3, dtype=bool)}, "present has shape"),
        ({"weights": np.full((2, 2, 2), np.nan)}, "finite"),
        ({"weights": -np.ones((2, 2, 2))}, "negative"),
    ],
)
def test_profiles_that_are_none_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(GdelphiError, match=complaint):
        replace(profiles_of(np.ones((2, 2, 2))), **change)


# --- from the store -------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Settings:
    """Day 0 with five rows, day 1 an empty file, day 2 missing, day 3 with one row."""
    maker = ArchiveMaker(tmp_path / "archive")

    def line(number: int, day: int, place: str, code: str, mentions: Any, lead: int) -> str:
        return event_line(
            number, day_number(day), ActionGeo_CountryCode=place, EventCode=code,
            EventBaseCode=code[:3], EventRootCode=code[:2], NumMentions=mentions, IsRootEvent=lead,
        )  # fmt: skip

    lines = [
        line(1, 0, "KE", "1411", 3, 1),
        line(2, 0, "KE", "141", 7, 0),
        line(3, 0, "GM", "010", 1, 1),
        line(4, 0, "", "010", 1, 1),  # no country: in WORLD alone
        line(5, 0, "KE", "9999", 5, 1),  # no such code: in the volume alone
    ]
    maker.day(day_number(0), lines)
    maker.day(day_number(1), [])
    maker.day(day_number(3), [line(6, 3, "KE", "190", "", 1)])
    maker.write_lists()
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    return given


def test_streams_come_by_volume_and_world_when_named(store: Settings) -> None:
    assert read_profiles(store).streams == ("KE", "GM")
    assert read_profiles(store, streams=["GM", "WORLD"]).streams == ("GM", "WORLD")


def test_counts_weights_and_volume_by_hand(store: Settings) -> None:
    profiles = read_profiles(store, streams=["KE", "WORLD", "GM"])
    fourteen, one = profiles.codes.index("14"), profiles.codes.index("01")
    assert len(profiles.codes) == 20
    assert profiles.counts[0, 0, fourteen] == 2
    assert profiles.weights[0, 0, fourteen] == pytest.approx(math.log(4) + 0.5 * math.log(8))
    assert profiles.counts[:, 0, one].tolist() == [0, 2, 1]
    assert profiles.volume[:, 0].tolist() == [3, 5, 1]
    assert profiles.counts[:, 0].sum(axis=1).tolist() == [2, 4, 1]


def test_an_empty_day_is_present_and_a_missing_day_is_not(store: Settings) -> None:
    profiles = read_profiles(store)
    assert profiles.days == tuple(day_number(number) for number in range(4))
    assert profiles.present.tolist() == [True, True, False, True]
    assert not profiles.volume[:, 1:3].any()
    assert not np.isnan(profiles.shares).any()


def test_unknown_mentions_count_as_one(store: Settings) -> None:
    profiles = read_profiles(store, streams=["KE"])
    assert profiles.weights[0, 3].sum() == pytest.approx(math.log(2))


def test_levels_have_their_own_codes(store: Settings) -> None:
    base, full = read_profiles(store, "base"), read_profiles(store, "full")
    assert (len(base.codes), len(full.codes)) == (146, 290)
    assert base.counts[0, 0, base.codes.index("141")] == 2
    assert full.counts[0, 0, full.codes.index("141")] == 1
    assert full.counts[0, 0, full.codes.index("1411")] == 1
    assert set(standard_events("base")) < set(standard_events("full"))


def test_a_window_is_cut_out_and_may_reach_beyond_the_store(store: Settings) -> None:
    window = read_profiles(store, since=day_number(3), until=day_number(5), streams=["KE"])
    assert window.present.tolist() == [True, False, False]
    assert window.volume.tolist() == [[1, 0, 0]]
    with pytest.raises(GdelphiError, match="no days between"):
        read_profiles(store, since=day_number(3), until=day_number(1))


def test_strays_of_a_backfile_do_not_fill_a_missing_day(tmp_path: Path) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    days = [date(2012, 1, 30), date(2012, 1, 31), date(2012, 2, 2)]
    maker.month(days[0], [event_line(number, day, BACKFILE) for number, day in enumerate(days)])
    maker.write_lists()
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    profiles = read_profiles(given, streams=["WORLD"], since=days[0], until=days[2])
    assert profiles.present.tolist() == [True, True, False, False]
    assert profiles.volume.tolist() == [[1, 1, 0, 0]]


def test_a_stream_without_rows_is_zero(store: Settings) -> None:
    assert not read_profiles(store, streams=["UP"]).volume.any()


def test_an_empty_store_has_no_profiles(tmp_path: Path) -> None:
    given = settings_for(tmp_path / "s.duckdb", tmp_path)
    with Store(given).writing() as connection, pytest.raises(GdelphiError, match="has no days"):
        read_profiles(connection)


def test_reading_agrees_with_sql_over_many_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = ArchiveMaker(tmp_path / "archive")
    for number in range(7):
        day = day_number(number)
        maker.day(day, [event_line(50 * number + row, day) for row in range(1, 41)])
    maker.write_lists()
    given = settings_for(tmp_path / "s.duckdb", maker.folder)
    ingest(given)
    monkeypatch.setattr("gdelphi.measures.profiles.DAYS_AT_ONCE", 3)
    profiles = read_profiles(given, streams=["KE", "UP", "GM", "WORLD"])
    with Store(given).reading() as connection:
        rows = connection.rows(
            "SELECT ActionGeo_CountryCode, NewsDay, EventRootCode, count(*), "
            "sum(ln(1 + NumMentions) * CASE WHEN IsRootEvent = 1 THEN 1 ELSE 0.5 END) "
            "FROM events GROUP BY ALL"
        )
    counts, weights = np.zeros((3, 7, 20)), np.zeros((3, 7, 20))
    for stream, day, code, number, weight in rows:
        cell = profiles.streams.index(stream), (day - START).days, profiles.codes.index(code)
        counts[cell], weights[cell] = number, weight
    assert np.array_equal(profiles.counts[:3], counts)
    assert profiles.weights[:3] == pytest.approx(weights, abs=1e-6)
    assert np.array_equal(profiles.counts[3], counts.sum(axis=0))
    assert profiles.volume.sum() == 2 * 7 * 40


# --- forecasts ------------------------------------------------------------------------------------


def forecast(**values: Any) -> Forecast:
    given: dict[str, Any] = {
        "forecaster": "hand", "stream": "KE", "origin": START, "horizon": 2, "codes": ("01", "02"),
        "occurs": np.array([0.1, 0.9]), "headline": np.array([0.0, 1.0]),
        "surge": np.array([0.5, np.nan]),
        "share_samples": np.array([[0.0, 1.0], [0.4, 0.6], [0.2, 0.8]]),
        "share_weights": np.array([0.5, 0.25, 0.25]),
    }  # fmt: skip
    return make_forecast(Forecast(**(given | values)))


def test_a_forecast_tells_its_day_mean_and_weighted_quantiles() -> None:
    made = forecast()
    assert made.target_day == date(2014, 1, 8)
    assert made.share_mean == pytest.approx([0.15, 0.85])
    assert made.share_quantile(0.5).tolist() == [0.0, 0.8]
    assert made.share_quantile(0.75).tolist() == [0.2, 1.0]
    assert made.share_quantile(1).tolist() == [0.4, 1.0]
    assert made.probability("headline").tolist() == [0, 1]
    with pytest.raises(ForecastError, match="no target 'rain'; there are occurs"):
        made.probability("rain")
    with pytest.raises(ForecastError, match="between 0 and 1"):
        made.share_quantile(1.1)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"occurs": np.array([0.1, 1.1])}, "occurs has values"),
        ({"headline": np.array([0.1, np.nan])}, "headline has values"),
        ({"surge": np.array([0.1])}, "surge has shape"),
        ({"horizon": 0}, "horizon"),
        ({"share_weights": np.array([0.5, 0.5, 0.5])}, "sum to 1"),
        ({"share_weights": np.array([1.0])}, "share samples of shape"),
        ({"share_samples": np.full((3, 2), np.nan)}, "between 0 and 1"),
    ],
)
def test_what_is_no_forecast_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ForecastError, match=complaint):
        forecast(**values)
