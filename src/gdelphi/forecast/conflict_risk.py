"""One number for a country's week: the probability that any kind of conflict surges in it.

The largest of six noisy probabilities is the one with the largest error, and their sum counts one
crisis six times. So the six are joined: with p_r the probability that conflict root r surges within
the week,

    P(any) = 1 - product over r of (1 - p_r) ** theta,      at least the largest p_r.

theta = 1 if, given the forecast, roots surged independently of each other. `gdelphi calibrate` fits
it on weeks of validation B, by the log score. Where it has not been fitted, theta is what makes the
formula give how often any surged from how often each did, over the last 52 weeks of all streams:
too small, since what roots have in common is partly forecast (docs/LOG.md). Usual is how often any
surged in the stream's own 52 weeks. Nothing after the origin is looked at.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.checksums import remove_file
from gdelphi.common.files import write_json_atomically
from gdelphi.common.types import TARGETS, FloatArray, History
from gdelphi.forecast.archive import CONFLICT_FILE
from gdelphi.forecast.future_choice import read_choice
from gdelphi.forecast.unusual import CONFLICT
from gdelphi.measures.targets import pooled_rate

SURGE: Final = TARGETS.index("surge")
LEAST_THETA: Final = 0.05  # all six as one would be a sixth
THETAS: Final = np.round(np.arange(LEAST_THETA, 1.001, 0.01), 2)
"""above 1 kinds would keep out of each other's way; a few weeks may look like it by chance"""
NEARLY: Final = 1e-6  # nothing is more certain than this


class ConflictPast(NamedTuple):
    """How often conflict surged in past weeks."""

    theta: float
    usual: FloatArray
    """that any root surged, [stream]; NaN where undefined"""


@dataclass(frozen=True)
class ConflictFit:
    """How the six are joined, fitted on weeks of validation B; Brier scores there."""

    theta: float
    joint: float
    largest: float
    """of the largest of the six in its place"""
    said: float
    came: float
    weeks: int
    """of streams"""


def fit_theta(within: FloatArray, came: FloatArray) -> ConflictFit | None:
    """Theta by the log score, from probabilities [week, root] and whether any surged [week]; None
    without a week."""
    known = ~(np.isnan(came) | np.isnan(within).all(axis=1))
    within, came = within[known], came[known]
    if not len(came):
        return None
    said = np.stack([any_surge(within, float(theta)) for theta in THETAS])
    held = np.clip(said, NEARLY, 1 - NEARLY)
    score = (came * np.log(held) + (1 - came) * np.log1p(-held)).mean(axis=1)
    best = int(np.argmax(score))
    largest = np.nanmax(within, axis=1)
    return ConflictFit(
        theta=float(THETAS[best]),
        joint=float(((said[best] - came) ** 2).mean()),
        largest=float(((largest - came) ** 2).mean()),
        said=float(said[best].mean()),
        came=float(came.mean()),
        weeks=len(came),
    )


def keep_conflict_fit(folder: Path, fit: ConflictFit | None) -> None:
    """Keep a fit beside its model; None: take away what was there."""
    if fit is None:
        remove_file(folder / CONFLICT_FILE)
    else:
        write_json_atomically(folder / CONFLICT_FILE, asdict(fit))


def read_conflict_fit(folder: Path) -> ConflictFit | None:
    """What was fitted for a model; None: nothing."""
    return read_choice(folder / CONFLICT_FILE, lambda values: ConflictFit(**values))


def conflict_places(codes: Sequence[str]) -> list[int]:
    """Where the conflict roots stand among codes."""
    return [place for place, code in enumerate(codes) if code in CONFLICT]


def conflict_past(history: History, within: FloatArray) -> ConflictPast:
    """From what came of past weeks, [week, target, stream, root]; NaN where undefined."""
    surges = within[:, SURGE][..., conflict_places(history.codes)]
    known = ~np.isnan(surges)
    asked = known.any(axis=2)  # [week, stream]
    came = np.where(asked, np.nansum(surges, axis=2) > 0, 0.0)
    weeks = asked.sum(axis=0)
    usual = np.where(weeks > 0, pooled_rate(came.sum(axis=0), weeks), np.nan)
    by_root = known.sum(axis=0)
    rates = np.where(by_root > 0, pooled_rate(np.nansum(surges, axis=0), by_root), 0.0)
    apart = -np.log1p(-rates).sum(axis=1)
    together = -np.log1p(-np.where(weeks > 0, usual, 0.0))
    total = float(apart[weeks > 0].sum())
    theta = float(together[weeks > 0].sum()) / total if total > 0 else 1.0
    return ConflictPast(float(np.clip(theta, LEAST_THETA, 1.0)), usual)


def any_surge(within: FloatArray, theta: float) -> FloatArray:
    """That any conflict root surges, from the probabilities of each, [..., root]; NaN where all
    are undefined."""
    known = ~np.isnan(within)
    chances = np.clip(np.where(known, within, 0.0), 0.0, 1 - 1e-9)
    joint = -np.expm1(theta * np.log1p(-chances).sum(axis=-1))
    joined: FloatArray = np.where(
        known.any(axis=-1), np.maximum(joint, chances.max(axis=-1)), np.nan
    )
    return joined
