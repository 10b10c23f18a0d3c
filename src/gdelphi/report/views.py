"""What the page's template shows of a report: small objects with words and drawings ready.

Drawings are SVG with attributes and classes only: a page whose Content-Security-Policy forbids
inline styles can show them, and colours follow the light or dark scheme.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from gdelphi.common.percent import percent
from gdelphi.common.percent import points as whole_points
from gdelphi.gdelt.countries import other_names
from gdelphi.report.content import (
    Bin,
    Change,
    CountryReport,
    Record,
    RecordWindow,
    Report,
    SkillLine,
)
from gdelphi.report.outlines import HEIGHT, WIDTH, outlines
from gdelphi.report.plain import AGAINST, anchor, one_line

TARGET_WORDS: Final = {"occurs": "is reported", "headline": "headline", "surge": "surge"}
TOP: Final = 3
ROOM: Final = 1.25  # of a zoomed map around what is followed
MOST_ZOOM: Final = 6.0
SEQUENTIAL: Final = (0.10, 0.15, 0.20, 0.30, 0.50)
WEEKLY: Final = (0.30, 0.50, 0.70, 0.80, 0.90)
"""of any surge within seven days, which is much likelier than one on a day"""
DIVERGING: Final = (-0.20, -0.10, -0.03, 0.03, 0.10, 0.20)


# --- numbers --------------------------------------------------------------------------------------


def points(value: float | None) -> str:
    """A difference of probabilities in percentage points, with a sign."""
    if value is None:
        return "–"
    whole = whole_points(value)
    return "0" if whole == 0 else f"{'+' if whole > 0 else '−'}{abs(whole)}"


def direction(value: float | None) -> str:
    """The CSS class of a difference: more, less, or none that shows."""
    whole = whole_points(value or 0.0)
    return "" if whole == 0 else "up" if whole > 0 else "down"


def signed_percent(value: float) -> str:
    """A skill, to a tenth of a per cent."""
    tenth = round(value * 100, 1)
    return "0.0%" if tenth == 0 else f"{'+' if tenth > 0 else '−'}{abs(tenth):.1f}%"


def colour(value: float | None, bounds: Sequence[float], letter: str) -> str:
    """The CSS class of a colour: a letter and the number of bounds that the value has passed."""
    if value is None:
        return "none"
    return f"{letter}{sum(value >= bound for bound in bounds)}"


# --- drawings -------------------------------------------------------------------------------------


def bar_of_change(published: float, before: float) -> Markup:
    """A line from what was to what is, on a scale from never to always."""
    was, now = (8 + 184 * min(max(value, 0.0), 1.0) for value in (before, published))
    direction = "up" if now >= was else "down"
    return Markup(
        '<svg class="dumbbell" viewBox="0 0 200 16" aria-hidden="true">'
        '<line class="track" x1="8" x2="192" y1="8" y2="8"/>'
        '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle class="before" cx="{:.1f}" cy="8" r="4"/>'
        '<circle class="now {}" cx="{:.1f}" cy="8" r="5.5"/></svg>'
    ).format(direction, was, now, was, direction, now)


def sparkline(values: Sequence[int | None]) -> Markup:
    """Reports a day as a line; a day without data is a gap, not a zero."""
    known = [value for value in values if value is not None]
    top, pieces, pen = max(known, default=0) or 1, [], "M"
    for number, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x = 2 + 116 * number / max(len(values) - 1, 1)
        pieces.append(f"{pen}{x:.1f} {22 - 20 * value / top:.1f}")
        pen = "L"
    return Markup(
        '<svg class="spark" viewBox="0 0 120 24" aria-hidden="true"><path d="{}"/></svg>'
    ).format("".join(pieces))


def half_width(lines: Sequence[SkillLine]) -> float:
    """Half the width of the scale that holds all intervals of a table."""
    return max([0.01, *(abs(value) for line in lines for value in (line.low, line.high))])


def interval(line: SkillLine, most: float) -> Markup:
    """A skill with its interval; the middle is the stack."""
    low, mid, high = (
        100 + 92 * max(-1.0, min(1.0, value / most)) for value in (line.low, line.skill, line.high)
    )
    kind = "better" if line.low > 0 else "worse" if line.high < 0 else "unclear"
    return Markup(
        '<svg class="interval {}" viewBox="0 0 200 16" aria-hidden="true">'
        '<line class="zero" x1="100" x2="100" y1="0" y2="16"/>'
        '<line class="range" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle cx="{:.1f}" cy="8" r="4"/></svg>'
    ).format(kind, low, high, mid)


def calibration_plot(bins: Sequence[Bin]) -> Markup:
    """Published probabilities against frequencies, with the band that chance alone would fill."""
    ordered = sorted(bins, key=lambda b: b.said)

    def spot(probability: float, frequency: float) -> str:
        return f"{34 + 200 * probability:.1f},{206 - 200 * frequency:.1f}"

    band = [spot(b.said, b.high) for b in ordered] + [spot(b.said, b.low) for b in ordered[::-1]]
    most = max((b.cells for b in ordered), default=1)
    dots = [
        Markup('<circle cx="{}" cy="{}" r="{:.1f}"><title>{}</title></circle>').format(
            *spot(b.said, b.came).split(","),
            2.5 + 3.5 * (b.cells / most) ** 0.5,
            f"said {percent(b.said)}, came {percent(b.came)} of {b.cells:,} times",
        )
        for b in ordered
    ]
    ticks = [
        Markup(
            '<line class="grid" x1="{0}" x2="{0}" y1="6" y2="206"/>'
            '<line class="grid" x1="34" x2="234" y1="{1}" y2="{1}"/>'
            '<text x="{0}" y="221" text-anchor="middle">{2}</text>'
            '<text x="29" y="{3}" text-anchor="end">{2}</text>'
        ).format(34 + 2 * part, 206 - 2 * part, f"{part}%", 210 - 2 * part)
        for part in (0, 25, 50, 75, 100)
    ]
    return Markup(
        '<svg class="calibration" viewBox="0 0 252 226" role="img" aria-label="{}">{}'
        '<polygon class="band" points="{}"/>'
        '<line class="diagonal" x1="34" y1="206" x2="234" y2="6"/>'
        '<polyline points="{}"/>{}</svg>'
    ).format(
        "; ".join(f"said {percent(b.said)}, came {percent(b.came)}" for b in ordered),
        Markup("").join(ticks),
        " ".join(band),
        " ".join(spot(b.said, b.came) for b in ordered),
        Markup("").join(dots),
    )


# --- parts of the page ----------------------------------------------------------------------------


class MapFrame(NamedTuple):
    """Size and scales of the map."""

    width: float
    height: float
    zoom: str
    """the part of the map that holds what is followed, as a viewBox"""
    dot: float
    """radius of a place that is too small for an outline"""
    sequential: tuple[float, ...]
    diverging: tuple[float, ...]


def map_frame(report: Report) -> MapFrame:
    """The scales of a report's map."""
    zoom = zoom_on(report.countries)
    dot = round(max(4 * float(zoom.split()[2]) / WIDTH, 1.5), 2)
    return MapFrame(WIDTH, HEIGHT, zoom, dot, bounds_of(report.countries), DIVERGING)


def risk_of(country: CountryReport) -> float | None:
    """What countries are coloured and ranked by: that any kind of conflict surges within the week;
    of forecasts that do not say it, the likeliest surge of tomorrow."""
    if country.week and country.week.conflict:
        return country.week.conflict.published
    return country.conflict_surge


def is_whole(report: Report) -> bool:
    """Whether nothing is missing of the last day known."""
    gaps = (gap for gap in report.missing if gap.first <= report.origin <= gap.last)
    return not report.partial and next(gaps, None) is None


def has_weekly_risk(countries: Sequence[CountryReport]) -> bool:
    """Whether that number is said of any country."""
    return any(country.week and country.week.conflict for country in countries)


def bounds_of(countries: Sequence[CountryReport]) -> tuple[float, ...]:
    """The scale of what countries are coloured by."""
    return WEEKLY if has_weekly_risk(countries) else SEQUENTIAL


def zoom_on(countries: Sequence[CountryReport]) -> str:
    """The viewBox that holds the countries that are followed, with room around them and of the
    shape of the whole map; the whole where they lie all over it."""
    boxes = [
        box
        for country in countries
        if (outline := outlines().get(country.stream)) and (box := outline.box)
    ]
    if not boxes:
        return f"0 0 {WIDTH:g} {HEIGHT:g}"
    left, top = (min(box[side] for box in boxes) for side in (0, 1))
    right, bottom = (max(box[side] for box in boxes) for side in (2, 3))
    width = max((right - left) * ROOM, (bottom - top) * ROOM * WIDTH / HEIGHT, WIDTH / MOST_ZOOM)
    width = min(width, WIDTH)
    height = width * HEIGHT / WIDTH
    x = min(max((left + right - width) / 2, 0.0), WIDTH - width)
    y = min(max((top + bottom - height) / 2, 0.0), HEIGHT - height)
    return f"{x:.1f} {y:.1f} {width:.1f} {height:.1f}"


class ChangeView(NamedTuple):
    """One of the watchlist's changes."""

    anchor: str
    name: str
    label: str
    target: str
    published: str
    before: str
    against: str
    difference: str
    direction: str
    reasons: list[str]
    bar: Markup


def change_view(change: Change) -> ChangeView:
    """A change in words, and its drawing."""
    return ChangeView(
        anchor=anchor(change.stream),
        name=one_line(change.name, 48),
        label=one_line(change.label, 80),
        target=TARGET_WORDS[change.target],
        published=percent(change.published),
        before=percent(change.before),
        against=AGAINST[change.against],
        difference=points(change.published - change.before),
        direction="up" if change.published >= change.before else "down",
        reasons=[one_line(reason, 240) for reason in change.reasons],
        bar=bar_of_change(change.published, change.before),
    )


class MapCountry(NamedTuple):
    """A country on the map; `number` is its place in the report, None for what is no stream."""

    path: str
    dot: tuple[float, float] | None
    number: int | None
    anchor: str
    shade: str
    words: str


def map_countries(countries: Sequence[CountryReport]) -> list[MapCountry]:
    """All countries in the order of drawing: dots last, so that nothing covers them."""
    numbers = {country.stream: number for number, country in enumerate(countries)}
    bounds = bounds_of(countries)
    drawn = []
    for fips, outline in outlines().items():
        number = numbers.get(fips)
        if number is None:
            if outline.path:
                drawn.append(MapCountry(outline.path, None, None, "", "none", ""))
            continue
        country = countries[number]
        value = risk_of(country)
        shade = "known" if value is None else colour(value, bounds, "q")
        forecast = "no forecast" if value is None else percent(value)
        words = f"{one_line(country.name, 48)}: {forecast}"
        link = anchor(country.stream)
        drawn.append(MapCountry(outline.path, outline.dot, number, link, shade, words))
    return sorted(drawn, key=lambda country: country.dot is not None)


class Top(NamedTuple):
    """A likely headline."""

    label: str
    chance: str


class CountryRow(NamedTuple):
    """A country in the table."""

    number: int
    anchor: str
    stream: str
    name: str
    full_name: str
    find: str
    """what it is found by: names, codes, labels"""
    watched: bool
    surge: float | None
    surge_label: str
    shade: str
    change: float | None
    change_label: str
    top: list[Top]
    latest: list[str]
    spark: Markup
    reports: int | None


def country_row(number: int, report: Report) -> CountryRow:
    """A country's row of the table."""
    country = report.countries[number]
    # where all are watched, a mark would say nothing
    some_watched = not {other.stream for other in report.countries} <= set(report.watchlist)
    labels = {share.code: share.label for share in country.shares}
    labels |= {p.code: p.label for p in country.probabilities if p.level == "root"}

    def label(code: str | None) -> str:
        return one_line(labels.get(code or "", code or ""), 48)

    headlines = sorted(
        (p for p in country.probabilities if p.level == "root" and p.target == "headline"),
        key=lambda p: p.published,
        reverse=True,
    )
    return CountryRow(
        number=number,
        anchor=anchor(country.stream),
        stream=one_line(country.stream, 12),
        name=one_line(country.name, 48),
        full_name=one_line(country.name, 400),
        find=one_line(
            " ".join([country.name, country.stream, *other_names(country.stream).aliases]), 400
        ),
        watched=some_watched and country.stream in report.watchlist,
        surge=risk_of(country),
        surge_label=_against_usual(country) or label(country.conflict_code),
        shade=colour(risk_of(country), bounds_of(report.countries), "q"),
        change=country.change,
        change_label=label(country.change_code),
        top=[Top(one_line(p.label, 48), percent(p.published)) for p in headlines[:TOP]],
        latest=[one_line(phrase.words, 80) for phrase in country.latest[:TOP]],
        spark=sparkline(country.rows),
        reports=country.rows[-1] if country.rows else None,
    )


def _against_usual(country: CountryReport) -> str:
    """The usual of a country's risk within the week, if the forecast says it."""
    chance = country.week.conflict if country.week else None
    return "" if chance is None else f"usually {percent(chance.usual)}"


class SkillView(NamedTuple):
    """A line of the table of skill, with its drawing."""

    line: SkillLine
    target: str
    drawing: Markup


class WindowView(NamedTuple):
    """A stretch of judged days."""

    window: RecordWindow
    lines: list[SkillView]
    half_width: float


def window_view(window: RecordWindow) -> WindowView:
    """A window with its intervals drawn on one scale."""
    most = half_width(window.lines)
    lines = [
        SkillView(line, TARGET_WORDS[line.target], interval(line, most)) for line in window.lines
    ]
    return WindowView(window, lines, most)


def calibration_plots(record: Record) -> list[tuple[str, Markup]]:
    """A plot for each target that has bins."""
    found = [(words, calibration_of(record, target)) for target, words in TARGET_WORDS.items()]
    return [(words, plot) for words, plot in found if plot]


def calibration_of(record: Record, target: str) -> Markup:
    """The plot of a target; empty if it has no bins."""
    bins = [b for b in record.calibration if b.target == target]
    return calibration_plot(bins) if bins else Markup("")
