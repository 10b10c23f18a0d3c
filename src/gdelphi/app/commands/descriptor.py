"""`gdelphi descriptor`: a day in brief. The stage is `measures/brief.py`."""

from typing import TYPE_CHECKING

from rich.text import Text

from gdelphi.app.console import mentions_and_place, out, print_json
from gdelphi.app.options import (
    ConfigOption,
    DayOption,
    JsonOption,
    StoreOption,
    StreamOption,
    WaitOption,
    settings_from,
)

if TYPE_CHECKING:
    from gdelphi.measures.brief import AtomInBrief, DayInBrief

QUADS = ("verbal cooperation", "material cooperation", "verbal conflict", "material conflict")


def command(
    stream: StreamOption,
    day: DayOption,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Show a day in brief: up to 10 phrases with their share, and the reports behind them.

    Each phrase stands for reports of its own kind of event alone.
    """
    from gdelphi.measures.brief import day_in_brief

    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    brief = day_in_brief(settings, stream, day)
    if json:
        print_json(brief)
    else:
        show_day(brief)


def show_day(brief: "DayInBrief") -> None:
    """Print a day in brief, as an analyst reads it."""
    statistics = brief.statistics
    out.print(Text(f"{brief.name} ({brief.stream}), {brief.day:%A} {brief.day}", style="bold"))
    usual = ""
    if brief.usual_volume:
        usual = f", {statistics.volume / brief.usual_volume:.1f} times the usual {brief.day:%A}"
    head = f"{statistics.volume:,} reports, {statistics.phrases:,} distinct phrases"
    out.print(Text(head + usual))
    if brief.partial or brief.backfile:
        flags = ["some of its files are missing"] * brief.partial
        flags += ["backfile: reports stand on the day of the event"] * brief.backfile
        out.print(Text("note: " + "; ".join(flags), style="yellow"))
    if not statistics.volume:
        out.print("nothing was reported")
        return
    quads = dict(zip(QUADS, statistics.quad_shares, strict=True))
    tone = f"tone {statistics.tone:+.1f}"
    if brief.usual_tone is not None:
        tone += f" (usual {brief.usual_tone:+.1f})"
    out.print(Text(", ".join(f"{name} {share:.0%}" for name, share in quads.items()) + f"; {tone}"))
    for number, atom in enumerate(brief.atoms, start=1):
        _show_atom(number, atom)
    out.print(
        Text(
            f"\nshares are of the weight of all the day's reports; these {len(brief.atoms)} "
            f"phrases stand for {brief.shown:.0%} of it. They explain {brief.explained:.0%} of its "
            f"spread; their W2 distance to the day is {brief.distance:.2f}",
            style="dim",
        )
    )


def _show_atom(number: int, atom: "AtomInBrief") -> None:
    out.print()
    line = Text(f"{number:>2}. {atom.share:>4.0%}  ")
    out.print(line.append(atom.phrase, style="bold"))
    out.print(
        Text(
            f"          {atom.code} {atom.event}; {atom.rows:,} reports in {atom.phrases:,} "
            f"phrases, {atom.same_root:.0%} of their weight is {atom.root.lower()}",
            style="dim",
        )
    )
    for phrase, share in atom.others:
        out.print(Text(f"          {share:>5.1%}  {phrase}"))
    for row in atom.evidence:
        told = mentions_and_place(row.mentions, row.place)
        source = f": {row.source}" if row.source else ""
        out.print(Text(f"          #{row.event_id} ({told}){source}", style="dim"))
