"""A network that has seen many worlds: forecasts of a store before anything is trained on it.

Trained over drawn laws of the simulated world (`benchmarks/many_worlds.py`), shipped with the
package, and applied as it is: it reads a law off a panel's past by the columns of
`stack/context.py`, and adds to the mean logit of three baselines.

    logit  =  base  +  part_target  (W_o h + L x),      h = g(W_a x),  h <- h + g(W_b h)

x are the columns in deviations of the training worlds. How large a part of it counts was chosen for
each target on validation days of real data, since real news has weaker laws than simulated ones.
Computed in NumPy: three small products, for which nobody should have to import torch.
"""

from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import FloatArray, VectorArray
from gdelphi.stack.context import ContextTable
from gdelphi.stack.linear import expit

FURTHEST: Final = 5.0  # deviations that a column is held within
WEIGHTS: Final = ("weights", "starter.safetensors")


class Starter(NamedTuple):
    """The tensors of the network, by the names of its file."""

    mean: VectorArray
    """[column], of the training worlds"""
    deviation: VectorArray
    first: VectorArray
    """W_a and its bias as the last row, [column + 1, width]"""
    second: VectorArray
    """W_b likewise, [width + 1, width]"""
    out: VectorArray
    """W_o, [width, target]"""
    linear: VectorArray
    """L and its bias, [column + 1, target]"""
    part: VectorArray
    """how much of it counts, [target]"""

    def logits(self, table: ContextTable) -> FloatArray:
        """[day, stream, root, target]; NaN where undefined."""
        if table.columns.shape[-1] != len(self.mean):
            raise ForecastError(
                f"the starter network knows {len(self.mean)} columns, not "
                f"{table.columns.shape[-1]}: train it again with benchmarks/many_worlds.py"
            )
        shown = np.clip((table.columns - self.mean) / self.deviation, -FURTHEST, FURTHEST)
        hidden = _gelu(_affine(shown, self.first))
        hidden = hidden + _gelu(_affine(hidden, self.second))
        added = hidden @ self.out + _affine(shown, self.linear)
        logits: FloatArray = (table.base + self.part * added).astype(np.float64)
        return logits

    def probabilities(self, table: ContextTable) -> FloatArray:
        """The same as probabilities."""
        return expit(self.logits(table))


def load_starter(path: Path) -> Starter:
    """The network in a file."""
    try:
        return Starter(**load_file(path))
    except (OSError, TypeError, SafetensorError) as error:
        raise ForecastError(
            f"{path} holds no starter network ({str(error).splitlines()[0]}): install gdelphi "
            "again, or make one with benchmarks/many_worlds.py"
        ) from None


@cache
def shipped_starter() -> Starter:
    """The network that is shipped with the package."""
    with as_file(files("gdelphi.stack").joinpath(*WEIGHTS)) as path:
        return load_starter(path)


def _affine(values: VectorArray, matrix: VectorArray) -> VectorArray:
    mapped: VectorArray = values @ matrix[:-1] + matrix[-1]
    return mapped


def _gelu(values: VectorArray) -> VectorArray:
    """GELU by its usual approximation with tanh."""
    inner = np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)
    activated: VectorArray = 0.5 * values * (1 + np.tanh(inner))
    return activated
