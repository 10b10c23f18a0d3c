"""The commands of words: text data, text train, text forecast."""

import os
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gdelphi.app import console_text
from gdelphi.app.options import (
    BoardOption,
    ConfigOption,
    JsonOption,
    ModelSeedOption,
    ResumeOption,
    StoreOption,
    WaitOption,
    goes_on_from,
    parse_day,
    settings_from,
)

# What they call imports torch and more, so it is imported when a command runs.

app = typer.Typer(
    help="Days as texts: datasets, the text forecaster, names for points.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class TextModelKind(StrEnum):
    """Which model of words."""

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


@app.command("data")
def data_command(
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
    the random ones, so that many sequences of few days differ from each other.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    from gdelphi.text.dataset import write_dataset
    from gdelphi.text.forecaster_task import load_text_data

    with console_text.TextBar() as bar:
        ground = load_text_data(settings, bar.packed)
        result = write_dataset(
            ground, out, number, part=part.value, form=form.value, seed=seed,
            on_written=bar.written,
        )  # fmt: skip
    console_text.show_dataset(result, json=json)


@app.command("train")
def train_command(
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
    tensorboard: BoardOption = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Train the text forecaster, or the namer.

    Needs `gdelphi embed` first. Stops when validation A no longer improves, and keeps the best. Run
    again, it goes on from its last state; killed or not, it ends with the same model.
    """
    named = "text__steps" if kind is TextModelKind.forecaster else "text__namer_steps"
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, text__seed=seed, **{named: steps}
    ).settings  # fmt: skip
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see `gdelphi train`
    folder = out or Path("models") / f"text-{kind.value}"
    with console_text.TextBar() as bar:
        from gdelphi.text.tasks import make_task
        from gdelphi.text.train import train_task

        task = make_task(settings, kind.value, bar.packed)
        with goes_on_from("its last state"):
            result = train_task(task, folder, resume=resume, progress=bar, board=tensorboard)
    console_text.show_trained(result, json=json)


@app.command("forecast")
def forecast_command(
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
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from gdelphi.text.forecast import text_forecast

    names = tuple(name.strip() for name in (streams or "").split(",") if name.strip())
    with console_text.TextBar() as bar:
        result = text_forecast(
            settings, model, origin, names, number=futures, seed=seed, on_packed=bar.packed
        )
    console_text.show_outlook(result, shown, json=json)
