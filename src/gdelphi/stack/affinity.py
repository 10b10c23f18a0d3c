"""Which streams matter to which: partners by who acts on whom, neighbours by borders, everyone.

And which pairs are hostile: between whom the rows are conflict more often than between others.
All of it is learned from the days up to the last fit day, and kept with the fit.
"""

from typing import Final

import numpy as np

from gdelphi.common.types import FloatArray
from gdelphi.gdelt.borders import shared_borders
from gdelphi.measures.count_panel import CountPanel

FEWEST_ROWS: Final = 5  # between two streams, for them to be partners
COOPERATION: Final = slice(0, 2)  # quad classes 1 and 2, verbal and material
CONFLICT: Final = slice(2, 4)  # quad classes 3 and 4
HOSTILE: Final = 1.5  # times the mean share of conflict, above which a pair is hostile


def affinities(panel: CountPanel, size: int) -> dict[str, FloatArray]:
    """Weights of the other streams for each stream, [stream, stream], 0 on the diagonal; from the
    first `size` days."""
    streams = panel.roots.streams
    return {
        "partners": _partners(panel.pairs[:size].sum(axis=(0, 3), dtype=np.float64)),
        "borders": shared_borders(streams).astype(np.float64),
        "everyone": 1.0 - np.eye(len(streams)),
    }


def _partners(pairs: FloatArray) -> FloatArray:
    """The weight of a partner, (lift / largest lift of the stream)^2, where the lift is

    rows between the two / sqrt(rows of the one with anybody * rows of the other with anybody).
    """
    volume = pairs.sum(axis=1) + 1
    lift = (pairs + 1) / np.sqrt(np.outer(volume, volume))
    lift[pairs < FEWEST_ROWS] = 0
    strongest = np.maximum(lift.max(axis=1, keepdims=True), 1e-9)
    weights: FloatArray = (lift / strongest) ** 2
    return weights


def hostile_pairs(panel: CountPanel, size: int) -> FloatArray:
    """How hostile two streams are, [stream, stream]: the square of what their share of conflict has
    above `HOSTILE` times the mean, from the first `size` days. The share leans on a tenth."""
    rows = panel.pairs[:size].sum(axis=0, dtype=np.float64)
    share = (rows[..., CONFLICT].sum(axis=2) + 0.5) / (rows.sum(axis=2) + 5)
    above: FloatArray = np.maximum(share - HOSTILE * share.mean(), 0) ** 2
    return above
