"""Baselines: kernels by hand, probabilities by hand, and no look past the origin."""

import gc
import weakref
from datetime import timedelta

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    Forecast,
)
from gdelphi.judge.compare import leaks
from gdelphi.measures.past import past_of
from gdelphi.measures.profiles import Profiles
from gdelphi.measures.targets import (
    headline_of,
    outcomes,
    surge_threshold,
)
from gdelphi.stack.baselines import (
    Analogues,
    Baseline,
    Climatology,
    Ewma,
    Persistence,
    RecencyBootstrap,
    WeekdayClimatology,
    all_baselines,
)
from helpers.profiles import START, day_number, profiles_of, random_profiles

EACH = pytest.mark.parametrize("baseline", all_baselines(), ids=lambda baseline: baseline.name)


def kernel_of(baseline: Baseline, profiles: Profiles, day: int, horizon: int = 1) -> FloatArray:
    return baseline.kernel(past_of(profiles, day_number(day), horizon))


def same(one: Forecast, other: Forecast) -> bool:
    names = (*TARGETS, "share_samples", "share_weights")
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names
    )


# --- what holds for all ---------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("horizon", [1, 3])
def test_nothing_after_the_origin_changes_a_bit(baseline: Baseline, horizon: int) -> None:
    profiles = random_profiles(days=120, missing=0.1)
    assert not leaks(baseline, profiles, day_number(90), horizon)


@EACH
def test_a_history_cut_at_the_origin_gives_the_same_forecasts(baseline: Baseline) -> None:
    profiles = random_profiles(days=120, missing=0.1)
    whole = baseline.forecast(profiles, day_number(90))
    cut = baseline.forecast(profiles.until(day_number(90)), day_number(90))
    assert all(same(one, other) for one, other in zip(whole, cut, strict=True))


class Cheat(Baseline):
    """All past days, and more of them the larger the day after the origin."""

    name = "cheat"

    def kernel(self, past: object) -> FloatArray:
        raise NotImplementedError

    def forecast(self, history, origin, horizon=1):  # type: ignore[no-untyped-def]
        return Climatology().forecast(history, origin + timedelta(days=horizon), horizon)


def test_a_forecaster_that_looks_ahead_is_found() -> None:
    assert leaks(Cheat(), random_profiles(), day_number(90))


@EACH
def test_kernels_sum_to_one_and_forecasts_come_in_the_order_of_streams(baseline: Baseline) -> None:
    profiles = random_profiles(days=100, missing=0.2)
    kernel = kernel_of(baseline, profiles, 95)
    assert kernel.sum(axis=-1) == pytest.approx(1)
    assert (kernel >= 0).all()
    forecasts = baseline.forecast(profiles, day_number(95), 2)
    assert tuple(forecast.stream for forecast in forecasts) == profiles.streams
    assert {forecast.target_day for forecast in forecasts} == {day_number(97)}
    assert {forecast.forecaster for forecast in forecasts} == {baseline.name}


@EACH
def test_no_probability_is_zero_or_one_even_for_what_never_or_always_happened(
    baseline: Baseline,
) -> None:
    weights = np.ones((2, 100, 7))
    weights[:, :, 3] = 0
    weights[:, :, 5] = np.linspace(1, 2, 100)
    for forecast in baseline.forecast(profiles_of(weights), day_number(99)):
        for target in TARGETS:
            values = forecast.probability(target)
            assert ((values > 0) & (values < 1) | np.isnan(values)).all()
        assert np.isnan(forecast.surge).tolist() == [number == 3 for number in range(7)]


@EACH
def test_one_day_of_past_is_enough(baseline: Baseline) -> None:
    forecast = baseline.forecast(profiles_of([[[1, 3]]]), START)[0]
    assert forecast.share_mean == pytest.approx([0.25, 0.75])
    assert np.isnan(forecast.surge).all()


def test_without_any_past_there_is_no_forecast() -> None:
    profiles = profiles_of(np.ones((1, 3, 2)), present=[False, True, True])
    with pytest.raises(ForecastError, match="no present day up to 2014-01-06"):
        Climatology().forecast(profiles, START)
    with pytest.raises(ForecastError, match="no present day"):
        Climatology().forecast(profiles, START - timedelta(days=9))
    with pytest.raises(ForecastError, match="horizon 0"):
        Climatology().forecast(profiles, day_number(2), 0)


def test_an_origin_beyond_the_history_is_served_with_what_there_is() -> None:
    profiles = random_profiles(days=20)
    late = Climatology().forecast(profiles, day_number(30))[0]
    assert late.occurs == pytest.approx(Climatology().forecast(profiles, day_number(19))[0].occurs)


def test_what_is_derived_from_a_history_goes_with_it() -> None:
    profiles = random_profiles(days=20)
    Climatology().forecast(profiles, day_number(19))
    gone = weakref.ref(profiles)
    del profiles
    gc.collect()
    assert gone() is None


# --- climatology and smoothing --------------------------------------------------------------------


def test_climatology_is_the_mean_of_past_days_with_one_day_of_the_pooled_rate() -> None:
    profiles = random_profiles(streams=3, days=100, missing=0.1)
    seen = profiles.until(day_number(79))
    happened = {
        "occurs": seen.counts[:, seen.present] > 0,
        "headline": headline_of(seen.weights[:, seen.present]),
    }
    days = int(seen.present.sum())
    forecasts = Climatology().forecast(profiles, day_number(79))
    for target, values in happened.items():
        pooled = (values.sum(axis=(0, 1)) + 0.5) / (3 * days + 1)
        expected = (days * values.mean(axis=1) + pooled) / (days + 1)
        given = np.stack([forecast.probability(target) for forecast in forecasts])
        assert given == pytest.approx(expected)
    assert forecasts[1].share_mean == pytest.approx(seen.shares[1, seen.present].mean(axis=0))
    assert forecasts[1].share_weights == pytest.approx(1 / days)


def test_smoothing_by_hand() -> None:
    # Code 01 on 2 of 4 days in one stream, 1 of 4 in the other: pooled (3 + .5) / (8 + 1).
    profiles = profiles_of([[[1, 1], [1, 1], [0, 1], [0, 1]], [[1, 1], [0, 1], [0, 1], [0, 1]]])
    pooled = 3.5 / 9
    climatology = Climatology().forecast(profiles, day_number(3))
    assert climatology[0].occurs[0] == pytest.approx((4 * 0.5 + pooled) / 5)
    assert climatology[1].occurs[0] == pytest.approx((4 * 0.25 + pooled) / 5)
    assert climatology[0].occurs[1] == pytest.approx((4 + 8.5 / 9) / 5)
    persistence = Persistence().forecast(profiles, day_number(3))
    assert persistence[0].occurs[0] == pytest.approx(pooled / 2)


def test_surges_of_past_days_are_told_by_the_threshold_at_the_origin() -> None:
    profiles = random_profiles(streams=2, days=130, codes=6)
    origin = day_number(119)
    threshold = surge_threshold(profiles, origin)
    above = profiles.shares[:, :120] > threshold[:, None]
    defined = ~np.isnan(threshold)
    pooled = (above.sum(axis=(0, 1)) + 0.5) / (120 * defined.sum(axis=0) + 1)
    expected = np.where(defined, (120 * above.mean(axis=1) + pooled) / 121, np.nan)
    given = np.stack([forecast.surge for forecast in Climatology().forecast(profiles, origin)])
    assert given == pytest.approx(expected, nan_ok=True)
    undefined = np.isnan(outcomes(profiles, origin)["surge"])
    assert np.array_equal(np.isnan(given), undefined)


# --- kernels by hand ------------------------------------------------------------------------------


def test_weekday_climatology_takes_the_target_days_weekday() -> None:
    profiles = profiles_of(np.ones((1, 20, 1)))  # 20 days from a Monday on
    assert np.flatnonzero(kernel_of(WeekdayClimatology(), profiles, 19)).tolist() == [6, 13]
    assert np.flatnonzero(kernel_of(WeekdayClimatology(), profiles, 19, 2)).tolist() == [0, 7, 14]
    assert kernel_of(WeekdayClimatology(), profiles, 3) == pytest.approx([0.25] * 4)


def test_persistence_is_the_last_present_day() -> None:
    profiles = profiles_of([[[1, 0], [0, 1], [1, 1], [1, 1]]], present=[True, True, False, False])
    forecast = Persistence().forecast(profiles, day_number(3))[0]
    assert forecast.share_samples.tolist() == [[0, 1]]
    assert forecast.share_weights.tolist() == [1]


def test_ewma_halves_every_half_life_in_calendar_days() -> None:
    profiles = profiles_of(np.ones((1, 5, 1)), present=[True, True, False, True, False])
    kernel = kernel_of(Ewma(half_life=1), profiles, 4)
    assert kernel == pytest.approx(np.array([1 / 8, 1 / 4, 1]) / (11 / 8))


def test_ewma_forecast_by_hand() -> None:
    profiles = profiles_of([[[0], [1], [1]]])
    forecast = Ewma(half_life=1).forecast(profiles, day_number(2))[0]
    rate, days = 6 / 7, 1 / ((1 + 4 + 16) / 49)
    assert forecast.occurs[0] == pytest.approx((days * rate + 2.5 / 4) / (days + 1))


def test_a_long_past_does_not_underflow() -> None:
    profiles = profiles_of(np.ones((1, 6000, 1)))
    forecast = Ewma(half_life=2).forecast(profiles, day_number(5999))[0]
    assert forecast.share_weights.sum() == pytest.approx(1)
    assert len(forecast.share_weights) < 6000


def test_recency_is_the_mean_of_four_exponential_kernels() -> None:
    profiles = random_profiles(days=60, missing=0.1)
    kernels = [kernel_of(Ewma(half_life), profiles, 50) for half_life in (7, 30, 90, 365)]
    assert kernel_of(RecencyBootstrap(), profiles, 50) == pytest.approx(np.mean(kernels, axis=0))


def test_analogues_find_the_day_that_followed_the_same_week() -> None:
    """Weeks of calm (code 01), one of unrest (02) followed by 03, then unrest again."""
    weights = np.zeros((1, 50, 3))
    weights[0, :, 0] = 1
    for unrest in (slice(15, 22), slice(43, 50)):
        weights[0, unrest] = [0, 1, 0]
    weights[0, 22] = [0, 0, 1]
    kernel = kernel_of(Analogues(neighbours=1), profiles_of(weights), 49)
    assert np.flatnonzero(kernel[0]).tolist() == [22]
    later = kernel_of(Analogues(neighbours=1), profiles_of(weights), 49, 3)
    assert np.flatnonzero(later[0]).tolist() == [24]


def test_analogues_look_at_volume_as_well_as_shares() -> None:
    profiles = profiles_of(np.ones((1, 60, 2)))
    volume = profiles.volume.copy()
    volume[0, 20:27] = volume[0, 53:60] = 500
    louder = Profiles(
        profiles.streams, profiles.days, profiles.codes, profiles.counts, profiles.weights,
        volume, profiles.present,
    )  # fmt: skip
    assert np.flatnonzero(kernel_of(Analogues(neighbours=1), louder, 59)[0]).tolist() == [27]


def test_analogues_use_each_streams_own_weeks_and_all_days_when_there_are_few() -> None:
    profiles = random_profiles(streams=2, days=100)
    kernel = kernel_of(Analogues(), profiles, 99)
    assert ((kernel > 0).sum(axis=1) == 25).all()
    assert not np.array_equal(kernel[0], kernel[1])
    assert not kernel[:, :7].any()
    assert kernel_of(Analogues(), profiles, 12) == pytest.approx(1 / 13)
    assert (kernel_of(Analogues(), profiles, 13) > 0).sum() == 2 * 7


def test_of_equally_near_weeks_the_later_one_is_taken() -> None:
    kernel = kernel_of(Analogues(neighbours=3), profiles_of(np.ones((1, 40, 2))), 39)
    assert np.flatnonzero(kernel[0]).tolist() == [37, 38, 39]


def test_what_is_derived_from_a_history_is_kept_with_it() -> None:
    profiles = random_profiles()
    one, other = (past_of(profiles, day_number(day)) for day in (80, 90))
    assert one.known is other.known is profiles.present_days
