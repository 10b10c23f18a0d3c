"""Oracles: calibrated, unbeaten by their own perturbations, and blind to the future."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from gdelphi.common.errors import ForecastError
from gdelphi.judge.compare import leaks, score_table
from gdelphi.judge.simulated import (
    Panel,
    judge_panel,
    simulated_panel,
)
from gdelphi.scores.probabilities import log_score
from gdelphi.scores.reliability import reliability_table
from gdelphi.world.config import (
    INGREDIENTS,
    LEAD_SHARE,
    MENTIONS,
    PRESETS,
    Edge,
)
from gdelphi.world.law import (
    ROOTS,
    Floats,
    Law,
)
from gdelphi.world.oracle import (
    Oracle,
    OracleLevel,
    row_weights,
)
from gdelphi.world.rows import code_shares


@pytest.fixture(scope="module")
def panel() -> Panel:
    return simulated_panel(PRESETS["default"].model_copy(update={"days": 400}))


def said_by(oracle: Oracle) -> Floats:
    """`occurs` of all days, [D, S, R]; quick, since it needs no samples."""
    level = OracleLevel(oracle.law, ROOTS, code_shares(oracle.law.config))
    days = map(oracle.law.day, range(oracle.law.config.days))
    return np.stack([level.occurs(*oracle.prospect(day)) for day in days])


def came(panel: Panel) -> Floats:
    happened = (panel.profiles.counts > 0).astype(float).swapaxes(0, 1)
    happened[~panel.profiles.present] = np.nan
    return np.asarray(happened)


@pytest.fixture(scope="module")
def fair(panel: Panel) -> Floats:
    return said_by(panel.oracle())


def loss(probabilities: Floats, panel: Panel) -> float:
    """Mean negative log score: smaller is better."""
    return float(np.nanmean(np.abs(log_score(probabilities, came(panel)))))


@pytest.mark.parametrize("knows_all", [False, True])
def test_probabilities_are_calibrated_on_200000_forecasts(panel: Panel, knows_all: bool) -> None:
    said = said_by(panel.oracle(knows_all=knows_all))
    happened = came(panel)
    assert (~np.isnan(happened)).sum() > 200_000
    table = reliability_table(said, happened, bins=20)
    error = np.sqrt(table.forecast * (1 - table.forecast) / table.count)
    off = np.abs(table.frequency - table.forecast) / error
    assert np.nanmax(off[table.count > 0]) < 4
    assert np.nanmean(off[table.count > 0]) < 1.5


def test_no_perturbed_oracle_has_a_better_log_score(panel: Panel, fair: Floats) -> None:
    best = loss(fair, panel)
    odds = np.log(fair / (1 - fair))
    for stretch, shift in ((0.9, 0), (1.1, 0), (1, 0.1), (1, -0.1)):
        assert loss(1 / (1 + np.exp(-(stretch * odds + shift))), panel) > best
    config = panel.law.config
    wrong = [
        config.model_copy(update={"dispersion": 2.0}),
        config.model_copy(update={"dispersion": 8.0}),
        config.model_copy(update={"tension_memory": 0.9}),
        config.model_copy(update={"kernel": (0.4, 0.3)}),
        config.model_copy(update={"ladder": tuple(_weaker(edge) for edge in config.ladder)}),
        config.model_copy(update={"regime_moves": ((0.8, 0.1, 0.1),) * 3}),
    ]
    for other in wrong:
        law = Law(other)
        law.usual = panel.law.usual
        assert loss(said_by(Oracle(law, panel.evidence, code_shares(other))), panel) > best


def _weaker(edge: Edge) -> Edge:
    return edge.model_copy(update={"strength": 0.7 * edge.strength})


def test_not_seeing_an_ingredient_costs_skill(panel: Panel, fair: Floats) -> None:
    best = loss(fair, panel)
    for ingredient in INGREDIENTS:
        assert loss(said_by(panel.oracle(blind_to=ingredient)), panel) > best, ingredient


def test_knowing_the_regimes_is_better_still(panel: Panel, fair: Floats) -> None:
    assert loss(said_by(panel.oracle(knows_all=True)), panel) < loss(fair, panel)


@pytest.mark.slow
def test_sampled_targets_are_calibrated_too(panel: Panel) -> None:
    judged = judge_panel(panel, [panel.oracle()])
    for target in ("headline", "surge"):
        said = judged.probabilities["fair oracle"][target]
        happened = judged.outcomes[target]
        known = ~np.isnan(happened)
        table = reliability_table(said[known], happened[known], bins=10)
        full = table.count > 100
        gap = np.abs(table.frequency - table.forecast)[full]
        chance = np.sqrt(table.forecast * (1 - table.forecast) / table.count)[full]
        assert (gap < 4 * chance + 0.005).all(), target  # 0.005: samples are finite, bins wide
    occurs = score_table(judged, reference="fair oracle")
    assert all(line.skill.value == 0 for line in occurs)


def test_sampled_and_computed_occurrence_agree(panel: Panel) -> None:
    level = OracleLevel(panel.law, ROOTS, code_shares(panel.law.config))
    odds, rates = panel.oracle().prospect(panel.law.day(200))
    for stream in (0, 7, 20):
        weights = level.sample(np.random.default_rng(1), odds[stream], rates[:, stream], 20_000)
        computed = level.occurs(odds, rates)[stream]
        assert np.abs((weights > 0).mean(axis=0) - computed).max() < 4 * 0.5 / np.sqrt(20_000)


def test_a_child_code_is_never_likelier_than_its_parent(panel: Panel) -> None:
    shares = code_shares(panel.law.config)
    codes = tuple(sorted({code[:3] for each in shares.values() for code in each}))
    bases, roots = OracleLevel(panel.law, codes, shares), OracleLevel(panel.law, ROOTS, shares)
    odds, rates = panel.oracle().prospect(panel.law.day(100))
    child, parent = bases.occurs(odds, rates)[3], roots.occurs(odds, rates)[3]
    by_root = dict(zip(ROOTS, parent, strict=True))
    assert all(chance <= by_root[code[:2]] for code, chance in zip(codes, child, strict=True))


def test_days_after_the_origin_change_no_byte(panel: Panel) -> None:
    origin = panel.law.day(300)
    seen = panel.evidence
    counts, announcements = seen.counts.copy(), seen.announcements.copy()
    conflicts = seen.pair_conflicts.copy()
    counts[301:], announcements[301:], conflicts[301:] = 999, 5, 77
    garbage = replace(seen, counts=counts, announcements=announcements, pair_conflicts=conflicts)
    shares = code_shares(panel.law.config)
    told = Oracle(panel.law, seen, shares).forecast(panel.profiles, origin)
    other = Oracle(panel.law, garbage, shares).forecast(panel.profiles, origin)
    for one, two in zip(told, other, strict=True):
        assert np.array_equal(one.occurs, two.occurs)
        assert np.array_equal(one.share_samples, two.share_samples)
    assert not leaks(panel.oracle(), panel.profiles, origin)


def test_a_day_that_is_missing_is_remembered_as_empty(panel: Panel) -> None:
    lost = panel.evidence.present.copy()
    lost[200] = False
    blind = Oracle(panel.law, replace(panel.evidence, present=lost), code_shares(panel.law.config))
    day = panel.law.day(201)
    (odds, rates), (other_odds, other_rates) = panel.oracle().prospect(day), blind.prospect(day)
    assert not np.allclose(odds, other_odds)
    assert other_rates.sum() < rates.sum()


def test_what_no_oracle_can_say_is_refused(panel: Panel) -> None:
    oracle = panel.oracle()
    with pytest.raises(ForecastError, match="next day only"):
        oracle.forecast(panel.profiles, panel.law.day(10), 2)
    with pytest.raises(ForecastError, match="no day of this world"):
        oracle.prospect(panel.law.day(0) - timedelta(days=1))
    elsewhere = replace(panel.profiles, streams=("ZZ", *panel.profiles.streams[1:]))
    with pytest.raises(ForecastError, match="ZZ is no stream"):
        oracle.forecast(elsewhere, panel.law.day(10))
    assert oracle.prospect(panel.law.day(400))[0].shape == (30, 3)  # the day after the last
    with pytest.raises(ForecastError, match="has ended"):
        panel.oracle(knows_all=True).prospect(panel.law.day(400))


def test_the_weight_of_a_row_has_the_right_mean() -> None:
    mean = sum(chance * np.log(1 + mentions) for mentions, chance in MENTIONS.items())
    assert len(row_weights()) == 10_000
    assert np.isclose(row_weights().mean(), mean * (LEAD_SHARE + (1 - LEAD_SHARE) / 2))
