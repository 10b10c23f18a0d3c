"""What a run leaves on Prefect's page: tables, summaries, links."""

from typing import TYPE_CHECKING, Any

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)

if TYPE_CHECKING:
    from gdelphi.app.pipeline import PipelineRun
    from gdelphi.app.promote import PromotionResult
    from gdelphi.common.settings import Settings
    from gdelphi.forecast.archive import StoredForecast
    from gdelphi.store.ingest import IngestResult

COUNTS = ("loaded", "rows_in", "accepted", "rejected", "duplicates", "repaired", "not_tried")


def show_ingest(result: "IngestResult") -> None:
    """A table of what was ingested."""
    counts = [{"what": name, "number": getattr(result, name)} for name in COUNTS]
    window = result.plan.window
    days = f"{window.since or 'the beginning'} to {window.until or 'the end'}"
    create_table_artifact(counts, key="ingest", description=f"{result.archive}, {days}")


def show_run(settings: "Settings", run: "PipelineRun") -> None:
    """What was ingested, the last forecast in brief, and a link to its report."""
    if run.ingested:
        show_ingest(run.ingested)
    lines = [f"**{trouble}**" for trouble in run.troubles] + run.notes
    if run.forecasts:
        lines.append(_headlines(run.forecasts[-1].forecast))
    elif not lines:
        lines = ["No forecast was due."]
    if run.alerts and run.alerts.found:
        lines.append(f"{len(run.alerts.found)} alerts, {run.alerts.sent} messages.")
    create_markdown_artifact(
        "\n\n".join(lines), key="forecast-summary", description=f"run for {run.as_of}"
    )
    for report in run.reports[-1:]:
        page = report.folder / "index.html"
        address = settings.report.address
        link = (
            f"{address.rstrip('/')}/{report.folder.name}/" if address else page.resolve().as_uri()
        )
        create_link_artifact(link, key="report", description=f"report of {report.folder.name}")


def _headlines(forecast: "StoredForecast") -> str:
    """A Markdown table of the headlines that are furthest from what is usual."""
    from gdelphi.forecast.summary import summarise_forecast

    manifest, brief = forecast.manifest, summarise_forecast(forecast)
    rows = [
        f"| {change.stream} | {change.label} | {change.published:.0%} | {change.stack:.0%} | "
        f"{change.usual:.0%} |"
        for change in brief.changes
    ]
    head = (
        f"Forecast of {manifest.target_day} from {manifest.recipe.origin}, kept in `{manifest.id}`"
    )
    table = ["| stream | headline | published | stack | usual |", "|---|---|---|---|---|", *rows]
    return "\n".join([f"{head}.", "", *table])


def show_backtest(summary: dict[str, Any], description: str) -> None:
    """A table of the scores of a backtest."""
    names = ("cells", "target", "forecaster", "days", "brier", "log_score")
    rows = [
        {**{name: line[name] for name in names}, "skill": line["skill"]["value"]}
        for line in summary["scores"]
    ]
    create_table_artifact(rows, key="backtest", description=description)


def show_decision(decided: "PromotionResult") -> None:
    """Which model is in use now, and why."""
    text = f"**{decided.action}**: `{decided.current}` is in use; {decided.reason}."
    rule = "by the rule of `gdelphi promote`"
    create_markdown_artifact(text, key="promotion", description=rule)
