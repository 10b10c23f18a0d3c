"""What the training tasks of the text models share; the loop is `gdelphi.model.loop`."""

import math
from pathlib import Path
from typing import Any

from gdelphi import __version__
from gdelphi.common.sections import TextSettings
from gdelphi.model.checkpoint import TrainingRecord
from gdelphi.text.data import TextData
from gdelphi.text.vocabulary import Vocabulary


class TextTask:
    """A text model to be trained: data, settings and vocabulary."""

    kind: str
    section = "text"
    diverging_ratio = math.inf
    """The loss in nats a word falls a hundredfold, so a multiple of its lowest is no divergence."""
    memory_settings: tuple[str, ...] = ("batch",)
    keep_checkpoints = 0

    def __init__(self, data: TextData, settings: TextSettings, vocabulary: Vocabulary) -> None:
        self.data, self.settings, self.vocabulary = data, settings, vocabulary

    def origin(self) -> dict[str, Any]:
        """Settings and data that decide what a run ends with."""
        settings = self.settings.model_dump(mode="json", exclude={"namer_steps"})
        return {"kind": self.kind, "text": settings, **self.data.origin()}

    def about(self) -> str:
        """What the model does, for its card."""
        raise NotImplementedError

    def settle(self, model: Any, record: TrainingRecord) -> None:
        """Nothing is chosen on validation A beside the step."""

    def save_beside(self, folder: Path) -> None:
        """The vocabulary, beside the weights."""
        self.vocabulary.save(folder)

    def card(self, name: str, record: TrainingRecord, parameters: int) -> str:
        """The model card of the step that was kept."""
        first, best = record.history[0], record.best
        figures = [figure for figure in best if figure not in ("step", "better")]
        rows = "\n".join(f"| {key} | {best[key]:.4f} | {first[key]:.4f} |" for key in figures)
        return f"""# {name}

{self.about()}

Made by gdelphi {__version__} with `gdelphi text train`: {parameters:,} parameters,
{len(self.vocabulary):,} words, step {record.best_step} of {record.step} kept, seed
{self.settings.seed}.

Figures on validation A, on which the kept step was chosen:

| figure | kept step | untrained |
|---|---|---|
{rows}
"""
