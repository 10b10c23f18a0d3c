"""A stack fitted once on a small simulated world, for the tests of all that asks one."""

import fcntl
import os
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from gdelphi.common.files import atomic_write
from gdelphi.measures.count_panel import CountPanel
from gdelphi.stack.files import load_stack, save_stack
from gdelphi.stack.fit import FitDays, fit_stack
from gdelphi.stack.fitted import StackFit
from gdelphi.world.config import world_config
from gdelphi.world.simulated_counts import simulated_count_panel

FIRST, TRAIN, VALIDATION_A, VALIDATION_B = 50, 170, 190, 215
"""the first position that is fitted on, and the first positions after each part"""
DAYS: Final = 240


@cache
def small_panel() -> CountPanel:
    """Four streams of a simulated world; not to be changed, for all tests share it."""
    return simulated_count_panel(world_config("demo", {"days": DAYS, "streams": 4, "seed": 11}))


def days_between(panel: CountPanel, first: int, last: int) -> list[date]:
    return [panel.roots.days[at] for at in range(first, last) if panel.roots.present[at]]


def small_fit_days() -> FitDays:
    edges = pairwise((FIRST, TRAIN, VALIDATION_A, VALIDATION_B))
    return FitDays(*(days_between(small_panel(), *edge) for edge in edges))


@cache
def _fitted(base: Path) -> StackFit:
    """Fitted by whichever process of the tests comes first; the others read what it has written."""
    kept = base / "small-stack"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            days = small_fit_days()
            fit = fit_stack(small_panel().until(days.validation_b[-1]), days)
            with atomic_write(kept) as part:
                save_stack(fit, part)
    return load_stack(kept)


def small_stack(factory: pytest.TempPathFactory) -> StackFit:
    """The stack that was fitted on those days; not to be changed."""
    base = factory.getbasetemp()
    return _fitted(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
