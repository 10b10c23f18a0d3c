"""What the text forecaster learns from: random sequences of training days, next days as texts."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from gdelphi.common.errors import TrainingError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.types import IntArray
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import Space, load_space
from gdelphi.text.corpus import (
    IGNORED,
    Corpus,
    Descriptions,
    describe,
    learn_words,
)
from gdelphi.text.forecaster import KIND
from gdelphi.text.t5 import (
    embed_source,
    t5_of,
    text_loss,
)

"""settings that a training of T5 does not depend on"""


class TextData(NamedTuple):
    """Data that models of words stand on."""

    settings: Settings
    space: Space
    sequences: Sequences
    said: Descriptions

    @property
    def pack(self) -> Pack:
        return self.sequences.pack

    def targets(self, part: SplitPart) -> IntArray:
        """Positions of the days that can be targets in a part; at least one."""
        found = self.sequences.targets(part)
        if not len(found):
            first, last = self.sequences.splits.days(part)
            raise TrainingError(
                f"no day of {part} ({first} to {last}) is known and has "
                f"{self.settings.sequences.context_days} days before it: more days, other splits "
                "(split.*), or a shorter sequences.context_days"
            )
        return found

    def judged_days(self) -> IntArray:
        """Positions of the days of validation A that a training is judged on."""
        choice, number = self.targets("validation_a"), self.settings.text.evaluate_days
        return choice[:: max(len(choice) // number, 1)][:number]

    def origin(self) -> dict[str, Any]:
        """What decides what a run ends with, beside its settings."""
        splits = self.sequences.splits
        return {
            "context_days": self.settings.sequences.context_days,
            "pack": asdict(self.pack.facts),
            "space": self.space.fingerprint,
            "split": {
                part: list(map(str, splits.days(part))) for part in ("train", "validation_a")
            },
        }


def load_text_data(settings: Settings, on_packed: OnPacked | None = None) -> TextData:
    """Load what models of words learn from; a pack is made if there is none of these days."""
    space = load_space(measures_folder(settings) / "space")
    pack = Pack(pack_days(settings, space, on_day=on_packed).folder)
    return TextData(settings, space, Sequences(pack, settings), describe(pack))


class ForecastTask:
    """Next day's text from the texts of the days before."""

    kind = KIND
    unused = frozenset({"namer_steps"})

    def __init__(self, ground: TextData) -> None:
        self.ground, self.settings = ground, ground.settings.text
        self._ends = ground.targets("train")
        self._choice = ground.judged_days()
        context = ground.settings.sequences.context_days
        self.vocabulary = learn_words(
            ground.said, int(self._ends[-1]) + 1, context=context, fewest=self.settings.fewest,
            most=self.settings.most_words,
        )  # fmt: skip
        self.corpus = Corpus(
            ground.said, self.vocabulary, context=context, whole_days=self.settings.whole_days
        )

    def origin(self) -> dict[str, Any]:
        return self.ground.origin()

    def model(self) -> PreTrainedModel:
        return t5_of(self.settings, len(self.vocabulary))

    def loss(self, model: Any, random: np.random.Generator) -> tuple[Tensor, int]:
        facts, size = self.ground.pack.facts, self.settings.batch
        streams = random.integers(len(facts.streams), size=size)
        targets = random.choice(self._ends, size=size)
        variants = random.integers(facts.variants + 1, size=(size, self.corpus.context + 1))
        return self._loss(model, streams, targets, variants)

    def _loss(
        self, model: Any, streams: IntArray, targets: IntArray, variants: IntArray
    ) -> tuple[Tensor, int]:
        states, mask = embed_source(model, self.corpus.source(streams, targets, variants[:, :-1]))
        labels = torch.from_numpy(self.corpus.labels(streams, targets, variants[:, -1]))
        loss = text_loss(model, states, mask, labels.to(states.device))
        return loss, int((labels != IGNORED).sum())

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Nats of a day's own text, and of one of its words."""
        streams = np.arange(len(self.ground.pack.facts.streams))
        total = number = days = 0.0
        for day in self._choice:
            targets = np.full(len(streams), day)
            plain = np.zeros((len(streams), self.corpus.context + 1), dtype=np.int64)
            loss, words = self._loss(model, streams, targets, plain)
            total, number, days = total + float(loss), number + words, days + len(streams)
        return {"score": total / days, "nats_a_word": total / number}

    def about(self) -> str:
        facts, split = self.ground.pack.facts, self.ground.origin()["split"]
        return f"""A text forecaster: from texts of the last {self.corpus.context} days it writes
the text of the next, in the compact language of `gdelphi.text.compact`. It knows the streams
{", ".join(facts.streams)}; trained on days {split["train"][0]} to {split["train"][1]}, chosen on
{split["validation_a"][0]} to {split["validation_a"][1]}. The score is nats a day."""
