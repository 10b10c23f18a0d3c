"""A run: a model being trained, step by step, in one process or several.

The random numbers of a step (which streams and days, which points, what dropout leaves out) are a
function of seed, step and process. So any step can be done again, a run that was killed ends like
one that was not, and batches can be made ahead of their turn without changing anything.

Gradients are averaged over processes as one flat vector and not by a wrapper around the model: the
loss may read parts of the model outside its forward pass, parameters that it leaves out need no
search, and a small model gains nothing from overlap.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.model.batches import Batch
from gdelphi.model.checkpoint import Tensors, TrainingRecord
from gdelphi.model.data import TrainingData
from gdelphi.model.futures import AtomTable, Drawing
from gdelphi.model.losses import (
    FutureSettings,
    LossWeights,
    training_loss,
)
from gdelphi.model.network import MeasureModel
from gdelphi.model.optimizer import (
    ema_copy,
    learning_rate,
    moments_of,
    optimizer_for,
    take_moments,
    update_ema,
)
from gdelphi.model.validation import Imagination, evaluate

EVALUATED: Final = 32  # futures of a day, on
EVALUATED_EVERY: Final = 5  # each fifth day of validation A: they take long
FAR_ABOVE: Final = 3.0
FOR_STEPS: Final = 50
"""a loss so many times the lowest, for so many steps, is divergence"""


@contextmanager
def with_others() -> Iterator[None]:
    """What processes do together fails when one of them has died."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].partition(". ")[0]  # without the library's chatter
        raise TrainingError(
            f"another process of this training was lost ({reason}): its own message says why; "
            "start all of them again to go on from the last state"
        ) from None


def wait_for_all(accelerator: Accelerator) -> None:
    """Go on when all processes have come here."""
    with with_others():
        accelerator.wait_for_everyone()


class TrainingRun:
    """A model being trained. One for each process; the first of them writes."""

    def __init__(self, ground: TrainingData, accelerator: Accelerator) -> None:
        self.ground, self.accelerator = ground, accelerator
        self.settings = ground.settings.train
        self.share = self._share()
        torch.manual_seed(self.settings.seed)
        self.model = ground.model().to(accelerator.device)
        self.mean = ema_copy(self.model)
        """the running mean of weights: what is evaluated and kept"""
        self.best = _copied(self.mean)
        self.maker = ground.maker(accelerator.device)
        self.table = AtomTable(ground.outlook.pack, accelerator.device)
        self.futures = FutureSettings(
            origins=self.settings.origins,
            number=self.settings.futures,
            spares=self.settings.spare_atoms,
            reach=self.settings.futures_reach,
            root=self.settings.energy_root,
        )
        self.optimizer = optimizer_for(self.model, self.settings)
        self.record = TrainingRecord()
        context = ground.settings.sequences.context_days
        self.weights = LossWeights(
            profiles=self.settings.profiles_weight,
            direct=self.settings.direct_weight,
            rows=self.settings.rows_weight,
            atoms=self.settings.atoms_weight,
            energy=self.settings.energy_weight,
            burn_in=min(LossWeights().burn_in, context - 1),
        )

    def _share(self) -> int:
        processes: int = self.accelerator.num_processes
        share, rest = divmod(self.settings.batch, processes)
        if rest:
            raise ConfigError(
                f"train.batch = {self.settings.batch} cannot be shared evenly among {processes} "
                "processes: set a multiple of that"
            )
        return share

    # A step: data, loss, gradients, weights.

    def batch(self, step: int) -> Batch:
        """This process's share of a step, from seed, step and process alone."""
        random = np.random.default_rng([self.settings.seed, step, self.accelerator.process_index])
        streams = random.integers(len(self.ground.outlook.shares), size=self.share)
        return self.maker.make(streams, random.choice(self.ground.ends, size=self.share), random)

    def step(self, step: int, batch: Batch) -> dict[str, float]:
        """Make a step, unless its loss or gradient is no number; what was measured."""
        seeds = [self.settings.seed, step, self.accelerator.process_index]
        torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> 1))
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = training_loss(
                self.model, batch, self.weights, table=self.table, futures=self.futures
            )
        self.accelerator.backward(loss.total)
        said = self._together({"loss": loss.total.detach(), **loss.parts})
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        said |= {"gradient": float(norm), "learning_rate": learning_rate(self.settings, step)}
        self._refuse_divergence(step, said)
        for group in self.optimizer.param_groups:
            group["lr"] = said["learning_rate"]
        self.optimizer.step()
        update_ema(self.mean, self.model, ema=self.settings.ema, step=step)
        return said

    def _together(self, losses: dict[str, Tensor]) -> dict[str, float]:
        """Average losses, and gradients in their place, over all processes."""
        values = torch.stack([value.float() for value in losses.values()])
        if self.accelerator.num_processes > 1:
            gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
            flat = torch.cat([values, *(each.flatten() for each in gradients)])
            with with_others():
                flat = self.accelerator.reduce(flat, reduction="mean")
            values, *parts = flat.split([len(values), *(each.numel() for each in gradients)])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        return dict(zip(losses, values.tolist(), strict=True))

    def _refuse_divergence(self, step: int, said: dict[str, float]) -> None:
        record, loss = self.record, said["loss"]
        if math.isfinite(loss) and math.isfinite(said["gradient"]):
            record.lowest = loss if record.lowest is None else min(record.lowest, loss)
            record.above = record.above + 1 if loss > FAR_ABOVE * record.lowest else 0
            if record.above < FOR_STEPS:
                return
        raise TrainingError(
            f"the training diverges: at step {step} the loss is {loss:g}, its gradient "
            f"{said['gradient']:g}, the lowest loss was {record.lowest or math.nan:g}. The model "
            f"of step {record.best_step} is kept; start anew (--fresh, or another --out) with a "
            "lower train.learning_rate or train.clip"
        )

    # Evaluation, and what goes into a state.

    def evaluate(self) -> bool:
        """Judge the mean of weights on validation A; whether it is the best so far."""
        said: dict[str, Any] = {"step": self.record.step, "score": 0.0}
        if self.accelerator.is_main_process:
            drawing = Drawing(EVALUATED, self.settings.slots, self.settings.spare_atoms)
            imagination = Imagination(self.table, drawing, every=EVALUATED_EVERY)
            said |= evaluate(
                self.mean, self.maker, self.ground.outlook, self.ground.validation_a,
                imagination=imagination,
            ).said()  # fmt: skip
        score = self._from_main(said["score"])
        self.record.history.append({**said, "score": score})
        better = self.record.best_score is None or score < self.record.best_score
        self.record.waited = 0 if better else self.record.waited + 1
        if better:
            self.record.best_step, self.record.best_score = self.record.step, score
            self.best = _copied(self.mean)
        return better

    def _from_main(self, number: float) -> float:
        if self.accelerator.num_processes == 1:
            return number
        value = torch.tensor([number], dtype=torch.float64, device=self.accelerator.device)
        with with_others():
            return float(broadcast(value))

    def tensors(self) -> Tensors:
        """Everything that the next step depends on, and the best weights."""
        found = {f"weights.{name}": each for name, each in self.model.state_dict().items()}
        found |= {f"mean.{name}": each for name, each in self.mean.state_dict().items()}
        found |= {f"best.{name}": each for name, each in self.best.items()}
        return found | moments_of(self.model, self.optimizer)

    def go_on_from(self, tensors: Tensors, record: TrainingRecord) -> None:
        """Take up a state."""
        self.record = record
        self.model.load_state_dict(_under(tensors, "weights."))
        self.mean.load_state_dict(_under(tensors, "mean."))
        self.best = {
            name: each.to(self.accelerator.device)
            for name, each in _under(tensors, "best.").items()
        }
        take_moments(self.model, self.optimizer, tensors)


def _copied(model: MeasureModel) -> Tensors:
    return {name: each.clone() for name, each in model.state_dict().items()}


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }
