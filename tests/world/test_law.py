"""The simulated world follows its equations, and the filter of its hidden part is exact."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import nbinom

from gdelphi.common.errors import ConfigError
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    PRESETS,
    Switches,
    WorldConfig,
)
from gdelphi.world.law import (
    INDEX,
    LADDER_DAYS,
    ROOTS,
    Law,
    Published,
)
from gdelphi.world.places import all_places, make_map
from gdelphi.world.simulate import published, simulate

ONLY_LADDER = Switches(contagion=False, tension=False, occasions=False, regime=False, weekly=False)


def test_the_parts_average_one_and_the_world_is_stable() -> None:
    law = Law(PRESETS["default"])
    assert law.base.min() >= 0.05
    assert np.allclose(law.stationary @ law.regime, 1)
    assert np.allclose(law.stationary @ law.moves, law.stationary)
    branching = law.ladder.sum(axis=0)
    assert np.abs(np.linalg.eigvals(branching)).max() < 1
    mean = law.excitation(law.beginning()) + law.base
    occasions = law.announcing @ law.echoes  # nothing is announced before the first day
    assert np.allclose(mean + occasions, 1)


@pytest.mark.slow
def test_rows_come_in_their_usual_numbers() -> None:
    config = PRESETS["default"].model_copy(update={"days": 1500})
    law = Law(config)
    total = np.zeros_like(law.usual)
    expected = np.zeros_like(law.usual)
    for day in simulate(law):
        total += published(law, day).counts
        expected += law.activity(day.index) * law.usual + law.announcements
    by_root = total.sum(axis=0) / expected.sum(axis=0)
    assert np.all(np.abs(by_root - 1) < 0.15), dict(zip(ROOTS, by_root.round(2), strict=True))


@pytest.mark.slow
def test_excitation_can_be_recovered_from_the_counts() -> None:
    """Weighted least squares of tomorrow's rows on the last week's gives the planted kernel."""
    config = WorldConfig(
        streams=20, days=1500, switches=ONLY_LADDER, dirt=None, volume_median=2000,
        volume_deviation=0.1, volume_most=10_000, growth_per_year=0.0,
    )  # fmt: skip
    law = Law(config)
    news = [published(law, day).counts for day in simulate(law)]
    relative = np.stack(news) / law.expected  # [D, S, R]
    lags = [relative[LADDER_DAYS - lag : -lag] for lag in range(1, LADDER_DAYS + 1)]
    past = np.concatenate(lags, axis=2)  # [D - 7, S, 7 R], lag by lag
    features = past.reshape(-1, past.shape[2])
    features = np.column_stack([features, np.ones(len(features))])
    found, *_ = np.linalg.lstsq(
        features, relative[LADDER_DAYS:].reshape(-1, len(ROOTS)), rcond=None
    )
    kernel = found[:-1].reshape(LADDER_DAYS, len(ROOTS), len(ROOTS))
    planted = law.ladder > 0
    assert np.corrcoef(kernel[planted], law.ladder[planted])[0, 1] > 0.97
    assert np.abs(kernel[planted] - law.ladder[planted]).mean() < 0.03
    assert np.abs(kernel[~planted]).mean() < 0.03
    for edge in config.ladder:  # the strongest lag of each clear edge is the planted one
        if edge.strength >= 0.3:
            lagged = kernel[:, INDEX[edge.source], INDEX[edge.target]]
            assert lagged.argmax() + 1 == edge.lag, edge


def test_protests_lead_to_coercion_and_fighting_days_later() -> None:
    law = Law(PRESETS["default"])
    calm = law.beginning()
    burst = law.usual * law.activity(0)
    burst[0, INDEX["14"]] *= 20
    nothing = np.zeros((law.config.streams, len(law.config.occasions)), bool)
    news = Published(burst, law.usual_conflicts * law.activity(0), nothing)
    quiet = Published(law.usual * law.activity(0), news.pair_conflicts, nothing)
    moved, still = law.remember(0, calm, news), law.remember(0, calm, quiet)
    change = []
    for index in range(1, 8):
        before, after = law.rates(index, still)[1, 0], law.rates(index, moved)[1, 0]
        change.append(after / before)
        empty = Published(law.expected * law.activity(index), news.pair_conflicts, nothing)
        moved, still = law.remember(index, moved, empty), law.remember(index, still, empty)
    ratio = np.stack(change)
    assert ratio[:, INDEX["17"]].argmax() == 2 - 1
    assert ratio[:, INDEX["18"]].argmax() == 3 - 1
    assert ratio[:, INDEX["17"]].max() > 3
    assert ratio[:, INDEX["04"]].max() < 1.01


def test_an_announced_day_is_felt_on_its_day_alone() -> None:
    law = Law(PRESETS["default"])
    summit = next(k for k, each in enumerate(law.config.occasions) if each.name == "summit")
    lead = law.config.occasions[summit].lead_days
    announced = np.zeros((law.config.streams, len(law.config.occasions)), bool)
    announced[3, summit] = True
    usual = Published(law.expected, law.usual_conflicts, announced)
    memory = law.remember(0, law.beginning(), usual)
    quiet = Published(law.expected, law.usual_conflicts, np.zeros_like(announced))
    for index in range(1, lead + 2):
        echo = law.excitation(memory)[3, INDEX["05"]] - law.excitation(memory)[4, INDEX["05"]]
        assert (echo > 1) == (index == lead)
        memory = law.remember(index, memory, quiet)


def test_contagion_and_tension_reach_neighbours_and_rivals_only() -> None:
    law = Law(PRESETS["default"])
    nothing = np.zeros((law.config.streams, len(law.config.occasions)), bool)
    counts = law.expected.copy()
    counts[0, INDEX["18"]] *= 50
    conflicts = law.usual_conflicts.copy()
    pair, rival = law.map.rivals_of(0)[0]
    conflicts[pair] *= 50
    usual = law.remember(0, law.beginning(), Published(law.expected, law.usual_conflicts, nothing))
    moved = law.remember(0, law.beginning(), Published(counts, conflicts, nothing))
    more = law.excitation(moved) - law.excitation(usual)
    contagious = {s for s in range(30) if more[s, INDEX["18"]] > 1e-9 and s != 0}
    assert contagious == {s for s in range(30) if 0 in law.map.neighbours[s]}
    tense = {s for s in range(30) if more[s, INDEX["16"]] > 1e-9}
    assert tense == {0, rival}


def test_the_filter_equals_the_sum_over_all_paths() -> None:
    """Bayes by brute force over 3^4 paths of the hidden regime."""
    config = WorldConfig(streams=2, days=60, dirt=None)
    law = Law(config)
    memory, odds = law.beginning(), np.tile(law.stationary, (2, 1))
    days, rates = [], []
    for day in simulate(law):
        if day.index == 4:
            break
        rates.append(law.rates(day.index, memory))
        days.append(day)
        odds = law.filtered(odds, day.usual.astype(float), rates[-1])
        odds = law.predicted(odds)
        memory = law.remember(day.index, memory, published(law, day))
    expected = np.zeros((2, 3))
    k = law.dispersion
    for stream in range(2):
        for path in product(range(3), repeat=5):
            weight = law.stationary[path[0]]
            for index in range(4):
                rate = rates[index][path[index], stream]
                chance = nbinom.pmf(days[index].usual[stream], k, k / (k + rate))
                weight *= chance.prod() * law.moves[path[index], path[index + 1]]
            expected[stream, path[4]] += weight
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.allclose(odds, expected)


def test_conflicts_between_rivals_are_part_of_the_conflict_rows() -> None:
    law = Law(WorldConfig(streams=6, days=80))
    conflict = [INDEX[root] for root in CONFLICT_ROOTS]
    other = [index for index in range(len(ROOTS)) if index not in conflict]
    seen = expected = 0.0
    for day in simulate(law):
        assert (day.with_rival.sum(axis=2) <= day.usual).all()
        assert day.with_rival[:, other].sum() == 0
        seen += day.with_rival.sum()
        expected += law.config.rival_share * day.usual[:, conflict].sum()
        assert published(law, day).pair_conflicts.sum() == day.with_rival.sum()
    assert abs(seen / expected - 1) < 0.1


def test_an_ingredient_switched_off_has_its_average_effect() -> None:
    law = Law(PRESETS["default"].without("ladder"))
    memory = law.beginning()
    burst = Published(law.expected * 9, law.usual_conflicts, np.zeros((30, 3), bool))
    after = law.remember(0, memory, burst)
    change = law.excitation(after) - law.excitation(memory)
    assert np.allclose(change[:, INDEX["06"]], 0)  # root 06 is excited by the ladder alone
    assert law.activity(5) / law.activity(4) < 0.7
    assert Law(PRESETS["default"].without("weekly")).activity(5) > 1


def test_the_same_seed_gives_the_same_days_and_another_does_not() -> None:
    config = WorldConfig(streams=3, days=60)
    first, again = ([day.usual for day in simulate(Law(config))] for _ in range(2))
    other = [day.usual for day in simulate(Law(config.model_copy(update={"seed": 8})))]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_countries_have_neighbours_and_rivals() -> None:
    for streams in (2, 8, 30, 90):
        world = make_map(streams, seed=7)
        assert len(set(world.streams)) == streams
        assert all(world.neighbours)
        assert all(world.rivals_of(index) for index in range(streams))
    assert "KE" in make_map(8, 7).streams
    with pytest.raises(ConfigError, match="at most"):
        make_map(len(all_places()) + 1, 7)
