"""Checkpoints: a trained model on disk, and the state from which a run goes on.

    model.safetensors, config.json  the model, in the convention of `from_pretrained`
    training.json                   settings, data and space that it comes from, scores, history
    metrics.jsonl                   a line for every few steps and for every evaluation
    space/                          the space that its points lie in
    README.md                       the model card, written from what was measured
    state/run.safetensors           weights, means, moments, and in its header the run's record

Nothing is ever pickled: tensors go through safetensors and numbers through JSON. The state is one
file, since one file can take the place of another in a single moment and a folder cannot. There is
no state of random numbers: those of a step are a function of seed, step and process.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from gdelphi import __version__
from gdelphi.common.errors import TrainingError
from gdelphi.common.files import alone
from gdelphi.measures.space import Space, load_space
from gdelphi.model.network import MeasureConfig, MeasureModel

FORMAT: Final = 1
FREE: Final = ("train.log_every", "train.save_every", "train.device")
"""settings that may be others when a run goes on"""
Tensors = dict[str, Tensor]


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
        return next(each for each in self.history if each["step"] == self.best_step)


class Checkpoint(NamedTuple):
    """A trained model, for use."""

    model: MeasureModel
    space: Space
    training: dict[str, Any]
    """what training.json says"""


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """The model that a training has left in a folder."""
    if not (folder / "model.safetensors").exists():
        raise TrainingError(f"no model in {folder}: `gdelphi train --out {folder}` makes one")
    try:
        training = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        config = MeasureConfig.from_pretrained(folder, local_files_only=True)
        model = MeasureModel(config)
        model.load_state_dict(load_file(folder / "model.safetensors"))
        known = training["origin"]["space"]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"the model in {folder} cannot be read ({_reason(error)}): train it again with "
            f"`gdelphi train --out {folder} --fresh`"
        ) from None
    space = load_space(folder / "space")
    if space.fingerprint != known:
        raise TrainingError(
            f"{folder} has a model of the space {known} beside the space {space.fingerprint}: "
            "files of two models are mixed; train again"
        )
    model.to(torch.device(device)).eval()  # type: ignore[arg-type]
    return Checkpoint(model, space, training)


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class CheckpointFolder:
    """Where a run writes. `origin` is what it is made from: settings, pack, space, splits."""

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        self.folder = folder
        self.origin: dict[str, Any] = json.loads(json.dumps(origin))
        self._state = folder / "state" / "run.safetensors"
        self._metrics = folder / "metrics.jsonl"
        self.watched: Callable[[Mapping[str, Any]], None] | None = None
        """is told each line of metrics"""

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
            (self.folder / name).unlink(missing_ok=True)
        for path in self.folder.glob("published-*.json"):
            path.unlink()  # they were fitted to the model that goes
        self._metrics.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def load_state(self) -> tuple[Tensors, TrainingRecord] | None:
        """The state of an earlier run of the same origin; None where nothing is."""
        if not self._state.exists():
            self._refuse_model()
            return None
        try:
            with safe_open(self._state, "pt") as file:
                said = file.metadata()
            origin, record = (
                json.loads(said["origin"]),
                TrainingRecord(**json.loads(said["record"])),
            )
            tensors = load_file(self._state)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise TrainingError(
                f"{self._state} cannot be read ({_reason(error)}): start anew with --fresh"
            ) from None
        self._refuse_others(origin)
        return tensors, record

    def _refuse_model(self) -> None:
        for name in ("model.safetensors", "training.json"):
            if (self.folder / name).exists():
                raise TrainingError(
                    f"{self.folder} holds a model, but no state to go on from: take another --out, "
                    "or --fresh to train in its place"
                )

    def _refuse_others(self, origin: Mapping[str, Any]) -> None:
        found = differences(origin, self.origin)
        if found:
            raise TrainingError(
                f"{self.folder} holds a run of another origin: {'; '.join(found)}. Take another "
                "--out, or --fresh to train in its place"
            )

    def save_state(self, tensors: Tensors, record: TrainingRecord) -> None:
        """Take the place of the state that is there, in one moment."""
        self._state.parent.mkdir(parents=True, exist_ok=True)
        said = {"origin": json.dumps(self.origin), "record": json.dumps(asdict(record))}
        _save(tensors, self._state, said)

    def save_model(self, model: PreTrainedModel, tensors: Tensors, record: TrainingRecord) -> None:
        """The model with these weights, what it comes from and what was measured."""
        config = model.config
        config.architectures = [type(model).__name__]
        _write(self.folder / "config.json", config.to_json_string())
        _save(tensors, self.folder / "model.safetensors", {"format": "pt"})
        said = {"format": FORMAT, "gdelphi": __version__, "origin": self.origin, **asdict(record)}
        _write(self.folder / "training.json", json.dumps(said, indent=2) + "\n")
        size = sum(each.numel() for each in model.parameters())
        _write(self.folder / "README.md", self.card(record, size))

    def card(self, record: TrainingRecord, parameters: int) -> str:
        """What README.md says."""
        return model_card(self.folder.name, self.origin, record, parameters)

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.watched is not None:
            self.watched(line)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl so far."""
        return read_metrics(self.folder) if self._metrics.exists() else []

    def forget_after(self, step: int) -> None:
        """Drop lines of steps that will be done again, and one that was cut off."""
        if not self._metrics.exists():
            return
        kept = [line for line in self.lines() if line["step"] <= step]
        _write(self._metrics, "".join(json.dumps(line) + "\n" for line in kept))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; the last one may be cut off, and is left out."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        raise TrainingError(f"no {path}: `gdelphi train --out {folder}` writes it")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _save(tensors: Tensors, path: Path, said: dict[str, str]) -> None:
    beside = path.with_name(f".{path.name}.part")
    save_file({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, beside,
              metadata=said)  # fmt: skip
    beside.replace(path)


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


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


# --- the model card -------------------------------------------------------------------------------


def model_card(
    name: str, origin: Mapping[str, Any], record: TrainingRecord, parameters: int
) -> str:
    """What somebody who finds the folder has to know."""
    pack, split, train = origin["pack"], origin["split"], origin["train"]
    sequences = origin["sequences"]
    first, best = record.history[0], record.best
    return f"""# {name}

A measure transformer of gdelphi {__version__}: from the clouds of the last
{sequences["context_days"]} days and a memory of {sequences["memory_days"]} it says which standard
events the next day of a stream will bring.

| | |
|---|---|
| parameters | {parameters:,} (width {train["width"]}, {train["layers"]} layers) |
| streams | {len(pack["streams"])}: {", ".join(pack["streams"])} |
| trained on days | {split["train"][0]} to {split["train"][1]} |
| chosen on days | {split["validation_a"][0]} to {split["validation_a"][1]} (validation A) |
| kept step | {record.best_step} of {record.step} |
| seed | {train["seed"]} |
| space | {origin["space"]} |
| data | {pack["data"]} |

Log loss and Brier score on validation A, one day ahead. Untrained, both readings are the recency
bootstrap; the kept step was chosen on these days, so its figures flatter a little.

{_score_table(first, best)}

    from gdelphi.model.checkpoint import load_checkpoint
    model, space, training = load_checkpoint("{name}")

The model knows the streams and the space that it was trained with, and nothing else.
"""


def _score_table(first: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    head = "| reading | target | log loss | untrained | Brier score | untrained |"
    lines = [head, "|---|---|---|---|---|---|"]
    for reading, targets in best["log_loss"].items():
        for target, loss in targets.items():
            brier, before = best["brier"][reading][target], first["brier"][reading][target]
            cells = [loss, first["log_loss"][reading][target], brier, before]
            shown = " | ".join("none" if cell is None else f"{cell:.4f}" for cell in cells)
            lines.append(f"| {reading} | {target} | {shown} |")
    return "\n".join(lines)
