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

    @property
    def score(self) -> float:
        """Log loss over the cells of all targets, the mean of the direct reading and the profiles:
        futures and finer levels rest on the latter, and the former may be given."""
        rows = [READINGS.index(reading) for reading in ("direct", "profiles")]
        losses, cells = self.log_loss[rows], self.cells[rows]
        return float(np.nansum(losses * cells) / max(cells.sum(), 1))

    def figures(self) -> dict[str, Any]:
        """The scores by name; None where there is no cell."""
        return {
            "score": self.score,
            "log_loss": _named(self.log_loss),
            "brier": _named(self.brier),
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
) -> Evaluation:
    """Probabilities and scores of these target days, each from the days before it; of the reading
    *atoms* only where it is said how futures are sampled."""
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
    return _scored(np.asarray(targets), probabilities, outcomes)


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


def _scored(targets: IntArray, probabilities: FloatArray, outcomes: FloatArray) -> Evaluation:
    known = ~np.isnan(outcomes) & ~np.isnan(probabilities)
    cells = known.sum(axis=(1, 2, 4))
    with np.errstate(invalid="ignore"):
        hit = np.where(outcomes == 1, probabilities, 1 - probabilities)
        losses = np.where(known, -np.log(np.maximum(hit, LEAST)), 0.0)
        errors = np.where(known, (probabilities - outcomes) ** 2, 0.0)
    sums = [values.sum(axis=(1, 2, 4)) for values in (losses, errors)]
    means = [np.where(cells > 0, total / np.maximum(cells, 1), np.nan) for total in sums]
    log_losses, briers = means
    return Evaluation(targets, probabilities, outcomes, cells, log_losses, briers)
