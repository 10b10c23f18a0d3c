"""`gdelphi promote`: which model is in use. The stage is `app/promote.py`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, out, print_json, table
from gdelphi.app.options import (
    ConfigOption,
    JsonOption,
    StoreOption,
    WaitOption,
    let_threads_sleep,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.app.promote import PromotionResult


def command(
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Folder of the challenger [latest, in flows.models]."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Put it in use without a comparison.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to the model that was in use before.")
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Put a model in use, if it is not worse than the one that is.

    Both are asked for the same days of validation B. What is in use is a copy in models/, named by
    its fingerprint; models/current points to it, and models/promotions.jsonl tells why. Exits with
    1 if the model in use stays.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    if rollback and (model or force):
        raise typer.BadParameter("--rollback goes with neither --model nor --force")
    let_threads_sleep()
    with Steps() as steps:
        from gdelphi.app import promote

        if rollback:
            decided = promote.rollback(settings)
        else:
            challenger = model or settings.flows.models / "latest"
            decided = promote.promote(settings, challenger, force=force, on_step=steps.step)
    show_decided(decided, json=json)
    raise typer.Exit(1 if decided.action == "kept" else 0)


def show_decided(decided: "PromotionResult", *, json: bool) -> None:
    """Print which model is in use, and why."""
    compared = decided.compared
    if json:
        scores = (
            {"challenger": compared.challenger, "incumbent": compared.incumbent} if compared else {}
        )
        print_json({**asdict(decided), **scores})
        return
    out.print(Text(f"{decided.action}: {decided.current}", style="bold"))
    out.print(Text(decided.reason))
    if compared:
        out.print(
            f"Brier scores over the stack's, {compared.days} days of validation B from "
            f"{compared.since} to {compared.until}, {compared.streams} streams; less is better"
        )
        shown = table("target", ">challenger", ">in use")
        for target, (challenger, incumbent) in compared.targets.items():
            shown.add_row(target, f"{challenger:.4f}", f"{incumbent:.4f}")
        means = (f"{compared.challenger:.4f}", f"{compared.incumbent:.4f}")
        shown.add_row("mean", *means, style="bold")
        out.print(shown)
    if decided.previous and decided.action in ("promoted", "rolled back"):
        out.print(Text(f"before: {decided.previous} (`gdelphi promote --rollback` goes back)"))
