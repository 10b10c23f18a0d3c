"""How good the forecasts have been: skill against the stack, calibration, hits and misses.

Stored forecasts are judged by the scores that `gdelphi score` has left; before there are enough of
them, by a backtest, which is named so. Only roots are judged here. The bar is the stack of
baselines: the simple stack where the model has a stack of more than that. An interval comes from
resampled blocks of days, as everywhere; what it does not show is not claimed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
from scipy.special import bdtrik

from gdelphi.common.errors import GdelphiError, JudgeError
from gdelphi.common.settings import Settings
from gdelphi.common.types import TARGETS, FloatArray, Target
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.gdelt.countries import stream_name
from gdelphi.judge.files import BacktestFolder, read_table, scores_path
from gdelphi.report.choose import ForecastFolder, rank
from gdelphi.report.content import Bin, Record, RecordWindow, SkillLine, Verdict
from gdelphi.report.plain import clean, counted, label_of, number
from gdelphi.scores.probabilities import Bootstrap, brier, skill
from gdelphi.scores.reliability import reliability_band
from gdelphi.stack.linear import SIMPLE

LEVEL: Final = "root"
PUBLISHED: Final = "published"
STACK: Final = "stack"
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


# --- published probabilities and outcomes ---------------------------------------------------------


class JudgedCells(NamedTuple):
    """A target over days and cells, arrays of [day, cell]; NaN where there is no value."""

    published: FloatArray
    stack: FloatArray
    outcome: FloatArray


@dataclass(frozen=True, eq=False)
class PastForecasts:
    """Published probabilities, the stack's, and outcomes, over target days."""

    days: tuple[date, ...]
    cells: tuple[tuple[str, str], ...]
    """stream and code"""
    targets: Mapping[str, JudgedCells]

    def last(self, days: int) -> "PastForecasts":
        """Those of the last calendar days."""
        first = self.days[-1] - timedelta(days=days - 1)
        kept = [place for place, day in enumerate(self.days) if day >= first]
        targets = {
            name: JudgedCells(*(values[kept] for values in cells))
            for name, cells in self.targets.items()
        }
        return PastForecasts(tuple(self.days[place] for place in kept), self.cells, targets)


CellRow = tuple[str, str, str, float, float, float]
"""stream, code, target, published, stack, outcome"""


Judged = tuple[PastForecasts, list[ForecastManifest], list[str]]
"""scored forecasts, their manifests, and what is wrong with others"""


def judged_forecasts(folder: ForecastFolder, until: date) -> Judged:
    """The scored forecasts of target days up to a day, one for each; none made in hindsight.

    Returns them, their manifests, and which scores cannot be read: these can be made again.
    """

    def path_of(manifest: ForecastManifest) -> Path:
        return scores_path(folder.path, manifest.recipe.origin, manifest.id)

    by_day: dict[date, list[ForecastManifest]] = {}
    for manifest in folder.manifests:
        known = not manifest.hindsight and manifest.target_day <= until
        if known and path_of(manifest).exists():
            by_day.setdefault(manifest.target_day, []).append(manifest)
    rows: dict[date, list[CellRow]] = {}
    manifests: list[ForecastManifest] = []
    problems: list[str] = []
    for day in sorted(by_day):
        manifest = max(by_day[day], key=rank)
        try:
            scores = read_table(path_of(manifest))
            rows[day] = _cell_rows(scores.filter(pc.equal(scores["level"], LEVEL)))
            manifests.append(manifest)
        except (JudgeError, KeyError) as error:
            problems.append(
                f"the scores in {path_of(manifest)} cannot be read ({error}): delete the file, and "
                "run `gdelphi score` again"
            )
    return _arrays(rows), manifests, problems


def judged_backtest(folder: Path, until: date) -> PastForecasts:
    """The days of a backtest of roots up to a day, none that took part in fitting."""
    backtest = BacktestFolder(folder)
    origin = backtest.run()["origin"]
    request = origin.get("asked", {})
    compared = {PUBLISHED, STACK} <= set(request.get("forecasters", ()))
    if request.get("level") != LEVEL or not compared:
        raise JudgeError(
            f"the backtest in {folder} does not judge published against the stack at level {LEVEL}"
        )
    allowed = date.fromisoformat(origin["first_allowed"])
    rows = {}
    for day in backtest.days():
        if allowed <= day <= until:
            rows[day] = _cell_rows(backtest.read_day("probabilities", day))
    return _arrays(rows)


def _cell_rows(table: Any) -> list[CellRow]:
    """The rows of a table of a backtest's or a stored forecast's scores; null is NaN."""
    keys = (table[name].to_pylist() for name in ("stream", "code", "target"))
    bar = SIMPLE if SIMPLE in table.column_names else STACK
    numbers = (
        table[name].to_numpy().astype(np.float64).tolist() for name in (PUBLISHED, bar, "outcome")
    )
    return list(zip(*keys, *numbers, strict=True))


def _arrays(rows: Mapping[date, Sequence[CellRow]]) -> PastForecasts:
    """Rows of each day as arrays; streams may differ from day to day."""
    days = tuple(sorted(rows))
    cells = tuple(sorted({(row[0], row[1]) for of_day in rows.values() for row in of_day}))
    places = {cell: place for place, cell in enumerate(cells)}
    values = {name: np.full((3, len(days), len(cells)), np.nan) for name in TARGETS}
    for at, day in enumerate(days):
        for stream, code, target, *numbers in rows[day]:
            values[target][:, at, places[stream, code]] = numbers
    return PastForecasts(
        days, cells, {name: JudgedCells(*arrays) for name, arrays in values.items()}
    )


# --- the record -----------------------------------------------------------------------------------


def record_of(
    settings: Settings,
    forecasts: ForecastFolder,
    origin: date,
    known: Judged | None = None,
) -> Record:
    """The record up to an origin: from forecasts, else from a backtest, else none. `known` are the
    judged forecasts, if they have been read."""
    judged, manifests, problems = known or judged_forecasts(forecasts, origin)
    notes = "".join(f" Left out: {problem}." for problem in problems)
    if len(judged.days) >= FEWEST:
        late = sum(manifest.issued_at.date() > manifest.target_day for manifest in manifests)
        about = (
            f"Judged: the forecasts of {counted(len(judged.days), 'day')} from {judged.days[0]} to "
            f"{judged.days[-1]}, as they were stored."
        )
        if late:
            about += f" {late} of them were made after their day, from news before it alone."
        return _record("forecasts", judged, about + notes)
    if judged.days:
        count = counted(len(judged.days), "day")
        notes += f" Only {count} of stored forecasts can be judged so far."
    folder = backtest_folder(settings)
    if folder is None:
        return _no_record(NOTHING + notes)
    try:
        backtest = judged_backtest(folder, origin)
    except GdelphiError as error:
        return _no_record(f"{NOTHING}{notes} The backtest cannot be shown: {error}.")
    days = backtest.days
    if len(days) < FEWEST:
        few = f" The backtest in {folder} has too few days up to {origin}."
        return _no_record(NOTHING + notes + few)
    about = (
        f"A backtest, not forecasts that were published: {counted(len(days), 'day')} from "
        f"{days[0]} to {days[-1]}, none of which took part in fitting."
    )
    return _record("backtest", backtest, about + notes)


def backtest_folder(settings: Settings) -> Path | None:
    """The folder of a backtest, set or beside the store."""
    if settings.report.backtest is not None:
        return settings.report.backtest
    beside = settings.store.parent / "backtest"
    return beside if beside.is_dir() else None


def _no_record(note: str) -> Record:
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


def _record(source: Any, judged: PastForecasts, note: str) -> Record:
    windows = [_window(judged.last(days), days) for days in WINDOWS]
    skilful, verdict = verdict_of(windows[-1], source)
    longest, newest = judged.last(WINDOWS[-1]), judged.last(NEWEST)
    return Record(
        source=source,
        note=clean(note),
        skilful=skilful,
        verdict=verdict,
        windows=windows,
        calibration=[
            row for target in RECORD_TARGETS for row in bins(target, longest.targets[target])
        ],
        hits=hits(newest),
        misses=misses(newest),
    )


# --- skill ----------------------------------------------------------------------------------------


def _window(judged: PastForecasts, days: int) -> RecordWindow:
    """Skill over judged days, which are the last `days` of a calendar."""
    bootstrap = Bootstrap(block_days=_block(len(judged.days)))
    lines = (_line(target, judged.targets[target], bootstrap) for target in RECORD_TARGETS)
    return RecordWindow(
        days=days,
        first=judged.days[0],
        last=judged.days[-1],
        judged=len(judged.days),
        lines=[line for line in lines if line is not None],
    )


def _block(days: int) -> int:
    """Days that are resampled together: a week, or less where days are few."""
    return min(7, max(1, days // 2))


def _line(target: Target, cells: JudgedCells, bootstrap: Bootstrap) -> SkillLine | None:
    published, stack = (
        brier(probability, cells.outcome) for probability in (cells.published, cells.stack)
    )
    known = ~(np.isnan(published) | np.isnan(stack))
    if not known.any():
        return None
    interval = skill(published, stack, bootstrap)
    value, low, high = number(interval.value), number(interval.low), number(interval.high)
    if value is None or low is None or high is None:
        return None
    return SkillLine(
        level=LEVEL,
        target=target,
        published=float(published[known].mean()),
        stack=float(stack[known].mean()),
        skill=value,
        low=low,
        high=high,
        cells=int(known.sum()),
    )


def verdict_of(window: RecordWindow, source: str) -> tuple[bool | None, str]:
    """Whether there is skill over the stack, and a sentence that says it."""
    over = f"Over {counted(window.judged, 'judged day')} ({window.first} to {window.last})"
    if source == "backtest":
        over = f"In a backtest of {counted(window.judged, 'day')} ({window.first} to {window.last})"
    lines = "; ".join(
        f"{abs(line.skill):.1%} {'better' if line.skill >= 0 else 'worse'} on "
        f"{_NAMES[line.target]} ({line.low:.1%} to {line.high:.1%})"
        for line in window.lines
    )
    if not lines:
        return None, f"{over} nothing could be compared with the baselines' stack."
    compared = f"{over} these forecasts were, against the baselines' stack, {lines}."
    if window.judged < FEWEST_FOR_SKILL:
        return None, f"Too early to tell. {compared}"
    above = [line.target for line in window.lines if line.low > 0]
    below = [line.target for line in window.lines if line.high < 0]
    if not above:
        return False, f"No skill over the baselines has been shown. {over} these were {lines}."
    if any(target in CLAIMED for target in above) and not below:
        return True, compared
    return None, f"The record is mixed. {compared}"


_NAMES: Final = {"headline": "headlines", "occurs": "what occurs", "surge": "surges"}


# --- calibration ----------------------------------------------------------------------------------


def bins(target: Target, cells: JudgedCells) -> Iterator[Bin]:
    """Published probabilities against frequencies, each bin with the band of `consistency_band`."""
    if not len(cells.outcome):
        return
    bootstrap = Bootstrap(block_days=_block(len(cells.outcome)), level=BAND)
    curve = reliability_band(cells.published, cells.outcome, bootstrap=bootstrap)
    for place, count in enumerate(curve.table.count.tolist()):
        if count >= FEWEST_CELLS:
            mean = float(curve.table.forecast[place])
            frequency = float(curve.table.frequency[place])
            spread = (float(curve.low[place]) - frequency, float(curve.high[place]) - frequency)
            low, high = consistency_band(mean, count, spread)
            yield Bin(
                target=target,
                said=number(mean) or 0.0,
                came=number(frequency) or 0.0,
                low=number(low) or 0.0,
                high=number(high) or 0.0,
                cells=count,
            )


def consistency_band(
    probability: float, count: int, spread: tuple[float, float]
) -> tuple[float, float]:
    """Where the frequency of `count` cells lies 9 times in 10 if their probability is true.

    It is the wider of two bands. The binomial one takes cells as independent, which those of a day
    are not; the other is the frequency's own spread over resampled days (how far it reaches below
    and above the frequency; NaN where unknown), moved to where the frequency ought to be.
    """
    tail = (1 - BAND) / 2
    low, high = (_binomial_quantile(at, count, probability) for at in (tail, 1 - tail))
    below, above = (0.0 if np.isnan(distance) else distance for distance in spread)
    return max(0.0, min(low, probability + below)), min(1.0, max(high, probability + above))


def _binomial_quantile(at: float, count: int, probability: float) -> float:
    """A quantile of the frequency of independent cells."""
    if probability <= 0 or probability >= 1:
        return probability
    return float(np.clip(np.ceil(bdtrik(at, count, probability)), 0, count)) / count


# --- hits and misses ------------------------------------------------------------------------------


def hits(judged: PastForecasts) -> list[Verdict]:
    """What occurred, was likely by us and not by the stack; then where we gained most on it."""
    gains = []
    for verdict in _verdicts(judged):
        if verdict.came and verdict.stack is not None:
            gain = (1 - verdict.stack) ** 2 - _loss(verdict)
            clear = verdict.published > 0.5 and verdict.stack < 0.35
            if clear or (verdict.published >= 0.3 and gain >= 0.05):
                gains.append((not clear, -gain, verdict.day, verdict.stream, verdict))
    gains.sort(key=lambda entry: entry[:4])
    return [verdict for *_, verdict in gains[:MOST]]


def misses(judged: PastForecasts) -> list[Verdict]:
    """Likely and did not occur, or occurred and was unlikely: the largest losses first."""
    worst = sorted(
        (
            verdict
            for verdict in _verdicts(judged)
            if (verdict.published <= 0.1 if verdict.came else verdict.published >= 0.6)
        ),
        key=lambda verdict: (-_loss(verdict), verdict.day, verdict.stream, verdict.code),
    )
    unforeseen = [verdict for verdict in worst if verdict.came]
    false_alarms = [verdict for verdict in worst if not verdict.came]
    few = min(len(unforeseen), len(false_alarms), MOST // 2)  # of both kinds, where there are
    shown = [*unforeseen[:few], *false_alarms[:few], *unforeseen[few:], *false_alarms[few:]][:MOST]
    return sorted(shown, key=lambda verdict: -_loss(verdict))


def _loss(verdict: Verdict) -> float:
    return (verdict.published - verdict.came) ** 2


def _verdicts(judged: PastForecasts) -> Iterator[Verdict]:
    for target in SHOWN:
        cells = judged.targets[target]
        known = ~(np.isnan(cells.outcome) | np.isnan(cells.published))
        for at, place in zip(*np.nonzero(known), strict=True):
            stream, code = judged.cells[place]
            yield Verdict(
                day=judged.days[at],
                stream=clean(stream),
                name=clean(stream_name(stream)),
                code=code,
                label=label_of(code),
                target=target,
                published=number(cells.published[at, place]) or 0.0,
                stack=number(cells.stack[at, place]),
                came=bool(cells.outcome[at, place] > 0.5),
            )
