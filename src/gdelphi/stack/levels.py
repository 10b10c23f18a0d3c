"""Standing levels: how high each class of roots stands now, apart from what the news excite.

A burst of rows may be a new state of affairs or the echo of one event. The first fit tells how
likely each is: a row is born of the stream's state with probability

    base / (base + excited),

the columns that are levels over all columns (the declustering of Hawkes processes). State-born
rows over their usual number are averaged over the roots of a class and over past days, each by its
precision under the negative binomial and halved in weight every half-life, with a prior of 1:

    level = (1/2 + sum_days d^age sum_roots p * born / usual) / (1/2 + sum_days d^age sum_roots p),
    1 / p = 1 / usual + 1 / shape.

A state that cannot be seen is not linear in what it shows, so each level comes as itself, up to 1,
above 1 and above 2.5.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gdelphi.common.types import BoolArray, FloatArray, VectorArray
from gdelphi.stack.columns import QUAD_NAMES, ColumnBlock, quad_members
from gdelphi.stack.usual import discounted_sums

LEVEL_HALF_LIVES: Final = (2.0, 4.0, 8.0, 16.0, 40.0)  # days
PRIOR_PRECISION: Final = 0.5  # of the prior, that a level is 1
MOST_ABOVE: Final = 10.0  # that a hinge rises to
LEAST: Final = 1e-6  # rows: nothing is divided by less
CLASS_NAMES: Final = (*QUAD_NAMES, "conflict", "cooperation")


def standing_levels(
    counts: FloatArray,
    usual: FloatArray,
    state_born: FloatArray,
    shapes: FloatArray,
    present: BoolArray,
    roots: Sequence[str],
) -> tuple[ColumnBlock, ...]:
    """Columns of the levels, from counts [day, stream, root], the rows that a calm state brings,
    the share of rows that are born of the state (both of the same shape), and NB shapes
    [stream, root]."""
    usual = np.maximum(usual, LEAST)
    seen = counts * state_born / usual
    precision = 1 / (1 / usual + 1 / shapes) * present[:, None, None]
    levels, names = [], []
    for name, members in zip(CLASS_NAMES, _classes(roots), strict=True):
        above = (seen * precision)[..., members].sum(axis=2)
        below = precision[..., members].sum(axis=2)
        for half_life in LEVEL_HALF_LIVES:
            level = np.ones((len(counts) + 1, counts.shape[1]), np.float32)
            level[1:] = (PRIOR_PRECISION + discounted_sums(above, half_life)) / (
                PRIOR_PRECISION + discounted_sums(below, half_life)
            )
            levels.append(level)
            names.append(f"standing {name} half-life {half_life:g}")
    return _hinged(np.stack(levels, axis=2), names)


def _hinged(levels: VectorArray, names: Sequence[str]) -> tuple[ColumnBlock, ...]:
    """Levels known before each day, [day + 1, stream, level], as columns, each in four ways."""
    ways = {
        "": levels,
        " up to 1": np.minimum(levels, 1),
        " above 1": np.clip(levels - 1, 0, MOST_ABOVE),
        " above 2.5": np.clip(levels - 2.5, 0, MOST_ABOVE),
    }
    return tuple(
        ColumnBlock(tuple(f"{name}{way}" for name in names), values, 0)
        for way, values in ways.items()
    )


def _classes(roots: Sequence[str]) -> list[BoolArray]:
    """The roots of each class of `CLASS_NAMES`."""
    quads = quad_members(roots)
    return [*quads, quads[2] | quads[3], quads[0] | quads[1]]
