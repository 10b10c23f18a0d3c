"""`gdelphi alerts`: telling that a forecast has changed. The stage is `alerts/alerts.py`."""

from dataclasses import asdict
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdelphi.app.console import Steps, out, print_json, table
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, parse_day, settings_from
from gdelphi.common.errors import ConfigError, PipelineError
from gdelphi.common.percent import percent

if TYPE_CHECKING:
    from gdelphi.alerts.alerts import AlertsRun, DryRun


def command(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would have been sent; send nothing.")
    ] = False,
    since: Annotated[
        date | None,
        typer.Option(
            parser=parse_day,
            metavar="DAY",
            help="With --dry-run: from this origin on [30 days before the last].",
        ),
    ] = None,
    json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Tell somebody that a probability has reached a threshold.

    Rules are tables [[alerts.rules]] of gdelphi.toml; they are sent by flows.notify_url and
    flows.notify_command. With --dry-run: what would have been sent, and how often such an alert
    came true.
    """
    settings = settings_from(config, store=store).settings
    if since and not dry_run:
        raise ConfigError("--since goes with --dry-run: past alerts are not sent")
    with Steps() as steps:
        from gdelphi.alerts import alerts
        from gdelphi.app.notify import notify

        if not dry_run:
            steps.step("looking at new forecasts")
            run = alerts.send_alerts(settings, partial(notify, settings.flows))
        else:
            steps.step("looking at stored forecasts")
            tried = alerts.dry_run(settings, since=since)
    if dry_run:
        _show_dry_run(tried, json=json)
    else:
        _show_run(run, json=json)


def _show_run(run: "AlertsRun", *, json: bool) -> None:
    from gdelphi.alerts.messages import headline

    if json:
        found = [alert.model_dump(mode="json") for alert in run.found]
        print_json({**asdict(run), "found": found})
    else:
        for alert in run.found:
            out.print(Text(f"{alert.rule}  {alert.origin}  {headline(alert)}"))
        summed = ", the week summed up" if run.summary else ""
        out.print(
            f"{len(run.found)} alerts; {run.sent} messages{summed}; {run.held} kept for later"
        )
    if run.problems:
        raise PipelineError("; ".join(run.problems))


def _show_dry_run(tried: "DryRun", *, json: bool) -> None:
    from gdelphi.alerts.messages import headline

    if json:
        alerts = [
            {**alert.model_dump(mode="json"), "came": tried.came.get(alert)}
            for alert in tried.alerts
        ]
        rules = [{**asdict(rule), "precision": rule.precision} for rule in tried.rules]
        head = {"since": tried.since, "until": tried.until, "origins": tried.origins}
        print_json({**head, "alerts": alerts, "rules": rules})
        return
    out.print(f"{tried.origins} forecasts from {tried.since} to {tried.until}")
    words = {True: "came true", False: "did not come", None: "not over"}
    shown = table("origin", "rule", "alert", "what came")
    for alert in tried.alerts:
        told = words[tried.came.get(alert)]
        shown.add_row(*map(Text, (str(alert.origin), alert.rule, headline(alert), told)))
    out.print(shown)
    shown = table("rule", ">alerts", ">over", ">came true", ">any such cell", ">false a week")
    for rule in tried.rules:
        false = "–" if rule.false_per_week is None else f"{rule.false_per_week:.1f}"
        cells = (str(rule.alerts), str(rule.known), percent(rule.precision), percent(rule.rate))
        shown.add_row(*map(Text, (rule.rule, *cells, false)))
    out.print(shown)
