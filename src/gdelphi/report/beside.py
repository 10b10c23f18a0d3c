"""A report beside that of a week before: one page with both, in `beside.html` of its folder.

Both reports are shown as they lie there, in two frames; a country that is chosen above is opened in
both. Before them stands what the two say of each country's conflict: that is what a reader compares
first. Not chosen: a page that draws both, which would have to carry the data of both.
"""

from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from gdelphi.report import page, views
from gdelphi.report.content import Report
from gdelphi.report.day_links import WEEK
from gdelphi.report.lists import PAGE, REPORT
from gdelphi.report.plain import anchor, one_line

BESIDE: Final = "beside.html"
SCRIPTS: Final = ("base.js", "beside.js")


class _Earlier(BaseModel):
    model_config = ConfigDict(extra="ignore")


class EarlierChance(_Earlier):
    """That any kind of conflict surges within the week."""

    published: float | None = None


class EarlierWeek(_Earlier):
    """A country's week, as far as it is compared."""

    conflict: EarlierChance | None = None


class EarlierCountry(_Earlier):
    """What is compared of a country."""

    stream: str
    week: EarlierWeek | None = None


class EarlierReport(_Earlier):
    """What is compared of a report.json."""

    countries: list[EarlierCountry]

    def risks(self) -> dict[str, float | None]:
        """By stream."""
        return {
            country.stream: country.week.conflict.published
            for country in self.countries
            if country.week and country.week.conflict
        }


class BesideRow(NamedTuple):
    """A country in both reports."""

    anchor: str
    name: str
    before: float | None
    now: float | None
    usual: float | None

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.now is None else self.now - self.before


def beside_page(report: Report, out: Path, week_before: date) -> str:
    """The page of a report and that of a week before, which lies in the same folder of reports."""
    return page.fill(
        "beside.html",
        SCRIPTS,
        frames="file: 'self'",
        report=report,
        before=week_before + (report.target_day - report.origin),
        rows=rows_of(report, _read(out / str(week_before) / REPORT)),
        addresses=(f"../{week_before}/{PAGE}", PAGE),
        days=WEEK.days,
    )


def rows_of(report: Report, earlier: EarlierReport | None) -> list[BesideRow]:
    """Countries of a report, the largest change first, those that cannot be compared last."""
    risks = earlier.risks() if earlier else {}
    rows = []
    for country in report.countries:
        chance = country.week.conflict if country.week else None
        rows.append(
            BesideRow(
                anchor(country.stream),
                one_line(country.name, 48),
                risks.get(country.stream),
                views.risk_of(country) if chance else None,
                chance.usual if chance else None,
            )
        )
    return sorted(rows, key=lambda row: (row.change is None, -abs(row.change or 0.0), row.name))


def _read(path: Path) -> EarlierReport | None:
    """A report that cannot be read is shown in its frame, and not compared."""
    try:
        return EarlierReport.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
