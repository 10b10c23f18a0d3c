"""Training: `train` makes a measure model from the pack of a store, `rehearse` says what it costs.

Steps, evaluations on validation A, states and the best model follow each other here; what a step is
stands in run.py. Batches are made by a thread ahead of their turn: most of that work is gathering
in torch, which leaves the interpreter free, and a step takes many times longer. Processes would
each need a copy of the outlook, and their batches would have to be sent.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeVar

import torch
from accelerate import Accelerator
from threadpoolctl import threadpool_limits

from gdelphi.common.errors import TrainingError
from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.common.train_settings import TrainSettings
from gdelphi.model.batches import Batch
from gdelphi.model.checkpoint import CheckpointFolder
from gdelphi.model.data import (
    TrainingData,
    accelerator_for,
    load_training_data,
)
from gdelphi.model.optimizer import own_random_numbers
from gdelphi.model.run import TrainingRun, wait_for_all
from gdelphi.model.tensorboard import TensorBoardWriter, summary_writer

AHEAD: Final = 3  # batches that are made before their turn
REHEARSED: Final = 3  # steps that a time is estimated from
T = TypeVar("T")


class TrainStatus(NamedTuple):
    """Where a run stands, after a step."""

    step: int
    steps: int
    loss: float
    score: float
    """the last evaluation's"""
    steps_per_second: float
    points_per_second: float
    seconds_left: float
    logged: bool
    """one of the steps that a line is written for"""


class TrainProgress(Protocol):
    """What a long run tells whoever watches."""

    def packed(self, done: int, total: int, points: int) -> None: ...
    def stepped(self, pulse: TrainStatus) -> None: ...


@dataclass(frozen=True)
class Trained:
    """What a run did."""

    folder: Path
    parameters: int
    began_at: int
    """step; above 0 if the run went on from a state"""
    steps: int
    stopped: str
    """why: steps (all done) or patience (no improvement)"""
    best_step: int
    score: float
    """log loss on validation A: of the kept step"""
    untrained: float
    """and before training"""
    seconds: float
    """in all, over all runs"""
    main: bool
    """false in the other processes of a training by several"""


def train(
    settings: Settings,
    out: Path,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    board: bool = False,
) -> Trained:
    """Train a model into a folder; go on where an earlier run of the same settings and data was.
    With a board, its metrics are shown in TensorBoard too."""
    if board:
        summary_writer()  # before the long work
    accelerator = accelerator_for(settings.train)
    main = accelerator.is_main_process
    watching = progress if progress and main else SILENT
    try:
        with _explained(settings.train), own_random_numbers(accelerator.device):
            ground = _prepared(settings, accelerator, watching)
            folder = CheckpointFolder(out, ground.origin(accelerator.num_processes))
            with folder.alone() if main else nullcontext():
                run = TrainingRun(ground, accelerator)
                _begin(run, folder, resume=resume)
                with TensorBoardWriter(folder) if board and main else nullcontext():
                    return _Driver(run, folder, watching).drive()
    finally:
        accelerator.end_training()


def _prepared(
    settings: Settings, accelerator: Accelerator, watching: TrainProgress
) -> TrainingData:
    """The first process makes what is missing, the others find it there."""
    if not accelerator.is_main_process:
        wait_for_all(accelerator)
    ground = load_training_data(settings, watching.packed)
    if accelerator.is_main_process:
        wait_for_all(accelerator)
    return ground


@contextmanager
def _explained(settings: TrainSettings) -> Iterator[None]:
    """Want of memory, in words."""
    try:
        yield
    except RuntimeError as error:
        short = isinstance(error, torch.cuda.OutOfMemoryError) or "allocate memory" in str(error)
        if not short:
            raise
        raise TrainingError(
            f"out of memory: lower train.batch (now {settings.batch}) or train.points (now "
            f"{settings.points})"
        ) from None


def _begin(run: TrainingRun, folder: CheckpointFolder, *, resume: bool) -> None:
    """Take up the state that is there, or leave a first one.

    The first state is written before anything else, so that a folder with a model and no state is
    never one of ours that was killed.
    """
    main = run.accelerator.is_main_process
    if main and not resume:
        folder.clear()
    wait_for_all(run.accelerator)
    state = folder.load_state()
    wait_for_all(run.accelerator)
    if state:
        run.go_on_from(*state)
    if main and not state:
        folder.save_state(run.tensors(), run.record)
        run.ground.space.save(folder.folder / "space")
    if main:
        folder.forget_after(run.record.step)


class _Driver:
    """Step after step, with everything that is due between them."""

    def __init__(self, run: TrainingRun, folder: CheckpointFolder, watching: TrainProgress) -> None:
        self.run, self.folder, self.watching = run, folder, watching
        self.settings, self.record = run.settings, run.record
        self.main = run.accelerator.is_main_process
        self.first = self.record.step
        self.began = perf_counter() - self.record.seconds
        self.here = perf_counter()
        self.points = 0

    def drive(self) -> Trained:
        if not self.record.history:
            self._evaluate()
        if self.main:
            self._save_model()
        last = self.first if self.record.stopped else self.settings.steps
        steps = range(self.first + 1, last + 1)
        self.here = perf_counter()
        with closing(made_ahead(self._make, steps)) as batches:
            for step in steps:
                self._step(step, batches)
                if self.record.stopped:
                    break
        return self._done()

    def _make(self, step: int) -> tuple[Batch, int]:
        batch = self.run.batch(step)
        return batch, int((batch.past.weights > 0).sum()) * self.run.accelerator.num_processes

    def _step(self, step: int, batches: Iterator[tuple[Batch, int]]) -> None:
        asked = perf_counter()
        batch, points = next(batches)
        waited = perf_counter() - asked
        said = self.run.step(step, batch)
        self.record.step = step
        self.points += points
        self._tell({"step": step, **said, "waited": waited})
        last = step == self.settings.steps
        better = self._evaluate() if last or step % self.settings.evaluate_every == 0 else False
        if last or self.record.waited >= self.settings.patience:
            self.record.stopped = "steps" if last else "patience"
        self.record.seconds = perf_counter() - self.began
        if self.main:
            self._save(better=better)

    def _evaluate(self) -> bool:
        better = self.run.evaluate()
        if self.main:
            self.folder.log({**self.record.history[-1], "better": better})
        return better

    def _save(self, *, better: bool) -> None:
        # A state amid divergence would only diverge again.
        due = self.record.step % self.settings.save_every == 0 and not self.record.above
        if due or self.record.stopped:
            self.folder.save_state(self.run.tensors(), self.record)
        if better or self.record.stopped:
            self._save_model()

    def _save_model(self) -> None:
        self.folder.save_model(self.run.mean, self.run.best, self.record)

    def _tell(self, line: dict[str, float]) -> None:
        step, seconds = int(line["step"]), perf_counter() - self.here
        pace = (step - self.first) / seconds
        logged = step % self.settings.log_every == 0
        if logged and self.main:
            rates = {"steps_per_second": pace, "points_per_second": self.points / seconds}
            self.folder.log({**line, **rates})
        self.watching.stepped(
            TrainStatus(
                step,
                self.settings.steps,
                line["loss"],
                self.record.history[-1]["score"],
                pace,
                self.points / seconds,
                (self.settings.steps - step) / pace,
                logged,
            )
        )

    def _done(self) -> Trained:
        record = self.record
        return Trained(
            folder=self.folder.folder,
            parameters=sum(each.numel() for each in self.run.model.parameters()),
            began_at=self.first,
            steps=record.step,
            stopped=record.stopped,
            best_step=record.best_step,
            score=record.best["score"],
            untrained=record.history[0]["score"],
            seconds=record.seconds,
            main=self.main,
        )


def made_ahead(
    make: Callable[[int], T], steps: range, ahead: int = AHEAD
) -> Generator[T, None, None]:
    """What `make` gives for each step, in their order, made by a thread before it is asked for."""
    with ThreadPoolExecutor(1, "batches", initializer=_be_one_thread) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for step in steps:
                waiting.append(pool.submit(make, step))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _be_one_thread() -> None:
    """A thread that makes batches has no helpers: they would take turns with those of the step."""
    torch.get_num_threads()  # torch sets its own number when a thread first asks
    threadpool_limits(1, user_api="openmp")


# --- rehearsal ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingEstimate:
    """What a training would cost, from a few steps."""

    device: str
    precision: str
    streams: int
    days: int
    """that training sequences may end on"""
    parameters: int
    parameter_bytes: int
    optimizer_bytes: int
    """gradients, moments and the mean of weights"""
    batch_bytes: int
    peak_bytes: int | None
    """of a step, on a GPU"""
    seconds_per_batch: float
    """to make it, beside the steps"""
    seconds_per_step: float
    steps_per_epoch: int
    """steps that look at as many stream-days as there are"""
    seconds_per_epoch: float
    seconds_in_all: float


def estimate_training(
    settings: Settings, progress: TrainProgress | None = None
) -> TrainingEstimate:
    """Make a few steps and forget them; writes nothing but a pack, if there is none."""
    accelerator = accelerator_for(settings.train)
    with _explained(settings.train), own_random_numbers(accelerator.device):
        ground = load_training_data(settings, (progress or SILENT).packed)
        run = TrainingRun(ground, accelerator)
        making, stepping = zip(*(_timed(run, step) for step in range(REHEARSED + 1)), strict=True)
        return _rehearsal(run, ground, median(making[1:]), median(stepping[1:]))


def _timed(run: TrainingRun, step: int) -> tuple[float, float]:
    began = perf_counter()
    batch = run.batch(step)
    made = perf_counter()
    run.step(step, batch)
    if run.accelerator.device.type == "cuda":
        torch.cuda.synchronize()
    return made - began, perf_counter() - made


def _rehearsal(
    run: TrainingRun, ground: TrainingData, making: float, stepping: float
) -> TrainingEstimate:
    settings, device = run.settings, run.accelerator.device
    batch = run.batch(0)
    held = sum(each.nbytes for each in run.model.parameters())
    streams = len(ground.outlook.shares)
    seen = settings.batch * ground.settings.sequences.context_days
    epoch = -(-streams * len(ground.ends) // seen)
    return TrainingEstimate(
        device=str(device),
        precision="bfloat16" if run.accelerator.mixed_precision == "bf16" else "float32",
        streams=streams,
        days=len(ground.ends),
        parameters=sum(each.numel() for each in run.model.parameters()),
        parameter_bytes=held,
        optimizer_bytes=4 * held,
        batch_bytes=sum(each.nbytes for each in (*batch.past, batch.came)),
        peak_bytes=torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        seconds_per_batch=making,
        seconds_per_step=stepping,
        steps_per_epoch=epoch,
        seconds_per_epoch=epoch * stepping,
        seconds_in_all=settings.steps * stepping,
    )
