"""The recent level: by how much the stack has lately been too high or too low, all cells together.

Levels of news drift: sources come and go, feeds change, and a regression of last year is a little
off this spring. What a fit cannot know, the last weeks tell. The level of a target is one step of
Newton's method for the intercept of a logistic regression around the stack's own answers on the
last days, held to 0 as by so many cells:

    level = sum w (y - p) / (sum w p (1 - p) + PRIOR),      w = 1/2 ^ (age / HALF_LIFE)

over all streams and roots of the last WINDOW present days. One number for each target: a level of
each stream or root gains less on days that it was not chosen on (docs/LOG.md). The answers are
those without the level, and about days of fitting those out of fold, so nothing is fed back.
"""

from typing import Final

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray, IntArray
from gdelphi.stack.linear import expit

WINDOW: Final = 30  # days that tell of the level, at most,
REACH: Final = 60  # none of them older than so many
HALF_LIFE: Final = 14.0  # days
PRIOR: Final = 300.0  # in variances of cells: 3,000 cells of a tenth or 1,200 of a half


def recent_level(logits: FloatArray, outcomes: FloatArray, ages: IntArray) -> FloatArray:
    """What is to be added to the logits of a day, [target], from those of days before it and what
    came, both [target, day, stream, root] with NaN where undefined, and the ages of these days."""
    chance = expit(logits)
    known = ~(np.isnan(chance) | np.isnan(outcomes))
    off = np.where(known, outcomes - chance, 0.0).sum(axis=(2, 3))  # [target, day]
    variance = np.where(known, chance * (1 - chance), 0.0).sum(axis=(2, 3))
    weight = 0.5 ** (ages / HALF_LIFE)
    level: FloatArray = (off * weight).sum(axis=1) / ((variance * weight).sum(axis=1) + PRIOR)
    return level


def levels_in_order(logits: FloatArray, outcomes: FloatArray, ordinals: IntArray) -> FloatArray:
    """The level of each of some days from those of them before it, [target, day]; ordinals
    increase."""
    levels = np.zeros((len(TARGETS), len(ordinals)))
    for place, day in enumerate(ordinals):
        first = max(place - WINDOW, int(np.searchsorted(ordinals, day - REACH)))
        past = slice(first, place)
        levels[:, place] = recent_level(logits[:, past], outcomes[:, past], day - ordinals[past])
    return levels
