"""Distances of many measures from the day that came, against those of one pair at a time."""

import numpy as np
import pytest
import torch

from gdelphi.common.types import Measure
from gdelphi.judge.distances import Ensemble, distances_to_first, energy_scores
from gdelphi.ot.energy import root_divergence, sliced_energy_score
from gdelphi.ot.entropic import sinkhorn_divergence
from gdelphi.ot.geometry import Measures, batch_measures

pytestmark = pytest.mark.usefixtures("one_thread")

DIMENSION = 12


def some_measures(seed: int, sizes: list[int]) -> list[Measure]:
    random = np.random.default_rng(seed)
    measures = []
    for size in sizes:
        points = random.standard_normal((size, DIMENSION))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        measures.append(Measure(points.astype(np.float32), random.dirichlet(np.ones(size))))
    return measures


def with_holes(measures: list[Measure]) -> Measures:
    """One batch, in which atoms that are none stand between those that are."""
    points, weights = batch_measures(measures)
    spread = [0, 3, 1, 4, 2, *range(5, 2 * weights.shape[1])][: weights.shape[1] + 2]
    wide_points = points.new_zeros(len(points), len(spread), DIMENSION)
    wide_weights = weights.new_zeros(len(weights), len(spread))
    wide_points[:, spread[: weights.shape[1]]] = points
    wide_weights[:, spread[: weights.shape[1]]] = weights
    return Measures(wide_points, wide_weights)


def test_distances_of_all_streams_at_once_are_those_of_each_pair() -> None:
    streams = [some_measures(0, [3, 1, 2, 5, 9]), some_measures(1, [1, 4, 1, 2])]
    found = distances_to_first([with_holes(measures) for measures in streams])
    for measures, distances in zip(streams, found, strict=True):
        for measure, distance in zip(measures, distances, strict=True):
            pair = (batch_measures([one], torch.float32) for one in (measure, measures[0]))
            alone = root_divergence(sinkhorn_divergence(*pair)).item()
            assert distance == pytest.approx(alone, abs=2e-5)
    assert distances_to_first([]) == []


def test_energy_scores_of_ensembles_are_those_of_their_members() -> None:
    measures = some_measures(2, [4, 1, 2, 7, 3, 1, 12])
    ensembles = {
        "three": Ensemble(np.array([1, 3, 6]), np.array([0.2, 0.3, 0.5])),
        "twice": Ensemble(np.array([2, 4, 4, 5]), np.full(4, 0.25)),
    }
    found = energy_scores(with_holes(measures), ensembles)
    for name, ensemble in ensembles.items():
        members = [measures[row] for row in ensemble.rows]
        alone = sliced_energy_score(members, measures[0], weights=ensemble.weights)
        assert found[name] == pytest.approx(alone, abs=1e-7)
