"""What `gdelphi train` shows: a bar or lines, tables, a figure. No decision is made here."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import TaskID
from rich.table import Table

from gdelphi.app.console import (
    Bars,
    as_json,
    err,
    grid,
    out,
)

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.model.train import (
        Trained,
        TrainingEstimate,
        TrainStatus,
    )
    from gdelphi.text.train import TextTrained


class TrainBar(Bars):
    """Bars of days packed and of steps; without a terminal a line for every few steps."""

    def __init__(self) -> None:
        super().__init__()
        self._packing: TaskID | None = None
        self._training: TaskID | None = None

    def packed(self, done: int, total: int, points: int) -> None:
        if self._packing is None:
            self._packing = self._bars.add_task("packing", total=total, amount="")
        self._bars.update(self._packing, completed=done, amount=f"{points:,} points")

    def stepped(self, pulse: "TrainStatus") -> None:
        said = (
            f"loss {pulse.loss:.4f}, validation {pulse.score:.4f}, "
            f"{pulse.steps_per_second:.2f} steps/s, {pulse.points_per_second:,.0f} points/s"
        )
        if err.is_terminal:
            if self._training is None:
                self._training = self._bars.add_task("training", total=pulse.steps, amount="")
            self._bars.update(self._training, completed=pulse.step, amount=said)
        elif pulse.logged:
            left = span(pulse.seconds_left)
            err.print(f"step {pulse.step} of {pulse.steps}: {said}, {left} left", soft_wrap=True)


def span(seconds: float) -> str:
    """Seconds as a person says them."""
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def add_steps(table: Table, result: "Trained | TextTrained") -> None:
    """How many steps a training took, and which it keeps."""
    why = "all steps done" if result.stopped == "steps" else "no improvement any more"
    before = f", of which {result.began_at:,} were done before" if result.began_at else ""
    table.add_row("steps", f"{result.steps:,}{before} ({why})")
    table.add_row("kept", f"the mean of weights at step {result.best_step:,}")


def show_trained(result: "Trained", *, json: bool) -> None:
    """What a training has ended with."""
    if json:
        print(as_json(result))  # noqa: T201
        return
    table = grid(f"model in {result.folder}")
    table.add_row("parameters", f"{result.parameters:,}")
    add_steps(table, result)
    gain = 1 - result.score / result.untrained if result.untrained else 0.0
    table.add_row(
        "validation A",
        f"log loss {result.score:.4f}, untrained {result.untrained:.4f} ({gain:+.1%} better)",
    )
    table.add_row("time", span(result.seconds))
    out.print(table)


def show_rehearsal(result: "TrainingEstimate", *, json: bool) -> None:
    """What a training would cost."""
    if json:
        print(as_json(result))  # noqa: T201
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
    table.add_row("an epoch", f"{result.steps_per_epoch:,} steps, {span(result.seconds_per_epoch)}")
    table.add_row("in all", f"{span(result.seconds_in_all)}, and evaluations")
    out.print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def draw_metrics(folder: Path) -> Path:
    """metrics.jsonl as a figure beside it."""
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
    left, right = figure.subplots(1, 2)
    _curve(left, [line for line in lines if "loss" in line], "loss", "loss of a step")
    _curve(right, [line for line in lines if "score" in line], "score", "log loss, validation A")
    path = folder / "metrics.png"
    figure.savefig(path, dpi=120)
    return path


def _curve(axes: Any, lines: list[dict[str, Any]], name: str, title: str) -> None:
    axes.plot([line["step"] for line in lines], [line[name] for line in lines], marker=".")
    axes.set(xlabel="step", title=title)
    axes.grid(visible=True, alpha=0.3)
