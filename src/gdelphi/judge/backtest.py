"""The honest judge: rolling origins over days that nothing was fitted on.

    days -> at each origin everybody is asked -> Parquet files -> tables

A day that took part in fitting anything (weights, early stopping, combination) is refused unless
asked for by name, and then the result says so. What was fitted on what is read from the model's own
records, not from the settings alone: those may have changed since. Origins are independent of each
other and shared among processes; each writes its own files, so a run can be killed anywhere and
goes on. Nothing of what is written depends on how many processes there were.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import torch

from gdelphi import __version__
from gdelphi.common.errors import JudgeError
from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.common.splits import PARTS
from gdelphi.common.types import LEVELS, TARGETS, Level
from gdelphi.common.workers import share
from gdelphi.forecast.predictor import Predictor
from gdelphi.forecast.stack import StackExample
from gdelphi.judge.compare import training_rates
from gdelphi.judge.day import (
    BacktestDay,
    BacktestOptions,
    cell_columns,
)
from gdelphi.judge.files import BacktestFolder
from gdelphi.judge.refit import RefitSchedule, refit
from gdelphi.judge.tables import summarise

FORMAT: Final = 1
RATE_DAYS: Final = 365  # training days that tell active cells at the finer levels, the last ones


@dataclass(frozen=True)
class BacktestRequest:
    """What to judge."""

    model: Path
    out: Path
    since: date | None = None
    """first target day; None: the first that nothing was fitted on"""
    until: date | None = None
    """last target day; None: the last that is known"""
    every: int = 1
    """days from one target day to the next"""
    asked: BacktestOptions = field(default_factory=BacktestOptions)
    allow_fitted: bool = False
    processes: int | None = None
    refit: int | None = None
    """days after which what is published is fitted again; None: never"""


class BacktestProgress(Protocol):
    """Is told how far a backtest is."""

    def step(self, what: str) -> None: ...

    def day_done(self, done: int, total: int) -> None: ...

    def lesson_done(self, done: int, total: int) -> None: ...


def backtest(
    settings: Settings, request: BacktestRequest, progress: BacktestProgress | None = None
) -> dict[str, Any]:
    """Ask everybody at all origins that are not done yet, and make the tables."""
    progress = progress or SILENT
    folder = BacktestFolder(request.out)
    with folder.alone(), _one_thread():
        progress.step("loading the model")
        desk = _desk(settings, request)
        _calibrate(desk, request, progress)
        days = days_to_judge(desk, request)
        schedule = _schedule(desk, request)
        bench = BacktestDay(desk.settings, desk, request.asked, schedule)
        folder.begin(_origin(desk, bench, request), _about(desk))
        if not folder.has_cells:
            folder.write_cells(_cells(desk, request.asked))
        missing = [day for day in days if not folder.done(day)]
        work = _Work(settings, request, schedule, bench)
        if schedule is not None:
            _refit(desk, schedule, missing, work, progress)
        done = len(days) - len(missing)
        progress.day_done(done, len(days))
        for _ in share(work, missing, portion=1, processes=request.processes):
            done += 1
            progress.day_done(done, len(days))
        progress.step("making the tables")
        return summarise_folder(request.out)


def summarise_folder(out: Path) -> dict[str, Any]:
    """Make the tables anew from the files of a backtest, and keep them in summary.json."""
    folder = BacktestFolder(out)
    summary = summarise(folder)
    folder.write_summary(summary)
    return summary


class _Work:
    """What a process does with a day. The bench stays behind when this is sent to another one."""

    def __init__(
        self,
        settings: Settings,
        request: BacktestRequest,
        schedule: RefitSchedule | None,
        bench: BacktestDay | None = None,
    ) -> None:
        self.settings, self.request, self.schedule = settings, request, schedule
        self._bench = bench

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bench": None}

    @property
    def bench(self) -> BacktestDay:
        if self._bench is None:
            torch.set_num_threads(1)
            desk = _desk(self.settings, self.request)
            self._bench = BacktestDay(desk.settings, desk, self.request.asked, self.schedule)
        return self._bench

    def do(self, day: date) -> date:
        BacktestFolder(self.request.out).write_day(day, self.bench.day(day))
        return day


@dataclass(frozen=True)
class _Lessons:
    """What a process does with a day that is learned from."""

    work: _Work
    level: Level

    def do(self, day: date) -> StackExample | None:
        return self.work.bench.desk.lesson(self.level, day)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Of torch: sums must not depend on the number of threads, and processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _desk(settings: Settings, request: BacktestRequest) -> Predictor:
    asked = request.asked
    return Predictor(
        settings, request.model, number=asked.futures, seed=asked.seed, text=asked.text_model
    )


def _calibrate(desk: Predictor, request: BacktestRequest, progress: BacktestProgress) -> None:
    """Fit what is published at the levels that are needed, where that has not been done."""
    for level in LEVELS[: LEVELS.index(request.asked.level) + 1]:
        if not desk.path(level).exists():
            progress.step(f"fitting what is published at level {level}")
            desk.calibrate(level)


def _schedule(desk: Predictor, request: BacktestRequest) -> RefitSchedule | None:
    if request.refit is None:
        return None
    return RefitSchedule(request.out / "refits", first_allowed(desk, request), request.refit)


def _refit(
    desk: Predictor,
    schedule: RefitSchedule,
    days: Sequence[date],
    work: _Work,
    progress: BacktestProgress,
) -> None:
    """Make the fits that days need."""

    def ask(level: Level, wanted: Sequence[date]) -> Iterator[StackExample | None]:
        progress.step(f"asking about {len(wanted)} days that level {level} is fitted on again")
        asked = share(_Lessons(work, level), wanted, portion=1, processes=work.request.processes)
        for number, lesson in enumerate(asked):
            progress.lesson_done(number + 1, len(wanted))
            yield lesson

    schedule.folder.mkdir(parents=True, exist_ok=True)
    levels = LEVELS[: LEVELS.index(work.request.asked.level) + 1]
    refit(desk, schedule, levels=levels, judged=days, known=_known_days(desk), ask=ask)


# --- days -----------------------------------------------------------------------------------------


def days_to_judge(desk: Predictor, request: BacktestRequest) -> list[date]:
    """The target days of a request: known ones, with enough days before them."""
    if request.every < 1:
        raise JudgeError(f"every {request.every} days: it is a number from 1 on")
    allowed = first_allowed(desk, request)
    since = request.since or allowed
    if since < allowed and not request.allow_fitted:
        raise JudgeError(
            f"{since} and later days took part in fitting: the first day that may be judged is "
            f"{allowed}. Take --from {allowed}, or --allow-fitted for a result that is labelled so"
        )
    until = request.until or desk.sampler.last_day
    known = [day for day in _known_days(desk) if since <= day <= until]
    days = known[:: request.every]
    if not days:
        raise JudgeError(
            f"no known day between {since} and {until}: measures reach to {desk.sampler.last_day}"
        )
    return days


def _known_days(desk: Predictor) -> list[date]:
    """Present days with a whole context before them, whatever part of the split they are in."""
    first = desk.settings.sequences.context_days
    present = np.flatnonzero(desk.pack.present)
    return [desk.sequences.day(int(number)) for number in present if number >= first]


def first_allowed(desk: Predictor, request: BacktestRequest) -> date:
    """The first target day after all that anything was fitted on."""
    ends = [date.fromisoformat(days[-1]) for days in fitted_days(desk, request).values() if days]
    return max(desk.sequences.splits.test[0], max(ends) + timedelta(days=1))


def fitted_days(desk: Predictor, request: BacktestRequest) -> dict[str, list[str]]:
    """First and last day of what was fitted on days: by the model's records, and by the split."""
    recorded = desk.training["origin"].get("split", {})
    found = {part: list(days) for part, days in recorded.items()}
    if desk.text:
        found |= {f"text {part}": list(days) for part, days in desk.text.model.fitted.items()}
    for part in PARTS[:-1]:
        found.setdefault(part, [day.isoformat() for day in desk.sequences.splits.days(part)])
    for level in LEVELS[: LEVELS.index(request.asked.level) + 1]:
        fitted = desk.publisher(level).fitted
        found[f"published {level}"] = [day.isoformat() for day in fitted or ()]
    return found


# --- what is judged -------------------------------------------------------------------------------


def _origin(desk: Predictor, bench: BacktestDay, request: BacktestRequest) -> dict[str, Any]:
    """What makes one backtest another; the days are not among it."""
    asked = request.asked
    files = [desk.path(level).name for level in LEVELS[: LEVELS.index(asked.level) + 1]]
    facts = desk.pack.facts
    return {
        "format": FORMAT,
        "model": {name: _digest(desk.folder / name) for name in ("model.safetensors", *files)},
        "data": facts.data,
        "space": facts.space,
        "streams": list(facts.streams),
        "asked": {
            **_asked(asked),
            "forecasters": list(bench.names),
            "world": None if asked.world is None else _digest_of_world(asked.world),
            **({} if request.refit is None else {"refit": request.refit}),
        },
        "fitted": fitted_days(desk, request),
        "first_allowed": first_allowed(desk, request).isoformat(),
    }


def _asked(asked: BacktestOptions) -> dict[str, Any]:
    """As it is written down; a text forecaster by its weights, and only if there is one."""
    said = asdict(asked)
    folder = said.pop("text_model")
    return said if folder is None else {**said, "text_model": _digest(folder / "model.safetensors")}


def _about(desk: Predictor) -> dict[str, Any]:
    """What may differ from run to run of the same backtest."""
    return {
        "gdelphi": __version__,
        "model": str(desk.folder),
        "store": str(desk.settings.store),
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _digest_of_world(folder: Path) -> str:
    files = sorted(path for path in (folder / "truth").rglob("*") if path.is_file())
    if not files:
        raise JudgeError(f"{folder} has no truth/: give the archive of a simulated world")
    return hashlib.sha256("".join(map(_digest, files)).encode()).hexdigest()[:16]


def _cells(desk: Predictor, asked: BacktestOptions) -> pa.Table:
    """Training rates of all cells: they tell which are active."""
    days = desk.target_days("train")
    if asked.level != "root":
        days = days[-RATE_DAYS:]
    if not days:
        raise JudgeError("no training day has a whole context before it: see split.*")
    history = desk.history(asked.level, days[0] - timedelta(days=RATE_DAYS))
    rates: Mapping[str, Any] = training_rates(history, days)
    values = np.stack([rates[target] for target in TARGETS], axis=-1).ravel()
    columns = cell_columns(history.streams, history.codes)
    return pa.table({**columns, "training_rate": pa.array(values)})
