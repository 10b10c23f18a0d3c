"""Descent: what trainings have in common, whatever it is that they train.

The learning rate, the optimizer, the running mean of weights, and what of the optimizer goes into a
state. Parameters that are not trained (the weights of a pretrained model beside the few that are
added to it) take no part in any of this.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from gdelphi.model.checkpoint import Tensors

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
Model = TypeVar("Model", bound=nn.Module)


class OptimizerSettings(Protocol):
    """Settings of a descent."""

    @property
    def steps(self) -> int: ...
    @property
    def warm_up(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


def learning_rate(settings: OptimizerSettings, step: int) -> float:
    """Rises in a line, falls like a cosine; steps are counted from 1."""
    rise = min(1.0, step / (settings.warm_up + 1))
    done = max(step - 1 - settings.warm_up, 0) / max(settings.steps - settings.warm_up, 1)
    return settings.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def trained_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Those that are trained, each once, with their names."""
    return ((name, each) for name, each in model.named_parameters() if each.requires_grad)


def optimizer_for(model: nn.Module, settings: OptimizerSettings) -> torch.optim.AdamW:
    """AdamW; matrices decay, norms and biases do not."""
    given = [each for _, each in trained_parameters(model)]
    groups = [
        {"params": [each for each in given if each.ndim > 1],
         "weight_decay": settings.weight_decay},
        {"params": [each for each in given if each.ndim <= 1], "weight_decay": 0.0},
    ]  # fmt: skip
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def ema_copy(model: Model) -> Model:
    """Where the running mean of a model's weights begins; what is not trained is shared."""
    shared: dict[int, Any] = {
        id(each): each for each in model.parameters() if not each.requires_grad
    }
    return deepcopy(model, shared).eval()


@torch.no_grad()
def update_ema(mean: nn.Module, model: nn.Module, *, ema: float, step: int) -> None:
    """Move the mean of weights on by a step."""
    keep = min(ema, (1 + step) / (10 + step))  # soon forgets where it began
    pairs = zip(trained_parameters(mean), trained_parameters(model), strict=True)
    for (_, old), (_, now) in pairs:
        old.lerp_(now, 1 - keep)


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """What the optimizer remembers of each parameter."""
    return {
        f"{key}.{name}": value
        for name, parameter in trained_parameters(model)
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def take_moments(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give the optimizer back what it remembered; the count of steps stays on the CPU."""
    for name, parameter in trained_parameters(model):
        found = {key: tensors[f"{key}.{name}"] for key in MOMENTS if f"{key}.{name}" in tensors}
        if found:
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device)
                for key, value in found.items()
            }


def own_random_numbers(device: torch.device) -> Any:
    """The caller's random numbers go on afterwards as if nothing had been."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
