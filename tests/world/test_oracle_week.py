"""The oracle of the week: closed forms, calibration, and no look at the days after the origin."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import nbinom

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import AHEAD, WeekForecast
from gdelphi.judge.compare import garble
from gdelphi.judge.simulated import Panel, simulated_panel
from gdelphi.measures.targets import days_until
from gdelphi.measures.week_targets import (
    ESCALATION_FACTOR,
    escalation_base,
    material_conflict,
    week_outcomes,
)
from gdelphi.world.config import PRESETS, Ingredient, Switches
from gdelphi.world.law import ROOTS, Floats, Law, Published
from gdelphi.world.oracle import Oracle
from gdelphi.world.oracle_week import WeekOracle, hit_variance, occurs_within, on_paths
from gdelphi.world.rows import code_shares
from gdelphi.world.simulate import draw_rows, published

OFF = Switches(ladder=False, contagion=False, tension=False, occasions=False, regime=False)
SMALL = PRESETS["demo"].model_copy(update={"days": 150})
AT = 110  # an origin


@pytest.fixture(scope="module")
def panel() -> Panel:
    return simulated_panel(SMALL)


def same(one: WeekForecast, other: WeekForecast) -> bool:
    names = ("daily", "within", "rows", "escalation")
    return (one.stream, one.origin, one.codes) == (other.stream, other.origin, other.codes) and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names
    )


def stacked(forecasts: list[WeekForecast]) -> tuple[Floats, Floats, Floats, Floats]:
    """Daily, within, rows and escalation in the shapes of `WeekOutcomes`."""
    return (
        np.stack([each.daily for each in forecasts], axis=2),
        np.stack([each.within for each in forecasts], axis=1),
        np.stack([each.rows for each in forecasts], axis=1),
        np.array([each.escalation for each in forecasts]),
    )


# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("blind_to", [None, "ladder", "weekly"])
def test_tomorrow_is_what_the_oracle_of_tomorrow_says(
    panel: Panel, blind_to: Ingredient | None
) -> None:
    origin = panel.law.day(AT)
    tomorrow = panel.oracle(blind_to)
    tomorrow.samples = 800
    week = panel.week_oracle(blind_to, paths=800)
    assert week.name == tomorrow.name
    for one, other in zip(
        tomorrow.forecast(panel.profiles, origin), week.week(panel.profiles, origin), strict=True
    ):
        assert np.allclose(one.occurs, other.daily[0, 0], rtol=0, atol=1e-12)
        for target, said in enumerate((one.headline, one.surge), 1):
            error = np.sqrt(2 * hit_variance(said, 800)) + 0.001
            assert (np.isnan(said) == np.isnan(other.daily[target, 0])).all()
            assert np.nanmax(np.abs(said - other.daily[target, 0]) / error) < 4.5


def test_independent_days_have_the_probabilities_of_their_formulas() -> None:
    changes = {"switches": OFF, "dirt": None, "volume_median": 5.0}
    world = simulated_panel(SMALL.model_copy(update=changes))
    law, origin = world.law, world.law.day(AT)
    week, variance = world.week_oracle().week_with_variance(world.profiles, origin)
    daily, within, rows, escalation = stacked(week)
    means = np.stack(
        [law.activity(AT + h) * law.weekday(AT + h) * law.usual for h in range(1, AHEAD + 1)]
    )
    k = law.dispersion
    never = nbinom.pmf(0, k, k / (k + means))
    assert np.allclose(rows, means)
    assert np.allclose(daily[0], 1 - never)
    assert np.allclose(within[0], 1 - never.prod(axis=0))
    assert variance.within[0].max() < 1e-12, "the control variates leave no variance"
    base = escalation_base(world.profiles, origin)
    for stream in np.flatnonzero(~np.isnan(base)):
        total = np.ones(1)
        for mean in means[:, stream, material_conflict(ROOTS)].ravel():
            total = np.convolve(total, nbinom.pmf(np.arange(300), k, k / (k + mean)))
        expected = total[int(np.ceil(ESCALATION_FACTOR * base[stream])) :].sum()
        error = np.sqrt(hit_variance(expected, 400))
        assert abs(escalation[stream] - expected) < 4 * error + 1.5 / 400
    assert (escalation > 0.01).any()


def test_control_variates_leave_the_mean_of_occurs_within_as_it_is() -> None:
    """Two days, all outcomes as often as they are likely: P(row) on the second day depends on the
    first day, both on the row itself and on something else."""
    chances, came = [], []
    for first, other, tenth in product(range(4), range(2), range(10)):
        row = first == 0
        second = 0.9 if row else (0.1, 0.4)[other]
        chances.append((0.25, second))
        came.append((row, tenth < 10 * second))
    values = occurs_within(np.array(chances).T, np.array(came).T)
    hits = np.array(came).any(axis=1)
    assert np.isclose(values.mean(), hits.mean()) and np.isclose(hits.mean(), 1 - 0.75**2)
    assert values.var() < hits.var() / 5


def test_variances_say_how_far_few_paths_are_from_many(panel: Panel) -> None:
    off: list[list[float]] = []
    for index in (80, 100, 120):
        origin = panel.law.day(index)
        few, variance = panel.week_oracle(paths=50).week_with_variance(panel.profiles, origin)
        many = panel.week_oracle(paths=1000).week(panel.profiles, origin)
        for said, true, expected in zip(
            stacked(few)[:2], stacked(many)[:2], variance, strict=False
        ):
            squares = ((said - true) ** 2).reshape(3, -1)
            off.append((np.nanmean(squares, 1) / np.nanmean(expected.reshape(3, -1), 1)).tolist())
    assert np.allclose(np.mean(off, axis=0), 1, rtol=0, atol=0.2)


# --- many paths are many single ones --------------------------------------------------------------


def test_many_paths_at_once_equal_one_after_the_other(panel: Panel) -> None:
    law, paths = panel.law, 5
    rng = np.random.default_rng(1)
    before = panel.oracle().memory(law.day(AT))
    together, alone = on_paths(before, paths), [before] * paths
    for index in range(AT, AT + AHEAD):
        rates = law.rates(index, together)
        for number in range(paths):
            assert np.allclose(rates[number], law.rates(index, alone[number]), rtol=1e-12)
        drawn = draw_rows(law, rng, rates[:, 1])
        visible = drawn.with_rival.sum(axis=-1)
        assert (visible <= drawn.usual).all() and visible.any()
        news = published(law, drawn)
        together = law.remember(index, together, news)
        for number in range(paths):
            rows = type(drawn)(*(array[number] for array in drawn))
            each = published(law, rows)
            assert np.array_equal(each.pair_conflicts, news.pair_conflicts[number])
            alone[number] = law.remember(index, alone[number], each)
    assert np.array_equal(law.remember(9, together, None).recent[0], np.zeros((paths, 8, 20)))


def test_the_memory_of_a_day_is_that_of_all_days_before(panel: Panel) -> None:
    lost = panel.evidence.present.copy()
    lost[[5, AT - 3]] = False
    oracle = Oracle(panel.law, replace(panel.evidence, present=lost), code_shares(SMALL))
    seen, law = oracle.evidence, panel.law
    memory = law.beginning()
    for index in range(AT + 1):
        if index in (0, 3, 40, AT):
            told = oracle.memory(law.day(index))
            assert np.array_equal(told.recent, memory.recent)
            assert np.array_equal(told.announced, memory.announced)
            assert np.array_equal(told.tension, memory.tension)
        news = Published(
            seen.counts[index], seen.pair_conflicts[index], seen.announcements[index] > 0
        )
        memory = law.remember(index, memory, news if lost[index] else None)


# --- many worlds ----------------------------------------------------------------------------------


class Judged(NamedTuple):
    """Forecasts and outcomes by origin; the first day of one is the seventh of the one before."""

    within: Floats  # [2, origin, target, stream, code]: said, came
    escalation: Floats  # [2, origin, stream]
    occurs: Floats  # [4, origin, stream, code]: day 7, day 1 of the next, climatology, came


def judged_origins(seed: int) -> Iterator[tuple[Floats, Floats, Floats]]:
    world = simulated_panel(SMALL.model_copy(update={"seed": seed}))
    oracle = world.week_oracle(paths=100)
    last: Floats | None = None
    for index in range(65, 150 - AHEAD, AHEAD - 1):
        origin = world.law.day(index)
        daily, within, _, escalation = stacked(oracle.week(world.profiles, origin))
        came = week_outcomes(world.profiles, origin)
        past = np.flatnonzero(world.profiles.present[: days_until(world.profiles, origin)])
        known = world.profiles.counts[:, past] > 0
        nothing = np.full_like(daily[0, 0], np.nan)
        yield (
            np.stack([within, came.within]),
            np.stack([escalation, came.escalation]),
            np.stack(
                [
                    nothing if last is None else last,
                    daily[0, 0],
                    known.mean(axis=1),
                    came.daily[0, 0],
                ]
            ),
        )
        last = daily[0, -1]


@pytest.fixture(scope="module")
def judged() -> Judged:
    origins = [each for seed in range(8) for each in judged_origins(seed)]
    return Judged(*(np.stack(part, axis=1) for part in zip(*origins, strict=True)))


def surprise(said: Floats, came: Floats) -> float:
    """Mean difference over its standard error, by origins, the first axis.

    Their weeks share one day at most, so they count as independent.
    """
    off = np.nansum((came - said).reshape(len(said), -1), axis=1)
    return float(off.sum() / np.sqrt((off**2).sum()))


def test_probabilities_of_the_week_are_calibrated_over_worlds(judged: Judged) -> None:
    said, came = judged.within
    for target in range(3):
        assert abs(surprise(said[:, target], came[:, target])) < 4
    assert abs(surprise(*judged.escalation)) < 4
    assert abs(np.nanmean(came[:, 0] - said[:, 0])) < 0.01
    # In bins of what is said only `occurs`: counted probabilities are chosen with their noise.
    for low, high in ((0, 0.3), (0.3, 0.7), (0.7, 1)):
        here = (said[:, 0] > low) & (said[:, 0] <= high)
        assert here.sum() > 500
        assert abs(surprise(said[:, 0], np.where(here, came[:, 0], np.nan))) < 4


def test_a_day_is_harder_to_tell_the_further_it_is_away(judged: Judged) -> None:
    known = ~np.isnan(judged.occurs).any(axis=0)
    far, near, climatology = (
        np.mean((said - judged.occurs[3])[known] ** 2) for said in judged.occurs[:3]
    )
    assert near < 0.99 * far and far < 0.97 * climatology


# --- what it may not do ---------------------------------------------------------------------------


def test_days_after_the_origin_change_no_byte_of_the_week(panel: Panel) -> None:
    origin, seen = panel.law.day(AT), panel.evidence
    counts, announcements = seen.counts.copy(), seen.announcements.copy()
    conflicts, present = seen.pair_conflicts.copy(), seen.present.copy()
    counts[AT + 1 :], announcements[AT + 1 :], conflicts[AT + 1 :] = 999, 5, 77
    present[AT + 2 :] ^= True
    garbage = replace(
        seen,
        counts=counts,
        announcements=announcements,
        pair_conflicts=conflicts,
        present=present,
    )
    blind = WeekOracle(Oracle(panel.law, garbage, code_shares(SMALL)), paths=50)
    told = panel.week_oracle(paths=50).week(panel.profiles, origin)
    other = blind.week(garble(panel.profiles, origin), origin)
    assert all(same(*both) for both in zip(told, other, strict=True))
    changed = counts.copy()
    changed[AT] += 1
    nosy = WeekOracle(
        Oracle(panel.law, replace(seen, counts=changed), code_shares(SMALL)), paths=50
    )
    assert not same(told[0], nosy.week(panel.profiles, origin)[0]), "the origin itself is seen"


def test_a_stream_is_told_the_same_whoever_else_is_asked_about(panel: Panel) -> None:
    origin, few = panel.law.day(AT), [5, 2]
    profiles = panel.profiles
    some = replace(
        profiles,
        streams=tuple(profiles.streams[place] for place in few),
        counts=profiles.counts[few],
        weights=profiles.weights[few],
        volume=profiles.volume[few],
    )
    oracle = panel.week_oracle(paths=50)
    everywhere = oracle.week(profiles, origin)
    for place, told in zip(few, oracle.week(some, origin), strict=True):
        assert same(told, everywhere[place])


def test_a_week_is_at_least_its_likeliest_day_and_at_most_all_of_them(panel: Panel) -> None:
    for index in (AT, 149):  # the last day of the world has a week after it, too
        week = panel.week_oracle(paths=50).week(panel.profiles, panel.law.day(index))
        daily, within, rows, escalation = stacked(week)
        known = ~np.isnan(within)
        assert (within >= daily.max(axis=1))[known].all()
        assert (within <= daily.sum(axis=1) + 1e-12)[known].all()
        assert ((within >= 0) & (within <= 1))[known].all() and known[:2].all()
        assert (rows > 0).all() and (daily[0] <= rows + 1e-12).all()
        base = escalation_base(panel.profiles, panel.law.day(index))
        assert (np.isnan(escalation) == np.isnan(base)).all()


def test_an_early_origin_has_no_surges(panel: Panel) -> None:
    told = panel.week_oracle(paths=10).week(panel.profiles, panel.law.day(20))
    assert all(np.isnan(each.daily[2]).all() and np.isnan(each.within[2]).all() for each in told)


def test_what_the_oracle_of_the_week_cannot_say_is_refused(panel: Panel) -> None:
    oracle, origin = panel.week_oracle(paths=2), panel.law.day(AT)
    bases = replace(panel.profiles, codes=tuple(f"{root}0" for root in ROOTS))
    with pytest.raises(ForecastError, match="root codes only"):
        oracle.week(bases, origin)
    elsewhere = replace(panel.profiles, streams=("ZZ", *panel.profiles.streams[1:]))
    with pytest.raises(ForecastError, match="ZZ is no stream"):
        oracle.week(elsewhere, origin)
    with pytest.raises(ForecastError, match="no day of this world"):
        oracle.week(panel.profiles, panel.law.day(150) + timedelta(days=1))
    with pytest.raises(ForecastError, match="at least 2 paths"):
        panel.week_oracle(paths=1)
    with pytest.raises(ForecastError, match="told the regimes"):
        WeekOracle(panel.oracle(knows_all=True))


def test_announcements_are_off_where_occasions_are() -> None:
    on, off = Law(SMALL), Law(SMALL.without("occasions"))
    assert np.array_equal(on.announcing_now, on.announcing) and not off.announcing_now.any()
    assert (off.unannounced == 1).all()
    assert np.isclose(on.unannounced[ROOTS.index("02")], 1 - 1 / 60)
