"""Evaluation: a model's probabilities for given target days, as arrays, and their scores.

A window of days answers for its last `stride` days at once, in place of one window for each day:
`stride` times cheaper, at the price of up to `stride` days less of context for some of them. Which
days share a window is fixed by their positions, so that a day's figures do not depend on what else
was asked for; only the last window is moved back to end with the data. With stride 1 every day has
its whole context. Nothing after an origin reaches its forecast: the model is causal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from gdelphi.common.types import (
    TARGETS,
    FloatArray,
    IntArray,
    VectorArray,
)
from gdelphi.measures.pack_arrays import PackArrays
from gdelphi.model.batches import Batch, BatchMaker
from gdelphi.model.futures import (
    AtomTable,
    Drawing,
    origins_of,
    sample_futures,
)
from gdelphi.model.network import MeasureModel, ModelOutput

READINGS: Final = ("profiles", "direct", "atoms")
AT_ONCE: Final = 16  # sequences in one pass
LEAST: Final = 1e-12  # probability that a log is taken of
SHRINKAGES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""that are tried: 0 is the stack, 1 the direct reading as learned"""


class FutureSampling(NamedTuple):
    """How futures are sampled for the reading *atoms*."""

    table: AtomTable
    drawing: Drawing
    every: int = 1
    """for each so many-th target day only: they take long"""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Probabilities, outcomes and scores."""

    targets: IntArray
    """positions of the target days"""
    probabilities: FloatArray
    """[reading, target-day, stream, target, code]; NaN: undefined"""
    outcomes: FloatArray
    """[target-day, stream, target, code]; NaN: undefined or unknown"""
    cells: IntArray
    """that were scored, [reading, target]"""
    log_loss: FloatArray
    """[reading, target]; NaN where there is no cell"""
    brier: FloatArray
    """[reading, target]"""
    shrinkage: tuple[float, ...]
    """how far the direct reading goes from what it starts from, by target"""

    @property
    def score(self) -> float:
        """Log loss over the cells of all targets, the mean of the direct reading and the profiles:
        futures and finer levels rest on the latter, and the former may be as good as it gets where
        it starts, at the stack."""
        rows = [READINGS.index(reading) for reading in ("direct", "profiles")]
        losses, cells = self.log_loss[rows], self.cells[rows]
        return float(np.nansum(losses * cells) / max(cells.sum(), 1))

    def figures(self) -> dict[str, Any]:
        """The scores by name; None where there is no cell."""
        return {
            "score": self.score,
            "log_loss": _named(self.log_loss),
            "brier": _named(self.brier),
            "shrinkage": list(self.shrinkage),
        }


def _named(table: FloatArray) -> dict[str, dict[str, float | None]]:
    return {
        reading: {
            target: None if np.isnan(value) else float(value)
            for target, value in zip(TARGETS, row, strict=True)
        }
        for reading, row in zip(READINGS, table, strict=True)
    }


def evaluate(
    model: MeasureModel,
    maker: BatchMaker,
    arrays: PackArrays,
    targets: IntArray,
    *,
    stride: int = 10,
    sampling: FutureSampling | None = None,
    shrink: bool = False,
) -> Evaluation:
    """Probabilities and scores of these target days, each from the days before it; of the reading
    *atoms* only where it is said how futures are sampled. With `shrink` it is chosen how far the
    direct reading goes from the stack, and the reading is that."""
    origins = np.asarray(targets) - 1
    streams, codes = arrays.shares.shape[0], arrays.shares.shape[2]
    shape = (len(READINGS), len(origins), streams, len(TARGETS), codes)
    probabilities = np.full(shape, np.nan)
    ends = _ends(origins, min(stride, maker.days), arrays.pack.facts.days)
    windows = [(stream, end) for end in np.unique(ends) for stream in range(streams)]
    for start in range(0, len(windows), AT_ONCE):
        chosen = np.array(windows[start : start + AT_ONCE])
        batch, output = _outputs(model, maker, chosen)
        logits = torch.stack([output.profiles, output.direct]).cpu().double()
        readings = logits.sigmoid().numpy()
        places = [
            (number, row, int(stream), int(origins[row] - end))
            for number, (stream, end) in enumerate(chosen)
            for row in np.flatnonzero(ends == end).tolist()
        ]
        for number, row, stream, back in places:
            probabilities[:2, row, stream] = readings[:, number, back - 1]
        kept = [place for place in places if sampling and place[1] % sampling.every == 0]
        if sampling and kept:
            atoms = _atoms_reading(model, batch, output, kept, sampling)
            for (_, row, stream, _), values in zip(kept, atoms, strict=True):
                probabilities[2, row, stream] = values
    outcomes = arrays.outcomes[:, :, origins].transpose(2, 1, 0, 3)
    shrinkage = (1.0,) * len(TARGETS)
    if shrink and maker.stack is not None:
        stack = maker.stack[:, origins].swapaxes(0, 1)  # [target-day, stream, target, code]
        shrinkage, probabilities[1] = shrunk(probabilities[1], stack, outcomes)
    return _scored(np.asarray(targets), probabilities, outcomes, shrinkage)


def shrunk(
    direct: FloatArray, stack: VectorArray, outcomes: FloatArray
) -> tuple[tuple[float, ...], FloatArray]:
    """How far the direct reading should go from the stack, for each target, by log loss; and the
    probabilities then. Arrays are [..., target, code]: probabilities, logits, outcomes."""
    chosen, best = [], direct.copy()
    for number in range(len(TARGETS)):
        start = stack[..., number, :].astype(np.float64)
        moved = direct[..., number, :]
        odds = np.log(np.maximum(moved, LEAST)) - np.log(np.maximum(1 - moved, LEAST))
        lowest = np.inf
        chosen.append(1.0)
        for share in SHRINKAGES:
            probability = 0.5 * (1 + np.tanh(0.5 * (start + share * (odds - start))))
            loss = _log_loss(probability, outcomes[..., number, :])
            if loss < lowest:
                known = ~np.isnan(probability)
                best[..., number, :] = np.where(known, probability, moved)
                chosen[-1], lowest = share, loss
    return tuple(chosen), best


def _log_loss(probability: FloatArray, outcome: FloatArray) -> float:
    """Mean over the cells where both are defined; infinite if there is none."""
    known = ~(np.isnan(probability) | np.isnan(outcome))
    hit = np.where(outcome == 1, probability, 1 - probability)[known]
    return float(-np.log(np.maximum(hit, LEAST)).mean()) if known.any() else np.inf


def _ends(origins: IntArray, stride: int, days: int) -> IntArray:
    """The last day of the window that answers for each origin."""
    ends: IntArray = np.minimum(origins // stride * stride + stride - 1, days - 1)
    return ends


@torch.no_grad()
def _outputs(
    model: MeasureModel, maker: BatchMaker, windows: IntArray
) -> tuple[Batch, ModelOutput]:
    """The batch of windows (stream, end), and the model's output after each of their days."""
    batch = maker.make(windows[:, 0], windows[:, 1])
    was_training = model.training
    model.train(False)
    try:
        return batch, model(batch.past)
    finally:
        model.train(was_training)


@torch.no_grad()
def _atoms_reading(
    model: MeasureModel,
    batch: Batch,
    output: ModelOutput,
    places: Sequence[tuple[int, int, int, int]],
    sampling: FutureSampling,
) -> FloatArray:
    """Probabilities of the reading *atoms* at places (number, row, stream, days from the end),
    [place, target, code]."""
    table, drawing = sampling.table, sampling.drawing
    device, days = table.device, batch.past.days
    number = torch.tensor([place[0] for place in places], dtype=torch.int64, device=device)
    day = torch.tensor([place[3] for place in places], dtype=torch.int64, device=device) + days - 1
    streams = torch.from_numpy(batch.streams).to(device)
    ends = torch.from_numpy(batch.ends).to(device)
    origins = origins_of(streams, ends, days, number, day)
    generated = sample_futures(
        model, batch.past, output, origins, table, drawing, seed=sampling.seed
    )
    probabilities: FloatArray = generated.logits.cpu().double().sigmoid().numpy()
    return probabilities


def _scored(
    targets: IntArray,
    probabilities: FloatArray,
    outcomes: FloatArray,
    shrinkage: tuple[float, ...],
) -> Evaluation:
    known = ~np.isnan(outcomes) & ~np.isnan(probabilities)
    cells = known.sum(axis=(1, 2, 4))
    with np.errstate(invalid="ignore"):
        hit = np.where(outcomes == 1, probabilities, 1 - probabilities)
        losses = np.where(known, -np.log(np.maximum(hit, LEAST)), 0.0)
        errors = np.where(known, (probabilities - outcomes) ** 2, 0.0)
    sums = [values.sum(axis=(1, 2, 4)) for values in (losses, errors)]
    means = [np.where(cells > 0, total / np.maximum(cells, 1), np.nan) for total in sums]
    log_losses, briers = means
    return Evaluation(targets, probabilities, outcomes, cells, log_losses, briers, shrinkage)
