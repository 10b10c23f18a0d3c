"""Evaluation: what a model says for given target days, as arrays, and how well it does.

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
    imagine_at,
    origins_of,
)
from gdelphi.model.network import MeasureModel, ModelOutput

READINGS: Final = ("profiles", "direct", "atoms")
AT_ONCE: Final = 16  # sequences in one pass
LEAST: Final = 1e-12  # probability that a log is taken of


class Imagination(NamedTuple):
    """How futures are drawn for the reading *atoms*."""

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
    came: FloatArray
    """[target-day, stream, target, code]; NaN: undefined or unknown"""
    cells: IntArray
    """that were scored, [reading, target]"""
    log_loss: FloatArray
    """[reading, target]; NaN where there is no cell"""
    brier: FloatArray
    """[reading, target]"""

    @property
    def score(self) -> float:
        """Log loss of the direct reading over the cells of all targets."""
        direct = READINGS.index("direct")
        losses, cells = self.log_loss[direct], self.cells[direct]
        return float(np.nansum(losses * cells) / max(cells.sum(), 1))

    def said(self) -> dict[str, Any]:
        """The scores by name; None where there is no cell."""
        return {"score": self.score, "log_loss": _named(self.log_loss), "brier": _named(self.brier)}


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
    outlook: PackArrays,
    targets: IntArray,
    *,
    stride: int = 10,
    imagination: Imagination | None = None,
) -> Evaluation:
    """What the model says of these target days, each from the days before it; *atoms* only with
    an imagination."""
    origins = np.asarray(targets) - 1
    streams, codes = outlook.shares.shape[0], outlook.shares.shape[2]
    shape = (len(READINGS), len(origins), streams, len(TARGETS), codes)
    probabilities = np.full(shape, np.nan)
    ends = _ends(origins, min(stride, maker.days), outlook.pack.facts.days)
    windows = [(stream, end) for end in np.unique(ends) for stream in range(streams)]
    for start in range(0, len(windows), AT_ONCE):
        chosen = np.array(windows[start : start + AT_ONCE])
        batch, said = _said(model, maker, chosen)
        found = torch.stack([said.profiles, said.direct]).cpu().double().sigmoid().numpy()
        places = [
            (number, row, int(stream), int(origins[row] - end))
            for number, (stream, end) in enumerate(chosen)
            for row in np.flatnonzero(ends == end).tolist()
        ]
        for number, row, stream, back in places:
            probabilities[:2, row, stream] = found[:, number, back - 1]
        kept = [place for place in places if imagination and place[1] % imagination.every == 0]
        if imagination and kept:
            atoms = _imagined(model, batch, said, kept, imagination)
            for (_, row, stream, _), values in zip(kept, atoms, strict=True):
                probabilities[2, row, stream] = values
    came = outlook.outcomes(origins).transpose(2, 1, 0, 3)
    return _scored(np.asarray(targets), probabilities, came)


def _ends(origins: IntArray, stride: int, days: int) -> IntArray:
    """The last day of the window that answers for each origin."""
    ends: IntArray = np.minimum(origins // stride * stride + stride - 1, days - 1)
    return ends


@torch.no_grad()
def _said(model: MeasureModel, maker: BatchMaker, windows: IntArray) -> tuple[Batch, ModelOutput]:
    """What the model says after each day of windows (stream, end)."""
    batch = maker.make(windows[:, 0], windows[:, 1])
    was_training = model.training
    model.train(False)
    try:
        return batch, model(batch.past)
    finally:
        model.train(was_training)


@torch.no_grad()
def _imagined(
    model: MeasureModel,
    batch: Batch,
    said: ModelOutput,
    places: Sequence[tuple[int, int, int, int]],
    imagination: Imagination,
) -> FloatArray:
    """Probabilities of the reading *atoms* at places (number, row, stream, days from the end),
    [place, target, code]."""
    table, drawing = imagination.table, imagination.drawing
    device, days = table.device, batch.past.days
    number = torch.tensor([place[0] for place in places], dtype=torch.int64, device=device)
    day = torch.tensor([place[3] for place in places], dtype=torch.int64, device=device) + days - 1
    streams, ends = (torch.from_numpy(each).to(device) for each in (batch.streams, batch.ends))
    origins = origins_of(streams, ends, days, number, day)
    found = imagine_at(model, batch.past, said, origins, table, drawing, seed=imagination.seed)
    probabilities: FloatArray = found.logits.cpu().double().sigmoid().numpy()
    return probabilities


def _scored(targets: IntArray, probabilities: FloatArray, came: FloatArray) -> Evaluation:
    known = ~np.isnan(came) & ~np.isnan(probabilities)
    cells = known.sum(axis=(1, 2, 4))
    with np.errstate(invalid="ignore"):
        hit = np.where(came == 1, probabilities, 1 - probabilities)
        losses = np.where(known, -np.log(np.maximum(hit, LEAST)), 0.0)
        errors = np.where(known, (probabilities - came) ** 2, 0.0)
    sums = [each.sum(axis=(1, 2, 4)) for each in (losses, errors)]
    means = [np.where(cells > 0, each / np.maximum(cells, 1), np.nan) for each in sums]
    return Evaluation(targets, probabilities, came, cells, *means)
