"""Device, precision and processes of a training: one process, or several that train one model.

Gradients are averaged over processes as one flat vector and not by a wrapper around the model: the
loss may read parts of the model outside its forward pass, parameters that it leaves out need no
search, and a small model gains nothing from overlap.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast
from torch import Tensor

from gdelphi.common.errors import ConfigError, TrainingError
from gdelphi.common.sections import TrainSettings

LOST_AFTER: Final = timedelta(minutes=30)  # a process that says nothing for so long is lost


def accelerator_for(settings: TrainSettings) -> Accelerator:
    """The device, the precision, and the other processes if there are any."""
    has_gpu = torch.cuda.is_available()
    if settings.device == "cuda" and not has_gpu:
        raise ConfigError("train.device = cuda, but torch finds no GPU: set auto or cpu")
    use_cpu = settings.device == "cpu" or not has_gpu
    bfloat16 = not use_cpu and torch.cuda.is_bf16_supported()
    if settings.precision != "auto":
        bfloat16 = settings.precision == "bfloat16"
    # What an earlier run in this process has chosen would be kept otherwise.
    AcceleratorState._reset_state(not torch.distributed.is_initialized())
    return Accelerator(
        cpu=use_cpu,
        mixed_precision="bf16" if bfloat16 else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=LOST_AFTER)],
    )


@contextmanager
def training_device(settings: TrainSettings) -> Iterator[Accelerator]:
    """The accelerator for a block of training. The caller's random numbers go on afterwards as if
    nothing had been."""
    accelerator = accelerator_for(settings)
    device = accelerator.device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield accelerator
    finally:
        accelerator.end_training()


@contextmanager
def _together() -> Iterator[None]:
    """What processes do together fails when one of them has died."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].partition(". ")[0]  # without the library's chatter
        raise TrainingError(
            f"another process of this training was lost ({reason}): its own message says why; "
            "start all of them again to go on from the last checkpoint"
        ) from None


def wait_for_all(accelerator: Accelerator) -> None:
    """Go on when all processes have come here."""
    with _together():
        accelerator.wait_for_everyone()


@contextmanager
def main_process_first(accelerator: Accelerator) -> Iterator[None]:
    """The first process makes in this block what is missing, the others find it there."""
    if not accelerator.is_main_process:
        wait_for_all(accelerator)
    yield
    if accelerator.is_main_process:
        wait_for_all(accelerator)


def average(accelerator: Accelerator, values: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Values [n] averaged over all processes, and the parameters' gradients in their place."""
    if accelerator.num_processes == 1:
        return values
    gradients = [tensor.grad for tensor in parameters if tensor.grad is not None]
    flat = torch.cat([values, *(gradient.flatten() for gradient in gradients)])
    with _together():
        flat = accelerator.reduce(flat, reduction="mean")
    values, *parts = flat.split([len(values), *(gradient.numel() for gradient in gradients)])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
    return values


def from_main(accelerator: Accelerator, number: float) -> float:
    """The first process's number, in all of them."""
    if accelerator.num_processes == 1:
        return number
    value = torch.tensor([number], dtype=torch.float64, device=accelerator.device)
    with _together():
        return float(broadcast(value))
