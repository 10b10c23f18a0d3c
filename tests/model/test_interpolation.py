"""Blocks that see the measure carry overlapping sources to different targets; without attention
they cannot. The study in benchmarks/interpolation.py has the full size; this is the smallest."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.usefixtures("one_thread")

PAIRS, POINTS, ATOMS = 2, 64, 2


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    path = Path(__file__).parents[2] / "benchmarks" / "interpolation.py"
    spec = importlib.util.spec_from_file_location("interpolation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.slow
def test_attention_tells_sources_apart_that_lie_upon_each_other(study: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    sources = study.overlapping(PAIRS, ATOMS, generator)
    targets = study.target_atoms(PAIRS, ATOMS, generator)
    samples = sources.draw(POINTS, generator)
    recipe = study.Recipe(blocks=3, width=16, gain=1.0)
    plan = [study.Phase(80, POINTS, 1e-2, 3e-3, 3e-4, shake=0.0, every=True)]
    reached = {}
    for attention in (True, False):
        torch.manual_seed(0)
        mover = study.Mover(recipe, attention=attention)
        study.trained(samples, targets, mover, plan)
        reached[attention] = study.distances(study.pushed(mover, samples), targets)
    assert max(reached[True]) < 0.25
    assert min(reached[False]) > 2 * max(reached[True])


def test_the_best_map_puts_equal_shares_of_its_own_points_on_atoms(study: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    sources = study.overlapping(PAIRS, ATOMS, generator)
    targets = study.target_atoms(PAIRS, ATOMS, generator)
    samples, fresh = sources.draw(POINTS, generator), sources.draw(1_000, generator)
    best = study.cells(samples, targets)
    assert max(study.distances(best(samples), targets)) < 0.06  # a point of 64 may be a tie
    assert 0 < max(study.distances(best(fresh), targets)) < 0.2


def test_densities_sum_to_one_and_a_source_overlaps_itself(study: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    shared, guessed = study.overlap(study.overlapping(PAIRS, ATOMS, generator))
    torch.testing.assert_close(shared.diagonal(), torch.ones(PAIRS).double(), rtol=0, atol=1e-4)
    assert 0.1 < shared[0, 1] < 0.9
    assert guessed == pytest.approx(1 - float(shared[0, 1]) / 2, abs=1e-4)
    assert study.overlap(study.apart(PAIRS, ATOMS, generator)).shared[0, 1] < 1e-6


def test_points_are_drawn_with_the_density_that_is_claimed(study: ModuleType) -> None:
    """The mean under the draw, and under the density on the whole sphere."""
    generator = torch.Generator().manual_seed(0)
    sources = study.overlapping(PAIRS, ATOMS, generator)
    drawn = sources.draw(20_000, generator).double().mean(dim=1)
    grid = study.spread(study.GRID)
    expected = sources.density(grid) @ grid / len(grid)
    torch.testing.assert_close(drawn, expected, rtol=0, atol=0.02)
