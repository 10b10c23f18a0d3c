"""A world's count panel without files is the one that its archive gives through the store."""

from pathlib import Path

import numpy as np
import pytest

from gdelphi.measures.count_panel import CountPanel, read_count_panel
from gdelphi.measures.profiles import read_profiles
from gdelphi.store.ingest import ingest
from gdelphi.world.archive import create_world
from gdelphi.world.config import CONFLICT_ROOTS, Dirt, WorldConfig
from gdelphi.world.draw_law import draw_law
from gdelphi.world.law import INDEX, Law
from gdelphi.world.rows import RowMaker
from gdelphi.world.simulate import published, simulate
from gdelphi.world.simulated_counts import simulated_count_panel
from helpers.archives import settings_for

DIRTY = draw_law(
    WorldConfig(
        seed=3, days=60, streams=5, volume_median=40.0, volume_deviation=0.9,
        dirt=Dirt(missing_days=0.1, no_place=0.1, unknown_codes=0.01),
    ),
    seed=5,
)  # fmt: skip
QUIET = WorldConfig(days=60, streams=2, volume_median=0.3, volume_deviation=0.5, dirt=None)


def ingested(config: WorldConfig, folder: Path) -> CountPanel:
    """The same world's panel through files and the store."""
    created = create_world(config, folder / "archive")
    settings = settings_for(folder / "s.duckdb", created.folder)
    assert ingest(settings).succeeded
    law = Law(config)
    first, last = law.day(0), law.day(config.days - 1)
    roots = read_profiles(settings, streams=law.map.streams, since=first, until=last)
    return read_count_panel(settings, roots)


@pytest.mark.parametrize("config", [DIRTY, QUIET], ids=["dirty, by a drawn law", "quiet and clean"])
def test_the_panel_is_that_of_the_ingested_archive(config: WorldConfig, tmp_path: Path) -> None:
    stored, simulated = ingested(config, tmp_path), simulated_count_panel(config)
    for name in ("streams", "days", "codes"):
        assert getattr(simulated.roots, name) == getattr(stored.roots, name)
    for name in ("counts", "volume", "present"):
        values, expected = (getattr(panel.roots, name) for panel in (simulated, stored))
        assert np.array_equal(values, expected), name
        assert values.dtype == expected.dtype, name
    assert np.allclose(simulated.roots.weights, stored.roots.weights, rtol=0, atol=1e-9)
    for name in ("fine", "pairs", "acted", "world"):
        values, expected = (getattr(panel, name) for panel in (simulated, stored))
        assert np.array_equal(values, expected), name
        assert values.dtype == expected.dtype, name
    assert simulated.fine_codes == stored.fine_codes
    assert simulated.pairs.sum() > 0


def test_the_cases_have_missing_and_empty_days() -> None:
    missing, quiet = simulated_count_panel(DIRTY).roots, simulated_count_panel(QUIET).roots
    assert 0 < (~missing.present).sum() < 15
    assert quiet.present.all()
    assert (quiet.volume.sum(axis=0) == 0).any()


def test_the_parts_of_a_panel_agree() -> None:
    panel = simulated_count_panel(DIRTY)
    counts, world = panel.roots.counts, panel.world
    assert (counts.sum(axis=0) <= world).all()
    assert counts.sum() / world.sum() == pytest.approx(1 / 1.1, abs=0.005)  # a tenth has no place
    assert panel.fine.sum() / counts.sum() == pytest.approx(0.99, abs=0.005)  # 1% of unknown codes
    assert np.array_equal(panel.pairs, panel.pairs.swapaxes(1, 2))
    assert (panel.acted <= world).all()


def test_rivals_meet_as_often_as_the_law_says() -> None:
    law = Law(DIRTY.model_copy(update={"dirt": None}))
    panel = simulated_count_panel(law.config)
    conflicts = np.stack([published(law, day).pair_conflicts for day in simulate(law)])
    for number, (one, other) in enumerate(law.map.rivals):
        assert panel.pairs[:, one, other].sum(axis=1).tolist() == conflicts[:, number].tolist()


def test_drawn_rows_are_those_that_are_written() -> None:
    law = Law(DIRTY)
    maker = RowMaker(law, "v1")
    day = next(simulate(law))
    rows, (lines, quarters) = maker.draw(day), maker.lines(day, 1)
    assert rows.quarter.tolist() == quarters.tolist()
    fields = [line.split("\t") for line in lines]
    assert [maker.codes[code] for code in rows.code] == [field[26] for field in fields]
    assert [INDEX[field[28]] for field in fields] == rows.root.tolist()
    assert [field[25] == "1" for field in fields] == rows.lead.tolist()
    opposed = [field[28] in CONFLICT_ROOTS for field in fields]
    assert not (rows.rival > 0)[~np.array(opposed)].any()
