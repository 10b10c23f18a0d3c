"""The ground that a training stands on: data, splits, sizes of the model, device and processes."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.state import AcceleratorState

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.train_settings import TrainSettings
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
from gdelphi.model.network import MeasureConfig, MeasureModel

SIZES: Final = {
    "width", "queries", "layers", "heads", "day_heads", "slots", "transport_layers", "dropout"
}  # fmt: skip
LOST_AFTER: Final = timedelta(minutes=30)  # a process that says nothing for so long is lost


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Data and sizes."""

    settings: Settings
    space: Space
    outlook: PackArrays
    sequences: Sequences
    ends: IntArray
    """last days of training sequences: the day after each is a training target"""
    validation_a: IntArray
    """target days of validation A"""
    finest: VectorArray
    """points of the finest codes, [finest, event dimension]"""

    @property
    def config(self) -> MeasureConfig:
        train, sequences = self.settings.train, self.settings.sequences
        return MeasureConfig(
            dimension=self.space.dimension,
            features=self.outlook.features.shape[2],
            codes=self.outlook.shares.shape[2],
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

    def origin(self, processes: int) -> dict[str, Any]:
        """Everything that decides what a run ends with."""
        splits = self.sequences.splits
        return {
            "train": self.settings.train.model_dump(mode="json"),
            "sequences": self.settings.sequences.model_dump(
                mode="json", include={"context_days", "memory_days"}
            ),
            "pack": asdict(self.outlook.pack.facts),
            "space": self.space.fingerprint,
            "split": {
                part: list(map(str, splits.days(part))) for part in ("train", "validation_a")
            },
            "processes": processes,
        }

    def maker(self, device: torch.device) -> BatchMaker:
        points = self.settings.train.points
        return BatchMaker(self.outlook, self.space, self.config, points=points, device=device)


def load_training_data(settings: Settings, on_day: OnPacked | None = None) -> TrainingData:
    """Load what a run stands on; a pack is made if there is none of these days."""
    space = load_space(measures_folder(settings) / "space")
    packed = pack_days(settings, space, on_day=on_day)
    pack = Pack(packed.folder)
    sequences = Sequences(pack, settings)
    return TrainingData(
        settings,
        space,
        read_pack_arrays(pack),
        sequences,
        ends=_targets(sequences, "train", settings) - 1,
        validation_a=_targets(sequences, "validation_a", settings),
        finest=finest_codes(settings, space),
    )


def _targets(sequences: Sequences, part: SplitPart, settings: Settings) -> IntArray:
    found = sequences.targets(part)
    if not len(found):
        first, last = sequences.splits.days(part)
        raise TrainingError(
            f"no day of {part} ({first} to {last}) is known and has "
            f"{settings.sequences.context_days} days before it: more days, other splits "
            "(split.*), or a shorter sequences.context_days"
        )
    return found


def accelerator_for(settings: TrainSettings) -> Accelerator:
    """The device, the precision, and the other processes if there are any."""
    found = torch.cuda.is_available()
    if settings.device == "cuda" and not found:
        raise ConfigError("train.device = cuda, but torch finds no GPU: set auto or cpu")
    use_cpu = settings.device == "cpu" or not found
    halves = not use_cpu and torch.cuda.is_bf16_supported()
    if settings.precision != "auto":
        halves = settings.precision == "bfloat16"
    # What an earlier run in this process has chosen would be kept otherwise.
    AcceleratorState._reset_state(not torch.distributed.is_initialized())
    return Accelerator(
        cpu=use_cpu,
        mixed_precision="bf16" if halves else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=LOST_AFTER)],
    )
