"""Training of the cell network, a part of `gdelphi train`; it is kept in the folder of its stack.

Two networks are trained. The first sees the training days alone and answers for validation A and
B. From these answers it is decided, for each target and horizon, how far what is said goes from the
stack to the network:

    direct = stack + weight (network - stack)

and weight is 0, the stack itself, unless a small step lowers the log loss of these days by two of
its standard errors. The second network sees all days and forecasts.
"""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from gdelphi.common.errors import ForecastError
from gdelphi.common.files import atomic_write, remove_folder
from gdelphi.common.progress import OnStep, silent
from gdelphi.common.threads import at_once
from gdelphi.common.types import TARGETS, FloatArray, History, IntArray, VectorArray
from gdelphi.measures.targets import outcomes
from gdelphi.measures.week_targets import week_outcomes
from gdelphi.model.cell_inputs import CellInputs, cell_inputs, outputs_last
from gdelphi.model.cell_network import CellConfig, CellNetwork
from gdelphi.model.optimizer import ema_copy, learning_rate, optimizer_for, update_ema
from gdelphi.stack.fitted import CountForecasters
from gdelphi.stack.linear import expit
from gdelphi.stack.usual import place_of

FORMAT: Final = 2
READABLE: Final = (1, 2)  # the first knows of tomorrow only
CELL_FOLDER: Final = "cell_network"  # in that of the stack
TRAIN_FOLDS: Final = 2  # the first ones; validation A and B follow
WEIGHTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
ERRORS: Final = 2.0  # standard errors by which the log loss must be lower
LEAST: Final = 1e-12  # probability that a log is taken of
DAYS_AT_ONCE: Final = 32
TOMORROW: Final = 4.0  # what tomorrow counts in the loss, in all further horizons together


@dataclass(frozen=True)
class CellSettings:
    """How a cell network is trained; nothing else depends on the data."""

    epochs: int = 6
    most_steps: int = 3000
    batch: int = 128
    """streams and days of a step; all their cells are in it"""
    learning_rate: float = 1e-3
    warm_up: int = 100
    weight_decay: float = 0.1
    ema: float = 0.998
    seed: int = 0


@dataclass(frozen=True, eq=False)
class CellFit:
    """A trained cell network, and what was decided of it."""

    network: CellNetwork
    weights: tuple[float, ...]
    """by output: 0 is the stack, 1 the network"""
    gains: tuple[float, ...]
    """by output: how much lower the log loss of validation A and B is, of what is said"""
    days: IntArray
    """ordinals of validation A and B, increasing"""
    logits: VectorArray
    """what is said of them, by the first network, [output, day, stream, root]"""

    @property
    def knows_week(self) -> bool:
        """Whether it speaks of days beyond tomorrow."""
        return len(self.weights) > len(TARGETS)

    def at(self, day: date) -> FloatArray | None:
        """[stream, root, output]; None if it is no day of validation A or B."""
        place = place_of(day, self.days)
        if place is None:
            return None
        return np.moveaxis(self.logits[:, place].astype(np.float64), 0, -1)

    def save(self, folder: Path, settings: CellSettings) -> None:
        """Write it into an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: value.contiguous() for name, value in self.network.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        known = {"days": self.days.astype(np.int64), "logits": np.ascontiguousarray(self.logits)}
        tensors = {name: torch.from_numpy(values) for name, values in known.items()}
        save_file(tensors, folder / "out_of_fold.safetensors")
        content = {
            "format": FORMAT,
            "settings": asdict(settings),
            "config": self.network.config.to_dict(),
            "weights": self.weights,
            "gains": self.gains,
        }
        (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "CellFit":
        """What `save` wrote."""
        try:
            content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if content["format"] not in READABLE:
                raise ValueError(f"format {content['format']}, not {FORMAT}")
            network = CellNetwork(CellConfig(**content["config"])).eval()
            network.load_state_dict(load_file(folder / "model.safetensors"))
            known = load_file(folder / "out_of_fold.safetensors")
            return cls(
                network, tuple(content["weights"]), tuple(content["gains"]),
                known["days"].numpy(), known["logits"].numpy(),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ForecastError(
                f"{folder} holds no cell network that can be read ({reason}): train the model "
                "again with `gdelphi train --fresh`"
            ) from None


def cell_network_of(
    counts: CountForecasters,
    stack_folder: Path,
    settings: CellSettings,
    *,
    device: torch.device,
    on_step: OnStep = silent,
) -> CellFit:
    """The cell network in the folder of its stack; trained if there is none of these settings."""
    folder = stack_folder / CELL_FOLDER
    if settings_in(folder, FORMAT) != asdict(settings):
        fit = fit_cells(counts, settings, device=device, on_step=on_step)
        with atomic_write(folder) as part:
            fit.save(part, settings)
            remove_folder(folder)
    return CellFit.load(folder)


def settings_in(folder: Path, known_format: int) -> dict[str, Any] | None:
    """What a network that is kept in a folder was made from; None: there is none of this format."""
    try:
        content: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return content["settings"] if content["format"] == known_format else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fit_cells(
    counts: CountForecasters,
    settings: CellSettings,
    *,
    device: torch.device | str = "cpu",
    on_step: OnStep = silent,
    start: CellNetwork | None = None,
) -> CellFit:
    """Train on the days that the stack was fitted on, from its answers out of fold. With `start`
    both networks begin as that one, and without epochs they are that one."""
    known, fitted = counts.fit.out_of_fold, counts.fit.week
    days = [date.fromordinal(day) for day in known.days.tolist()]
    on_step("gathering what the cell network is shown")
    week = None if fitted is None else fitted.logits.astype(np.float64)
    inputs = cell_inputs(counts, days, known.answers, week, before=CellConfig.days)
    seen = counts.panel.roots.until(days[-1])
    came = np.stack([day_outcomes(seen, day, week=fitted is not None) for day in days])
    data = CellData(inputs, came, torch.device(device))
    config = CellConfig(
        columns=inputs.columns.shape[-1],
        roots=inputs.columns.shape[2],
        outputs=inputs.base.shape[-1],
    )
    late = np.flatnonzero(known.folds >= TRAIN_FOLDS)
    early = np.flatnonzero(known.folds < TRAIN_FOLDS)
    begun = partial(begin_cells, config, data, settings=settings, start=start)
    # Both at once: the second is of no use only where the first is of none.
    first, network = at_once(
        [
            begun(early, on_step=lambda what: on_step(f"{what}, without validation")),
            begun(np.arange(len(days)), on_step=on_step),
        ],
        threads=None if data.device.type == "cpu" else 1,
    )
    said = inputs.base[late] + added_logits(first, data, late)
    weights, gains = choose_weights(inputs.stack[late], said, came[late])
    if not settings.epochs and start is None:
        weights, gains = (0.0,) * config.outputs, (0.0,) * config.outputs
    direct = blended(inputs.stack[late], said, weights)
    return CellFit(
        (network if any(weights) else first).cpu().eval(),
        weights,
        gains,
        known.days[late],
        np.moveaxis(direct, -1, 0).astype(np.float32),
    )


def day_outcomes(history: History, day: date, *, week: bool) -> FloatArray:
    """[stream, root, output]: what came on a day and, with `week`, in the week that it begins."""
    origin = day - timedelta(days=1)
    if not week:
        found = outcomes(history, origin)
        return np.stack([found[target] for target in TARGETS], axis=-1)
    came = week_outcomes(history, origin)
    both = np.concatenate([came.daily, came.within[:, None]], axis=1)
    found_week: FloatArray = outputs_last(both[:, None])[0]
    return found_week


class CellData:
    """Inputs and outcomes of the days of fitting."""

    def __init__(self, inputs: CellInputs, came: FloatArray, device: torch.device) -> None:
        self.device = device
        self.shape = inputs.base.shape[:2]
        self.columns = torch.from_numpy(inputs.columns)
        self.surprises = torch.from_numpy(inputs.surprises)
        self.base = torch.from_numpy(inputs.base.astype(np.float32))
        outcome = torch.from_numpy(came.astype(np.float32))
        self.outcome = outcome.where(~self.base.isnan(), torch.nan)

    def shown(self, days: torch.Tensor, streams: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Columns and surprises of pairs of a day and a stream."""
        return tuple(
            values[days, streams].to(self.device) for values in (self.columns, self.surprises)
        )


def begin_cells(
    config: CellConfig,
    data: CellData,
    days: IntArray,
    *,
    settings: CellSettings,
    on_step: OnStep = silent,
    start: CellNetwork | None = None,
) -> Callable[[], CellNetwork]:
    """A network that is not trained yet, from `start` or from nothing. What is returned trains it
    on some of the days and returns its EMA. Only what is done here draws from the random numbers
    of all of torch, so that several networks can be trained at once."""
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        network = CellNetwork(config) if start is None else deepcopy(start)
        random = torch.Generator()
        random.set_state(torch.get_rng_state())
    if start is None:
        mean, deviation = column_scale(data.columns, days)
        network.mean.copy_(mean)
        network.deviation.copy_(deviation.clamp(min=1e-3))
    network.to(data.device).train()
    return partial(_trained, network, data, days, settings, random, on_step)


def column_scale(columns: torch.Tensor, days: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of each column over the cells of days, a few days at a time: all
    of them are hundreds of megabytes."""
    parts = torch.from_numpy(days).split(DAYS_AT_ONCE)
    cells = len(days) * columns.shape[1] * columns.shape[2]
    mean, squares = torch.zeros(2, columns.shape[3], dtype=torch.float64)
    for some in parts:
        mean += columns[some].double().sum(dim=(0, 1, 2)) / cells
    for some in parts:
        squares += ((columns[some] - mean) ** 2).sum(dim=(0, 1, 2))
    return mean, (squares / (cells - 1)).sqrt()


def _trained(
    network: CellNetwork,
    data: CellData,
    days: IntArray,
    settings: CellSettings,
    random: torch.Generator,
    on_step: OnStep,
) -> CellNetwork:
    pairs = torch.cartesian_prod(torch.from_numpy(days), torch.arange(data.shape[1]))
    batch = min(settings.batch, len(pairs))
    steps = min(settings.epochs * (len(pairs) // batch), settings.most_steps)
    schedule = _Schedule(steps, settings)
    dropping = random
    if data.device.type != "cpu":
        dropping = torch.Generator(data.device).manual_seed(settings.seed)
    average = ema_copy(network)
    optimizer = optimizer_for(network, schedule)
    order = torch.zeros(0, dtype=torch.int64)
    for step in range(1, steps + 1):
        if len(order) < batch:
            order = torch.randperm(len(pairs), generator=random)
        chosen, order = pairs[order[:batch]], order[batch:]
        loss = _loss(network, data, chosen, dropping)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(schedule, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema(average, network, decay=settings.ema, step=step)
        if step % 100 == 0:
            on_step(f"training the cell network: step {step} of {steps}")
    return average


@dataclass(frozen=True)
class _Schedule:
    """Settings of the optimizer for a number of steps."""

    steps: int
    settings: CellSettings

    @property
    def warm_up(self) -> int:
        return min(self.settings.warm_up, self.steps // 5)

    @property
    def learning_rate(self) -> float:
        return self.settings.learning_rate

    @property
    def weight_decay(self) -> float:
        return self.settings.weight_decay


def _loss(
    network: CellNetwork, data: CellData, pairs: torch.Tensor, random: torch.Generator
) -> torch.Tensor:
    """Log loss of every member over the known cells of pairs of a day and a stream, by what each
    output counts."""
    days, streams = pairs.T
    base = data.base[days, streams].nan_to_num(0.0).to(data.device)
    outcome = data.outcome[days, streams].to(data.device)
    logits = base + network(*data.shown(days, streams), random)
    counted = (~outcome.isnan()) * _output_weights(outcome.shape[-1]).to(data.device)
    counted /= counted.sum().clamp(min=1) * len(logits)
    outcome = outcome.nan_to_num(0.0).expand_as(logits)
    return F.binary_cross_entropy_with_logits(logits, outcome, counted, reduction="sum")


def _output_weights(outputs: int) -> torch.Tensor:
    """How much each output counts: tomorrow, which is asked about most, `TOMORROW` times as much as
    all further horizons together."""
    weights = torch.ones(outputs)
    further = outputs - len(TARGETS)
    if further:
        weights[: len(TARGETS)] = TOMORROW * further / len(TARGETS)
    return weights


@torch.no_grad()
def added_logits(network: CellNetwork, data: CellData, days: IntArray) -> FloatArray:
    """What the network adds to the base on days, [day, stream, root, target]."""
    streams = torch.arange(data.shape[1])
    parts = []
    for some in torch.from_numpy(days).split(DAYS_AT_ONCE):
        pairs = torch.cartesian_prod(some, streams)
        added = network(*data.shown(*pairs.T)).mean(dim=0).cpu()
        parts.append(added.unflatten(0, (len(some), len(streams))))
    found: FloatArray = torch.cat(parts).double().numpy()
    return found


def choose_weights(
    stack: FloatArray,
    network: FloatArray,
    came: FloatArray,
    *,
    candidates: Sequence[float] = WEIGHTS,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """For each output how far to go from the stack's logits to the network's, both [day, stream,
    root, output], and by how much the log loss of the outcomes is lower then.

    Whether to go at all is decided by the first small step: it must be better by two standard
    errors of the daily differences. How far, by what is gained less one standard error, which grows
    with the step: the best on the mean of a few months is too far."""
    weights, gains = [], []
    for number in range(stack.shape[-1]):
        one, other, outcome = (values[..., number] for values in (stack, network, came))
        by_weight = np.stack([_daily_loss(one + w * (other - one), outcome) for w in candidates])
        by_weight = by_weight[:, ~np.isnan(by_weight).any(axis=0)]
        best = 0
        if by_weight.shape[1] > 1:
            lower = by_weight[0] - by_weight[1:]
            error = lower.std(axis=1, ddof=1) / np.sqrt(lower.shape[1])
            gain = lower.mean(axis=1)
            if gain[0] > ERRORS * error[0]:
                best = 1 + int((gain - error).argmax())
        weights.append(candidates[best])
        gains.append(float(gain[best - 1]) if best else 0.0)
    return tuple(weights), tuple(gains)


def blended(stack: FloatArray, network: FloatArray, weights: Sequence[float]) -> FloatArray:
    """What is said, [..., output]; exactly the stack where the weight is 0."""
    moved: FloatArray = stack + np.array(weights) * (network - stack)
    return moved


def _daily_loss(logits: FloatArray, outcome: FloatArray) -> FloatArray:
    """Mean log loss of each day, from [day, stream, root]; NaN where nothing is known."""
    chance = expit(logits)
    hit = np.where(outcome == 1, chance, 1 - chance)
    known = ~(np.isnan(outcome) | np.isnan(logits))
    losses = np.where(known, -np.log(np.maximum(np.nan_to_num(hit, nan=1.0), LEAST)), 0.0)
    total, number = losses.sum(axis=(1, 2)), known.sum(axis=(1, 2))
    means: FloatArray = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return means
