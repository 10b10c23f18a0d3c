"""`gdelphi world create` and `gdelphi world describe`: a simulated world with a known truth.

The stages are `world/archive.py`, after `world/draw_law.py` if asked for, and `judge/simulated.py`.
"""

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdelphi.app.console import Bars, Steps, grid, out, print_json, table
from gdelphi.app.options import ConfigOption, JsonOption, settings_from

if TYPE_CHECKING:
    from gdelphi.judge.simulated import Description
    from gdelphi.world.archive import Created
    from gdelphi.world.simulate import SimulatedDay

app = typer.Typer(
    help="A simulated world with a known truth: its archive, and what can be known about it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class ArchiveLayout(StrEnum):
    """Layout of a simulated archive."""

    v1 = "v1"
    v2 = "v2"


class Preset(StrEnum):
    """Size of a simulated world."""

    demo = "demo"
    default = "default"


# --- create ---------------------------------------------------------------------------------------


@app.command("create")
def create(
    out: Annotated[Path, typer.Option(help="Folder for the archive; it must not exist yet.")],
    preset: Annotated[
        Preset, typer.Option(help="demo: 250 days of 8 streams; default: 800 days of 30.")
    ] = Preset.default,
    days: Annotated[int | None, typer.Option(help="Number of days [the preset's].")] = None,
    streams: Annotated[int | None, typer.Option(help="Number of countries [the preset's].")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 7,
    law: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Draw edges, lags, occasions, regimes, volumes and the rest of the law by this "
            "seed [the law of docs/world.md].",
        ),
    ] = None,
    form: Annotated[
        ArchiveLayout,
        typer.Option("--format", help="v1: a file a day, v2: a file every 15 minutes."),
    ] = ArchiveLayout.v1,
    clean: Annotated[bool, typer.Option("--clean", help="Without the dirt of real files.")] = False,
) -> None:
    """Write a simulated world as a GDELT archive, which `gdelphi ingest` reads like a real one.

    Beside the files lies truth/: the world's equations in numbers and its hidden regimes.
    """
    from gdelphi.world.archive import create_world
    from gdelphi.world.config import world_config
    from gdelphi.world.draw_law import draw_law

    given = {"days": days, "streams": streams, "seed": seed}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if clean:
        changes["dirt"] = None
    chosen = world_config(preset.value, changes)
    if law is not None:
        chosen = draw_law(chosen, law)
    with WorldBar(chosen.days) as bar:
        created = create_world(chosen, out, form.value, bar.day_done)
    show_created(created)


class WorldBar(Bars):
    """One bar: simulated days written."""

    def __init__(self, days: int) -> None:
        super().__init__()
        self._task = self._bars.add_task("simulating", total=days, amount="")
        self._rows = 0

    def day_done(self, day: "SimulatedDay") -> None:
        """Count a day and its rows."""
        self._rows += 0 if day.missing else day.rows
        self._bars.update(self._task, advance=1, amount=f"{self._rows:,} rows")


def show_created(created: "Created") -> None:
    """Print what was written."""
    about = grid(f"simulated world in {created.folder}")
    about.add_row("days", f"{created.days:,}, of which {len(created.missing_days):,} are missing")
    about.add_row("files", f"{created.files:,}")
    about.add_row("rows", f"{created.rows:,}")
    about.add_row("next", f"gdelphi ingest --archive {created.folder}")
    out.print(about)


# --- describe -------------------------------------------------------------------------------------


@app.command("describe")
def describe(
    folder: Annotated[Path, typer.Argument(help="A folder that `world create` has written.")],
    ingredients: Annotated[
        bool,
        typer.Option(
            "--ingredients", help="Also simulate worlds without each ingredient (minutes)."
        ),
    ] = False,
    json: JsonOption = False,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="A store that has the archive [a temporary one is made]."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Score baselines and oracles on the last fifth of a simulated world's days.

    The room between the pooled stack of baselines and the fair oracle, which knows the world's
    equations but sees only what was published, is what a forecaster can hope to gain.
    """
    from gdelphi.judge.simulated import describe, ingested_panel
    from gdelphi.store.ingest import ingest

    with Steps() as steps, tempfile.TemporaryDirectory() as scratch:
        settings = settings_from(
            config, store=store or Path(scratch) / "world.duckdb", ingest__archive=str(folder)
        ).settings
        if store is None:
            steps.step("ingesting the archive")
            ingest(settings)
        steps.step("reading the store")
        panel = ingested_panel(settings, folder)
        description = describe(panel, ingredients=ingredients, on_step=steps.step)
    if json:
        print_json(description)
    else:
        show_description(description)


def show_description(description: "Description") -> None:
    """Print scores of baselines and oracles, and what the world is made of."""
    out.print(
        f"{description.streams} streams, {description.days} days, "
        f"{description.rows_a_day:,.0f} rows a day; scored on the last {description.test_days} "
        "present days, root codes"
    )
    numbers = (">cells", ">Brier", ">log score", ">skill against the stack", ">95%")
    for title, lines in (
        ("all cells", description.lines),
        ("active cells (training rate .05 to .95)", description.active_lines),
    ):
        scores = table("target", "forecaster", *numbers, title=title)
        for line in lines:
            scores.add_row(
                line.target,
                line.forecaster,
                f"{line.cells:,}",
                f"{line.brier:.4f}",
                f"{line.log_score:.4f}",
                f"{line.skill.value:+.1%}",
                f"{line.skill.low:+.1%} to {line.skill.high:+.1%}",
            )
        out.print()
        out.print(scores)
    out.print(
        f"\nroom between the stack and the fair oracle: {description.room:.1%} of the stack's "
        f"Brier score of occurs; {description.between:.0%} of the cells have a fair probability "
        "between .05 and .95"
    )
    parts = table(
        "ingredient",
        ">loss of an oracle that does not see it",
        ">room in a world without it",
        title="ingredients",
    )
    for part in description.contributions:
        room = "" if part.room_without is None else f"{part.room_without:.1%}"
        parts.add_row(part.ingredient, f"{part.blind_loss:+.1%}", room)
    out.print()
    out.print(parts)
