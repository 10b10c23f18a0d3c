"""Charts of a report as files of their own, to be linked to or put into other documents.

    charts/map.svg               that any kind of conflict surges within the week
    charts/calibration-TARGET.svg
    charts/KE-week.svg           a country's week: published and usual
    charts/KE-timeline.svg       what was said of its last judged days, and what came

Each is an SVG file that needs nothing else: title, unit and day stand on it, and its colours are
those of the page, light or dark as the reader's machine is. Countries are drawn anew and not cut
out of the page, where a script draws them when they are opened; that script can save every chart
of the page as well (templates/save.js). `chart_png` makes a picture of points of a file.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final

from markupsafe import Markup

from gdelphi.common.errors import ReportError
from gdelphi.common.percent import percent
from gdelphi.report import views
from gdelphi.report.content import CountryReport, PastSaid, Report, Timeline
from gdelphi.report.outlines import WIDTH as MAP_WIDTH
from gdelphi.report.plain import one_line

FOLDER: Final = "charts"
WIDTH: Final = 640
PIXELS: Final = 1280  # across a PNG
SHOWN: Final = "headline"
_HEAD, _FOOT, _ROW, _LINE = 62, 26, 30, 66
_LEFT, _RIGHT = 236, 480  # of the scale from 0 to 100%
_NAME = re.compile(r"[A-Za-z0-9_-]{1,12}")
_DARK = re.compile(r"@media[^{]*\{.*?\}\}", re.DOTALL)

RULES: Final = """
.paper{fill:PAPER}text{fill:INK;font:12px 'DejaVu Sans',Verdana,sans-serif}
.title{font-size:17px;font-weight:700}.quiet{fill:QUIET;font-size:11px}
.small{fill:QUIET;font-size:10px}.grid{stroke:RULE;stroke-width:1}
.range{stroke:RULE;stroke-width:5}.usual{stroke:MORE;stroke-width:2.5}.said{fill:ACCENT}
.line{fill:none;stroke:ACCENT;stroke-width:1.5;stroke-linejoin:round}
.came{stroke:MORE;stroke-width:5.6;stroke-linecap:round}
.not{stroke:QUIET;stroke-width:2.4;stroke-linecap:round}
.diagonal{stroke:QUIET;stroke-dasharray:3 3}.band{fill:ACCENT;opacity:.14}
.calibration polyline{fill:none;stroke:ACCENT;stroke-width:1.3}.calibration circle{fill:ACCENT}
.calibration text{fill:QUIET;font-size:10px}.land{stroke:BORDER;stroke-width:.4}.none{fill:NONE}
.known{fill:KNOWN}.q0{fill:Q0}.q1{fill:Q1}.q2{fill:Q2}.q3{fill:Q3}.q4{fill:Q4}.q5{fill:Q5}
"""
"""of all charts; names in capitals are colours of base.css"""


# --- files ----------------------------------------------------------------------------------------


def chart_files(report: Report) -> dict[str, str]:
    """All charts of a report, by their names in its folder."""
    return {f"{FOLDER}/{name}.svg": text for name, text in _charts(report)}


def _charts(report: Report) -> Iterator[tuple[str, str]]:
    if any(views.risk_of(country) is not None for country in report.countries):
        yield "map", map_chart(report)
    for target, words in views.TARGET_WORDS.items():
        plot = views.calibration_of(report.record, target)
        if plot:
            yield f"calibration-{target}", calibration_chart(report, words, plot)
    for country in report.countries:
        if _NAME.fullmatch(country.stream):  # what else a stream is called stays out of file names
            yield from _country_charts(report, country)


def _country_charts(report: Report, country: CountryReport) -> Iterator[tuple[str, str]]:
    if report.week and country.week and country.week.shown:
        yield f"{country.stream}-week", week_chart(report, country)
    if country.timeline and country.timeline.days:
        yield f"{country.stream}-timeline", timeline_chart(report, country, country.timeline)


def chart_png(svg: str) -> bytes:
    """A chart as a picture of points, in the light scheme."""
    try:
        import resvg_py
    except ImportError:
        raise ReportError(
            'pictures of charts need resvg: pip install "gdelphi[png]"; SVG files are there without'
        ) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=_DARK.sub("", svg), width=PIXELS))


# --- drawings -------------------------------------------------------------------------------------


def week_chart(report: Report, country: CountryReport) -> str:
    """Published and usual within the week, of the roots that are furthest from their usual."""
    assert report.week and country.week  # noqa: S101 - asked of countries that have one
    rows = [
        (root.label, target.within)
        for code in country.week.shown
        for root in country.week.roots
        if root.code == code
        for target in root.targets
        if target.target == SHOWN
    ]
    bottom = _HEAD + 14 + _ROW * len(rows)
    parts = [_scale(_HEAD + 8, bottom)]
    for number, (label, chance) in enumerate(rows):
        y = _HEAD + 14 + _ROW * (number + 0.5)
        parts.append(_text(16, y + 4, one_line(label, 34)))
        if chance.published is not None:
            parts.append(_dumbbell(y, chance.published, chance.usual))
        words = f"{percent(chance.published)}, usually {percent(chance.usual)}"
        parts.append(_text(WIDTH - 16, y + 4, words, anchor="end"))
    first, last = report.week.days[0], report.week.days[-1]
    return _card(
        f"{country.name}: the seven days to {last.day} {last:%b %Y}",
        f"Probability of a headline on at least one day from {first.day} {first:%b} on. Dot: "
        "published; line: usual.",
        Markup("").join(parts),
        bottom + 18,
        report,
    )


def timeline_chart(report: Report, country: CountryReport, past: Timeline) -> str:
    """What was published of the last judged days, and what came."""
    rows = [_past_said(line, _HEAD + 10 + _LINE * at) for at, line in enumerate(past.lines)]
    bottom = _HEAD + 10 + _LINE * len(past.lines)
    ends = [f"{day.day} {day:%b %Y}" for day in (past.days[0], past.days[-1])]
    rows.append(_text(170, bottom + 8, ends[0], "small"))
    rows.append(_text(WIDTH - 16, bottom + 8, ends[1], "small", "end"))
    told = "in a backtest" if past.source == "backtest" else "as it was published"
    return _card(
        f"{country.name}: what was said, and what came",
        f"Line: probability of a headline, {told}, 0 to 100%. Large dots: it came; small: it did "
        "not.",
        Markup("").join(rows),
        bottom + 16,
        report,
    )


def _past_said(line: PastSaid, top: float) -> Markup:
    """One kind of event: its name, its line, and dots."""
    high, low = top + 10, top + _LINE - 12
    step = (WIDTH - 16 - 170) / max(len(line.published) - 1, 1)
    said, pen = "", "M"
    for at, value in enumerate(line.published):
        if value is None:
            pen = "M"
            continue
        said += f"{pen}{170 + step * at:.1f} {low - (low - high) * value:.1f}"
        pen = "L"
    dots = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(
            kind,
            "".join(
                f"M{170 + step * at:.1f} {y:g}h0" for at, was in enumerate(line.came) if was is came
            ),
        )
        for kind, came, y in (("came", True, high), ("not", False, low))
    )
    known = [came for came in line.came if came is not None]
    expected = sum(value for value in line.published if value is not None)
    return Markup("{}{}{}{}<path class='line' d='{}'/>{}").format(
        _text(16, (high + low) / 2, one_line(line.label, 22)),
        _text(16, (high + low) / 2 + 15, f"came {sum(known)}, expected {expected:.1f}", "small"),
        _rule(170, WIDTH - 16, high),
        _rule(170, WIDTH - 16, low),
        said,
        dots,
    )


def calibration_chart(report: Report, words: str, plot: Markup) -> str:
    """Published probabilities against frequencies."""
    size = Markup('<svg x="150" y="{}" width="340" height="312" ').format(_HEAD)
    return _card(
        f"Said and come: {words}",
        "Published probability (across) and how often it came (up); band: what chance alone fills.",
        Markup(str(plot).replace("<svg ", str(size), 1)),  # noqa: S704 - drawn by views
        _HEAD + 318,
        report,
    )


def map_chart(report: Report) -> str:
    """The map with its legend, zoomed to what is followed."""
    frame = views.map_frame(report)
    height = WIDTH * frame.height / MAP_WIDTH
    lands = Markup("").join(
        Markup('<path class="land {}" d="{}"><title>{}</title></path>').format(
            country.shade, country.path, country.words
        )
        if country.path
        else Markup(
            '<circle class="land {}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>'
        ).format(country.shade, *(country.dot or (0, 0)), frame.dot, country.words)
        for country in views.map_countries(report.countries)
    )
    drawing = Markup('<svg y="{}" width="{}" height="{:.0f}" viewBox="{}">{}</svg>').format(
        _HEAD, WIDTH, height, frame.zoom, lands
    )
    bottom = _HEAD + height
    weekly = views.has_weekly_risk(report.countries)
    return _card(
        "Conflict: any surge within the week" if weekly else "Conflict: largest chance of a surge",
        "At least one kind of conflict with a share of the news above nine tenths of the last 90 "
        "days.",
        drawing + _legend(frame.sequential, bottom + 16),
        bottom + 36,
        report,
    )


# --- parts ----------------------------------------------------------------------------------------


def _card(title: str, unit: str, drawing: Markup, height: float, report: Report) -> str:
    """A whole file: head, drawing, and where it comes from."""
    whole = round(height + _FOOT)
    origin = f"{report.origin.day} {report.origin:%b %Y}"
    source = f"gdelphi, from news up to {origin}. {one_line(report.title, 60)}"
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" '
            'height="{1}" role="img" aria-labelledby="title"><title id="title">{2}</title>'
            '<style>{3}</style><rect class="paper" width="{0}" height="{1}"/>{4}{5}{6}{7}</svg>\n'
        ).format(
            WIDTH,
            whole,
            one_line(title, 90),
            Markup(_style()),  # noqa: S704 - the package's own text
            _text(16, 28, one_line(title, 58), "title"),
            _text(16, 47, unit, "quiet"),
            drawing,
            _text(16, whole - 10, source, "small"),
        )
    )


@cache
def _style() -> str:
    """The rules in both schemes, with the colours of the page."""
    css = (resources.files("gdelphi.report") / "templates" / "base.css").read_text("utf-8")
    blocks = re.findall(r":root[^{,]*\{([^}]*--paper[^}]*)\}", css)[:2]
    light, dark = (dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    drawn = [_coloured(scheme) for scheme in (light, dark)]
    return f"{drawn[0]}@media(prefers-color-scheme:dark){{{drawn[1]}}}"


def _coloured(colours: dict[str, str]) -> str:
    rules = RULES.replace("\n", "")
    return re.sub(r":([A-Z][A-Z0-9]+)", lambda found: ":" + colours[found[1].lower()], rules)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> Markup:
    told = Markup(' class="{}"').format(kind) if kind else ""
    end = Markup(' text-anchor="end"') if anchor == "end" else ""
    return Markup('<text x="{:g}" y="{:g}"{}{}>{}</text>').format(x, round(y, 1), told, end, words)


def _rule(left: float, right: float, y: float) -> Markup:
    return Markup('<path class="grid" d="M{:g} {:g}H{:g}"/>').format(left, y, right)


def _at(value: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(max(value, 0.0), 1.0)


def _scale(top: float, bottom: float) -> Markup:
    """Lines at 0, 50 and 100%, with their numbers below."""
    return Markup("").join(
        Markup('<path class="grid" d="M{0:g} {1:g}V{2:g}"/>{3}').format(
            _at(part), top, bottom, _text(_at(part) - 8, bottom + 13, f"{part * 100:.0f}%", "small")
        )
        for part in (0.0, 0.5, 1.0)
    )


def _dumbbell(y: float, published: float, usual: float | None) -> Markup:
    """What is published, and what is usual."""
    now, was = _at(published), _at(published if usual is None else usual)
    mark = Markup('<path class="usual" d="M{:.1f} {:.1f}v14"/>').format(was, y - 7)
    return Markup(
        '<path class="range" d="M{:.1f} {:.1f}H{:.1f}"/>{}<circle class="said" cx="{:.1f}" '
        'cy="{:.1f}" r="5.5"/>'
    ).format(was, y, now, "" if usual is None else mark, now, y)


def _legend(bounds: Sequence[float], y: float) -> Markup:
    """Colours and what they stand for."""
    words = [f"under {percent(bounds[0])}"]
    words += [f"from {percent(bound)}" for bound in bounds]
    return Markup("").join(
        Markup('<rect class="q{}" x="{}" y="{:g}" width="12" height="12"/>{}').format(
            step, 16 + 98 * step, y - 10, _text(33 + 98 * step, y, text, "small")
        )
        for step, text in enumerate(words)
    )
