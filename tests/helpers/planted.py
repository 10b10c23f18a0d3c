"""Shared by tests: a panel with a law that a fit ought to find."""

from dataclasses import replace

import numpy as np

from gdelphi.measures.count_panel import CountPanel
from gdelphi.measures.profiles import Profiles, standard_events
from helpers.profiles import panel_of, profiles_of

SIGN, LAG, ROOT = "036", 6, "07"
"""a fine code, and the root of which there are three times as many rows so many days later"""
NOISE = ("010", "0231", "043", "051", "112", "190")
"""fine codes that announce nothing"""


def planted_panel(
    streams: int = 3, days: int = 400, *, seed: int = 0, missing: float = 0.05
) -> CountPanel:
    """Poisson rows of eight roots, of which one answers to a fine code; some days are missing."""
    generator = np.random.default_rng(seed)
    codes = standard_events("full")
    present = generator.random(days) >= missing
    present[0] = True
    fine = np.zeros((streams, days, len(codes)), np.uint16)
    for code in (SIGN, *NOISE):
        fine[:, :, codes.index(code)] = generator.random((streams, days)) < 0.12
    fine[:, ~present] = 0
    rates = np.broadcast_to(generator.uniform(1.0, 4.0, (streams, 1, 8)), (streams, days, 8)).copy()
    announced = fine[:, :-LAG, codes.index(SIGN)] > 0
    rates[:, LAG:, int(ROOT) - 1] *= np.where(announced, 3.0, 1.0)
    counts = generator.poisson(rates).astype(np.int64)
    counts[:, ~present] = 0
    weights = counts * generator.uniform(0.5, 2.0, counts.shape)
    roots = replace(_profiles(weights, present), counts=counts, volume=counts.sum(axis=2))
    pairs = generator.poisson(0.5, (days, streams, streams, 4)).astype(np.uint16)
    pairs = pairs + pairs.swapaxes(1, 2)
    pairs[:, np.arange(streams), np.arange(streams)] = 0
    pairs[~present] = 0
    acted = generator.poisson(2.0, counts.shape).astype(np.uint16)
    acted[:, ~present] = 0
    return replace(panel_of(roots), fine=fine, pairs=pairs, acted=acted)


def _profiles(weights: np.ndarray, present: np.ndarray) -> Profiles:
    return replace(profiles_of(weights), present=present)
