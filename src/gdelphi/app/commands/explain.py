"""`gdelphi explain`: where a probability comes from. The stage is `forecast/explain.py`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

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
    parse_horizon,
    settings_from,
)
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gdelphi.common.types import Level
    from gdelphi.forecast.explanation import (
        DrawnDay,
        Explanation,
        TargetExplained,
        WeekExplanation,
        WeekTargetExplained,
    )

TOMORROW = 1
WEEK = 0  # the horizon that stands for the week
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
    horizon: Annotated[
        Any,
        typer.Option(
            parser=parse_horizon,
            metavar="N|week",
            show_default="1, tomorrow",
            help="Days ahead, 1 to 7, or week: within the seven days.",
        ),
    ] = 1,
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
    those were drawn from, their phrases and the reports behind them. With --horizon the same of a
    day further on, or of the week: what its regression was shown, and the possible weeks.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    let_threads_sleep()
    with Steps() as steps:
        from gdelphi.forecast.explain import explain
        from gdelphi.forecast.explain_week import explain_week
        from gdelphi.forecast.origin import resolve_origin
        from gdelphi.forecast.predictor import Predictor

        at = resolve_origin(settings, origin, as_of=as_of, allow_partial=allow_partial)
        steps.step("opening the model and the measures")
        folder = model_folder(settings, model)
        predictor = Predictor(settings, folder, number=futures, seed=seed, on_packed=steps.packed)
        chosen: Level | None = level.value if level else None
        of_week, explanation = None, None
        if horizon == TOMORROW:
            explanation = explain(predictor, stream, event, at, level=chosen, on_step=steps.step)
        else:
            of_week = explain_week(predictor, stream, event, at, horizon, on_step=steps.step)
    if explanation:
        show_explanation(explanation, json=json)
    if of_week:
        show_week(of_week, json=json)


def show_explanation(explanation: "Explanation", *, json: bool) -> None:
    """Print the chain from a number to its reports."""
    if json:
        _print_plain(explanation)
        return
    head = f"{explanation.code} {explanation.label}, {explanation.name} ({explanation.stream}), "
    head += f"{explanation.target_day:%A} {explanation.target_day} from {explanation.origin}"
    _show_head(head, partial=explanation.partial)
    _show_targets(explanation)
    _show_members(explanation.targets)
    _show_futures(explanation)
    _show_reports(explanation)
    _show_arguments(explanation)


def _print_plain(explanation: "Explanation | WeekExplanation") -> None:
    likely = {
        kind: [candidate._asdict() for candidate in candidates]
        for kind, candidates in explanation.arguments.items()
    }
    print_json({**asdict(explanation), "arguments": likely})


def _show_head(head: str, *, partial: bool) -> None:
    out.print(Text(head, style="bold"))
    if partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))


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


def _show_members(targets: "Sequence[TargetExplained | WeekTargetExplained]") -> None:
    """Members in the order of the first target that is defined."""
    defined = [target for target in targets if target.published is not None]
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


def _member_cells(target: "TargetExplained | WeekTargetExplained", name: str) -> tuple[str, str]:
    part = next((part for part in target.parts if part.name == name), None)
    if part is None:
        return "", ""
    probability = "" if part.probability is None else _share(part.probability)
    return probability, "" if part.adds is None else f"{part.adds:+.2f}"


def _show_futures(explanation: "Explanation") -> None:
    days = explanation.days
    out.print(
        f"\n{explanation.having} of {explanation.futures} futures have it, with "
        f"{explanation.having_weight:.0%} of the weight, drawn from {len(days)} days"
    )
    _show_drawn(days)
    if explanation.atoms:
        out.print("\ntheir phrases nearest to it (cosine, expected share of the day)")
    for atom in explanation.atoms:
        out.print(
            Text(f"  {atom.cosine:>5.2f}  {atom.weight:>6.2%}  {atom.code:<4}  {atom.phrase}")
        )
        if atom.drawn:
            drawn = f"{' ' * 23}drawn from: {'; '.join(atom.drawn)}"
            out.print(Text(drawn, style="dim"))


def _show_drawn(days: "Sequence[DrawnDay]") -> None:
    for source in days[:DAYS_SHOWN]:
        times = f" ({source.futures} futures)" if source.futures > 1 else ""
        out.print(Text(f"  {source.weight:>6.1%}  {source.day:%a} {source.day}{times}"))
    if len(days) > DAYS_SHOWN:
        rest = sum(source.weight for source in days[DAYS_SHOWN:])
        out.print(f"  {rest:>6.1%}  on {len(days) - DAYS_SHOWN} more days")


def _show_reports(explanation: "Explanation | WeekExplanation") -> None:
    if explanation.reports:
        out.print("\nreports of it on those days")
    for row in explanation.reports:
        told = mentions_and_place(row.mentions, row.place)
        out.print(Text(f"  {row.day}  {row.phrase} ({told})"))
        out.print(Text(f"              {row.source or 'no source given'}", style="dim"))


def _show_arguments(explanation: "Explanation | WeekExplanation") -> None:
    out.print("\nif it happens")
    for kind, title in ARGUMENTS.items():
        likely = explanation.arguments[kind][:CANDIDATES_SHOWN]  # type: ignore[index]
        told = ", ".join(
            f"{candidate.words} {percent(candidate.probability)}" for candidate in likely
        )
        out.print(Text(f"  {title:<8}  {told or 'not known'}"))


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"


# --- the week -------------------------------------------------------------------------------------


def show_week(explanation: "WeekExplanation", *, json: bool) -> None:
    """Print where a number of the week comes from."""
    if json:
        _print_plain(explanation)
        return
    first, last = explanation.days[0], explanation.days[-1]
    when = f"{first:%A} {first}"
    if explanation.horizon == WEEK:
        when = f"within the week from {when} to {last:%A} {last}"
    _show_head(
        f"{explanation.code} {explanation.label}, {explanation.name} ({explanation.stream}), "
        f"{when} from {explanation.origin}",
        partial=explanation.partial,
    )
    if explanation.onset:
        out.print(Text("no report of it on the last 30 days", style="yellow"))
    out.print()
    shown = table("target", ">published", ">stack", ">simple stack", ">usual", "")
    for target in explanation.targets:
        said = (target.published, target.stack, target.simple, target.usual)
        shown.add_row(target.target, *map(_share, said), "moved to agree" if target.moved else "")
    out.print(shown)
    _show_members(explanation.targets)
    _show_rows(explanation)
    drawn = "past weeks, by their first day" if explanation.horizon == WEEK else "past days"
    out.print(
        f"\n{explanation.having} of {explanation.possible} possible weeks have it, "
        f"{percent(explanation.having_weight)} of the weight, drawn from "
        f"{len(explanation.drawn)} {drawn}"
    )
    _show_drawn(explanation.drawn)
    _show_reports(explanation)
    _show_arguments(explanation)


def _show_rows(explanation: "WeekExplanation") -> None:
    out.print()
    shown = table("reports", ">expected", ">usual")
    for row in explanation.rows:
        usual = "" if row.usual is None else f"{row.usual:.1f}"
        shown.add_row(f"{row.day:%a} {row.day}", f"{row.expected:.1f}", usual)
    if len(explanation.rows) > 1:
        expected = sum(row.expected for row in explanation.rows)
        usual_rows = sum(row.usual or 0.0 for row in explanation.rows)
        shown.add_row("the week", f"{expected:.1f}", f"{usual_rows:.1f}", style="bold")
    out.print(shown)
