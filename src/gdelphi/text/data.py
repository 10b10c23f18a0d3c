"""The data of the text models, and the sequences that are drawn from it.

`gdelphi text train` and `gdelphi text data` draw by the same function from the same random numbers:
the rows of a dataset are the sequences that the text forecaster reads with that seed, step after
step.
"""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np

from gdelphi.common.progress import OnStep, silent
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.types import IntArray
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.pack import Pack
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import Space, load_space
from gdelphi.model.data import target_days
from gdelphi.stack.files import PackStack, stack_of_pack
from gdelphi.text.corpus import PackDescriptors, read_descriptors
from gdelphi.text.expected import Expectations, StackExpectation

NO_STACK: Final = PackStack(None, "not asked for")


class TextData(NamedTuple):
    """What the text models learn from."""

    settings: Settings
    space: Space
    sequences: Sequences
    descriptors: PackDescriptors
    stack: PackStack = NO_STACK
    """what the forecaster is told of a day before it comes"""
    expected: Expectations | None = None
    """the same, read; None where there is no stack"""

    @property
    def pack(self) -> Pack:
        return self.sequences.pack

    def targets(self, part: SplitPart) -> IntArray:
        """Positions of the days that can be targets in a part of the split; at least one. Those of
        training are days that the stack answers for, if there is one."""
        days = target_days(self.sequences, part)
        return self.expected.known(days) if self.expected and part == "train" else days

    def evaluated_days(self) -> IntArray:
        """Positions of the days of validation A that a training is evaluated on."""
        days, number = self.targets("validation_a"), self.settings.text.evaluate_days
        return days[:: max(len(days) // number, 1)][:number]

    def origin(self) -> dict[str, Any]:
        """What decides what a training ends with, beside its settings."""
        splits = self.sequences.splits
        return {
            "context_days": self.settings.sequences.context_days,
            "stack": self.stack.folder.name if self.stack.folder else None,
            "pack": asdict(self.pack.facts),
            "space": self.space.fingerprint,
            "split": {
                part: list(map(str, splits.days(part))) for part in ("train", "validation_a")
            },
        }


def load_text_data(settings: Settings, on_packed: OnPacked | None = None) -> TextData:
    """Load what the text models learn from; a pack is made if there is none of these days."""
    space = load_space(measures_folder(settings) / "space")
    pack = Pack(pack_days(settings, space, on_day=on_packed).folder)
    return TextData(settings, space, Sequences(pack, settings), read_descriptors(pack))


def with_stack(data: TextData, on_step: OnStep = silent) -> TextData:
    """The same with what the stack expects of its days; it is fitted if there is none of this pack.
    Too few days have none, and then nothing is said before them."""
    stack = stack_of_pack(data.settings, data.sequences, on_step)
    fit = stack.load()
    expected = None if fit is None else StackExpectation(fit, data.pack)
    return data._replace(stack=stack, expected=expected)


# --- random sequences -----------------------------------------------------------------------------


class DrawnSequences(NamedTuple):
    """Where sequences lie: positions of streams and target days, the descriptor of each day."""

    streams: IntArray
    """[n]"""
    targets: IntArray
    """[n]"""
    variants: IntArray
    """of the days of the context and of the target, [n, context + 1]; 0 is a day's own"""


def step_random(seed: int, step: int, process: int = 0) -> tuple[np.random.Generator, int]:
    """The random numbers of a training step, and the seed of torch's in it."""
    random = np.random.default_rng([seed, step, process])
    torch_seed = int(random.integers(2**62))
    return random, torch_seed


def draw_sequences(
    data: TextData, targets: IntArray, number: int, random: np.random.Generator
) -> DrawnSequences:
    """Random streams, target days among some, and for each day of the context a descriptor: its
    own, or one of the random ones. So many sequences of few days differ from each other. The target
    has its own: a random one is that of half a day, and names fewer events than the day that comes.
    """
    facts, days = data.pack.facts, data.sequences.context_days
    streams = random.integers(len(facts.streams), size=number)
    drawn = random.choice(targets, size=number)
    variants = random.integers(facts.variants + 1, size=(number, days + 1))
    variants[:, -1] = 0
    return DrawnSequences(streams, drawn, variants)


def training_sequences(
    data: TextData, *, part: SplitPart = "train", seed: int = 0
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Stream, target day and variants of the sequences that the text forecaster is trained on with
    this seed, in one process: the batch of step 1, that of step 2, and so on without end."""
    targets = data.targets(part)
    for step in count(1):
        random, _ = step_random(seed, step)
        drawn = draw_sequences(data, targets, data.settings.text.batch, random)
        for stream, target, variants in zip(*(values.tolist() for values in drawn), strict=True):
            yield stream, target, tuple(variants)
