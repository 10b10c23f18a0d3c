"""What is said: an alert with its reasons and a link, and the week summed up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from gdelphi.alerts.watch import Alert
from gdelphi.common.percent import percent, points
from gdelphi.common.sections import AlertRule
from gdelphi.common.settings import Settings
from gdelphi.common.texts import clean
from gdelphi.questions.explanations import TARGET_WORDS
from gdelphi.questions.names import horizon_words
from gdelphi.questions.questions import Questions
from gdelphi.report.lists import PAGE
from gdelphi.report.plain import anchor, web_address
from gdelphi.report.report import reports_folder

REPORTS_TOLD: Final = 2
LINES: Final = 15  # of a list


def headline(alert: Alert) -> str:
    """An alert in one line."""
    cell = alert.cell
    return (
        f"{cell.country}: {cell.label} ({cell.code}) {TARGET_WORDS[cell.target]} "
        f"{horizon_words(cell.horizon)}, {percent(cell.published)}, usually {percent(cell.usual)}"
    )


def alert_text(questions: Questions, rule: AlertRule, alert: Alert) -> str:
    """An alert with its reasons and where to read more."""
    cell = alert.cell
    told = questions.explanation(
        cell.stream, cell.code, alert.origin, alert.forecast, target=cell.target,
        horizon=cell.horizon or "week",
    )  # fmt: skip
    lines = [f"gdelphi alert {rule.name!r}: {headline(alert)}", _why(rule, alert)]
    lines += told.sentences[1:]
    for report in told.reports[:REPORTS_TOLD]:
        source = web_address(report.source)
        lines.append(f"Report of {report.day}: {report.phrase}{f' {source}' if source else ''}")
    lines.append(link(questions.settings, alert) or told.more)
    return clean("\n".join(lines))


def _why(rule: AlertRule, alert: Alert) -> str:
    if rule.against == "absolute":
        return f"It has reached {percent(rule.threshold)}."
    than = "its usual" if rule.against == "usual" else f"{percent(alert.before)} of before"
    limit = points(rule.threshold)
    return f"It is {points(alert.value)} points above {than}; the rule says {limit}."


def link(settings: Settings, alert: Alert) -> str | None:
    """Where the report of the forecast is, at the country's place; None: there is none."""
    day, place = alert.origin.isoformat(), anchor(alert.cell.stream)
    if settings.report.address:
        return f"{settings.report.address.rstrip('/')}/{day}/{PAGE}{place}"
    page = reports_folder(settings) / day / PAGE
    return f"{page.resolve().as_uri()}{place}" if page.is_file() else None


def rest_text(alerts: Sequence[Alert]) -> str:
    """Those that are not told one by one."""
    lines = [f"gdelphi: {len(alerts)} more alerts", *map(headline, alerts[:LINES])]
    if len(alerts) > LINES:
        lines.append(f"... and {len(alerts) - LINES} others: `gdelphi alerts --dry-run` lists them")
    return clean("\n".join(lines))


def summary_text(
    since: date, until: date, alerts: Sequence[Alert], came: Mapping[Alert, bool], on: int
) -> str:
    """The week: what was told, what is known of it, what still stands."""
    known = [came[alert] for alert in alerts if alert in came]
    lines = [
        f"gdelphi, alerts from {since} to {until}: {len(alerts)}; of {len(known)} whose time is "
        f"over {sum(known)} came true; {on} cells are above their threshold now"
    ]
    for name, number in Counter(alert.rule for alert in alerts).most_common():
        lines.append(f"{name}: {number}")
    for alert in alerts[:LINES]:
        told = {True: "came true", False: "did not come"}.get(came.get(alert), "not over")  # type: ignore[arg-type]
        lines.append(f"{alert.origin}  {headline(alert)}: {told}")
    return clean("\n".join(lines))
