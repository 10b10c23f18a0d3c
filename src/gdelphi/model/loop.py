"""The training loop: what `gdelphi train` and `gdelphi text train` share.

A `TrainingTask` says what is learned: its model, the batch and the loss of a step, the evaluation
on validation A. Everything else stands here: steps, EMA of the weights, evaluations, patience,
checkpoints, the log, divergence, several processes.

The random numbers of a step (which streams and days, which points, what dropout leaves out) are a
function of seed, step and process. So any step can be done again, a run that was killed ends like
one that was not, and batches can be made ahead of their turn without changing anything. They are
made by a thread: most of that work is gathering in numpy and torch, which leaves the interpreter
free, and a step takes many times longer. Processes would each need a copy of the data, and their
batches would have to be sent.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import torch
from accelerate import Accelerator
from threadpoolctl import threadpool_limits

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.progress import SILENT
from gdelphi.model.checkpoint import ModelFolder, TrainingRecord
from gdelphi.model.optimizer import (
    Tensors,
    ema_copy,
    learning_rate,
    moments_of,
    optimizer_for,
    set_moments,
    set_weights,
    update_ema,
    weights_of,
)
from gdelphi.model.processes import average, from_main, wait_for_all
from gdelphi.model.task import StepBatch, TrainingTask
from gdelphi.model.tensorboard import TensorBoardWriter

AHEAD: Final = 3  # batches that are made before their turn
DIVERGING_STEPS: Final = 50  # in a row with a loss far above the lowest: the training diverges
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
    """0 where there are no clouds"""
    seconds_left: float
    logged: bool
    """one of the steps that a line is written for"""


class TrainProgress(Protocol):
    """What a long run tells whoever watches."""

    def packed(self, done: int, total: int, points: int) -> None: ...
    def stage(self, what: str) -> None: ...
    def stepped(self, status: TrainStatus) -> None: ...


@dataclass(frozen=True)
class Trained:
    """What a run did."""

    folder: Path
    parameters: int
    began_at: int
    """step; above 0 if the run resumed a checkpoint"""
    steps: int
    stopped: str
    """why: steps (all done) or patience (no improvement)"""
    best_step: int
    score: float
    """on validation A: of the kept step"""
    untrained: float
    """and before training"""
    seconds: float
    """in all, over all runs"""
    main: bool
    """false in the other processes of a training by several"""


class TrainingRun:
    """A model being trained. One for each process; the first of them writes."""

    def __init__(self, task: TrainingTask, accelerator: Accelerator) -> None:
        self.task, self.settings, self.accelerator = task, task.settings, accelerator
        if self.settings.batch % accelerator.num_processes:
            raise ConfigError(
                f"{task.section}.batch = {self.settings.batch} cannot be shared evenly among "
                f"{accelerator.num_processes} processes: set a multiple of that"
            )
        torch.manual_seed(self.settings.seed)
        self.model: Any = task.model().to(accelerator.device)
        self.model.train()
        self.ema = ema_copy(self.model)
        """EMA of the weights: what is evaluated and kept"""
        self.best = _copied(self.ema)
        self.optimizer = optimizer_for(self.model, self.settings)
        self.record = TrainingRecord()

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def batch(self, step: int) -> StepBatch:
        """This process's share of a step."""
        accelerator = self.accelerator
        return self.task.batch(
            step, process=accelerator.process_index, processes=accelerator.num_processes
        )

    def step(self, step: int, batch: StepBatch) -> dict[str, float]:
        """Make a step, unless its loss or gradient is no number; returns what was measured."""
        torch.manual_seed(batch.seed)
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = self.task.loss(self.model, batch.data)
        self.accelerator.backward(loss.total)
        losses = {"loss": loss.total.detach(), **loss.parts}
        values = torch.stack([value.float() for value in losses.values()])
        values = average(self.accelerator, values, self.model.parameters())
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        measured = dict(zip(losses, values.tolist(), strict=True))
        measured |= {"gradient": float(norm), "learning_rate": learning_rate(self.settings, step)}
        self._refuse_divergence(step, measured)
        for group in self.optimizer.param_groups:
            group["lr"] = measured["learning_rate"]
        self.optimizer.step()
        update_ema(self.ema, self.model, decay=self.settings.ema, step=step)
        return measured

    def _refuse_divergence(self, step: int, measured: Mapping[str, float]) -> None:
        record, loss, section = self.record, measured["loss"], self.task.section
        if math.isfinite(loss) and math.isfinite(measured["gradient"]):
            record.lowest = loss if record.lowest is None else min(record.lowest, loss)
            far_above = loss > self.task.diverging_ratio * record.lowest
            record.above = record.above + 1 if far_above else 0
            if record.above < DIVERGING_STEPS:
                return
        raise TrainingError(
            f"the training diverges: at step {step} the loss is {loss:g}, its gradient "
            f"{measured['gradient']:g}, the lowest loss was {record.lowest or math.nan:g}. The "
            f"model of step {record.best_step} is kept; start anew (--fresh, or another --out) "
            f"with a lower {section}.learning_rate or {section}.clip"
        )

    @torch.no_grad()
    def evaluate(self) -> bool:
        """Evaluate the EMA weights on validation A; returns whether they are the best so far."""
        record = self.record
        figures: dict[str, Any] = {"step": record.step, "score": 0.0}
        if self.accelerator.is_main_process:
            figures |= self.task.evaluate(self.ema)
        score = from_main(self.accelerator, figures["score"])
        record.history.append({**figures, "score": score})
        better = record.best_score is None or score < record.best_score
        record.waited = 0 if better else record.waited + 1
        if better:
            record.best_step, record.best_score = record.step, score
            self.best = _copied(self.ema)
        return better

    def tensors(self) -> Tensors:
        """Everything that the next step depends on, and the best weights."""
        tensors = {f"weights.{name}": tensor for name, tensor in weights_of(self.model).items()}
        tensors |= {f"mean.{name}": tensor for name, tensor in weights_of(self.ema).items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        return tensors | moments_of(self.model, self.optimizer)

    def resume(self, tensors: Tensors, record: TrainingRecord) -> None:
        """Go on from a checkpoint."""
        self.record = record
        set_weights(self.model, _under(tensors, "weights."))
        set_weights(self.ema, _under(tensors, "mean."))
        best = _under(tensors, "best.")
        self.best = {name: tensor.to(self.accelerator.device) for name, tensor in best.items()}
        set_moments(self.model, self.optimizer, tensors)


def _copied(model: torch.nn.Module) -> Tensors:
    return {name: tensor.clone() for name, tensor in weights_of(model).items()}


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


# --- the loop -------------------------------------------------------------------------------------


def run_training(
    task: TrainingTask,
    out: Path,
    accelerator: Accelerator,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    tensorboard: bool = False,
) -> Trained:
    """Train into a folder; resume an earlier run of the same settings and data if one is there."""
    main = accelerator.is_main_process
    folder = ModelFolder(out, {**task.origin(), "processes": accelerator.num_processes})
    with memory_explained(task), folder.alone() if main else nullcontext():
        run = TrainingRun(task, accelerator)
        _begin(run, folder, resume=resume)
        with TensorBoardWriter(folder) if tensorboard and main else nullcontext():
            return _Loop(run, folder, progress if progress and main else SILENT).go()


@contextmanager
def memory_explained(task: TrainingTask) -> Iterator[None]:
    """Out of memory, in words: which settings to lower."""
    try:
        yield
    except RuntimeError as error:
        short = isinstance(error, torch.cuda.OutOfMemoryError) or "allocate memory" in str(error)
        if not short:
            raise
        lower = " or ".join(
            f"{task.section}.{name} (now {getattr(task.settings, name)})"
            for name in task.memory_settings
        )
        raise TrainingError(f"out of memory: lower {lower}") from None


def _begin(run: TrainingRun, folder: ModelFolder, *, resume: bool) -> None:
    """Resume the checkpoint that is there, or leave a first one.

    What the model is used with comes first, then the first checkpoint, and the model last: a
    folder with a model has its space, whenever the run is killed, and one with a model and no
    checkpoint is never one of ours that was killed.
    """
    main = run.accelerator.is_main_process
    if main and not resume:
        folder.clear()
    wait_for_all(run.accelerator)
    checkpoint = folder.load_checkpoint()
    wait_for_all(run.accelerator)
    if checkpoint:
        run.resume(*checkpoint)
    if main:
        run.task.save_beside(folder.folder)
        if not checkpoint:
            folder.save_checkpoint(run.tensors(), run.record)
        folder.forget_after(run.record.step)


class _Loop:
    """Step after step, with everything that is due between them."""

    def __init__(self, run: TrainingRun, folder: ModelFolder, progress: TrainProgress) -> None:
        self.run, self.folder, self.progress = run, folder, progress
        self.settings, self.record = run.settings, run.record
        self.main = run.accelerator.is_main_process
        self.first = self.record.step
        self.began = perf_counter() - self.record.seconds  # as if all runs had been one
        self.here = perf_counter()  # where the steps of this run began
        self.points = 0

    def go(self) -> Trained:
        record = self.record
        if not record.history:
            self._evaluate()
        if self.main:
            self._save_model()
        last = self.first if record.stopped else self.settings.steps
        steps = range(self.first + 1, last + 1)
        self.here = perf_counter()
        with closing(made_ahead(self.run.batch, steps)) as batches:
            for step in steps:
                self._step(step, batches)
                if record.stopped:
                    break
        return Trained(
            folder=self.folder.folder,
            parameters=self.run.parameters,
            began_at=self.first,
            steps=record.step,
            stopped=record.stopped,
            best_step=record.best_step,
            score=record.best["score"],
            untrained=record.history[0]["score"],
            seconds=record.seconds,
            main=self.main,
        )

    def _step(self, step: int, batches: Iterator[StepBatch]) -> None:
        """A step, and after it the log, evaluation, checkpoint and model that are due."""
        record, settings = self.record, self.settings
        before = perf_counter()
        batch = next(batches)
        waited = perf_counter() - before
        measured = self.run.step(step, batch)
        record.step = step
        self.points += batch.points * self.run.accelerator.num_processes
        self._report({"step": step, **measured, "waited": waited})
        last = step == settings.steps
        better = self._evaluate() if last or step % settings.evaluate_every == 0 else False
        if last or record.waited >= settings.patience:
            record.stopped = "steps" if last else "patience"
        record.seconds = perf_counter() - self.began
        if not self.main:
            return
        # A checkpoint amid divergence would only diverge again.
        due = step % settings.save_every == 0 and not record.above
        if due or record.stopped:
            self.folder.save_checkpoint(self.run.tensors(), record)
        if better or record.stopped:
            self._save_model()

    def _evaluate(self) -> bool:
        better = self.run.evaluate()
        if self.main:
            self.folder.log({**self.record.history[-1], "better": better})
            self._keep_weights()
        return better

    def _keep_weights(self) -> None:
        """Those of this step if it is one of the steps to keep, which others may have ceased to
        be."""
        step, most = self.record.step, self.run.task.keep_checkpoints
        kept = kept_steps(step, self.settings.evaluate_every, most)
        if step in kept:
            self.folder.save_step(weights_of(self.run.ema), step)
        self.folder.keep_steps(kept)

    def _save_model(self) -> None:
        self.run.task.settle(self.run.ema, self.record)
        card = self.run.task.card(self.folder.folder.name, self.record, self.run.parameters)
        self.folder.save_model(self.run.ema, self.run.best, self.record, card)

    def _report(self, line: dict[str, float]) -> None:
        """Log a step's line if one is due, and tell whoever watches."""
        step, seconds = int(line["step"]), perf_counter() - self.here
        pace, points = (step - self.first) / seconds, self.points / seconds
        logged = step % self.settings.log_every == 0
        if logged and self.main:
            rates = {"steps_per_second": pace}
            if points:
                rates["points_per_second"] = points
            self.folder.log({**line, **rates})
        status = TrainStatus(
            step=step,
            steps=self.settings.steps,
            loss=line["loss"],
            score=self.record.history[-1]["score"],
            steps_per_second=pace,
            points_per_second=points,
            seconds_left=(self.settings.steps - step) / pace,
            logged=logged,
        )
        self.progress.stepped(status)


def kept_steps(step: int, every: int, most: int) -> range:
    """Evaluated steps up to this one whose weights are kept: evenly spread from step 0 on, at most
    so many. Where they become too many, every second one goes.

    A function of the step alone, so that a run that was killed keeps what others keep.
    """
    while most and step // every >= most:
        every *= 2
    return range(0, step + 1 if most else 0, every)


def made_ahead(
    make: Callable[[int], T], steps: range, ahead: int = AHEAD
) -> Generator[T, None, None]:
    """What `make` gives for each step, in their order, made by a thread before it is asked for."""
    with ThreadPoolExecutor(1, "batches", initializer=_use_one_thread) as pool:
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


def _use_one_thread() -> None:
    """A thread that makes batches has no helpers: they would take turns with those of the step."""
    torch.get_num_threads()  # torch sets its own number when a thread first asks
    threadpool_limits(1, user_api="openmp")
