"""What the commands of words show: bars or lines, tables. No decision is made here."""

from typing import TYPE_CHECKING

from rich.progress import TaskID

from gdelphi.app.console import (
    Bars,
    as_json,
    err,
    grid,
    out,
)
from gdelphi.app.console_train import add_steps, span

if TYPE_CHECKING:  # scientific libraries take a second to load
    from gdelphi.text.dataset import Dataset
    from gdelphi.text.forecast import TextForecast
    from gdelphi.text.train import TextPulse, TextTrained


class TextBar(Bars):
    """Bars of days packed, of sequences and of steps."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, TaskID] = {}

    def packed(self, done: int, total: int, points: int) -> None:
        self._show("packing", done, total, f"{points:,} points")

    def written(self, done: int, total: int) -> None:
        self._show("writing", done, total, f"{done:,} sequences")

    def stepped(self, pulse: "TextPulse") -> None:
        said = (
            f"loss {pulse.loss:.3f}, validation {pulse.score:.3f}, "
            f"{pulse.steps_per_second:.2f} steps/s"
        )
        if err.is_terminal:
            self._show("training", pulse.step, pulse.steps, said)
        elif pulse.logged:
            left = span(pulse.seconds_left)
            err.print(f"step {pulse.step} of {pulse.steps}: {said}, {left} left", soft_wrap=True)

    def _show(self, name: str, done: int, total: int, amount: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, amount="")
        self._bars.update(self._tasks[name], completed=done, amount=amount)


def show_dataset(result: "Dataset", *, json: bool) -> None:
    """What a dataset holds and has cost."""
    if json:
        print(as_json(result))  # noqa: T201
        return
    table = grid(f"wrote {result.path}")
    table.add_row(
        "sequences", f"{result.sequences:,} of {result.days} days, {result.streams} streams"
    )
    table.add_row("descriptors", f"{result.descriptors:,} with {result.phrases:,} phrases")
    table.add_row(
        "size", f"{result.bytes / 1e6:,.1f} MB, texts alone {result.text_bytes / 1e6:,.1f} MB"
    )
    table.add_row("time", span(result.seconds))
    table.add_row("memory", f"{result.peak_bytes / 1e6:,.0f} MB at its highest")
    out.print(table)


def show_trained(result: "TextTrained", *, json: bool) -> None:
    """What a training has ended with."""
    if json:
        print(as_json(result))  # noqa: T201
        return
    table = grid(f"{result.kind} in {result.folder}")
    few = result.learned < result.parameters
    trained = f", of which {result.learned:,} were trained" if few else ""
    table.add_row("parameters", f"{result.parameters:,}{trained}; {result.words:,} words")
    add_steps(table, result)
    table.add_row("validation A", f"{result.score:.4f}, untrained {result.untrained:.4f}")
    table.add_row("time", span(result.seconds))
    out.print(table)


def show_outlook(result: "TextForecast", shown: int, *, json: bool) -> None:
    """The next day of some streams as texts."""
    if json:
        print(as_json(result))  # noqa: T201
        return
    for each in result.streams:
        table = grid(f"{each.name} on {result.day}")
        table.add_row("likeliest", "\n".join(each.likeliest) or "nothing")
        for number, lines in enumerate(each.futures[:shown], start=1):
            table.add_row(f"future {number}", "\n".join(lines) or "nothing")
        events = [f"{label} {chance:.0%}" for label, chance in each.events]
        table.add_row("events", ", ".join(events))
        out.print(table)
    out.print(
        f"{result.texts:,} texts for each stream: {result.phrases:,} phrases in all, and "
        f"{result.faults:,} groups of words that are none"
    )
