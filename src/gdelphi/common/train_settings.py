"""Settings of training: how a model is trained, and its sizes."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TrainSettings(BaseModel):
    """How a model is trained, and its sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(500, ge=1, description="steps, at most")
    batch: int = Field(12, ge=1, description="sequences of a step, over all processes")
    points: int = Field(64, ge=1, description="points of a cloud that a step looks at, at most")
    learning_rate: float = Field(1e-3, gt=0, description="of AdamW, at its highest")
    warm_up: int = Field(50, ge=0, description="steps in which the learning rate rises")
    weight_decay: float = Field(1.0, ge=0, description="of matrices; biases and norms have none")
    clip: float = Field(1.0, gt=0, description="length that gradients are cut to")
    ema: float = Field(0.99, ge=0, lt=1, description="share of the old in the mean of weights")
    patience: int = Field(6, ge=1, description="evaluations without improvement before stopping")
    evaluate_every: int = Field(50, ge=1, description="steps between evaluations on validation A")
    save_every: int = Field(50, ge=1, description="steps between states that a run goes on from")
    log_every: int = Field(10, ge=1, description="steps between lines of metrics.jsonl")
    seed: int = Field(0, ge=0, description="the same seed gives the same model")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto, cpu, cuda")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of products; auto is bfloat16 on a GPU that has it"
    )
    width: int = Field(96, ge=4, description="numbers in a token")
    layers: int = Field(2, ge=0, description="blocks of the decoder")
    heads: int = Field(4, ge=1, description="heads of attention; they share the width evenly")
    queries: int = Field(3, ge=1, description="tokens that a cloud becomes")
    day_heads: int = Field(4, ge=1, description="heads of the attention over past days")
    slots: int = Field(12, ge=1, description="atoms of a future, at most")
    transport_layers: int = Field(2, ge=0, description="blocks that move atoms; 0 leaves them")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of activations dropped in training")
    profiles_weight: float = Field(1.0, ge=0, description="of the profile reading in the loss")
    direct_weight: float = Field(1.0, ge=0, description="of the direct reading in the loss")
    rows_weight: float = Field(0.2, ge=0, description="of the number of rows in the loss")
    atoms_weight: float = Field(0.1, ge=0, description="of the reading of atoms in the loss")
    energy_weight: float = Field(1.0, ge=0, description="of the futures' energy score in the loss")
    energy_root: bool = Field(
        True, description="take the root of Sinkhorn's divergence, not the divergence itself"
    )
    futures: int = Field(32, ge=2, description="futures drawn for a day in training")
    origins: int = Field(1, ge=1, description="days of a sequence that futures are drawn for")
    futures_reach: bool = Field(
        False, description="let the losses of futures teach the whole model, not transport alone"
    )
    spare_atoms: bool = Field(True, description="offer futures atoms of the last days as well")

    @model_validator(mode="after")
    def _share_width(self) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width must be even and divide by heads ({self.heads})")
        return self
