"""Judged weeks: tables that keep all numbers, scores with known answers."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from gdelphi.common.types import AHEAD, TARGETS, WeekForecast
from gdelphi.judge.week import (
    BLOCK_DAYS,
    HORIZONS,
    JudgedWeeks,
    judged_weeks,
    onset_cases,
    said_of,
    week_gains,
    week_scores,
    week_table,
    without_network,
)
from gdelphi.measures.week_targets import WeekOutcomes

STREAMS, CODES = ("KE", "UG"), ("01", "14", "19")
START = date(2024, 3, 1)
ORIGINS = [START + timedelta(days=number) for number in range(4 * BLOCK_DAYS)]


def outcomes_at(random: np.random.Generator) -> WeekOutcomes:
    occurs = random.random((AHEAD, 2, 3)) < 0.3
    headline, surge = (occurs & (random.random(occurs.shape) < 0.5) for _ in range(2))
    daily = np.stack([occurs, headline, surge]).astype(float)
    daily[2, :, 0, 0] = np.nan  # a surge that is undefined
    return WeekOutcomes(daily, daily.max(axis=1), daily[0], np.array([1.0, np.nan]))


def said(name: str, outcome: WeekOutcomes, share: float) -> list[WeekForecast]:
    """So far from a half to what comes."""
    daily, within = (0.5 + share * (values - 0.5) for values in (outcome.daily, outcome.within))
    rows = np.ones((AHEAD, 3))
    return [
        WeekForecast(
            name, stream, START, CODES, daily[:, :, place], within[:, place], rows,
            [0.5 + share / 2, np.nan][place],
        )
        for place, stream in enumerate(STREAMS)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def weeks() -> JudgedWeeks:
    random, tables = np.random.default_rng(0), []
    for _ in ORIGINS:
        came = outcomes_at(random)
        forecasts = {
            "published": said("published", came, 0.5),
            "simple stack": said("simple stack", came, 0.0),
            "without network": said("without network", came, 0.25),
            "usual": said("usual", came, 1.0),
        }
        onset = np.zeros((2, 3), np.bool_)
        onset[1, 2] = True
        tables.append(week_table(STREAMS, CODES, forecasts, came, onset))
    return judged_weeks(ORIGINS, tables)


def test_a_table_keeps_every_number_in_its_place() -> None:
    came = outcomes_at(np.random.default_rng(3))
    forecasts = {name: said(name, came, 0.3) for name in ("published", "simple stack")}
    forecasts["published"][1].daily[1, 4, 2] = 0.123
    onset = np.array([[True, False, False], [False, False, True]])
    table = week_table(STREAMS, CODES, forecasts, came, onset)
    found = judged_weeks([START], [table])
    assert (found.streams, found.codes) == (STREAMS, CODES)
    np.testing.assert_array_equal(found.onset[0], onset)
    np.testing.assert_array_equal(found.said["published"][0], said_of(forecasts["published"]))
    assert found.said["published"][0, 1, 4, 1, 2] == 0.123
    np.testing.assert_array_equal(found.outcome[0, :, :AHEAD], came.daily)
    np.testing.assert_array_equal(found.outcome[0, :, AHEAD], came.within)
    np.testing.assert_array_equal(found.escalated[0], came.escalation)
    row = table.filter(
        (np.array(table["stream"]) == "UG")
        & (np.array(table["code"]) == "19")
        & (np.array(table["horizon"]) == 5)
        & (np.array(table["target"]) == "headline")
    )
    assert row["published"].to_pylist() == [0.123]


def test_scores_are_those_of_forecasts_at_a_known_distance(weeks: JudgedWeeks) -> None:
    lines = {
        (one.horizon, one.target, one.cells, one.forecaster): one for one in week_scores(weeks)
    }
    for horizon in HORIZONS:
        for target in TARGETS:
            bar = lines[horizon, target, "all", "simple stack"]
            ours = lines[horizon, target, "all", "published"]
            assert (bar.brier, ours.brier) == pytest.approx((0.25, 0.0625))
            assert ours.skill.value == pytest.approx(0.75)
            assert ours.skill.low <= 0.75 + 1e-9 and ours.skill.high >= 0.75 - 1e-9
            assert ours.days == len(ORIGINS)
            undefined = len(ORIGINS) if target == "surge" else 0
            assert ours.number == 6 * len(ORIGINS) - undefined
    onset = lines[0, "occurs", "onset", "published"]
    assert onset.number == len(ORIGINS), "one cell of each origin"
    escalation = lines[0, "escalation", "all", "published"]
    assert (escalation.number, escalation.rate) == (len(ORIGINS), 1.0)
    assert escalation.brier == pytest.approx(0.0625)
    for gain in week_gains(weeks):
        assert gain.skill.value == pytest.approx(1 - 0.0625 / 0.140625)


def test_hits_and_misses_are_of_onset_cells_that_came_true(weeks: JudgedWeeks) -> None:
    hits, misses = onset_cases(weeks)
    assert [(one.stream, one.code) for one in hits] == [("UG", "19")], "each cell once"
    place = ORIGINS.index(hits[0].origin)
    assert weeks.outcome[place, 0, -1, 1, 2] == 1 and hits[0].published == 0.75
    assert misses[0].published <= hits[0].published


def test_without_the_network_numbers_agree_too() -> None:
    came = outcomes_at(np.random.default_rng(5))
    one = said("stack", came, 0.2)[0]
    strange = replace(one, within=one.within * 0 + 0.01)
    (found,) = without_network([strange])
    assert found.forecaster == "without network"
    known = ~np.isnan(found.within)
    assert (found.daily.max(axis=1)[known] <= found.within[known] + 1e-12).all()


def test_forecasts_of_other_streams_are_refused() -> None:
    came = outcomes_at(np.random.default_rng(5))
    with pytest.raises(ValueError, match="published speaks of other streams or codes"):
        week_table(STREAMS, CODES, {"published": said("published", came, 0.2)[:1]}, came,
                   np.zeros((2, 3), np.bool_))  # fmt: skip
