"""`gdelphi text data`, `train` and `forecast`: days as texts, and models of them.

The stages are `text/dataset.py`, `text/train.py` and `text/forecast.py`.
"""

from datetime import date
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
    parse_day,
    parse_names,
    settings_from,
)
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from gdelphi.model.loop import TrainStatus
    from gdelphi.text.dataset import Dataset
    from gdelphi.text.forecast import TextForecast
    from gdelphi.text.train import TextTrained

app = typer.Typer(
    help="Days as texts: datasets, the text forecaster, names for points.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class TextModelKind(StrEnum):
    """Which text model."""

    forecaster = "forecaster"
    namer = "namer"


class TextForm(StrEnum):
    """Language of a dataset's texts."""

    compact = "compact"
    english = "english"


class TextPart(StrEnum):
    """Part of the split that targets lie in."""

    train = "train"
    validation_a = "validation_a"
    validation_b = "validation_b"
    test = "test"


class TextBars(Bars):
    """Bars of days packed, of sequences and of steps."""

    def written(self, done: int, total: int) -> None:
        """Set the bar of sequences."""
        self.show("writing", done, total, f"{done:,} sequences")

    def stepped(self, status: "TrainStatus") -> None:
        """Say how far the training is; without a terminal a line for every few steps."""
        told = (
            f"loss {status.loss:.3f}, validation {status.score:.3f}, "
            f"{status.steps_per_second:.2f} steps/s"
        )
        if err.is_terminal:
            self.show("training", status.step, status.steps, told)
        elif status.logged:
            left = duration(status.seconds_left)
            err.print(f"step {status.step} of {status.steps}: {told}, {left} left", soft_wrap=True)


# --- data -----------------------------------------------------------------------------------------


@app.command("data")
def data(
    out: Annotated[Path, typer.Option("--out", help="The Parquet file.")] = Path(
        "data/sequences.parquet"
    ),
    number: Annotated[int, typer.Option("--number", min=1, help="Sequences.")] = 10_000,
    part: Annotated[TextPart, typer.Option(help="Part of the split.")] = TextPart.train,
    form: Annotated[
        TextForm, typer.Option("--form", help="The compact language, or English.")
    ] = TextForm.compact,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same file.")] = 0,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Write sequences of daily texts, each with the text of the day after.

    Needs `gdelphi embed` first. Descriptors are drawn at random, for each day its own or one of
    the random ones, so that many sequences of few days differ from each other; the day after has
    its own. Before the days stands what the stack expects of the day after: it is fitted if there
    is none of these days, and with fewer than 120 days there is none.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    from gdelphi.text.data import load_text_data, with_stack
    from gdelphi.text.dataset import write_dataset

    with TextBars() as bars:
        text_data = with_stack(load_text_data(settings, bars.packed), bars.stage)
        result = write_dataset(
            text_data, out, number, part=part.value, form=form.value, seed=seed,
            on_written=bars.written,
        )  # fmt: skip
    show_dataset(result, json=json)


def show_dataset(result: "Dataset", *, json: bool) -> None:
    """Print what a dataset holds and has cost."""
    if json:
        print_json(result)
        return
    table = grid(f"wrote {result.path}")
    table.add_row(
        "sequences", f"{result.sequences:,} of {result.days} days, {result.streams} streams"
    )
    table.add_row("descriptors", f"{result.descriptors:,} with {result.phrases:,} phrases")
    table.add_row(
        "size", f"{result.bytes / 1e6:,.1f} MB, texts alone {result.text_bytes / 1e6:,.1f} MB"
    )
    table.add_row("time", duration(result.seconds))
    table.add_row("memory", f"{result.peak_bytes / 1e6:,.0f} MB at its highest")
    out.print(table)


# --- train ----------------------------------------------------------------------------------------


@app.command("train")
def train(
    kind: Annotated[
        TextModelKind, typer.Option("--kind", help="The text forecaster, or names for points.")
    ] = TextModelKind.forecaster,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the model [models/text-KIND].")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps, at most [2500; namer 5000].")
    ] = None,
    seed: ModelSeedOption = None,
    resume: ResumeOption = True,
    tensorboard: TensorBoardOption = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Train the text forecaster, or the namer.

    Needs `gdelphi embed` first. The forecaster is told what the stack expects, which is fitted if
    there is none of these days. Stops when validation A no longer improves, and keeps the best. Run
    again, it goes on from its last checkpoint; killed or not, it ends with the same model.
    """
    steps_setting = "text__steps" if kind is TextModelKind.forecaster else "text__namer_steps"
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, text__seed=seed, **{steps_setting: steps}
    ).settings
    let_threads_sleep()
    folder = out or Path("models") / f"text-{kind.value}"
    with TextBars() as bars:
        from gdelphi.text.train import train_text_model

        with goes_on_from("its last checkpoint"):
            result = train_text_model(
                settings, kind.value, folder,
                resume=resume, progress=bars, tensorboard=tensorboard,
            )  # fmt: skip
    if result.main:
        show_trained(result, json=json)


def show_trained(result: "TextTrained", *, json: bool) -> None:
    """Print what a training has ended with."""
    if json:
        print_json(result)
        return
    table = grid(f"{result.kind} in {result.folder}")
    table.add_row("parameters", f"{result.parameters:,}; {result.words:,} words")
    add_training_steps(table, result)
    table.add_row("validation A", f"{result.score:.4f}, untrained {result.untrained:.4f}")
    table.add_row("time", duration(result.seconds))
    out.print(table)


# --- forecast -------------------------------------------------------------------------------------


@app.command("forecast")
def forecast(
    model: Annotated[Path, typer.Option("--model", help="Folder of a text forecaster.")] = Path(
        "models/text-forecaster"
    ),
    origin: Annotated[
        date | None,
        typer.Option(
            "--origin", parser=parse_day, metavar="DAY", help="Last day known [the last one]."
        ),
    ] = None,
    streams: Annotated[
        str | None, typer.Option(help="Streams, as KE,UP [the model's first five].")
    ] = None,
    futures: Annotated[int, typer.Option(min=1, max=10_000, help="Texts written.")] = 100,
    shown: Annotated[int, typer.Option(min=0, help="Texts shown.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same texts.")] = 0,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Write the next day as texts: the likeliest, some futures, and the likeliest events.

    What cannot be read back as a phrase is counted. Probabilities are the text forecaster's own;
    `gdelphi backtest --text-model` judges them beside all others.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    let_threads_sleep()
    from gdelphi.text.forecast import text_forecast

    with TextBars() as bars:
        result = text_forecast(
            settings, model, origin, parse_names(streams), number=futures, seed=seed,
            on_packed=bars.packed,
        )  # fmt: skip
    show_forecast(result, shown, json=json)


def show_forecast(result: "TextForecast", shown: int, *, json: bool) -> None:
    """Print the next day of some streams as texts."""
    if json:
        print_json(result)
        return
    for stream in result.streams:
        table = grid(f"{stream.name} on {result.day}")
        table.add_row("likeliest", "\n".join(stream.likeliest) or "nothing")
        for number, lines in enumerate(stream.futures[:shown], start=1):
            table.add_row(f"future {number}", "\n".join(lines) or "nothing")
        events = [f"{label} {percent(chance)}" for label, chance in stream.events]
        table.add_row("events", ", ".join(events))
        out.print(table)
    out.print(
        f"{result.texts:,} texts for each stream: {result.phrases:,} phrases in all, and "
        f"{result.faults:,} groups of words that are none"
    )
