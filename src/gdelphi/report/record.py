"""How good the forecasts have been: skill against the stack, calibration, hits and misses.

Stored forecasts are judged by the scores that `gdelphi score` has left; before there are enough of
them, by a backtest, which is named so. The bar is the stack of baselines. An interval comes from
resampled blocks of days, as everywhere; what it does not show is not claimed.

The band of a calibration bin answers: if what was said is true, where would the frequency lie? It
is the wider of two. The binomial one takes cells as independent, which those of a day are not; the
other is the frequency's own spread over resampled days, moved to where it ought to be.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import bdtrik

from gdelphi.common.errors import GdelphiError
from gdelphi.common.settings import Settings
from gdelphi.common.types import Target
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.measures.brief import name_of
from gdelphi.report.choose import Shelf
from gdelphi.report.content import (
    Bin,
    Record,
    RecordWindow,
    SkillLine,
    Verdict,
)
from gdelphi.report.judged import (
    JudgedCells,
    PastForecasts,
    judged_backtest,
    judged_forecasts,
)
from gdelphi.report.plain import (
    clean,
    counted,
    label_of,
    number,
)
from gdelphi.scores.probabilities import (
    Bootstrap,
    brier,
    skill,
)
from gdelphi.scores.reliability import reliability_band

WINDOWS: Final = (30, 90)
FEWEST: Final = 5  # judged days that a record is made from
FEWEST_FOR_SKILL: Final = 14  # days below which nothing is claimed: two blocks of a week
RECORD_TARGETS: Final[tuple[Target, ...]] = ("headline", "occurs", "surge")
CLAIMED: Final = ("headline", "occurs")
SHOWN: Final[tuple[Target, ...]] = ("headline", "surge")
"""targets of hits and misses"""
NEWEST: Final = 14  # days that hits and misses are looked for in
MOST: Final = 8
FEWEST_CELLS: Final = 10  # of a calibration bin
BAND: Final = 0.9
NOTHING: Final = (
    "Nothing has been judged yet. `gdelphi score` judges stored forecasts when their days have "
    "come; `gdelphi backtest` judges the model on past days at once."
)


def record_of(settings: Settings, shelf: Shelf, origin: date) -> Record:
    """The record up to an origin: from forecasts, else from a backtest, else none."""
    judged, chosen, problems = judged_forecasts(shelf, origin)
    few = "".join(f" Left out: {problem}." for problem in problems)
    if len(judged.days) >= FEWEST:
        return _record("forecasts", judged, _about_forecasts(judged, chosen) + few)
    if judged.days:
        few += f" Only {counted(len(judged.days), 'day')} of stored forecasts can be judged so far."
    folder = backtest_folder(settings)
    if folder is None:
        return _none(NOTHING + few)
    try:
        tried = judged_backtest(folder, origin)
    except GdelphiError as error:
        return _none(f"{NOTHING}{few} The backtest cannot be shown: {error}.")
    if len(tried.days) < FEWEST:
        return _none(f"{NOTHING}{few} The backtest in {folder} has too few days up to {origin}.")
    return _record("backtest", tried, _about_backtest(tried) + few)


def backtest_folder(settings: Settings) -> Path | None:
    """The folder of a backtest, set or beside the store."""
    if settings.report.backtest is not None:
        return settings.report.backtest
    beside = settings.store.parent / "backtest"
    return beside if beside.is_dir() else None


def _none(note: str) -> Record:
    return Record(
        source="none",
        note=clean(note),
        skilful=None,
        verdict="How good these forecasts are is not known yet: nothing has been judged.",
        windows=[],
        calibration=[],
        hits=[],
        misses=[],
    )


def _about_forecasts(judged: PastForecasts, chosen: Sequence[ForecastManifest]) -> str:
    late = sum(each.issued_at.date() > each.target_day for each in chosen)
    after = f" {late} of them were made after their day, from news before it alone." if late else ""
    return (
        f"Judged: the forecasts of {counted(len(judged.days), 'day')} from {judged.days[0]} to "
        f"{judged.days[-1]}, as they were stored.{after}"
    )


def _about_backtest(judged: PastForecasts) -> str:
    return (
        f"A backtest, not forecasts that were published: {counted(len(judged.days), 'day')} from "
        f"{judged.days[0]} to {judged.days[-1]}, none of which took part in fitting."
    )


def _record(source: Any, judged: PastForecasts, note: str) -> Record:
    windows = [_window(judged, days) for days in WINDOWS]
    skilful, verdict = verdict_of(windows[-1], source)
    longest = judged.last(_within(judged, WINDOWS[-1]))
    newest = judged.last(_within(judged, NEWEST))
    return Record(
        source=source,
        note=clean(note),
        skilful=skilful,
        verdict=verdict,
        windows=windows,
        calibration=[
            each for target in RECORD_TARGETS for each in bins(target, longest.targets[target])
        ],
        hits=hits(newest),
        misses=misses(newest),
    )


# --- skill ----------------------------------------------------------------------------------------


def _within(judged: PastForecasts, days: int) -> list[date]:
    first = judged.days[-1] - timedelta(days=days - 1)
    return [day for day in judged.days if day >= first]


def _window(judged: PastForecasts, days: int) -> RecordWindow:
    """Skill over the last days; blocks are shorter than a week where days are few."""
    own = judged.last(_within(judged, days))
    bootstrap = Bootstrap(block_days=min(7, max(1, len(own.days) // 2)))
    lines = [
        line
        for target in RECORD_TARGETS
        if (line := _line(target, own.targets[target], bootstrap)) is not None
    ]
    return RecordWindow(
        days=days, first=own.days[0], last=own.days[-1], judged=len(own.days), lines=lines
    )


def _line(target: Target, cells: JudgedCells, bootstrap: Bootstrap) -> SkillLine | None:
    mine, bar = (brier(said, cells.came) for said in (cells.published, cells.stack))
    known = ~(np.isnan(mine) | np.isnan(bar))
    if not known.any():
        return None
    found = skill(mine, bar, bootstrap)
    value, low, high = number(found.value), number(found.low), number(found.high)
    if value is None or low is None or high is None:
        return None
    return SkillLine(
        level="root",
        target=target,
        published=float(mine[known].mean()),
        stack=float(bar[known].mean()),
        skill=value,
        low=low,
        high=high,
        cells=int(known.sum()),
    )


def verdict_of(window: RecordWindow, source: str) -> tuple[bool | None, str]:
    """Whether there is skill over the stack, and how to say it."""
    over = f"Over {counted(window.judged, 'judged day')} ({window.first} to {window.last})"
    if source == "backtest":
        over = f"In a backtest of {counted(window.judged, 'day')} ({window.first} to {window.last})"
    lines = {line.target: line for line in window.lines}
    told = "; ".join(_told(line) for line in window.lines)
    if not lines:
        return None, f"{over} nothing could be compared with the baselines' stack."
    if window.judged < FEWEST_FOR_SKILL:
        return None, f"Too early to tell. {over} these forecasts were, against the stack, {told}."
    above = [line.target for line in lines.values() if line.low > 0]
    below = [line.target for line in lines.values() if line.high < 0]
    if not above:
        return False, f"No skill over the baselines has been shown. {over} these were {told}."
    if any(target in CLAIMED for target in above) and not below:
        return True, f"{over} these forecasts were, against the baselines' stack, {told}."
    return None, f"The record is mixed. {over} these forecasts were, against the stack, {told}."


_NAMES: Final = {"headline": "headlines", "occurs": "what occurs", "surge": "surges"}


def _told(line: SkillLine) -> str:
    how = "better" if line.skill >= 0 else "worse"
    return (
        f"{abs(line.skill):.1%} {how} on {_NAMES[line.target]} ({line.low:.1%} to {line.high:.1%})"
    )


# --- calibration ----------------------------------------------------------------------------------


def bins(target: Target, cells: JudgedCells) -> Iterator[Bin]:
    """Said against came, with the band that holds it if what was said is true."""
    if not len(cells.came):
        return
    block = min(7, max(1, len(cells.came) // 2))
    found = reliability_band(
        cells.published, cells.came, bootstrap=Bootstrap(block_days=block, level=BAND)
    )
    table = found.table
    for place, count in enumerate(table.count.tolist()):
        if count >= FEWEST_CELLS:
            said, came = float(table.forecast[place]), float(table.frequency[place])
            own = float(found.low[place]) - came, float(found.high[place]) - came
            low, high = consistency_band(said, count, own)
            yield Bin(
                target=target,
                said=number(said) or 0.0,
                came=number(came) or 0.0,
                low=number(low) or 0.0,
                high=number(high) or 0.0,
                cells=count,
            )


def consistency_band(said: float, count: int, spread: tuple[float, float]) -> tuple[float, float]:
    """Where the frequency of `count` cells lies 9 times in 10 if `said` is true.

    `spread` is how far resampled days reach below and above the frequency; NaN where unknown.
    """
    tail = (1 - BAND) / 2
    low, high = (_binomial(at, count, said) for at in (tail, 1 - tail))
    below, above = (0.0 if np.isnan(each) else each for each in spread)
    return max(0.0, min(low, said + below)), min(1.0, max(high, said + above))


def _binomial(at: float, count: int, said: float) -> float:
    """A quantile of the frequency of independent cells."""
    if said <= 0 or said >= 1:
        return said
    return float(np.clip(np.ceil(bdtrik(at, count, said)), 0, count)) / count


# --- hits and misses ------------------------------------------------------------------------------


def hits(judged: PastForecasts) -> list[Verdict]:
    """What came, was said by us and not by the stack; then where we gained most on it."""
    found = [
        (each, strict)
        for each in _verdicts(judged)
        if each.came and each.stack is not None
        for strict in [each.published > 0.5 and each.stack < 0.35]
        if strict or (each.published >= 0.3 and _gain(each) >= 0.05)
    ]
    found.sort(key=lambda pair: (not pair[1], -_gain(pair[0]), pair[0].day, pair[0].stream))
    return [each for each, _ in found[:MOST]]


def misses(judged: PastForecasts) -> list[Verdict]:
    """Said and did not come, or came unsaid: the largest losses first."""
    found = [
        each
        for each in _verdicts(judged)
        if (each.published <= 0.1 if each.came else each.published >= 0.6)
    ]
    found.sort(key=lambda each: (-_loss(each), each.day, each.stream, each.code))
    unsaid = [each for each in found if each.came]
    unkept = [each for each in found if not each.came]
    few = min(len(unsaid), len(unkept), MOST // 2)  # of both kinds, where there are
    chosen = [*unsaid[:few], *unkept[:few], *unsaid[few:], *unkept[few:]][:MOST]
    return sorted(chosen, key=lambda each: -_loss(each))


def _gain(said: Verdict) -> float:
    stack = said.stack or 0.0
    return (stack - said.came) ** 2 - (said.published - said.came) ** 2


def _loss(said: Verdict) -> float:
    return (said.published - said.came) ** 2


def _verdicts(judged: PastForecasts) -> Iterator[Verdict]:
    for target in SHOWN:
        cells = judged.targets[target]
        known = ~(np.isnan(cells.came) | np.isnan(cells.published))
        for at, place in zip(*np.nonzero(known), strict=True):
            stream, code = judged.cells[place]
            yield Verdict(
                day=judged.days[at],
                stream=clean(stream),
                name=clean(name_of(stream)),
                code=code,
                label=label_of(code),
                target=target,
                published=number(cells.published[at, place]) or 0.0,
                stack=number(cells.stack[at, place]),
                came=bool(cells.came[at, place] > 0.5),
            )
