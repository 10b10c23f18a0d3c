"""From a report to its page: one HTML file that needs no network, and the front page of all.

Chosen: what a reader sees first (changes, map, table, record) is made here and needs no script;
countries are drawn in the browser from embedded data when they are opened, which keeps the page
small. Style and script are inlined, and a Content-Security-Policy names their hashes, so that
nothing else on the page can ever run, whatever text the news bring. Not chosen: a site with assets
beside it (a report is one file that can be mailed) or a chart library (megabytes, and it wants
'unsafe-inline').
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from gdelphi.common.percent import percent
from gdelphi.common.types import TARGETS
from gdelphi.report import views
from gdelphi.report.content import Change, Report
from gdelphi.report.content_base import Content
from gdelphi.report.day_links import DayLinks, next_link, previous_link
from gdelphi.report.payload import payload
from gdelphi.report.plain import (
    anchor,
    host_of,
    one_line,
    script_json,
    web_address,
    with_code,
)
from gdelphi.report.week import NO_WEEK, WILL
from gdelphi.report.week_content import WeekReport

STYLES: Final = ("base.css", "week.css", "overview.css", "country.css")
SCRIPTS: Final = (
    "base.js", "map.js", "table.js", "save.js", "charts.js", "fan.js", "week.js",
    "timeline.js", "explain.js", "country.js", "start.js",
)  # fmt: skip
FRONT_SCRIPTS: Final = ("base.js",)
HEADLINE_CHANGES: Final = 3
NO_LINKS: Final = DayLinks()


class FrontEntry(Content):
    """A report as the front page lists it."""

    folder: str
    title: str
    origin: date
    target_day: date
    banners: list[str]
    changes: list[Change]
    week: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Report, folder: str) -> "FrontEntry":
        """The entry of a report that lies in a folder beside the front page."""
        return cls(
            folder=folder,
            title=report.title,
            origin=report.origin,
            target_day=report.target_day,
            banners=report.banners,
            changes=report.changes[:HEADLINE_CHANGES],
            week=tuple(report.week.sentences) if report.week else (),
        )


def long_day(day: date) -> str:
    """Wednesday 15 March 2023."""
    return f"{day:%A} {day.day} {day:%B %Y}"


def short_day(day: date) -> str:
    """15 Mar 2023."""
    return f"{day.day} {day:%b %Y}"


def week_day(day: date) -> str:
    """Wed 15 Mar."""
    return f"{day:%a} {day.day} {day:%b}"


def moment(when: datetime | None) -> str:
    """15 March 2023, 04:02 UTC."""
    return "unknown" if when is None else f"{when.day} {when:%B %Y, %H:%M} UTC"


def page_environment(*packages: str) -> jinja2.Environment:
    """Templates of packages, the first that has one of a name: pages of others begin with the
    report's `head.html`."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package, "templates") for package in packages]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _environment() -> jinja2.Environment:
    environment = page_environment("gdelphi.report")
    environment.filters |= {
        "one_line": one_line,
        "with_code": with_code,
        "anchor": anchor,
        "long_day": long_day,
        "short_day": short_day,
        "moment": moment,
        "percent": percent,
        "points": views.points,
        "direction": views.direction,
        "signed_percent": views.signed_percent,
        "week_day": week_day,
        "web_address": web_address,
        "host_of": host_of,
    }
    return environment


@cache
def _inlined(names: tuple[str, ...]) -> str:
    """Files of the templates folder as one text; scripts share one closed scope."""
    folder = resources.files("gdelphi.report") / "templates"
    parts = [(folder / name).read_text(encoding="utf-8") for name in names]
    if names[0].endswith(".js"):
        return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    return "\n".join(parts)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_policy(style: str, script: str | None, frames: str | None = None) -> str:
    """Nothing may be loaded, but for frames from where it is said, and nothing may run or style but
    what stands here."""
    runs = "'none'" if script is None else _hash(script)
    return (
        f"default-src 'none'; script-src {runs}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
        + (f"; frame-src {frames}" if frames else "")
    )


def fill(
    template: str, scripts: tuple[str, ...], *, frames: str | None = None, **values: Any
) -> str:
    """A template with style, script and policy. These are the package's own text, so markup."""
    style, script = _inlined(STYLES), _inlined(scripts)
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            policy=page_policy(style, script, frames),
            **values,
        )
    )


def week_values(week: WeekReport | None) -> dict[str, Any]:
    """What the template shows of the week."""
    unusual = [
        (
            country,
            [
                (event, views.bar_of_change(event.published, event.usual or 0.0))
                for event in country.events
            ],
        )
        for country in (week.unusual if week else ())
    ]
    record = sorted((week.record or {}).items()) if week else []  # the week first
    return {
        "week": week,
        "unusual": unusual,
        "week_record": [
            (horizon, [by_target.get(target) for target in TARGETS])
            for horizon, by_target in record
        ],
        "will": WILL,
        "no_week": NO_WEEK,
    }


def render(report: Report, days: DayLinks = NO_LINKS) -> str:
    """The report as one self-contained HTML page, with links to those of other days."""
    return fill(
        "page.html",
        SCRIPTS,
        report=report,
        forecast=any(country.probabilities for country in report.countries),
        **week_values(report.week),
        changes=[views.change_view(change) for change in report.changes],
        map_countries=views.map_countries(report.countries),
        map=views.map_frame(report),
        weekly=views.has_weekly_risk(report.countries),
        whole=views.is_whole(report),
        countries=[views.country_row(number, report) for number in range(len(report.countries))],
        windows=[views.window_view(window) for window in report.record.windows],
        calibration=views.calibration_plots(report.record),
        previous_link=Markup(previous_link(days.previous)),  # noqa: S704 - of a date
        next_link=Markup(next_link(days.following)),  # noqa: S704 - of a date
        week_before=days.week_before,
        data=script_json(payload(report)),
    )


def render_front(entries: Sequence[FrontEntry]) -> str:
    """The page that lists all reports, the newest first."""
    newest = sorted(entries, key=lambda entry: entry.origin, reverse=True)
    shown = [(entry, [views.change_view(change) for change in entry.changes]) for entry in newest]
    return fill("front.html", FRONT_SCRIPTS, entries=shown)
