"""Comparing forecasters: same cells for all, missing days left out, tables by hand."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    Forecast,
    History,
)
from gdelphi.judge.compare import (
    active_cells,
    compare,
    garble,
    score_table,
    training_rates,
)
from gdelphi.measures.targets import outcomes
from gdelphi.stack.baselines import (
    Climatology,
    Ewma,
    Persistence,
    all_baselines,
)
from gdelphi.stack.linear import Stack, default_stack
from helpers.profiles import day_number, profiles_of, random_profiles

DAYS = [day_number(number) for number in range(90, 120)]
TRAINING = [day_number(number) for number in range(70, 90)]


def test_probabilities_and_outcomes_are_those_of_each_day() -> None:
    profiles = random_profiles()
    judged = compare([Climatology(), Persistence()], profiles, DAYS, 2)
    assert judged.forecasters == ("climatology", "persistence")
    assert judged.days == tuple(DAYS)
    origin = DAYS[4] - timedelta(days=2)
    for target in TARGETS:
        expected = np.stack(
            [one.probability(target) for one in Climatology().forecast(profiles, origin, 2)]
        )
        given = judged.probabilities["climatology"][target]
        assert given.shape == (len(DAYS), 3, 8)
        assert np.array_equal(given[4], expected, equal_nan=True)
        outcome = outcomes(profiles, origin, 2)[target]
        assert np.array_equal(judged.outcomes[target][4], outcome, equal_nan=True)


@dataclass(frozen=True, eq=False)
class Counting:
    """Climatology that counts how often it is asked."""

    origins: list[date]
    name: str = "counting"

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        self.origins.append(origin)
        return Climatology().forecast(history, origin, horizon)


def test_a_member_of_a_stack_that_is_compared_too_is_asked_once() -> None:
    profiles = random_profiles()
    counting = Counting([])
    stack = Stack([counting, Persistence()]).fit(profiles, TRAINING)
    counting.origins.clear()
    judged = compare([stack, counting], profiles, DAYS)
    assert counting.origins == [day - timedelta(days=1) for day in DAYS]
    for forecaster in (stack, counting):
        alone = compare([forecaster], profiles, DAYS).probabilities[forecaster.name]
        for target in TARGETS:
            both = judged.probabilities[forecaster.name][target]
            np.testing.assert_array_equal(both, alone[target])


def test_a_member_and_another_forecaster_of_its_name_are_refused() -> None:
    profiles = random_profiles()
    stack = Stack([Ewma(), Persistence()]).fit(profiles, TRAINING)
    assert compare([stack, Ewma()], profiles, DAYS).forecasters == ("stack", "ewma")
    with pytest.raises(ForecastError, match="stack has a member ewma, and so is another"):
        compare([stack, Ewma(half_life=3.0)], profiles, DAYS)


def test_days_that_are_not_present_are_left_out() -> None:
    profiles = random_profiles(missing=0.3)
    judged = compare([Climatology()], profiles, [*DAYS, date(2040, 1, 1)])
    there = [day for day in DAYS if profiles.present[profiles.days.index(day)]]
    assert judged.days == tuple(there)
    assert not np.isnan(judged.outcomes["occurs"]).any()
    with pytest.raises(ForecastError, match="none of the days to judge is present"):
        compare([Climatology()], profiles, set(DAYS) - set(there))


def test_a_table_by_hand() -> None:
    profiles = profiles_of([[[1, 0], [0, 0], [1, 0]]])
    judged = compare([Climatology(), Persistence()], profiles, [day_number(2)])
    lines = {(line.forecaster, line.target): line for line in score_table(judged, "climatology")}
    # Code 01 came on one of two days: pooled (1 + .5) / 3 = .5, and so are all its forecasts
    # except persistence, (0 + .5) / 2; code 02 never: pooled .5 / 3.
    climatology = [0.5**2, (0.5 / 3 / 3) ** 2]
    persistence = [0.75**2, (0.5 / 3 / 2) ** 2]
    line = lines["persistence", "occurs"]
    assert lines["climatology", "occurs"].brier == pytest.approx(np.mean(climatology))
    assert line.brier == pytest.approx(np.mean(persistence))
    assert line.skill.value == pytest.approx(1 - sum(persistence) / sum(climatology))
    assert line.log_score == pytest.approx(-np.log([0.25, 1 - 0.5 / 6]).mean())
    assert line.cells == 2
    assert lines["persistence", "surge"].cells == 0
    assert np.isnan(lines["persistence", "surge"].brier)


def test_a_forecaster_has_no_skill_against_itself() -> None:
    judged = compare([Climatology(), Persistence()], random_profiles(), DAYS)
    for line in score_table(judged, "climatology"):
        if line.forecaster == "climatology":
            assert (line.skill.value, line.skill.low, line.skill.high) == (0, 0, 0)
        else:
            assert line.skill.low < line.skill.value < line.skill.high < 0


def test_active_cells_have_a_training_rate_between_the_bounds() -> None:
    profiles = random_profiles(streams=4)
    judged = compare([Climatology()], profiles, DAYS, training_days=TRAINING)
    rate = (profiles.counts[:, 70:90] > 0).mean(axis=1)
    active = (rate >= 0.05) & (rate <= 0.95)
    assert np.array_equal(active_cells(judged, "occurs"), active)
    assert 0 < active.sum() < active.size
    lines = score_table(judged, "climatology", "active")
    assert lines[0].cells == active.sum() * len(DAYS)
    assert lines[0].brier > score_table(judged, "climatology")[0].brier


def test_training_rates_pass_over_what_is_undefined() -> None:
    profiles = random_profiles(missing=0.3)
    rates = training_rates(profiles, [day_number(number) for number in range(10, 40)])
    there = profiles.present[10:40]
    assert rates["occurs"] == pytest.approx((profiles.counts[:, 10:40][:, there] > 0).mean(axis=1))
    assert np.isnan(rates["surge"]).all()
    with pytest.raises(ForecastError, match="no training days"):
        training_rates(profiles, [])


def test_a_table_can_be_narrowed_to_streams_and_codes() -> None:
    profiles = random_profiles()
    judged = compare([Climatology(), Persistence()], profiles, DAYS)
    line = score_table(judged, "climatology", streams=["S1"], codes=["02", "03"])[1]
    probabilities = judged.probabilities["persistence"]["occurs"][:, 1, 1:3]
    outcome = judged.outcomes["occurs"][:, 1, 1:3]
    assert line.cells == 2 * len(DAYS)
    assert line.brier == pytest.approx(((probabilities - outcome) ** 2).mean())
    with pytest.raises(ForecastError, match="not among what was judged: XX"):
        score_table(judged, "climatology", streams=["XX"])


def test_questions_that_have_no_answer_are_refused() -> None:
    judged = compare([Climatology()], random_profiles(), DAYS)
    with pytest.raises(ForecastError, match="no forecaster 'stack' to compare with"):
        score_table(judged)
    with pytest.raises(ForecastError, match="give them to compare"):
        score_table(judged, "climatology", "active")
    with pytest.raises(ForecastError, match="no cells 'some'"):
        score_table(judged, "climatology", "some")  # type: ignore[arg-type]
    with pytest.raises(ForecastError, match="two forecasters of one name"):
        compare([Climatology(), Climatology()], random_profiles(), DAYS)


@dataclass(frozen=True)
class Odd:
    """Climatology with something wrong."""

    fault: str
    name: str = "odd"

    def forecast(self, history: History, origin: date, horizon: int = 1) -> list[Forecast]:
        forecasts = Climatology().forecast(history, origin, horizon)
        if self.fault == "order":
            return forecasts[::-1]
        if self.fault == "day":
            return [replace(one, origin=origin + timedelta(days=1)) for one in forecasts]
        return [replace(one, surge=np.full(len(one.codes), np.nan)) for one in forecasts]


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("order", "not those of the history's streams"),
        ("day", "another day"),
        ("silent", "says nothing of some surge"),
    ],
)
def test_a_forecaster_that_answers_another_question_is_refused(fault: str, complaint: str) -> None:
    with pytest.raises(ForecastError, match=complaint):
        compare([Odd(fault)], random_profiles(), DAYS)


def test_garble_keeps_the_past_and_nothing_else() -> None:
    profiles = random_profiles()
    garbled = garble(profiles, day_number(59))
    assert np.array_equal(garbled.weights[:, :60], profiles.weights[:, :60])
    assert np.array_equal(garbled.present[:60], profiles.present[:60])
    assert not np.any(garbled.weights[:, 60:] == profiles.weights[:, 60:])


def test_the_stack_is_close_to_the_best_of_its_members_where_nothing_can_be_known() -> None:
    """Rates do not change here, so climatology is all but perfect."""
    profiles = random_profiles(streams=6, days=200, codes=20)
    fit = [day_number(number) for number in range(70, 130)]
    stack = default_stack().fit(profiles, fit)
    days = [day_number(number) for number in range(137, 200)]
    judged = compare([*all_baselines(), stack], profiles, days, training_days=fit)
    lines = [line for line in score_table(judged, cells="active") if line.target == "occurs"]
    best = max(lines, key=lambda line: line.skill.value)
    assert best.skill.value < 0.02
    assert len(lines) == 7
