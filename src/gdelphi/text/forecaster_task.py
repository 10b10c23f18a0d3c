"""What the text forecaster learns: the next day's text from the texts of the days before."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gdelphi.model.task import Loss, StepBatch
from gdelphi.text.corpus import IGNORED, Corpus, Source, learn_words
from gdelphi.text.data import DrawnSequences, TextData, draw_sequences, step_random
from gdelphi.text.forecaster import KIND
from gdelphi.text.t5 import embed_source, t5_of, text_loss
from gdelphi.text.task import TextTask


class TextBatch(NamedTuple):
    """Contexts, and the texts that are to be written."""

    source: Source
    labels: Tensor
    """[batch, word]; IGNORED behind the end"""

    @property
    def words(self) -> int:
        """How many words are to be written."""
        return int((self.labels != IGNORED).sum())


class ForecasterTask(TextTask):
    """Random sequences of training days, next days as texts."""

    kind = KIND

    def __init__(self, data: TextData) -> None:
        settings, context = data.settings.text, data.settings.sequences.context_days
        self._targets = data.targets("train")
        last = int(self._targets[-1])
        super().__init__(
            data,
            settings,
            learn_words(
                data.descriptors, last + 1, context=context, fewest=settings.fewest,
                expected=data.expected,
            ),
        )  # fmt: skip
        self._evaluated = data.evaluated_days()
        self.corpus = Corpus(
            data.descriptors, self.vocabulary, context=context, whole_days=settings.whole_days,
            expected=data.expected,
        )  # fmt: skip
        self.corpus.expect([*self._targets.tolist(), *self._evaluated.tolist()])

    def model(self) -> nn.Module:
        return t5_of(self.settings, len(self.vocabulary))

    def batch(self, step: int, *, process: int, processes: int) -> StepBatch:
        random, torch_seed = step_random(self.settings.seed, step, process)
        size = self.settings.batch // processes
        drawn = draw_sequences(self.data, self._targets, size, random)
        return StepBatch(self.texts(drawn), torch_seed)

    def texts(self, drawn: DrawnSequences) -> TextBatch:
        """The texts of sequences."""
        streams, targets, variants = drawn
        labels = self.corpus.labels(streams, targets, variants[:, -1])
        source = self.corpus.source(streams, targets, variants[:, :-1])
        return TextBatch(source, torch.from_numpy(labels))

    def loss(self, model: Any, data: TextBatch) -> Loss:
        return Loss(_nats(model, data) / max(data.words, 1), {})

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Nats of a day's own text, and of one of its words."""
        streams = np.arange(len(self.data.pack.facts.streams))
        own = np.zeros((len(streams), self.corpus.context + 1), dtype=np.int64)
        nats = words = days = 0.0
        for day in self._evaluated:
            batch = self.texts(DrawnSequences(streams, np.full(len(streams), day), own))
            nats += float(_nats(model, batch))
            words, days = words + batch.words, days + len(streams)
        return {"score": nats / days, "nats_a_word": nats / words}

    def save_beside(self, folder: Path) -> None:
        """The vocabulary, and the stack whose answers it reads."""
        super().save_beside(folder)
        self.data.stack.copy(folder)

    def about(self) -> str:
        facts, split = self.data.pack.facts, self.data.origin()["split"]
        return f"""A text forecaster: from texts of the last {self.corpus.context} days it writes
the text of the next, in the compact language of `gdelphi.text.compact`. It knows the streams
{", ".join(facts.streams)}; trained on days {split["train"][0]} to {split["train"][1]}, chosen on
{split["validation_a"][0]} to {split["validation_a"][1]}. The score is nats a day."""


def _nats(model: Any, batch: TextBatch) -> Tensor:
    """Of all words that are to be written, summed."""
    states, mask = embed_source(model, batch.source)
    return text_loss(model, states, mask, batch.labels.to(states.device))
