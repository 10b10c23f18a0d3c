"""Training of models of words: the loop that the forecaster and the namer share.

The conventions are those of `gdelphi train`: the random numbers of a step are a function of seed
and step, so a run that was killed ends like one that was not; the running mean of weights is what
is judged on validation A and kept; the folder has the same files, and the vocabulary beside them.
Where only some parameters are trained, only these are averaged, kept and saved. One process, on the
device that `train.device` and `train.precision` say.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from gdelphi import __version__
from gdelphi.common.errors import TrainingError
from gdelphi.common.progress import SILENT
from gdelphi.common.text_settings import TextSettings
from gdelphi.model.checkpoint import (
    CheckpointFolder,
    Tensors,
    TrainingRecord,
)
from gdelphi.model.data import accelerator_for
from gdelphi.model.optimizer import (
    ema_copy,
    learning_rate,
    moments_of,
    optimizer_for,
    own_random_numbers,
    take_moments,
    trained_parameters,
    update_ema,
)
from gdelphi.model.tensorboard import TensorBoardWriter, summary_writer
from gdelphi.text.forecaster_task import TextData

FREE = ("save_every", "log_every")  # settings that may be others when a run goes on


class TextPulse(NamedTuple):
    """Where a run stands, after a step."""

    step: int
    steps: int
    loss: float
    """nats a word"""
    score: float
    steps_per_second: float
    seconds_left: float
    logged: bool


class TextProgress(Protocol):
    """Is told how far a run is."""

    def packed(self, done: int, total: int, points: int) -> None: ...
    def stepped(self, pulse: TextPulse) -> None: ...


class Words(Protocol):
    """What a model writes with."""

    def __len__(self) -> int: ...
    def save(self, folder: Path) -> None: ...


class TextTask(Protocol):
    """What is to be learned."""

    kind: str
    ground: TextData
    settings: TextSettings
    unused: frozenset[str]
    """settings that it does not depend on"""

    @property
    def vocabulary(self) -> Words: ...

    def origin(self) -> dict[str, Any]:
        """Data that decides what a run ends with."""

    def model(self) -> Any:
        """A model before training."""

    def loss(self, model: Any, random: np.random.Generator) -> tuple[Tensor, int]:
        """Of a random batch: the sum over words, and how many they are; where the model is."""

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Figures on validation A, the lower `score` the better."""

    def about(self) -> str:
        """What the model does, for its card."""


@dataclass(frozen=True)
class TextTrained:
    """What a run did."""

    kind: str
    folder: Path
    parameters: int
    learned: int
    """of these, those that were trained"""
    words: int
    began_at: int
    steps: int
    stopped: str
    best_step: int
    score: float
    untrained: float
    seconds: float


class TextFolder(CheckpointFolder):
    """Where a run of words writes."""

    def __init__(self, folder: Path, task: TextTask) -> None:
        settings = task.settings.model_dump(mode="json", exclude={*FREE, *task.unused})
        super().__init__(folder, {"kind": task.kind, "text": settings, **task.origin()})
        self._about = task.about()
        self._vocabulary = task.vocabulary

    def save_model(self, model: Any, tensors: Tensors, record: TrainingRecord) -> None:
        self._vocabulary.save(self.folder)
        super().save_model(model, tensors, record)

    def card(self, record: TrainingRecord, parameters: int) -> str:
        first, best = record.history[0], record.best
        names = [name for name in best if name not in ("step", "better")]
        rows = "\n".join(f"| {name} | {best[name]:.4f} | {first[name]:.4f} |" for name in names)
        return f"""# {self.folder.name}

{self._about}

Made by gdelphi {__version__} with `gdelphi text train`: {parameters:,} parameters,
{len(self._vocabulary):,} words, step {record.best_step} of {record.step} kept, seed
{self.origin["text"]["seed"]}.

Figures on validation A, on which the kept step was chosen:

| figure | kept step | untrained |
|---|---|---|
{rows}
"""


def train_task(
    task: TextTask,
    out: Path,
    *,
    resume: bool = True,
    progress: TextProgress | None = None,
    board: bool = False,
) -> TextTrained:
    """Train into a folder; go on where an earlier run of the same settings and data was. With a
    board, its metrics are shown in TensorBoard too."""
    if board:
        summary_writer()
    folder = TextFolder(out, task)
    accelerator = accelerator_for(task.ground.settings.train)
    try:
        with folder.alone(), own_random_numbers(accelerator.device):
            run = _Run(task, accelerator)
            _begin(run, folder, resume=resume)
            with TensorBoardWriter(folder) if board else nullcontext():
                return _drive(run, folder, progress or SILENT)
    finally:
        accelerator.end_training()


def rehearse_task(
    task: TextTask, steps: int = 3, *, clock: Callable[[], float] = perf_counter
) -> float:
    """Seconds that a step takes, by a few that are forgotten; the first is not counted."""
    accelerator = accelerator_for(task.ground.settings.train)
    with own_random_numbers(accelerator.device):
        run = _Run(task, accelerator)
        run.step(1)
        began = clock()
        for step in range(2, steps + 2):
            run.step(step)
        return (clock() - began) / steps


def _begin(run: "_Run", folder: TextFolder, *, resume: bool) -> None:
    if not resume:
        folder.clear()
    state = folder.load_state()
    if state:
        run.go_on_from(*state)
    else:
        folder.save_state(run.tensors(), run.record)
    folder.forget_after(run.record.step)


def _drive(run: "_Run", folder: TextFolder, progress: TextProgress) -> TextTrained:
    record, settings = run.record, run.settings
    first, here = record.step, perf_counter()
    before = record.seconds
    if not record.history:
        folder.log({**run.evaluate(), "better": True})
    folder.save_model(run.mean, run.best, record)
    last = first if record.stopped else settings.steps
    for step in range(first + 1, last + 1):
        said = run.step(step)
        pace = (step - first) / (perf_counter() - here)
        logged = step % settings.log_every == 0
        if logged:
            folder.log({"step": step, **said, "steps_per_second": pace})
        score = record.history[-1]["score"]
        left = (settings.steps - step) / pace
        progress.stepped(TextPulse(step, settings.steps, said["loss"], score, pace, left, logged))
        better = _judge(run, folder, step)
        record.seconds = before + perf_counter() - here
        if step % settings.save_every == 0 or record.stopped:
            folder.save_state(run.tensors(), record)
        if better or record.stopped:
            folder.save_model(run.mean, run.best, record)
        if record.stopped:
            break
    return _done(run, folder, first)


def _judge(run: "_Run", folder: TextFolder, step: int) -> bool:
    """Evaluate when that is due; whether the weights are the best so far."""
    record, settings = run.record, run.settings
    better = False
    if step == settings.steps or step % settings.evaluate_every == 0:
        said = run.evaluate()
        better = record.best_step == step
        folder.log({**said, "better": better})
    if step == settings.steps or record.waited >= settings.patience:
        record.stopped = "steps" if step == settings.steps else "patience"
    return better


def _done(run: "_Run", folder: TextFolder, first: int) -> TextTrained:
    record = run.record
    return TextTrained(
        kind=run.task.kind,
        folder=folder.folder,
        parameters=sum(each.numel() for each in run.model.parameters()),
        learned=sum(each.numel() for _, each in trained_parameters(run.model)),
        words=len(run.task.vocabulary),
        began_at=first,
        steps=record.step,
        stopped=record.stopped,
        best_step=record.best_step,
        score=record.best["score"],
        untrained=record.history[0]["score"],
        seconds=record.seconds,
    )


class _Run:
    """A model being trained."""

    def __init__(self, task: TextTask, accelerator: Accelerator) -> None:
        self.task, self.settings, self.accelerator = task, task.settings, accelerator
        torch.manual_seed(self.settings.seed)
        self.model = task.model().to(accelerator.device).train()
        self.mean = ema_copy(self.model)
        self.best = _copied(self.mean)
        self.optimizer = optimizer_for(self.model, self.settings)
        self.record = TrainingRecord()

    def step(self, step: int) -> dict[str, float]:
        """Make a step; what was measured."""
        random = np.random.default_rng([self.settings.seed, step])
        torch.manual_seed(int(random.integers(2**62)))
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            total, number = self.task.loss(self.model, random)
        loss = total / max(number, 1)
        self.accelerator.backward(loss)
        learned = [each for _, each in trained_parameters(self.model)]
        norm = float(torch.nn.utils.clip_grad_norm_(learned, self.settings.clip))
        if not math.isfinite(norm):
            raise TrainingError(
                f"the training diverges: at step {step} the gradient is no number. The model of "
                f"step {self.record.best_step} is kept; start anew with a lower text.learning_rate"
            )
        rate = learning_rate(self.settings, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        update_ema(self.mean, self.model, ema=self.settings.ema, step=step)
        self.record.step = step
        return {"loss": float(loss.detach()), "gradient": norm, "learning_rate": rate}

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Judge the mean of weights, and keep it if it is the best."""
        record = self.record
        said = {"step": record.step, **self.task.evaluate(self.mean)}
        record.history.append(said)
        better = record.best_score is None or said["score"] < record.best_score
        record.waited = 0 if better else record.waited + 1
        if better:
            record.best_step, record.best_score = record.step, said["score"]
            self.best = _copied(self.mean)
        return said

    def tensors(self) -> Tensors:
        """Everything that the next step depends on, and the best weights."""
        found: Tensors = {}
        for prefix, model in (("weights.", self.model), ("mean.", self.mean)):
            found |= {prefix + name: each for name, each in trained_parameters(model)}
        found |= {f"best.{name}": each for name, each in self.best.items()}
        return found | moments_of(self.model, self.optimizer)

    @torch.no_grad()
    def go_on_from(self, tensors: Tensors, record: TrainingRecord) -> None:
        """Take up a state."""
        self.record = record
        device = self.accelerator.device
        self.best = {name: tensors[f"best.{name}"].to(device) for name in self.best}
        for model, prefix in ((self.model, "weights."), (self.mean, "mean.")):
            for name, parameter in trained_parameters(model):
                parameter.copy_(tensors[prefix + name])
        take_moments(self.model, self.optimizer, tensors)


def _copied(model: torch.nn.Module) -> Tensors:
    """Trained parameters, those that are used in several places once."""
    return {name: each.detach().clone() for name, each in trained_parameters(model)}
