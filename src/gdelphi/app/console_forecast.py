"""What the commands around forecasts show: steps, tables, the chain behind a number.

No decision is made here.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from gdelphi.app.console import (
    Steps,
    as_json,
    err,
    out,
)

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.forecast.archive import ForecastManifest
    from gdelphi.forecast.explanation import Explanation, TargetExplained
    from gdelphi.forecast.forecast import Calibrated, ForecastResult
    from gdelphi.forecast.naming import ChosenNames
    from gdelphi.forecast.summary import StatedProbability, StreamInBrief

FEW = 3  # streams that are shown one by one
DAYS_SHOWN = 12
CANDIDATES_SHOWN = 3
NAMED = {"nearest": "the nearest observed phrase", "namer": "the namer"}
ARGUMENTS = {"actor1": "who", "actor2": "to whom", "region": "where"}


class ForecastSteps(Steps):
    """Says which step is being done, and how far packing has come."""

    def packed(self, done: int, total: int, points: int) -> None:
        if err.is_terminal:
            self._status.update(f"packing day {done:,} of {total:,} ({points:,} points)")


# --- calibrate ------------------------------------------------------------------------------------


def show_calibrated(result: "Calibrated", *, json: bool) -> None:
    """What is published, and why."""
    if json:
        _print_json(result)
        return
    out.print(Text(f"published from {result.folder}", style="bold"))
    out.print(f"Brier scores on validation B, {result.since} to {result.until}")
    table = _table("level", "target", ">combined", ">stack", ">cells", "published")
    for level, target, choice in result.choices:
        scores = [_score(choice.combined), _score(choice.stack), f"{choice.cells:,}"]
        table.add_row(level, target, *scores, choice.published)
    out.print(table)
    if result.names:
        _show_names(result.names)


def _show_names(names: "ChosenNames") -> None:
    out.print(
        f"\nROUGE-1, 2 and L of names of futures, on {names.days} of these days "
        f"({names.since} to {names.until})"
    )
    head = (">futures", ">2", ">L", ">expected day", ">2", ">L", ">renamed", ">unreadable", "")
    table = _table("names by", *head)
    for by, score in names.scores.items():
        rouge = [f"{value:.3f}" for value in (*score.futures, *score.brief)]
        shares = [f"{score.renamed:.1%}", f"{score.unreadable:.2%}"]
        table.add_row(by, *rouge, *shares, "used" if by == names.by else "")
    out.print(table)


def _score(value: float) -> str:
    return "none" if value != value else f"{value:.5f}"


# --- forecast -------------------------------------------------------------------------------------


def show_issued(issued: "ForecastResult", *, json: bool) -> None:
    """A forecast in brief."""
    from gdelphi.forecast.summary import in_brief

    forecast, brief = issued.forecast, in_brief(issued.forecast)
    if json:
        said = {"folder": str(forecast.folder), "made": issued.made, **forecast.manifest.plain()}
        _print_json({**said, **asdict(brief)})
        return
    _show_manifest(forecast.manifest)
    few = len(brief.streams) <= FEW
    for stream in brief.streams if few else ():
        _show_stream(stream)
    if not few:
        out.print("\nheadlines that are furthest from what is usual")
        out.print(_said_table(brief.changes, streams=True))
    out.print(Text(f"\n{'kept in' if issued.made else 'was there:'} {forecast.folder}"))


def _show_manifest(manifest: "ForecastManifest") -> None:
    recipe = manifest.recipe
    shown = ", ".join(recipe.streams[:12]) + (", ..." if len(recipe.streams) > 12 else "")
    head = f"forecast of {manifest.target_day:%A} {manifest.target_day} from {recipe.origin}"
    out.print(Text(head, style="bold"))
    out.print(
        f"{len(recipe.streams)} streams: {shown}; {recipe.futures} futures each, seed "
        f"{recipe.seed}; issued {manifest.issued_at:%Y-%m-%d %H:%M} UTC"
    )
    named = manifest.named
    if named and named.by != "origin":
        out.print(f"names by {NAMED[named.by]}: {named.renamed / max(named.atoms, 1):.0%} of the "
                  "atoms are called other than what they were drawn from")  # fmt: skip
    if recipe.partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))
    if manifest.hindsight:
        said = f"in hindsight: what is published was fitted on days up to {manifest.fitted_until}"
        out.print(Text(said, style="yellow"))


def _show_stream(stream: "StreamInBrief") -> None:
    out.print(Text(f"\n{stream.name} ({stream.stream})", style="bold"))
    for weight, phrase in stream.brief:
        out.print(Text(f"  {weight:>4.0%}  {phrase}"))
    out.print()
    out.print(_said_table(stream.headlines, who=stream.who))
    out.print(Text(f"futures that count: {stream.effective:.0f}", style="dim"))


def _said_table(
    rows: "tuple[StatedProbability, ...]",
    *,
    streams: bool = False,
    who: dict[str, Any] | None = None,
) -> Table:
    names = ["stream"] * streams + ["code", "headline", ">published", ">stack", ">usual"]
    table = _table(*names, *(ARGUMENTS.values() if who else ()))
    for said in rows:
        cells = [said.stream] * streams + [said.code, said.label]
        cells += [f"{value:.0%}" for value in (said.published, said.stack, said.usual)]
        likely = (who or {}).get(said.code, {})
        table.add_row(*map(Text, cells), *(Text(likely.get(kind, "")) for kind in ARGUMENTS if who))
    return table


# --- explain --------------------------------------------------------------------------------------


def show_explanation(found: "Explanation", *, json: bool) -> None:
    """The chain from a number to its reports."""
    if json:
        likely = {
            kind: [each._asdict() for each in given] for kind, given in found.arguments.items()
        }
        _print_json({**asdict(found), "arguments": likely})
        return
    head = f"{found.code} {found.label}, {found.name} ({found.stream}), "
    head += f"{found.target_day:%A} {found.target_day} from {found.origin}"
    out.print(Text(head, style="bold"))
    if found.partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))
    _show_targets(found)
    _show_parts(found)
    _show_futures(found)
    _show_reports(found)
    _show_arguments(found)


def _show_targets(found: "Explanation") -> None:
    out.print()
    table = _table("target", ">published", "which", ">stack", ">last 30 days", ">last 365 days")
    for each in found.targets:
        shares = [_share(value) for value in each.came]
        moved = ", moved to agree" if each.moved else ""
        table.add_row(
            each.target, _share(each.published), each.which + moved, _share(each.stack), *shares
        )
    out.print(table)


def _show_parts(found: "Explanation") -> None:
    """Members in the order of the first target that is defined."""
    defined = [each for each in found.targets if each.published is not None]
    if not defined:
        return
    out.print("\nwhat members say, and what it adds to the logit")
    columns = [column for each in defined for column in (f">{each.target}", ">adds")]
    table = _table("", *columns)
    for part in defined[0].parts:
        cells = [cell for each in defined for cell in _part_cells(each, part.name)]
        table.add_row(part.name, *cells)
    sums = [cell for each in defined for cell in ("", f"{each.logit:+.2f}")]
    table.add_row("sum", *sums, style="bold")
    out.print(table)


def _part_cells(target: "TargetExplained", name: str) -> tuple[str, str]:
    part = next(each for each in target.parts if each.name == name)
    said = "" if part.probability is None else _share(part.probability)
    return said, "" if part.adds is None else f"{part.adds:+.2f}"


def _show_futures(found: "Explanation") -> None:
    out.print(
        f"\n{found.having} of {found.futures} futures have it, with {found.having_weight:.0%} of "
        f"the weight, drawn from {len(found.days)} days"
    )
    for each in found.days[:DAYS_SHOWN]:
        times = f" ({each.futures} futures)" if each.futures > 1 else ""
        out.print(Text(f"  {each.weight:>6.1%}  {each.day:%a} {each.day}{times}"))
    if len(found.days) > DAYS_SHOWN:
        rest = sum(each.weight for each in found.days[DAYS_SHOWN:])
        out.print(f"  {rest:>6.1%}  on {len(found.days) - DAYS_SHOWN} more days")
    if found.atoms:
        out.print("\ntheir phrases nearest to it (cosine, expected share of the day)")
    for atom in found.atoms:
        out.print(
            Text(f"  {atom.cosine:>5.2f}  {atom.weight:>6.2%}  {atom.code:<4}  {atom.phrase}")
        )
        if atom.drawn:
            drawn = f"{' ' * 23}drawn from: {'; '.join(atom.drawn)}"
            out.print(Text(drawn, style="dim"))


def _show_reports(found: "Explanation") -> None:
    if found.reports:
        out.print("\nreports of it on those days")
    for row in found.reports:
        mentions = f"{row.mentions:,} mention{'s' if row.mentions != 1 else ''}"
        where = f", {row.place}" if row.place else ""
        out.print(Text(f"  {row.day}  {row.phrase} ({mentions}{where})"))
        out.print(Text(f"              {row.source or 'no source given'}", style="dim"))


def _show_arguments(found: "Explanation") -> None:
    out.print("\nif it happens")
    for kind, title in ARGUMENTS.items():
        likely = found.arguments[kind][:CANDIDATES_SHOWN]  # type: ignore[index]
        said = ", ".join(f"{each.words} {each.probability:.0%}" for each in likely)
        out.print(Text(f"  {title:<8}  {said or 'not known'}"))


# --- what they share ------------------------------------------------------------------------------


def _table(*headings: str) -> Table:
    """A table; headings that begin with > are of numbers."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        number = heading.startswith(">")
        table.add_column(Text(heading.lstrip(">")), justify="right" if number else "left")
    return table


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"


def _print_json(thing: object) -> None:
    print(as_json(thing))  # noqa: T201
