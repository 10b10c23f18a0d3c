"""Evaluation: what a model says for given target days, as arrays, and how well it does.

A window of days answers for its last `stride` days at once, in place of one window for each day:
`stride` times cheaper, at the price of up to `stride` days less of context for some of them. Which
days share a window is fixed by their positions, so that a day's figures do not depend on what else
was asked for; only the last window is moved back to end with the data. With stride 1 every day has
its whole context. Nothing after an origin reaches its forecast: the model is causal.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from gdelphi.batches import BatchMaker
from gdelphi.model import MeasureModel
from gdelphi.outlook import Outlook
from gdelphi.types import TARGETS, FloatArray, IntArray

READINGS: Final = ("profiles", "direct")
AT_ONCE: Final = 16  # sequences in one pass
LEAST: Final = 1e-12  # probability that a log is taken of


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
    """of each target that were scored, [target]"""
    log_loss: FloatArray
    """[reading, target]; NaN where there is no cell"""
    brier: FloatArray
    """[reading, target]"""

    @property
    def score(self) -> float:
        """Log loss of the direct reading over the cells of all targets."""
        losses = self.log_loss[READINGS.index("direct")]
        return float(np.nansum(losses * self.cells) / max(self.cells.sum(), 1))

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
    outlook: Outlook,
    targets: IntArray,
    *,
    stride: int = 10,
) -> Evaluation:
    """What the model says of these target days, each from the days before it."""
    origins = np.asarray(targets) - 1
    streams, codes = outlook.shares.shape[0], outlook.shares.shape[2]
    shape = (len(READINGS), len(origins), streams, len(TARGETS), codes)
    probabilities = np.full(shape, np.nan)
    ends = _ends(origins, min(stride, maker.days), outlook.pack.facts.days)
    windows = [(stream, end) for end in np.unique(ends) for stream in range(streams)]
    for start in range(0, len(windows), AT_ONCE):
        chosen = np.array(windows[start : start + AT_ONCE])
        found = _read(model, maker, chosen)
        for number, (stream, end) in enumerate(chosen):
            rows = np.flatnonzero(ends == end)
            probabilities[:, rows, stream] = found[:, number, origins[rows] - end - 1]
    came = outlook.outcomes(origins).transpose(2, 1, 0, 3)
    return _scored(np.asarray(targets), probabilities, came)


def _ends(origins: IntArray, stride: int, days: int) -> IntArray:
    """The last day of the window that answers for each origin."""
    ends: IntArray = np.minimum(origins // stride * stride + stride - 1, days - 1)
    return ends


def _read(model: MeasureModel, maker: BatchMaker, windows: IntArray) -> FloatArray:
    """Probabilities after each day of windows (stream, end), [reading, B, T, target, code]."""
    was_training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            said = model(maker.make(windows[:, 0], windows[:, 1]).past)
            logits = torch.stack([said.profiles, said.direct]).cpu().double()
    finally:
        model.train(was_training)
    found: FloatArray = logits.sigmoid().numpy()
    return found


def _scored(targets: IntArray, probabilities: FloatArray, came: FloatArray) -> Evaluation:
    known = ~np.isnan(came) & ~np.isnan(probabilities).any(axis=0)
    cells = known.sum(axis=(0, 1, 3))
    with np.errstate(invalid="ignore"):
        hit = np.where(came == 1, probabilities, 1 - probabilities)
        losses = np.where(known, -np.log(np.maximum(hit, LEAST)), 0.0)
        errors = np.where(known, (probabilities - came) ** 2, 0.0)
    sums = [each.sum(axis=(1, 2, 4)) for each in (losses, errors)]
    means = [np.where(cells > 0, each / np.maximum(cells, 1), np.nan) for each in sums]
    return Evaluation(targets, probabilities, came, cells, *means)
