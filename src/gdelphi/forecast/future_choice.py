"""Whether the atoms of futures are moved, or left where they were drawn: chosen on validation B.

A future is a past day, drawn by the model's attention; its transport blocks then move the day's
atoms on the sphere. Whether that makes futures more like the days that come differs from data to
data (on ICEWS it does not), so `gdelphi calibrate` compares both by the energy score of the futures
as they are published, with their weights, on days of validation B. The better of the two is kept in
futures.json beside the model. A model without that file moves them.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import FloatArray
from gdelphi.forecast.archive import FUTURES_FILE
from gdelphi.forecast.prediction import StreamFutures
from gdelphi.measures.pack import Pack

AtomPlacement = Literal["moved", "drawn"]


@dataclass(frozen=True)
class FutureChoice:
    """Which atoms futures have, and the mean energy scores that decided it."""

    atoms: AtomPlacement
    moved: float
    drawn: float
    days: int
    """target days that were compared"""
    futures: int
    """streams and days that were compared"""


def read_future_choice(folder: Path) -> FutureChoice | None:
    """What was chosen for a model; None: nothing."""
    path = folder / FUTURES_FILE
    try:
        return FutureChoice(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ForecastError(
            f"{path} cannot be read ({error}): delete it, and run `gdelphi calibrate`"
        ) from None


def left_where_drawn(futures: StreamFutures, rows: FloatArray, pack: Pack) -> StreamFutures:
    """Futures with the atoms of the days that they were drawn from; `rows` [K, n] are those atoms'
    places in the pack. Spare atoms, which are of other days, do not exist."""
    points, weights, _ = pack.atom_columns()
    own = (futures.weights > 0) & ~futures.spare
    kept = np.where(own, weights[rows], 0.0)
    total = kept.sum(axis=1, keepdims=True)
    return replace(
        futures,
        points=np.where(own[..., None], points[rows], 0).astype(np.float32),
        weights=np.divide(kept, total, out=np.zeros_like(kept), where=total > 0).astype(np.float32),
        gates=own.astype(np.float32),
    )
