"""A world through the front door: what is ingested is what was simulated, and it is described."""

from pathlib import Path

import numpy as np
import pytest

from gdelphi.common.settings import Settings
from gdelphi.judge.simulated import (
    Panel,
    describe,
    ingested_panel,
    room_of,
    simulated_panel,
)
from gdelphi.measures.profiles import read_profiles
from gdelphi.measures.targets import outcomes
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import INGREDIENTS, PRESETS
from helpers.archives import settings_for

pytestmark = pytest.mark.slow
CONFIG = PRESETS["demo"].model_copy(update={"days": 160})


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("world")
    create_world(CONFIG, folder / "archive")
    settings = settings_for(folder / "s.duckdb", folder / "archive")
    assert ingest(settings).succeeded
    return settings


@pytest.fixture(scope="module")
def panel(settings: Settings) -> Panel:
    return ingested_panel(settings, Path(settings.ingest.archive))


def test_the_store_shows_exactly_what_was_simulated(panel: Panel) -> None:
    simulated = simulated_panel(CONFIG)
    assert np.array_equal(panel.profiles.counts, simulated.profiles.counts)
    assert np.array_equal(panel.profiles.present, simulated.profiles.present)
    assert np.array_equal(panel.regimes, simulated.regimes)
    there = panel.evidence.present
    assert np.array_equal(there, simulated.evidence.present)
    assert np.array_equal(panel.evidence.counts, simulated.evidence.counts)
    for name in ("announcements", "pair_conflicts"):
        values, expected = (getattr(world.evidence, name) for world in (panel, simulated))
        assert np.array_equal(values[there], expected[there])


def test_weights_of_rows_are_those_that_the_oracle_samples(panel: Panel) -> None:
    rows = panel.profiles.counts.sum()
    simulated = simulated_panel(CONFIG).profiles.weights.sum() / rows
    assert panel.profiles.weights.sum() / rows == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize("level", ["base", "full"])
def test_finer_codes_occur_as_often_as_the_oracle_says(
    settings: Settings, panel: Panel, level: str
) -> None:
    config = panel.law.config
    profiles = read_profiles(
        settings,
        level,
        panel.law.map.streams,
        since=config.start,  # type: ignore[arg-type]
    )
    oracle = panel.oracle()
    oracle.samples = 20
    probabilities, outcome = [], []
    for index in range(90, 150):
        if not panel.evidence.present[index + 1]:
            continue
        origin = panel.law.day(index)
        probabilities.append([forecast.occurs for forecast in oracle.forecast(profiles, origin)])
        outcome.append(outcomes(profiles, origin)["occurs"])
    chances, happened = np.array(probabilities), np.array(outcome)
    error = np.sqrt((chances * (1 - chances)).sum())
    assert abs((happened - chances).sum()) < 4 * error
    likely = chances > 0.3
    spread = np.sqrt((chances * (1 - chances))[likely].sum())
    assert abs((happened - chances)[likely].sum()) < 4 * spread


def test_the_description_ranks_baselines_stack_and_oracles(panel: Panel) -> None:
    description = describe(panel)
    occurs = {line.forecaster: line.brier for line in description.lines if line.target == "occurs"}
    names = ["climatology", "ewma", "stack", "fair oracle", "oracle that knows the regimes"]
    assert list(occurs) == names
    assert occurs["fair oracle"] < occurs["stack"] < occurs["climatology"]
    assert description.room == pytest.approx(1 - occurs["fair oracle"] / occurs["stack"])
    assert description.room > 0.10
    assert description.between > 0.25
    assert [contribution.ingredient for contribution in description.contributions] == list(
        INGREDIENTS
    )
    assert description.contributions[0].blind_loss > 0.05  # the ladder


def test_without_the_ladder_there_is_less_to_gain() -> None:
    config = PRESETS["demo"]
    assert room_of(simulated_panel(config)) > room_of(simulated_panel(config.without("ladder")))
