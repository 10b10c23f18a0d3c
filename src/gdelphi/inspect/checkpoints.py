"""The model at several steps of its training: what the information plane is drawn over.

    untrained               step 0 as the training kept it, or else weights drawn anew
    on the way              the steps that `train.keep_checkpoints` has kept
    where the run stands    its checkpoint, from which it would be resumed
    the model itself        the step that did best on validation A

A folder may have few of them: a model in use is a copy without its checkpoints. What cannot be
read is left out and named.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from gdelphi.common.checksums import is_damaged
from gdelphi.inspect.subject import Subject
from gdelphi.model.checkpoint import STATE, step_files
from gdelphi.model.network import MeasureModel
from gdelphi.model.optimizer import Tensors, set_weights

RUN = "run.safetensors"
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)


class Checkpoints(NamedTuple):
    """Models by their steps, in the order of training."""

    models: Mapping[int, MeasureModel]
    kept: int
    """the step of the model that is inspected"""
    drawn: bool
    """whether step 0 is not the run's own beginning, but another one"""
    unreadable: tuple[str, ...]
    """names of files"""


def checkpoints(subject: Subject) -> Checkpoints:
    """All that the model's folder has."""
    kept = int(subject.trained.training.get("best_step", 0))
    models, unreadable = {kept: subject.model}, []
    files = {path: step for step, path in step_files(subject.folder).items()}
    run = subject.folder / STATE / RUN
    for path in (*files, *([run] if run.exists() else ())):
        try:
            step, weights = _read(path, files.get(path))
            if step not in models:
                models[step] = _with_weights(subject, weights)
        except UNREADABLE:
            unreadable.append(path.name)
    drawn = 0 not in models
    if drawn:
        models[0] = _untrained(subject)
    for model in models.values():
        model.train(False)
    return Checkpoints(dict(sorted(models.items())), kept, drawn, tuple(unreadable))


def _read(path: Path, step: int | None) -> tuple[int, Tensors]:
    """Step and weights of a file; a run's checkpoint knows its own step."""
    if is_damaged(path):
        raise ValueError("not what was written")
    if step is not None:
        return step, load_file(path)
    with safe_open(path, "pt") as file:
        record = json.loads(file.metadata()["record"])
        names = [name for name in file.keys() if name.startswith("mean.")]  # noqa: SIM118
        return int(record["step"]), {
            name.removeprefix("mean."): file.get_tensor(name) for name in names
        }


def _with_weights(subject: Subject, weights: Tensors) -> MeasureModel:
    model = MeasureModel(subject.model.config)
    set_weights(model, weights)
    return model


def _untrained(subject: Subject) -> MeasureModel:
    with torch.random.fork_rng():
        torch.manual_seed(subject.seed)
        return MeasureModel(subject.model.config)
