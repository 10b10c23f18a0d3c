"""The sizes of a measure transformer, and the small numbers that its parts share."""

from dataclasses import dataclass

from torch import Tensor

from gdelphi.common.errors import TrainingError
from gdelphi.common.sections import CAUSAL_SINKHORN, AttentionKind, FlowGradient
from gdelphi.model.saved import SavedConfig

TARGET_COUNT = 3  # occurs, headline, surge
WEEK = 7
LIMIT = 1e-6  # probabilities are held this far from 0 and 1 before logits are taken
TINY = 1e-12


@dataclass
class MeasureConfig(SavedConfig):
    """The sizes of a model."""

    model_type = "gdelphi_measure"

    dimension: int = 96
    features: int = 75
    codes: int = 20
    width: int = 96
    queries: int = 3
    layers: int = 2
    heads: int = 4
    context_days: int = 50
    memory_days: int = 365
    day_heads: int = 4
    half_lives: tuple[float, ...] = (7.0, 30.0, 90.0, 365.0)
    lag_days: int = 14
    cell_width: int = 64
    transport_layers: int = 2
    slots: int = 12
    event_dimension: int = 32
    finest: int = 290
    dropout: float = 0.2
    cloud_attention: AttentionKind = "softmax"
    decoder_attention: AttentionKind = "softmax"
    transport: str = "blocks"
    transport_steps: int = 4
    transport_gradient: FlowGradient = "backpropagation"

    def __post_init__(self) -> None:
        self.half_lives = tuple(self.half_lives)
        if self.decoder_attention == "sinkhorn":
            raise TrainingError(f"decoder_attention: {CAUSAL_SINKHORN}")


def logits_of(probabilities: Tensor) -> Tensor:
    """ln(p / (1 - p)), p held LIMIT away from 0 and 1."""
    return probabilities.clamp(LIMIT, 1 - LIMIT).logit()
