"""Inspections of as little as shows that it is done."""

from functools import partial

import pytest

from gdelphi.inspect import (
    context,
    contraction,
    information,
    pieces,
    robustness,
    rotations,
    subsampling,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little work as shows that it is done."""
    for module, name, value in (
        (contraction, "SIZES", (8, 16)), (contraction, "CLOUDS", 1),
        (contraction, "SEQUENCES", 1), (subsampling, "LONG", (10, 30, 100)),
        (subsampling, "SEQUENCES", 4), (subsampling, "DRAWS", 1), (subsampling, "CLOUDS", 1),
        (robustness, "SHARES", (0.05, 0.2)), (robustness, "ORIGINS", 1),
        (pieces, "PAIRS", (2,)), (pieces, "SIZES", (30,)), (pieces, "TARGETS", (2,)),
        (pieces, "ATOMS", (2,)), (pieces, "SEEDS", 1), (information, "SAMPLES", 20),
        (information, "KERNEL_SEQUENCES", 4), (context, "SEQUENCES", 8), (context, "MEMORY", (7,)),
        (context, "SHOWN", (1,)),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(context, "textbook", partial(rotations.textbook, steps=3))
