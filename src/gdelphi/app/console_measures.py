"""What the commands from events to measures show: bars and tables. No decision is made here."""

from typing import TYPE_CHECKING

from rich.progress import TaskID
from rich.text import Text

from gdelphi.app.console import (
    Bars,
    as_json,
    grid,
    out,
    show_rows,
)

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.measures.brief import AtomInBrief, DayInBrief
    from gdelphi.measures.clouds import Cloud
    from gdelphi.measures.embed import EmbedResult
    from gdelphi.measures.packing import SequencesMade


class EmbedBars(Bars):
    """Three bars: days gathered, texts encoded, days described."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, TaskID] = {}

    def gathered(self, done: int, total: int, rows: int) -> None:
        self._show("clouds", done, total, f"{rows:,} rows")

    def encoded(self, done: int, total: int) -> None:
        self._show("encoding", done, total, f"{done:,} of {total:,} texts")

    def described(self, done: int, total: int, made: int) -> None:
        self._show("descriptors", done, total, f"{made:,} stream-days")

    def _show(self, name: str, done: int, total: int, amount: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, amount="")
        self._bars.update(self._tasks[name], completed=done, total=total, amount=amount)


class PackBar(Bars):
    """One bar: days packed."""

    def __init__(self) -> None:
        super().__init__()
        self._task: TaskID | None = None

    def day_done(self, done: int, total: int, points: int) -> None:
        if self._task is None:
            self._task = self._bars.add_task("packing", total=total, amount="")
        self._bars.update(self._task, completed=done, amount=f"{points:,} points")


def show_phrases(cloud: "Cloud", most: int, form: str) -> None:
    """A day as phrases with their weights."""
    from gdelphi.measures.phrases import sentence
    from gdelphi.measures.space import place_of

    place = place_of(cloud.stream)
    numbers = cloud.numbers
    shown = list(cloud.phrases())[:most]
    rows = [
        (
            round(float(cloud.weights[point]), 6) if form != "table" else f"{weight:.2%}",
            int(numbers.rows[point]),
            int(numbers.mentions[point]),
            round(float(numbers.tone[point]), 2),
            phrase[1],
            sentence(*phrase, place),
        )
        for point, (phrase, weight) in enumerate(zip(shown, cloud.weights, strict=False))
    ]
    if form == "table":
        _show_head(cloud)
    show_rows(["weight", "rows", "mentions", "tone", "code", "phrase"], rows, form)
    if form == "table" and len(cloud) > most:
        rest = float(cloud.weights[most:].sum())
        out.print(f"... and {len(cloud) - most:,} more ({rest:.1%} of the weight): --most")


def _show_head(cloud: "Cloud") -> None:
    flags: list[str] = [cloud.state] if cloud.state != "full" else []
    flags += ["partial"] * cloud.partial + ["backfile"] * cloud.backfile
    said = f"{cloud.stream} on {cloud.day}: {cloud.volume:,} rows, {len(cloud):,} distinct phrases"
    out.print(Text(said + (f" ({', '.join(flags)})" if flags else "")))


def show_represented(result: "EmbedResult", *, json: bool) -> None:
    """What `gdelphi embed` did."""
    space, described = result.space, result.described
    if json:
        _print_json(
            {
                "folder": str(result.folder),
                "gathered": vars(result.gathered),
                "texts": result.texts,
                "encoded": result.encoded,
                "space": space.fingerprint,
                "fitted": result.fitted,
                "described": vars(described),
                "seconds": result.seconds,
            }
        )
        return
    gathered = result.gathered
    table = grid(f"measures in {result.folder}")
    removed = f", {gathered.removed:,} removed" if gathered.removed else ""
    table.add_row(
        "clouds",
        f"{gathered.built:,} days made ({gathered.rows:,} rows), {gathered.had:,} there "
        f"before{removed}",
    )
    table.add_row("texts", f"{result.encoded:,} encoded, of {result.texts:,} that were needed")
    how = "fitted now" if result.fitted else "as fitted before"
    table.add_row(
        "space",
        f"{space.fingerprint} ({space.settings.layout}, {space.dimension} dimensions, encoder "
        f"{space.encoder}), {how} on {space.fitted.since} to {space.fitted.until}",
    )
    kept = ", ".join(f"{name} {block.kept:.1%}" for name, block in space.blocks.items())
    table.add_row("", f"variance kept: {kept}")
    each = described.atoms / described.descriptors if described.descriptors else 0.0
    table.add_row(
        "descriptors",
        f"{described.built:,} days made ({described.descriptors:,} stream-days, {each:.1f} atoms "
        f"each), {described.had:,} there before",
    )
    table.add_row("time", f"{result.seconds:,.1f} s")
    out.print(table)


def show_brief(brief: "DayInBrief") -> None:
    """A day in brief, as an analyst reads it."""
    said = brief.statistics
    head = f"{brief.name} ({brief.stream}), {brief.day:%A} {brief.day}"
    out.print(Text(head, style="bold"))
    usual = ""
    if brief.usual_volume:
        usual = f", {said.volume / brief.usual_volume:.1f} times the usual {brief.day:%A}"
    out.print(Text(f"{said.volume:,} reports, {said.phrases:,} distinct phrases{usual}"))
    if brief.partial or brief.backfile:
        flags = ["some of its files are missing"] * brief.partial
        flags += ["backfile: reports stand on the day of the event"] * brief.backfile
        out.print(Text("note: " + "; ".join(flags), style="yellow"))
    if not said.volume:
        out.print("nothing was reported")
        return
    quads = dict(zip(QUADS, said.quad_shares, strict=True))
    tone = f"tone {said.tone:+.1f}"
    if brief.usual_tone is not None:
        tone += f" (usual {brief.usual_tone:+.1f})"
    out.print(Text(", ".join(f"{name} {share:.0%}" for name, share in quads.items()) + f"; {tone}"))
    for number, atom in enumerate(brief.atoms, start=1):
        _show_atom(number, atom)
    out.print(
        Text(
            f"\n{len(brief.atoms)} atoms explain {brief.explained:.0%} of the day's spread; their "
            f"W2 distance to the day is {brief.distance:.2f}",
            style="dim",
        )
    )


QUADS = ("verbal cooperation", "material cooperation", "verbal conflict", "material conflict")


def _show_atom(number: int, atom: "AtomInBrief") -> None:
    out.print()
    line = Text(f"{number:>2}. {atom.share:>4.0%}  ")
    out.print(line.append(atom.phrase, style="bold"))
    out.print(
        Text(
            f"          {atom.code} {atom.event}; {atom.rows:,} reports in {atom.phrases:,} "
            f"phrases, {atom.same_root:.0%} of them {atom.root.lower()}",
            style="dim",
        )
    )
    for phrase, share in atom.others:
        out.print(Text(f"          {share:>5.1%}  {phrase}"))
    for row in atom.evidence:
        mentions = f"{row.mentions:,} mention{'s' if row.mentions != 1 else ''}"
        where = f", {row.place}" if row.place else ""
        source = f": {row.source}" if row.source else ""
        out.print(Text(f"          #{row.event_id} ({mentions}{where}){source}", style="dim"))


def show_sequences(result: "SequencesMade", *, json: bool) -> None:
    """What `gdelphi sequences` did."""
    packed = result.packed
    if json:
        _print_json(
            {
                "pack": str(packed.folder),
                "made": packed.made,
                "streams": packed.streams,
                "days": packed.days,
                "present": packed.present,
                "points": packed.points,
                "atoms": packed.atoms,
                "bytes": packed.bytes,
                "index": str(result.index),
                "sequences": result.sequences,
                "targets": result.targets,
                "seconds": result.seconds,
            }
        )
        return
    table = grid(f"pack {packed.folder}" + ("" if packed.made else " (was there)"))
    shown = ", ".join(packed.streams[:12]) + (", ..." if len(packed.streams) > 12 else "")
    table.add_row("streams", f"{len(packed.streams):,}: {shown}")
    table.add_row("days", f"{packed.days:,}, of which {packed.days - packed.present:,} are missing")
    table.add_row(
        "points",
        f"{packed.points:,} in clouds, {packed.atoms:,} atoms, {packed.bytes / 1e6:,.0f} MB",
    )
    for part, number in result.targets.items():
        first, last = result.splits.days(part)
        table.add_row(part, f"{number:,} target days, {first} to {last}")
    table.add_row("sequences", f"{result.sequences:,} drawn from train: {result.index}")
    table.add_row("time", f"{result.seconds:,.1f} s")
    out.print(table)


def _print_json(thing: object) -> None:
    print(as_json(thing))  # noqa: T201
