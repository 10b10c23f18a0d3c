"""The data of a training of the measure transformer: pack, splits, and the sizes that follow."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from gdelphi.common.errors import TrainingError
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.sections import TrainSettings
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.types import IntArray, VectorArray
from gdelphi.gdelt.cameo import root_codes
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.embed import finest_codes
from gdelphi.measures.pack import Pack
from gdelphi.measures.pack_arrays import PackArrays, read_pack_arrays
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import standard_events
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import Space, load_space
from gdelphi.model.batches import BatchMaker
from gdelphi.model.cell_fit import CellSettings, cell_network_of
from gdelphi.model.config import MeasureConfig
from gdelphi.model.context_fit import FINE_TUNING, context_network_of, validation_logits
from gdelphi.model.network import MeasureModel
from gdelphi.stack.files import PackStack, stack_of_pack
from gdelphi.stack.fitted import CountForecasters

SIZES: Final = {
    "width", "queries", "layers", "heads", "day_heads", "slots", "transport_layers", "dropout",
    "cloud_attention", "decoder_attention", "transport", "transport_steps", "transport_gradient",
}  # fmt: skip
LATER: Final = (
    "cloud_attention", "decoder_attention", "transport", "transport_steps", "transport_gradient",
    "keep_checkpoints", "context_steps",
)  # fmt: skip
"""settings that earlier versions did not have: at their defaults they are no part of an origin, so
that earlier runs can be resumed"""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a training reads, and the sizes of the model that fits it."""

    settings: Settings
    space: Space
    arrays: PackArrays
    sequences: Sequences
    ends: IntArray
    """last days of training sequences: the day after each is a training target"""
    validation_a: IntArray
    """target days of validation A"""
    finest: VectorArray
    """points of the finest codes, [finest, event dimension]"""
    stack: PackStack
    """what forecasts without the network, which the network starts from"""
    direct: VectorArray | None
    """logits that the stack and the cell network give after each day of validation A and B,
    [stream, day, target, code], and NaN after all others; None: there is no stack"""

    @property
    def config(self) -> MeasureConfig:
        train, sequences = self.settings.train, self.settings.sequences
        return MeasureConfig(
            dimension=self.space.dimension,
            features=self.arrays.features.shape[2],
            codes=self.arrays.shares.shape[2],
            context_days=sequences.context_days,
            memory_days=sequences.memory_days,
            event_dimension=self.finest.shape[1],
            finest=len(self.finest),
            **train.model_dump(include=SIZES),
        )

    def model(self) -> MeasureModel:
        """A model before training."""
        made = MeasureModel(self.config)
        codes = root_codes()
        roots = [codes.index(lineage(code).root) for code in standard_events("full")]
        made.atom_reading.set_basis(torch.from_numpy(self.finest), torch.tensor(roots))
        return made

    def origin(self) -> dict[str, Any]:
        """Settings and data that decide what a run ends with."""
        splits = self.sequences.splits
        return {
            "train": settings_of_origin(self.settings.train),
            "sequences": self.settings.sequences.model_dump(
                mode="json", include={"context_days", "memory_days"}
            ),
            "pack": asdict(self.arrays.pack.facts),
            "space": self.space.fingerprint,
            "split": {
                part: list(map(str, splits.days(part))) for part in ("train", "validation_a")
            },
        }

    def batches(self, device: torch.device) -> BatchMaker:
        """Who makes batches of these data on a device."""
        points = self.settings.train.points
        return BatchMaker(
            self.arrays, self.space, self.config, points=points, device=device,
            direct=self.direct,
        )  # fmt: skip


def load_training_data(
    settings: Settings,
    on_day: OnPacked | None = None,
    on_step: OnStep = silent,
    *,
    device: torch.device | str = "cpu",
    with_stack: bool = True,
    stack_in: Path | None = None,
) -> TrainingData:
    """Load what a training reads; a pack is made if there is none of these days, a stack fitted if
    there is none of this pack, and a cell network trained on a device if there is none of this
    stack. The last two take minutes: for an estimate they can be left out. With `stack_in`, the
    folder of a model, the stack is copied there first, and its cell network trained there."""
    space = load_space(measures_folder(settings) / "space")
    packed = pack_days(settings, space, on_day=on_day)
    pack = Pack(packed.folder)
    sequences = Sequences(pack, settings)
    ends = target_days(sequences, "train") - 1
    stack = PackStack(None)
    if with_stack:
        stack = stack_of_pack(settings, sequences, on_step)
        stack = stack if stack_in is None else stack.copied(stack_in)
    if with_stack and stack.folder is None:
        on_step(f"no stack of counts: {stack.reason}; the simple stack is the bar")
    return TrainingData(
        settings,
        space,
        read_pack_arrays(pack),
        sequences,
        ends=ends,
        validation_a=target_days(sequences, "validation_a"),
        finest=finest_codes(settings, space),
        stack=stack,
        direct=_direct(settings, stack, pack, torch.device(device), on_step),
    )


def settings_of_origin(train: TrainSettings) -> dict[str, Any]:
    """The settings of a training as they stand in its origin."""
    usual = TrainSettings()
    same = {name for name in LATER if getattr(train, name) == getattr(usual, name)}
    return train.model_dump(mode="json", exclude=same)


def _direct(
    settings: Settings, stack: PackStack, pack: Pack, device: torch.device, on_step: OnStep
) -> VectorArray | None:
    """What stack and networks say of the days of validation A and B, by the day before each.
    The model learns of tomorrow, so what they say of days further on is left out."""
    fitted = stack.load()
    if fitted is None or stack.folder is None:
        return None
    chosen = CellSettings(epochs=settings.train.cell_epochs, seed=settings.train.seed)
    counts = CountForecasters(fitted, pack.count_panel)
    cells = cell_network_of(counts, stack.folder, chosen, device=device, on_step=on_step)
    days, streams = pack.shape
    tuned = replace(FINE_TUNING, steps=settings.train.context_steps, seed=settings.train.seed)
    context = context_network_of(
        counts.panel, fitted.out_of_fold, cells, stack.folder, tuned, on_step=on_step
    )
    known, tomorrow = validation_logits(cells, context)
    logits = np.full((streams, days, *tomorrow.shape[::3]), np.nan, np.float32)
    origins = known - 1 - pack.first_day.toordinal()
    logits[:, origins] = tomorrow.transpose(2, 1, 0, 3)
    return logits


def target_days(sequences: Sequences, part: SplitPart) -> IntArray:
    """Positions of the days that can be targets in a part of the split; at least one."""
    days = sequences.targets(part)
    if not len(days):
        first, last = sequences.splits.days(part)
        raise TrainingError(
            f"no day of {part} ({first} to {last}) is known and has {sequences.context_days} days "
            "before it: more days, other splits (split.*), or a shorter sequences.context_days"
        )
    return days
