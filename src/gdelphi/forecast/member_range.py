"""What is published stays within what its members say.

A regression on members that say nearly the same may give one a large weight and another a large
negative one; where they differ by a little more than on the days of fitting, it answers with a
number that none of them would say. Two rules hold it back. A combination is only taken if no member
has a negative weight, unless it has that in what the combination starts from. And each number is
held between the lowest and the highest of its members' numbers. Numbers beyond all that was
published on validation B, where nobody knows how well they are calibrated, are marked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gdelphi.common.types import TARGETS, FloatArray, Forecast
from gdelphi.stack.linear import NEGATIVE_SLACK, Answers

SAME: Final = 1e-9
MEMBER: Final = "logit "  # features that are members begin so


def negative_members(fitted: Mapping[str, float], start: Mapping[str, float]) -> list[str]:
    """Members with a negative weight in what was fitted that they do not have in its start."""
    return [
        name.removeprefix(MEMBER)
        for name, weight in fitted.items()
        if name.startswith(MEMBER) and weight < min(start.get(name, 0.0), 0.0) - 2 * NEGATIVE_SLACK
    ]


def within_members(forecasts: Sequence[Forecast], answers: Answers) -> list[Forecast]:
    """Forecasts, each number held to the range of the answers about its cell."""
    held = []
    for place, forecast in enumerate(forecasts):
        occurs, headline, surge = (
            hold(
                forecast.probability(target),
                np.stack([answer[place].probability(target) for answer in answers.values()]),
            )
            for target in TARGETS
        )
        held.append(replace(forecast, occurs=occurs, headline=headline, surge=surge))
    return held


def hold(published: FloatArray, said: FloatArray) -> FloatArray:
    """Numbers [code] between the lowest and highest of what is said, [member, code]. Where no
    member says anything they are what they are."""
    known = ~np.isnan(said)
    low = np.where(known, said, np.inf).min(axis=0)
    high = np.where(known, said, -np.inf).max(axis=0)
    asked = known.any(axis=0)
    kept: FloatArray = np.where(asked, np.clip(published, low, np.maximum(low, high)), published)
    return kept


def range_said(answers: Sequence[FloatArray]) -> tuple[float, float]:
    """The lowest and highest of probabilities, as far as they are known."""
    values = np.concatenate([answer.ravel() for answer in answers]) if answers else np.zeros(0)
    values = values[~np.isnan(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def beyond(
    published: FloatArray, said: tuple[float, float], members: FloatArray | None = None
) -> list[bool]:
    """Which numbers lie beyond a range, or outside of what members [member, code] say: to agree
    with the numbers of other codes and targets a few have to. Undefined ones do not."""
    low, high = said
    out = (published < low) | (published > high)
    if members is not None:
        out |= np.abs(hold(published, members) - published) > SAME
    return [bool(value) for value in out]
