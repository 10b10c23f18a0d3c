"""Backtests: what `gdelphi backtest` does, rolling origins over days that nothing was fitted on.

    days -> at each origin all forecasters are asked -> Parquet files -> tables

A day that took part in fitting anything (weights, early stopping, combination) is refused unless
asked for by name, and then the result says so. What was fitted on what is read from the model's own
records, not from the settings alone: those may have changed since. Origins are independent of each
other and shared among processes; each writes its own files, so a run can be killed anywhere and
goes on. Nothing of what is written depends on how many processes there were.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import torch

from gdelphi import __version__
from gdelphi.common.errors import JudgeError
from gdelphi.common.files import DIGEST_LENGTH, file_digest, text_digest, weights_digest
from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.common.splits import PARTS
from gdelphi.common.types import LEVELS, TARGETS, Level
from gdelphi.common.workers import share
from gdelphi.forecast.predictor import Predictor, stack_files
from gdelphi.judge.compare import training_rates
from gdelphi.judge.day import (
    BacktestDay,
    BacktestOptions,
    cell_columns,
)
from gdelphi.judge.files import BacktestFolder
from gdelphi.judge.refit import RefitSchedule, refit
from gdelphi.judge.tables import summarise
from gdelphi.stack.linear import StackExample

FORMAT: Final = 1
RATE_DAYS: Final = 365  # training days that tell active cells at the finer levels, the last ones
PORTIONS_EACH: Final = 2  # that a process takes
LOOK_EVERY: Final = 10.0  # seconds
WHOLE_DAYS: Final = 120
"""days on which whole futures, the expected day and shares are judged, at most, unless asked for:
their scores differ from day to day far less than those of probabilities"""


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
    options: BacktestOptions = field(default_factory=BacktestOptions)
    allow_fitted: bool = False
    processes: int | None = None
    refit: int | None = None
    """days after which what is published is fitted again; None: never"""
    futures_every: int | None = None
    """whole futures, the expected day and shares are judged on every n-th of the days; None: as in
    the folder, or so that they are at most WHOLE_DAYS"""

    def with_absolute_paths(self) -> "BacktestRequest":
        """The same for a process whose current folder is another."""
        given = self.options
        options = replace(
            given,
            world=given.world and given.world.absolute(),
            text_model=given.text_model and given.text_model.absolute(),
        )
        return replace(self, model=self.model.absolute(), out=self.out.absolute(), options=options)


class BacktestProgress(Protocol):
    """Is told how far a backtest is."""

    def step(self, what: str) -> None: ...

    def day_done(self, done: int, total: int) -> None: ...

    def example_done(self, done: int, total: int) -> None: ...


def backtest(
    settings: Settings, request: BacktestRequest, progress: BacktestProgress | None = None
) -> dict[str, Any]:
    """Ask all forecasters at all origins that are not done yet, and return the summary: what
    summary.json holds."""
    progress = progress or SILENT
    folder = BacktestFolder(request.out)
    with folder.alone(), _one_thread():
        progress.step("loading the model")
        predictor = _open(settings, request)
        for level in LEVELS[: LEVELS.index(request.options.level) + 1]:
            if not predictor.path(level).exists():
                progress.step(f"fitting what is published at level {level}")
                predictor.calibrate(level)
        days = days_to_judge(predictor, request)
        step = request.futures_every or folder.futures_every or spread(len(days))
        schedule = None
        if request.refit is not None:
            first = first_allowed(predictor, request)
            schedule = RefitSchedule(request.out.absolute() / "refits", first, request.refit)
        judge = BacktestDay(predictor.settings, predictor, request.options, schedule)
        about = {  # may differ from run to run of the same backtest
            "gdelphi": __version__,
            "model": str(predictor.folder),
            "store": str(predictor.settings.store),
        }
        folder.begin(_origin(predictor, judge, request, step), about)
        if not folder.has_cells:
            folder.write_cells(_cells(predictor, request.options))
        missing = [day for day in days if not folder.done(day)]
        work = _DayWork(settings, request, schedule, frozenset(days[::step]), judge)
        if schedule is not None:
            _refit(predictor, schedule, missing, work, progress)
        with _Told(folder, days, progress) as told:
            portion, done = _portion(missing, request), len(days) - len(missing)
            told.tell(done)
            for _ in share(work, missing, portion=portion, processes=request.processes):
                done += 1
                told.tell(done)
        progress.step("making the tables")
        return summarise_folder(request.out)


def summarise_folder(out: Path) -> dict[str, Any]:
    """Make the tables anew from the files of a backtest, keep them in summary.json, and return
    them."""
    folder = BacktestFolder(out)
    summary = summarise(folder)
    folder.write_summary(summary)
    return summary


class _DayWork:
    """What a process does with a day. The judge stays behind when this is sent to another one."""

    def __init__(
        self,
        settings: Settings,
        request: BacktestRequest,
        schedule: RefitSchedule | None,
        whole: frozenset[date],
        judge: BacktestDay | None = None,
    ) -> None:
        """`whole` are the days on which more than probabilities is judged."""
        self.settings, self.request, self.schedule = settings, request, schedule
        self.whole = whole
        self._judge = judge

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_judge": None, "request": self.request.with_absolute_paths()}

    @property
    def judge(self) -> BacktestDay:
        if self._judge is None:
            torch.set_num_threads(1)
            predictor = _open(self.settings, self.request)
            self._judge = BacktestDay(
                predictor.settings, predictor, self.request.options, self.schedule
            )
        return self._judge

    def do(self, day: date) -> date:
        tables = self.judge.day(day, whole=day in self.whole)
        BacktestFolder(self.request.out).write_day(day, tables)
        return day


@dataclass(frozen=True)
class _ExampleWork:
    """What a process does with a day that a refit learns from."""

    work: _DayWork
    level: Level

    def do(self, day: date) -> StackExample | None:
        return self.work.judge.predictor.example(self.level, day)


def _portion(days: Sequence[date], request: BacktestRequest) -> int:
    """How many days in a row a process takes: much of what an origin needs, the one before it has
    needed too."""
    processes = request.processes or os.cpu_count() or 1
    return max(math.ceil(len(days) / (PORTIONS_EACH * processes)), 1)


class _Told:
    """Tells how many days are done, in between also by their files: portions are many days long."""

    def __init__(
        self, folder: BacktestFolder, days: Sequence[date], progress: BacktestProgress
    ) -> None:
        self._folder, self._days, self._progress = folder, days, progress
        self._most = -1
        self._ended, self._thread = Event(), Thread(target=self._look, daemon=True)

    def __enter__(self) -> "_Told":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def tell(self, done: int) -> None:
        """So many are; fewer than were told before are not told again."""
        if done > self._most:
            self._most = done
            self._progress.day_done(done, len(self._days))

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            self.tell(sum(map(self._folder.done, self._days)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Of torch: sums must not depend on the number of threads, and processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _open(settings: Settings, request: BacktestRequest) -> Predictor:
    options = request.options
    return Predictor(
        settings, request.model, number=options.futures, seed=options.seed, text=options.text_model
    )


def _refit(
    predictor: Predictor,
    schedule: RefitSchedule,
    days: Sequence[date],
    work: _DayWork,
    progress: BacktestProgress,
) -> None:
    """Make the fits that days need."""

    def ask(level: Level, wanted: Sequence[date]) -> Iterator[StackExample | None]:
        progress.step(f"asking about {len(wanted)} days that level {level} is fitted on again")
        examples = share(
            _ExampleWork(work, level),
            wanted,
            portion=_portion(wanted, work.request),
            processes=work.request.processes,
        )
        for number, example in enumerate(examples):
            progress.example_done(number + 1, len(wanted))
            yield example

    schedule.folder.mkdir(parents=True, exist_ok=True)
    levels = LEVELS[: LEVELS.index(work.request.options.level) + 1]
    refit(predictor, schedule, levels=levels, judged=days, known=_known_days(predictor), ask=ask)


# --- days -----------------------------------------------------------------------------------------


def days_to_judge(predictor: Predictor, request: BacktestRequest) -> list[date]:
    """The target days of a request: known ones, with enough days before them."""
    if request.every < 1:
        raise JudgeError(f"every {request.every} days: it is a number from 1 on")
    allowed = first_allowed(predictor, request)
    since = request.since or allowed
    if since < allowed and not request.allow_fitted:
        raise JudgeError(
            f"{since} and later days took part in fitting: the first day that may be judged is "
            f"{allowed}. Take --from {allowed}, or --allow-fitted for a result that is labelled so"
        )
    until = request.until or predictor.sampler.last_day
    known = [day for day in _known_days(predictor) if since <= day <= until]
    days = known[:: request.every]
    if not days:
        raise JudgeError(
            f"no known day between {since} and {until}: measures reach to "
            f"{predictor.sampler.last_day}"
        )
    return days


def spread(days: int) -> int:
    """The step that leaves at most WHOLE_DAYS of so many days, all weekdays alike."""
    step = max(math.ceil(days / WHOLE_DAYS), 1)
    return step if step % 7 else step + 1


def _known_days(predictor: Predictor) -> list[date]:
    """Present days with a whole context before them, whatever part of the split they are in."""
    first = predictor.settings.sequences.context_days
    present = np.flatnonzero(predictor.pack.present)
    return [predictor.sequences.day(int(number)) for number in present if number >= first]


def first_allowed(predictor: Predictor, request: BacktestRequest) -> date:
    """The first target day after all that anything was fitted on."""
    ends = [
        date.fromisoformat(days[-1]) for days in fitted_days(predictor, request).values() if days
    ]
    return max(predictor.sequences.splits.test[0], max(ends) + timedelta(days=1))


def fitted_days(predictor: Predictor, request: BacktestRequest) -> dict[str, list[str]]:
    """First and last day of what was fitted on days: by the model's records, and by the split."""
    recorded = predictor.training["origin"].get("split", {})
    fitted = {part: list(days) for part, days in recorded.items()}
    if predictor.text:
        fitted |= {f"text {part}": list(days) for part, days in predictor.text.model.fitted.items()}
    for part in PARTS[:-1]:
        fitted.setdefault(part, [day.isoformat() for day in predictor.sequences.splits.days(part)])
    if predictor.pooled_stack is not None:
        first, *_, last = predictor.pooled_stack.counts.fit.out_of_fold.days.tolist()
        fitted["stack"] = [date.fromordinal(day).isoformat() for day in (first, last)]
    for level in LEVELS[: LEVELS.index(request.options.level) + 1]:
        days = predictor.publisher(level).fitted
        fitted[f"published {level}"] = [day.isoformat() for day in days or ()]
    return fitted


# --- what is judged -------------------------------------------------------------------------------


def _origin(
    predictor: Predictor, judge: BacktestDay, request: BacktestRequest, futures_every: int
) -> dict[str, Any]:
    """What makes one backtest another; the days are not among it."""
    options = request.options
    plain = asdict(options)
    text_model, horizon = plain.pop("text_model"), plain.pop("horizon")
    if options.week:  # else as before there were weeks
        plain["horizon"] = horizon
    if not options.only_probabilities:  # else as before there was the choice
        del plain["only_probabilities"]
    if futures_every > 1:  # else as before there was the choice
        plain["futures_every"] = futures_every
    if text_model is not None:  # by its weights, and only if there is one
        plain["text_model"] = weights_digest(text_model)
    files = [predictor.path(level).name for level in LEVELS[: LEVELS.index(options.level) + 1]]
    stack = stack_files(predictor.folder)
    facts = predictor.pack.facts
    return {
        "format": FORMAT,
        "model": {
            name: file_digest(predictor.folder / name)[:DIGEST_LENGTH]
            for name in ("model.safetensors", *stack, *files)
        },
        "data": facts.data,
        "space": facts.space,
        "streams": list(facts.streams),
        "asked": {
            **plain,
            "forecasters": list(judge.names),
            "world": None if options.world is None else _digest_of_world(options.world),
            **({} if request.refit is None else {"refit": request.refit}),
        },
        "fitted": fitted_days(predictor, request),
        "first_allowed": first_allowed(predictor, request).isoformat(),
    }


def _digest_of_world(folder: Path) -> str:
    files = sorted(path for path in (folder / "truth").rglob("*") if path.is_file())
    if not files:
        raise JudgeError(f"{folder} has no truth/: give the archive of a simulated world")
    return text_digest("".join(file_digest(path)[:DIGEST_LENGTH] for path in files))


def _cells(predictor: Predictor, options: BacktestOptions) -> pa.Table:
    """Training rates of all cells: they tell which are active."""
    days = predictor.target_days("train")
    if options.level != "root":
        days = days[-RATE_DAYS:]
    if not days:
        raise JudgeError("no training day has a whole context before it: see split.*")
    history = predictor.history(options.level, days[0] - timedelta(days=RATE_DAYS))
    rates: Mapping[str, Any] = training_rates(history, days)
    values = np.stack([rates[target] for target in TARGETS], axis=-1).ravel()
    columns = cell_columns(history.streams, history.codes)
    return pa.table({**columns, "training_rate": pa.array(values)})
