"""`gdelphi explain`: where a probability comes from. The stage is `forecast/explain.py`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.commands.forecast import ARGUMENTS
from gdelphi.app.console import Steps, mentions_and_place, out, print_json, table
from gdelphi.app.options import (
    CompleteAsOfOption,
    ConfigOption,
    EventLevel,
    FuturesOption,
    FuturesSeedOption,
    JsonOption,
    ModelOption,
    OriginOption,
    PartialOption,
    StoreOption,
    StreamOption,
    WaitOption,
    let_threads_sleep,
    model_folder,
    settings_from,
)
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from gdelphi.common.types import Level
    from gdelphi.forecast.explanation import Explanation, TargetExplained

DAYS_SHOWN = 12
CANDIDATES_SHOWN = 3


def command(
    stream: StreamOption,
    event: Annotated[str, typer.Option(help="A CAMEO code: 14, 145 or 1451.")],
    model: ModelOption = None,
    origin: OriginOption = "latest",
    level: Annotated[
        EventLevel | None, typer.Option(help="Of the code; full: 145 and no finer [by its length].")
    ] = None,
    futures: FuturesOption = 100,
    seed: FuturesSeedOption = 0,
    allow_partial: PartialOption = False,
    as_of: CompleteAsOfOption = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Show where a probability comes from, down to the reports.

    What is published, what each member adds to it, the futures that have the event, the days that
    those were drawn from, their phrases and the reports behind them.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    let_threads_sleep()
    with Steps() as steps:
        from gdelphi.forecast.explain import explain
        from gdelphi.forecast.origin import resolve_origin
        from gdelphi.forecast.predictor import Predictor

        at = resolve_origin(settings, origin, as_of=as_of, allow_partial=allow_partial)
        steps.step("opening the model and the measures")
        folder = model_folder(settings, model)
        predictor = Predictor(settings, folder, number=futures, seed=seed, on_packed=steps.packed)
        chosen: Level | None = level.value if level else None
        explanation = explain(
            predictor, stream.upper(), event, at, level=chosen, on_step=steps.step
        )
    show_explanation(explanation, json=json)


def show_explanation(explanation: "Explanation", *, json: bool) -> None:
    """Print the chain from a number to its reports."""
    if json:
        likely = {
            kind: [candidate._asdict() for candidate in candidates]
            for kind, candidates in explanation.arguments.items()
        }
        print_json({**asdict(explanation), "arguments": likely})
        return
    head = f"{explanation.code} {explanation.label}, {explanation.name} ({explanation.stream}), "
    head += f"{explanation.target_day:%A} {explanation.target_day} from {explanation.origin}"
    out.print(Text(head, style="bold"))
    if explanation.partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))
    _show_targets(explanation)
    _show_members(explanation)
    _show_futures(explanation)
    _show_reports(explanation)
    _show_arguments(explanation)


def _show_targets(explanation: "Explanation") -> None:
    out.print()
    shown = table("target", ">published", "which", ">stack", ">last 30 days", ">last 365 days")
    for target in explanation.targets:
        past = [_share(value) for value in target.came]
        moved = ", moved to agree" if target.moved else ""
        shown.add_row(
            target.target,
            _share(target.published),
            target.which + moved,
            _share(target.stack),
            *past,
        )
    out.print(shown)


def _show_members(explanation: "Explanation") -> None:
    """Members in the order of the first target that is defined."""
    defined = [target for target in explanation.targets if target.published is not None]
    if not defined:
        return
    out.print("\nwhat members say, and what it adds to the logit")
    columns = [column for target in defined for column in (f">{target.target}", ">adds")]
    shown = table("", *columns)
    for part in defined[0].parts:
        cells = [cell for target in defined for cell in _member_cells(target, part.name)]
        shown.add_row(part.name, *cells)
    sums = [cell for target in defined for cell in ("", f"{target.logit:+.2f}")]
    shown.add_row("sum", *sums, style="bold")
    out.print(shown)


def _member_cells(target: "TargetExplained", name: str) -> tuple[str, str]:
    part = next(part for part in target.parts if part.name == name)
    probability = "" if part.probability is None else _share(part.probability)
    return probability, "" if part.adds is None else f"{part.adds:+.2f}"


def _show_futures(explanation: "Explanation") -> None:
    days = explanation.days
    out.print(
        f"\n{explanation.having} of {explanation.futures} futures have it, with "
        f"{explanation.having_weight:.0%} of the weight, drawn from {len(days)} days"
    )
    for source in days[:DAYS_SHOWN]:
        times = f" ({source.futures} futures)" if source.futures > 1 else ""
        out.print(Text(f"  {source.weight:>6.1%}  {source.day:%a} {source.day}{times}"))
    if len(days) > DAYS_SHOWN:
        rest = sum(source.weight for source in days[DAYS_SHOWN:])
        out.print(f"  {rest:>6.1%}  on {len(days) - DAYS_SHOWN} more days")
    if explanation.atoms:
        out.print("\ntheir phrases nearest to it (cosine, expected share of the day)")
    for atom in explanation.atoms:
        out.print(
            Text(f"  {atom.cosine:>5.2f}  {atom.weight:>6.2%}  {atom.code:<4}  {atom.phrase}")
        )
        if atom.drawn:
            drawn = f"{' ' * 23}drawn from: {'; '.join(atom.drawn)}"
            out.print(Text(drawn, style="dim"))


def _show_reports(explanation: "Explanation") -> None:
    if explanation.reports:
        out.print("\nreports of it on those days")
    for row in explanation.reports:
        told = mentions_and_place(row.mentions, row.place)
        out.print(Text(f"  {row.day}  {row.phrase} ({told})"))
        out.print(Text(f"              {row.source or 'no source given'}", style="dim"))


def _show_arguments(explanation: "Explanation") -> None:
    out.print("\nif it happens")
    for kind, title in ARGUMENTS.items():
        likely = explanation.arguments[kind][:CANDIDATES_SHOWN]  # type: ignore[index]
        told = ", ".join(
            f"{candidate.words} {percent(candidate.probability)}" for candidate in likely
        )
        out.print(Text(f"  {title:<8}  {told or 'not known'}"))


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"
