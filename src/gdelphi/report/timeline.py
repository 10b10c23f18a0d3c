"""What was said and what came: the last judged day, and each country's last sixty.

Both are of forecasts as they were stored. While fewer than five of them have been judged, the time
line shows a backtest in their place, if there is one, and says so; yesterday is never taken from a
backtest: nobody read that forecast in the morning.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

import numpy as np

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import Settings
from gdelphi.report.content import CONFLICT, PastSaid, Timeline, Yesterday
from gdelphi.report.plain import label_of, number
from gdelphi.report.record import (
    FEWEST,
    PastForecasts,
    backtest_folder,
    hits,
    judged_backtest,
    misses,
)
from gdelphi.scores.probabilities import brier

DAYS: Final = 60
SHOWN: Final = "headline"
MOST: Final = 5


def yesterday_of(judged: PastForecasts) -> Yesterday | None:
    """The last day of which a stored forecast has been judged; its worst misses first."""
    if not judged.days:
        return None
    last = judged.last(1)
    cells = last.targets[SHOWN]
    known = ~(np.isnan(cells.published) | np.isnan(cells.stack) | np.isnan(cells.outcome))
    if not known.any():
        return None
    outcome = cells.outcome[known]
    said = cells.published[known]
    return Yesterday(
        day=last.days[-1],
        asked=int(known.sum()),
        expected=number(float(said.sum())) or 0.0,
        came=int(outcome.sum()),
        brier=float(brier(said, outcome).mean()),
        stack=float(brier(cells.stack[known], outcome).mean()),
        misses=misses(last)[:MOST],
        hits=hits(last)[:MOST],
    )


def past_said(
    settings: Settings, judged: PastForecasts, until: date
) -> tuple[str, PastForecasts] | None:
    """Where the time line comes from: stored forecasts, or a backtest."""
    if len(judged.days) >= FEWEST:
        return "forecasts", judged.last(DAYS)
    folder = backtest_folder(settings)
    if folder is not None:
        try:
            backtest = judged_backtest(folder, until)
            if len(backtest.days) >= FEWEST:
                return "backtest", backtest.last(DAYS)
        except GdelphiError:
            pass  # the record says what is wrong with it
    return ("forecasts", judged.last(DAYS)) if judged.days else None


def timeline_of(source: str, judged: PastForecasts, stream: str) -> Timeline | None:
    """What was published of a stream's conflict events as headlines, and whether each came."""
    places = {cell: place for place, cell in enumerate(judged.cells)}
    cells = judged.targets[SHOWN]
    lines = [
        PastSaid(
            code=code,
            label=label_of(code),
            published=[number(value) for value in cells.published[:, places[stream, code]]],
            came=_came(cells.outcome[:, places[stream, code]].tolist()),
        )
        for code in CONFLICT
        if (stream, code) in places
    ]
    if not lines:
        return None
    return Timeline.model_validate({"source": source, "days": judged.days, "lines": lines})


def _came(outcomes: Sequence[float]) -> list[bool | None]:
    return [None if np.isnan(value) else bool(value > 0.5) for value in outcomes]
