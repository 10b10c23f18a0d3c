"""The command that trains a model."""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gdelphi.app import console_train
from gdelphi.app.options import (
    BoardOption,
    ConfigOption,
    JsonOption,
    ModelSeedOption,
    ResumeOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    settings_from,
)

# What it calls imports torch and more, so it is imported when the command runs.


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def train_command(
    out: Annotated[Path, typer.Option("--out", help="Folder of the model.")] = Path(
        "models/latest"
    ),
    steps: Annotated[int | None, typer.Option(help="Steps, at most [500].")] = None,
    seed: ModelSeedOption = None,
    resume: ResumeOption = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make a few steps and say what a training costs.")
    ] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the folder's metrics.jsonl, and train nothing.")
    ] = False,
    tensorboard: BoardOption = False,
    device: Annotated[Device | None, typer.Option(help="Where to compute [auto].")] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Train a measure model on the store's days.

    Needs `gdelphi embed` first. Stops when validation A no longer improves, and keeps the best. Run
    again, it goes on from its last state; killed or not, it ends with the same model. On several
    GPUs or machines: `accelerate launch -m gdelphi train ...`, or `torchrun` in its place.
    """
    if plot:
        typer.echo(f"drew {console_train.draw_metrics(out)}")
        return
    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        train__steps=steps,
        train__seed=seed,
        train__device=device.value if device else None,
    ).settings
    # Torch's threads wait for each other spinning: a step takes 0.2 s on an idle machine of 2 cores
    # and 5 to 11 s beside one or two other programs; waiting asleep it takes 0.3 to 0.4 s on
    # either. The variable is read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from gdelphi.model.train import estimate_training, train

    with console_train.TrainBar() as bar:
        if dry_run:
            rehearsal = estimate_training(settings, bar)
        else:
            with goes_on_from("its last state"):
                result = train(settings, out, resume=resume, progress=bar, board=tensorboard)
    if dry_run:
        console_train.show_rehearsal(rehearsal, json=json)
    elif result.main:
        console_train.show_trained(result, json=json)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {"train": train_command}
