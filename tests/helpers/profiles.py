"""Shared by tests: profiles."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

from gdelphi.measures.count_panel import QUAD_CLASSES, CountPanel
from gdelphi.measures.profiles import Profiles, standard_events

START = date(2014, 1, 6)  # a Monday


def day_number(number: int) -> date:
    return START + timedelta(days=number)


def profiles_of(weights: npt.ArrayLike, present: list[bool] | None = None) -> Profiles:
    """Profiles with given weights [stream, day, code]: a row where there is a weight."""
    array = np.asarray(weights, dtype=np.float64)
    streams, days, codes = array.shape
    counts = (array > 0).astype(np.int64)
    return Profiles(
        streams=tuple(f"S{number}" for number in range(streams)),
        days=tuple(day_number(number) for number in range(days)),
        codes=tuple(f"{number + 1:02d}" for number in range(codes)),
        counts=counts,
        weights=array,
        volume=counts.sum(axis=2),
        present=np.array(present or [True] * days),
    )


def random_profiles(
    streams: int = 3, days: int = 120, codes: int = 8, *, seed: int = 0, missing: float = 0.0
) -> Profiles:
    """Poisson counts with rates of their own for each cell; some days may be missing."""
    generator = np.random.default_rng(seed)
    rates = generator.gamma(0.6, 2.0, size=(streams, 1, codes))
    counts = generator.poisson(np.broadcast_to(rates, (streams, days, codes))).astype(np.int64)
    present = generator.random(days) >= missing
    present[0] = True
    counts[:, ~present] = 0
    made = profiles_of(counts * generator.uniform(0.5, 2.0, size=counts.shape), present.tolist())
    return replace(made, counts=counts, volume=counts.sum(axis=2))


def panel_of(roots: Profiles) -> CountPanel:
    """A count panel over root profiles with nothing else in it."""
    size, days, codes = roots.counts.shape
    return CountPanel(
        roots,
        fine=np.zeros((size, days, len(standard_events("full"))), np.uint16),
        pairs=np.zeros((days, size, size, QUAD_CLASSES), np.uint16),
        acted=np.zeros((size, days, codes), np.uint16),
        world=roots.counts.sum(axis=0),
    )
