"""What `gdelphi report` shows. No decision is made here."""

from typing import TYPE_CHECKING

from rich.text import Text

from gdelphi.app.console import (
    as_json,
    err,
    out,
)

if TYPE_CHECKING:  # scientific libraries take a second to load, which most commands do not need
    from gdelphi.report.report import ReportWritten

SHOWN = 5  # changes


def show_written(written: "ReportWritten", *, json: bool) -> None:
    """Where the report is, and what stands at its top."""
    report = written.report
    for warning in written.warnings:
        err.print(Text(f"warning: {warning}", style="yellow"))
    if json:
        print(as_json(_said(written)))  # noqa: T201
        return
    head = f"report of {report.target_day:%A} {report.target_day} from {report.origin}"
    out.print(Text(head, style="bold"))
    for banner in report.banners:
        out.print(Text(banner, style="yellow"))
    out.print(Text(report.record.verdict))
    for change in report.changes[:SHOWN]:
        told = f"  {change.name}: {change.label} ({change.target}) {change.published:.0%}, "
        out.print(Text(f"{told}{change.against} {change.before:.0%}"))
    out.print(Text(f"\n{written.folder / 'index.html'}"))


def _said(written: "ReportWritten") -> dict[str, object]:
    report = written.report
    return {
        "folder": str(written.folder),
        "files": sorted(path.name for path in written.folder.iterdir()),
        "origin": report.origin,
        "target_day": report.target_day,
        "forecast": report.provenance.forecast,
        "streams": len(report.countries),
        "partial": report.partial,
        "hindsight": report.hindsight,
        "stale": report.stale,
        "banners": report.banners,
        "changes": [change.model_dump() for change in report.changes],
        "record": {
            "source": report.record.source,
            "skilful": report.record.skilful,
            "verdict": report.record.verdict,
        },
        "warnings": written.warnings,
    }
