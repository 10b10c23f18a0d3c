"""`gdelphi train`: a measure model from the store's days. The stage is `model/train.py`."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gdelphi.app.console import (
    Bars,
    add_training_steps,
    duration,
    err,
    grid,
    out,
    print_json,
)
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    ModelSeedOption,
    ResumeOption,
    StoreOption,
    TensorBoardOption,
    WaitOption,
    goes_on_from,
    let_threads_sleep,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.model.loop import Trained, TrainStatus
    from gdelphi.model.train import TrainingEstimate


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def command(
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
    tensorboard: TensorBoardOption = False,
    device: Annotated[Device | None, typer.Option(help="Where to compute [auto].")] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Train a measure model on the store's days.

    Needs `gdelphi embed` first. Stops when validation A no longer improves, and keeps the best. Run
    again, it goes on from its last checkpoint; killed or not, it ends with the same model. On
    several GPUs or machines: `accelerate launch -m gdelphi train ...`, or `torchrun` in its place.
    """
    if plot:
        typer.echo(f"drew {draw_metrics(out)}")
        return
    settings = settings_from(
        config,
        store=store,
        store_wait_seconds=wait,
        train__steps=steps,
        train__seed=seed,
        train__device=device.value if device else None,
    ).settings
    let_threads_sleep()
    from gdelphi.model.train import estimate_training, train

    with TrainBars() as bars:
        if dry_run:
            estimate = estimate_training(settings, bars)
        else:
            with goes_on_from("its last checkpoint"):
                result = train(settings, out, resume=resume, progress=bars, tensorboard=tensorboard)
    if dry_run:
        show_estimate(estimate, json=json)
    elif result.main:
        show_trained(result, json=json)


class TrainBars(Bars):
    """Bars of days packed and of steps; without a terminal a line for every few steps."""

    def stepped(self, status: "TrainStatus") -> None:
        """Say how far the training is."""
        told = (
            f"loss {status.loss:.4f}, validation {status.score:.4f}, "
            f"{status.steps_per_second:.2f} steps/s, {status.points_per_second:,.0f} points/s"
        )
        if err.is_terminal:
            self.show("training", status.step, status.steps, told)
        elif status.logged:
            left = duration(status.seconds_left)
            err.print(f"step {status.step} of {status.steps}: {told}, {left} left", soft_wrap=True)


def show_trained(result: "Trained", *, json: bool) -> None:
    """Print what a training has ended with."""
    if json:
        print_json(result)
        return
    table = grid(f"model in {result.folder}")
    table.add_row("parameters", f"{result.parameters:,}")
    add_training_steps(table, result)
    gain = 1 - result.score / result.untrained if result.untrained else 0.0
    table.add_row(
        "validation A",
        f"log loss {result.score:.4f}, untrained {result.untrained:.4f} ({gain:+.1%} better)",
    )
    table.add_row("cell network", cells_line(result.folder))
    table.add_row("context network", context_line(result.folder))
    table.add_row("decoder", decoder_line(result.folder))
    table.add_row("time", duration(result.seconds))
    out.print(table)


def cells_line(folder: Path) -> str:
    """How far the direct reading goes from the stack to the cell network."""
    from gdelphi.common.types import TARGETS
    from gdelphi.model.cell_fit import CELL_FOLDER, CellFit
    from gdelphi.stack.files import FOLDER

    if not (folder / FOLDER / CELL_FOLDER).exists():
        return "none: there is no stack of counts"
    fit = CellFit.load(folder / FOLDER / CELL_FOLDER)
    tomorrow = weights_line(fit.weights, fit.gains)
    if not fit.knows_week:
        return tomorrow
    further = fit.weights[len(TARGETS) :]
    return f"{tomorrow}; of {len(further)} further targets of the week {sum(map(bool, further))}"


def context_line(folder: Path) -> str:
    """How far the direct reading goes from there to the context network."""
    from gdelphi.model.context_fit import CONTEXT_FOLDER, ContextFit
    from gdelphi.stack.files import FOLDER

    if not (folder / FOLDER / CONTEXT_FOLDER).exists():
        return "none: there is no stack of counts"
    fit = ContextFit.load(folder / FOLDER / CONTEXT_FOLDER)
    if fit.left_out:
        return f"left out: {fit.left_out}"
    return weights_line(fit.weights, fit.gains)


def weights_line(weights: Sequence[float], gains: Sequence[float]) -> str:
    """How far is gone for each target of tomorrow, and what that gains on validation A and B."""
    from gdelphi.common.types import TARGETS

    return ", ".join(
        f"{target} {weight:.0%}" + (f" (log loss {gain:.5f} lower)" if weight else "")
        for target, weight, gain in zip(TARGETS, weights, gains, strict=False)
    )


def decoder_line(folder: Path) -> str:
    """What became of the decoder that is trained with a model."""
    from gdelphi.model.decoder_task import DECODER_FOLDER, read_decoder_choice

    choice = read_decoder_choice(folder / DECODER_FOLDER)
    if choice is None or choice.skipped:
        return f"none: {choice.skipped if choice else 'it was not trained'}"
    gain = 1 - choice.decoded / choice.start
    return (
        f"divergence {choice.decoded:.4f} on validation A, of its start {choice.start:.4f} "
        f"({gain:+.1%} better)"
    )


def show_estimate(result: "TrainingEstimate", *, json: bool) -> None:
    """Print what a training would cost."""
    if json:
        print_json(result)
        return
    table = grid(f"would train on {result.device} in {result.precision}")
    table.add_row("data", f"{result.streams:,} streams, {result.days:,} days to end sequences on")
    table.add_row("parameters", f"{result.parameters:,}")
    peak = "" if result.peak_bytes is None else f"; {_megabytes(result.peak_bytes)} in a step"
    table.add_row(
        "memory",
        f"parameters {_megabytes(result.parameter_bytes)}, optimizer "
        f"{_megabytes(result.optimizer_bytes)}, a batch {_megabytes(result.batch_bytes)}{peak}",
    )
    table.add_row(
        "a step",
        f"{result.seconds_per_step:.3f} s; its batch is made in {result.seconds_per_batch:.3f} s "
        "meanwhile",
    )
    epoch = f"{result.steps_per_epoch:,} steps, {duration(result.seconds_per_epoch)}"
    table.add_row("an epoch", epoch)
    in_all = f"{duration(result.seconds_in_all)}, and evaluations; before it the stack is fitted"
    table.add_row("in all", in_all)
    out.print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def draw_metrics(folder: Path) -> Path:
    """Draw metrics.jsonl as a figure beside it; returns its path."""
    from gdelphi.common.errors import TrainingError
    from gdelphi.model.checkpoint import read_metrics

    lines = read_metrics(folder)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TrainingError(
            "a figure needs matplotlib, which is not installed: `pip install matplotlib`"
        ) from None
    figure = Figure(figsize=(10, 4), layout="constrained")
    titles = {"loss": "loss of a step", "score": "log loss, validation A"}
    for axes, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        having = [line for line in lines if name in line]
        axes.plot([line["step"] for line in having], [line[name] for line in having], marker=".")
        axes.set(xlabel="step", title=title)
        axes.grid(visible=True, alpha=0.3)
    path = folder / "metrics.png"
    figure.savefig(path, dpi=120)
    return path
