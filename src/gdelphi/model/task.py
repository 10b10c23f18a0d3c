"""What the training loop has to know of what it trains: the interface of its tasks."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from gdelphi.model.checkpoint import TrainingRecord
from gdelphi.model.optimizer import OptimizerSettings


class LoopSettings(OptimizerSettings, Protocol):
    """Settings of a training, whatever is trained."""

    @property
    def batch(self) -> int: ...
    @property
    def clip(self) -> float: ...
    @property
    def ema(self) -> float: ...
    @property
    def patience(self) -> int: ...
    @property
    def evaluate_every(self) -> int: ...
    @property
    def save_every(self) -> int: ...
    @property
    def log_every(self) -> int: ...
    @property
    def seed(self) -> int: ...


class StepBatch(NamedTuple):
    """One process's share of a step."""

    data: Any
    """what the task's loss is taken of"""
    seed: int
    """of torch's random numbers in this step: dropout, drawn futures"""
    points: int = 0
    """of clouds in it"""


class Loss(NamedTuple):
    """A loss, and its parts for the log."""

    total: Tensor
    parts: dict[str, Tensor]


class TrainingTask(Protocol):
    """What is learned, on one device."""

    section: str
    """of the settings, for messages: train or text"""
    diverging_ratio: float
    """a loss so many times the lowest, for DIVERGING_STEPS steps, is divergence"""
    memory_settings: tuple[str, ...]
    """settings that a step's memory grows with"""

    @property
    def keep_checkpoints(self) -> int:
        """Of how many steps weights are kept, at most."""

    @property
    def settings(self) -> LoopSettings: ...

    def origin(self) -> dict[str, Any]:
        """Settings and data that decide what a run ends with."""

    def model(self) -> nn.Module:
        """A model before training, with a `config` that says its sizes."""

    def batch(self, step: int, *, process: int, processes: int) -> StepBatch:
        """A process's share of a step, from seed, step and process alone."""

    def loss(self, model: Any, data: Any) -> Loss:
        """The loss of a batch's data."""

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Figures on validation A, the lower `score` the better."""

    def settle(self, model: Any, record: TrainingRecord) -> None:
        """Write into the model's config what the evaluation of the kept step has chosen."""

    def save_beside(self, folder: Path) -> None:
        """Write what the model is used with: the space of its points, the words it knows."""

    def card(self, name: str, record: TrainingRecord, parameters: int) -> str:
        """The model card of the step that was kept."""
