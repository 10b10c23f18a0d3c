"""Training of the measure decoder, a part of `gdelphi train`; it is kept in decoder/ of the model.

The loop is that of loop.py. Examples are streams and target days, drawn once: from training days to
learn from, from validation A to choose on. Three things are chosen there, in this order: half-life
and number of atoms of the start, the step that is kept, and how much of the way from the start to
what was decoded is gone (`strength`). A decoder that has learned nothing stays at its start.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file

from gdelphi import __version__
from gdelphi.common.errors import TrainingError
from gdelphi.common.files import text_digest, write_json_atomically
from gdelphi.common.sections import TrainSettings
from gdelphi.common.types import FloatArray, IntArray, Measure
from gdelphi.model.checkpoint import TrainingRecord, reason_of
from gdelphi.model.data import TrainingData
from gdelphi.model.decoder import SINKHORN, DecoderConfig, MeasureDecoder, SpaceTime, blend
from gdelphi.model.decoder_start import POOLED_DAYS, LastDays, RecentDays, summary
from gdelphi.model.loop import TrainProgress, run_training
from gdelphi.model.task import Loss, StepBatch
from gdelphi.ot.entropic import self_transport, sinkhorn_divergence
from gdelphi.ot.geometry import Measures, batch_measures

DECODER_FOLDER: Final = "decoder"
DECODER_FILE: Final = "decoder.json"
HALF_LIVES: Final = (7.0, 15.0, 30.0, 90.0)  # of the start, in days: tried on validation A,
FEWER_ATOMS: Final = (3, 5)  # as are starts of fewer atoms than the most
STRENGTHS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
OUTCOME_POINTS: Final = 256  # of the cloud of a target day that a divergence is taken to
CHUNK: Final = 16  # examples that are decoded at once


@dataclass(frozen=True)
class DecoderSettings:
    """How a decoder is trained. The settings file has its steps and its seed, and examples are as
    many as the steps need; nothing else depends on the data."""

    steps: int = 45
    batch: int = 12
    learning_rate: float = 0.02
    warm_up: int = 5
    weight_decay: float = 0.0
    clip: float = 1.0
    ema: float = 0.9
    patience: int = 3
    evaluate_every: int = 15
    save_every: int = 30
    log_every: int = 10
    seed: int = 0
    examples: int = 320
    """streams and days that are learned from"""
    evaluated: int = 128
    """streams and days of validation A"""
    fewest: int = 20
    """of either, without which nothing is trained"""
    blocks: int = 5
    days: int = 120
    points: int = 64


class Example(NamedTuple):
    """A stream and a target day, with what is known the day before."""

    stream: int
    target: int
    start: Measure
    past: LastDays
    outcome: Measure
    """the cloud of the target day"""
    outcome_self: float
    """its entropic transport to itself"""


@dataclass(frozen=True)
class DecoderChoice:
    """What a training of a decoder has ended with; the figures are of validation A."""

    origin: str
    """digest of the settings and data that it comes from"""
    skipped: str = ""
    """why there is no decoder; nothing: there is one"""
    strength: float = 0.0
    half_life: float = 0.0
    atoms: int = 0
    start: float = float("nan")
    """mean divergence of the start to the day that came"""
    decoded: float = float("nan")
    """and of what is decoded"""
    examples: int = 0
    evaluated: int = 0
    step: int = 0
    """that was kept"""
    starts: dict[str, float] | None = None
    """mean divergence of each start that was tried"""


class TooFewDays(TrainingError):
    """There is not enough to train a decoder on."""


class DecoderTask:
    """The next day's cloud, in a few atoms, from the clouds of the days before."""

    section = "decoder"
    diverging_ratio = 3.0
    memory_settings: tuple[str, ...] = ("batch", "points")
    keep_checkpoints = 0

    def __init__(self, data: TrainingData, device: torch.device, settings: DecoderSettings) -> None:
        self.data, self.settings, self.device = data, settings, device
        self.recent = RecentDays(data.arrays.pack, data.space)
        self._drawn = {
            "train": self._draw(data.ends + 1, settings.examples, 0),
            "validation_a": self._draw(data.validation_a, settings.evaluated, 1),
        }
        for part, drawn in self._drawn.items():
            if len(drawn) < settings.fewest:
                raise TooFewDays(
                    f"{len(drawn)} streams and days of {part} have reports and a past, and "
                    f"{settings.fewest} are needed"
                )
        self.starts: dict[str, float] = {}
        self.config = self._choose_start(data.settings.measures.most_atoms)
        made = {part: self._examples(drawn, self.config) for part, drawn in self._drawn.items()}
        self.examples, self.evaluated = made["train"], made["validation_a"]

    # Examples.

    def _draw(self, days: IntArray, number: int, purpose: int) -> list[tuple[int, int]]:
        """Streams and target days with reports on them and before them, spread at random."""
        filled = self.recent.pack.statistics[:, :, 1] > 0  # [day, stream]
        cells = [
            (int(stream), int(day))
            for day in days
            for stream in np.flatnonzero(
                filled[day] & filled[max(day - POOLED_DAYS, 0) : day].any(axis=0)
            )
        ]
        random = np.random.default_rng([self.settings.seed, 17, purpose])
        chosen = random.permutation(len(cells))[:number]
        return [cells[place] for place in np.sort(chosen)]

    def _examples(self, drawn: list[tuple[int, int]], config: DecoderConfig) -> list[Example]:
        made = [make_example(self.recent, config, stream, target) for stream, target in drawn]
        return [example for example in made if example is not None]

    def _choose_start(self, most: int) -> DecoderConfig:
        """The half-life and number of atoms whose start is nearest to the days of validation A."""
        settings = self.settings
        config = DecoderConfig(
            blocks=settings.blocks, atoms=most, days=settings.days, points=settings.points
        )
        tried = [(half_life, most) for half_life in HALF_LIVES]
        best = min(tried, key=lambda one: self._try_start(config, *one))
        fewer = [(best[0], atoms) for atoms in FEWER_ATOMS if atoms < most]
        config.start_half_life, config.atoms = min(
            [best, *fewer], key=lambda one: self._try_start(config, *one)
        )
        return config

    def _try_start(self, config: DecoderConfig, half_life: float, atoms: int) -> float:
        name = f"half-life {half_life:g}, {atoms} atoms"
        if name not in self.starts:
            tried = DecoderConfig(
                atoms=atoms, start_half_life=half_life, days=1, points=config.points
            )
            examples = self._examples(self._drawn["validation_a"], tried)
            starts = batch_measures([one.start for one in examples], torch.float32)
            self.starts[name] = float(divergences(starts, examples).mean())
        return self.starts[name]

    # What the loop asks for.

    def origin(self) -> dict[str, Any]:
        origin = self.data.origin()
        kept = {name: origin[name] for name in ("pack", "space", "split")}
        return {"decoder": asdict(self.settings), **kept}

    def model(self) -> MeasureDecoder:
        return MeasureDecoder(self.config)

    def batch(self, step: int, *, process: int, processes: int) -> StepBatch:
        """Random examples."""
        seeds = [self.settings.seed, step, process]
        size = min(self.settings.batch // processes, len(self.examples))
        chosen = np.random.default_rng(seeds).choice(len(self.examples), size, replace=False)
        torch_seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> 1)
        return StepBatch([self.examples[place] for place in chosen], torch_seed)

    def loss(self, model: MeasureDecoder, data: list[Example]) -> Loss:
        start, past = gather(self.recent, data, self.device)
        decoded = model(start, past)
        return Loss(divergences(decoded, data).mean(), {})

    def evaluate(self, model: MeasureDecoder) -> dict[str, Any]:
        """Mean divergence on validation A, at full strength."""
        return {"score": float(self.divergences_at(model, (1.0,))[0].mean())}

    @torch.no_grad()
    def divergences_at(self, model: MeasureDecoder, strengths: tuple[float, ...]) -> FloatArray:
        """Divergences of all evaluated examples at each strength, [strength, example]."""
        columns = []
        for first in range(0, len(self.evaluated), CHUNK):
            examples = self.evaluated[first : first + CHUNK]
            start, past = gather(self.recent, examples, self.device)
            decoded = model(start, past)
            columns.append(
                torch.stack(
                    [divergences(blend(start, decoded, one), examples) for one in strengths]
                )
            )
        return torch.cat(columns, dim=1).double().cpu().numpy()

    def settle(self, model: MeasureDecoder, record: TrainingRecord) -> None:
        """Nothing of the config is chosen with the step."""

    def save_beside(self, folder: Path) -> None:
        """Nothing: the space of its points is beside the model that it belongs to."""

    def card(self, name: str, record: TrainingRecord, parameters: int) -> str:
        config = self.config
        return f"""# {name}

A measure decoder of gdelphi {__version__} ({parameters} parameters): from the clouds of the last
{config.days} days it says what the next day of a stream will be like, in {config.atoms} atoms. Its
start has a half-life of {config.start_half_life:g} days. Mean Sinkhorn divergence to the clouds of
{len(self.evaluated)} streams and days of validation A: {record.best["score"]:.4f} at step
{record.best_step}, {record.history[0]["score"]:.4f} of the start.
"""


def train_decoder(
    data: TrainingData,
    out: Path,
    accelerator: Accelerator,
    *,
    resume: bool = True,
    progress: TrainProgress | None = None,
    settings: DecoderSettings | None = None,
) -> DecoderChoice:
    """Train a decoder into a folder, and choose its strength on validation A. Where days are too
    few, the reason is kept in the folder in its place."""
    processes = accelerator.num_processes
    chosen = settings or _settings(data.settings.train)
    chosen = replace(chosen, batch=-(-chosen.batch // processes) * processes)
    mark = text_digest(json.dumps([asdict(chosen), data.origin()], default=str))
    known = read_decoder_choice(out)
    if resume and known is not None and known.origin == mark:
        return known
    try:
        task = DecoderTask(data, accelerator.device, chosen)
    except TooFewDays as error:
        choice = DecoderChoice(mark, skipped=str(error))
    else:
        trained = run_training(task, out, accelerator, resume=resume, progress=progress)
        model = _load(out, accelerator.device)
        means = task.divergences_at(model, STRENGTHS).mean(axis=1)
        best = int(means.argmin())
        choice = DecoderChoice(
            mark,
            strength=STRENGTHS[best],
            half_life=task.config.start_half_life,
            atoms=task.config.atoms,
            start=float(means[0]),
            decoded=float(means[best]),
            examples=len(task.examples),
            evaluated=len(task.evaluated),
            step=trained.best_step,
            starts=task.starts,
        )
    if accelerator.is_main_process:
        out.mkdir(parents=True, exist_ok=True)
        write_json_atomically(out / DECODER_FILE, asdict(choice))
    return choice


def _settings(train: TrainSettings) -> DecoderSettings:
    usual, steps = DecoderSettings(), train.decoder_steps
    return replace(
        usual,
        steps=steps,
        seed=train.seed,
        examples=min(usual.examples, 8 * steps),
        evaluated=min(usual.evaluated, 4 * steps),
    )


# --- from a pack to tensors -----------------------------------------------------------------------


def make_example(
    recent: RecentDays, config: DecoderConfig, stream: int, target: int
) -> Example | None:
    """A stream and a target day; None where there is nothing on that day or before it."""
    outcome = recent.cloud(stream, target, OUTCOME_POINTS)
    pooled = recent.recent_cloud(stream, target - 1, config.start_half_life)
    if outcome is None or pooled is None:
        return None
    atoms = summary(pooled, config.atoms)
    past = recent.last_days(stream, target - 1, days=config.days, most=config.points)
    own = self_transport(batch_measures([outcome], torch.float32), SINKHORN).value
    start = Measure(atoms.points, atoms.weights)
    return Example(stream, target, start, past, outcome, float(own))


def gather(
    recent: RecentDays, examples: list[Example], device: torch.device | str = "cpu"
) -> tuple[Measures, SpaceTime]:
    """Starts and space-time measures of some examples."""
    start = batch_measures([one.start for one in examples], torch.float32)
    past = space_time(recent, [one.past for one in examples], device)
    return Measures(*(part.to(device) for part in start)), past


def space_time(
    recent: RecentDays, past: list[LastDays], device: torch.device | str = "cpu"
) -> SpaceTime:
    """The last days of some streams as tensors, with as many points as the largest day has."""
    weights = np.stack([one.weights for one in past])
    size = 1 + int(np.nonzero(weights)[2].max(initial=0))
    weights = np.ascontiguousarray(weights[:, :, :size])
    slots = np.stack([one.slots[:, :size] for one in past])
    there = weights > 0
    points = np.zeros((*weights.shape, recent.pack.facts.dimension), np.float32)
    points[there] = recent.pack.points(slots[there], recent.space)
    lags = np.stack([one.lags for one in past]).astype(np.float32)
    return SpaceTime(
        torch.from_numpy(points).to(device),
        torch.from_numpy(weights).to(device),
        torch.from_numpy(lags).to(device),
    )


def divergences(measures: Measures, examples: list[Example]) -> torch.Tensor:
    """The divergence of each measure to the cloud of its example's day, [example]."""
    device = measures.points.device
    outcomes = batch_measures([one.outcome for one in examples], torch.float32)
    outcomes = Measures(*(part.to(device) for part in outcomes))
    own = torch.tensor([one.outcome_self for one in examples], device=device)
    return sinkhorn_divergence(measures, outcomes, SINKHORN, target_self=own).value


# --- a decoder on disk ----------------------------------------------------------------------------


def read_decoder_choice(folder: Path) -> DecoderChoice | None:
    """What a training has left in a folder; None: nothing."""
    path = folder / DECODER_FILE
    try:
        return DecoderChoice(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"{path} cannot be read ({reason_of(error)}): delete it, and run `gdelphi train` again"
        ) from None


class TrainedDecoder(NamedTuple):
    """A decoder for use."""

    model: MeasureDecoder
    choice: DecoderChoice


def load_decoder(folder: Path, device: torch.device | str = "cpu") -> TrainedDecoder | None:
    """The decoder that a training has left in a folder; None: it has left none."""
    choice = read_decoder_choice(folder)
    if choice is None or choice.skipped:
        return None
    try:
        return TrainedDecoder(_load(folder, device), choice)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"the decoder in {folder} cannot be read ({reason_of(error)}): delete this folder, and "
            "run `gdelphi train` again"
        ) from None


def _load(folder: Path, device: torch.device | str = "cpu") -> MeasureDecoder:
    config = DecoderConfig.from_pretrained(folder)
    model = MeasureDecoder(config)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    model.to(torch.device(device)).eval()
    return model
