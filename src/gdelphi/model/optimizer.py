"""What every training step uses: learning rate, AdamW, EMA of the weights, and their tensors.

The EMA (exponential moving average) of the weights is what is evaluated and kept: it is steadier
than the weights of any single step.
"""

import math
from copy import deepcopy
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]
MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of a parameter
Model = TypeVar("Model", bound=nn.Module)


class OptimizerSettings(Protocol):
    """Settings of AdamW and of its learning rate."""

    @property
    def steps(self) -> int: ...
    @property
    def warm_up(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


def learning_rate(settings: OptimizerSettings, step: int) -> float:
    """Linear warm-up, then a cosine down to 0; steps are counted from 1."""
    rise = min(1.0, step / (settings.warm_up + 1))
    done = max(step - 1 - settings.warm_up, 0) / max(settings.steps - settings.warm_up, 1)
    return settings.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def optimizer_for(model: nn.Module, settings: OptimizerSettings) -> torch.optim.AdamW:
    """AdamW; matrices decay, norms and biases do not."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def ema_copy(model: Model) -> Model:
    """The model that the EMA of weights begins as."""
    return deepcopy(model).eval()


@torch.no_grad()
def update_ema(ema: nn.Module, model: nn.Module, *, decay: float, step: int) -> None:
    """ema <- d ema + (1 - d) weights, with d = min(decay, (1 + step) / (10 + step)): the first
    steps are averaged over few, so that the untrained weights are soon forgotten."""
    kept = min(decay, (1 + step) / (10 + step))
    for average, now in zip(ema.parameters(), model.parameters(), strict=True):
        average.lerp_(now, 1 - kept)


def weights_of(model: nn.Module) -> Tensors:
    """Parameters, those that are used in several places once, and the buffers that are saved."""
    parameters: Tensors = dict(model.named_parameters())
    buffers = {name for name, _ in model.named_buffers()}
    parameters |= {name: tensor for name, tensor in model.state_dict().items() if name in buffers}
    return {name: tensor.detach() for name, tensor in parameters.items()}


@torch.no_grad()
def set_weights(model: nn.Module, weights: Tensors) -> None:
    """Overwrite a model's weights; ValueError if the names are not those of `weights_of`."""
    own = weights_of(model)
    if own.keys() != weights.keys():
        raise ValueError(f"its parameters are others: {sorted(own.keys() ^ weights.keys())[:3]}")
    for name, tensor in own.items():
        tensor.copy_(weights[name])


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """What the optimizer remembers of each parameter."""
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def set_moments(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give the optimizer back what it remembered; the count of steps stays on the CPU."""
    for name, parameter in model.named_parameters():
        moments = {key: tensors[f"{key}.{name}"] for key in MOMENTS if f"{key}.{name}" in tensors}
        if moments:
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device)
                for key, value in moments.items()
            }
