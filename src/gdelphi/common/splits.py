"""Splits: which days are for training, validation A, validation B and the final table.

A split is by the day that is forecast; what a forecast may look back on reaches across. Days of
embargo between two parts keep a story that runs for a week from standing on both sides.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from typing import Final, Literal

from gdelphi.common.errors import ConfigError
from gdelphi.common.sections import SplitSettings

SplitPart = Literal["train", "validation_a", "validation_b", "test"]
PARTS: Final[tuple[SplitPart, ...]] = ("train", "validation_a", "validation_b", "test")


@dataclass(frozen=True)
class Splits:
    """First and last target day of each part."""

    train: tuple[date, date]
    validation_a: tuple[date, date]
    """validation A: early stopping, choice of options"""
    validation_b: tuple[date, date]
    """validation B: temperature, calibration, combination"""
    test: tuple[date, date]

    def days(self, part: SplitPart) -> tuple[date, date]:
        bounds: tuple[date, date] = getattr(self, part)
        return bounds

    def part(self, day: date) -> SplitPart | None:
        """The part that a target day belongs to; None in an embargo or outside."""
        for part in PARTS:
            first, last = self.days(part)
            if first <= day <= last:
                return part
        return None


def training_end(first: date, last: date, settings: SplitSettings) -> date:
    """The last day that anything may be fitted on, even if days are too few for a whole split."""
    total = (last - first).days + 1
    return settings.train_until or first + timedelta(days=max(round(total * settings.train), 1) - 1)


def split_days(first: date, last: date, settings: SplitSettings) -> Splits:
    """Split the days from first to last; dates that are set go before shares."""
    total = (last - first).days + 1
    shares = list(accumulate((settings.train, settings.validation_a, settings.validation_b)))
    if not settings.validation_b_until and shares[-1] >= 1:
        raise ConfigError(
            f"split: train, validation_a and validation_b take {shares[-1]:g} of the days; "
            "nothing is left to test"
        )
    given = (settings.train_until, settings.validation_a_until, settings.validation_b_until)
    ends = [
        until or first + timedelta(days=round(total * share) - 1)
        for until, share in zip(given, shares, strict=True)
    ]
    starts = [end + timedelta(days=1 + settings.embargo_days) for end in ends]
    bounds = list(zip([first, *starts], [*ends, last], strict=True))
    for part, (start, end) in zip(PARTS, bounds, strict=True):
        if start > end:
            raise ConfigError(
                f"split: no day is left for {part} between {first} and {last}; set other dates or "
                "shares, or a shorter embargo (split.embargo_days)"
            )
    return Splits(*bounds)
