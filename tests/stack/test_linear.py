"""The stack: what it learns, what it may see, and how it is kept."""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
)
from gdelphi.judge.compare import compare, leaks
from gdelphi.scores.probabilities import brier
from gdelphi.stack.baselines import (
    Climatology,
    Ewma,
    RecencyBootstrap,
)
from gdelphi.stack.linear import (
    INTERCEPT,
    Stack,
    default_stack,
    expit,
    logit,
)
from helpers.profiles import START, day_number, profiles_of, random_profiles
from helpers.stack_cases import DAYS, GivenForecaster, changing_world

FIT = [day_number(number) for number in range(80, 120)]
TEST = [day_number(number) for number in range(120, DAYS)]


def test_logit_and_expit_are_inverse_and_held_at_the_ends() -> None:
    values = np.array([0.001, 0.3, 0.999])
    assert expit(logit(values)) == pytest.approx(values)
    assert np.isfinite(logit(np.array([0.0, 1.0]))).all()
    assert expit(np.array([-1000.0, 0.0, 1000.0])).tolist() == [0, 0.5, 1]


def test_a_stack_with_the_truth_as_a_member_is_not_worse_than_the_truth() -> None:
    profiles, truth = changing_world()
    oracle = GivenForecaster(truth)
    stack = Stack([oracle, Climatology(), Ewma()]).fit(profiles, FIT)
    judged = compare([oracle, stack, Climatology()], profiles, TEST)
    score = {
        name: brier(probabilities["occurs"], judged.outcomes["occurs"]).mean()
        for name, probabilities in judged.probabilities.items()
    }
    assert score["stack"] < 1.01 * score["given"]
    assert score["stack"] < 0.8 * score["climatology"]
    assert stack.coefficients()["occurs"]["logit given"] == pytest.approx(1, abs=0.15)


def test_a_stack_mends_a_member_that_exaggerates() -> None:
    profiles, truth = changing_world()
    loud = GivenForecaster(expit(2 * logit(truth) + 1))
    fitted = Stack([loud]).fit(profiles, FIT)
    assert fitted.coefficients()["occurs"]["logit given"] == pytest.approx(0.5, abs=0.08)
    judged = compare([loud, fitted], profiles, TEST)
    outcome = judged.outcomes["occurs"]
    mended = brier(judged.probabilities["stack"]["occurs"], outcome).mean()
    assert mended < 0.97 * brier(judged.probabilities["given"]["occurs"], outcome).mean()


def test_the_stack_learns_a_weekday() -> None:
    weights = np.ones((2, DAYS, 3))
    weights[:, 6::7, 0] = 0  # code 01 rests on Sundays
    stack = Stack([Climatology()]).fit(profiles_of(weights), FIT)
    fitted = stack.coefficients()["occurs"]
    others = [value for name, value in fitted.items() if name.startswith("weekday ")]
    assert fitted["weekday sunday"] == min(others)
    assert fitted["weekday sunday"] < fitted["weekday monday"] - 1


@pytest.mark.parametrize("horizon", [1, 2])
def test_nothing_after_the_origin_changes_a_bit_of_the_stack(horizon: int) -> None:
    profiles = random_profiles(days=DAYS, missing=0.05)
    stack = default_stack().fit(profiles, FIT[:10], horizon)
    assert not leaks(stack, profiles, day_number(130), horizon)


def test_fitting_sees_nothing_after_the_last_of_its_days() -> None:
    profiles = random_profiles(days=DAYS)
    whole = default_stack().fit(profiles, FIT[:5]).coefficients()
    cut = default_stack().fit(profiles.until(FIT[4]), FIT[:5]).coefficients()
    assert whole == cut


def test_missing_days_are_passed_over_in_fitting() -> None:
    profiles = random_profiles(days=DAYS, missing=0.2)
    there = [day for day in FIT if profiles.present[(day - START).days]]
    assert len(there) < len(FIT)
    fitted = default_stack().fit(profiles, FIT)
    assert fitted.coefficients() == default_stack().fit(profiles, there).coefficients()
    with pytest.raises(ForecastError, match="none of the days to fit on is present"):
        default_stack().fit(profiles, set(FIT) - set(there))


def test_a_stack_that_is_not_fitted_says_so() -> None:
    profiles = random_profiles(days=30)
    stack = default_stack()
    with pytest.raises(ForecastError, match="not fitted"):
        stack.forecast(profiles, day_number(20))
    with pytest.raises(ForecastError, match="not fitted"):
        stack.coefficients()
    stack.fit(profiles, [day_number(20)])
    with pytest.raises(ForecastError, match="that fit\\(\\) returns"):
        stack.forecast(profiles, day_number(20))


def test_a_target_that_cannot_be_fitted_is_the_mean_of_the_members_logits() -> None:
    profiles = random_profiles(days=100)
    members = [Climatology(), Ewma()]
    stack = Stack(members).fit(profiles, [day_number(30), day_number(31)])  # no surge yet
    surge = stack.forecast(profiles, day_number(90))[0].surge
    of_members = [member.forecast(profiles, day_number(90))[0].surge for member in members]
    assert not np.isnan(surge).all()
    assert surge == pytest.approx(
        expit(np.mean([logit(one) for one in of_members], axis=0)), nan_ok=True
    )
    assert stack.coefficients()["surge"][INTERCEPT] == 0


def test_share_samples_are_the_recency_bootstraps_member_or_not() -> None:
    profiles = random_profiles(days=100)
    drawn = RecencyBootstrap().forecast(profiles, day_number(90))[1]
    for members in ([Climatology()], [Climatology(), RecencyBootstrap()]):
        forecast = (
            Stack(members).fit(profiles, [day_number(80)]).forecast(profiles, day_number(90))[1]
        )
        assert np.array_equal(forecast.share_samples, drawn.share_samples)
        assert np.array_equal(forecast.share_weights, drawn.share_weights)


def test_a_saved_stack_gives_the_same_forecasts(tmp_path: Path) -> None:
    profiles = random_profiles(days=DAYS)
    stack = default_stack().fit(profiles, FIT[:5])
    path = tmp_path / "stack.json"
    stack.save(path)
    again = Stack.load(path, default_stack().members)
    assert again.coefficients() == stack.coefficients()
    one = stack.forecast(profiles, day_number(130))[0]
    other = again.forecast(profiles, day_number(130))[0]
    for target in TARGETS:
        assert np.array_equal(one.probability(target), other.probability(target), equal_nan=True)


def test_a_saved_stack_of_other_members_or_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    Stack([Climatology()]).fit(random_profiles(days=30), [day_number(20)]).save(path)
    with pytest.raises(ForecastError, match="combines"):
        Stack.load(path, [Ewma()])
    content = json.loads(path.read_text())
    del content["coefficients"]["occurs"]["weekday monday"]
    path.write_text(json.dumps(content))
    with pytest.raises(ForecastError, match="other features for occurs"):
        Stack.load(path, [Climatology()])


def test_volume_is_a_feature_and_an_empty_last_day_is_no_accident() -> None:
    weights = np.ones((1, 100, 3))
    weights[0, 90] = 0
    profiles = profiles_of(weights)
    stack = Stack([Climatology()])
    assert stack.features()[-2:] == ("log relative volume", "log usual volume")
    fitted = stack.fit(profiles, [START + timedelta(days=number) for number in range(85, 99)])
    assert np.isfinite(fitted.forecast(profiles, day_number(90))[0].occurs).all()
