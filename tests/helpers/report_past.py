"""A report whose past days have been judged."""

from gdelphi.report.content import PastSaid, Report, Timeline, Yesterday


def with_past(report: Report) -> Report:
    """A report with a judged day, and with what was said and came of its countries."""
    record = report.record
    judged = Yesterday(
        day=report.origin, asked=240, expected=61.5, came=58, brier=0.08, stack=0.09,
        misses=record.misses[:3], hits=record.hits[:3],
    )  # fmt: skip
    line = PastSaid(code="14", label="Protest", published=[0.2] * 60, came=[True, None] * 30)
    past = Timeline(source="forecasts", days=report.days[:60], lines=[line])
    countries = [country.model_copy(update={"timeline": past}) for country in report.countries]
    return report.model_copy(update={"yesterday": judged, "countries": countries})
