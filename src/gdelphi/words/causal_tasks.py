"""What a pretrained language model learns: to write next days, or to name points.

The same sequences and phrases as T5 learns from, in fewer at a time: a step of the language model
costs a hundred times as much. For the same reason it is judged on fewer days and phrases.
"""

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from gdelphi.checkpoint import TrainingError
from gdelphi.phrases import sentence
from gdelphi.types import IntArray
from gdelphi.words.causal import OF_T5, SMALLER, adapted, device_of, find_base, pieces_of
from gdelphi.words.causal_days import Telling
from gdelphi.words.causal_namer import CausalNamer, causal_naming_model
from gdelphi.words.corpus import IGNORED
from gdelphi.words.forecaster import KIND
from gdelphi.words.learning import TextGround
from gdelphi.words.naming import Key, Namer
from gdelphi.words.naming_task import Examples, NamingTask

STREAMS_JUDGED: Final = 2  # of each judged day
AT_ONCE: Final = 4  # sequences of an evaluation
SEED: Final = 22


class CausalForecastTask:
    """Next day in English from the days before."""

    kind = KIND
    unused = OF_T5 | {"made_actors"}

    def __init__(self, ground: TextGround) -> None:
        self.ground, self.settings = ground, ground.settings.text
        known, told = ground.settings.sequences.context_days, self.settings.language_days
        if told > known:
            raise TrainingError(
                f"text.language_days = {told}, but sequences have {known} days: lower it, or raise "
                "sequences.context_days"
            )
        self.base = find_base(self.settings.language_model)
        self.vocabulary = pieces_of(self.base)
        self.telling = Telling(ground.said, self.vocabulary, told)
        self.size = max(self.settings.batch // SMALLER, 1)
        """sequences of a step"""
        self._ends = ground.targets("train")
        self._judged = self._drawn_days(ground.judged_days())

    def _drawn_days(self, days: IntArray) -> list[tuple[int, int]]:
        """Some streams of each day, the same ones always."""
        random, streams = np.random.default_rng(SEED), len(self.ground.pack.facts.streams)
        number = min(STREAMS_JUDGED, streams)
        return [
            (int(stream), int(day))
            for day in days
            for stream in random.choice(streams, size=number, replace=False)
        ]

    def origin(self) -> dict[str, Any]:
        return {**self.ground.origin(), "language_model": self.base.said()}

    def model(self) -> Any:
        return adapted(self.base, self.settings)

    def loss(self, model: Any, random: np.random.Generator) -> tuple[Tensor, int]:
        facts = self.ground.pack.facts
        streams = random.integers(len(facts.streams), size=self.size)
        targets = random.choice(self._ends, size=self.size)
        variants = random.integers(facts.variants + 1, size=(self.size, self.telling.days + 1))
        drawn = zip(streams.tolist(), targets.tolist(), variants.tolist(), strict=True)
        return self._loss(model, [self.telling.example(*each) for each in drawn])

    def _loss(self, model: Any, examples: list[tuple[list[int], list[int]]]) -> tuple[Tensor, int]:
        device = device_of(model)
        numbers = _padded([each for each, _ in examples], self.vocabulary.end)
        labels = _padded([each for _, each in examples], IGNORED)[:, 1:]
        # Padding stands behind, where nothing that counts can see it: no mask is needed.
        logits = model(input_ids=numbers.to(device)).logits[:, :-1]
        return _cross_entropy(logits, labels), int((labels != IGNORED).sum())

    def evaluate(self, model: Any) -> dict[str, Any]:
        """Nats of a day's own text, and of one of its pieces."""
        plain = [0] * (self.telling.days + 1)
        total = number = 0.0
        for start in range(0, len(self._judged), AT_ONCE):
            loss, pieces = self._loss(
                model,
                [
                    self.telling.example(stream, day, plain, last=True)
                    for stream, day in self._judged[start : start + AT_ONCE]
                ],
            )
            total, number = total + float(loss), number + pieces
        return {"score": total / len(self._judged), "nats_a_piece": total / number}

    def about(self) -> str:
        facts, split = self.ground.pack.facts, self.ground.origin()["split"]
        chosen = f"{len(self._judged)} of {split['choice'][0]} to {split['choice'][1]}"
        return f"""A text forecaster from a language model ({self.base.path.name}, digest
{self.base.digest}), which is not in this folder: told the last {self.telling.days} days of a stream
in English it writes the next. It knows the streams {", ".join(facts.streams)}; trained on days
{split["train"][0]} to {split["train"][1]}, chosen on days of single streams, {chosen}.
The score is nats a day."""


class CausalNamingTask(NamingTask):
    """Phrases from points, by a language model."""

    unused = OF_T5 | {"language_days"}
    number_judged = 64

    def __init__(self, ground: TextGround) -> None:
        self.base = find_base(ground.settings.text.language_model)
        super().__init__(ground)
        self.size = max(self.size // SMALLER, 4)

    def _learn_words(self) -> Any:
        return pieces_of(self.base)

    def origin(self) -> dict[str, Any]:
        return {**super().origin(), "language_model": self.base.said()}

    def model(self) -> Any:
        return causal_naming_model(self.base, self.settings, self.slots.blocks)

    def namer(self, model: Any) -> Namer:
        return CausalNamer(model, self.vocabulary)

    def labels(self, keys: list[Key]) -> Tensor:
        rows = [[*self.vocabulary.numbers(sentence(*key)), self.vocabulary.end] for key in keys]
        return _padded(rows, IGNORED)

    def _loss(self, model: Any, examples: Examples) -> tuple[Tensor, int]:
        states = self.read(model, examples)
        labels = self.labels(examples.keys)
        numbers = labels.masked_fill(labels == IGNORED, self.vocabulary.end)
        logits = model(states, numbers.to(states.device))
        return _cross_entropy(logits, labels), int((labels != IGNORED).sum())

    def about(self) -> str:
        return f"""{super().about()} It adds to a language model ({self.base.path.name},
{self.base.digest}) that is not in this folder."""


def _padded(rows: list[list[int]], with_number: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [with_number] * (longest - len(row)) for row in rows])


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of all pieces that are to be written, summed; labels may lie elsewhere."""
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten().to(logits.device), ignore_index=IGNORED,
        reduction="sum",
    )  # fmt: skip
