"""The folder of a training: the trained model, and the checkpoint that a run resumes from.

    model.safetensors, config.json  the model, in the convention of `from_pretrained`
    training.json                   settings, data and space that it comes from, scores, history;
                                    written last, with the digest of the weights that it speaks of
    metrics.jsonl                   a line for every few steps and for every evaluation
    space/ or tokenizer.json        the space of its points, or the words of a text model
    README.md                       the model card, written from what was measured
    checksums.txt                   of all of these: a model that is not as it was written is not
                                    used
    state/run.safetensors           the checkpoint: weights, EMA, moments; in its header the record
    state/step-50.safetensors       EMA weights of earlier steps (`train.keep_checkpoints`), for
                                    whoever looks at how a model became what it is

Nothing is ever pickled: tensors go through safetensors and numbers through JSON. The checkpoint is
one file, since one file can take the place of another in a single moment and a folder cannot. No
state of random numbers is kept: those of a step are a function of seed, step and process.
"""

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from gdelphi import __version__
from gdelphi.common.checksums import damaged_files, forget_file, note_file, remove_file
from gdelphi.common.errors import TrainingError
from gdelphi.common.files import (
    alone,
    atomic_write,
    weights_digest,
    write_json_atomically,
    write_text_atomically,
)
from gdelphi.measures.space import Space, load_space
from gdelphi.model.config import MeasureConfig
from gdelphi.model.network import MeasureModel
from gdelphi.model.optimizer import Tensors

FORMAT: Final = 2
"""of training.json and of checkpoints; 2: parts of the split are validation_a and validation_b"""
FREE: Final = tuple(
    f"{section}.{name}"
    for section in ("train", "text")
    for name in ("log_every", "save_every", "keep_checkpoints", "device", "decoder_steps")
)
"""settings that may be others when a run is resumed"""
STATE: Final = "state"
"""folder of the checkpoint, which a model in use does without"""


@dataclass
class TrainingRecord:
    """How far a run has come. All of it goes through JSON."""

    step: int = 0
    best_step: int = 0
    best_score: float | None = None
    waited: int = 0
    """evaluations since the best one"""
    lowest: float | None = None
    """loss of a step"""
    above: int = 0
    """steps in a row whose loss was far above that"""
    stopped: str = ""
    """why: steps or patience; nothing while it runs"""
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    """evaluations, the first of them untrained"""

    @property
    def best(self) -> Mapping[str, Any]:
        """The evaluation of the step that was kept."""
        return next(line for line in self.history if line["step"] == self.best_step)


class TrainedModel(NamedTuple):
    """A trained measure transformer, for use."""

    model: MeasureModel
    space: Space
    training: dict[str, Any]
    """what training.json says"""


def load_measure_model(folder: Path, device: torch.device | str = "cpu") -> TrainedModel:
    """The measure transformer that a training has left in a folder."""
    again = f"train it again with `gdelphi train --out {folder} --fresh`"
    if not (folder / "model.safetensors").exists():
        raise TrainingError(f"no model in {folder}: `gdelphi train --out {folder}` makes one")
    training = read_training(folder, again)
    try:
        _refuse_half_written(folder, training)
        config = MeasureConfig.from_pretrained(folder)
        model = MeasureModel(config)
        model.load_state_dict(load_file(folder / "model.safetensors"))
        known = training["origin"]["space"]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"the model in {folder} cannot be read ({reason_of(error)}): {again}"
        ) from None
    space = load_space(folder / "space")
    if space.fingerprint != known:
        raise TrainingError(
            f"{folder} has a model of the space {known} beside the space {space.fingerprint}: "
            "files of two models are mixed; train again"
        )
    model.to(torch.device(device)).eval()
    return TrainedModel(model, space, training)


def read_training(folder: Path, again: str) -> dict[str, Any]:
    """What a folder's training.json says; `again` says how the model is trained again."""
    path = folder / "training.json"
    try:
        training: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        number = training["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} cannot be read ({reason_of(error)}): {again}") from None
    if number != FORMAT:
        raise TrainingError(
            f"the model in {folder} was written by another version of gdelphi (format {number}, "
            f"this one reads {FORMAT}): {again}"
        )
    check_model_files(folder, again)
    return training


def check_model_files(folder: Path, again: str) -> None:
    """Refuse a model of which a file is not what was written: it would publish other numbers."""
    damaged = damaged_files(folder, skip=(STATE,))
    if damaged:
        names = ", ".join(str(path.relative_to(folder)) for path in damaged)
        raise TrainingError(
            f"the model in {folder} cannot be read ({names}: not what was written): bring it back "
            f"from a copy, take the one before with `gdelphi promote --rollback`, or {again}"
        )


def _refuse_half_written(folder: Path, training: Mapping[str, Any]) -> None:
    """A training that is killed amid writing leaves weights that training.json does not know."""
    known = training.get("weights")  # not there in models of earlier versions
    if known is not None and known != weights_digest(folder):
        raise ValueError(
            "training.json is of other weights; a training that was killed goes on when it is run "
            "again"
        )


def reason_of(error: Exception) -> str:
    """The first line of an error's message, or its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class ModelFolder:
    """Where a run writes. `origin` is what decides its result: settings, pack, space, splits."""

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        self.folder = folder
        self.origin: dict[str, Any] = json.loads(json.dumps(origin))
        self._checkpoint = folder / STATE / "run.safetensors"
        self._metrics = folder / "metrics.jsonl"
        self.on_line: Callable[[Mapping[str, Any]], None] | None = None
        """is told each line of metrics"""
        self._noted = True

    def alone(self) -> AbstractContextManager[None]:
        """No other training writes here meanwhile."""
        return alone(
            self.folder,
            TrainingError(
                f"another training is writing to {self.folder}: wait for it, or take another --out"
            ),
        )

    def clear(self) -> None:
        """Forget an earlier run."""
        for name in ("training.json", "config.json", "model.safetensors", "README.md"):
            remove_file(self.folder / name)
        for path in self.folder.glob("published-*.json"):
            remove_file(path)  # they were fitted to the model that goes
        remove_file(self._metrics)
        self.keep_steps(())
        remove_file(self._checkpoint)

    def load_checkpoint(self) -> tuple[Tensors, TrainingRecord] | None:
        """The checkpoint of an earlier run of the same origin; None where nothing is."""
        if not self._checkpoint.exists():
            for name in ("model.safetensors", "training.json"):
                if (self.folder / name).exists():
                    raise TrainingError(
                        f"{self.folder} holds a model, but no checkpoint to resume from: take "
                        "another --out, or --fresh to train in its place"
                    )
            return None
        try:
            with safe_open(self._checkpoint, "pt") as file:
                header = file.metadata()
            origin, number = json.loads(header["origin"]), int(header.get("format", 1))
            record = TrainingRecord(**json.loads(header["record"]))
            tensors = load_file(self._checkpoint)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise TrainingError(
                f"{self._checkpoint} cannot be read ({reason_of(error)}): start anew with --fresh"
            ) from None
        if number != FORMAT:
            raise TrainingError(
                f"{self._checkpoint} was written by another version of gdelphi (format {number}, "
                f"this one reads {FORMAT}): start anew with --fresh"
            )
        changes = differences(origin, self.origin)
        if changes:
            raise TrainingError(
                f"{self.folder} holds a run of another origin: {'; '.join(changes)}. Take another "
                "--out, or --fresh to train in its place"
            )
        return tensors, record

    def save_checkpoint(self, tensors: Tensors, record: TrainingRecord) -> None:
        """Take the place of the checkpoint that is there, in one moment."""
        header = {
            "format": str(FORMAT),
            "origin": json.dumps(self.origin),
            "record": json.dumps(asdict(record)),
        }
        _save_tensors(tensors, self._checkpoint, header)

    def save_step(self, weights: Tensors, step: int) -> None:
        """Weights along the way, beside the checkpoint."""
        _save_tensors(weights, self.folder / STATE / f"step-{step}.safetensors", {"format": "pt"})

    def keep_steps(self, steps: Collection[int]) -> None:
        """Drop weights of all other steps."""
        for step, path in step_files(self.folder).items():
            if step not in steps:
                remove_file(path)

    def save_model(
        self, model: nn.Module, weights: Tensors, record: TrainingRecord, card: str
    ) -> None:
        """The model with these weights, what it comes from, what was measured, and its card."""
        config: Any = model.config
        config.architectures = [type(model).__name__]
        write_text_atomically(self.folder / "config.json", config.to_json_string())
        _save_tensors(weights, self.folder / "model.safetensors", {"format": "pt"})
        write_text_atomically(self.folder / "README.md", card)
        if self._metrics.exists():
            note_file(self._metrics, self._metrics)
            self._noted = True
        training = {
            "format": FORMAT,
            "gdelphi": __version__,
            "weights": weights_digest(self.folder),
            "origin": self.origin,
            **asdict(record),
        }
        write_json_atomically(self.folder / "training.json", training)

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl, which has a checksum when the model is next saved."""
        if self._noted:
            forget_file(self._metrics)
            self._noted = False
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.on_line is not None:
            self.on_line(line)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl so far."""
        return read_metrics(self.folder) if self._metrics.exists() else []

    def forget_after(self, step: int) -> None:
        """Drop lines and weights of steps that will be done again, and a line that was cut off."""
        self.keep_steps(range(step + 1))
        if not self._metrics.exists():
            return
        kept = [line for line in self.lines() if line["step"] <= step]
        write_text_atomically(self._metrics, "".join(json.dumps(line) + "\n" for line in kept))


def step_files(folder: Path) -> dict[int, Path]:
    """Weights that a training has kept along its way, by their steps."""
    paths = (folder / STATE).glob("step-*.safetensors")
    found = {path.stem.removeprefix("step-"): path for path in paths}
    return {int(step): found[step] for step in sorted(filter(str.isdecimal, found), key=int)}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; the last one may be cut off, and is left out."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        raise TrainingError(f"no {path}: `gdelphi train --out {folder}` writes it")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _save_tensors(tensors: Tensors, path: Path, header: dict[str, str]) -> None:
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(path) as part:
        save_file(whole, part, metadata=header)


# --- what differs ---------------------------------------------------------------------------------


def differences(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """In words, what of an origin is not as wanted."""
    old, new = _flat(there), _flat(wanted)
    return [
        f"{key} is {_short(old.get(key))} there and {_short(new.get(key))} now"
        for key in sorted(old | new)
        if old.get(key) != new.get(key) and key not in FREE
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
