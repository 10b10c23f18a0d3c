"""Drawn laws: by the seed, within their ranges, stable, and worth knowing."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.errors import ConfigError
from gdelphi.judge.simulated import room_of, simulated_panel
from gdelphi.world import draw_law as drawing
from gdelphi.world.archive import create_world, load_world
from gdelphi.world.config import (
    CONFLICT_ROOTS,
    PRESETS,
    ROOT_SHARES,
    Edge,
    Switches,
    WorldConfig,
)
from gdelphi.world.draw_law import draw_law
from gdelphi.world.law import LEAST_BASE, MOST_GROWTH, Law
from gdelphi.world.marginals import CODES, code_shares
from gdelphi.world.simulate import simulate

SMALL = WorldConfig(streams=3, days=60)
KEPT = {"seed", "start", "days", "streams", "switches", "dirt", "volume_most"}


@pytest.fixture(scope="module")
def laws() -> list[WorldConfig]:
    return [draw_law(SMALL, seed) for seed in range(200)]


def within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] - 1e-9 <= value <= limits[1] + 1e-9


# --- by the seed ----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_law(laws: list[WorldConfig]) -> None:
    assert draw_law(SMALL, 11) == laws[11]


def test_laws_differ_by_the_seed_in_every_part(laws: list[WorldConfig]) -> None:
    for name in sorted(set(WorldConfig.model_fields) - KEPT):
        different = {repr(getattr(law, name)) for law in laws}
        assert len(different) > 100, name


def test_what_is_no_law_is_kept() -> None:
    config = WorldConfig(
        seed=4, start=date(2020, 2, 3), streams=5, days=70, switches=Switches(regime=False),
        dirt=None, volume_most=300.0,
    )  # fmt: skip
    drawn = draw_law(config, 1)
    assert all(getattr(drawn, name) == getattr(config, name) for name in KEPT)
    assert Law(drawn).map == Law(config).map


def test_the_law_does_not_depend_on_the_size_of_the_world() -> None:
    few, many = draw_law(SMALL, 6), draw_law(SMALL.model_copy(update={"streams": 9, "seed": 1}), 6)
    assert few == many.model_copy(update={"streams": 3, "seed": SMALL.seed})


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="the seed of a law is -1"):
        draw_law(SMALL, -1)


# --- ranges ---------------------------------------------------------------------------------------


def test_edges_lie_in_their_ranges(laws: list[WorldConfig]) -> None:
    for law in laws:
        assert within(len(law.ladder), drawing.EDGES)
        assert len({(edge.source, edge.target) for edge in law.ladder}) == len(law.ladder)
        assert all(edge.source != edge.target for edge in law.ladder)
        assert all(within(edge.strength, drawing.STRENGTH) for edge in law.ladder)
        for edge in law.ladder:
            begotten = edge.strength * ROOT_SHARES[edge.target] / ROOT_SHARES[edge.source]
            assert begotten <= drawing.MOST_BEGOTTEN
        peak, beside = law.kernel
        assert within(peak, drawing.KERNEL_PEAK)
        assert peak + 2 * beside == pytest.approx(1)
    lags = {edge.lag for law in laws for edge in law.ladder}
    assert lags == set(range(1, 8))


def test_contagion_tension_and_regimes_lie_in_their_ranges(laws: list[WorldConfig]) -> None:
    for law in laws:
        assert within(len(law.contagion), drawing.CONTAGIOUS)
        assert all(within(each, drawing.CONTAGION) for each in law.contagion.values())
        assert within(len(law.tension), drawing.TENSE)
        assert set(law.tension) <= set(CONFLICT_ROOTS)
        assert all(within(each, drawing.TENSION) for each in law.tension.values())
        assert within(law.tension_memory, drawing.TENSION_MEMORY)
        assert within(law.rival_share, drawing.RIVAL_SHARE)
        moves = np.array(law.regime_moves)
        assert np.allclose(moves.sum(axis=1), 1, atol=1e-12)
        assert (moves >= 0).all()
        assert all(within(stay, drawing.STAY) for stay in np.diag(moves))
        for values, limits in (
            (law.regime_cooperation, drawing.COOPERATION),
            (law.regime_verbal, drawing.VERBAL),
            (law.regime_material, drawing.MATERIAL),
        ):
            assert all(map(within, values, limits))


def test_occasions_lie_in_their_ranges(laws: list[WorldConfig]) -> None:
    for law in laws:
        assert within(len(law.occasions), drawing.OCCASIONS)
        assert len({each.code for each in law.occasions}) == len(law.occasions)
        for each in law.occasions:
            assert CODES[each.code[:2]][each.code] <= drawing.RARE_CODE
            assert within(each.lead_days, drawing.LEAD_DAYS)
            assert within(1 / each.daily_probability, drawing.DAYS_BETWEEN)
            assert within(len(each.echo), drawing.ECHOES)
            assert all(within(echo, drawing.ECHO) for echo in each.echo.values())
        assert all(code_shares(law).values())  # every root keeps codes


def test_volumes_lie_in_their_ranges(laws: list[WorldConfig]) -> None:
    for law in laws:
        assert within(law.volume_median / SMALL.volume_median, drawing.VOLUME_MEDIAN)
        assert within(law.volume_deviation / SMALL.volume_deviation, drawing.VOLUME_DEVIATION)
        assert within(law.mix_deviation, drawing.MIX_DEVIATION)
        assert within(law.growth_per_year, drawing.GROWTH_PER_YEAR)
        assert within(law.weekend, drawing.WEEKEND)
        assert within(law.dispersion, drawing.DISPERSION)
        assert within(max(law.protest_days), drawing.PROTEST_PEAK)
        assert within(sum(day > 1 for day in law.protest_days), (0, drawing.PROTEST_DAYS[1]))


# --- stability ------------------------------------------------------------------------------------


def test_every_law_is_accepted_and_its_days_are_finite(laws: list[WorldConfig]) -> None:
    for config in laws:
        law = Law(config.model_copy(update={"days": 20}))
        assert law.base.min() >= LEAST_BASE - 1e-9
        assert law.growth <= MOST_GROWTH
        rows = [day.rows for day in simulate(law)]
        assert sum(rows) > 0
        assert max(rows) < 100 * law.expected.sum()


def test_rows_come_in_their_usual_numbers_under_a_drawn_law() -> None:
    config = draw_law(PRESETS["demo"].model_copy(update={"days": 400, "streams": 12}), 2)
    law = Law(config)
    total = sum(day.usual.sum() for day in simulate(law))
    expected = sum(law.activity(index) for index in range(config.days)) * law.usual.sum()
    assert total / expected == pytest.approx(1, abs=0.1)


def edge(source: str, target: str, strength: float) -> Edge:
    return Edge(source=source, target=target, strength=strength, lag=1)


def test_growth_is_that_of_a_circle_of_two_edges() -> None:
    """Once around the circle .9 * .4 comes back, so each step keeps the square root of it."""
    circle = {"ladder": (edge("01", "02", 0.9), edge("02", "01", 0.4))}
    nothing = {"contagion": {}, "tension": {}, "dispersion": 3.0}
    occasions = tuple(each.model_copy(update={"echo": {}}) for each in SMALL.occasions)
    law = Law(SMALL.model_copy(update={**circle, **nothing, "occasions": occasions}))
    assert law.growth == pytest.approx(np.sqrt(0.9 * 0.4) * np.sqrt(4 / 3))
    contagious = law.config.model_copy(update={"contagion": {"09": 0.7}})
    assert Law(contagious).growth == pytest.approx(0.7 * np.sqrt(4 / 3))
    tense = law.config.model_copy(update={"tension": dict.fromkeys(CONFLICT_ROOTS, 0.8)})
    unweekly = tense.model_copy(update={"switches": Switches(weekly=False)})
    assert Law(unweekly).growth == pytest.approx(0.8 * np.sqrt(4 / 3))


def test_a_law_that_runs_away_or_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="not stable: a disturbance keeps"):
        Law(SMALL.model_copy(update={"dispersion": 0.5}))
    with pytest.raises(ConfigError, match=r"root 06 leave 0\.01 of its mean"):
        occasions = tuple(each.model_copy(update={"echo": {}}) for each in SMALL.occasions)
        ladder = (edge("05", "06", 0.99),)
        Law(SMALL.model_copy(update={"ladder": ladder, "occasions": occasions}))


def test_after_many_refused_laws_the_draw_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing, "DISPERSION", (0.01, 0.02))
    monkeypatch.setattr(drawing, "TRIES", 5)
    with pytest.raises(ConfigError, match=r"no law for seed 3 in 5 tries; .* not stable"):
        draw_law(SMALL, 3)


# --- oracles --------------------------------------------------------------------------------------


def test_the_fair_oracle_of_a_drawn_law_beats_the_stack() -> None:
    config = PRESETS["demo"].model_copy(update={"days": 160, "streams": 5})
    assert room_of(simulated_panel(draw_law(config, 1))) > 0.03


def test_the_truth_keeps_the_drawn_law(tmp_path: Path) -> None:
    drawn = draw_law(SMALL.model_copy(update={"streams": 2}), 9)
    create_world(drawn, tmp_path / "world")
    assert load_world(tmp_path / "world")[0] == drawn
