"""`gdelphi verify`: everything on disk against its checksums. The stage is `app/verify.py`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from gdelphi.app.console import MOST_LINES, Steps, err, out, print_json
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, WaitOption, settings_from

if TYPE_CHECKING:
    from gdelphi.app.verify import VerifiedPart

NAME_WIDTH = 11


def command(
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Hold everything on disk against its checksums, and say what to do about damage.

    Store, measures, embeddings, models, forecasts, scores, reports. Nothing is changed. Exits with
    1 if a file is not what was written, or is gone.
    """
    from gdelphi.app.verify import verify

    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    parts = []
    with Steps() as steps:

        def begin(name: str) -> None:
            if err.is_terminal:
                steps.step(f"reading {name}")

        for part in verify(settings, on_step=begin):
            parts.append(part)
            if not json:
                show_part(part)
    if json:
        print_json([asdict(part) for part in parts])
    raise typer.Exit(1 if any(part.damages for part in parts) else 0)


def show_part(part: "VerifiedPart") -> None:
    """Print a line for a part, and two for each damage."""
    unknown = f", {part.unknown:,} without a checksum" if part.unknown else ""
    bad = f"{len(part.damages):,} DAMAGED, " if part.damages else ""
    line = Text(f"{part.name:{NAME_WIDTH}}")
    line.append(f"{bad}{part.sound:,} sound{unknown} ({part.place})", "red" if bad else "")
    out.print(line, soft_wrap=True)
    for damage in part.damages[:MOST_LINES]:
        out.print(Text(f"{' ' * NAME_WIDTH}{damage.path} {damage.says}"), soft_wrap=True)
        out.print(Text(f"{' ' * NAME_WIDTH}-> {damage.remedy}"), soft_wrap=True)
    if len(part.damages) > MOST_LINES:
        out.print(f"{' ' * NAME_WIDTH}... and {len(part.damages) - MOST_LINES:,} more (--json)")
