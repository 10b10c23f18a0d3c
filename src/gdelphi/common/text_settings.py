"""Settings of words: how the text forecaster and the namer are trained, and their sizes."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TextSettings(BaseModel):
    """How models of words are trained, and their sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(2500, ge=1, description="steps of the forecaster, at most")
    namer_steps: int = Field(5000, ge=1, description="steps of the namer, at most")
    batch: int = Field(16, ge=1, description="sequences of a step; of the namer 4 times as many")
    learning_rate: float = Field(3e-3, gt=0, description="of AdamW, at its highest")
    warm_up: int = Field(50, ge=0, description="steps in which the learning rate rises")
    weight_decay: float = Field(0.05, ge=0, description="of matrices; norms have none")
    clip: float = Field(1.0, gt=0, description="length that gradients are cut to")
    ema: float = Field(0.99, ge=0, lt=1, description="share of the old in the mean of weights")
    patience: int = Field(6, ge=1, description="evaluations without improvement before stopping")
    evaluate_every: int = Field(100, ge=1, description="steps between evaluations on validation A")
    evaluate_days: int = Field(12, ge=1, description="days of validation A that are looked at")
    save_every: int = Field(100, ge=1, description="steps between states that a run goes on from")
    log_every: int = Field(20, ge=1, description="steps between lines of metrics.jsonl")
    seed: int = Field(0, ge=0, description="the same seed gives the same model")
    width: int = Field(96, ge=4, description="numbers in a token")
    inner: int = Field(192, ge=4, description="numbers in the middle of a block")
    layers: int = Field(2, ge=1, description="blocks of the encoder, and of the decoder")
    heads: int = Field(4, ge=1, description="heads of attention; they share the width evenly")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    whole_days: int = Field(
        3, ge=0, description="last days whose phrases the forecaster reads one by one"
    )
    fewest: int = Field(3, ge=1, description="times that a word has to occur on training days")
    most_words: int = Field(8000, ge=200, description="words of the vocabulary, at most")
    made_actors: int = Field(
        2000, ge=0, description="actors that the namer learns from though no day had them"
    )
    pretrained: Path | None = Field(
        None, description="folder of a pretrained T5, in place of a new one of these sizes"
    )

    @model_validator(mode="after")
    def _share_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must divide by heads ({self.heads})")
        return self
