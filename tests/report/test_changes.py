"""The largest changes of the watchlist, and their reasons."""

from datetime import timedelta
from pathlib import Path

import pytest

from gdelphi.common.settings import Settings
from gdelphi.forecast.stored_week import read_week
from gdelphi.report.changes import FALLS, changes_of
from gdelphi.report.past import PastNews
from helpers.measured_world import day_at, measured
from helpers.report_countries import ORIGIN, countries_of, past_of
from helpers.report_world import low, recipe_at, stored

STREAM_VALUES = {"19": 0.9, "14": 0.02}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return measured(tmp_path_factory).settings


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return measured(tmp_path_factory).pack.facts.streams[:2]


@pytest.fixture(scope="module")
def past(settings: Settings, streams: tuple[str, ...]) -> PastNews:
    return past_of(settings, ORIGIN, streams)


def probability_of(stream: str, level: str, code: str, target: str) -> float | None:
    if level == "root" and target == "headline":
        return STREAM_VALUES.get(code, 0.2)
    return 0.2 if level == "root" else low(stream, level, code, target)


def test_against_what_is_usual_where_nothing_was_said_before(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    changes = changes_of(countries_of(settings, tmp_path), streams, past)
    assert [(change.code, change.against, change.before) for change in changes] == [
        ("19", "usual", 0.2), ("19", "usual", 0.2), ("14", "usual", 0.2), ("14", "usual", 0.2),
    ]  # fmt: skip
    assert {change.stream for change in changes} == set(streams)
    # what did not change is no change
    assert all(change.target == "headline" for change in changes)


def test_against_the_same_day_as_it_was_forecast_before(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    # Of its own tomorrow, another day of the week, the last forecast said .85: no change is that.
    earlier = recipe_at(ORIGIN - timedelta(days=1), streams, week=True)
    week = read_week(stored(tmp_path, earlier, lambda *_: 0.85))
    assert week is not None
    changes = changes_of(countries_of(settings, tmp_path), streams[1:], past)
    assert {change.stream for change in changes} == {streams[1]}
    assert {change.against for change in changes} == {"last forecast"}
    for change in changes:
        said = week.cells[change.stream, change.code, change.target].days[1].published
        assert said is not None and change.before == round(said, 5) != 0.85


def test_rises_and_falls_are_ranked_apart(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    def falling(stream: str, level: str, code: str, target: str) -> float | None:
        return 0.25 if code in ("14", "17") else 0.01  # before a weekend most of it falls, by more

    stored(tmp_path, recipe_at(ORIGIN, streams), falling)
    changes = changes_of(countries_of(settings, tmp_path), streams, past)
    moved = [change.published - change.before for change in changes]
    assert [move > 0 for move in moved] == [True] * 4 + [False] * FALLS
    assert moved[:4] == sorted(moved[:4], reverse=True) and moved[4:] == sorted(moved[4:])


def test_a_headline_is_held_against_such_days_of_the_week(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    country = countries_of(settings, tmp_path)[0]
    saturday = [
        p.model_copy(update={"members": {**p.members, "weekday": p.published}})
        for p in country.probabilities
    ]
    quiet = country.model_copy(update={"probabilities": saturday})
    assert changes_of([country], streams, past)
    assert changes_of([quiet], streams, past) == []  # usual for a Saturday, if low for a week


def test_reasons_say_what_can_be_checked(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    changes = changes_of(countries_of(settings, tmp_path), streams[:1], past)
    fights = next(change for change in changes if change.code == "19")
    days, report, futures, members = fights.reasons
    assert "the model's day attention says 60%, its direct head 70%" in members
    assert "without the network 50%" in members
    times, known = past.headlines(streams[0], "19")
    assert f"a headline on {times} of the last 7 days" in days
    assert known == 6 and "(1 of them missing)" in days  # day 66
    standing = past.standing(streams[0], "19")
    assert standing is not None
    assert f"{standing.share:.1%} on {ORIGIN}" in days
    assert f"median of {standing.median:.1%} over the {standing.days} days" in days
    assert report == (f"the strongest report of it, mentioned 20 times on {day_at(67)}: report 2")
    assert futures == (
        f"4 of 4 futures have it, >99% of the weight; 4 of them drawn from {day_at(67)}"
    )


def test_where_there_is_no_evidence_no_report_is_named(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    changes = changes_of(countries_of(settings, tmp_path), streams, past)
    protest = next(change for change in changes if change.code == "14")
    assert len(protest.reasons) == 3
    assert protest.reasons[-2] == "0 of 4 futures have it, <1% of the weight"


def test_a_stack_that_is_published_is_told(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    country = countries_of(settings, tmp_path)[0]
    stack = [p.model_copy(update={"which": "stack"}) for p in country.probabilities]
    changes = changes_of([country.model_copy(update={"probabilities": stack})], streams, past)
    assert "what is published is the stack" in changes[0].reasons[-1]
