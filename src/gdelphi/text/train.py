"""Training of the text models: what `gdelphi text train` does.

The loop is that of `gdelphi train` (model/loop.py); what is learned stands in forecaster_task.py
and namer_task.py. Device and precision are those of the settings `train.device` and
`train.precision`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelerate import Accelerator

from gdelphi.common.errors import ConfigError
from gdelphi.common.progress import SILENT
from gdelphi.common.settings import Settings
from gdelphi.model.loop import Trained, TrainProgress, run_training
from gdelphi.model.processes import main_process_first, training_device
from gdelphi.model.tensorboard import summary_writer
from gdelphi.text.data import load_text_data, with_stack
from gdelphi.text.forecaster_task import ForecasterTask
from gdelphi.text.namer_task import NamerTask

TASKS: Final = {task.kind: task for task in (ForecasterTask, NamerTask)}


@dataclass(frozen=True)
class TextTrained(Trained):
    """What a run did."""

    kind: str
    """forecaster or namer"""
    words: int
    """of its vocabulary"""


def train_text_model(
    settings: Settings,
    kind: str,
    out: Path,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    tensorboard: bool = False,
) -> TextTrained:
    """Train the forecaster or the namer into a folder; resume an earlier run of the same settings
    and data. With `tensorboard`, its metrics are shown there too."""
    if kind not in TASKS:
        raise ConfigError(f"no text model is called {kind!r}: {', '.join(TASKS)}")
    if tensorboard:
        summary_writer()  # before the long work: is it installed?
    with training_device(settings.train) as accelerator:
        watcher = progress if progress and accelerator.is_main_process else SILENT
        with main_process_first(accelerator):
            data = load_text_data(settings, watcher.packed)
            if kind == ForecasterTask.kind:
                data = with_stack(data, watcher.stage)
        return train_task(
            TASKS[kind](data), out, accelerator,
            resume=resume, progress=watcher, tensorboard=tensorboard,
        )  # fmt: skip


def train_task(
    task: ForecasterTask | NamerTask,
    out: Path,
    accelerator: Accelerator,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    tensorboard: bool = False,
) -> TextTrained:
    """The same of a task that is there, on a device."""
    trained = run_training(
        task, out, accelerator, resume=resume, progress=progress, tensorboard=tensorboard
    )
    return TextTrained(**vars(trained), kind=task.kind, words=len(task.vocabulary))
