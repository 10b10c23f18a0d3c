"""The largest changes of the watchlist, and their reasons."""

from datetime import timedelta
from pathlib import Path

import pytest

from gdelphi.common.settings import Settings
from gdelphi.report.changes import MOST, changes_of
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


def test_against_yesterday_where_it_was_and_only_what_is_watched(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    stored(tmp_path, recipe_at(ORIGIN - timedelta(days=1), streams), lambda *_: 0.85)
    changes = changes_of(countries_of(settings, tmp_path), streams[1:], past)
    assert len(changes) == MOST
    assert (changes[0].code, changes[0].published, changes[0].before) == ("14", 0.02, 0.85)
    assert {change.stream for change in changes} == {streams[1]}
    assert {change.against for change in changes} == {"yesterday"}
    moved = [abs(change.published - change.before) for change in changes]
    assert moved == sorted(moved, reverse=True)
    assert "19" not in {change.code for change in changes if change.target == "headline"}


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
    assert futures == f"among the phrases of 4 of 4 futures, 4 of them drawn from {day_at(67)}"


def test_where_there_is_no_evidence_no_report_is_named(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    changes = changes_of(countries_of(settings, tmp_path), streams, past)
    protest = next(change for change in changes if change.code == "14")
    assert len(protest.reasons) == 3
    assert protest.reasons[-2] == "among the phrases of 0 of 4 futures"


def test_a_stack_that_is_published_is_told(
    settings: Settings, streams: tuple[str, ...], past: PastNews, tmp_path: Path
) -> None:
    stored(tmp_path, recipe_at(ORIGIN, streams), probability_of)
    country = countries_of(settings, tmp_path)[0]
    stack = [p.model_copy(update={"which": "stack"}) for p in country.probabilities]
    changes = changes_of([country.model_copy(update={"probabilities": stack})], streams, past)
    assert "what is published is the stack" in changes[0].reasons[-1]
