"""A refit schedule: in a long backtest what is published is fitted again every so many days.

    anchor ... | first period: as calibrated | second: fitted on B and the first period | ...

The anchor is the first day that may be judged, whatever days are asked for, so that a backtest that
goes on with other days has the same periods. At the start of each period after the first the stack
and the combination learn from validation B and all known days since, up to the day before: what
somebody who calibrates so often would have had. The weights of the model stay: training it anew is
hours, and `gdelphi train` with a later split is there for it.

Chosen: growing days, not the last ones only. More days are what a regression of twenty features
lacks where there are few streams; finer levels keep to their last days, as in `gdelphi calibrate`.
Each day is asked about once, however many fits learn from it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from gdelphi.common.errors import JudgeError
from gdelphi.common.types import Level
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.publisher import Publisher
from gdelphi.stack.linear import StackExample

Ask = Callable[[Level, Sequence[date]], Iterator[StackExample | None]]
"""the example of each day at a level, none for a day without outcomes"""


@dataclass(frozen=True)
class RefitSchedule:
    """When what is published is fitted again, and where that is kept."""

    folder: Path
    anchor: date
    every: int
    """days"""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise JudgeError(f"a refit every {self.every} days: it is a number from 1 on")

    def start(self, day: date) -> date | None:
        """The first day of a target day's period; None in the first one, and before the anchor."""
        period = (day - self.anchor).days // self.every
        return self.anchor + timedelta(days=period * self.every) if period > 0 else None

    def path(self, level: Level, start: date) -> Path:
        """Where the fit that a period begins with is kept."""
        return self.folder / f"{level}-{start.isoformat()}.json"

    def publisher(self, predictor: Predictor, level: Level, day: date) -> Publisher:
        """What is published about a target day."""
        start = self.start(day)
        return predictor.publisher(level, path=None if start is None else self.path(level, start))


def refit(
    predictor: Predictor,
    schedule: RefitSchedule,
    *,
    levels: Sequence[Level],
    judged: Sequence[date],
    known: Sequence[date],
    ask: Ask,
) -> None:
    """Make the fits that the judged days need and that are not there; `known` are all days that can
    be learned from, in their order."""
    starts = sorted({start for day in judged if (start := schedule.start(day)) is not None})
    for level in levels:
        missing = [start for start in starts if not schedule.path(level, start).exists()]
        if not missing:
            continue
        wanted = {
            start: predictor.calibration_days(level, until=start, known=known) for start in missing
        }
        days = sorted({day for fit_days in wanted.values() for day in fit_days.validation_b})
        earlier = predictor.stack_examples(level, wanted[missing[0]].before)
        examples = dict(zip(days, ask(level, days), strict=True))
        for start in missing:
            own = [
                example
                for day in wanted[start].validation_b
                if (example := examples[day]) is not None
            ]
            predictor.fit(level, wanted[start], earlier, own, schedule.path(level, start))
