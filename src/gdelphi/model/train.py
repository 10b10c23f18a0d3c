"""Training of the measure transformer: what `gdelphi train` does, and what it would cost.

The loop stands in loop.py. Here is its task: random sequences of training days as batches, the loss
of losses.py, and the evaluation on validation A.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch

from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.model.batches import Batch
from gdelphi.model.card import model_card
from gdelphi.model.checkpoint import TrainingRecord
from gdelphi.model.data import TrainingData, load_training_data
from gdelphi.model.decoder_task import DECODER_FOLDER, train_decoder
from gdelphi.model.futures import AtomTable, Drawing
from gdelphi.model.loop import (
    Trained,
    TrainingRun,
    TrainProgress,
    memory_explained,
    run_training,
)
from gdelphi.model.losses import FutureSettings, LossWeights, training_loss
from gdelphi.model.network import MeasureModel
from gdelphi.model.processes import main_process_first, training_device
from gdelphi.model.task import Loss, StepBatch
from gdelphi.model.tensorboard import summary_writer
from gdelphi.model.validation import FutureSampling, evaluate

EVALUATED_FUTURES: Final = 32  # of a day that is evaluated; they take long, so they are drawn
EVALUATED_EVERY: Final = 5  # on every fifth day of validation A,
EVALUATED_CELLS: Final = 1_200  # and for no more days of streams than these
ESTIMATED_STEPS: Final = 3  # steps that a time is estimated from


class MeasureTask:
    """The next day's events from the clouds of the days before."""

    section = "train"
    diverging_ratio = 3.0
    memory_settings: tuple[str, ...] = ("batch", "points")

    def __init__(
        self, data: TrainingData, device: torch.device, futures: FutureSettings | None = None
    ) -> None:
        """`futures` says how futures are drawn and compared, if not as the settings say."""
        self.data, self.settings = data, data.settings.train
        self.batches = data.batches(device)
        self.table = AtomTable(data.arrays.pack, device)
        self.futures = futures or FutureSettings(number=self.settings.futures)
        self.weights = LossWeights(
            profiles=self.settings.profiles_weight,
            direct=self.settings.direct_weight if data.direct is None else 0.0,
            rows=self.settings.rows_weight,
            atoms=self.settings.atoms_weight,
            energy=self.settings.energy_weight,
            burn_in=min(LossWeights().burn_in, data.settings.sequences.context_days - 1),
        )

    @property
    def keep_checkpoints(self) -> int:
        return self.settings.keep_checkpoints

    def origin(self) -> dict[str, Any]:
        variant = {
            "spare_atoms": self.futures.spare_atoms,
            "energy_root": self.futures.root,
            "teach_all": self.futures.teach_all,
        }
        return {**self.data.origin(), "futures": variant}

    def model(self) -> MeasureModel:
        return self.data.model()

    def batch(self, step: int, *, process: int, processes: int) -> StepBatch:
        """Random streams, with days that end on random training days."""
        seeds = [self.settings.seed, step, process]
        random = np.random.default_rng(seeds)
        size = self.settings.batch // processes
        streams = random.integers(len(self.data.arrays.shares), size=size)
        batch = self.batches.make(streams, random.choice(self.data.ends, size=size), random)
        torch_seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> 1)
        return StepBatch(batch, torch_seed, int((batch.past.weights > 0).sum()))

    def loss(self, model: MeasureModel, data: Batch) -> Loss:
        return training_loss(model, data, self.weights, table=self.table, futures=self.futures)

    def evaluate(self, model: MeasureModel) -> dict[str, Any]:
        drawing = Drawing(EVALUATED_FUTURES, self.settings.slots, self.futures.spare_atoms)
        days, streams = self.data.validation_a, len(self.data.arrays.shares)
        every = max(EVALUATED_EVERY, -(-len(days) * streams // EVALUATED_CELLS))
        sampling = FutureSampling(self.table, drawing, every=every)
        return evaluate(model, self.batches, self.data.arrays, days, sampling=sampling).figures()

    def settle(self, model: MeasureModel, record: TrainingRecord) -> None:
        """Nothing is chosen there."""

    def save_beside(self, folder: Path) -> None:
        self.data.space.save(folder / "space")
        self.data.stack.copy(folder)

    def card(self, name: str, record: TrainingRecord, parameters: int) -> str:
        return model_card(name, self.origin(), record, parameters)


def train(
    settings: Settings,
    out: Path,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    tensorboard: bool = False,
    futures: FutureSettings | None = None,
    own_stack: bool = False,
) -> Trained:
    """Train a model into a folder, and its decoder into a folder of it; resume an earlier run of
    the same settings and data.

    With `tensorboard`, its metrics are shown there too. `futures` is for studies of how they are
    drawn and compared. With `own_stack` the cell network is fitted in the model's folder, for
    trainings at the same time: there is one only beside the stack that they share.
    """
    if tensorboard:
        summary_writer()  # before the long work: is it installed?
    with training_device(settings.train) as accelerator:
        watcher = progress if progress and accelerator.is_main_process else SILENT
        with main_process_first(accelerator):
            data = load_training_data(
                settings,
                watcher.packed,
                watcher.stage,
                device=accelerator.device,
                stack_in=out if own_stack else None,
            )
        watcher.stage("training the measure transformer")
        task = MeasureTask(data, accelerator.device, futures)
        trained = run_training(
            task, out, accelerator, resume=resume, progress=watcher, tensorboard=tensorboard
        )
        if settings.train.decoder_steps:
            watcher.stage("training the measure decoder")
            train_decoder(data, out / DECODER_FOLDER, accelerator, resume=resume)
        return trained


# --- what it would cost ---------------------------------------------------------------------------


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
    """gradients, moments and EMA weights"""
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
    with training_device(settings.train) as accelerator:
        watcher = progress or SILENT
        data = load_training_data(settings, watcher.packed, watcher.stage, with_stack=False)
        task = MeasureTask(data, accelerator.device)
        on_gpu = accelerator.device.type == "cuda"
        making, stepping = [], []
        with memory_explained(task):
            run = TrainingRun(task, accelerator)
            for step in range(ESTIMATED_STEPS + 1):
                began = perf_counter()
                batch = run.batch(step)
                made = perf_counter()
                run.step(step, batch)
                if on_gpu:
                    torch.cuda.synchronize()
                making.append(made - began)
                stepping.append(perf_counter() - made)
        # The first step warms up: caches, memory, compiled kernels.
        seconds_per_batch, seconds_per_step = median(making[1:]), median(stepping[1:])
        parameter_bytes = sum(parameter.nbytes for parameter in run.model.parameters())
        streams = len(data.arrays.shares)
        days_per_step = settings.train.batch * settings.sequences.context_days
        steps_per_epoch = -(-streams * len(data.ends) // days_per_step)
        return TrainingEstimate(
            device=str(accelerator.device),
            precision="bfloat16" if accelerator.mixed_precision == "bf16" else "float32",
            streams=streams,
            days=len(data.ends),
            parameters=run.parameters,
            parameter_bytes=parameter_bytes,
            optimizer_bytes=4 * parameter_bytes,
            batch_bytes=sum(tensor.nbytes for tensor in (*batch.data.past, batch.data.outcomes)),
            peak_bytes=torch.cuda.max_memory_allocated() if on_gpu else None,
            seconds_per_batch=seconds_per_batch,
            seconds_per_step=seconds_per_step,
            steps_per_epoch=steps_per_epoch,
            seconds_per_epoch=steps_per_epoch * seconds_per_step,
            seconds_in_all=settings.train.steps * seconds_per_step,
        )
