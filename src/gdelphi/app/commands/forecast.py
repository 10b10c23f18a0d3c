"""`gdelphi forecast`: what is likely to happen next. The stage is `forecast/forecast.py`."""

from dataclasses import asdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from gdelphi.app.console import Steps, first_of, out, print_json, table
from gdelphi.app.elsewhere import carry_out
from gdelphi.app.options import (
    FURTHEST,
    CompleteAsOfOption,
    ConfigOption,
    ForecastsOption,
    FuturesOption,
    FuturesSeedOption,
    JsonOption,
    ModelOption,
    OriginOption,
    PartialOption,
    SnapshotOption,
    StoreOption,
    WaitOption,
    let_threads_sleep,
    model_folder,
    model_in_use,
    parse_day,
    settings_from,
)
from gdelphi.common.errors import ConfigError, GdelphiError
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from gdelphi.common.settings import Settings
    from gdelphi.forecast.archive import ForecastManifest
    from gdelphi.forecast.forecast import ForecastRequest, ForecastResult
    from gdelphi.forecast.summary import HeadlineProbability, StreamSummary, WeekSummary

FEW = 3  # streams that are shown one by one
STARTER_EVENTS = 8  # of a stream, by the shipped network
NAMED = {"nearest": "the nearest observed phrase", "namer": "the namer"}
ARGUMENTS = {"actor1": "who", "actor2": "to whom", "region": "where"}


def command(
    model: ModelOption = None,
    origin: OriginOption = "latest",
    streams: Annotated[
        str, typer.Option(help="Codes as KE,UP; the largest, as top50; or all.")
    ] = "all",
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=7,
            show_default="7 if the model speaks of the week",
            help="Days ahead: 1 is tomorrow alone, more is all seven days.",
        ),
    ] = None,
    futures: FuturesOption = 100,
    seed: FuturesSeedOption = 0,
    allow_partial: PartialOption = False,
    to: Annotated[
        date | None,
        typer.Option(
            "--to",
            parser=parse_day,
            metavar="DAY",
            help="Forecast from all complete days from --origin to this one.",
        ),
    ] = None,
    as_of: CompleteAsOfOption = None,
    as_of_snapshot: SnapshotOption = None,
    out: ForecastsOption = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Say what is likely to happen next, and keep it.

    For each stream a hundred possible next days, the probability of every standard event, and who
    is likely to do what to whom. A forecast is a folder of its own that is never written over; the
    same one asked for again is found. With --to there is one from each day, by the workers that
    flows.runner names, if it does.

    While no model has been taken into use, the network that comes with gdelphi says what it can:
    probabilities of tomorrow's roots, which are not kept.
    """
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, store_as_of=as_of_snapshot
    ).settings
    if model is None and to is None and not model_in_use(settings):
        _show_starter(settings, origin, streams, allow_partial, as_of, json=json)
        return
    let_threads_sleep()
    with Steps() as steps:
        from gdelphi.forecast.forecast import ForecastRequest, forecast

        request = ForecastRequest(
            model=model_folder(settings, model), origin=origin, streams=streams, horizon=horizon,
            futures=futures, seed=seed, allow_partial=allow_partial, as_of=as_of, out=out,
        )  # fmt: skip
        if to is not None:
            results = carry_out(
                settings, "forecast", lambda settings: _from_days(settings, request, to, steps),
                config,
            )  # fmt: skip
        else:
            result = forecast(settings, request, on_step=steps.step, on_packed=steps.packed)
    if to is not None:
        show_forecasts(results, json=json)
    else:
        show_forecast(result, json=json)


def _show_starter(
    settings: "Settings",
    origin: "date | Literal['latest']",
    streams: str,
    allow_partial: bool,
    as_of: date | None,
    *,
    json: bool,
) -> None:
    """Print what the shipped network says."""
    with Steps() as steps:
        from gdelphi.forecast.starter import starter_forecast

        steps.step("no model is in use: asking the network that comes with gdelphi")
        found = starter_forecast(
            settings, origin=origin, streams=streams, allow_partial=allow_partial, as_of=as_of
        )
    if json:
        print_json({"model": None, "target_day": found.target_day, **asdict(found)})
        return
    head = f"forecast of {found.target_day:%A} {found.target_day} from {found.origin}"
    out.print(Text(head, style="bold"))
    told = (
        f"no model has been trained on this store: this is what a network says that was trained on "
        f"simulated worlds and reads the last {found.days} days; nothing is kept. `gdelphi embed` "
        "and `gdelphi train` make a model of your own, `gdelphi promote` takes it into use"
    )
    out.print(Text(told, style="yellow"))
    if found.partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))
    several = len(found.streams) > FEW
    shown = table("stream", "code", "event", ">headline", ">usual", ">occurs", ">surge")
    for stream in found.streams:
        unusual = sorted(stream.events, key=lambda event: -abs(event.headline - event.usual))
        events = unusual[:1] if several else stream.events[:STARTER_EVENTS]
        for event in events:
            said = map(percent, (event.headline, event.usual, event.occurs, event.surge))
            shown.add_row(*map(Text, (stream.stream, event.code, event.label, *said)))
    if several:
        out.print("the headline of each stream that is furthest from what is usual")
    out.print(shown)


def _from_days(
    settings: "Settings", request: "ForecastRequest", to: date, steps: Steps
) -> "list[ForecastResult]":
    """A forecast from each complete day."""
    from gdelphi.app.pipeline import possible_origins, today
    from gdelphi.forecast.forecast import forecasts, open_predictor

    since = request.origin
    if since == "latest" or since > to:
        raise ConfigError(f"--to {to}: give an earlier day with --origin")
    days = possible_origins(settings, request.as_of or today())
    origins = [day for day in days if since <= day <= to]
    if not origins:
        raise ConfigError(f"no complete day from {since} to {to}: `gdelphi status` says why")
    predictor = open_predictor(settings, request, on_step=steps.step, on_packed=steps.packed)
    made: list[ForecastResult] = []
    for number, result in enumerate(forecasts(settings, request, origins, predictor, steps.step)):
        if isinstance(result, GdelphiError):
            raise result
        steps.step(f"forecast {number + 1:,} of {len(origins):,}: from {origins[number]}")
        made.append(result)
    return made


def show_forecasts(results: "list[ForecastResult]", *, json: bool) -> None:
    """Print where forecasts are kept."""
    lines = [
        (str(result.forecast.manifest.recipe.origin), result.made, str(result.forecast.folder))
        for result in results
    ]
    if json:
        print_json([dict(zip(("origin", "made", "folder"), line, strict=True)) for line in lines])
        return
    shown = table("origin", "", "folder")
    for origin, made, folder in lines:
        shown.add_row(origin, "made" if made else "was there", folder)
    out.print(shown)


def show_forecast(result: "ForecastResult", *, json: bool) -> None:
    """Print a forecast in brief."""
    from gdelphi.forecast.summary import summarise_forecast

    forecast, brief = result.forecast, summarise_forecast(result.forecast)
    if json:
        head = {"folder": str(forecast.folder), "made": result.made, **forecast.manifest.plain()}
        print_json({**head, **asdict(brief)})
        return
    show_manifest(forecast.manifest)
    if len(brief.streams) <= FEW:
        for stream in brief.streams:
            _show_stream(stream)
            if brief.week:
                _show_week(brief.week, stream.stream)
    else:
        out.print("\nheadlines that are furthest from what is usual")
        out.print(_headlines(brief.changes, streams=True))
        if brief.week:
            _show_unusual(brief.week)
    out.print(Text(f"\n{'kept in' if result.made else 'was there:'} {forecast.folder}"))


def show_manifest(manifest: "ForecastManifest") -> None:
    """Print what a forecast is of, and what a reader has to know about it."""
    recipe = manifest.recipe
    head = f"forecast of {manifest.target_day:%A} {manifest.target_day} from {recipe.origin}"
    if recipe.week:
        head += f", and of the days to {recipe.origin + timedelta(days=FURTHEST)}"
    out.print(Text(head, style="bold"))
    out.print(
        f"{len(recipe.streams)} streams: {first_of(recipe.streams)}; {recipe.futures} futures "
        f"each, seed {recipe.seed}; issued {manifest.issued_at:%Y-%m-%d %H:%M} UTC"
    )
    named = manifest.named
    if named and named.by != "origin":
        out.print(f"names by {NAMED[named.by]}: {named.renamed / max(named.atoms, 1):.0%} of the "
                  "atoms are called other than what they were drawn from")  # fmt: skip
    if recipe.partial:
        out.print(Text("PARTIAL: the origin's news day was not complete", style="yellow"))
    if manifest.hindsight:
        told = f"in hindsight: what is published was fitted on days up to {manifest.fitted_until}"
        out.print(Text(told, style="yellow"))


def _show_stream(stream: "StreamSummary") -> None:
    out.print(Text(f"\n{stream.name} ({stream.stream})", style="bold"))
    if stream.brief:
        unit = "the expected day, in shares of all reports' weight; each phrase of its kind alone"
        out.print(Text(unit, style="dim"))
    for weight, phrase in stream.brief:
        out.print(Text(f"  {weight:>4.0%}  {phrase}"))
    out.print()
    out.print(_headlines(stream.headlines, who=stream.who))
    out.print(Text(f"futures that count: {stream.effective:.0f}", style="dim"))


def _show_week(week: "WeekSummary", stream: str) -> None:
    """The days of a stream."""
    out.print("\nthe week: headlines of events that are furthest from their usual")
    days = [f">{day:%a} {day.day}" for day in week.days]
    shown = table("code", "headline", *days, ">any day", ">usual")
    for line in week.streams[stream]:
        said = [percent(value) for value in (*line.days, line.published, line.usual)]
        shown.add_row(*map(Text, (line.code, line.label, *said)))
    out.print(shown)
    _show_escalations(week, [stream])


def _show_unusual(week: "WeekSummary") -> None:
    """What is above its usual, of all streams."""
    out.print(f"\nfurthest above what is usual within the week to {week.days[-1]}")
    shown = table("stream", "code", "event", "as", ">published", ">usual", "likeliest")
    for line in week.unusual:
        best = max(range(len(week.days)), key=lambda ahead: line.days[ahead] or 0.0)
        day = f"{week.days[best]:%a} {week.days[best].day}, {percent(line.days[best])}"
        said = percent(line.published), percent(line.usual)
        shown.add_row(*map(Text, (line.stream, line.code, line.label, line.target, *said, day)))
    out.print(shown)
    _show_escalations(week, list(week.escalations))


def _show_escalations(week: "WeekSummary", streams: list[str]) -> None:
    for stream in streams:
        if stream in week.escalations:
            said, usual = week.escalations[stream]
            told = f"{stream}: material conflict at least doubles with {percent(said)}, usually "
            out.print(Text(f"{told}{percent(usual)}"))


def _headlines(
    rows: "tuple[HeadlineProbability, ...]",
    *,
    streams: bool = False,
    who: dict[str, Any] | None = None,
) -> Table:
    names = ["stream"] * streams + ["code", "headline", ">published", ">stack", ">usual"]
    shown = table(*names, *(ARGUMENTS.values() if who else ()))
    for row in rows:
        cells = [row.stream] * streams + [row.code, row.label]
        cells += [percent(value) for value in (row.published, row.stack, row.usual)]
        likely = (who or {}).get(row.code, {})
        shown.add_row(*map(Text, cells), *(Text(likely.get(kind, "")) for kind in ARGUMENTS if who))
    return shown
